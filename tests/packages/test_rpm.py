"""The RPM packages, made by cpack and unpacked into an empty root."""

import pathlib
import shlex
import subprocess

import pytest
from installing import CONFIG, PROGRAMS, ROOT, run

pytestmark = pytest.mark.slow
BUILD = ROOT / "build/rpm"


@pytest.fixture(scope="module")
def packages() -> dict[str, pathlib.Path]:
    run("cmake", "--preset", "rpm", "-S", ROOT)
    run("cmake", "--build", BUILD, "--target", "libs")
    for old in (BUILD / "packages").glob("*.rpm"):
        old.unlink()
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", BUILD / "packages")
    return {path.name.rsplit("-", 2)[0]: path for path in (BUILD / "packages").glob("*.rpm")}


@pytest.fixture(scope="module")
def root(packages, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("root")
    for package in packages.values():
        run("sh", "-c", f"cd {shlex.quote(str(folder))} && rpm2cpio {shlex.quote(str(package))} | cpio --quiet -idm")
    return folder


def test_packages(packages):
    assert sorted(packages) == ["libhakozuna-devel", "libhakozuna-tools", "libhakozuna0"]
    requires = run("rpm", "-qp", "--requires", packages["libhakozuna0"])
    assert "libc.so.6(GLIBC_" in requires
    assert "libhakozuna.so.0()(64bit)" in run("rpm", "-qp", "--provides", packages["libhakozuna0"])
    for name in ("libhakozuna-devel", "libhakozuna-tools"):
        assert "libhakozuna0 = " in run("rpm", "-qp", "--requires", packages[name])
    assert "/sbin/ldconfig" in run("rpm", "-qp", "--scripts", packages["libhakozuna0"])


def test_the_command(root):
    shown = subprocess.run([root / "usr/bin/hakozuna", "true"], env={"HAKOZUNA_SHOW_CONFIG": "1", "PATH": "/usr/bin:/bin"},
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert shown.stderr.startswith(CONFIG)
    assert (root / "usr/share/man/man7/hakozuna.7.gz").is_file()


@pytest.mark.parametrize("package", ["hakozuna", "hakozuna-static"])
def test_development(root, tmp_path, package):
    lib = root / "usr/lib64"
    flags = run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=f"{lib}/pkgconfig")
    run("gcc", "-flto", PROGRAMS / "ours.c", *shlex.split(flags), f"-Wl,-rpath,{lib}", "-o", tmp_path / "ours")
    assert run(tmp_path / "ours").startswith(CONFIG)
    assert ".debug_info" not in run("readelf", "-S", "--wide", lib / "libhakozuna.so.0")
