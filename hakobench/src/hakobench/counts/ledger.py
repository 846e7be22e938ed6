"""The ledger: what an operation costs in many small programs, counted so that noise cannot touch it.

bench/workloads/counted/ledger.c has the programs, one for each row. callgrind counts their instructions, locked
operations, system calls and misses of simulated caches. Clocks advance only when the program says so
(bench/workloads/counted/still.c), so counts repeat, whatever else the machine does. Only the misses of rows with
several threads differ, by up to 1 %: the simulation places stacks a little differently from run to run.

The cost of an operation is what runs in the allocator's own file. The C library is left out, since it chooses its
functions by the processor. The cost under an allocator that is not ours is all that runs outside the program, since
callgrind does not always know that allocator's file.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable

from hakobench import process
from hakobench.allocators import Allocator
from hakobench.counts import callgrind
from hakobench.project import BIN_DIR, public_path, public_text

PROGRAM = "ledger"
STILL = "libstill.so"
VALGRIND = "valgrind.bin"  # what Debian's /usr/bin/valgrind, a shell script, starts; a preload would reach the shell
CPUS = 2  # an allocator may ask how many it has
KEEPER = "keeper"  # begins the rows whose work a thread of the allocator does
ROUND = "keeper_round"  # our function that such a thread calls once a round; the compiler may append ".isra.0"
TIMEOUT_SECONDS = 300.0
TOLERANCE = 0.02
KEEPER_TOLERANCE = 0.05  # the first and the last round are counted in part
MISSES_TOLERANCE = 0.1  # which lines share a cache set depends on where the stacks and the environment lie
KEEPER_MISSES_TOLERANCE = 0.25
KEEPER_CALLS_TOLERANCE = 0.5  # callgrind ascribes some of a thread's calls to the thread that runs when they end
NEEDED = ("Ir", "Ge", "D1mr", "D1mw", "DLmr", "DLmw", "sysCount")


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one operation."""

    instructions: float
    locked: float
    l1_misses: float
    ll_misses: float
    calls: float


COLUMNS = tuple(field.name for field in dataclasses.fields(Cost))
# Smaller differences come from the ends of the counted part, and from where the simulation places stacks.
LEAST = Cost(instructions=0.1, locked=0.01, l1_misses=0.05, ll_misses=0.02, calls=0.002)


@dataclasses.dataclass(frozen=True)
class Counted:
    """A row of one allocator. An empty `failure` means success."""

    row: str
    allocator: str
    failure: str = ""
    cost: Cost | None = None
    ops: int = 0


def missing(bin_dir: pathlib.Path = BIN_DIR) -> str:
    """Why nothing can be counted here; empty when it can."""
    if not shutil.which("valgrind"):
        return callgrind.missing()
    for name in (PROGRAM, STILL):
        if not (bin_dir / name).is_file():
            return f"no '{name}' in {public_path(bin_dir)}; 'make workloads' builds it"
    if len(os.sched_getaffinity(0)) < CPUS:
        return f"counting needs {CPUS} CPUs, as the budget was counted with; this process may use one"
    return ""


def rows(bin_dir: pathlib.Path = BIN_DIR) -> list[str]:
    """The names of all rows. Raises OSError or ValueError when the program does not say."""
    asked = subprocess.run([bin_dir / PROGRAM, "--list"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise ValueError(f"{PROGRAM} --list: {process.status_text(asked.returncode)}")
    return asked.stdout.split()


def count(row: str, allocator: Allocator, bin_dir: pathlib.Path = BIN_DIR,
          watch: Callable[[int], None] | None = None) -> Counted:  # fmt: skip
    """Counts one row, and puts an error into `failure`. Calls `watch` with the pid."""
    program, still = bin_dir / PROGRAM, bin_dir / STILL
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="hakobench-ledger-"))
    out = scratch / "out"
    preload = ":".join(str(path) for path in (allocator.library, still) if path)
    of_keeper = row.startswith(KEEPER)
    settings = allocator.environment() | {"LD_PRELOAD": preload, "HAKOZUNA_BACKGROUND": "1" if of_keeper else "0"}
    cpus = sorted(os.sched_getaffinity(0))[:CPUS]
    command = [
        shutil.which(VALGRIND) or "valgrind", "--tool=callgrind", "--cache-sim=yes", "--collect-bus=yes", "--collect-systime=yes", *callgrind.CACHES,
        f"--callgrind-out-file={out}", f"--log-file={out}.log", str(program), f"--row={row}",
    ]  # fmt: skip

    def failed(why: str) -> Counted:
        return Counted(row, allocator.name, public_text(why, program, scratch, *filter(None, [allocator.library])))

    try:
        ended = process.run(command, settings, timeout=TIMEOUT_SECONDS, cwd=scratch, cpus=cpus, watch=watch)
        if ended.failure:
            return failed(ended.failure)
        printed = process.key_values(ended.stdout)
        if wrong := callgrind.wrong_malloc(allocator, printed.get("malloc_from", "")):
            return failed(wrong)
        if printed.get("still") != "yes":
            return failed(f"{STILL} took no effect, so the clock was not still")
        ops = int(printed.get("ops", "0"))
        if ops <= 0:
            return failed("the program did nothing that could be counted")
        library = allocator.library if allocator.is_ours or of_keeper else None
        profile = _profile(out.with_name("out.1"))
        spent = _spent(profile, program, library)
        if of_keeper:
            ops = _rounds(profile, library) or spent["sysCount"]
    except (OSError, ValueError) as error:
        return failed(str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    cost = Cost(
        instructions=spent["Ir"] / ops,
        locked=spent["Ge"] / ops,
        l1_misses=(spent["D1mr"] + spent["D1mw"]) / ops,
        ll_misses=(spent["DLmr"] + spent["DLmw"]) / ops,
        calls=spent["sysCount"] / ops,
    )
    return Counted(row, allocator.name, "", cost, ops)


def _profile(path: pathlib.Path) -> callgrind.Profile:
    """The counts between the two marks. Raises ValueError if there are none."""
    if not path.is_file():
        raise ValueError("callgrind has written no counts between the program's marks")
    return callgrind.parse(path.read_text(errors="replace"), path.name, NEEDED)


def _spent(profile: callgrind.Profile, program: pathlib.Path, library: pathlib.Path | None) -> dict[str, int]:
    """The counts in the library, or outside of the program."""
    if library is not None:
        return profile.events(lambda file: file == str(library.resolve()))
    return profile.events(lambda file: file != str(program.resolve()))


def _rounds(profile: callgrind.Profile, library: pathlib.Path | None) -> int:
    """How many rounds a thread of our allocator did. 0: another allocator, or one of our commits before this was counted
    (one system call a round then, more or less)."""
    own = str(library.resolve()) if library else ""
    return sum(calls for (file, name), calls in profile.calls.items() if file == own and name.split(".")[0] == ROUND)


# ---- the budget --------------------------------------------------------------------------------------

Budget = dict[tuple[str, str], Cost]


def budget_read(path: pathlib.Path) -> Budget:
    """Raises OSError, and ValueError that names the line."""
    budget: Budget = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            row, lane, *figures = words
            budget[row, lane] = Cost(*(float(word) for word in figures))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{public_path(path)}:{number}: a line is ROW LANE {' '.join(COLUMNS).upper()}") from error
    return budget


def budget_text(budget: Budget, heading: str) -> str:
    """The lines of a budget, after the comment that begins the file."""
    names = [max(len(name) for name in column) for column in zip(*budget, strict=True)]
    lines = [heading.rstrip("\n"), f"# {'row':{names[0] - 2}} {'lane':{names[1]}}" + "".join(f" {name:>12}" for name in COLUMNS)]
    for (row, lane), cost in budget.items():
        figures = "".join(f" {figure:12.3f}" for figure in dataclasses.astuple(cost))
        lines.append(f"{row:{names[0]}} {lane:{names[1]}}{figures}")
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Change:
    """A cost that is not the budget's."""

    row: str
    lane: str
    column: str
    budget: float
    counted: float

    @property
    def is_worse(self) -> bool:
        return self.counted > self.budget

    def text(self) -> str:
        share = f" ({self.counted / self.budget - 1:+.1%})" if self.budget > 0 else ""
        return f"{self.row} {self.lane}: {self.column} {self.budget:.3f} -> {self.counted:.3f}{share}"


def changes(budget: Budget, found: Iterable[Counted]) -> list[Change]:
    """The costs that differ from the budget by more than the tolerance and LEAST, the largest shares first."""
    differing = []
    for counted in found:
        wanted = budget.get((counted.row, counted.allocator))
        if wanted is None or counted.cost is None:
            continue
        of_keeper = counted.row.startswith(KEEPER)
        for column in COLUMNS:
            if column.endswith("_misses"):
                allowed = KEEPER_MISSES_TOLERANCE if of_keeper else MISSES_TOLERANCE
            elif of_keeper and column == "calls":
                allowed = KEEPER_CALLS_TOLERANCE
            else:
                allowed = KEEPER_TOLERANCE if of_keeper else TOLERANCE
            least, before, now = (getattr(cost, column) for cost in (LEAST, wanted, counted.cost))
            if abs(now - before) > max(allowed * before, least):
                differing.append(Change(counted.row, counted.allocator, column, before, now))
    return sorted(differing, key=lambda change: -abs(change.counted - change.budget) / max(change.budget, 1e-9))
