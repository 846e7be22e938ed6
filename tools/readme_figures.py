#!/usr/bin/env python3
"""Writes the table of figures in README.md from the raw results of suite `first` in bench/results.

usage: readme_figures.py [--root DIRECTORY] [--check]

--check: write nothing, and exit with 1 if the table differs from the results.
Needs hakobench: run it with the Python of `make venv`. Exits with 2 if there are no results, a run in them failed, or
README.md lacks the two marks between which the table stands.
"""

import argparse
import pathlib
import statistics
import sys
from typing import NamedTuple

from hakobench import record

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "README.md"
RESULTS = "bench/results"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
ALLOCATORS = {
    "glibc": "glibc", "jemalloc": "jemalloc", "google-tcmalloc": "Google's tcmalloc", "mimalloc": "mimalloc",
    "hz3_scale": "hakozuna",
}  # fmt: skip


class Bad(Exception):
    """Results or a page that cannot be used."""


class Row(NamedTuple):
    """A line of the table. `figures`: columns or named figures of the raw file, each with its divisor."""

    name: str
    text: str
    figures: tuple[tuple[str, float], ...]
    cell: str


ROWS = (
    Row("pool", "a new thread pool per request: MiB at the end, 5 s later",
        (("end_rss_kb", 1024), ("after5_rss_kb", 1024)), "{}, {}"),
    Row("redis-deleted", "redis, all keys deleted: peak MiB, MiB 5 s later",
        (("peak_rss_kb", 1024), ("after5_rss_kb", 1024)), "{}, {}"),
    Row("service", "a service, the night after a day: resident / live bytes", (("hour24_ratio", 1),), "{}"),
    Row("buffers", "4 threads pass on buffers of up to 64 KiB: M operations/s (MiB)",
        (("ops_per_s", 1e6), ("peak_rss_kb", 1024)), "{} ({})"),
    Row("loop", "1 thread, up to 2 KiB: M malloc-free pairs/s (MiB)",
        (("pairs_per_s", 1e6), ("peak_rss_kb", 1024)), "{} ({})"),
    Row("trivial", "a program that does nothing: us from start to end (MiB)",
        (("startup_us", 1), ("start_rss_kb", 1024)), "{} ({})"),
)  # fmt: skip


def number(value: float) -> str:
    """Three digits, or as many as the integer part has."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def newest(root: pathlib.Path) -> pathlib.Path:
    found = [path for path in sorted((root / RESULTS).glob("first-*.csv*")) if ".rss." not in path.name]
    if not found:
        raise Bad(f"{RESULTS} has no results of suite first; make them with `hakobench run first`")
    return found[-1]


def figure(run: record.Run, name: str, divisor: float) -> float:
    """In the unit of the table. The raw file has the row's own figure in that unit already."""
    if name == run.metric:
        return run.value
    value = getattr(run, name, None)
    value = run.figure(name) if value is None else value
    if value is None:
        raise Bad(f"{run.row} under {run.allocator} has no figure '{name}'")
    return value / divisor


def cell(runs: list[record.Run], row: Row, allocator: str) -> str:
    found = [run for run in runs if (run.row, run.allocator) == (row.name, allocator)]
    if not found or any(run.failure for run in found):
        raise Bad(f"{row.name} under {allocator}: " + ("a run failed" if found else "no runs"))
    return row.cell.format(*(number(statistics.median(figure(run, *each) for run in found)) for each in row.figures))


def table(runs: list[record.Run]) -> str:
    lines = [f"| | {' | '.join(ALLOCATORS.values())} |", f"|---|{'---|' * len(ALLOCATORS)}"]
    lines += [f"| {row.text} | {' | '.join(cell(runs, row, name) for name in ALLOCATORS)} |" for row in ROWS]
    return "\n".join(lines) + "\n"


def with_table(page: str, made: str) -> str:
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise Bad(f"{PAGE} must have the line '{BEGIN.strip()}' once, and below it '{END.strip()}' once")
    return page.split(BEGIN)[0] + BEGIN + "\n" + made + "\n" + END + page.split(END)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = options.root / PAGE
    try:
        results = newest(options.root)
        page = path.read_text(encoding="utf-8")
        new = with_table(page, table(record.read(results).runs))
    except (Bad, OSError, ValueError) as error:
        print(f"readme_figures: {error}", file=sys.stderr)
        return 2
    if options.check:
        if new != page:
            print(f"readme_figures: the table in {PAGE} differs from {results.relative_to(options.root)}", file=sys.stderr)
        return int(new != page)
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
