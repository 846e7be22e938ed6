"""The .hakotrace file: a Trace in compressed columns. hakobench/docs/trace-format.md describes it.

A file is written completely or not at all, because a temporary file is renamed. So a file without trailer is truncated.
"""

import json
import os
import pathlib
import struct
import tempfile
import zlib
from collections.abc import Callable

import numpy

from hakobench.trace import events, link, memory, raw
from hakobench.trace.events import Trace, TraceError

MAGIC = b"HAKOTRCE"
VERSION = 1
CHUNK_EVENTS = 1 << 16
_HEADER = struct.Struct("<8sIII")  # magic, version, bytes of the description, crc32 of the description
_CHUNK = struct.Struct("<4sIII")  # "CHNK", events, bytes, crc32 of the bytes
_TRAILER = struct.Struct("<4sIQQI")  # "TRLR", threads, events, blocks, crc32 of what precedes it here
_EVENT_BYTES = 1 + 1 + 2 + 4 + 8
_DESCRIPTION_MAX = 1 << 20


def _planes(values: numpy.ndarray, width: int) -> bytes:
    """The lowest bytes of all values, then the next higher ones, and so on: most high bytes are zero and compress
    well."""
    little = numpy.ascontiguousarray(values.astype(f"<u{width}"))
    return little.view(numpy.uint8).reshape(-1, width).T.tobytes()


def _values(planes: memoryview, width: int) -> numpy.ndarray:
    count = len(planes) // width
    columns = numpy.frombuffer(planes, numpy.uint8).reshape(width, count)
    return numpy.ascontiguousarray(columns.T).view(f"<u{width}").reshape(count)


def _pack(trace: Trace, start: int, blocks_before: int) -> tuple[bytes, int]:
    """One chunk from event `start` on, and the number of blocks after it. Blocks are counted back from the next block
    to be allocated, so short-lived blocks have small numbers."""
    part = slice(start, start + CHUNK_EVENTS)
    kind = trace.kind[part]
    allocates = kind == events.ALLOCATE
    upcoming = blocks_before + numpy.cumsum(allocates) - allocates
    back = numpy.where(events.touches_block(kind), upcoming - trace.block[part].astype(numpy.int64), 0)
    columns = [
        (trace.function[part] | (kind << 4)).tobytes(),
        trace.align_log2[part].tobytes(),
        _planes(trace.thread[part], 2),
        _planes(back, 4),
        _planes(trace.size[part], 8),
    ]
    return zlib.compress(b"".join(columns), 6), blocks_before + int(numpy.count_nonzero(allocates))


def write(path: pathlib.Path, trace: Trace, progress: Callable[[float], None] = lambda _share: None) -> None:
    """Writes the file. Raises OSError, after which an older file of that name is still there."""
    description = json.dumps({"program": trace.program, "remarks": trace.remarks}).encode()
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".", dir=path.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_HEADER.pack(MAGIC, VERSION, len(description), zlib.crc32(description)) + description)
            blocks = 0
            for start in range(0, len(trace), CHUNK_EVENTS):
                packed, blocks = _pack(trace, start, blocks)
                count = min(CHUNK_EVENTS, len(trace) - start)
                file.write(_CHUNK.pack(b"CHNK", count, len(packed), zlib.crc32(packed)) + packed)
                progress(start / len(trace))
            totals = _TRAILER.pack(b"TRLR", trace.thread_count, len(trace), blocks, 0)[:-4]
            file.write(totals + struct.pack("<I", zlib.crc32(totals)))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise


class _Reader:
    """Takes bytes off a file's contents. Its errors name file and offset."""

    def __init__(self, path: pathlib.Path, data: bytes):
        self._path = path
        self._data = memoryview(data)
        self.offset = 0

    def error(self, why: str) -> TraceError:
        return TraceError(f"{self._path.name}: offset {self.offset}: {why}")

    def peek(self, count: int) -> bytes:
        return bytes(self._data[self.offset : self.offset + count])

    def take(self, count: int, what: str) -> memoryview:
        left = len(self._data) - self.offset
        if left < count:
            raise self.error(f"truncated: {what} has {count} bytes, {left} are left")
        self.offset += count
        return self._data[self.offset - count : self.offset]

    @property
    def left(self) -> int:
        return len(self._data) - self.offset


def _read_description(reader: _Reader) -> dict:
    magic, version, size, crc = _HEADER.unpack(reader.take(_HEADER.size, "the header"))
    if magic != MAGIC:
        reader.offset = 0
        raise reader.error("not a recording (.hakotrace, or a file of the recorder)")
    if version != VERSION:
        raise reader.error(f"version {version}; readable: {VERSION}")
    if size > _DESCRIPTION_MAX:
        raise reader.error(f"a description of {size} bytes; allowed: {_DESCRIPTION_MAX}")
    text = reader.take(size, "the description")
    if zlib.crc32(text) != crc:
        raise reader.error("the description's checksum does not fit")
    try:
        found = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise reader.error(f"the description is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("program"), str):
        raise reader.error("the description names no program")
    remarks = found.setdefault("remarks", [])
    if not isinstance(remarks, list) or not all(isinstance(remark, str) for remark in remarks):
        raise reader.error(f"the description's remarks are {str(remarks)[:40]!r}; allowed: a list of sentences")
    try:
        "".join([found["program"], *remarks]).encode()
    except UnicodeEncodeError as error:
        raise reader.error(f"the description has what is no text: {error.reason}") from error
    return found


def _read_chunk(reader: _Reader) -> dict[str, numpy.ndarray]:
    _, count, size, crc = _CHUNK.unpack(reader.take(_CHUNK.size, "a chunk's header"))
    if not 1 <= count <= CHUNK_EVENTS:
        raise reader.error(f"a chunk of {count} events; allowed: 1 to {CHUNK_EVENTS}")
    packed = reader.take(size, "a chunk")
    if zlib.crc32(packed) != crc:
        raise reader.error("the chunk's checksum does not fit")
    unpacker = zlib.decompressobj()
    try:
        data = memoryview(unpacker.decompress(packed, count * _EVENT_BYTES + 1))
    except zlib.error as error:
        raise reader.error(f"the chunk cannot be unpacked: {error}") from error
    if len(data) != count * _EVENT_BYTES:
        raise reader.error(f"the chunk has {len(data)} bytes for {count} events; {_EVENT_BYTES} each are right")
    first = numpy.frombuffer(data[:count], numpy.uint8)
    return {
        "function": first & 0x0F,
        "kind": first >> 4,
        "align_log2": numpy.frombuffer(data[count : 2 * count], numpy.uint8),
        "thread": _values(data[2 * count : 4 * count], 2),
        "block": _values(data[4 * count : 8 * count], 4),
        "size": _values(data[8 * count :], 8),
    }


def _read_trailer(reader: _Reader, count: int, blocks: int, threads: int) -> None:
    start = reader.offset
    trailer = reader.take(_TRAILER.size, "the trailer")
    _, *totals, crc = _TRAILER.unpack(trailer)
    reader.offset = start
    if zlib.crc32(trailer[:-4]) != crc:
        raise reader.error("the trailer's checksum does not fit")
    if totals != [threads, count, blocks]:
        raise reader.error(f"the trailer says {totals} threads, events, blocks; there are {[threads, count, blocks]}")
    reader.offset += _TRAILER.size
    if reader.left:
        raise reader.error(f"{reader.left} bytes follow the trailer")


def _read_stored(path: pathlib.Path, data: bytes, progress: Callable[[float], None]) -> Trace:
    reader = _Reader(path, data)
    description = _read_description(reader)
    chunks = []
    count = 0
    while (mark := reader.peek(4)) != b"TRLR":
        if len(mark) == 4 and mark != b"CHNK":
            raise reader.error("neither a chunk nor the trailer begins here")
        chunks.append(_read_chunk(reader))
        count += len(chunks[-1]["kind"])
        memory.require(path, count)
        progress(reader.offset / len(data))
    columns = {
        name: numpy.concatenate([chunk[name] for chunk in chunks]) if chunks else numpy.zeros(0, kind)
        for name, kind in events.COLUMNS.items()
    }
    allocates = columns["kind"] == events.ALLOCATE
    upcoming = numpy.cumsum(allocates) - allocates
    back = columns["block"].astype(numpy.int64)
    touching = events.touches_block(columns["kind"])
    numbers = numpy.where(touching, upcoming - back, 0)
    if (numbers < 0).any():
        raise TraceError(f"{path.name}: event {int(numpy.argmax(numbers < 0))}: there is no such block")
    columns["block"] = numbers.astype(numpy.uint32)
    trace = Trace(**columns, program=description["program"], remarks=tuple(description["remarks"]))
    _read_trailer(reader, len(trace), trace.block_count, trace.thread_count)
    fault = events.find_fault(trace)
    if fault is not None:
        raise TraceError(f"{path.name}: event {fault[0]}: {fault[1]}")
    return trace


def read(path: pathlib.Path, progress: Callable[[float], None] = lambda _share: None) -> Trace:
    """Reads a .hakotrace, or a file of the recorder. Raises TraceError."""
    try:
        return _read(path, progress)
    except MemoryError as error:
        raise TraceError(f"{path.name}: there is not enough memory for its events") from error


def _read(path: pathlib.Path, progress: Callable[[float], None]) -> Trace:
    try:
        with path.open("rb") as file:
            magic = file.read(len(raw.MAGIC))
            if magic != raw.MAGIC:
                return _read_stored(path, magic + file.read(), progress)
    except OSError as error:
        raise TraceError(f"{path.name}: cannot be read: {error.strerror}") from error
    return link.link(raw.read(path, progress))
