"""`hakobench counts`."""

import csv
import dataclasses
import datetime
import fnmatch
import os
import pathlib
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakobench import allocators, commits, machine, parallel, suite
from hakobench.commands.run import INTERRUPTED
from hakobench.counts import callgrind, ledger, perf
from hakobench.project import BIN_DIR, OUT_DIR, ROOT, public_path
from hakobench.rows import Row

COUNTS_DIR = OUT_DIR / "bench-counts"
DEFAULT_ROWS = "@st"
NAME_MAX = 110  # characters of a function's name that are shown
FULL_PERCENT = 99.5  # of the run; an event that was counted in less gets a mark
COLUMNS = (
    "suite", "row", "allocator", "ours", "scale", "failure", "pairs", "allocator_instructions", *callgrind.EVENTS,
    "command", "library", "library_sha256", "library_version", "config", "program_sha256", "commit", "valgrind",
    "started",
)  # fmt: skip
_DIRECTORY = click.Path(file_okay=False, path_type=pathlib.Path)
_FILE = click.Path(dir_okay=False, path_type=pathlib.Path)
_LEDGER_NOTE = (
    "per operation, in the allocator's file, or, of others' allocators, outside of the program. Locked operations, and misses of simulated "
    "caches (32 KiB L1, 8 MiB last level). Nothing depends on the load of this machine."
)
_NOTE = (
    "per operation: one malloc together with one free, the workload's loop included (it is the same for all); the "
    "allocator's are the instructions outside the workload's program. Mispredictions and cache misses are those of "
    "valgrind's simulated processor (32 KiB L1, 8 MiB last level); none of it depends on the load of this machine."
)


Cell = tuple[Row, allocators.Allocator]


Found = dict[tuple[str, str], tuple[callgrind.Counted, ...]]  # by row and allocator: the shorter run, the longer one


def run_callgrind(
    cells: Sequence[Cell], scale: float, bin_dir: pathlib.Path, console: Console, found: Found
) -> None:
    """Runs every cell at both lengths and puts the counts into `found`. After a failure of the shorter run it does not
    try the longer one."""

    def both(cell: Cell, watch: parallel.Watch) -> tuple[callgrind.Counted, ...]:
        row, allocator = cell
        short = callgrind.count(row, allocator, scale, bin_dir, watch)
        if short.failure:
            return (short,)
        return short, callgrind.count(row, allocator, 2 * scale, bin_dir, watch)

    def keep(cell: Cell, counted: tuple[callgrind.Counted, ...]) -> None:
        found[cell[0].name, cell[1].name] = counted

    parallel.run(cells, both, keep, "callgrind", console)


def write_csv(
    path: pathlib.Path, suite_name: str, cells: Sequence[Cell], found: Found, bin_dir: pathlib.Path, started: str
) -> None:
    """Writes one line for each run of valgrind, both lengths of each finished cell."""
    commit, valgrind = machine.commit(), callgrind.version()
    digests = {row.workload: allocators.digest(bin_dir / row.workload) for row, _ in cells}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row, allocator in cells:
            for counted in found.get((row.name, allocator.name), ()):
                totals = counted.profile.totals if counted.profile else {}
                writer.writerow(
                    (
                        suite_name, row.name, allocator.name, "yes" if allocator.is_ours else "no",
                        f"{counted.scale:.6g}", counted.failure, counted.pairs, counted.outside,
                        *(totals.get(event, "") for event in callgrind.EVENTS), counted.command,
                        allocator.shown_library, allocator.sha256, allocator.version, allocator.config,
                        digests[row.workload], commit, valgrind, started,
                    )
                )  # fmt: skip


def _figure(value: float) -> str:
    """A count as text. Less than 1/2000 of an event per operation is left over from the ends of the runs, not a
    cost."""
    if abs(value) < 0.0005:
        return "0"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.3f}"


def _short(name: str) -> str:
    """A function's name, shortened: names of C++ templates can fill a screen."""
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 30]}...{name[-27:]}"


def _callgrind_table(results: Sequence[callgrind.PerPair]) -> Table:
    table = Table(
        "row", "allocator", "instr.", "allocator's", "cond. branches", "mispred.", "reads", "writes", "D1 misses",
        "LL misses", "I1 misses",
    )  # fmt: skip
    previous = ""
    for one in results:
        if previous and one.row != previous:
            table.add_section()
        values = (
            one.events["Ir"], one.outside, one.events["Bc"], one.sum("Bcm", "Bim"), one.events["Dr"],
            one.events["Dw"], one.sum("D1mr", "D1mw"), one.sum("DLmr", "DLmw", "ILmr"), one.events["I1mr"],
        )  # fmt: skip
        table.add_row(escape(one.row) if one.row != previous else "", one.allocator, *map(_figure, values))
        previous = one.row
    return table


def _count(
    cells: Sequence[Cell], scale: float, bin_dir: pathlib.Path, top: int, suite_name: str, path: pathlib.Path,
    notes: Console, shown: Console,
) -> bool:  # fmt: skip
    """Callgrind's part. An interruption keeps the counts so far. False when nothing was counted, or when one of our own
    libraries failed."""
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    found: Found = {}
    try:
        run_callgrind(cells, scale, bin_dir, notes, found)
    finally:
        write_csv(path, suite_name, cells, found, bin_dir, started)
        shown.out(f"raw counts: {public_path(path)}")
    results, failures, ours_failed = [], {}, False
    for row, allocator in cells:
        pair = found[row.name, allocator.name]
        try:
            results.append(callgrind.per_pair(pair[0], pair[-1]))
        except ValueError as error:
            failures.setdefault(f"{allocator.name}: {error}", []).append(row.name)
            ours_failed = ours_failed or allocator.is_ours
    if results:
        results.sort(key=lambda one: [row.name for row, _ in cells].index(one.row))
        shown.print(_callgrind_table(results))
        shown.out(_NOTE)
    for one in results if top else ():
        shown.out(f"\n{one.row}, {one.allocator}: instructions per operation by function")
        for name, spent in one.functions[:top]:
            shown.out(f"  {spent:8.2f}  {_short(name)}")
    for failure, rows in failures.items():
        shown.print(f"left out: {failure} ({', '.join(rows)})", style="red", markup=False, soft_wrap=True)
    return bool(results) and not ours_failed


def _perf_table(counted: dict[tuple[str, str], perf.Counted], events: Sequence[str]) -> Table:
    table = Table("row", "allocator", *events)
    for (row, name), one in counted.items():
        table.add_row(escape(row), name, *(_perf_cell(one, event) for event in events))
    return table


def _perf_cell(counted: perf.Counted, event: str) -> str:
    """A cell of perf's table. An event that shared the counters with others shows the part of the run it was counted
    in."""
    value, percent = counted.per_pair(event), counted.percent(event)
    if value is None:
        return "-"
    return _figure(value) + ("" if percent >= FULL_PERCENT else f" ({percent:.0f} %)")


def _print_recorded(row: str, name: str, recorded: perf.Recorded, shown: Console) -> None:
    if recorded.failure:
        shown.print(f"left out: {name}, {row}: perf record: {recorded.failure}", style="red", markup=False)
        return
    shown.out(f"\n{row}, {name}: share of the samples")
    for symbol in recorded.symbols:
        shown.out(f"  {symbol.percent:6.2f} %  {_short(f'{symbol.name} ({symbol.file})')}")
        for percent, address, instruction in symbol.hot:
            shown.out(f"      {percent:6.2f} %  {address}: {instruction}")


def _perf(
    cells: Sequence[Cell], scale: float, bin_dir: pathlib.Path, top: int, notes: Console, shown: Console
) -> bool:
    """perf's part, one run at a time. False when there was nothing to show."""
    why = perf.missing()
    if why:
        shown.out(f"not measured: {why}")
        return False
    here, refusal = perf.probe()
    events = [event for event in perf.EVENTS if here.get(event)]
    lacking = [event for event in perf.EVENTS if not here.get(event)]
    if refusal:
        shown.out(f"not measured: {refusal}")
    elif lacking:
        shown.out(f"this machine cannot measure: {', '.join(lacking)}")
    sampled = "cycles" if "cycles" in events else "cpu-clock"
    if sampled == "cpu-clock":
        shown.out("samples come from a timer (cpu-clock), not from the processor's counters")
    counted: dict[tuple[str, str], perf.Counted] = {}
    recorded: dict[tuple[str, str], perf.Recorded] = {}
    with parallel.progress_bar(notes) as progress:
        task = progress.add_task("perf", total=len(cells))
        for row, allocator in cells:
            key = (row.name, allocator.name)
            progress.update(task, description=f"perf {row.name} {allocator.name}")
            if events:
                counted[key] = perf.stat(row, allocator, scale, bin_dir, events)
            recorded[key] = perf.record(row, allocator, scale, bin_dir, f"{sampled}:u", top)
            progress.advance(task)
    if any(not one.failure for one in counted.values()):
        shown.print(_perf_table({key: one for key, one in counted.items() if not one.failure}, events))
        shown.out("per operation: one malloc together with one free; start and end of the program included.")
        if any(one.percent(event) < FULL_PERCENT for one in counted.values() if not one.failure for event in events):
            shown.out("(n %): an estimate from that part of the run; the processor has fewer counters than events.")
    for (row, name), one in counted.items():
        if one.failure:
            shown.print(f"left out: {name}, {row}: perf stat: {one.failure}", style="red", markup=False)
    for (row, name), one in recorded.items():
        _print_recorded(row, name, one, shown)
    return any(not one.failure for one in recorded.values())


def _cells(
    chosen: suite.Suite, row_names: str, picked: list[allocators.Allocator], bin_dir: pathlib.Path
) -> list[Cell]:
    """Raises ValueError for a row that is not a workload of ours, or whose program is not built."""
    rows = chosen.select(row_names)
    others = [row.name for row in rows if row.driver != "program"]
    if others:
        raise ValueError(f"rows {', '.join(others)}: only workloads of bench/workloads can be counted")
    missing = [row for row in rows if not os.access(bin_dir / row.workload, os.X_OK)]
    if missing:
        raise ValueError(f"no program '{missing[0].workload}' in {public_path(bin_dir)}; 'make bench' builds it")
    return [(row, allocator) for row in rows for allocator in picked]


def _ledger_table(found: dict[tuple[str, str], ledger.Counted]) -> Table:
    table = Table("row", "allocator", "instr.", "locked", "L1 misses", "LL misses", "system calls")
    previous = ""
    for one in found.values():
        if previous and one.row != previous:
            table.add_section()
        figures = map(_figure, dataclasses.astuple(one.cost)) if one.cost else ("failed", "", "", "", "")
        table.add_row(escape(one.row) if one.row != previous else "", one.allocator, *figures)
        previous = one.row
    return table


def _chosen_rows(patterns: str, bin_dir: pathlib.Path) -> list[str]:
    """Raises ValueError for a pattern that no row has."""
    names = ledger.rows(bin_dir)
    chosen: list[str] = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise ValueError(f"no row of the ledger is called '{pattern}'; there are: {', '.join(names)}")
        chosen += [name for name in matching if name not in chosen]
    return chosen


def _count_ledger(
    cells: Sequence[tuple[str, allocators.Allocator]], bin_dir: pathlib.Path, notes: Console
) -> dict[tuple[str, str], ledger.Counted]:
    """The counts of all cells, in their order."""
    found: dict[tuple[str, str], ledger.Counted] = {}

    def one(cell: tuple[str, allocators.Allocator], watch: parallel.Watch) -> ledger.Counted:
        return ledger.count(*cell, bin_dir, watch)

    def keep(cell: tuple[str, allocators.Allocator], counted: ledger.Counted) -> None:
        found[cell[0], cell[1].name] = counted

    parallel.run(cells, one, keep, "ledger", notes)
    return {(row, allocator.name): found[row, allocator.name] for row, allocator in cells}


def _ledger(
    row_names: str, picked: list[allocators.Allocator], bin_dir: pathlib.Path, budget: pathlib.Path | None, write: bool,
    notes: Console, shown: Console,
) -> bool:  # fmt: skip
    """Counts the ledger's rows. With `budget`, compares or writes it. False when a row failed or a cost has changed."""
    cells = [(row, allocator) for row in _chosen_rows(row_names, bin_dir) for allocator in picked]
    found = _count_ledger(cells, bin_dir, notes)
    failed = [one for one in found.values() if one.failure]
    for one in failed:
        shown.print(f"failed: {one.allocator}, {one.row}: {one.failure}", style="red", markup=False, soft_wrap=True)
    if budget is None:
        shown.print(_ledger_table(found))
        shown.out(_LEDGER_NOTE)
        return not failed
    wanted = ledger.budget_read(budget) if budget.exists() else {}
    if write:
        counted = {key: one.cost for key, one in found.items() if one.cost}
        heading = [line for line in budget.read_text().splitlines() if line.startswith("#")][:-1] if budget.exists() else []
        budget.write_text(ledger.budget_text(wanted | counted, "\n".join(heading)), encoding="utf-8")
        shown.out(f"written: {public_path(budget)}")
        return not failed
    changed = ledger.changes(wanted, found.values())
    unknown = [f"{row} {lane}" for row, lane in found if (row, lane) not in wanted]
    for change in changed:
        shown.print(change.text(), style="red" if change.is_worse else "green", markup=False, highlight=False)
    if unknown:
        shown.out(f"not in the budget: {', '.join(unknown)}")
    shown.out(f"{len(found)} cells counted, {len(changed)} costs changed, {len(failed)} failed; budget: {public_path(budget)}")
    if changed:
        shown.out("A change belongs into the budget (--write-budget) in the commit that makes it, with its reason.")
    return not (failed or changed or unknown)


def _history(first: str, row_names: str, target: str, most: int, path: pathlib.Path, bin_dir: pathlib.Path, notes: Console, shown: Console) -> bool:
    """Counts commits since `first`, and draws. False when there was nothing to draw."""
    from hakobench.counts import history

    rows = _chosen_rows(row_names, bin_dir)
    last = commits.resolve("HEAD")
    between = history.commits_between(commits.resolve(first), last)

    def count_commit(commit: str) -> history.Costs | None:
        notes.print(f"{commit[:9]}", markup=False)
        try:
            library = commits.library_of(commit, target, notes)
        except ValueError as error:
            notes.print(f"left out: {error}", markup=False, soft_wrap=True)
            return None
        found = _count_ledger([(row, library) for row in rows], bin_dir, notes)
        return {row: one.cost for (row, _), one in found.items() if one.cost}

    points = history.search(between, count_commit, most)
    if not points:
        shown.out("no commit could be counted")
        return False
    for step in history.steps(points):
        shown.out(step.text())
    path.parent.mkdir(parents=True, exist_ok=True)
    history.draw(points, rows, path)
    shown.out(f"{len(points)} of {len(between)} commits counted; picture: {public_path(path)}")
    return True


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--suite", "suite_name", default="quick", show_default=True, help="A name, or a TOML file.")
@click.option("--rows", "row_names", default=DEFAULT_ROWS, show_default=True, metavar="NAMES",
              help="Comma-separated names, shell patterns or @tags.")  # fmt: skip
@allocators.options
@click.option("--scale", type=click.FloatRange(0, 100, min_open=True), default=0.02, show_default=True,
              help="Length of the shorter run as a multiple of the row's; the other is twice as long.")  # fmt: skip
@click.option("--top", type=click.IntRange(0, 100), default=0,
              help="List this many functions of each cell; default: 5 with --perf, else none.")  # fmt: skip
@click.option("--perf", "with_perf", is_flag=True,
              help="Use the processor's counters too, and list the hottest functions and instructions.")  # fmt: skip
@click.option("--ledger", "with_ledger", is_flag=True,
              help="Count the rows of the ledger instead of a suite's; --rows has their names.")  # fmt: skip
@click.option("--ours", "only_ours", is_flag=True, help="With --ledger: all libraries of this project, and no others.")
@click.option("--budget", type=_FILE, help="With --ledger: compare with this file; exit code 1 if a cost has changed by more than 2 %.")
@click.option("--write-budget", is_flag=True, help="With --budget: write what was counted.")
@click.option("--history", "since", metavar="REV", help="The ledger from this commit to HEAD: searches for the commits that changed it, and draws.")
@click.option("--most", type=click.IntRange(2, 1000), default=24, show_default=True, help="With --history: count at most so many commits.")
@click.option("--lane", "target", default="hakozuna_hz3_scale", show_default=True, help="With --history: the library's build target.")
@click.option("--picture", type=_FILE, default=COUNTS_DIR / "history.svg", help="With --history: the file to draw; default: build/bench-counts/history.svg.")
@click.option("--results-dir", type=_DIRECTORY, default=COUNTS_DIR, help="For the CSV; default: build/bench-counts.")
@click.option("--bin-dir", type=_DIRECTORY, default=BIN_DIR, help="Of the workloads; default: the release build.")
def command(
    suite_name: str, row_names: str, names: str | None, extra: dict[str, pathlib.Path], scale: float, top: int,
    with_perf: bool, with_ledger: bool, only_ours: bool, budget: pathlib.Path | None, write_budget: bool, since: str | None, most: int,
    target: str, picture: pathlib.Path, results_dir: pathlib.Path, bin_dir: pathlib.Path,
) -> None:  # fmt: skip
    """Count instructions, branches, reads, writes and cache misses per operation, by callgrind.

    An operation is one malloc together with one free. Every row runs at two lengths; the difference of their counts,
    divided by the difference in operations, is free of the program's start. A cell that does not run under valgrind is
    named and left out.

    Exit code: 0; 1 when nothing could be counted or one of our own libraries failed; 2 bad arguments; 130 interrupted.
    """
    notes, shown = Console(stderr=True, highlight=False), Console(highlight=False)
    if not shown.is_terminal:
        shown.width = 160
    if (budget or write_budget) and not with_ledger:
        raise click.UsageError("--budget and --write-budget need --ledger")
    if only_ours and (names or not with_ledger):
        raise click.UsageError("--ours needs --ledger, and takes the place of --allocators")
    if write_budget and not budget:
        raise click.UsageError("--write-budget needs --budget")
    try:
        if with_ledger or since:
            if why := ledger.missing(bin_dir):
                shown.out(f"not counted: {why}")
                sys.exit(1)
            patterns = row_names if row_names != DEFAULT_ROWS else "*"
            if since:
                sys.exit(0 if _history(since, patterns, target, most, picture, bin_dir.absolute(), notes, shown) else 1)
            picked, remarks = allocators.select(",".join(allocators.own_libraries()) if only_ours else names, extra)
            for remark in remarks:
                notes.print(f"note: {remark}", markup=False, soft_wrap=True)
            sys.exit(0 if _ledger(patterns, picked, bin_dir.absolute(), budget, write_budget, notes, shown) else 1)
        picked, remarks = allocators.select(names, extra)
        chosen = suite.load(suite_name)
        cells = _cells(chosen, row_names, picked, bin_dir.absolute())
        for remark in remarks:
            notes.print(f"note: {remark}", markup=False, soft_wrap=True)
        results_dir.mkdir(parents=True, exist_ok=True)
        path = results_dir / f"{chosen.name}-{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.csv"
        why = callgrind.missing()
        if why:
            shown.out(f"not counted: {why}")
            good = False
        else:
            good = _count(cells, scale, bin_dir.absolute(), top, chosen.name, path, notes, shown)
        if with_perf:
            seen = _perf(cells, 1.0, bin_dir.absolute(), top or 5, notes, shown)
            good = good or (bool(why) and seen)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"'{error.filename}': {error.strerror}" if error.filename else str(error)) from error
    except KeyboardInterrupt:
        notes.print("interrupted; the raw counts have the finished runs")
        sys.exit(INTERRUPTED)
    sys.exit(0 if good else 1)
