"""Writes a Trace as the plan that hakoreplay reads (struct trace_plan in bench/trace/trace_format.h)."""

import pathlib
import struct

import numpy

from hakobench.trace import events
from hakobench.trace.events import Trace

_HEADER = struct.Struct("=8sIIIIQ")
_EVENT = numpy.dtype([("size", "u8"), ("block", "u4"), ("thread", "u2"), ("function_kind", "u1"), ("align_log2", "u1")])
# RESIZE and MOVE are the same for a replay: whether a block moves is up to the allocator.
_PLAN_KINDS = numpy.array([0, 1, 2, 3, 0, 1], numpy.uint8)


def write(path: pathlib.Path, trace: Trace) -> int:
    """Returns the number of events: calls that failed are left out. Raises OSError, and ValueError when none is left."""
    wanted = numpy.flatnonzero(trace.kind != events.FAILED)
    if not len(wanted):
        raise ValueError("the recording has no call to replay")
    table = numpy.zeros(len(wanted), _EVENT)
    kind = _PLAN_KINDS[trace.kind[wanted]]
    table["size"] = trace.size[wanted]
    table["block"] = trace.block[wanted]
    # A thread whose only calls failed would leave a gap in the numbers.
    threads, first, numbers = numpy.unique(trace.thread[wanted], return_index=True, return_inverse=True)
    rank = numpy.empty(len(threads), numpy.uint16)
    rank[numpy.argsort(first)] = numpy.arange(len(threads))
    table["thread"] = rank[numbers]
    table["function_kind"] = trace.function[wanted] | (kind << 4)
    table["align_log2"] = trace.align_log2[wanted]
    header = _HEADER.pack(b"HAKOPLN\0", 0x01020304, 1, len(threads), trace.block_count, len(wanted))
    with path.open("wb") as file:
        file.write(header)
        table.tofile(file)
    return len(wanted)
