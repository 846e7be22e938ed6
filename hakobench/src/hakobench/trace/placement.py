"""Where each allocator places the blocks of a recording: one replay in a process of its own, and its file of addresses
(bench/trace/trace_format.h)."""

import ctypes
import pathlib

import numpy

from hakobench import process, runner
from hakobench.allocators import Allocator
from hakobench.project import public_text
from hakobench.trace import plan, replays
from hakobench.trace.events import Trace
from hakobench.watch import Watcher


ADDR_NO_RANDOMIZE = 0x0040000  # linux/personality.h
_PERSONALITY = getattr(ctypes.CDLL(None), "personality", None)


def _same_addresses() -> None:
    """Called in the child: allocators that choose places by their addresses choose the same ones each time. Where a
    filter forbids the call, as in a container, the figures differ by a few lines from run to run."""
    if _PERSONALITY is not None:
        _PERSONALITY(ADDR_NO_RANDOMIZE)


class FailedError(Exception):
    """The replay under one allocator failed, with the reason."""


def read(path: pathlib.Path, trace: Trace) -> numpy.ndarray:
    """The address of each event's block after the call, of a RELEASE the one given back; 0: none. Raises OSError, and
    ValueError when the file is not one of this recording."""
    wanted, thread = plan.threads(trace)
    found = numpy.fromfile(path, numpy.uint64)
    if len(found) != len(wanted):
        raise ValueError(f"{path.name} has {len(found)} addresses, the recording has {len(wanted)} calls")
    addresses = numpy.zeros(len(trace), numpy.uint64)
    addresses[wanted[numpy.argsort(thread, kind="stable")]] = found
    return addresses


def of(trace: Trace, plan_path: pathlib.Path, allocator: Allocator, timeout: float) -> numpy.ndarray:
    """The addresses under this allocator, as `read` returns them. Raises FailedError, and OSError when the program or its
    file is not there. The file of addresses is removed."""
    program = replays.BIN_DIR / replays.PROGRAM
    path = plan_path.with_suffix(".addresses")
    try:
        # It touches as little as a replay can: where a block lies does not depend on what is written to it.
        argv = [str(program), str(plan_path), str(path), "--addresses", "--touch=edges"]
        ended = process.run(argv, allocator.environment(), timeout=timeout, confine=_same_addresses)
        malloc_from = process.key_values(ended.stdout).get("malloc_from")
        failure = ended.failure or runner.wrong_malloc(allocator, malloc_from, Watcher(None, 0))
        if failure:
            raise FailedError(public_text(failure, program, *([allocator.library] if allocator.library else [])))
        return read(path, trace)
    finally:
        path.unlink(missing_ok=True)
