"""Replays a recording under allocators, as a suite of one row."""

import contextlib
import dataclasses
import datetime
import hashlib
import math
import pathlib
import random
import re
import time
from collections.abc import Iterator

from rich.console import Console

from hakobench import allocators, machine, record, runner
from hakobench.program_table import counted
from hakobench.project import BIN_DIR, OUT_DIR, public_path
from hakobench.rows import Row
from hakobench.trace import figures, memory, plan, show
from hakobench.trace.events import Trace

PROGRAM = "hakoreplay"
# Inside the project, so that the commands in the results contain no path of the machine.
DIRECTORY = OUT_DIR / "hakotrace"
RESULTS_DIR = DIRECTORY / "results"
TOUCH = ("edges", "pages", "all")
DEFAULT_TOUCH = "pages"
EVENTS_A_RUN = 5_000_000  # a run replays a short recording several times
REPEAT_MAX = 10_000
BUDGET_SECONDS = 120.0


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The options of a replay. Without `repeat`, a run makes about EVENTS_A_RUN calls, but all runs together take about
    `budget` seconds at most."""

    name: str
    picked: list[allocators.Allocator]
    rounds: int
    repeat: int | None
    touch: str
    seed: int | None
    timeout: float
    results_dir: pathlib.Path
    forced: bool
    budget: float = BUDGET_SECONDS


def _row_name(name: str) -> str:
    return "replay-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@contextlib.contextmanager
def plan_file(trace: Trace, name: str) -> Iterator[tuple[pathlib.Path, int, str]]:
    """The plan, its number of events, and its sha256. The plan is removed afterwards, because it is many times as large
    as its recording."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = DIRECTORY / f"{name}-{random.SystemRandom().randrange(2**32):08x}.plan"
    try:
        count = plan.write(path, trace)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        yield path, count, digest
    finally:
        path.unlink(missing_ok=True)


def _row(trace: Trace, wanted: Wanted, path: pathlib.Path, count: int, digest: str) -> Row:
    repeat = wanted.repeat or min(REPEAT_MAX, max(1, math.ceil(EVENTS_A_RUN / count)))
    params = {"threads": str(trace.thread_count), "events": str(count), "repeat": str(repeat), "plan": digest[:16]}
    return Row(
        name=_row_name(wanted.name), about=f"the allocation calls of {trace.program}", workload=PROGRAM,
        driver="program", args=(str(path), f"--repeat={repeat}", f"--touch={wanted.touch}"), metric="ops_per_s",
        work=0, tags=("replay",), params=params, timeout=wanted.timeout,
    )  # fmt: skip


def require_program() -> None:
    """Raises ValueError when the program that replays is not there."""
    row = Row(
        name=PROGRAM, about="", workload=PROGRAM, driver="program", args=(), metric="ops_per_s", work=0, tags=(),
        params={}, timeout=1.0,
    )  # fmt: skip
    for why in runner.missing_rows((row,), BIN_DIR).values():
        raise ValueError(why)


def _require_memory(trace: Trace, touch: str) -> None:
    """Raises ValueError when a replay needs too much memory. The program may have used little of what it reserved, but
    a replay touches every page."""
    peak, there = figures.peak_bytes(trace), memory.available()
    if touch != "edges" and there is not None and peak > there:
        raise ValueError(
            f"--touch={touch}: up to {show.quantity(peak)} of this recording are live at a time, and "
            f"{show.quantity(there)} of memory are available; --touch=edges writes to the first and last bytes of each "
            "block only"
        )


def fit(budget: float, seconds_once: float, cells: int, rounds: int, repeat: int) -> tuple[int, int]:
    """How many rounds, and replays within a run, fit the budget if each replay takes `seconds_once` in each of `cells`
    allocators. Fewer replays in a run come before fewer rounds; one of each is always made."""
    possible = max(1, int(budget / (max(seconds_once, 1e-6) * cells)))
    if possible >= rounds:
        return rounds, min(repeat, possible // rounds)
    return possible, 1


def _fitted(plan_of_runs: runner.Plan, wanted: Wanted, trace: Trace, row: Row, notes: Console, end: float) -> runner.Plan:
    """The plan with as many rounds and replays as there is time for until `end`, by one short run under glibc."""
    repeat = int(row.params["repeat"])
    once = _with_repeat(row, 1)
    seconds = runner.Runner(plan_of_runs, machine.look()).seconds_under_glibc(once)
    if seconds is None:  # it fails in the runs too, and they say why
        return plan_of_runs
    rounds, fitting = fit(max(end - time.monotonic(), 0.0), seconds, len(wanted.picked), wanted.rounds, repeat)
    repeat = repeat if wanted.repeat else fitting
    if rounds < wanted.rounds:
        notes.print(f"{rounds} of {wanted.rounds} rounds fit the budget of {wanted.budget:g} s: a replay of {trace.program} "
                    f"takes {seconds:.3g} s; --budget changes it", markup=False, soft_wrap=True)  # fmt: skip
    left = rounds * repeat * len(wanted.picked) * seconds
    notes.print(f"about {left:.0f} s for {counted(rounds, 'round')} of {counted(len(wanted.picked), 'allocator')}, {counted(repeat, 'replay')} in each run",
                markup=False, soft_wrap=True)  # fmt: skip
    return dataclasses.replace(plan_of_runs, rows=(_with_repeat(row, repeat),), rounds=rounds)


def _with_repeat(row: Row, repeat: int) -> Row:
    args = tuple(f"--repeat={repeat}" if arg.startswith("--repeat=") else arg for arg in row.args)
    return dataclasses.replace(row, args=args, params=row.params | {"repeat": str(repeat)})


def run(trace: Trace, wanted: Wanted, seen: machine.Machine, notes: Console) -> tuple[list[record.Run], pathlib.Path]:
    """All runs, and their CSV. Raises ValueError when there is nothing to replay, and OSError when a file cannot be
    written. A KeyboardInterrupt passes through; the CSV has the finished runs. All of it keeps to the budget: the plan of
    the replay, the run that tells how long one takes, and the rounds, of which one is always made."""
    end = time.monotonic() + wanted.budget
    _require_memory(trace, wanted.touch)
    name = _row_name(wanted.name)
    seed = random.SystemRandom().randrange(2**32) if wanted.seed is None else wanted.seed
    stem = f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}-{seed}"
    require_program()
    with plan_file(trace, name) as (path, count, digest):
        row = _row(trace, wanted, path, count, digest)
        csv_path = wanted.results_dir / f"{stem}.csv"
        plan_of_runs = runner.Plan(
            "replay", (row,), wanted.picked, wanted.rounds, 1.0, seed, csv_path, DIRECTORY / "logs" / stem,
            BIN_DIR, wanted.forced,
        )  # fmt: skip
        notes.print(f"seed {seed}, {count} calls a round of {counted(trace.thread_count, 'thread')}, "
                    f"results in {public_path(csv_path)}", markup=False, soft_wrap=True)  # fmt: skip
        plan_of_runs = _fitted(plan_of_runs, wanted, trace, row, notes, end)
        return runner.execute(plan_of_runs, seen, console=notes, budget=max(end - time.monotonic(), 0.0)), csv_path
