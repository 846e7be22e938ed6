"""`make site`: the pages of docs/ and hakobench/docs/ as a site in which every link has a target."""

import pathlib
import shutil
import subprocess
import sys

import pytest
from installing import ROOT

pytestmark = pytest.mark.slow


def build(root: pathlib.Path) -> subprocess.CompletedProcess:
    order = [sys.executable, ROOT / "tools/site_pages.py", "--root", root]
    return subprocess.run(order, capture_output=True, text=True, check=False)


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    """What the site is made from, and the files that its pages link to."""
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "mkdocs.yml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for folder in ("docs", "hakobench/docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("hakobench/README.md", "hakobench/src", "src", "tests", "bench", "include", "cmake", "command", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_site(root):
    done = build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    index = (root / "build/site/index.html").read_text()
    assert 'href="usage.html' in index and 'src="architecture.svg"' in index
    assert "include/hakozuna/hakozuna.h" not in index.replace("hakozuna/hakozuna.h</code>", ""), "the site has no sources"
    assert 'href="decisions/depot.html"' in (root / "build/site/architecture.html").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[one](usage.md#no-such-heading)", "no-such-heading"),
        ("[one](gone.md)", "install.md: no file 'gone.md'"),
        ("[one](https://example.org) `[two](gone.md)`", ""),
    ],
)
def test_a_link_without_a_target_ends_the_build(root, text, message):
    page = root / "docs/install.md"
    page.write_text(f"{page.read_text()}\n{text}\n")
    done = build(root)
    assert (done.returncode == 0) == (message == ""), done.stdout + done.stderr
    assert message in done.stdout + done.stderr
