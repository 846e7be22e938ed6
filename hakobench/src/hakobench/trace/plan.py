"""Writes a Trace as the plan that hakoreplay reads (struct trace_plan in bench/trace/trace_format.h)."""

import pathlib
import struct

import numpy

from hakobench.trace import events
from hakobench.trace.events import Trace

_HEADER = struct.Struct("=8sIIIIQ")
_EVENT = numpy.dtype([("size", "u8"), ("block", "u4"), ("thread", "u2"), ("function_kind", "u1"), ("align_log2", "u1")])
# RESIZE and MOVE are the same for a replay, in which the allocator decides whether a block moves.
_PLAN_KINDS = numpy.array([0, 1, 2, 3, 0, 1], numpy.uint8)


def threads(trace: Trace) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The indices of the events that a plan has, all but failed calls, and their threads there: they are renumbered,
    because one with only failed calls would leave a gap. Raises ValueError when there are none."""
    wanted = numpy.flatnonzero(trace.kind != events.FAILED)
    if not len(wanted):
        raise ValueError("the recording has no call to replay")
    found, first, numbers = numpy.unique(trace.thread[wanted], return_index=True, return_inverse=True)
    rank = numpy.empty(len(found), numpy.uint16)
    rank[numpy.argsort(first)] = numpy.arange(len(found))
    return wanted, rank[numbers]


def write(path: pathlib.Path, trace: Trace) -> int:
    """Writes the plan, and returns its number of events. Raises OSError, and ValueError when there are none."""
    wanted, thread = threads(trace)
    table = numpy.zeros(len(wanted), _EVENT)
    kind = _PLAN_KINDS[trace.kind[wanted]]
    table["size"] = trace.size[wanted]
    table["block"] = trace.block[wanted]
    table["thread"] = thread
    table["function_kind"] = trace.function[wanted] | (kind << 4)
    table["align_log2"] = trace.align_log2[wanted]
    header = _HEADER.pack(b"HAKOPLN\0", 0x01020304, 1, int(thread.max()) + 1, trace.block_count, len(wanted))
    with path.open("wb") as file:
        file.write(header)
        table.tofile(file)
    return len(wanted)
