"""`make site`: the pages of the repository as a site in which every link has a target."""

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
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "mkdocs.yml", "packaging/site.css"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    for folder in ("docs", "hakobench/docs", "bench/results", "bench/documents"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("hakobench/README.md", "hakobench/src", "src", "tests", "bench/README.md", "bench/apps", "bench/workloads", "bench/coherence", "bench/trace", "include", "cmake", "command", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_site(root):
    done = build(root)
    assert done.returncode == 0, done.stdout + done.stderr
    index = (root / "build/site/index.html").read_text()
    architecture = (root / "build/site/architecture.html").read_text()
    assert 'href="usage.html' in index and 'src="architecture.svg"' in architecture
    assert "include/hakozuna/hakozuna.h" not in index.replace("hakozuna/hakozuna.h</code>", ""), "the site has no sources"
    assert 'src="results/first/over-time.svg"' in index and (root / "build/site/results/first/over-time.svg").is_file()
    assert 'href="results/first.html' in index, "each figure has its page"
    assert 'href="decisions/depot.html"' in architecture


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
