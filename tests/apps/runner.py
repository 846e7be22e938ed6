"""Runs one program of the table under one library, and judges the run against the run under glibc.

Every run of a program happens in a folder of the same path, which is emptied before, so that paths in its output are
equal. glibc is preloaded in its turn: that puts its malloc in front of an allocator that the program is linked with.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
sys.path += [str(TESTS.parent / "preload"), str(TESTS.parents[1] / "hakobench/src")]

from hakobench import seccomp  # noqa: E402 - after the line above, as the next ones
from preloading import Preload, describe  # noqa: E402 - from the folder that the line above adds
from trees import write_tree  # noqa: E402

INPUTS = TESTS / "inputs"
# What the library writes when it finds misuse or an error of its own, and what ld.so writes when it cannot load it.
REPORT = re.compile(r"^.*(?:hakozuna: |cannot be preloaded).*$", re.MULTILINE)
VERSION = re.compile(r"\d+(?:[.-]\d+)+")


@dataclass(frozen=True)
class Program:
    """A row of the table. `script` runs in bash, or the function `work` drives servers and returns what to compare."""

    name: str
    does: str
    script: str = ""
    work: Callable[[Stage], str] | None = None
    version: str = ""  # a command; its output must have a version
    inside: tuple[str, ...] = ()  # the programs that must have loaded the library; without them, `name`
    normalise: tuple[tuple[str, str], ...] = ()  # patterns in the output that vary from run to run, and what to write instead
    stderr: bool = True  # whether stderr is compared too
    timeout_seconds: int = 120
    check: bool = True  # whether it runs with the check build too
    slow: bool = False  # runs with HZ_SLOW=1 only
    preloads: bool = False  # it preloads a library of its own, which works only in front of glibc: that is not preloaded then
    # The seccomp profiles under which it runs, each by its name in hakobench/filters; several with +; empty: none.
    under: tuple[str, ...] = ("", "container")


@dataclass(frozen=True)
class Outcome:
    """What one run did."""

    status: str
    stdout: str
    stderr: str
    cpu_seconds: float
    loaded: Counter[str]
    reports: list[str]


@dataclass
class Stage:
    """Where one program runs: its folder, its library, and the seccomp profiles, as Program.under has them."""

    base: Path
    program: Program
    preload: Preload = field(init=False)
    timeout_factor: float = 1
    under: str = ""
    confine: Callable[[], None] | None = field(init=False)  # a preexec_fn for each process that the stage starts

    def __post_init__(self) -> None:
        codes = [seccomp.compiled(seccomp.read(name)) for name in self.under.split("+") if name]
        self.confine = seccomp.installer(codes) if codes else None

    @property
    def folder(self) -> Path:
        return self.base / f"{self.program.name}{'-' if self.under else ''}{self.under}"

    def environment(self) -> dict[str, str]:
        home = Path.home()
        return {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "INPUTS": str(INPUTS),
            "PRELOAD_INPUTS": str(TESTS.parent / "preload/programs"),
            "DATA": str(self.base / "data"),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def run(self, library: Path) -> Outcome:
        """Runs the program under the library, in an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("home", "tmp", "ld"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "ld").chmod(0o1777)  # a server may change its user
        bare = {"LD_PRELOAD": ""} if self.program.preloads and library == glibc() else {}
        self.preload = Preload(library, self.folder / "ld", self.environment() | bare)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, stdout, stderr = self._script() if self.program.work is None else self._work(self.program.work)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        logs = [log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log"))]
        return Outcome(
            status,
            self._normalised(stdout),
            self._normalised(stderr),
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            self.preload.programs(),
            REPORT.findall("\n".join([stdout, stderr, *logs])),
        )

    def _script(self) -> tuple[str, str, str]:
        out, err = self.folder / "stdout.txt", self.folder / "stderr.txt"
        timeout = self.program.timeout_seconds * self.timeout_factor
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                ["/bin/bash", "-euo", "pipefail", "-c", self.program.script],
                env=self.preload.environment(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                start_new_session=True, preexec_fn=self.confine,
            )  # fmt: skip
            try:
                status = f"exit status {process.wait(timeout)}"
            except subprocess.TimeoutExpired:
                status = f"still running after {timeout:g} s"
            finally:
                with contextlib.suppress(ProcessLookupError):  # the usual case: all of them have ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return status, out.read_text(errors="replace"), err.read_text(errors="replace")

    def _work(self, work: Callable[[Stage], str]) -> tuple[str, str, str]:
        try:
            return "exit status 0", work(self), ""
        except (AssertionError, OSError, subprocess.SubprocessError, pytest.fail.Exception) as error:
            return f"{type(error).__name__}: {error}", "", ""

    def _normalised(self, text: str) -> str:
        for pattern, instead in self.program.normalise:
            text = re.sub(pattern, instead, text, flags=re.MULTILINE)
        return text

    def client(self, *command: str | Path, **options: object) -> str:
        """Runs a command beside the program's servers, also under the library; it must succeed. Returns its stdout."""
        result = subprocess.run(
            [str(part) for part in command], env=self.preload.environment(), cwd=self.folder, capture_output=True,
            text=True, timeout=self.program.timeout_seconds * self.timeout_factor, preexec_fn=self.confine, **options,
        )  # fmt: skip
        assert result.returncode == 0, describe(result)
        assert not REPORT.search(result.stderr), describe(result)
        return result.stdout


def write_data(folder: Path) -> None:
    """Writes the input that several programs read: a tree of files, and all of them in one."""
    write_tree(folder / "tree", 1, 250)
    files = sorted(path for path in (folder / "tree").rglob("*") if path.is_file())
    with (folder / "all").open("wb") as whole:
        for path in files:
            whole.write(path.read_bytes())
    with (folder / "words.txt").open("w") as words:
        words.writelines(f"{number * 7919 % 1_000_003} word{number * 31 % 65_537} {'x' * (number % 60)}\n" for number in range(400_000))


def glibc() -> Path:
    """The C library of this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split()[-1])
        if path.name == "libc.so.6":
            return path
    raise RuntimeError("this interpreter has no libc.so.6; glibc is the measure of every program")


def libraries_in(folder: Path, lanes: list[str]) -> dict[str, Path]:
    """The libraries of a folder by lane: all of them, or those of the lanes named."""
    found = {path.stem.removeprefix("libhakozuna_"): path for path in sorted(folder.glob("libhakozuna_*.so"))}
    if not found:
        raise ValueError(f"HZ_LIB_DIR is '{folder}', which has no libhakozuna_*.so; `make libs` builds them")
    if lanes == ["all"]:
        return found
    found["glibc"] = glibc()  # to see that a new row of the table gives the same answer twice
    unknown = [lane for lane in lanes if lane not in found]
    if unknown or not lanes:
        raise ValueError(f"HZ_LANES has '{' '.join(unknown)}'; allowed: all, {', '.join(found)}")
    return {lane: found[lane] for lane in lanes}


def version_of(program: Program) -> str:
    """The first version in the output of the program's version command."""
    command = program.version or f"{program.name} --version"
    result = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    found = VERSION.search(result.stdout + result.stderr)
    assert found is not None, f"'{command}' prints no version; run tools/setup apps: {result.stdout}{result.stderr}"
    return found.group()


def difference(what: str, wanted: str, got: str) -> list[str]:
    lines = difflib.unified_diff(wanted.splitlines(), got.splitlines(), f"{what} under glibc", f"{what} under the library", "", "", 1, "")
    return ["\n".join(list(lines)[:40])] if wanted != got else []


def unloaded(program: Program, outcome: Outcome) -> list[str]:
    names = program.inside or (program.name,)
    return [f"'{name}' did not load the library; programs that did: {sorted(outcome.loaded)}" for name in names if not outcome.loaded[name]]


def baseline_problems(program: Program, outcome: Outcome) -> list[str]:
    """Why the run under glibc cannot be the measure of others."""
    wrong = [] if outcome.status == "exit status 0" else [f"{outcome.status}\n{outcome.stdout[-1500:]}\n{outcome.stderr[-1500:]}"]
    wrong += [] if outcome.stdout.strip() else ["nothing on stdout, so there is nothing to compare"]
    return wrong + ([] if program.preloads else unloaded(program, outcome))


def problems(program: Program, baseline: Outcome, outcome: Outcome) -> list[str]:
    """What is wrong with a run under the library; nothing if it is as good as the one under glibc."""
    wrong = [f"reported: {line}" for line in outcome.reports]
    wrong += difference("exit status", baseline.status, outcome.status)
    wrong += difference("stdout", baseline.stdout, outcome.stdout)
    if program.stderr:
        wrong += difference("stderr", baseline.stderr, outcome.stderr)
    return wrong + unloaded(program, outcome)
