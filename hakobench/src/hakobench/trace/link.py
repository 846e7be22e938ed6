"""Makes a Trace from records: finds the call that ends each block.

Sorted by address and number, the records of an address alternate: begin, end, begin, end, ... (bench/trace/record.h
says why). A call therefore ends the block of the record before it. All work is done on whole columns, because a
recording can have tens of millions of events.
"""

import dataclasses

import numpy

from hakobench.trace import events, raw
from hakobench.trace.events import Trace, TraceError


@dataclasses.dataclass
class _Calls:
    """One entry a call, two for a realloc of a block. `pair` of the second entry is the index of the first, else -1;
    `begins` and `ends` say whether the entry begins or ends the block at its address."""

    order: numpy.ndarray
    function: numpy.ndarray
    failed: numpy.ndarray
    align_log2: numpy.ndarray
    address: numpy.ndarray
    size: numpy.ndarray
    thread: numpy.ndarray
    old: numpy.ndarray
    pair: numpy.ndarray
    begins: numpy.ndarray
    ends: numpy.ndarray


def _pairs(records: raw.Records, used: numpy.ndarray) -> numpy.ndarray:
    """The index of the first record of a pair for the second one, -1 for all others."""
    pair = numpy.full(len(used), -1, numpy.int64)
    second = numpy.flatnonzero(used & ((records.operation & raw.FLAG_NEW) != 0))
    first = second - 1
    fits = (first >= 0) & used[first] & ((records.operation[first] & raw.FLAG_OLD) != 0)
    if not fits.all():
        at = int(second[~fits][0])
        raise TraceError(f"{records.header.path.name}: record {at}: the second half of a realloc without the first")
    pair[second] = first
    return pair


def _calls(records: raw.Records) -> _Calls:
    """The calls, without empty records, and without those from the first lost event on."""
    used = (records.order > 0) & (records.order < records.header.stop_order)
    pair = _pairs(records, used)
    failed = (records.operation & raw.FLAG_FAILED) != 0
    old = (records.operation & raw.FLAG_OLD) != 0
    function = records.operation & raw.FUNCTION_MASK
    # realloc(p, 0) returns NULL and ends the block; another one that returns NULL has failed and changes nothing.
    nothing_changed = numpy.flatnonzero((pair >= 0) & failed & (records.size > 0))
    emptied = numpy.flatnonzero((pair >= 0) & failed & (records.size == 0))
    keep = used.copy()
    keep[pair[nothing_changed]] = False
    keep[emptied] = False
    pair[nothing_changed] = -1
    place = numpy.cumsum(keep) - 1
    pair = numpy.where(pair >= 0, place[pair], -1)[keep]
    is_free = function == events.FREE
    ends = (old | (is_free & (records.address != 0)))[keep]
    begins = (~old & ~is_free & ~failed)[keep]
    return _Calls(
        records.order[keep], function[keep], failed[keep], records.align_log2[keep], records.address[keep],
        records.size[keep], records.thread[keep], old[keep], pair, begins, ends,
    )  # fmt: skip


def _call_text(calls: _Calls, at: int) -> str:
    name = events.FUNCTIONS[calls.function[at]]
    return f"{name} of {int(calls.address[at]):#x} in thread {calls.thread[at]}"


def _match(calls: _Calls) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """For each end, the index of the begin of its block (-1: none was recorded), and -1 for all other entries; the
    begins at an address whose block had not ended; and the ends at an address whose block had ended before."""
    index = numpy.flatnonzero(calls.begins | calls.ends)
    index = index[numpy.lexsort((calls.order[index], calls.address[index]))]
    address, ends = calls.address[index], calls.ends[index]
    same = numpy.zeros(len(index), bool)
    same[1:] = address[1:] == address[:-1]
    before = numpy.zeros(len(index), bool)
    before[1:] = ends[:-1]
    matched = numpy.full(len(calls.order), -1, numpy.int64)
    has_begin = numpy.flatnonzero(ends & same & ~before)
    matched[index[has_begin]] = index[has_begin - 1]
    overlapping = numpy.zeros(len(calls.order), bool)
    overlapping[index[~ends & same & ~before]] = True
    return matched, overlapping, index[ends & same & before]


def _roots(calls: _Calls, matched: numpy.ndarray) -> numpy.ndarray:
    """For each begin, the entry that allocated its block: a realloc continues the block it got."""
    root = numpy.arange(len(calls.order))
    paired = numpy.flatnonzero(calls.begins & (calls.pair >= 0))
    given = matched[calls.pair[paired]]
    root[paired[given >= 0]] = given[given >= 0]
    while True:  # halves the way to the root each time
        further = root[root]
        if numpy.array_equal(further, root):
            return root
        root = further


def _kinds(calls: _Calls, root: numpy.ndarray) -> numpy.ndarray:
    kind = numpy.full(len(calls.order), events.FREE_NULL, numpy.uint8)
    kind[calls.failed] = events.FAILED
    kind[calls.begins] = events.ALLOCATE
    continued = numpy.flatnonzero(calls.begins & (root != numpy.arange(len(root))))
    moved = calls.address[continued] != calls.address[calls.pair[continued]]
    kind[continued] = numpy.where(moved, events.MOVE, events.RESIZE)
    kind[calls.ends] = events.RELEASE
    return kind


def _renumber(values: numpy.ndarray) -> numpy.ndarray:
    """The values, numbered 0, 1, 2, ... in the order of their first appearance."""
    unique, first, inverse = numpy.unique(values, return_index=True, return_inverse=True)
    rank = numpy.empty(len(unique), numpy.int64)
    rank[numpy.argsort(first)] = numpy.arange(len(unique))
    return rank[inverse]


def _twice_remark(calls: _Calls, twice: numpy.ndarray) -> str:
    at = int(twice[numpy.argmin(calls.order[twice])])
    return (
        f"{len(twice)} calls release a block that was released before, or one whose allocation was not recorded; they "
        f"are left out. The first is event {int(calls.order[at])}: {_call_text(calls, at)}."
    )


def _remarks(header: raw.Header, foreign: int, overlapping: int, twice: str) -> tuple[str, ...]:
    remarks = []
    if header.stop:
        remarks.append(f"Recording ended before the program: {header.stop}.")
    elif not header.ended:
        remarks.append("The program did not end through exit(): it was killed, or called _exit or exec.")
    if header.operators:
        remarks.append(
            f"C++ operator new is that of {header.operators}, not of the standard library: what it allocates without "
            "calling malloc is not recorded."
        )
    if header.forked:
        remarks.append("The process is the child of a fork; blocks that it inherited are left out.")
    if foreign:
        remarks.append(f"{foreign} calls concern blocks whose allocation was not recorded; they are left out.")
    if twice:
        remarks.append(twice)
    if overlapping:
        remarks.append(f"{overlapping} addresses were given out again although no release was seen.")
    return tuple(remarks)


def _end_overlapped(calls: _Calls, overlapping: numpy.ndarray) -> _Calls:
    """Adds the release that was not recorded, right before the next allocation at the address."""
    at = numpy.flatnonzero(overlapping)
    count = len(at)
    columns = {field.name: getattr(calls, field.name) for field in dataclasses.fields(calls)}
    added = {name: column[at] for name, column in columns.items()}
    added |= {
        "function": numpy.full(count, events.FREE, numpy.uint8), "pair": numpy.full(count, -1),
        "begins": numpy.zeros(count, bool), "ends": numpy.ones(count, bool),
    }  # fmt: skip
    # Doubles the numbers, which makes room for the added calls.
    columns["order"] = calls.order * numpy.uint64(2)
    added["order"] = columns["order"][at] - numpy.uint64(1)
    return _Calls(**{name: numpy.concatenate([columns[name], added[name]]) for name in columns})


def link(records: raw.Records) -> Trace:
    """Raises TraceError: "file: event N: ..." (N is the number that the recorder gave)."""
    name = records.header.path.name
    calls = _calls(records)
    repeated = numpy.sort(calls.order)
    if (repeated[1:] == repeated[:-1]).any():
        at = int(repeated[1:][repeated[1:] == repeated[:-1]][0])
        raise TraceError(f"{name}: event {at} is there twice")
    matched, overlapping, twice = _match(calls)
    twice_remark = _twice_remark(calls, twice) if len(twice) else ""
    overlap_count = int(numpy.count_nonzero(overlapping))
    if overlap_count:
        calls = _end_overlapped(calls, overlapping)
        matched, _, twice = _match(calls)
    foreign = calls.ends & (matched < 0)
    root = _roots(calls, matched)
    kind = _kinds(calls, root)
    block = numpy.where(calls.ends, root[numpy.maximum(matched, 0)], root)
    # The first half of a realloc is a call only without a second half: realloc(p, 0), or a thread killed inside.
    continued = calls.pair[calls.begins & (calls.pair >= 0)]
    keep = ~foreign
    keep[continued] = False
    index = numpy.flatnonzero(keep)
    index = index[numpy.argsort(calls.order[index], kind="stable")]
    kind, block = kind[index], block[index]
    touching = events.touches_block(kind)
    numbers = numpy.zeros(len(index), numpy.int64)
    numbers[touching] = _renumber(block[touching])
    threads = _renumber(calls.thread[index])
    if len(index) and int(threads.max()) >= events.THREADS_MAX:
        raise TraceError(f"{name}: {int(threads.max()) + 1} threads; at most {events.THREADS_MAX} can be kept")
    trace = Trace(
        calls.function[index], kind, threads.astype(numpy.uint16), numbers.astype(numpy.uint32),
        numpy.where((kind == events.ALLOCATE) | (kind == events.FAILED) | (kind == events.RESIZE) | (kind == events.MOVE),
                    calls.size[index], 0).astype(numpy.uint64),
        calls.align_log2[index], records.header.program,
        _remarks(records.header, int(numpy.count_nonzero(foreign)) - len(twice), overlap_count, twice_remark),
    )  # fmt: skip
    fault = events.find_fault(trace)
    if fault is not None:
        raise TraceError(f"{name}: event {fault[0]}: {fault[1]}")
    return trace
