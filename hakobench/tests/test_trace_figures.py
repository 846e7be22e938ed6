"""The figures of a recording, compared with a plain count, event by event."""

import collections
import dataclasses
import io

import numpy
import pytest
from rich.console import Console
from trace_samples import MALLOC, MEMALIGN, REALLOC, random_rows, trace_of

from hakobench.trace import events, figures, show
from hakobench.trace.figures import MEDIUM_BLOCKS, SHORT_BLOCKS


@dataclasses.dataclass
class _Block:
    size: int
    thread: int
    born: int


def _count_plainly(rows: list) -> dict[str, object]:
    live: dict[int, _Block] = {}
    now = peak_bytes = peak_blocks = allocations = remote = 0
    lives: collections.Counter = collections.Counter()
    pairs: collections.Counter = collections.Counter()
    resizes = before = after = in_place = 0
    for function, kind, thread, block, size, _align in rows:
        if kind == events.ALLOCATE:
            allocations += 1
            live[block] = _Block(size, thread, allocations)
            now += size
        elif kind in (events.RESIZE, events.MOVE):
            resizes, before, after = resizes + 1, before + live[block].size, after + size
            in_place += kind == events.RESIZE
            now += size - live[block].size
            if kind == events.MOVE and live[block].thread != thread:
                remote += 1
                pairs[live[block].thread, thread] += 1
            live[block].size = size
            live[block].thread = thread if kind == events.MOVE else live[block].thread
        elif kind == events.RELEASE:
            gone = live.pop(block)
            now -= gone.size
            age = allocations - gone.born
            lives["short" if age <= SHORT_BLOCKS else "medium" if age <= MEDIUM_BLOCKS else "long"] += 1
            if gone.thread != thread:
                remote += 1
                pairs[gone.thread, thread] += 1
        peak_bytes, peak_blocks = max(peak_bytes, now), max(peak_blocks, len(live))
    return {
        "peak": (peak_bytes, peak_blocks), "left": (now, len(live)), "remote": remote, "pairs": dict(pairs),
        "lives": (lives["short"], lives["medium"], lives["long"], len(live)),
        "reallocs": (resizes, in_place, before, after),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_figures_are_those_of_a_plain_count(seed: int) -> None:
    rows = random_rows(seed, 4000, threads=1 + seed, size_max=200_000)
    plain = _count_plainly(rows)
    found = figures.compute(trace_of(rows))
    assert (found.peak_bytes, found.peak_blocks) == plain["peak"]
    assert (found.left_bytes, found.left_blocks) == plain["left"]
    assert found.remote_frees == plain["remote"]
    assert {(one, other): count for one, other, count in found.pairs} == plain["pairs"]
    assert tuple(found.lifetimes.values()) == plain["lives"]
    reallocs = found.reallocs
    assert (reallocs.calls, reallocs.in_place, reallocs.bytes_before, reallocs.bytes_after) == plain["reallocs"]
    sizes = [size for _, kind, _, _, size, _ in rows if kind == events.ALLOCATE]
    for table in (found.sizes, found.classes):
        for row in table:
            inside = [size for size in sizes if row.low <= size <= row.high]
            assert (row.blocks, row.bytes) == (len(inside), sum(inside))
        assert sum(row.blocks for row in table) == found.allocations == len(sizes)
        assert sum(row.never_freed for row in table) == found.left_blocks
    assert sum(row.frees for row in found.threads) == found.frees
    assert sum(row.remote_frees for row in found.threads) == found.remote_frees
    assert sum(found.calls.values()) == len(rows)


def test_a_realloc_that_moves_a_block_of_another_thread_is_a_remote_free() -> None:
    rows = [
        (MALLOC, events.ALLOCATE, 0, 0, 8, 0), (REALLOC, events.MOVE, 1, 0, 9, 0), (REALLOC, events.RESIZE, 0, 0, 10, 0),
        (REALLOC, events.MOVE, 1, 0, 11, 0), (events.FREE, events.RELEASE, 1, 0, 0, 0),
    ]  # fmt: skip
    found = figures.compute(trace_of(rows))
    assert (found.remote_frees, found.frees, found.moves, found.pairs) == (1, 1, 2, ((0, 1, 1),))
    assert found.remote_share == 1 / 3
    assert (found.threads[1].frees, found.threads[1].moves, found.threads[1].remote_frees) == (1, 2, 1)


def test_lifetimes_at_their_limits() -> None:
    def alive_for(others: int) -> list:
        between = [(MALLOC, events.ALLOCATE, 0, 1 + at, 1, 0) for at in range(others)]
        return [(MALLOC, events.ALLOCATE, 0, 0, 1, 0), *between, (events.FREE, events.RELEASE, 0, 0, 0, 0)]

    for others, expected in ((0, 0), (SHORT_BLOCKS, 0), (SHORT_BLOCKS + 1, 1), (MEDIUM_BLOCKS, 1), (MEDIUM_BLOCKS + 1, 2)):
        lifetimes = list(figures.compute(trace_of(alive_for(others))).lifetimes.values())
        assert lifetimes.pop() == others
        assert lifetimes.index(1) == expected


def test_size_classes_are_those_of_the_library() -> None:
    classes = figures.size_classes().tolist()
    assert classes[:3] == [16, 32, 48]
    assert classes[15:18] == [256, 288, 320]
    assert classes[-1] == 2 << 20
    assert classes == sorted(set(classes))
    assert len(classes) == 16 + 13 * 8


def test_threads_alive_at_once() -> None:
    def rows(order: str) -> list:
        return [(events.FREE, events.FREE_NULL, int(thread), 0, 0, 0) for thread in order]

    assert figures.compute(trace_of(rows("0"))).alive_at_once == 1
    assert figures.compute(trace_of(rows("000111222"))).alive_at_once == 1
    assert figures.compute(trace_of(rows("0123012"))).alive_at_once == 4
    assert figures.compute(trace_of(rows("01101220330"))).alive_at_once == 2


def test_an_empty_recording_has_figures() -> None:
    found = figures.compute(trace_of([]))
    assert (found.event_count, found.remote_share, found.alive_at_once, found.peak_bytes) == (0, 0.0, 0, 0)
    show.show(found, Console(file=io.StringIO()))


def _shown(rows: list, **fields: object) -> str:
    out = io.StringIO()
    show.show(figures.compute(trace_of(rows, **fields)), Console(file=out, width=200))
    return out.getvalue()


def test_the_summary_names_everything() -> None:
    rows = [
        (MEMALIGN, events.ALLOCATE, 0, 0, 1536, 12),
        (MALLOC, events.ALLOCATE, 0, 1, 100, 0),
        (REALLOC, events.RESIZE, 0, 1, 300, 0),
        (events.FREE, events.RELEASE, 1, 1, 0, 0),
        (events.FREE, events.FREE_NULL, 1, 0, 0, 0),
        (MALLOC, events.FAILED, 1, 0, 1 << 60, 0),
    ]
    text = _shown(rows, program="[bold]odd name", remarks=("Something is missing.",))
    for part in (
        "[bold]odd name: 6 calls", "malloc 2, realloc 1, memalign 1, free 2", "1; free(NULL): 1", "2 blocks; 1.8 KiB",
        "1 blocks, 1.5 KiB", "2, at most 1 at a time", "1 of 1 (100.0%)", "1 calls, 1 grow, 1 stay in place; mean factor 3.00",
        "4096: 1", "Something is missing.", "1025 to 2048", "97 to 112",
    ):  # fmt: skip
        assert part in text, part


def test_long_tables_are_cut_and_say_so() -> None:
    threads = 30
    rows = []
    for thread in range(threads):
        rows.append((MALLOC, events.ALLOCATE, thread, thread, 8, 0))
    for thread in range(threads):
        rows.append((events.FREE, events.RELEASE, (thread + 1) % threads, thread, 0, 0))
    text = _shown(rows)
    assert f"and {threads - show.THREADS_SHOWN} threads with fewer calls" in text
    assert f"and {threads - show.PAIRS_SHOWN} pairs with fewer blocks" in text


def test_quantities_have_units() -> None:
    assert [show.quantity(1 << shift) for shift in (0, 9, 10, 25, 41)] == ["1 B", "512 B", "1.0 KiB", "32.0 MiB", "2048.0 GiB"]
    assert numpy.isclose(figures.compute(trace_of(random_rows(3, 2000))).remote_share, 0.75, atol=0.1)
