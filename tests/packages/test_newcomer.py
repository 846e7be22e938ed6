"""The first minutes of a newcomer, in an empty Debian: from a clone to the end of `make run`, and from a package to a program
that is preloaded. `make newcomer` prints the times; docs/install.md shows some."""

import pathlib
import shutil
import time
from collections.abc import Iterator

import clean_root
import pytest
from clean_root import CleanRoot
from installing import CONFIG, ROOT, run

pytestmark = [pytest.mark.slow, clean_root.needed]
PRESET = "package"
CLONE_SECONDS = 180
PACKAGE_SECONDS = 10


def name_of(package: pathlib.Path) -> str:
    return package.name.partition("_")[0]


@pytest.fixture
def root(tmp_path) -> Iterator[CleanRoot]:
    root = CleanRoot(tmp_path / "root")
    yield root
    shutil.rmtree(root.folder)


@pytest.fixture
def tell(capsys):
    """Prints to the terminal."""

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", flush=True)

    return tell


def test_from_a_clone_to_real_programs(root, tell):
    """The last commit, since that is what a clone gets. Git and make are there before, as on a machine of who clones."""
    root.apt_install("ca-certificates", "git", "make")
    run("git", "clone", "--quiet", "--bare", ROOT, root.folder / "hakozuna.git")
    begin = time.monotonic()
    root.run("git", "-c", "safe.directory=*", "clone", "--quiet", "/hakozuna.git", "/srv/hakozuna")
    printed = root.run("make", "-C", "/srv/hakozuna", "run")
    seconds = time.monotonic() - begin
    tell(f"a clone to the end of `make run`: {seconds:.0f} s")
    assert printed.count("results correct") == 3 and "redis-server under redis-benchmark" in printed
    assert seconds < CLONE_SECONDS
    # and nothing that only tests need
    assert root.call("dpkg-query", "-W", "chromium", "valgrind").returncode != 0


def test_from_a_package_to_a_preloaded_program(root, packages, tell):
    for package in packages.values():
        run("cp", package, root.folder)
    begin = time.monotonic()
    root.run("dpkg", "-i", *(f"/{packages[name].name}" for name in ("libhakozuna0", "libhakozuna-tools")))
    shown = root.call("hakozuna", "date", HAKOZUNA_SHOW_CONFIG="2")
    seconds = time.monotonic() - begin
    tell(f"a package to a preloaded program: {seconds:.1f} s")
    assert shown.returncode == 0 and CONFIG in shown.stderr
    assert seconds < PACKAGE_SECONDS
