"""Runs programs with a library preloaded, and checks that it really was: shared by tests/preload and tests/apps.

Each program runs with the dynamic linker's log (LD_DEBUG=libs). The log shows for every process, including children,
whether the library was initialised there, so a preload that had no effect cannot pass as a success.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

# A program that hangs fails its test after this time.
TIMEOUT_SECONDS = 240
# In a log: a shared library is initialised, and later the program that it is part of.
INITIALISED = re.compile(r"calling init: (?P<library>\S+)|initialize program: (?P<program>\S+)")


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
        """The number of programs that have initialised the library so far."""
        return self.programs().total()

    def programs(self) -> Counter[str]:
        """The names of the programs that have initialised the library, each with how often it was started."""
        found: Counter[str] = Counter()
        for log in self.log_directory.glob("ld.*"):
            has_library = False
            for line in INITIALISED.finditer(log.read_text(errors="replace")):
                if line["program"] is None:
                    has_library |= line["library"] == str(self.library)
                elif has_library:
                    found[Path(line["program"]).name] += 1
                    has_library = False  # the same process may start another program
        return found

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
