"""`hakobench locality FILE`."""

import json
import pathlib
import sys

import click
import numpy
from rich.console import Console
from rich.table import Table

from hakobench import allocators
from hakobench.commands import run as run_command
from hakobench.commands.trace import read
from hakobench.program_table import counted, digits
from hakobench.trace import events, locality, placement, replays
from hakobench.trace.events import Trace

KINDS = {"allocations": events.ALLOCATE, "frees": events.RELEASE}
WINDOW = 1000
WINDOW_MAX = 1_000_000

Place = tuple[str, int]  # of figures: a name in KINDS, and the size of a window


class Result:
    """One allocator: the figures of each kind and window that the recording fills; or why its replay failed."""

    def __init__(self, allocator: allocators.Allocator, found: dict[Place, dict], failure: str = "") -> None:
        self.allocator, self.found, self.failure = allocator, found, failure

    @property
    def name(self) -> str:
        return allocators.user_name(self.allocator.name, self.allocator.config)

    def as_json(self) -> dict[str, object]:
        one = self.allocator
        known = {"name": self.name, "version": one.version, "library": one.shown_library, "sha256": one.sha256, "config": one.config}
        if self.failure:
            return known | {"failure": self.failure}
        return known | {"figures": [{"of": kind, "window": window} | found for (kind, window), found in self.found.items()]}


def _require_windows(trace: Trace, sizes: tuple[int, ...]) -> None:
    most = locality.most(trace, events.ALLOCATE)
    if most < max(sizes):
        raise ValueError(f"--window={max(sizes)}: a window has the allocations of one thread, and no thread of this recording makes more than {most}")


def _figures(trace: Trace, addresses: numpy.ndarray, sizes: tuple[int, ...]) -> dict[Place, dict]:
    measured = {(name, size): locality.measure(trace, addresses, kind, size) for size in sizes for name, kind in KINDS.items()}
    return {place: locality.figures(one) for place, one in measured.items() if len(one)}


def _measure(
    trace: Trace, picked: list[allocators.Allocator], sizes: tuple[int, ...], timeout: float, notes: Console
) -> list[Result]:
    results = []
    with replays.plan_file(trace, "locality") as (path, count, _):
        notes.print(f"{counted(count, 'call')} of {counted(trace.thread_count, 'thread')}, {counted(len(picked), 'allocator')}", markup=False)
        for number, allocator in enumerate(picked, 1):
            try:
                addresses = placement.of(trace, path, allocator, timeout)
                results.append(Result(allocator, _figures(trace, addresses, sizes)))
            except placement.FailedError as error:
                results.append(Result(allocator, {}, str(error)))
            state = "FAILED" if results[-1].failure else "replayed"
            notes.print(f"[{number}/{len(picked)}] {results[-1].name}: {state}", markup=False)
    return results


def _show_place(results: list[Result], place: Place, console: Console) -> None:
    """The allocators that place these blocks on the fewest lines come first."""
    kind, size = place
    here = [result for result in results if place in result.found]
    if not here:
        console.print(f"No thread makes {size} {kind}.", markup=False)
        return
    packed = here[0].found[place]["bytes"]["p50"]
    full = f"{digits(packed / locality.LINE_BYTES)} lines, {digits(packed / locality.PAGE_BYTES)} pages"
    windows = counted(here[0].found[place]["windows"], "window")
    console.print(f"{windows} of {size} {kind}; packed, their bytes fill {full} (median)", markup=False, soft_wrap=True)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("allocator", no_wrap=True)
    for heading in ("lines", "x packed", "p90", "pages", "x packed", "p90"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for result in sorted(here, key=lambda one: one.found[place]["lines"]["p50"]):
        found = result.found[place]
        cells = []
        for unit in ("lines", "pages"):
            ratio = found[f"{unit}_to_packed"]
            cells += [f"{found[unit]['p50']:.0f}", digits(ratio["p50"]), digits(ratio["p90"])]
        shown.add_row(result.name, *cells)
    console.print(shown)


def _show(results: list[Result], sizes: tuple[int, ...], console: Console) -> None:
    for result in results:
        if result.failure:
            console.print(f"FAILED: {result.name}: {result.failure}", style="red", markup=False, soft_wrap=True)
    if not all(result.failure for result in results):
        for size in sizes:
            for kind in KINDS:
                _show_place(results, (kind, size), console)


def _export(results: list[Result], trace: Trace, path: pathlib.Path) -> None:
    contents = {
        "program": trace.program, "calls": len(trace), "line_bytes": locality.LINE_BYTES, "page_bytes": locality.PAGE_BYTES,
        "allocators": [result.as_json() for result in results],
    }  # fmt: skip
    path.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")


def _require_folder(path: pathlib.Path | None) -> None:
    """Called before the replays, whose figures would be lost."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"--export-json: there is no directory '{path.absolute().parent}'")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.option("--window", "sizes", type=click.IntRange(1, WINDOW_MAX), multiple=True, default=[WINDOW], show_default=True,
              help="Consecutive allocations, or frees, of a thread that are counted together; can be repeated.")  # fmt: skip
@click.option("--export-json", "json_path", type=click.Path(dir_okay=False, path_type=pathlib.Path),
              help="Write mean and quantiles of everything there too.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(1, 86400), default=600.0, show_default=True, help="Seconds for a replay.")
@allocators.options
def command(
    file: pathlib.Path, sizes: tuple[int, ...], json_path: pathlib.Path | None, timeout: float, names: str | None,
    extra: dict[str, pathlib.Path],
) -> None:  # fmt: skip
    """Count the cache lines and pages that a recording's next blocks lie on, under every allocator.

    Replays FILE once under each, and takes down the address of every block. Cuts the allocations of a thread, and its
    frees, into windows, and counts the lines of 64 bytes and the pages of 4 KiB on which the blocks of a window lie.
    `x packed` is how many times as many as their bytes would fill; below 1: memory freed in the window was used again.
    The figures depend on addresses only, not on the load of the machine.

    Exit code: 0; 1 when a replay failed; 2 when nothing was replayed; 130 when interrupted.
    """
    notes = Console(stderr=True, highlight=False)
    _require_folder(json_path)
    try:
        sizes = tuple(dict.fromkeys(sizes))
        trace = read(file, notes)
        _require_windows(trace, sizes)
        replays.require_program()
        picked, remarks = allocators.select(names, extra, few=True)
        for remark in remarks + list(trace.remarks):
            notes.print(f"note: {remark}", markup=False, soft_wrap=True)
        results = _measure(trace, picked, sizes, timeout, notes)
        if json_path is not None:
            _export(results, trace, json_path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"'{error.filename}': {error.strerror}") from error
    except KeyboardInterrupt:
        notes.print("interrupted; nothing is kept", markup=False)
        sys.exit(run_command.INTERRUPTED)
    _show(results, sizes, Console(highlight=False))
    sys.exit(1 if any(result.failure for result in results) else 0)
