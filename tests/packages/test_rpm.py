"""The RPM packages, made by cpack and unpacked into an empty root."""

import pathlib
import shlex
import subprocess

import pytest
from installing import CONFIG, linked_configuration, run, shown_configuration

pytestmark = pytest.mark.slow
PRESET = "rpm"


def name_of(package: pathlib.Path) -> str:
    return package.name.rsplit("-", 2)[0]


def unpack(package: pathlib.Path, folder: pathlib.Path) -> None:
    run("sh", "-c", f"cd {shlex.quote(str(folder))} && rpm2cpio {shlex.quote(str(package))} | cpio --quiet -idm")


def test_packages(packages):
    assert sorted(packages) == ["hakobench", "libhakozuna-devel", "libhakozuna-tools", "libhakozuna0"]
    requires = run("rpm", "-qp", "--requires", packages["libhakozuna0"])
    assert "libc.so.6(GLIBC_" in requires
    assert "libhakozuna.so.0()(64bit)" in run("rpm", "-qp", "--provides", packages["libhakozuna0"])
    for name in ("libhakozuna-devel", "libhakozuna-tools"):
        assert "libhakozuna0 = " in run("rpm", "-qp", "--requires", packages[name])
    assert "/sbin/ldconfig" in run("rpm", "-qp", "--scripts", packages["libhakozuna0"])
    assert run("rpm", "-qp", "--qf", "%{arch} %{vendor}", packages["hakobench"]) == "noarch Hakozuna maintainers"
    assert "python3-scipy" in run("rpm", "-qp", "--requires", packages["hakobench"])


def test_the_command(unpacked):
    assert shown_configuration(unpacked / "usr/bin/hakozuna", "true").startswith(CONFIG)
    assert (unpacked / "usr/share/man/man7/hakozuna.7.gz").is_file()


def test_hakobench_has_its_parts(unpacked):
    """Its modules are those of the tree; the Debian package runs them."""
    modules = unpacked / "usr/share/hakobench"
    assert (modules / "hakobench/sources/workloads").is_dir() and (unpacked / "usr/share/man/man1/hakobench.1.gz").is_file()
    plain = {"PATH": "/usr/bin:/bin"}  # and no PYTHONPATH
    done = subprocess.run([unpacked / "usr/bin/hakobench", "--version"], env=plain, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "No module named 'hakobench'" in done.stderr  # it looks nowhere else
    assert 'sys.path.insert(0, "/usr/share/hakobench")' in (unpacked / "usr/bin/hakobench").read_text()


@pytest.mark.parametrize("package", ["hakozuna", "hakozuna-static"])
def test_development(unpacked, tmp_path, package):
    lib = unpacked / "usr/lib64"
    assert linked_configuration(lib, package, tmp_path / "ours").startswith(CONFIG)
    assert ".debug_info" not in run("readelf", "-S", "--wide", lib / "libhakozuna.so.0")
