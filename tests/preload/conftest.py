"""Real programs under LD_PRELOAD of the library that HZ_LIB names.

`preloading.py` says how a preload that had no effect is noticed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.register_assert_rewrite("preloading", "servers")  # so that a failed assertion there shows its values

from preloading import TIMEOUT_SECONDS, Preload, clean_environment, describe, required  # noqa: E402 - after the line above

# The tests import from here what they share.
__all__ = [
    "PROGRAMS", "ROOT", "TIMEOUT_SECONDS", "Preload", "archive_of", "clean_environment", "compile_c", "describe", "exported_names",
    "required",
]  # fmt: skip

TESTS = Path(__file__).resolve().parent
PROGRAMS = TESTS / "programs"
ROOT = TESTS.parent.parent


def library_from_environment() -> Path:
    value = os.environ.get("HZ_LIB")
    if not value:
        raise pytest.UsageError(
            "HZ_LIB is not set; give the path of the library to preload, "
            "for example HZ_LIB=$PWD/build/lib/libhakozuna.so"
        )
    path = Path(value).resolve()
    if not path.is_file():
        raise pytest.UsageError(f"HZ_LIB is '{value}', which is not a file; want the path of a shared library")
    return path


def pytest_sessionstart(session: pytest.Session) -> None:
    del session
    library_from_environment()


def archive_of(library: Path) -> Path:
    """libhakozuna.so.0.1.0 -> libhakozuna.a"""
    return library.with_name(library.name.partition(".so")[0] + ".a")


def exported_names(library: Path) -> set[str]:
    """The dynamic symbols that a library defines, without versions."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(library)], check=True, capture_output=True, text=True
    )
    return {line.split()[0].split("@")[0] for line in listing.stdout.splitlines() if line}


@pytest.fixture(scope="session")
def library() -> Path:
    return library_from_environment()


@pytest.fixture(scope="session")
def is_ours(library: Path) -> bool:
    return "hz_config_string" in exported_names(library)


@pytest.fixture
def ours_only(is_ours: bool) -> None:
    if not is_ours:
        pytest.skip("only promised by hakozuna; HZ_LIB is another allocator")


@pytest.fixture
def preload(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Preload:
    return Preload(library, tmp_path_factory.mktemp("ld"))


def compile_c(source: str, output: Path, *flags: str) -> Path:
    """Compiles a source of programs/ for this test run."""
    subprocess.run(
        [
            required("cc"), "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin",
            str(PROGRAMS / source), "-o", str(output), *flags, "-pthread", "-ldl",
        ],
        check=True,
    )  # fmt: skip
    return output
