"""tools/release.py: all files have one version, and what is wrong with a release is said before anything is built."""

import pathlib
import shutil
import subprocess
import sys

import pytest
import release

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGES = "# Changes\n\n## Unreleased\n\n### Added\n* One.\n\n## 0.1.0 - 2026-01-02\n\n* Zero.\n"


@pytest.fixture
def tree(tmp_path) -> pathlib.Path:
    """The files that have a version."""
    for path in (release.HEADER, *release.PLACES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    return tmp_path


def test_all_files_have_one_version():
    assert release.NUMBER.fullmatch(release.version(ROOT))


@pytest.mark.parametrize("path", release.PLACES)
def test_another_version_in_a_file_is_named(tree, path):
    file = tree / path
    file.write_text(file.read_text().replace(f'"{release.version(tree)}"', '"9.9.9"'))
    with pytest.raises(release.ReleaseError, match=f"^{path} has version '9.9.9', "):
        release.version(tree)


def test_set_writes_all_of_them(tree):
    release.set_version(tree, "12.0.3", "2027-01-01")
    assert release.version(tree) == release.header_version(tree) == "12.0.3"
    changes = (tree / "CHANGELOG.md").read_text()
    assert changes.startswith("# Changes\n\n## Unreleased\n\n## 12.0.3 - 2027-01-01\n\n### Added\n* One.\n")
    assert release.changes_of(changes, "12.0.3") == "### Added\n* One.\n"
    assert release.changes_of(changes, "0.1.0") == "* Zero.\n"
    (tree / "CHANGELOG.md").write_text(changes.replace("### Added\n* One.\n", ""))
    with pytest.raises(release.ReleaseError, match="has no section '## 12.0.3 - "):
        release.changes_of((tree / "CHANGELOG.md").read_text(), "12.0.3")


@pytest.mark.parametrize(
    ("number", "message"),
    [("1.2", "version is '1.2'; allowed: "), ("1.02.0", "version is '1.02.0'; allowed: "), ("0.0.9", "it must be above '0.1.0'")],
)
def test_set_refuses(tree, number, message):
    order = [sys.executable, ROOT / "tools/release.py", "set", number, "--root", tree]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert release.version(tree) == release.version(ROOT)
