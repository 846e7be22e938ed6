"""Runs a suite: the same program each time, only LD_PRELOAD differs. Rounds are interleaved and shuffled by a seed.
Each run is judged and written to the CSV before the next one starts."""

import dataclasses
import datetime
import math
import os
import pathlib
import random
import resource
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hakobench import allocators, machine, programs, record, seccomp
from hakobench.drivers import app
from hakobench.drivers.job import Job, Outcome
from hakobench.drivers.registry import DRIVERS
from hakobench.project import BIN_DIR, public_text
from hakobench.rows import BY_CPU, METRICS, Row
from hakobench.summary import NOISY_SHARE
from hakobench.watch import Watcher

FALLBACK_PERCENT_MAX = 0.1  # of remote frees done locally because a ring was full; above it the work differs
HEADER = "[BENCH-HEADER]"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs to make. `forced`: run on a busy machine too, and mark every run. `warmup`: runs of each row under each
    allocator before the first round, which are not recorded."""

    suite: str
    rows: tuple[Row, ...]
    allocators: list[allocators.Allocator]
    rounds: int
    scale: float
    seed: int
    csv_path: pathlib.Path
    log_dir: pathlib.Path
    bin_dir: pathlib.Path = BIN_DIR
    forced: bool = False
    warmup: int = 0


@dataclasses.dataclass(frozen=True)
class Step:
    """One run to make; `position` counts from 1."""

    position: int
    round: int
    row_index: int
    row: Row
    allocator: allocators.Allocator


def steps(plan: Plan) -> Iterator[Step]:
    """All runs, in an order that `plan.seed` decides. Within a round the allocators of a row follow each other, in a
    new order each time: the runs of a pair lie a few runs of one row apart, so a drift of the machine hits both alike."""
    order = random.Random(plan.seed)
    places = {row.name: index for index, row in enumerate(plan.rows)}
    position = 0
    for round_number in range(1, plan.rounds + 1):
        for row in order.sample(plan.rows, len(plan.rows)):
            for allocator in order.sample(plan.allocators, len(plan.allocators)):
                position += 1
                yield Step(position, round_number, places[row.name], row, allocator)


def missing_rows(rows: tuple[Row, ...], bin_dir: pathlib.Path) -> dict[str, str]:
    """The rows that this machine cannot run, with the reason. Raises ValueError when an installed hakobench cannot
    build its programs."""
    programs.build_missing(bin_dir)
    found = {row.name: DRIVERS[row.driver].missing(row, bin_dir) for row in rows}
    return {name: why for name, why in found.items() if why}


def check_resumable(plan: Plan, seen: machine.Machine, done: list[record.Run]) -> None:
    """Raises ValueError unless `done` is the beginning of exactly this plan, with the same libraries and programs on
    the same machine."""
    planned = {step.position: step for step in steps(plan)}
    programs: dict[str, str] = {}
    for run in done:
        step = planned.get(run.position)
        where = f"--resume: run {run.position} ({run.row}, {run.allocator}, round {run.round})"
        if (
            step is None
            or (step.row.name, step.allocator.name, step.round) != (run.row, run.allocator, run.round)
            or (run.scale, run.suite) != (plan.scale, plan.suite)
        ):
            raise ValueError(f"{where} is not in this plan: suite, rows, allocators, rounds and scale must be those of "
                             "the interrupted call")  # fmt: skip
        if run.library_sha256 != step.allocator.sha256:
            raise ValueError(f"{where}: the library of {run.allocator} has changed since")
        row = step.row
        if row.name not in programs:
            programs[row.name] = _program_digest(row, plan.bin_dir)
        if run.program_sha256 != programs[row.name]:
            raise ValueError(f"{where}: the program {row.workload} has changed since")
        args = shlex.join(row.scaled_args(plan.scale)) if row.driver == "program" else ""
        args = app.shown((row.workload, *row.args)) if row.driver == "own" else args
        known = (run.metric, run.also, run.params, run.judged_by) == (
            row.metric, " ".join(row.also), _params(row), row.judged_by,
        )  # fmt: skip
        if not known or (not run.failure and args not in run.command):
            raise ValueError(f"{where}: the suite's file has changed since")
        if (run.cpu, run.cores, run.kernel) != (seen.cpu, seen.cores, seen.kernel):
            raise ValueError(f"{where} was made on another machine")


def _params(row: Row) -> str:
    return " ".join(f"{key}={value}" for key, value in row.params.items())


def _program_digest(row: Row, bin_dir: pathlib.Path) -> str:
    """The sha256 of the row's program; empty when the program is not a file."""
    path = bin_dir / row.workload if row.driver == "program" else pathlib.Path(shutil.which(row.workload) or "")
    return allocators.digest(path) if path.is_file() else ""


class Runner:
    """Makes the runs of one plan on one machine."""

    def __init__(self, plan: Plan, seen: machine.Machine):
        self._plan = plan
        self._machine = seen
        self._programs: dict[str, str] = {}
        self._results: dict[str, str | None] = {}  # by row: the result under glibc; None: there is none to rely on
        self._proved: set[str] = set()  # rows whose result was the same in two runs under glibc
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        half = max(1, len(cpus) // 2)
        self._cpus, self._client_cpus = cpus[:half], cpus[half:] or cpus

    def run(self, step: Step) -> tuple[record.Run, list[tuple[int, int]]]:
        """Makes one run, judges and logs it; returns it with its RSS samples."""
        watcher = Watcher(step.allocator.library, step.row.rss_every_ms)
        started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        before, used_before = machine.CpuTimes.now(), _own_cpu_seconds()
        try:
            outcome = self._drive(step, watcher)
        finally:
            watcher.stop()
        after = machine.CpuTimes.now()
        run = self._describe(step, outcome, started)
        run.other_cpu_share = after.others_since(before, _own_cpu_seconds() - used_before)
        run.stolen_share = after.stolen_since(before)
        if not run.failure:
            run.failure = wrong_malloc(step.allocator, outcome.figures.get("malloc_from"), watcher)
        self._fill(run, step, outcome, watcher)
        if not run.failure and "result" in outcome.figures:
            self._judge_result(run, step, outcome.figures["result"])
        self._log(run, step, outcome)
        return run, watcher.samples

    def seconds_under_glibc(self, row: Row) -> float | None:
        """How long one run takes, which is not recorded; None when it fails."""
        glibc = Step(0, 0, 0, row, allocators.Allocator(allocators.GLIBC))
        outcome = self._drive(glibc, Watcher(None, 0))
        return None if outcome.failure else float(outcome.figures["wall_seconds"])

    def warm_up(self) -> None:
        """Makes the runs that bring programs and files into memory."""
        for row in self._plan.rows:
            for allocator in self._plan.allocators:
                for _ in range(self._plan.warmup):
                    self._drive(Step(0, 0, 0, row, allocator), Watcher(None, 0))

    def _drive(self, step: Step, watcher: Watcher) -> Outcome:
        if step.allocator.library and not _is_same(step.allocator):
            return Outcome("", failure="the library is not the file it was at the start")
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="hakobench-"))
        job = Job(
            row=step.row,
            args=step.row.scaled_args(self._plan.scale),
            environment=step.allocator.environment(),
            plain_environment=allocators.Allocator(allocators.GLIBC).environment(),
            bin_dir=self._plan.bin_dir,
            scratch=scratch,
            timeout=step.row.timeout,
            cpus=self._cpus,
            client_cpus=self._client_cpus,
            watch=watcher.start,
            confine=seccomp.under(step.allocator.under) if step.allocator.under else None,
        )
        try:
            outcome = DRIVERS[step.row.driver].run(job)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if not outcome.failure and step.allocator.library and not _is_same(step.allocator):
            outcome.failure = "the library changed during the run"
        for text in ("failure", "output", "command"):
            paths = [scratch, *([step.allocator.library] if step.allocator.library else [])]
            setattr(outcome, text, public_text(getattr(outcome, text), *paths))
        return outcome

    def _describe(self, step: Step, outcome: Outcome, started: str) -> record.Run:
        row, allocator, seen = step.row, step.allocator, self._machine
        preload = f"LD_PRELOAD={shlex.quote(allocator.shown_library)} " if allocator.library else ""
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in allocator.settings)
        under = f"python3 -m hakobench.seccomp {shlex.quote(allocator.under)} env " if allocator.under else ""
        return record.Run(
            suite=self._plan.suite, row_index=step.row_index, row=row.name, about=row.about, tags=" ".join(row.tags),
            params=_params(row), allocator=allocator.name,
            ours=allocator.is_ours, round=step.round, position=step.position, failure=outcome.failure, marks="",
            metric=row.metric, unit=row.unit, less_is_better=row.less_is_better, value=0.0, wall_seconds=0.0,
            cpu_seconds=0.0, peak_rss_kb=0, final_rss_kb=0, other_cpu_share=None, figures="",
            command=under + settings + preload + outcome.command, library=allocator.shown_library,
            library_sha256=allocator.sha256, library_version=allocator.version, config=allocator.config,
            program_sha256=self._program_digest(row), commit=seen.commit, cpu=seen.cpu, cores=seen.cores,
            kernel=seen.kernel, governor=seen.governor, load=seen.load, busy_share=seen.busy_share,
            seed=self._plan.seed, scale=self._plan.scale, started=started, also=" ".join(row.also),
            judged_by=row.judged_by,
        )  # fmt: skip

    def _fill(self, run: record.Run, step: Step, outcome: Outcome, watcher: Watcher) -> None:
        """Fills in the figures, unless the run failed, and the marks."""
        figures = outcome.figures
        if watcher.samples:
            figures["rss_mib_s"] = f"{rss_integral(watcher.samples):.3f}"
        run.figures = " ".join(f"{key}={value}" for key, value in figures.items() if key != "malloc_from")
        marks = ["forced"] if self._plan.forced and self._machine.is_busy else []
        if run.other_cpu_share is not None and run.other_cpu_share > NOISY_SHARE:
            marks.append("noisy")
        if run.stolen_share is not None and run.stolen_share > NOISY_SHARE:
            marks.append("stolen")
        if not run.failure:
            try:
                run.value = float(figures[run.metric]) / METRICS[run.metric].divisor
                if not (math.isfinite(run.value) and run.value > 0):
                    raise ValueError(f"{run.metric}={figures[run.metric]}")
                run.wall_seconds = float(figures.get("wall_seconds", 0))
                run.cpu_seconds = float(figures.get("cpu_seconds", 0))
                if run.judged_by == BY_CPU and not (math.isfinite(run.cpu_seconds) and run.cpu_seconds > 0):
                    raise ValueError(f"cpu_seconds={figures.get('cpu_seconds')}")
                run.peak_rss_kb = int(float(figures.get("peak_rss_kb", 0)))
                run.final_rss_kb = int(float(figures.get("final_rss_kb", 0)))
                for name in step.row.also:
                    if not (math.isfinite(float(figures[name])) and float(figures[name]) >= 0):
                        raise ValueError(f"{name}={figures[name]}")
                if float(figures.get("fallback_rate", "0").rstrip("%")) > FALLBACK_PERCENT_MAX:
                    marks.append("fallback")
            except KeyError as error:
                run.value = 0.0
                run.failure = f"the output has no figure {error}"
            except ValueError as error:
                run.value = 0.0
                run.failure = f"the output has an impossible figure: {error}"
        if step.allocator.library and "malloc_from" not in figures and not watcher.seen:
            marks.append("unverified")
        run.marks = " ".join(marks)

    def _result_under_glibc(self, step: Step) -> str | None:
        glibc = dataclasses.replace(step, allocator=allocators.Allocator(allocators.GLIBC))
        return self._drive(glibc, Watcher(None, 0)).figures.get("result")

    def _judge_result(self, run: record.Run, step: Step, result: str) -> None:
        """A program's result must be the same under every allocator as under glibc. When glibc has not run the row yet,
        it runs once for this. Before a result may differ from glibc's, glibc runs once more: the results of a program
        that prints times or addresses differ by themselves, and say nothing."""
        if run.row not in self._results:
            self._results[run.row] = self._result_under_glibc(step) if step.allocator.library else result
        expected = self._results[run.row]
        if expected not in (None, result) and run.row not in self._proved:
            again = self._result_under_glibc(step) if step.allocator.library else result
            if again == expected:
                self._proved.add(run.row)
            else:
                self._results[run.row] = expected = None
        if expected is None:
            run.marks = f"{run.marks} unverified".strip()
        elif result != expected:
            run.failure = f"the result is {result}, in two runs under glibc it is {expected}"
            run.value = 0.0

    def _program_digest(self, row: Row) -> str:
        if row.workload not in self._programs:
            self._programs[row.workload] = _program_digest(row, self._plan.bin_dir)
        return self._programs[row.workload]

    def _log(self, run: record.Run, step: Step, outcome: Outcome) -> None:
        self._plan.log_dir.mkdir(parents=True, exist_ok=True)
        header = {
            "suite": run.suite, "row": run.row, "round": run.round, "position": run.position, "seed": run.seed,
            "preload": step.allocator.name, "lib": run.library or "-", "sha256": run.library_sha256 or "-",
            "commit": run.commit, "config": run.config or "-", "cpu": run.cpu, "kernel": run.kernel,
            "governor": run.governor, "load": f"{run.load:.2f}", "started": run.started,
        }  # fmt: skip
        words = " ".join(f"{key}={shlex.quote(str(value))}" for key, value in header.items())
        with (self._plan.log_dir / f"{run.row}.{run.allocator}.log").open("a", encoding="utf-8") as log:
            failure = f"FAILED: {run.failure}\n" if run.failure else ""
            marks = f"marks: {run.marks}\n" if run.marks else ""
            log.write(f"{HEADER} {words}\n$ {run.command}\n{outcome.output.rstrip()}\n{failure}{marks}\n")


def rss_integral(samples: list[tuple[int, int]]) -> float:
    """The area below the samples, pairs of (ms, KiB), in MiB x s. The first sample holds from the start on."""
    area, before_ms, before_kb = 0.0, 0, samples[0][1]
    for at_ms, kb in samples:
        area += (at_ms - before_ms) * (before_kb + kb) / 2
        before_ms, before_kb = at_ms, kb
    return area / 1000 / 1024


def _own_cpu_seconds() -> float:
    """The cpu seconds of this process and of the children it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _is_same(allocator: allocators.Allocator) -> bool:
    try:
        return allocators.digest(allocator.library) == allocator.sha256
    except OSError:
        return False


def wrong_malloc(allocator: allocators.Allocator, malloc_from: str | None, watcher: Watcher) -> str:
    """Why the program did not run on this allocator; empty when it did. A program that reports the file of its malloc
    decides by that, any other by its maps, if it lived long enough for a look at them."""
    if malloc_from is not None:
        served_by = pathlib.Path(malloc_from)
        if allocator.library is None:
            return "" if served_by.name.startswith("libc.so") else f"malloc comes from {served_by.name}, not from glibc"
        if not (served_by.exists() and served_by.samefile(allocator.library)):
            return f"the preload took no effect: malloc comes from {served_by.name}"
    if allocator.library and watcher.looked and not watcher.seen and malloc_from is None:
        return "the preload took no effect: the library is not in /proc/PID/maps"
    return ""


def _columns() -> tuple:
    return (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip


def _shown(run: record.Run) -> str:
    text = f"FAILED: {run.failure}" if run.failure else f"{run.value:.4g} {run.unit}"
    return f"{text} ({run.marks})" if run.marks else text


class Rounds:
    """Whether one more round fits a budget of seconds, which begins now; None: always."""

    def __init__(self, budget: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._round_began = clock()
        self._budget, self._round, self._longest = budget, 0, 0.0

    def has_time_for(self, number: int) -> bool:
        """To be asked before each run, with its round."""
        if number == self._round:
            return True
        now = self._clock()
        if self._round:
            self._longest = max(self._longest, now - self._round_began)
        is_first = self._round == 0
        self._round, self._round_began = number, now
        return is_first or self._budget is None or now - self._began + self._longest <= self._budget


def execute(
    plan: Plan, seen: machine.Machine, done: list[record.Run] | None = None, console: Console | None = None,
    budget: float | None = None,
) -> list[record.Run]:
    """Makes the runs that are not in `done`, and returns all. It appends each run to plan.csv_path right after its end,
    so a KeyboardInterrupt, which it raises again, loses only the run it interrupts. With a budget in seconds no round
    begins that would end later, if it takes as long as the longest so far; the first is always made."""
    console = console or Console(file=sys.stderr, highlight=False)
    runs = list(done or [])
    past = {run.position for run in runs}
    began = time.monotonic()
    todo = [step for step in steps(plan) if step.position not in past]
    runner = Runner(plan, seen)
    writer = record.Writer(plan.csv_path)
    try:
        if todo:
            runner.warm_up()
        # draws only between the runs, so that the tool itself never disturbs a run
        with Progress(*_columns(), console=console, disable=not console.is_terminal, auto_refresh=False) as progress:
            task = progress.add_task(plan.suite, total=len(todo) + len(past), completed=len(past))
            rounds = Rounds(budget)
            for step in todo:
                if not rounds.has_time_for(step.round):
                    console.print(f"{step.round - 1} of {plan.rounds} rounds fit into the time; --budget changes it", markup=False, soft_wrap=True)
                    break
                progress.update(task, description=f"{step.row.name} {step.allocator.name}", refresh=True)
                run, samples = runner.run(step)
                writer.add(run, samples)
                runs.append(run)
                progress.advance(task)
                if not console.is_terminal or run.failure:
                    made = len(runs) - len(past)
                    left = (time.monotonic() - began) / made * (len(todo) - made)
                    name = f"[{step.position}/{len(todo) + len(past)}] {run.row} {run.allocator}: {_shown(run)}"
                    name += f", about {left:.0f} s left" if left >= 1 else ""
                    console.print(name, markup=False, soft_wrap=True)
    finally:
        writer.close()
    return runs
