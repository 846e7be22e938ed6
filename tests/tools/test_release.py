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


def git(folder: pathlib.Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def history(tmp_path) -> pathlib.Path:
    """A repository whose suite `old` was measured before the library changed, and `new` after that."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "src").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "bench/results").mkdir(parents=True)
    (tmp_path / "bench/results/README.md").write_text("no suite\n")
    for suite, text in (("old", "int a;\n"), ("new", "int b;\n")):
        (tmp_path / "src/one.c").write_text(text)
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "library")
        commit = git(tmp_path, "rev-parse", "--short", "HEAD")
        (tmp_path / f"bench/results/{suite}.md").write_text(f"<!-- results: x.csv.gz -->\n* commit: {commit}\n")
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "results")
    return tmp_path


def test_evidence_names_what_was_measured_with_another_library(history):
    lines, is_one = release.evidence(history)
    assert not is_one
    assert [line.split(maxsplit=2)[::2] for line in lines] == [["new", "of this library"], ["old", "1 changed files since"]]
    (history / "bench/results/old.md").unlink()
    assert release.evidence(history)[1]


def test_a_page_without_a_commit_is_named(history):
    (history / "bench/results/old.md").write_text("<!-- results: x.csv.gz -->\n")
    with pytest.raises(release.ReleaseError, match=r"^bench/results/old.md names no commit"):
        release.evidence(history)


def test_every_page_of_a_suite_names_a_commit_of_this_history():
    assert release.measured(ROOT)
    release.evidence(ROOT)
