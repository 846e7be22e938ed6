"""tools/heap_profile.py: streams that are whole, and streams that are not."""

from __future__ import annotations

import gzip
import math
import os
import pathlib
import subprocess
import sys

import heap_profile
import pytest

TOOL = pathlib.Path(heap_profile.__file__)


def number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def numbers(*values: int) -> bytes:
    return b"".join(map(number, values))


def site(weight: int, sums: list[int], stack: list[int]) -> bytes:
    differences = [(a - b) % 2**64 for a, b in zip(stack, [0, *stack])]
    zigzag = [(value << 1 ^ (-(value >> 63))) % 2**64 for value in differences]
    return numbers(heap_profile.SITE, weight, *sums, len(stack), *zigzag)


def moment(*sites: bytes, pid: int = 77, rate: int = 1000) -> bytes:
    head = heap_profile.MAGIC + numbers(1, pid, 1700000000, 5, rate, 0) + text(b"prog")
    mapping = numbers(heap_profile.MAPPING, 0x1000, 0x1000, 0, 0x400000) + text(b"/no/prog") + text(b"\xab\xcd")
    return head + mapping + b"".join(sites) + numbers(heap_profile.END, len(sites))


ONE = moment(site(100, [10, 900, 4, 300], [0x1010, 0x1005]), site(100, [3, 300, 3, 300], [0x1010, 0x1FF0]))
TWO = moment(site(100, [20, 1800, 4, 300], [0x1010, 0x1005]), site(100, [3, 300, 3, 300], [0x1010, 0x1FF0]))
SCALE = 1 / -math.expm1(-0.1)


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "x.heap"
    path.write_bytes(ONE + TWO)
    return path


def run(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, check=False)


def test_moments_are_read_as_written(stream: pathlib.Path) -> None:
    first, second = heap_profile.read_moments(stream)
    assert (first.pid, first.program, first.rate, first.time_ns) == (77, "prog", 1000, 1700000000 * 10**9 + 5)
    assert first.sites[100, (0x1010, 0x1005)] == (10, 900, 4, 300)
    assert second.sites[100, (0x1010, 0x1005)] == (20, 1800, 4, 300)
    assert first.mappings == [heap_profile.Mapping(0x1000, 0x1000, 0, 0x400000, "/no/prog", "abcd")]


def test_what_was_sampled_is_scaled(stream: pathlib.Path) -> None:
    values = heap_profile.profile_of(stream, 1, None).values
    assert values[100, (0x1010, 0x1005)] == pytest.approx([10 * SCALE, 900 * SCALE, 6 * SCALE, 600 * SCALE])


def test_text(stream: pathlib.Path) -> None:
    assert run("folded", stream, "--at", "1").stdout == f"prog+0x400004;prog+0x40000f {round(600 * SCALE)}\n"
    assert run("folded", stream, "--value", "alloc_objects").stdout.count("\n") == 2
    assert run("folded", stream, "--since", "1").stdout == f"prog+0x400004;prog+0x40000f {round(900 * SCALE)}\n"
    lines = run("leaks", stream).stdout.splitlines()
    assert lines[0].startswith("prog, process 77: live: 0.02 MiB in about 168 blocks of 1 call stacks")
    assert lines[2:] == ["    prog+0x40000f", "    prog+0x400004"]
    assert run("leaks", stream, "--since", "1").stdout.startswith("prog, process 77: grew: ")
    assert [line.split()[0] for line in run("list", stream).stdout.splitlines()] == ["moment", "1", "2"]


def test_the_librarys_own_functions_are_left_out(stream: pathlib.Path) -> None:
    """They are in the program when it is linked with the archive: backtrace in them, and they in what the program calls."""
    profile = heap_profile.profile_of(stream, 1, None)
    symbols = heap_profile.Symbols(profile, wanted=False)
    names = {0x100F: ["stack_take", "hz_profile_alloc", "malloc"], 0x1004: ["mallocate", "main"]}
    symbols.frames = {address: [heap_profile.Frame(name, "", 0) for name in each] for address, each in names.items()}
    assert [frame.function for frame in heap_profile.frames_of(profile, symbols, (0x1010, 0x1005))] == ["mallocate", "main"]


def test_a_reader_that_has_seen_enough(stream: pathlib.Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    result = subprocess.run([sys.executable, TOOL, "folded", stream], stdout=writes, stderr=subprocess.PIPE, check=False)
    os.close(writes)
    assert (result.returncode, result.stderr) == (1, b"")


def test_pprof(stream: pathlib.Path) -> None:
    output = stream.with_name("out.pb.gz")
    assert run("pprof", stream, "-o", output).stdout == f"{output}\n"
    message = heap_profile.profile_message()()
    message.ParseFromString(gzip.decompress(output.read_bytes()))
    assert sorted(sample.value[3] for sample in message.sample) == [0, round(1500 * SCALE)]
    assert [location.address for location in message.location] == [0x100F, 0x1004, 0x1FEF]
    assert {location.mapping_id for location in message.location} == {1}
    assert message.string_table[message.mapping[0].build_id] == "abcd"
    assert (message.period, message.time_nanos) == (1000, 1700000000 * 10**9 + 5)


@pytest.mark.parametrize("cut", range(1, len(ONE), 7))
def test_a_stream_that_is_cut_off(stream: pathlib.Path, cut: int) -> None:
    stream.write_bytes((ONE + TWO)[:-cut])
    result = run("list", stream) if cut == 1 else None
    with pytest.raises(heap_profile.BadInput, match="cut off at byte"):
        heap_profile.read_moments(stream)
    assert result is None or (result.returncode, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"x" * 100, "byte 0: no heap profile of hakozuna begins here"),
        (ONE + b"x" * 100, f"byte {len(ONE)}: no heap profile"),
        (heap_profile.MAGIC + number(2), "format 2; this program reads format 1"),
        (moment(rate=0), "the rate is 0; allowed: 1 or more"),
        (ONE[:-2] + numbers(9, 2), "record 9; allowed: 0, 1, 2"),
        (ONE[:-1] + number(3), "the number of sites is wrong"),
        (heap_profile.MAGIC + b"\xff" * 20, "a number of more than 64 bits"),
    ],
)
def test_bad_streams(stream: pathlib.Path, data: bytes, message: str) -> None:
    stream.write_bytes(data)
    result = run("pprof", stream)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert str(stream) in result.stderr
    assert not stream.with_name("x.heap.pb.gz").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at", "3"], "moment 3; the file has moments 1 to 2"),
        (["--since", "0"], "moment 0; the file has moments 1 to 2"),
    ],
)
def test_bad_moments(stream: pathlib.Path, words: list[str], message: str) -> None:
    result = run("leaks", stream, *words)
    assert (result.returncode, result.stderr) == (2, f"hakozuna profile: {message}\n")


def test_moments_of_two_processes(stream: pathlib.Path) -> None:
    stream.write_bytes(ONE + moment(pid=78))
    assert "moment 1 is of process 77, the other of 78" in run("leaks", stream, "--since", "1").stderr


def test_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    result = run("list", tmp_path / "none")
    assert (result.returncode, result.stderr) == (2, f"hakozuna profile: {tmp_path}/none: No such file or directory\n")


def test_the_build_id_of_a_file() -> None:
    program = os.path.realpath(sys.executable)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {heap_profile.build_id_of(program)}\n" in notes
    assert heap_profile.build_id_of(str(TOOL)) is None
    assert heap_profile.build_id_of("/no/such/file") is None
