"""Counts by the processor itself (`perf stat`), and where the time goes (`perf record`, `perf annotate`).

Many virtual machines have no counters: perf then prints "<not supported>", and the samples come from a timer
(cpu-clock), which is coarser. With more events than counters, perf counts each event part of the time and scales up:
each figure comes with the share of the run in which it was counted. A processor takes an interrupt a few instructions
late, so a hot instruction often stands after the one that waits. The workload's output goes into a pipe and is not
shown.
"""

import dataclasses
import math
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from hakobench import process
from hakobench.allocators import Allocator
from hakobench.counts.callgrind import wrong_malloc
from hakobench.project import public_text
from hakobench.rows import Row

EVENTS = (
    "cycles", "instructions", "branches", "branch-misses", "L1-dcache-load-misses", "LLC-load-misses",
    "dTLB-load-misses", "iTLB-load-misses",
)  # fmt: skip
SAMPLES_PER_SECOND = 1997  # no divisor of a timer's frequency
HOT_PERCENT_MIN = 1.0  # of a function's samples; an instruction below it is not listed
NOT_MEASURED = ("<not supported>", "<not counted>")

_INSTRUCTION = re.compile(r"\s*(\d+(?:\.\d+)?) :\s+([0-9a-f]+):\s+(.*\S)\s*$")
_SYMBOL = re.compile(r"\s*(\d+(?:\.\d+)?)%\s*\|\s*(.*?)\s*\|\s*\[.\] (.*\S)\s*$")


@dataclasses.dataclass(frozen=True)
class Measured:
    """How often an event happened. `percent` is the share of the run in which it was counted; below 100, `value` is an
    estimate, scaled up from that share."""

    value: float
    percent: float = 100.0


@dataclasses.dataclass(frozen=True)
class Counted:
    """One run under `perf stat`. In `events`, None is an event that this machine cannot measure. `pairs` is that of
    callgrind.Counted."""

    failure: str
    command: str
    pairs: int = 0
    events: dict[str, Measured | None] = dataclasses.field(default_factory=dict)

    def per_pair(self, event: str) -> float | None:
        found = self.events.get(event)
        return None if found is None or not self.pairs else found.value / self.pairs

    def percent(self, event: str) -> float:
        """The share of the run in which `event` was counted; 100 for one that was not measured."""
        found = self.events.get(event)
        return 100.0 if found is None else found.percent


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A function and its percentage of the samples; `hot` are its hottest instructions as (percentage of the
    function's samples, address, instruction)."""

    percent: float
    file: str
    name: str
    hot: tuple[tuple[float, str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Recorded:
    """One run under `perf record`."""

    failure: str
    symbols: tuple[Symbol, ...] = ()


def parse_stat(text: str) -> dict[str, Measured | None]:
    """Reads the output of `perf stat -x,`: a line has value, unit, event, run time, percentage, ... Raises ValueError
    that names the line."""
    events: dict[str, Measured | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(",")
        if len(words) < 3:
            raise ValueError(f"perf stat, line {number}: '{line}' is not value,unit,event,...")
        event = words[2].split(":")[0]
        if words[0] in NOT_MEASURED:
            events[event] = None
            continue
        value = _number(words[0], number, "a count", math.inf)
        percent = _number(words[4], number, "a percentage", 100.0) if len(words) > 4 and words[4] else 100.0
        events[event] = Measured(value, percent)
    return events


def _number(word: str, line: int, kind: str, most: float) -> float:
    """A finite number from 0 to `most`. Raises ValueError."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and 0.0 <= value <= most):
        raise ValueError(f"perf stat, line {line}: '{word}' is not {kind}")
    return value


def parse_report(text: str) -> list[Symbol]:
    """Reads the output of `perf report --stdio -F overhead,dso,symbol -t '|'`; most samples first."""
    found = [_SYMBOL.match(line) for line in text.splitlines()]
    symbols = [Symbol(float(one[1]), one[2], one[3]) for one in found if one]
    return sorted(symbols, key=lambda symbol: -symbol.percent)


def parse_annotate(text: str, top: int) -> tuple[tuple[float, str, str], ...]:
    """Reads the `top` hottest instructions from `perf annotate --stdio --no-source`, hottest first."""
    found = [_INSTRUCTION.match(line) for line in text.splitlines()]
    lines = [(float(one[1]), one[2], re.sub(r"\s+", " ", one[3])) for one in found if one]
    hot = [line for line in lines if line[0] >= HOT_PERCENT_MIN]
    return tuple(sorted(hot, key=lambda line: -line[0])[:top])


def missing() -> str:
    """Why this machine cannot use perf; empty when it can."""
    return "" if shutil.which("perf") else "no perf; 'apt-get install linux-perf' brings it"


def _words(text: str) -> str:
    """perf's error message in one line: the first line that is not a heading."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and line not in ("Error:", "event syntax error:") and set(line) != {"-"}]
    return said[0] if said else ""


def _perf(arguments: Sequence[str], cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["perf", *arguments], cwd=cwd, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, check=False)  # fmt: skip


def probe() -> tuple[dict[str, bool], str]:
    """Which of EVENTS this machine measures, and the reason when perf refuses altogether."""
    with tempfile.TemporaryDirectory(prefix="hakobench-perf-") as name:
        scratch = pathlib.Path(name)
        try:
            asked = _perf(["stat", "-x,", "-o", "stat.csv", "-e", ",".join(EVENTS), "--", "true"], scratch)
            printed = parse_stat((scratch / "stat.csv").read_text()) if asked.returncode == 0 else {}
        except (OSError, ValueError) as error:
            return {}, f"perf stat cannot be used: {error}"
        if asked.returncode != 0:
            return {}, f"perf stat refuses: {_words(asked.stderr) or process.status_text(asked.returncode)}"
    return {event: printed.get(event) is not None for event in EVENTS}, ""


def _program(row: Row, allocator: Allocator, scale: float, bin_dir: pathlib.Path) -> list[str]:
    preload = ["env", f"LD_PRELOAD={allocator.library}"] if allocator.library else []
    return [*preload, str(bin_dir / row.workload), *row.scaled_args(scale)]


def _run(arguments: list[str], row: Row, allocator: Allocator, cwd: pathlib.Path,
         watch: Callable[[int], None] | None) -> tuple[str, dict[str, str]]:  # fmt: skip
    """Runs the workload under perf; returns the error, if any, and the workload's key=value words."""
    plain = {key: value for key, value in allocator.environment().items() if key != "LD_PRELOAD"}
    try:
        ended = process.run(["perf", *arguments], plain, timeout=row.timeout, cwd=cwd, watch=watch)
    except OSError as error:
        return f"cannot start perf: {error.strerror}", {}
    printed = process.key_values(ended.stdout)
    if ended.timed_out:
        return ended.failure, {}
    if ended.status != 0:
        return f"{process.status_text(ended.status)}: {_words(ended.stderr)}".removesuffix(": "), {}
    return wrong_malloc(allocator, printed.get("malloc_from", "")), printed


def stat(row: Row, allocator: Allocator, scale: float, bin_dir: pathlib.Path, events: Sequence[str],
         watch: Callable[[int], None] | None = None) -> Counted:  # fmt: skip
    """One run under `perf stat`; `failure` has the error."""
    with tempfile.TemporaryDirectory(prefix="hakobench-perf-") as name:
        scratch = pathlib.Path(name)
        program = _program(row, allocator, scale, bin_dir)
        arguments = ["stat", "-x,", "-o", "stat.csv", "-e", ",".join(events), "--", *program]
        paths = [bin_dir / row.workload, *([allocator.library] if allocator.library else [])]
        shown = public_text(" ".join(["perf", *arguments]), *paths)
        failure, printed = _run(arguments, row, allocator, scratch, watch)
        if not failure and not printed.get("allocated", "").isdigit():
            failure = "the workload does not tell how often it called malloc (allocated=)"
        if failure:
            return Counted(public_text(failure, *paths), shown)
        try:
            return Counted("", shown, int(printed["allocated"]), parse_stat((scratch / "stat.csv").read_text()))
        except (OSError, ValueError) as error:
            return Counted(str(error), shown)


def record(row: Row, allocator: Allocator, scale: float, bin_dir: pathlib.Path, event: str, top: int,
           watch: Callable[[int], None] | None = None) -> Recorded:  # fmt: skip
    """The `top` functions of one run. Those outside the workload's program have their hottest instructions."""
    with tempfile.TemporaryDirectory(prefix="hakobench-perf-") as name:
        scratch = pathlib.Path(name)
        program = _program(row, allocator, scale, bin_dir)
        arguments = ["record", "-q", "-N", "-o", "perf.data", "-e", event, "-F", str(SAMPLES_PER_SECOND), "--"]
        failure, _ = _run([*arguments, *program], row, allocator, scratch, watch)
        if failure:
            paths = [bin_dir / row.workload, *([allocator.library] if allocator.library else [])]
            return Recorded(public_text(failure, *paths))
        fields = ["--stdio", "--no-children", "-q", "-F", "overhead,dso,symbol", "-t", "|"]
        try:
            reported = _perf(["report", "-i", "perf.data", *fields], scratch)
            symbols = parse_report(reported.stdout)[:top]
            if not symbols:
                return Recorded(f"perf report shows no samples: {_words(reported.stderr)}".removesuffix(": "))
            return Recorded("", tuple(_annotated(one, row, scratch, top) for one in symbols))
        except OSError as error:
            return Recorded(f"cannot start perf: {error.strerror}")


def _annotated(symbol: Symbol, row: Row, scratch: pathlib.Path, top: int) -> Symbol:
    """The function with its hottest instructions, unless it is the workload's own or a stub without code."""
    if symbol.file == row.workload or symbol.name.endswith("@plt"):
        return symbol
    arguments = ["annotate", "-i", "perf.data", "--stdio", "-q", "--no-source", "--stdio-color=never"]
    asked = _perf([*arguments, "-d", symbol.file, symbol.name], scratch)
    return dataclasses.replace(symbol, hot=parse_annotate(asked.stdout, top))
