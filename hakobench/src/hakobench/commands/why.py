"""`hakobench why PROGRAM`, which `hakozuna why` calls."""

import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import sys
import time

import click
from rich.console import Console

from hakobench import allocators, machine, program_table, record, runner, suite, summary
from hakobench.commands import advise, replay
from hakobench.commands import run as run_command
from hakobench.commands.trace import progress
from hakobench.project import BIN_DIR, OUT_DIR
from hakobench.trace import advice, capture, figures, replays, share, store
from hakobench.trace.events import Trace

BUDGET_SECONDS = 30.0
PAIRS_MAX = 20
REPLAY_ROUNDS = 5
# Shares of the budget: the program itself, and the replay that tells the time of a call. What is left after the recording is for the
# replay under every library.
PROGRAM_SHARE, CALL_SHARE = 0.4, 0.2
CALL_TOUCH = "edges"  # that a program fills its blocks is its own work
GLIBC = "glibc"
DEFAULT_CONFIG = "engine=hz3 lane=scale "


def _chosen(names: str | None, extra: dict[str, pathlib.Path]) -> tuple[list[allocators.Allocator], list[allocators.Allocator], list[str]]:
    """All allocators to choose from, glibc and our default one of them, and remarks. Raises ValueError."""
    picked, remarks = allocators.select(names, extra, few=True)
    picked = [dataclasses.replace(one, name=allocators.user_name(one.name, one.config)) for one in picked]
    ours = [one for one in picked if one.is_ours]
    glibc = [one for one in picked if one.name == GLIBC]
    if not ours or not glibc:
        raise ValueError("; ".join(["it needs glibc and a library of ours", *remarks]))
    default = next((one for one in ours if DEFAULT_CONFIG in one.config), ours[0])
    return picked, [glibc[0], default], remarks


def _run_program(
    argv: tuple[str, ...], pair: list[allocators.Allocator], budget: float, seed: int, seen: machine.Machine, forced: bool, notes: Console
) -> list[record.Run]:
    """The program under both, interleaved: as many pairs as fit the budget, at least one. Raises ValueError."""
    end = time.monotonic() + budget
    directory = OUT_DIR / "hakotrace" / "why"
    directory.mkdir(parents=True, exist_ok=True)
    plan, _ = run_command.new_plan(
        suite.of_program(argv, discard=True), None, pair, 1, 1.0, seed, directory, directory / "logs", BIN_DIR, forced
    )
    seconds = runner.Runner(plan, seen).seconds_under_glibc(plan.rows[0])
    if seconds is None:
        raise ValueError(f"'{argv[0]}' failed under glibc; the logs in {plan.log_dir} say how")
    rounds = max(1, min(PAIRS_MAX, int((end - time.monotonic()) / (2 * max(seconds, 1e-3)))))
    notes.print(f"the program takes {seconds:.3g} s: {program_table.counted(rounds, 'pair')} of runs", markup=False)
    plan, _ = run_command.new_plan(
        suite.of_program(argv, discard=True), None, pair, rounds, 1.0, seed, directory, directory / "logs", BIN_DIR, forced
    )
    return runner.execute(plan, seen, console=notes, budget=max(end - time.monotonic(), 0.0))


def _record(argv: tuple[str, ...], process: str, notes: Console) -> tuple[Trace, float]:
    """The recording of the process with most calls, and by how much all processes have more of them. Raises ValueError."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(capture.scratch(pathlib.Path.cwd(), lambda kept: notes.print(f"note: kept in '{kept}'", markup=False)))
        notes.print("one more run, whose calls are recorded", markup=False)
        found = capture.run(argv, directory, quiet=True)
        if not found.processes:  # it allocates nothing, or with a malloc of its own
            shutil.rmtree(directory)
        kept = capture.choose(found, process)
        with progress(notes, "read the recording") as tell:
            trace = store.read(kept.path, tell)
        return trace, sum(one.records for one in found.processes) / max(1, kept.records)


def _print(lines: list[str], console: Console) -> None:
    for at, line in enumerate(lines):
        console.print(line, style="bold" if at == 0 else None, markup=False, soft_wrap=True)


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"], "max_content_width": 110, "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)  # fmt: skip
@click.option("--budget", type=click.FloatRange(1, 86400), default=BUDGET_SECONDS, show_default=True,
              help="Seconds for everything, about; of each kind of run one is always made.")  # fmt: skip
@click.option("--process", default=capture.LARGEST, show_default=True, metavar="WHICH", help="As in `trace`.")
@click.option("--seed", type=click.IntRange(0, 2**63), help="Of the order of the runs; default: chosen.")
@click.option("--force", is_flag=True, help="Run on a busy machine too; the figures are then worth less.")
@click.argument("argv", metavar="PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@allocators.options
def command(
    budget: float, process: str, seed: int | None, force: bool, argv: tuple[str, ...], names: str | None,
    extra: dict[str, pathlib.Path],
) -> None:  # fmt: skip
    """Say whether another allocator can make a program faster, and if so which.

    Runs PROGRAM under glibc and under our default library, in interleaved pairs, records its calls once, and replays
    them: calls x time of a call / CPU time is the share that allocation takes. Below 1 %, and without a difference in
    the pairs, that is the answer. Otherwise the calls are replayed under every library, as `advise` does. The program
    gets no input, and its output is thrown away.

    Exit code: 0; 1 when a run failed; 2 when nothing was run; 130 when interrupted.
    """
    notes, console = Console(stderr=True, highlight=False), Console(highlight=False)
    if argv[0].startswith("-"):
        raise click.UsageError(f"no such option '{argv[0]}'; put -- before the program")
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    end = time.monotonic() + budget
    with replay.interruptible(notes):
        try:
            picked, pair, remarks = _chosen(names, extra)
            replays.require_program()
            seen = run_command.quiet_machine(force)
            for remark in remarks:
                notes.print(f"note: {remark}", markup=False, soft_wrap=True)
            program_runs = _run_program(argv, pair, PROGRAM_SHARE * budget, seed, seen, force, notes)
            trace, factor = _record(argv, process, notes)
            found = figures.compute(trace)

            def replayed(chosen: list[allocators.Allocator], touch: str, seconds: float) -> list[record.Run]:
                wanted = replays.Wanted(
                    pathlib.Path(argv[0]).name, chosen, REPLAY_ROUNDS, None, touch, seed, 600.0, replays.RESULTS_DIR, force,
                    seconds,
                )  # fmt: skip
                return replays.run(trace, wanted, seen, notes)[0]

            call_runs = replayed(pair[:1], CALL_TOUCH, CALL_SHARE * budget)
            cell = summary.lines(call_runs)[0].cells[GLIBC]
            if cell.failed:
                raise click.ClickException(f"the replay failed under glibc: {call_runs[0].failure}")
            calls = round(found.event_count * factor)
            part = share.share_of(calls, cell.value * 1e6, found.alive_at_once, program_runs, os.cpu_count() or 1)
            both = share.pairs_of(program_runs, pair[1].name)
            _print([*share.sentences(part, both), *advice.pool_remarks(found.program)], console)
            failed = any(run.failure for run in program_runs)
            if not share.is_enough(part, both):
                runs = replayed(picked, replays.DEFAULT_TOUCH, max(end - time.monotonic(), 0.0))
                replay.show_runs(runs, console)
                advise.show_advice(advice.judge(found, runs, summary.lines(runs)[0]), console)
                failed |= any(run.failure for run in runs)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        except OSError as error:
            raise click.UsageError(f"'{error.filename or argv[0]}': {error.strerror}") from error
        sys.exit(1 if failed else 0)
