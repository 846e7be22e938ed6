"""The result for one program, or for the replay of one: an allocator a line, the fastest first, against glibc.

Every line fits the terminal, since columns are left out where there is no room for all. Figures have three digits.
"""

import dataclasses
import math
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hakobench import allocators, standing, statistics, summary
from hakobench.record import Run

DIGITS = 3
LEGEND = (
    "x glibc: how many times as fast as glibc, by pairs of runs of the same round, with its interval of "
    f"{statistics.PAIRS_CONFIDENCE * 100:g} %, which needs {statistics.MIN_PAIRS} pairs; for memory: how many times as much."
)
FIGURE = "figure"  # its title is the unit
# Left out where there is no room for all, the first one first.
OPTIONAL = ("memory x glibc", "spread", "peak MiB", "CPU s", "interval")


def digits(value: float | None) -> str:
    """Three of them, without an exponent."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    if decimals and abs(float(text)) >= 10 ** (DIGITS - decimals):  # 9.999 is 10.0, not 10.00
        text = f"{value:.{decimals - 1}f}"
    return text


@dataclasses.dataclass(frozen=True)
class Row:
    """An allocator's cells by column, and its speed, by which rows are sorted; 0: it failed."""

    name: str
    ours: bool
    speed: float
    cells: dict[str, str]


def _row(line: summary.Line, cell: summary.Cell, name: str) -> Row:
    if cell.failed:
        return Row(name, cell.ours, 0.0, {FIGURE: "failed"})
    against = line.cells.get(allocators.GLIBC)
    ratios = line.log_ratios(cell.allocator, allocators.GLIBC) if cell.allocator != allocators.GLIBC else []
    interval = standing.of(ratios).interval if ratios else None
    known = interval is not None and interval.is_known
    has_memory = against is not None and not against.failed and against.peak_rss_mb > 0
    is_glibc = cell.allocator == allocators.GLIBC
    cells = {
        FIGURE: digits(cell.value),
        "x glibc": digits(1.0 if is_glibc else interval.ratio if interval else None),
        "interval": f"{digits(interval.low)} .. {digits(interval.high)}" if known else "",
        "spread": f"±{cell.spread:.1%}".replace("%", " %"),
        "CPU s": digits(line.figure_of(cell.allocator, "cpu_seconds")),
        "peak MiB": digits(cell.peak_rss_mb),
        "memory x glibc": digits(cell.peak_rss_mb / against.peak_rss_mb if has_memory else None),
    }
    return Row(name, cell.ours, interval.ratio if interval else 1.0 if is_glibc else cell.speed, cells)


def rows_of(line: summary.Line, names: dict[str, str]) -> list[Row]:
    """The fastest first, those that failed last. `names` has what to call an allocator."""
    rows = [_row(line, cell, names.get(name, name)) for name, cell in line.cells.items()]
    return sorted(rows, key=lambda row: (-row.speed, row.name))


def _table(rows: Sequence[Row], columns: Sequence[str], unit: str) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("allocator", no_wrap=True)
    for column in columns:
        shown.add_column(unit if column == FIGURE else column, justify="right", no_wrap=True)
    for row in rows:
        name = Text(row.name, style="bold" if row.ours else "")
        shown.add_row(name, *(Text(row.cells.get(column, ""), style="red" if row.speed == 0.0 else "") for column in columns))
    return shown


def fitting(rows: Sequence[Row], unit: str, console: Console) -> Table:
    """With as many columns as fit the console's width, and without those in which no row has anything."""
    columns = [FIGURE, "x glibc", "interval", "spread", "CPU s", "peak MiB", "memory x glibc"]
    columns = [column for column in columns if any(row.cells.get(column, "-") not in ("", "-") for row in rows)]
    for name in (*(name for name in OPTIONAL if name in columns), ""):
        shown = _table(rows, columns, unit)
        width = Measurement.get(console, console.options.update(max_width=10_000), shown).maximum
        if width <= console.width or not name:
            break
        columns.remove(name)
    return shown


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def show(runs: Sequence[Run], console: Console, with_params: bool = False) -> None:
    """Prints a line about each row and its table, and what the reader of it has to know."""
    names = {run.allocator: allocators.user_name(run.allocator, run.config) for run in runs}
    if not console.is_terminal:
        console.width = 10_000
    for line in summary.lines(runs):
        noisy = f"; noisy: {line.noise} of the machine" if line.is_noisy else ""
        rounds = max(cell.rounds for cell in line.cells.values())
        about = f"{line.row}: {line.about}{f'; {line.params}' if with_params else ''}; {counted(rounds, 'round')}{noisy}"
        console.print(about, markup=False, soft_wrap=True)
        console.print(fitting(rows_of(line, names), line.unit, console))
    console.print(LEGEND, markup=False, soft_wrap=True)
