"""The Debian packages, made by cpack: unpacked into an empty folder, and installed into an empty Debian."""

import gzip
import pathlib
import re
import shutil
from collections.abc import Iterator

import clean_root
import pytest
from clean_root import CleanRoot
from installing import CONFIG, PROGRAMS, ROOT, linked_configuration, run, shown_configuration

pytestmark = pytest.mark.slow
PRESET = "package"


def name_of(package: pathlib.Path) -> str:
    return package.name.partition("_")[0]


def unpack(package: pathlib.Path, folder: pathlib.Path) -> None:
    run("dpkg", "-x", package, folder)


def field(package: pathlib.Path, name: str) -> str:
    return run("dpkg-deb", "-f", package, name).strip()


def test_packages(packages):
    assert sorted(packages) == ["hakobench", "libhakozuna-dev", "libhakozuna-tools", "libhakozuna0", "libhakozuna0-dbgsym"]
    assert field(packages["libhakozuna0"], "Depends").startswith("libc6 (>= ")
    version = field(packages["libhakozuna0"], "Version")
    for name in ("libhakozuna-dev", "libhakozuna-tools"):
        assert field(packages[name], "Depends") == f"libhakozuna0 (= {version})"
    shlibs = run("dpkg-deb", "-I", packages["libhakozuna0"], "shlibs").splitlines()
    assert [line.split()[:3] for line in shlibs if line.startswith(("libhakozuna ", "libhakozuna-hz4 "))] == [
        ["libhakozuna", "0", "libhakozuna0"],
        ["libhakozuna-hz4", "0", "libhakozuna0"],
    ]
    assert "ldconfig" in run("dpkg-deb", "-I", packages["libhakozuna0"], "triggers")
    assert field(packages["hakobench"], "Architecture") == "all"


def test_hakobench_wants_what_its_project_says(packages):
    """The two lists of what it needs have the same versions."""
    project = (ROOT / "hakobench/pyproject.toml").read_text()
    wanted = re.findall(r'"(\w+)>=([\d.]+)"', re.search(r"(?m)^dependencies = \[.*\]$", project)[0])
    found = re.findall(r"python3-(\w+) \(>= (?:1:)?([\d.]+)\)", field(packages["hakobench"], "Depends"))
    assert sorted(wanted) == sorted(found) and len(found) == 4


def test_one_maintainer(packages):
    """All name the same one, who also has the copyright."""
    (maintainer,) = {field(package, "Maintainer") for package in packages.values()}
    name, _, address = maintainer.partition(" <")
    assert f"Copyright (c) 2026 {name}\n" in (ROOT / "LICENSE").read_text()
    assert re.fullmatch(r"[\w.+-]+@[\w.-]+>", address)


def test_another_maintainer(tmp_path):
    wrong = pytest.raises(AssertionError, match="HAKOZUNA_MAINTAINER is 'me'; allowed: NAME <ADDRESS>")
    with wrong:
        run("cmake", "--preset", PRESET, "-S", ROOT, "-B", tmp_path, "-DHAKOZUNA_MAINTAINER=me")
    run("cmake", "--preset", PRESET, "-S", ROOT, "-B", tmp_path, "-DHAKOZUNA_MAINTAINER=A Person <person@example.org>")
    assert 'CPACK_PACKAGE_CONTACT "A Person <person@example.org>"' in (tmp_path / "CPackConfig.cmake").read_text()


def test_the_command(unpacked):
    assert shown_configuration(unpacked / "usr/bin/hakozuna", "true").startswith(CONFIG)
    for path in ("bash-completion/completions/hakozuna", "zsh/vendor-completions/_hakozuna"):
        assert (unpacked / "usr/share" / path).is_file()
    for page, head in (("1/hakozuna.1", b".TH HAKOZUNA 1 "), ("7/hakozuna.7", b".TH HAKOZUNA 7 "), ("3/hz_malloc.3", b".TH HZ_MALLOC 3 "),
                       ("3/hz_free.3", b".so man3/hz_malloc.3"), ("1/hakobench.1", b".TH HAKOBENCH 1 ")):  # fmt: skip
        assert gzip.decompress((unpacked / f"usr/share/man/man{page}.gz").read_bytes()).startswith(head)


def test_lintian_has_nothing_to_say(packages):
    known = "initial-upload-closes-no-bugs,no-manual-page"
    named = [package for package in packages.values() if package.suffix == ".deb"]  # debug symbols have no documents
    run("lintian", "--fail-on", "error,warning", "--suppress-tags", known, *named)


@pytest.mark.parametrize("package", ["hakozuna", "hakozuna-static"])
def test_development(unpacked, tmp_path, package):
    (lib,) = (unpacked / "usr/lib").glob("*/libhakozuna.so.0")
    assert linked_configuration(lib.parent, package, tmp_path / "ours").startswith(CONFIG)


def test_the_debug_information_is_apart(unpacked):
    (lib,) = (unpacked / "usr/lib").glob("*/libhakozuna.so.0")
    assert ".debug_info" not in run("readelf", "-S", "--wide", lib)
    symbols = list((unpacked / "usr/lib/debug/.build-id").rglob("*.debug"))
    assert len(symbols) == len(list(lib.parent.glob("libhakozuna*.so.0")))


@pytest.fixture
def root(packages, tmp_path) -> Iterator[CleanRoot]:
    """An empty Debian with the packages as files."""
    root = CleanRoot(tmp_path / "root")
    for package in packages.values():
        run("cp", package, root.folder)
    yield root
    shutil.rmtree(root.folder)


@clean_root.needed
def test_dpkg_installs_and_removes_them(root, packages):
    """From outside, as an image is made: dpkg --root, without anything from a mirror."""
    names = ["libhakozuna0", "libhakozuna-tools", "libhakozuna-dev", "libhakozuna0-dbgsym"]
    run("dpkg", f"--root={root.folder}", "--install", *(packages[name] for name in names))
    shown = root.call("hakozuna", "-l", "hz4", "date", HAKOZUNA_SHOW_CONFIG="2")
    assert shown.returncode == 0 and "\nengine=hz4 lane=default " in shown.stderr
    linked = root.run("ldconfig", "-p")
    assert linked.count("libhakozuna.so.0 ") == 1, "the trigger has made the cache again"
    run("dpkg", f"--root={root.folder}", "--verify", *names)
    run("dpkg", f"--root={root.folder}", "--purge", *reversed(names))
    assert [path for path in (root.folder / "usr").rglob("*hakozuna*")] == []
    assert "hakozuna" not in root.run("ldconfig", "-p")


@clean_root.needed
def test_a_program_in_an_empty_debian(root, packages):
    """One declared dependency: apt brings the library with the development package."""
    root.apt_install("gcc", "libc6-dev", "pkgconf", *(f"/{packages[name].name}" for name in ("libhakozuna-dev", "libhakozuna0")))
    run("cp", PROGRAMS / "ours.c", root.folder)
    root.run("sh", "-c", "gcc -O2 -flto /ours.c $(pkg-config --cflags --libs hakozuna) -o /ours")
    assert root.run("/ours").startswith(CONFIG)


@clean_root.needed
def test_hakobench_in_an_empty_debian(root, packages):
    """It finds the installed libraries, builds its programs, and leaves nothing behind."""
    names = ("hakobench", "libhakozuna0", "libhakozuna-tools")
    root.apt_install("gcc", "libc6-dev", *(f"/{packages[name].name}" for name in names))
    assert root.run("hakobench", "--version").startswith("hakobench, version 0.")
    assert list((root.folder / "usr/share/hakobench").rglob("*.pyc")), "compiled when it was installed"
    few = "--allocators glibc,hakozuna,hz4 --rounds 1 --scale 0.01 --force"
    root.run("sh", "-c", f"cd /srv && hakobench run smoke {few}")
    (results,) = (root.folder / "srv/hakobench-results").glob("smoke-*.csv")
    text = results.read_text()
    assert CONFIG in text and "engine=hz4 lane=default" in text and ",glibc," in text
    root.run("dpkg", "--purge", "hakobench")
    assert not (root.folder / "usr/share/hakobench").exists()
