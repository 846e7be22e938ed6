"""`make release` in a clone: all that a release publishes, twice in different folders, with the same bytes."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from installing import CONFIG, ROOT, run
from tools_venv import BIN

pytestmark = pytest.mark.slow
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read()))
"""


def git(folder: pathlib.Path, *words: str) -> str:
    who = ("-c", "user.name=Test", "-c", "user.email=test@localhost.invalid")
    date = {"GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z", "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z"}
    return run("git", "-C", folder, *who, *words, **date)


def clone(folder: pathlib.Path, version: str) -> pathlib.Path:
    """The tree as it is, committed as a release; one lane, since it is built twice."""
    run("git", "clone", "--quiet", "--shared", ROOT, folder)
    listed = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        source, target = ROOT / name, folder / name
        if source.exists() and not source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode & 0o777)
        elif source.is_symlink() and not target.is_symlink():
            target.symlink_to(source.readlink())
    all_lanes, all_targets = '"hz3/scale;hz3/fast;hz3/p32;hz3/percpu;hz3/home;hz4;hz4/home"', re.compile(r"build\.targets = .*")
    for name in ("CMakePresets.json", "pyproject.toml"):
        text = (folder / name).read_text()
        assert all_lanes in text
        (folder / name).write_text(all_targets.sub('build.targets = ["hakozuna_hz3_scale"]', text.replace(all_lanes, '"hz3/scale"')))
    run(sys.executable, folder / "tools/release.py", "set", version)
    changes = folder / "CHANGELOG.md"  # whichever day it is
    changes.write_text(re.sub(rf"(## {version} - ).*", r"\g<1>2026-01-02", changes.read_text()))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", f"Release {version}")
    return folder


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> list[pathlib.Path]:
    folders = [tmp_path_factory.mktemp("one") / "tree", tmp_path_factory.mktemp("another-with-a-longer-name") / "deeper/tree"]
    folders[1].parent.mkdir()
    run("git", "clone", "--quiet", clone(folders[0], "0.2.0"), folders[1])
    for folder in folders:
        run(sys.executable, folder / "tools/release.py", "build", PATH=f"{os.environ['PATH']}:{BIN}")  # for auditwheel
    return [folder / "build/dist" for folder in folders]


def digests(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_two_builds_give_the_same_bytes(releases):
    one, other = map(digests, releases)
    assert one == other


def test_everything_is_there(releases):
    names = [re.sub(r"(?<=[_.])(?:2_\d+_)?(amd64|arm64|x86_64|aarch64)(?=\.)", "ARCH", name) for name in digests(releases[0])]
    debian = [f"{name}_0.2.0_ARCH.deb" for name in ("libhakozuna-dev", "libhakozuna-tools", "libhakozuna0")] + ["hakobench_0.2.0_all.deb"]
    own = ["hakozuna-0.2.0.tar.gz", "hakozuna-0.2.0.crate", "hakozuna-0.2.0.cdx.json", "hakozuna-0.2.0-py3-none-manylinux_ARCH.whl"]
    rpm = [f"{name}-0.2.0-1.ARCH.rpm" for name in ("libhakozuna-devel", "libhakozuna-tools", "libhakozuna0")] + ["hakobench-0.2.0-1.noarch.rpm"]
    assert sorted(names) == sorted(
        ["CHANGES-0.2.0.md", "SHA256SUMS", *debian, *rpm, "libhakozuna0-dbgsym_0.2.0_ARCH.ddeb", *own, "hakobench-0.2.0-py3-none-any.whl"]
    )
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=releases[0], check=False)
    assert done.returncode == 0
    assert "### Added" in (releases[0] / "CHANGES-0.2.0.md").read_text()


def test_bill_of_materials(releases, tmp_path):
    bill = releases[0] / "hakozuna-0.2.0.cdx.json"
    assert run(BIN / "python", "-c", VALIDATE, bill).strip() == "None"
    facts = json.loads(bill.read_text())
    hashes = {part["name"]: part["hashes"][0]["content"] for part in facts["components"] if part["type"] == "file"}
    published = digests(releases[0])
    assert len(hashes) > 7 and hashes == {name: published[name] for name in hashes}
    wrong = tmp_path / "wrong.json"
    wrong.write_text(bill.read_text().replace('"type": "file"', '"type": "fiel"', 1))
    assert run(BIN / "python", "-c", VALIDATE, wrong).strip() != "None"


def test_the_source_archive_builds(releases, tmp_path):
    run("tar", "-C", tmp_path, "-xf", releases[0] / "hakozuna-0.2.0.tar.gz")
    tree = tmp_path / "hakozuna-0.2.0"
    assert not (tree / ".git").exists() and (tree / "LICENSE").is_file()
    options = ("-DHAKOZUNA_BUILD_TESTS=OFF", "-DHAKOZUNA_BUILD_BENCHMARKS=OFF", "-DHAKOZUNA_LANES=hz3/scale", "-DHAKOZUNA_LTO=OFF", "-DHZ_UNITY=ON")
    run("cmake", "-S", tree, "-B", tmp_path / "build", "-G", "Ninja", *options)
    run("cmake", "--build", tmp_path / "build", "--target", "libs")
    order = {"LD_PRELOAD": str(tmp_path / "build/lib/libhakozuna.so.0"), "HAKOZUNA_SHOW_CONFIG": "2"}
    assert f"{CONFIG}0.2.0 " in subprocess.run(["true"], env=order, capture_output=True, text=True, check=True).stderr


def test_a_changed_tree_is_refused(releases):
    tree = releases[0].parents[1]
    (tree / "README.md").write_text("changed\n")
    done = subprocess.run([sys.executable, tree / "tools/release.py", "build"], capture_output=True, text=True, check=False)
    git(tree, "checkout", "README.md")
    assert done.returncode == 1
    assert done.stderr.startswith("release: files differ from the last commit")
    assert digests(releases[0]), "and nothing was removed"
