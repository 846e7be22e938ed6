"""`hakobench advise PROGRAM|FILE`."""

import contextlib
import pathlib
import sys

import click
from rich.console import Console
from rich.table import Table

from hakobench import allocators, summary
from hakobench.commands import replay, trace
from hakobench.commands import run as run_command
from hakobench.project import public_path
from hakobench.trace import advice, capture, figures, raw, replays, show, store
from hakobench.trace.events import Trace, TraceError


def _is_recording(path: pathlib.Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(8) in (raw.MAGIC, store.MAGIC)
    except OSError:
        return False


def _obtain(argv: tuple[str, ...], process: str, notes: Console, stack: contextlib.ExitStack) -> tuple[Trace, str]:
    """The recording and its name. `stack` is the one of `trace.record`."""
    path = pathlib.Path(argv[0])
    if not _is_recording(path):
        return trace.record(argv, None, process, notes, stack)
    if len(argv) > 1:
        raise click.UsageError(f"'{argv[1]}': a recording takes no arguments")
    try:
        return trace.read(path, notes), path.stem
    except TraceError as error:
        raise click.UsageError(str(error)) from error


def show_advice(found: advice.Advice, console: Console) -> None:
    """Prints the sentence first, then the figures behind it."""
    console.print(found.verdict, style="bold", markup=False, soft_wrap=True)
    for remark in found.remarks:
        console.print(f"  {remark}", markup=False, soft_wrap=True)
    if not found.rivals:
        return
    table = Table("against", "speed", "interval", "peak memory", title=f"{found.library} as a multiple of")
    for rival in found.rivals:
        interval = rival.interval
        known = interval is not None and not interval.is_wide
        table.add_row(
            rival.name,
            "-" if interval is None else f"{interval.ratio:.2f}",
            f"{interval.low:.2f} to {interval.high:.2f}" if known else "-" if interval is None else "too few rounds",
            summary.times(rival.memory),
        )
    console.print(table)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "allow_interspersed_args": False}
)
@click.option("--process", default=capture.LARGEST, show_default=True, metavar="WHICH", help="As in `trace`.")
@click.argument("argv", metavar="FILE | PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
@replay.options
def command(
    process: str, argv: tuple[str, ...], names: str | None, extra: dict[str, pathlib.Path], rounds: int,
    repeat: int | None, touch: str, seed: int | None, timeout: float, results_dir: pathlib.Path, force: bool,
    budget: float,
) -> None:  # fmt: skip
    """Suggest a library for a program, by replaying its allocation calls.

    Records the program (or takes a recording), replays it under our libraries and all others, and says which one is
    fastest with these calls, with an interval for the ratio. It also says when the interval contains 1, or when another
    allocator is faster. A replay makes only the calls, so the difference in the program itself is usually smaller.

    Exit code: 0; 1 when a run failed or nothing was recorded; 2 when nothing was run; 130 when interrupted.
    """
    notes = Console(stderr=True, highlight=False)
    with replay.interruptible(notes):
        try:
            # Checks everything it can before it starts the program, which can run for hours.
            picked, remarks = allocators.select(names, extra)
            replays.require_program()
            seen = run_command.quiet_machine(force)
            with contextlib.ExitStack() as stack:
                recording, name = _obtain(argv, process, notes, stack)
                for remark in remarks + list(recording.remarks):
                    notes.print(f"note: {remark}", markup=False, soft_wrap=True)
                wanted = replays.Wanted(name, picked, rounds, repeat, touch, seed, timeout, results_dir, force, budget)
                runs, csv_path = replays.run(recording, wanted, seen, notes)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        except OSError as error:
            raise click.ClickException(f"'{error.filename}': {error.strerror}") from error
        console = Console(highlight=False)
        found = figures.compute(recording)
        show.show_facts(found, console)
        replay.show_runs(runs, console)
        show_advice(advice.judge(found, runs, summary.lines(runs)[0]), console)
        click.echo(public_path(csv_path))
        sys.exit(1 if any(run.failure for run in runs) else 0)
