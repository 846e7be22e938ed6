"""How many cache lines and pages the next thousand blocks of a program lie on, from the addresses of a replay.

A window is so many consecutive allocations of one thread, or so many consecutive frees; the last ones of a thread, which
fill no window, are left out. A line or a page counts once in a window, however many of its blocks lie on it.
"""

import dataclasses

import numpy

from hakobench.trace import events
from hakobench.trace.events import Trace

LINE_BYTES = 64
PAGE_BYTES = 4096
QUANTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9}
_WINDOWS_AT_ONCE = 1000  # bounds the memory


@dataclasses.dataclass(frozen=True)
class Windows:
    """A number for each window. `bytes` is the sum of the blocks' sizes, so `bytes / LINE_BYTES` is how many lines they
    fill if they are packed. Fewer are possible where a block is freed and used again within the window."""

    lines: numpy.ndarray
    pages: numpy.ndarray
    bytes: numpy.ndarray

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def lines_to_packed(self) -> numpy.ndarray:
        return self.lines * LINE_BYTES / numpy.maximum(self.bytes, 1)

    @property
    def pages_to_packed(self) -> numpy.ndarray:
        return self.pages * PAGE_BYTES / numpy.maximum(self.bytes, 1)


def summarize(values: numpy.ndarray) -> dict[str, float]:
    """The mean and the QUANTILES over windows."""
    found = numpy.quantile(values, list(QUANTILES.values()))
    return {"mean": float(values.mean()), **dict(zip(QUANTILES, map(float, found), strict=True))}


def figures(windows: Windows) -> dict[str, object]:
    """All figures of one kind of window, for JSON."""
    names = ("bytes", "lines", "pages", "lines_to_packed", "pages_to_packed")
    return {"windows": len(windows), **{name: summarize(getattr(windows, name)) for name in names}}


def sizes(trace: Trace) -> numpy.ndarray:
    """The size of each event's block after the call; of a RELEASE, the one that it had."""
    index = numpy.flatnonzero(events.touches_block(trace.kind))
    by_block = index[numpy.argsort(trace.block[index], kind="stable")]
    found = trace.size.astype(numpy.int64)
    releases = numpy.flatnonzero(trace.kind[by_block] == events.RELEASE)
    found[by_block[releases]] = found[by_block[releases - 1]]
    return found


def cut(trace: Trace, kind: int, window: int) -> numpy.ndarray:
    """The indices of the events of this kind, a window a row."""
    index = numpy.flatnonzero(trace.kind == kind)
    thread = trace.thread[index]
    by_thread = index[numpy.argsort(thread, kind="stable")]
    counts = numpy.bincount(thread, minlength=1)
    place = numpy.arange(len(index)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    full = numpy.repeat(counts // window * window, counts)
    return by_thread[place < full].reshape(-1, window)


def _distinct(address: numpy.ndarray, size: numpy.ndarray, unit: int) -> numpy.ndarray:
    """How many units of memory the blocks of each row lie on. A block without bytes lies on none."""
    first = address // unit
    last = numpy.where(size > 0, (address + size - 1) // unit, first - 1)
    order = numpy.argsort(first, axis=1)
    first, last = numpy.take_along_axis(first, order, 1), numpy.take_along_axis(last, order, 1)
    reached = numpy.maximum.accumulate(last, axis=1)
    before = numpy.concatenate([numpy.full((len(first), 1), -1), reached[:, :-1]], axis=1)
    return numpy.maximum(last - numpy.maximum(first - 1, before), 0).sum(axis=1)


def measure(trace: Trace, addresses: numpy.ndarray, kind: int, window: int) -> Windows:
    """The windows of the events of this kind. `addresses` has one for each event (placement.of)."""
    rows = cut(trace, kind, window)
    size, address = sizes(trace), addresses.astype(numpy.int64)
    parts = [rows[at : at + _WINDOWS_AT_ONCE] for at in range(0, len(rows), _WINDOWS_AT_ONCE)]
    counted = [[_distinct(address[part], size[part], unit) for part in parts] for unit in (LINE_BYTES, PAGE_BYTES)]
    lines, pages = (numpy.concatenate([numpy.zeros(0, numpy.int64), *one]) for one in counted)
    return Windows(lines, pages, size[rows].sum(axis=1))


def most(trace: Trace, kind: int) -> int:
    """The most events of this kind that one thread has."""
    return int(numpy.bincount(trace.thread[trace.kind == kind], minlength=1).max())
