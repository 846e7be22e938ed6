"""A recording in memory: one numpy column for each field of an event, in the order of the recording."""

import dataclasses

import numpy

FUNCTIONS = (
    "none", "malloc", "calloc", "realloc", "reallocarray", "memalign", "posix_memalign", "aligned_alloc", "valloc",
    "pvalloc", "free",
)  # fmt: skip
FREE = FUNCTIONS.index("free")
REALLOCS = (FUNCTIONS.index("realloc"), FUNCTIONS.index("reallocarray"))

# The kinds of events. RESIZE leaves the block in its place, MOVE is a realloc that returned another address.
ALLOCATE, RESIZE, RELEASE, FREE_NULL, FAILED, MOVE = range(6)
KIND_COUNT = 6

THREADS_MAX = 1 << 16  # a thread has two bytes in the files


class TraceError(ValueError):
    """An unusable file: "file: offset N: why", or "file: event N: why"."""


@dataclasses.dataclass
class Trace:
    """`block` of an ALLOCATE counts up from 0; that of FREE_NULL and FAILED means nothing. `size` is the requested size
    (ALLOCATE, RESIZE, MOVE, FAILED). `remarks` are sentences about calls that are not in the recording."""

    function: numpy.ndarray
    kind: numpy.ndarray
    thread: numpy.ndarray
    block: numpy.ndarray
    size: numpy.ndarray
    align_log2: numpy.ndarray
    program: str = ""
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def thread_count(self) -> int:
        return int(self.thread.max()) + 1 if len(self) else 0

    @property
    def block_count(self) -> int:
        return int(numpy.count_nonzero(self.kind == ALLOCATE))


COLUMNS = {
    "function": numpy.uint8, "kind": numpy.uint8, "thread": numpy.uint16, "block": numpy.uint32, "size": numpy.uint64,
    "align_log2": numpy.uint8,
}  # fmt: skip


def touches_block(kind: numpy.ndarray) -> numpy.ndarray:
    """Whether each event concerns a block."""
    return (kind != FREE_NULL) & (kind != FAILED)


def allowed_pairs() -> numpy.ndarray:
    """allowed[function, kind]: whether this function can make an event of this kind."""
    allowed = numpy.zeros((len(FUNCTIONS), KIND_COUNT), bool)
    allowed[1:FREE, [ALLOCATE, FAILED]] = True
    allowed[list(REALLOCS), :] = True
    allowed[list(REALLOCS), FREE_NULL] = False
    allowed[FREE, [RELEASE, FREE_NULL]] = True
    return allowed


def _first(where: numpy.ndarray) -> int | None:
    found = numpy.flatnonzero(where)
    return int(found[0]) if len(found) else None


def find_fault(trace: Trace) -> tuple[int, str] | None:
    """The first event that cannot follow the ones before it, and why; None in a sound recording."""
    faults = []

    def add(where: numpy.ndarray, why: str, index: numpy.ndarray | None = None) -> None:
        bad = where if index is None else numpy.sort(index[where])
        at = _first(where) if index is None else (int(bad[0]) if len(bad) else None)
        if at is not None:
            faults.append((at, why))

    functions = numpy.minimum(trace.function, len(FUNCTIONS) - 1)
    kinds = numpy.minimum(trace.kind, KIND_COUNT - 1)
    known = (trace.function < len(FUNCTIONS)) & (trace.kind < KIND_COUNT)
    add(~known | ~allowed_pairs()[functions, kinds], "the function does not do that")
    seen = numpy.maximum.accumulate(trace.thread.astype(numpy.int64)) if len(trace) else trace.thread
    fresh = numpy.diff(seen, prepend=-1)
    add(fresh > 1, "threads are not numbered in the order of their first events")
    too_large = ((trace.align_log2 > 40) | (trace.size > 1 << 47)) & (trace.kind != FAILED)
    add(too_large | (trace.align_log2 > 63), "size or alignment is too large")
    index = numpy.flatnonzero(touches_block(trace.kind))
    block, kind = trace.block[index].astype(numpy.int64), trace.kind[index]
    allocates = kind == ALLOCATE
    add(allocates & (block != numpy.cumsum(allocates) - 1), "blocks are not numbered in the order of allocation", index)
    by_block = numpy.lexsort((index, block))
    block, kind, index = block[by_block], kind[by_block], index[by_block]
    is_first = numpy.diff(block, prepend=-1) != 0
    after_release = numpy.zeros(len(kind), bool)
    after_release[1:] = (kind[:-1] == RELEASE) & ~is_first[1:]
    add(is_first & (kind != ALLOCATE), "the block was never allocated", index)
    add(after_release, "the block was released before", index)
    add(~is_first & (kind == ALLOCATE), "the block was allocated before", index)
    return min(faults, key=lambda fault: fault[0], default=None)
