"""Counts by callgrind. Each row runs at two lengths; the difference of the counts is divided by the difference in
operations. Loading, warming up and ending are in both runs, so they cancel.

Valgrind simulates the program's instructions one by one, with caches of fixed sizes, so counts depend neither on the
load of the machine nor on its processor. Counts of rows with one thread repeat, except for the digits of the times that
a workload prints (some hundred instructions a run). Threads run one at a time, so counts of rows with several threads
depend on valgrind's scheduling.
"""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence

from hakobench import process
from hakobench.allocators import Allocator
from hakobench.project import public_text
from hakobench.rows import Row

# size in bytes, associativity, line size: those of a common processor, the same on every machine
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
EVENTS = ("Ir", "Bc", "Bcm", "Bi", "Bim", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw")
TIMEOUT_SECONDS = 600.0

_COST = re.compile(r"(?:[+-]?\d+|\*|0x[0-9a-f]+)\s")
_NAME = re.compile(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$")


@dataclasses.dataclass(frozen=True)
class Profile:
    """The counts of one run: `totals` by event, and each function's own counts by (object, function), one for each
    event in the order of `totals`. `calls` says how often each function was called."""

    totals: dict[str, int]
    counts: dict[tuple[str, str], list[int]]
    calls: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)

    @property
    def instructions(self) -> dict[tuple[str, str], int]:
        """Each function's own instructions."""
        return {key: counts[0] for key, counts in self.counts.items()}

    def of_object(self, path: str) -> int:
        """The instructions executed in one file."""
        return sum(counts[0] for (file, _), counts in self.counts.items() if file == path)

    def events(self, chosen: Callable[[str], bool]) -> dict[str, int]:
        """All events in the chosen files, by name."""
        spent = [counts for (file, _), counts in self.counts.items() if chosen(file)]
        return {event: sum(counts[column] for counts in spent) for column, event in enumerate(self.totals)}


def parse(text: str, source: str, needed: Sequence[str] = EVENTS) -> Profile:
    """Reads a callgrind.out file; the Callgrind manual has its format, "Callgrind Format Specification". `source` names
    the file in messages. Raises ValueError for another file, a torn one, and one without the `needed` events."""
    events: list[str] = []
    totals: list[str] = []
    names: dict[tuple[str, str], str] = {}
    place = {"ob": "", "fn": "", "cob": "", "cfn": ""}
    found: dict[tuple[str, str], list[int]] = {}
    calls: dict[tuple[str, str], int] = {}
    skip = False  # the line after calls= has the callee's cost, which is counted at the callee
    for number, line in enumerate(text.splitlines(), 1):
        if _COST.match(line):
            if not skip:
                counts = found.setdefault((place["ob"], place["fn"]), [0] * len(events))
                for column, word in enumerate(line.split()[1:]):  # zeros at the end are left out
                    counts[column] += _whole(word, source, number)
            skip = False
        elif line.startswith("calls="):
            callee = place["cob"] or place["ob"], place["cfn"]  # without a file it is the caller's
            calls[callee] = calls.get(callee, 0) + _whole(line[len("calls=") :].split()[0], source, number)
            place["cob"] = ""
            skip = True
        elif named := _NAME.match(line):
            callee_mark, kind, identity, name = named.groups()
            if name is not None:
                names[kind, identity] = name
            place[callee_mark + kind] = names.get((kind, identity), "?")
        elif line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("totals:"):
            totals = line.split()[1:]
    if not events or events[0] != "Ir":
        raise ValueError(f"{source}: not a callgrind file that counts instructions first ('events: Ir ...')")
    if not totals:
        raise ValueError(f"{source}: cut off: no line 'totals:'")
    padded = [*totals, *["0"] * (len(events) - len(totals))]  # zeros at the end are left out
    counted = {event: _whole(word, source, 0) for event, word in zip(events, padded, strict=True)}
    missing = [event for event in needed if event not in counted]
    if missing:
        raise ValueError(f"{source}: no counts of {', '.join(missing)}")
    return Profile(counted, found, calls)


def _whole(word: str, source: str, line: int) -> int:
    try:
        return int(word)
    except ValueError as error:
        where = f"{source}:{line}" if line else source
        raise ValueError(f"{where}: '{word}' is not a count") from error


@dataclasses.dataclass(frozen=True)
class Counted:
    """One run under callgrind. An empty `failure` means success. `pairs` is the number of mallocs that the workload
    printed, `outside` the instructions outside the workload's own program. `command` has public paths."""

    row: str
    allocator: str
    scale: float
    command: str
    failure: str
    pairs: int = 0
    outside: int = 0
    profile: Profile | None = None


def missing() -> str:
    """Why this machine cannot count anything; empty when it can."""
    return "" if shutil.which("valgrind") else "no valgrind; 'apt-get install valgrind' brings it"


def version() -> str:
    """The version of valgrind; "unknown" when valgrind does not print it."""
    try:
        asked = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return asked.stdout.strip() or "unknown"


def argv(out: pathlib.Path, program: list[str], allocator: Allocator) -> list[str]:
    """Valgrind is started without the preload (its launcher is a shell script) and `env` adds it for the program;
    --trace-children follows the exec of `env`."""
    preload = ["env", f"LD_PRELOAD={allocator.library}"] if allocator.library else []
    return [
        "valgrind", "--tool=callgrind", "--trace-children=yes", "--cache-sim=yes", "--branch-sim=yes", *CACHES,
        f"--callgrind-out-file={out}", f"--log-file={out}.log", *preload, *program,
    ]  # fmt: skip


def wrong_malloc(allocator: Allocator, malloc_from: str) -> str:
    """Why the program did not run on this allocator; empty when it did."""
    served_by = pathlib.Path(malloc_from)
    if allocator.library is None:
        return "" if served_by.name.startswith("libc.so") else f"malloc comes from {served_by.name}, not from glibc"
    if served_by.exists() and served_by.samefile(allocator.library):
        return ""
    return f"the preload took no effect: malloc comes from {served_by.name or 'nowhere'}"


def count(
    row: Row, allocator: Allocator, scale: float, bin_dir: pathlib.Path, watch: Callable[[int], None] | None = None
) -> Counted:
    """Runs the row once, and puts an error into `failure`. Calls `watch` with the pid."""
    program = bin_dir / row.workload
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="hakobench-counts-"))
    out = scratch / "callgrind.out"
    command = argv(out, [str(program), *row.scaled_args(scale)], allocator)
    shown = public_text(" ".join(command), program, *([allocator.library] if allocator.library else []))
    shown = shown.replace(f"{scratch}/", "")

    def ended_badly(why: str) -> Counted:
        paths = [program, scratch, *([allocator.library] if allocator.library else [])]
        return Counted(row.name, allocator.name, scale, shown, public_text(why, *paths))

    plain = {key: value for key, value in allocator.environment().items() if key != "LD_PRELOAD"}
    try:
        ended = process.run(command, plain, timeout=max(TIMEOUT_SECONDS, row.timeout), cwd=scratch, watch=watch)
        if ended.failure:
            return ended_badly(ended.failure)
        printed = process.key_values(ended.stdout)
        if wrong := wrong_malloc(allocator, printed.get("malloc_from", "")):
            return ended_badly(wrong)
        if not printed.get("allocated", "").isdigit():
            return ended_badly("the workload does not tell how often it called malloc (allocated=)")
        profile = parse(out.read_text(errors="replace"), out.name)
        outside = profile.totals["Ir"] - profile.of_object(str(program.resolve()))
        return Counted(row.name, allocator.name, scale, shown, "", int(printed["allocated"]), outside, profile)
    except (OSError, ValueError) as error:
        return ended_badly(str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class PerPair:
    """The cost of one operation: `events` by name, and `functions` with the instructions by function, most first.
    `outside` is the cost of the allocator and what it calls: all instructions outside the workload's own program. (Not
    those in the allocator's file: callgrind loses the file's name for code in special sections, as in tcmalloc.)"""

    row: str
    allocator: str
    pairs: int
    events: dict[str, float]
    outside: float
    functions: list[tuple[str, float]]

    def sum(self, *events: str) -> float:
        return sum(self.events[event] for event in events)


def per_pair(short: Counted, long: Counted) -> PerPair:
    """Raises ValueError unless both runs went well and the longer one made more operations."""
    for one in (short, long):
        if one.failure or one.profile is None:
            raise ValueError(one.failure)
    pairs = long.pairs - short.pairs
    if pairs <= 0:
        raise ValueError(f"the longer run has {long.pairs} operations, the shorter one {short.pairs}; a larger --scale "
                         "is needed")  # fmt: skip
    events = {event: (long.profile.totals[event] - short.profile.totals[event]) / pairs for event in EVENTS}
    functions: dict[str, float] = {}
    for key, spent in long.profile.instructions.items():
        file, function = key
        name = f"{function.split(chr(39))[0]} ({pathlib.PurePath(file).name})"  # 'N marks the depth of a recursion
        functions[name] = functions.get(name, 0.0) + (spent - short.profile.instructions.get(key, 0)) / pairs
    top = sorted(functions.items(), key=lambda item: -item[1])
    return PerPair(long.row, long.allocator, pairs, events, (long.outside - short.outside) / pairs, top)
