"""Prints the figures of a recording."""

from rich.console import Console
from rich.table import Table

from hakobench.trace.figures import Figures, SizeRow

THREADS_SHOWN = 16
PAIRS_SHOWN = 10
CLASSES_SHOWN = 8


def quantity(count: int) -> str:
    """Bytes with a unit: 1536 is "1.5 KiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _size_table(title: str, rows: tuple[SizeRow, ...], figures: Figures) -> Table:
    table = Table("bytes", "blocks", "share", "requested", "never freed", title=title, title_justify="left")
    for row in rows:
        span = f"{row.low}" if row.low == row.high else f"{row.low} to {row.high}"
        table.add_row(
            span, f"{row.blocks}", _share(row.blocks, figures.allocations), quantity(row.bytes), f"{row.never_freed}"
        )
    return table


def _thread_table(figures: Figures) -> Table:
    table = Table("thread", "allocations", "requested", "frees", "remote", title="Threads", title_justify="left")
    by_work = sorted(figures.threads, key=lambda row: -(row.allocations + row.frees))
    shown = {row.thread for row in by_work[:THREADS_SHOWN]}
    for row in figures.threads:
        if row.thread in shown:
            remote = f"{row.remote_frees} ({_share(row.remote_frees, row.frees + row.moves)})"
            cells = (row.allocations, quantity(row.allocated_bytes), row.frees, remote)
            table.add_row(str(row.thread), *map(str, cells))
    rest = len(figures.threads) - len(shown)
    if rest:
        table.caption = f"and {rest} threads with fewer calls"
    return table


def _pair_table(figures: Figures) -> Table:
    table = Table("allocated by", "freed by", "blocks", "of remote frees", title="Handed over", title_justify="left")
    for allocator, freer, blocks in figures.pairs[:PAIRS_SHOWN]:
        table.add_row(f"{allocator}", f"{freer}", f"{blocks}", _share(blocks, figures.remote_frees))
    rest = len(figures.pairs) - PAIRS_SHOWN
    if rest > 0:
        table.caption = f"and {rest} pairs with fewer blocks"
    return table


def _facts(figures: Figures) -> list[tuple[str, str]]:
    reallocs = figures.reallocs
    facts = [
        ("calls", ", ".join(f"{name} {count}" for name, count in figures.calls.items())),
        ("failed", f"{figures.failed}; free(NULL): {figures.free_null}"),
        ("allocated", f"{figures.allocations} blocks, {quantity(figures.allocated_bytes)}"),
        ("peak live", f"{figures.peak_blocks} blocks; {quantity(figures.peak_bytes)}"),
        ("never freed", f"{figures.left_blocks} blocks, {quantity(figures.left_bytes)}"),
        ("lifetime", ", ".join(f"{name} {_share(n, figures.allocations)}" for name, n in figures.lifetimes.items())),
        ("threads", f"{len(figures.threads)}, at most {figures.alive_at_once} at a time"),
        ("remote frees", f"{figures.remote_frees} of {figures.frees + figures.moves} ({figures.remote_share:.1%}); "
         f"{figures.moves} blocks were given back by a realloc that moved them"),
    ]
    if reallocs.calls:
        factor = f"{reallocs.bytes_after / reallocs.bytes_before:.2f}" if reallocs.bytes_before else "-"
        facts.append(
            ("realloc", f"{reallocs.calls} calls, {reallocs.grown} grow, {reallocs.in_place} stay in place; "
             f"mean factor {factor}; one block at most {reallocs.longest_chain} times")
        )  # fmt: skip
    if figures.alignments:
        facts.append(("alignment", ", ".join(f"{align}: {count}" for align, count in figures.alignments.items())))
    return facts


def show_facts(figures: Figures, console: Console) -> None:
    """Prints the lines above the tables."""
    console.print(f"{figures.program}: {figures.event_count} calls", markup=False)
    for name, text in _facts(figures):
        console.print(f"  {name:12} {text}", markup=False, soft_wrap=True)
    for remark in figures.remarks:
        console.print(f"  {'remark':12} {remark}", markup=False, soft_wrap=True)


def show(figures: Figures, console: Console) -> None:
    """Prints the whole summary."""
    show_facts(figures, console)
    console.print(_size_table("Sizes", figures.sizes, figures))
    most = sorted(figures.classes, key=lambda row: -row.blocks)[:CLASSES_SHOWN]
    console.print(_size_table("Most used size classes of hakozuna", tuple(most), figures))
    if len(figures.threads) > 1:
        console.print(_thread_table(figures))
    if figures.pairs:
        console.print(_pair_table(figures))
