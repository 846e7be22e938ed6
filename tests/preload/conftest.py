"""Real programs under LD_PRELOAD of the library that HZ_LIB names.

Each program runs with the dynamic linker's log (LD_DEBUG=libs). The log shows for every process, including children,
whether the library was initialised there, so a preload that had no effect cannot pass as a success.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PROGRAMS = TESTS / "programs"
ROOT = TESTS.parent.parent
# A program that hangs fails its test after this time.
TIMEOUT_SECONDS = 240


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


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a minute or more; runs with HZ_SLOW=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HZ_SLOW") == "1":
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="slow; HZ_SLOW=1 runs it"))


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


def required(name: str) -> str:
    """The path of a program that tools/setup installs."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"'{name}' is not installed; run tools/setup")
    return path


def clean_environment() -> dict[str, str]:
    dropped = ("LD_PRELOAD", "LD_DEBUG", "LD_DEBUG_OUTPUT", "HAKOZUNA_SHOW_CONFIG", "PYTHONMALLOC")
    return {key: value for key, value in os.environ.items() if key not in dropped}


@dataclass
class Preload:
    """Runs programs with the library preloaded, and checks that it really was."""

    library: Path
    log_directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, **extra: str) -> dict[str, str]:
        """Environment variables that preload the library and make the dynamic linker log what it initialises."""
        return clean_environment() | {
            "LD_PRELOAD": str(self.library),
            "LD_DEBUG": "libs",
            "LD_DEBUG_OUTPUT": str(self.log_directory / "ld"),
            **self.variables,
            **extra,
        }

    def processes(self) -> int:
        """The number of processes that have initialised the library so far."""
        line = f"calling init: {self.library}"
        return sum(line in log.read_text(errors="replace") for log in self.log_directory.glob("ld.*"))

    def run(
        self,
        *command: str | Path,
        check: bool = True,
        preload: bool = True,
        least_processes: int = 1,
        variables: dict[str, str] | None = None,
        **options: object,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end; with `check` it must exit with 0."""
        before = self.processes()
        environment = self.environment() if preload else clean_environment()
        result = subprocess.run(
            [str(part) for part in command],
            env=environment | (variables or {}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            errors="replace",
            **options,
        )
        if check:
            assert result.returncode == 0, describe(result)
        if preload:
            assert self.processes() >= before + least_processes, f"the preload took no effect: {describe(result)}"
        return result


def describe(result: subprocess.CompletedProcess[str]) -> str:
    return (
        f"{' '.join(result.args)} exited with {result.returncode}\n"
        f"--- stdout\n{result.stdout[-3000:]}\n--- stderr\n{result.stderr[-3000:]}"
    )


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
