"""The libraries of preset `older-glibc`, which `zig cc` builds for glibc 2.17, need no later glibc, and run here."""

import pathlib
import re
import subprocess

import pytest
from installing import ABI, CONFIG, PROGRAMS, ROOT, abi, run

pytestmark = pytest.mark.slow
GLIBC = (2, 17)
C11_THREADS = ROOT / "tests/preload/programs/c11_threads.c"


@pytest.fixture(scope="module")
def lib() -> pathlib.Path:
    run("cmake", "--preset", "older-glibc", "-S", ROOT)
    run("cmake", "--build", ROOT / "build/older-glibc", "--target", "libs")
    return ROOT / "build/older-glibc/lib"


def newest_glibc(library: pathlib.Path) -> tuple[int, ...]:
    versions = re.findall(r"\(GLIBC_([\d.]+)\)", run("objdump", "-T", library))
    return max(tuple(map(int, version.split("."))) for version in versions)


@pytest.mark.parametrize("name", ["hakozuna", "hakozuna-hz4"])
def test_asks_for_no_later_glibc(lib, name):
    assert newest_glibc(lib / f"lib{name}.so.0") <= GLIBC


def test_the_machines_own_glibc_would_be_found(tmp_path):
    """The test above can fail: the machine's own compiler links pthread_create with the version it has since glibc 2.34."""
    source = "#include <pthread.h>\nvoid *it(void);\nvoid *it(void) { return (void *)pthread_create; }\n"
    (tmp_path / "it.c").write_text(source)
    run("gcc", "-shared", "-fPIC", tmp_path / "it.c", "-o", tmp_path / "libit.so")
    assert newest_glibc(tmp_path / "libit.so") >= (2, 34)


def test_exports_what_every_library_does(lib):
    assert abi(lib / "libhakozuna.so.0") == ABI.read_text().splitlines()


def test_runs_here(lib, tmp_path):
    run("gcc", "-O2", "-pthread", C11_THREADS, "-o", tmp_path / "threads")
    order = {"LD_PRELOAD": str(lib / "libhakozuna.so.0"), "HAKOZUNA_SHOW_CONFIG": "2"}
    ran = subprocess.run([tmp_path / "threads"], env=order, capture_output=True, text=True, check=True)
    assert ran.stdout == "42\nkeeper\n"
    assert CONFIG in ran.stderr
    run("gcc", "-O2", f"-I{ROOT}/include", PROGRAMS / "ours.c", lib / "hakozuna.o", "-pthread", "-o", tmp_path / "ours")
    assert run(tmp_path / "ours").startswith(CONFIG)
