"""The files of recordings: the reader returns what was written, and refuses all other files."""

import pathlib
import struct

import numpy
import pytest
from trace_programs import build_program, build_tools, record
from trace_samples import MALLOC, random_rows, same, trace_of

from hakobench.trace import events, link, memory, raw, store
from hakobench.trace.events import TraceError

PROGRAM = "int main(void) { for (int i = 0; i < 50; i++) free(keep(malloc(40))); }\n"
PAGE = 4096


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The recorder's file of PROGRAM: the header page, then one chunk of a page."""
    directory = tmp_path_factory.mktemp("raw")
    tools = build_tools(directory)
    found = record(tools, directory / "raw", build_program(directory / "program", PROGRAM))
    return found.processes[0].path.read_bytes()


def _stored(path: pathlib.Path, rows: int) -> bytes:
    store.write(path, trace_of(random_rows(1, rows), remarks=("One.", "Two.")))
    return path.read_bytes()


@pytest.mark.parametrize("count", [0, 1, 100, store.CHUNK_EVENTS, store.CHUNK_EVENTS + 1, 150_000])
def test_written_recordings_are_read(tmp_path: pathlib.Path, count: int) -> None:
    trace = trace_of(random_rows(count, count, threads=7), remarks=("A remark.",))
    path = tmp_path / "sample.hakotrace"
    shares: list[float] = []
    store.write(path, trace, shares.append)
    assert same(store.read(path, shares.append), trace)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert [path] == list(tmp_path.iterdir())


def test_extreme_values_survive(tmp_path: pathlib.Path) -> None:
    rows = [
        (MALLOC, events.ALLOCATE, 0, 0, 1 << 47, 0),
        (MALLOC, events.FAILED, 0, 0, (1 << 64) - 1, 0),
        (events.FUNCTIONS.index("memalign"), events.ALLOCATE, 1, 1, 0, 40),
        (events.FUNCTIONS.index("memalign"), events.FAILED, 1, 0, 8, 63),
        *[(events.FREE, events.FREE_NULL, thread, 0, 0, 0) for thread in range(2, events.THREADS_MAX)],
    ]
    trace = trace_of(rows)
    store.write(tmp_path / "x", trace)
    assert same(store.read(tmp_path / "x"), trace)


def test_every_truncation_is_noticed(tmp_path: pathlib.Path) -> None:
    data = _stored(tmp_path / "whole", 300)
    path = tmp_path / "cut"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(TraceError, match=r"^cut: offset \d+: (truncated: .* left|not a recording .*)$"):
            store.read(path)
    path.write_bytes(data + b"x")
    with pytest.raises(TraceError, match=r"^cut: offset \d+: 1 bytes follow the trailer$"):
        store.read(path)


def test_every_changed_byte_is_noticed(tmp_path: pathlib.Path) -> None:
    data = _stored(tmp_path / "whole", 100)
    path = tmp_path / "changed"
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(TraceError, match=r"^changed: offset \d+: "):
            store.read(path)


def test_a_chunk_that_unpacks_to_too_much_is_refused(tmp_path: pathlib.Path) -> None:
    """A small file must not use up all memory."""
    import zlib

    data = _stored(tmp_path / "whole", 10)
    at = data.index(b"CHNK")
    packed = zlib.compress(bytes(50 << 20))
    chunk = struct.pack("<4sIII", b"CHNK", 10, len(packed), zlib.crc32(packed)) + packed
    (tmp_path / "bomb").write_bytes(data[:at] + chunk)
    with pytest.raises(TraceError, match=r"bomb: offset \d+: the chunk has 161 bytes for 10 events"):
        store.read(tmp_path / "bomb")


def _allocate(block: int, thread: int = 0) -> tuple[int, int, int, int, int, int]:
    return (MALLOC, events.ALLOCATE, thread, block, 10, 0)


def _release(block: int, thread: int = 0) -> tuple[int, int, int, int, int, int]:
    return (events.FREE, events.RELEASE, thread, block, 0, 0)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([_allocate(0), _allocate(1), _release(0), _release(1), _release(0)], (4, "the block was released before")),
        ([_allocate(0), (3, events.RESIZE, 0, 1, 5, 0), _allocate(1)], (1, "the block was never allocated")),
        ([_release(0)], (0, "the block was never allocated")),
        ([_allocate(0), _release(0), (3, events.MOVE, 0, 0, 5, 0)], (2, "the block was released before")),
        ([_allocate(0), _allocate(2)], (1, "blocks are not numbered in the order of allocation")),
        ([_allocate(0), (MALLOC, events.RELEASE, 0, 0, 0, 0)], (1, "the function does not do that")),
        ([(15, events.ALLOCATE, 0, 0, 5, 0)], (0, "the function does not do that")),
        ([(MALLOC, 9, 0, 0, 5, 0)], (0, "the function does not do that")),
        ([_allocate(0, 1)], (0, "threads are not numbered in the order of their first events")),
        ([_allocate(0), _allocate(1, 2)], (1, "threads are not numbered in the order of their first events")),
        ([(MALLOC, events.ALLOCATE, 0, 0, (1 << 47) + 1, 0)], (0, "size or alignment is too large")),
        ([(5, events.ALLOCATE, 0, 0, 1, 41)], (0, "size or alignment is too large")),
        ([(5, events.FAILED, 0, 0, 1, 64)], (0, "size or alignment is too large")),
    ],
)
def test_impossible_events_are_named(tmp_path: pathlib.Path, rows: list, fault: tuple[int, str]) -> None:
    trace = trace_of(rows)
    assert events.find_fault(trace) == fault
    store.write(tmp_path / "planted", trace)
    with pytest.raises(TraceError, match=f"planted: event {fault[0]}: "):
        store.read(tmp_path / "planted")


def test_random_events_are_possible() -> None:
    for seed in range(20):
        assert events.find_fault(trace_of(random_rows(seed, 500))) is None


def test_the_recorders_file_is_read_too(tmp_path: pathlib.Path, recorded: bytes) -> None:
    path = tmp_path / "raw"
    path.write_bytes(recorded)
    trace = store.read(path)
    assert trace.program == "program"
    assert int(numpy.count_nonzero(trace.size == 40)) == 50
    header, count = raw.peek(path)
    assert (header.ended, header.forked, header.stop, count) == (True, False, "", len(trace))


def _word(operation: int, order: int) -> bytes:
    return struct.pack("=Q", order << 16 | operation)


@pytest.mark.parametrize(
    ("offset", "contents", "message"),
    [
        (0, b"HAKORAX\0", "offset 0: not a recording"),
        (8, b"\1\2\3\4", "offset 8: byte order, version and sizes are .*; readable: "),
        (12, b"\7", "offset 8: byte order, version and sizes are "),
        (44, b"\x63", "offset 44: reason 99 for the end of the recording; known: 0 to 4"),
        (PAGE, b"WHAT", "offset 4096: no chunk begins here"),
        (PAGE + 4, struct.pack("=I", 5000), "offset 4096: no chunk begins here .*5000 bytes"),
        (PAGE + 4, struct.pack("=I", 1 << 21), "offset 4096: no chunk begins here .*2097152 bytes, 1044480 allowed"),
        (PAGE + 24 + 16, _word(0x0C, 1), "record 0: operation 0xc is not known"),
        (PAGE + 24 + 16, _word(0x81, 1), "record 0: operation 0x81 is not known"),
        (PAGE + 24 + 16, _word(0x43, 1), "record 0: the second half of a realloc without the first"),
        (PAGE + 2 * 24 + 16, _word(0x0A, 1), "event 1 is there twice"),
    ],
)  # fmt: skip
def test_a_damaged_file_of_the_recorder(
    tmp_path: pathlib.Path, recorded: bytes, offset: int, contents: bytes, message: str
) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(recorded[:offset] + contents + recorded[offset + len(contents) :])
    with pytest.raises(TraceError, match=f"^damaged: {message}"):
        store.read(path)


def test_a_cut_file_of_the_recorder(tmp_path: pathlib.Path, recorded: bytes) -> None:
    path = tmp_path / "cut"
    path.write_bytes(recorded[:PAGE] + recorded[PAGE : PAGE + 4] + struct.pack("=I", 2 * PAGE) + recorded[PAGE + 8 : 2 * PAGE])
    with pytest.raises(TraceError, match="^cut: offset 4096: a chunk of 8192 bytes, but only 4096 are left$"):
        store.read(path)
    path.write_bytes(recorded[:100])
    with pytest.raises(TraceError, match="^cut: offset 0: shorter than the header page$"):
        store.read(path)
    path.write_bytes(b"")
    with pytest.raises(TraceError, match="^cut: offset 0: "):
        store.read(path)
    with pytest.raises(TraceError, match="^missing: cannot be read: No such file"):
        store.read(tmp_path / "missing")


def _records(calls: list[tuple[int, int, int, int, int]], **header: object) -> raw.Records:
    """(operation, order, address, size, thread); order 0 is an empty record."""
    columns = [numpy.array(column) for column in zip(*calls, strict=True)]
    values = {"forked": False, "ended": True, "stop": "", "stop_order": 2**64 - 1} | header
    head = raw.Header(path=pathlib.Path("made-up"), program="p", pid=1, parent_pid=0, **values)
    return raw.Records(
        head, columns[1].astype(numpy.uint64), columns[0].astype(numpy.uint8), numpy.zeros(len(calls), numpy.uint8),
        columns[2].astype(numpy.uint64), columns[3].astype(numpy.uint64), columns[4].astype(numpy.uint32),
    )  # fmt: skip


REALLOC, OLD, NEW, FAILED = 3, 0x20, 0x40, 0x10


def test_the_order_is_that_of_the_numbers() -> None:
    """Thread 1 frees what thread 0 allocated and thread 0 gets the address again, but its records lie first."""
    trace = link.link(_records([(1, 1, 100, 8, 0), (1, 4, 100, 8, 0), (10, 3, 100, 0, 1), (10, 5, 100, 0, 1)]))
    assert [tuple(row) for row in zip(trace.kind, trace.thread, trace.block, strict=True)] == [
        (events.ALLOCATE, 0, 0), (events.RELEASE, 1, 0), (events.ALLOCATE, 0, 1), (events.RELEASE, 1, 1),
    ]  # fmt: skip


def test_a_moved_block_stays_the_same_block() -> None:
    """Another thread gets the old address of a block while realloc is still copying the block."""
    calls = [
        (1, 1, 100, 8, 0), (REALLOC | OLD, 2, 100, 0, 0), (REALLOC | NEW, 5, 200, 16, 0), (1, 3, 100, 8, 1),
        (10, 4, 100, 0, 1), (10, 6, 200, 0, 1),
    ]  # fmt: skip
    trace = link.link(_records(calls))
    rows = zip(trace.kind, trace.thread, trace.block, trace.size, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [
        (events.ALLOCATE, 0, 0, 8), (events.ALLOCATE, 1, 1, 8), (events.RELEASE, 1, 1, 0), (events.MOVE, 0, 0, 16),
        (events.RELEASE, 1, 0, 0),
    ]  # fmt: skip


def test_reallocs_that_fail_empty_or_are_interrupted() -> None:
    calls = [
        (1, 1, 100, 8, 0), (REALLOC | OLD, 2, 100, 0, 0), (REALLOC | NEW | FAILED, 3, 0, 99, 0),
        (REALLOC | OLD, 4, 100, 0, 0), (REALLOC | NEW | FAILED, 5, 0, 0, 0),
        (1, 6, 100, 8, 0), (REALLOC | OLD, 7, 100, 0, 0), (0, 0, 0, 0, 0),
    ]  # fmt: skip
    trace = link.link(_records(calls))
    assert [tuple(map(int, row)) for row in zip(trace.kind, trace.block, strict=True)] == [
        (events.ALLOCATE, 0), (events.FAILED, 0), (events.RELEASE, 0), (events.ALLOCATE, 1), (events.RELEASE, 1),
    ]  # fmt: skip


def test_events_from_the_first_lost_one_on_are_void() -> None:
    """Number 3, a free, was lost; so in number 4 an address seems to be allocated twice."""
    calls = [(1, 1, 100, 8, 0), (1, 2, 200, 8, 0), (1, 4, 100, 8, 1), (10, 5, 200, 0, 0)]
    trace = link.link(_records(calls, stop="no space (ENOSPC)", stop_order=3))
    assert len(trace) == 2
    assert trace.remarks == ("Recording ended before the program: no space (ENOSPC).",)


def test_missing_events_are_reported() -> None:
    calls = [(10, 1, 50, 0, 0), (1, 2, 100, 8, 0), (1, 3, 100, 8, 0), (REALLOC | OLD, 4, 70, 0, 0), (REALLOC | NEW, 5, 80, 9, 0)]
    trace = link.link(_records(calls))
    assert [tuple(map(int, row)) for row in zip(trace.kind, trace.block, strict=True)] == [
        (events.ALLOCATE, 0), (events.RELEASE, 0), (events.ALLOCATE, 1), (events.ALLOCATE, 2),
    ]  # fmt: skip
    assert [remark.split(" ", 1)[0] for remark in trace.remarks] == ["2", "1"]


def test_a_block_that_is_released_twice_costs_only_that_call() -> None:
    calls = [
        (1, 1, 100, 8, 0), (10, 2, 100, 0, 0), (10, 3, 100, 0, 1), (1, 4, 100, 8, 0), (10, 5, 100, 0, 0),
        (REALLOC | OLD, 6, 100, 0, 0), (REALLOC | NEW, 7, 200, 16, 0), (10, 8, 200, 0, 0), (10, 9, 50, 0, 0),
    ]  # fmt: skip
    trace = link.link(_records(calls))
    assert [tuple(map(int, row)) for row in zip(trace.kind, trace.block, strict=True)] == [
        (events.ALLOCATE, 0), (events.RELEASE, 0), (events.ALLOCATE, 1), (events.RELEASE, 1), (events.ALLOCATE, 2),
        (events.RELEASE, 2),
    ]  # fmt: skip
    assert trace.remarks[0].startswith("1 calls concern blocks whose allocation was not recorded")
    assert trace.remarks[1].startswith("2 calls release a block that was released before")
    assert trace.remarks[1].endswith("The first is event 3: free of 0x64 in thread 1.")


def test_an_unknown_error_number_is_reported(tmp_path: pathlib.Path, recorded: bytes) -> None:
    path = tmp_path / "raw"
    path.write_bytes(recorded[:44] + struct.pack("=II", 1, 0xFFFFFFFF) + recorded[52:])
    assert "Recording ended before the program: no space for the file (no known error, 4294967295)." in store.read(path).remarks


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (b'{"program": "p", "remarks": 5}', "the description's remarks are '5'; allowed: a list of sentences"),
        (b'{"program": "p", "remarks": [1]}', "the description's remarks are '.1.'; allowed"),
        (b'{"program": 5}', "the description names no program"),
        (b'{"program": "a\\ud800"}', "the description has what is no text: surrogates not allowed"),
        (b'{"program": "p", "remarks": ["\\udfff"]}', "the description has what is no text"),
        (b"[" * 200_000, "the description is no JSON: "),
        (b"\xff", "the description is no JSON: "),
    ],
)
def test_impossible_descriptions(tmp_path: pathlib.Path, description: bytes, message: str) -> None:
    import zlib

    head = struct.pack("<8sIII", b"HAKOTRCE", 1, len(description), zlib.crc32(description))
    (tmp_path / "bad").write_bytes(head + description)
    with pytest.raises(TraceError, match=rf"^bad: offset \d+: {message}"):
        store.read(tmp_path / "bad")


@pytest.mark.parametrize("kind", ["stored", "raw"])
def test_more_events_than_memory_are_refused(
    tmp_path: pathlib.Path, recorded: bytes, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "large"
    path.write_bytes(recorded) if kind == "raw" else store.write(path, trace_of(random_rows(1, 100)))
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    count = 101 if kind == "raw" else 100
    for text, fits in ((f"MemAvailable: {count} kB\n", True), ("", True), ("MemAvailable: 19 kB\n", False)):
        (tmp_path / "meminfo").write_text("MemTotal: 1 kB\n" + text)
        if fits:
            assert len(store.read(path)) > 0
        else:
            with pytest.raises(TraceError, match=r"^large: \d+ events or more need about 0 MiB of memory; available: 0 MiB"):
                store.read(path)


def test_no_memory_is_an_error_of_the_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    store.write(tmp_path / "x", trace_of(random_rows(1, 100)))
    monkeypatch.setattr(store, "_read_chunk", refuse)
    with pytest.raises(TraceError, match="^x: there is not enough memory for its events$"):
        store.read(tmp_path / "x")
