"""Reads the files that libhakotrace.so writes; bench/trace/trace_format.h has the format in C."""

import dataclasses
import errno
import mmap
import os
import pathlib
import struct
from collections.abc import Callable, Iterator

import numpy

from hakobench.trace import memory
from hakobench.trace.events import FUNCTIONS, TraceError

MAGIC = b"HAKORAW\0"
_HEADER = struct.Struct("=8s12IQ256s64s")
_CHUNK = struct.Struct("=4I")
_CHUNK_MAGIC = 0x4B4E4843
_BYTE_ORDER, _VERSION, _PAGE, _RECORD_BYTES, _REGION = 0x01020304, 1, 4096, 24, 1 << 20
_RECORD = numpy.dtype([("address", "u8"), ("size", "u8"), ("word", "u8")])

FUNCTION_MASK, FLAG_FAILED, FLAG_OLD, FLAG_NEW = 0x0F, 0x10, 0x20, 0x40
_STOPS = ("", "no space for the file", "the file could not be opened again", "no memory to map the file", "too many events")


@dataclasses.dataclass(frozen=True)
class Header:
    """`ended`: the process ended by exit() or by returning from main. `forked`: it began as the child of a recorded
    process. `operators` names the file of C++'s operator new, when that is not the standard library."""

    path: pathlib.Path
    program: str
    pid: int
    parent_pid: int
    forked: bool
    ended: bool
    stop: str
    stop_order: int
    operators: str = ""


@dataclasses.dataclass(frozen=True)
class Records:
    """The records as they lie in the file, with the empty ones, because the two of a realloc lie side by side."""

    header: Header
    order: numpy.ndarray
    operation: numpy.ndarray
    align_log2: numpy.ndarray
    address: numpy.ndarray
    size: numpy.ndarray
    thread: numpy.ndarray


def _fail(path: pathlib.Path, offset: int, why: str) -> TraceError:
    return TraceError(f"{path.name}: offset {offset}: {why}")


def _map(path: pathlib.Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < _PAGE:
                raise _fail(path, 0, "shorter than the header page")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise TraceError(f"{path.name}: cannot be read: {error.strerror}") from error


def _header(path: pathlib.Path, data: mmap.mmap) -> Header:
    values = _HEADER.unpack_from(data, 0)
    if values[0] != MAGIC:
        raise _fail(path, 0, "not a file of the recorder")
    expected = (_BYTE_ORDER, _VERSION, _PAGE, _RECORD_BYTES, _REGION)
    if values[1:6] != expected:
        raise _fail(path, 8, f"byte order, version and sizes are {values[1:6]}; readable: {expected}")
    forked, ended, stop, number, _reserved, stop_order, program, operators = values[8:]
    if stop >= len(_STOPS):
        raise _fail(path, 44, f"reason {stop} for the end of the recording; known: 0 to {len(_STOPS) - 1}")
    error = os.strerror(number) if number < 1 << 31 else "no known error"
    reason = f"{_STOPS[stop]} ({error}, {errno.errorcode.get(number, number)})" if stop else ""
    names = [text.split(b"\0", 1)[0].decode(errors="replace") for text in (program, operators)]
    return Header(path, names[0], values[6], values[7], bool(forked), bool(ended), reason, stop_order, names[1])


def _chunks(path: pathlib.Path, data: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """(offset of the records, number of records, thread) of each chunk."""
    offset = _PAGE
    while offset + _PAGE <= len(data):
        magic, size, thread, count = _CHUNK.unpack_from(data, offset)
        if magic == 0:  # unused, or its thread was killed before it wrote anything
            offset += _PAGE
            continue
        room = _REGION - offset % _REGION
        if magic != _CHUNK_MAGIC or size % _PAGE != 0 or not _PAGE <= size <= room:
            raise _fail(path, offset, f"no chunk begins here (magic {magic:#x}, {size} bytes, {room} allowed)")
        if offset + size > len(data):
            raise _fail(path, offset, f"a chunk of {size} bytes, but only {len(data) - offset} are left")
        yield offset + _RECORD_BYTES, min(count, size // _RECORD_BYTES - 1), thread
        offset += size


def peek(path: pathlib.Path) -> tuple[Header, int]:
    """The header, and about the number of events. Raises TraceError."""
    data = _map(path)
    try:
        return _header(path, data), sum(count for _, count, _ in _chunks(path, data))
    finally:
        data.close()


def read(path: pathlib.Path, progress: Callable[[float], None] = lambda _share: None) -> Records:
    """All records. Calls `progress` with the finished share. Raises TraceError."""
    data = _map(path)
    try:
        header = _header(path, data)
        memory.require(path, sum(count for _, count, _ in _chunks(path, data)))
        found = []
        for offset, count, thread in _chunks(path, data):
            found.append((numpy.frombuffer(data, _RECORD, count, offset).copy(), thread))
            progress(offset / len(data))
    finally:
        data.close()
    records = numpy.concatenate([records for records, _ in found]) if found else numpy.zeros(0, _RECORD)
    threads = numpy.repeat(
        numpy.array([thread for _, thread in found], numpy.uint32), [len(records) for records, _ in found]
    )
    word = records["word"]
    operation = (word & 0xFF).astype(numpy.uint8)
    function = operation & FUNCTION_MASK
    bad = numpy.flatnonzero((word != 0) & ((function == 0) | (function >= len(FUNCTIONS)) | (operation >= 0x80)))
    if len(bad):
        raise TraceError(f"{path.name}: record {bad[0]}: operation {operation[bad[0]]:#x} is not known")
    return Records(
        header, word >> numpy.uint64(16), operation, ((word >> numpy.uint64(8)) & 0xFF).astype(numpy.uint8),
        records["address"], records["size"], threads,
    )  # fmt: skip
