"""The figures of a recording. Sizes and lifetimes count calls and bytes, not time, so they never change."""

import dataclasses

import numpy

from hakobench.trace import events
from hakobench.trace.events import Trace

# A block is short-lived when at most this many blocks were allocated, by any thread, until it was freed.
SHORT_BLOCKS = 64
MEDIUM_BLOCKS = 16384
LIFETIMES = (f"short (within {SHORT_BLOCKS} allocations)", f"medium (within {MEDIUM_BLOCKS})", "long", "never freed")

# The size classes of hakozuna (docs/architecture.md): steps of 16 bytes, then 8 steps per doubling, then whole pages.
LINEAR_BYTES = 256
CLASS_BYTES_MAX = 2 << 20


def size_classes() -> numpy.ndarray:
    """The upper ends of the classes, in bytes."""
    linear = list(range(16, LINEAR_BYTES + 1, 16))
    doublings = range(LINEAR_BYTES.bit_length() - 1, CLASS_BYTES_MAX.bit_length() - 1)
    return numpy.array(linear + [(1 << log) + step * (1 << (log - 3)) for log in doublings for step in range(1, 9)])


@dataclasses.dataclass(frozen=True)
class SizeRow:
    """The blocks of `low` to `high` requested bytes: their number, their bytes, and the number that was never freed."""

    low: int
    high: int
    blocks: int
    bytes: int
    never_freed: int


@dataclasses.dataclass(frozen=True)
class ThreadRow:
    """The calls of one thread. A free is remote when another thread allocated the block, or moved it last. `moves` are
    the reallocs that moved a block: they free the old one, so they can be remote frees too."""

    thread: int
    allocations: int
    frees: int
    moves: int
    remote_frees: int
    allocated_bytes: int


@dataclasses.dataclass(frozen=True)
class Reallocs:
    """The calls of realloc that got a block and did not free it."""

    calls: int
    grown: int
    in_place: int
    bytes_before: int
    bytes_after: int
    longest_chain: int


@dataclasses.dataclass(frozen=True)
class Figures:
    """Everything that `hakobench trace` prints."""

    program: str
    remarks: tuple[str, ...]
    event_count: int
    calls: dict[str, int]
    failed: int
    free_null: int
    allocations: int
    allocated_bytes: int
    peak_bytes: int
    peak_blocks: int
    left_blocks: int
    left_bytes: int
    frees: int
    moves: int
    remote_frees: int
    sizes: tuple[SizeRow, ...]
    classes: tuple[SizeRow, ...]
    lifetimes: dict[str, int]
    threads: tuple[ThreadRow, ...]
    alive_at_once: int
    pairs: tuple[tuple[int, int, int], ...]
    reallocs: Reallocs
    alignments: dict[int, int]

    @property
    def remote_share(self) -> float:
        """The share of remote frees among all frees, by free or by a realloc that moved the block."""
        given_back = self.frees + self.moves
        return self.remote_frees / given_back if given_back else 0.0


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The events that concern blocks, sorted by block and then by time. `size_before` is the block's size before the
    event, `holder` the thread that allocated or moved the block last before the event."""

    index: numpy.ndarray
    kind: numpy.ndarray
    block: numpy.ndarray
    size_before: numpy.ndarray
    size_after: numpy.ndarray
    holder: numpy.ndarray


def _steps(trace: Trace) -> _Steps:
    index = numpy.flatnonzero(events.touches_block(trace.kind))
    index = index[numpy.lexsort((index, trace.block[index]))]
    kind, block = trace.kind[index], trace.block[index]
    size_after = numpy.where(kind == events.RELEASE, 0, trace.size[index].astype(numpy.int64))
    size_before = numpy.zeros(len(index), numpy.int64)
    size_before[1:] = size_after[:-1]
    size_before[kind == events.ALLOCATE] = 0
    takes = (kind == events.ALLOCATE) | (kind == events.MOVE)
    last_take = numpy.maximum.accumulate(numpy.where(takes, numpy.arange(len(index)), 0)) if len(index) else index
    holder = numpy.zeros(len(index), numpy.int64)
    holder[1:] = trace.thread[index[last_take]][:-1]
    return _Steps(index, kind, block, size_before, size_after, holder)


def _peaks(trace: Trace, steps: _Steps) -> tuple[int, int, int, int]:
    """The peaks of live bytes and live blocks, and both at the end."""
    grown = numpy.zeros(len(trace), numpy.int64)
    grown[steps.index] = steps.size_after - steps.size_before
    count = numpy.zeros(len(trace), numpy.int64)
    count[trace.kind == events.ALLOCATE] = 1
    count[trace.kind == events.RELEASE] = -1
    live_bytes, live_blocks = numpy.cumsum(grown), numpy.cumsum(count)
    if not len(trace):
        return 0, 0, 0, 0
    return int(live_bytes.max()), int(live_blocks.max()), int(live_bytes[-1]), int(live_blocks[-1])


def _size_rows(ends: numpy.ndarray, size: numpy.ndarray, stays: numpy.ndarray) -> tuple[SizeRow, ...]:
    """Rows for classes with these upper ends, and one for all larger blocks. Leaves out empty rows."""
    place = numpy.searchsorted(ends, size)
    count = numpy.bincount(place, minlength=len(ends) + 1)
    total = numpy.bincount(place, weights=size, minlength=len(ends) + 1)
    left = numpy.bincount(place[stays], minlength=len(ends) + 1)
    lows = [0, *(int(end) + 1 for end in ends)]
    highs = [*(int(end) for end in ends), int(size.max()) if len(size) else 0]
    rows = zip(lows, highs, count, total, left, strict=True)
    return tuple(SizeRow(low, high, int(n), int(b), int(s)) for low, high, n, b, s in rows if n)


def _sizes(trace: Trace) -> tuple[tuple[SizeRow, ...], tuple[SizeRow, ...]]:
    """Sizes by powers of two and by size classes. A resize counts as a request, too."""
    allocates = trace.kind == events.ALLOCATE
    size = trace.size[allocates].astype(numpy.float64)
    released = numpy.zeros(trace.block_count, bool)
    released[trace.block[trace.kind == events.RELEASE]] = True
    stays = ~released[trace.block[allocates]]
    return (
        _size_rows(numpy.array([0, *(1 << log for log in range(3, 48))]), size, stays),
        _size_rows(size_classes(), size, stays),
    )


def _lifetimes(trace: Trace) -> dict[str, int]:
    clock = numpy.cumsum(trace.kind == events.ALLOCATE)
    born = clock[trace.kind == events.ALLOCATE]
    released = trace.kind == events.RELEASE
    age = clock[released] - born[trace.block[released]]
    short = int(numpy.count_nonzero(age <= SHORT_BLOCKS))
    medium = int(numpy.count_nonzero(age <= MEDIUM_BLOCKS)) - short
    return dict(zip(LIFETIMES, (short, medium, len(age) - short - medium, len(born) - len(age)), strict=True))


def _alive_at_once(trace: Trace) -> int:
    """The largest number of threads at a time between their first and last call: a replay has as many."""
    seen, first = numpy.unique(trace.thread, return_index=True)
    last = len(trace) - 1 - numpy.unique(trace.thread[::-1], return_index=True)[1]
    change = numpy.zeros(len(trace) + 1, numpy.int64)
    numpy.add.at(change, first, 1)
    numpy.add.at(change, last + 1, -1)
    return int(numpy.cumsum(change).max()) if len(seen) else 0


def _threads(trace: Trace, remote: numpy.ndarray) -> tuple[ThreadRow, ...]:
    """`remote` are the indices of the remote frees."""
    count = trace.thread_count
    allocates, releases = trace.kind == events.ALLOCATE, trace.kind == events.RELEASE
    moves = trace.kind == events.MOVE
    columns = (
        numpy.bincount(trace.thread[allocates], minlength=count),
        numpy.bincount(trace.thread[releases], minlength=count),
        numpy.bincount(trace.thread[moves], minlength=count),
        numpy.bincount(trace.thread[remote], minlength=count),
        numpy.bincount(trace.thread[allocates], weights=trace.size[allocates].astype(float), minlength=count),
    )
    return tuple(ThreadRow(thread, *map(int, row)) for thread, row in enumerate(zip(*columns, strict=True)))


def _pairs(trace: Trace, steps: _Steps) -> tuple[numpy.ndarray, tuple[tuple[int, int, int], ...]]:
    """Indices of the remote frees, and (allocating thread, freeing thread, blocks), most blocks first."""
    releases = (steps.kind == events.RELEASE) | (steps.kind == events.MOVE)
    index, holder = steps.index[releases], steps.holder[releases]
    freer = trace.thread[index].astype(numpy.int64)
    remote = holder != freer
    keys, counts = numpy.unique(holder[remote] * events.THREADS_MAX + freer[remote], return_counts=True)
    largest = numpy.argsort(-counts, kind="stable")
    table = ((*divmod(int(keys[at]), events.THREADS_MAX), int(counts[at])) for at in largest)
    return index[remote], tuple(table)


def _reallocs(steps: _Steps) -> Reallocs:
    resized = (steps.kind == events.RESIZE) | (steps.kind == events.MOVE)
    before, after = steps.size_before[resized], steps.size_after[resized]
    chains = numpy.bincount(steps.block[resized]) if resized.any() else numpy.zeros(1, int)
    return Reallocs(
        int(numpy.count_nonzero(resized)),
        int(numpy.count_nonzero(after > before)),
        int(numpy.count_nonzero(steps.kind == events.RESIZE)),
        int(before.sum()),
        int(after.sum()),
        int(chains.max()),
    )


def peak_bytes(trace: Trace) -> int:
    """The largest number of bytes live at a time."""
    return _peaks(trace, _steps(trace))[0]


def compute(trace: Trace) -> Figures:
    steps = _steps(trace)
    remote, pairs = _pairs(trace, steps)
    live_peak, peak_blocks, left_bytes, left_blocks = _peaks(trace, steps)
    counts = numpy.bincount(trace.function, minlength=len(events.FUNCTIONS))
    allocates = trace.kind == events.ALLOCATE
    sizes, classes = _sizes(trace)
    logs, uses = numpy.unique(trace.align_log2[trace.align_log2 > 0], return_counts=True)
    return Figures(
        program=trace.program,
        remarks=trace.remarks,
        event_count=len(trace),
        calls={name: int(n) for name, n in zip(events.FUNCTIONS, counts, strict=True) if n},
        failed=int(numpy.count_nonzero(trace.kind == events.FAILED)),
        free_null=int(numpy.count_nonzero(trace.kind == events.FREE_NULL)),
        allocations=trace.block_count,
        allocated_bytes=int(trace.size[allocates].sum()),
        peak_bytes=live_peak,
        peak_blocks=peak_blocks,
        left_blocks=left_blocks,
        left_bytes=left_bytes,
        frees=int(numpy.count_nonzero(trace.kind == events.RELEASE)),
        moves=int(numpy.count_nonzero(trace.kind == events.MOVE)),
        remote_frees=len(remote),
        sizes=sizes,
        classes=classes,
        lifetimes=_lifetimes(trace),
        threads=_threads(trace, remote),
        alive_at_once=_alive_at_once(trace),
        pairs=pairs,
        reallocs=_reallocs(steps),
        alignments={1 << int(log): int(n) for log, n in zip(logs, uses, strict=True)},
    )
