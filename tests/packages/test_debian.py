"""The Debian packages, made by cpack and unpacked into an empty root."""

import gzip
import pathlib
import shlex
import subprocess

import pytest
from installing import CONFIG, PROGRAMS, ROOT, run

pytestmark = pytest.mark.slow
BUILD = ROOT / "build/package"


@pytest.fixture(scope="module")
def packages() -> dict[str, pathlib.Path]:
    run("cmake", "--preset", "package", "-S", ROOT)
    run("cmake", "--build", BUILD, "--target", "libs")
    for old in (BUILD / "packages").glob("*deb"):
        old.unlink()
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", BUILD / "packages")
    return {path.name.partition("_")[0]: path for path in (BUILD / "packages").glob("*deb")}


@pytest.fixture(scope="module")
def root(packages, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("root")
    for package in packages.values():
        run("dpkg", "-x", package, folder)
    return folder


def field(package: pathlib.Path, name: str) -> str:
    return run("dpkg-deb", "-f", package, name).strip()


def test_packages(packages):
    assert sorted(packages) == ["libhakozuna-dev", "libhakozuna-tools", "libhakozuna0", "libhakozuna0-dbgsym"]
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


def test_the_command(root):
    shown = subprocess.run([root / "usr/bin/hakozuna", "true"], env={"HAKOZUNA_SHOW_CONFIG": "1", "PATH": "/usr/bin:/bin"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert shown.stderr.startswith(CONFIG)
    for page, head in (("1/hakozuna.1", b".TH HAKOZUNA 1 "), ("7/hakozuna.7", b".TH HAKOZUNA 7 "), ("3/hz_malloc.3", b".TH HZ_MALLOC 3 "),
                       ("3/hz_free.3", b".so man3/hz_malloc.3")):  # fmt: skip
        assert gzip.decompress((root / f"usr/share/man/man{page}.gz").read_bytes()).startswith(head)


def test_lintian_has_nothing_to_say(packages):
    known = "initial-upload-closes-no-bugs,no-manual-page"
    named = [package for package in packages.values() if package.suffix == ".deb"]  # debug symbols have no documents
    run("lintian", "--fail-on", "error,warning", "--suppress-tags", known, *named)


@pytest.mark.parametrize("package", ["hakozuna", "hakozuna-static"])
def test_development(root, tmp_path, package):
    (lib,) = (root / "usr/lib").glob("*/libhakozuna.so.0")
    flags = run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=f"{lib.parent}/pkgconfig")
    run("gcc", "-flto", PROGRAMS / "ours.c", *shlex.split(flags), f"-Wl,-rpath,{lib.parent}", "-o", tmp_path / "ours")
    assert run(tmp_path / "ours").startswith(CONFIG)


def test_the_debug_information_is_apart(root):
    (lib,) = (root / "usr/lib").glob("*/libhakozuna.so.0")
    assert ".debug_info" not in run("readelf", "-S", "--wide", lib)
    symbols = list((root / "usr/lib/debug/.build-id").rglob("*.debug"))
    assert len(symbols) == len(list(lib.parent.glob("libhakozuna*.so.0")))
