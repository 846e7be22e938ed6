"""`hakobench replay FILE`."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import click
from rich.console import Console

from hakobench import allocators, program_table, record, summary
from hakobench.commands import run as run_command
from hakobench.commands.trace import read
from hakobench.project import public_path
from hakobench.trace import replays

DEFAULT_ROUNDS = 7


@contextlib.contextmanager
def interruptible(notes: Console) -> Iterator[None]:
    """Ends the command on Ctrl-C, SIGTERM and SIGHUP, wherever it is; the runs have ended their children by then."""
    try:
        yield
    except KeyboardInterrupt:
        notes.print("interrupted; the finished runs are kept", markup=False)
        sys.exit(run_command.INTERRUPTED)


def options(function):
    """The click options of a replay, for this command and `advise`."""
    for option in (
        click.option("--force", is_flag=True, help="Run on a busy machine too; the results are marked."),
        click.option(
            "--results-dir",
            type=click.Path(file_okay=False, path_type=pathlib.Path),
            default=replays.RESULTS_DIR,
            help="For the CSV; default: build/hakotrace/results.",
        ),
        click.option("--budget", type=click.FloatRange(1, 86400), default=replays.BUDGET_SECONDS, show_default=True,
                     help="Seconds for all runs together, about: fewer replays in a run, then fewer rounds."),
        click.option("--timeout", type=click.FloatRange(1, 86400), default=600.0, show_default=True, help="Seconds."),
        click.option("--seed", type=click.IntRange(0, 2**63), help="Of the order of the runs; default: chosen."),
        click.option(
            "--touch",
            type=click.Choice(replays.TOUCH),
            default=replays.DEFAULT_TOUCH,
            show_default=True,
            help="What is written to a new block: first and last bytes, a byte in each page too, or everything.",
        ),
        click.option("--repeat", type=click.IntRange(1, replays.REPEAT_MAX), help="Replays within a run; default: "
                     "enough for about 5 million calls a run."),
        click.option("--rounds", type=click.IntRange(1, 1000), default=DEFAULT_ROUNDS, show_default=True),
    ):  # fmt: skip
        function = option(function)
    return allocators.options(function)


def show_runs(runs: list[record.Run], console: Console) -> None:
    """Prints the table, and the failures with their reasons."""
    program_table.show(runs, console, with_params=True)
    if max(run.round for run in runs) < summary.FEW_ROUNDS:
        console.print(f"Few rounds: do not quote these figures (from {summary.FEW_ROUNDS} on).", markup=False)
    for failure in sorted({f"{run.allocator}: {run.failure}" for run in runs if run.failure}):
        console.print(f"FAILED: {failure}", style="red", markup=False, soft_wrap=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@options
def command(
    file: pathlib.Path, names: str | None, extra: dict[str, pathlib.Path], rounds: int, repeat: int | None, touch: str,
    seed: int | None, timeout: float, results_dir: pathlib.Path, force: bool, budget: float,
) -> None:  # fmt: skip
    """Replay a recording under every allocator.

    Makes all calls of FILE again, with its threads and in its order, in shuffled and interleaved rounds like
    `hakobench run`. It leaves out what the program did between its calls. The memory is that of the process without the
    table of calls. The path of the raw results is the last line on stdout.

    Exit code: 0; 1 when a run failed; 2 when nothing was run; 130 when interrupted.
    """
    notes = Console(stderr=True, highlight=False)
    with interruptible(notes):
        try:
            trace = read(file, notes)
            picked, remarks = allocators.select(names, extra, few=True)
            for remark in remarks + list(trace.remarks):
                notes.print(f"note: {remark}", markup=False, soft_wrap=True)
            seen = run_command.quiet_machine(force)
            wanted = replays.Wanted(file.stem, picked, rounds, repeat, touch, seed, timeout, results_dir, force, budget)
            runs, csv_path = replays.run(trace, wanted, seen, notes)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        except OSError as error:
            raise click.ClickException(f"'{error.filename}': {error.strerror}") from error
        show_runs(runs, Console(highlight=False))
        click.echo(public_path(csv_path))
        sys.exit(1 if any(run.failure for run in runs) else 0)
