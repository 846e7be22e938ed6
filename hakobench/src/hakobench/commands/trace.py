"""`hakobench trace -- PROGRAM ARGS...`."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from hakobench.project import public_path
from hakobench.trace import capture, figures, show, store
from hakobench.trace.events import Trace

SUFFIX = ".hakotrace"


@contextlib.contextmanager
def progress(notes: Console, what: str) -> Iterator[Callable[[float], None]]:
    """A bar with the time left. Yields a function that takes the finished share."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def read(path: pathlib.Path, notes: Console) -> Trace:
    """Raises TraceError."""
    with progress(notes, f"read {path.name}") as tell:
        return store.read(path, tell)


def _say_processes(found: capture.Capture, kept: capture.Process, notes: Console) -> None:
    for complaint in found.unreadable:
        notes.print(f"note: not readable: {complaint}", markup=False, soft_wrap=True)
    if len(found.processes) > 1:
        table = Table("process", "program", "records", "kept", title="Recorded processes", title_justify="left")
        for one in found.processes:
            number = f"{one.header.pid}.{one.image}"
            table.add_row(number, one.header.program, f"{one.records}", "yes" if one is kept else "")
        notes.print(table)
    if found.ended:
        notes.print(f"note: the program ended with {found.ended}", markup=False)


def record(
    argv: tuple[str, ...], output: pathlib.Path | None, process: str, notes: Console, stack: contextlib.ExitStack
) -> tuple[Trace, str]:
    """Runs the program and keeps the recording in `output`, if there is one. Returns the recording and its name. The
    recorder's files stay when an exception leaves `stack`. Raises click exceptions."""

    def tell_kept(directory: pathlib.Path) -> None:
        text = f"note: what was recorded is kept in '{directory}'; replay and advise read the files in it"
        notes.print(text, markup=False, soft_wrap=True)

    try:
        beside = output.absolute().parent if output else pathlib.Path.cwd()
        directory = stack.enter_context(capture.scratch(beside, tell_kept))
        found = capture.run(argv, directory)
        kept = capture.choose(found, process)
        _say_processes(found, kept, notes)
        trace = read(kept.path, notes)
        if output is not None:
            with progress(notes, f"write {output.name}") as tell:
                store.write(output, trace, tell)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else argv[0]
        raise click.UsageError(f"'{name}': {error.strerror}") from error
    return trace, trace.program


def check_output(output: pathlib.Path) -> pathlib.Path:
    """Called before the program runs, because its recording would be lost. Raises click.UsageError."""
    parent = output.absolute().parent
    if output.is_dir():
        raise click.UsageError(f"--output: '{output}' is a directory")
    if not parent.is_dir():
        raise click.UsageError(f"--output: there is no directory '{parent}'")
    return output


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"], "max_content_width": 110, "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    }
)  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=pathlib.Path), help="Default: PROGRAM.hakotrace, here.")
@click.option(
    "--process",
    default=capture.LARGEST,
    show_default=True,
    metavar="WHICH",
    help="The process to keep: the one with most calls (largest), the program itself (first), or the "
    "largest one of that name.",
)
@click.argument("argv", metavar="PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(output: pathlib.Path | None, process: str, argv: tuple[str, ...]) -> None:
    """Record the allocation calls of a program and show a summary of them.

    The program runs with a preloaded recorder; it keeps its input and output. The recording has size, alignment and
    thread of every call of one process, and which thread frees which block. `hakobench replay` makes the same calls
    under any allocator. Ctrl-C goes to the program; the calls so far are kept.

    Exit code: 0; 1 when nothing could be recorded; 2 when the program cannot start. The program's own exit code is
    printed.
    """
    notes = Console(stderr=True, highlight=False)
    if argv[0].startswith("-"):
        raise click.UsageError(f"no such option '{argv[0]}'; put -- before the program")
    output = check_output(output or pathlib.Path(pathlib.Path(argv[0]).name + SUFFIX))
    with contextlib.ExitStack() as stack:
        trace, _ = record(argv, output, process, notes, stack)
    sys.stderr.flush()
    show.show(figures.compute(trace), Console(highlight=False))
    size = output.stat().st_size
    per_call = f", {size / len(trace):.2f} bytes a call" if len(trace) else ""
    notes.print(f"{show.quantity(size)}{per_call}", markup=False)
    click.echo(public_path(output))
