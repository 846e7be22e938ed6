"""command/heap_profile.py: streams that are whole, and streams that are not."""

from __future__ import annotations

import gzip
import json
import math
import os
import pathlib
import subprocess
import sys

import heap_profile
import pprof_message
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


def site(weight: int, sums: list[int], stack: list[int], version: int = 2) -> bytes:
    sums = [*sums, 0, 0][:6] if version > 1 else sums
    differences = [(a - b) % 2**64 for a, b in zip(stack, [0, *stack])]
    zigzag = [(value << 1 ^ (-(value >> 63))) % 2**64 for value in differences]
    return numbers(heap_profile.SITE, weight, *sums, len(stack), *zigzag)


def pair(source: int, to: int, *sums: int) -> bytes:
    return numbers(heap_profile.PAIR, source, to, *sums)


def moment(*sites: bytes, pid: int = 77, rate: int = 1000, version: int = 2, seconds: int = 0, pairs: bytes = b"") -> bytes:
    head = heap_profile.MAGIC + numbers(version, pid, 1700000000 + seconds, 5, rate, 0) + text(b"prog")
    mapping = numbers(heap_profile.MAPPING, 0x1000, 0x1000, 0, 0x400000) + text(b"/no/prog") + text(b"\xab\xcd")
    return head + mapping + pairs + b"".join(sites) + numbers(heap_profile.END, len(sites))


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
    assert first.sites[100, (0x1010, 0x1005)] == (10, 900, 4, 300, 0, 0)
    assert second.sites[100, (0x1010, 0x1005)] == (20, 1800, 4, 300, 0, 0)
    assert first.mappings == [heap_profile.Mapping(0x1000, 0x1000, 0, 0x400000, "/no/prog", "abcd")]


def test_what_was_sampled_is_scaled(stream: pathlib.Path) -> None:
    values = heap_profile.profile_of(stream, 1, None).values
    assert values[100, (0x1010, 0x1005)] == pytest.approx([10 * SCALE, 900 * SCALE, 6 * SCALE, 600 * SCALE, 0, 0])


def test_text(stream: pathlib.Path) -> None:
    assert run("folded", stream, "--at", "1").stdout == f"prog+0x400004;prog+0x40000f {round(600 * SCALE)}\n"
    assert run("folded", stream, "--value", "alloc_objects").stdout.count("\n") == 2
    assert run("folded", stream, "--since", "1").stdout == f"prog+0x400004;prog+0x40000f {round(900 * SCALE)}\n"
    lines = run("leaks", stream).stdout.splitlines()
    error = round(100 * math.sqrt(16 * math.exp(-0.1)) / 16)  # 16 samples of one size, each with the chance 1 - exp(-0.1)
    assert lines[0] == f"prog, process 77: live: 0.02 MiB ±{error} %, 16 samples, in about 168 blocks of 1 stack trace"
    assert lines[1] == f"  0.02 MiB ±{error} %, 16 samples, 100.0 % of all, in about 168 blocks, allocated by:"
    assert lines[2:] == ["    prog+0x40000f", "    prog+0x400004"]
    assert run("leaks", stream, "--since", "1").stdout.startswith("prog, process 77: grew: ")
    assert [line.split()[0] for line in run("list", stream).stdout.splitlines()] == ["snapshot", "1", "2"]


def parsed(*words: str | pathlib.Path) -> dict:
    done = run(*words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_same_figures_as_json(stream: pathlib.Path) -> None:
    assert [(each["snapshot"], each["pid"], each["sites"]) for each in parsed("list", stream)["snapshots"]] == [(1, 77, 2), (2, 77, 2)]
    live = parsed("leaks", stream, "--no-symbols")
    assert (live["program"], live["pid"], live["kind"], live["rate_bytes"]) == ("prog", 77, "live", 1000)
    (stack,) = live["stacks"]
    assert stack["bytes"] == live["total"]["bytes"] == round(1500 * SCALE) and (stack["blocks"], stack["samples"]) == (round(16 * SCALE), 16)
    assert [frame["function"] for frame in stack["frames"]] == ["prog+0x40000f", "prog+0x400004"]
    assert parsed("leaks", stream, "--since", "1")["kind"] == "grew"
    stream.write_bytes(b"".join(CROSSING))
    threads = parsed("threads", stream, "--at", "1")["threads"]
    assert [(each["thread_id"], each["name"], each["bytes"]) for each in threads] == [(1, "", 3 * MIB), (2, "a worker", MIB)]
    assert len(parsed("threads", stream, "--at", "1", "--count", "1")["threads"]) == 1
    flow = parsed("flow", stream)
    (pair_found,) = flow["pairs"]
    assert (pair_found["allocated_by"]["thread_id"], pair_found["freed_by"]["thread_id"], pair_found["bytes"]) == (1, 2, 15 * MIB)
    assert flow["other_pairs_bytes"] == 3 * MIB and [frame["function"] for frame in flow["stacks"][0]["frames"]] == ["prog+0x40000f", "prog+0x400004"]


@pytest.mark.parametrize("count", ["0", "-1", "many", "1000001"])
def test_a_number_of_rows_that_cannot_be(stream: pathlib.Path, count: str) -> None:
    done = run("leaks", stream, "--count", count)
    assert done.returncode == 2 and f"'{count}': allowed are 1 to 1000000" in done.stderr


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
    message = pprof_message.profile_message()()
    message.ParseFromString(gzip.decompress(output.read_bytes()))
    assert sorted(sample.value[3] for sample in message.sample) == [0, round(1500 * SCALE)]
    assert [location.address for location in message.location] == [0x100F, 0x1004, 0x1FEF]
    assert {location.mapping_id for location in message.location} == {1}
    assert message.string_table[message.mapping[0].build_id] == "abcd"
    assert (message.period, message.time_nanos) == (1000, 1700000000 * 10**9 + 5)


MIB = 2**20
CROSSING = (
    moment(
        site(100, [90, 9000, 80, 8000, 50, 5000], [0x1010, 0x1005]),
        site(48, [9, 400, 8, 300, 2, 96], [0x1010, 0x1FF0]),
        pairs=pair(1, 0, 99, 990, 9 * MIB) + pair(1, 1, 36, 360, MIB) + pair(1, 2, 52, 520, 5 * MIB) + pair(2, 0, 4, 4, MIB)
        + numbers(heap_profile.THREAD, 2) + text(b"a worker"),
    ),
    moment(
        site(100, [190, 19000, 180, 18000, 150, 15000], [0x1010, 0x1005]),
        site(48, [9, 400, 8, 300, 2, 96], [0x1010, 0x1FF0]),
        seconds=4,
        pairs=pair(1, 0, 199, 1990, 19 * MIB) + pair(1, 1, 36, 360, MIB) + pair(1, 2, 150, 1500, 13 * MIB) + pair(1, 2, 2, 20, 2 * MIB)
        + pair(heap_profile.OTHERS, heap_profile.OTHERS, 1, 10, 3 * MIB) + pair(2, 0, 4, 4, MIB),
    ),
)  # fmt: skip


def test_flow(stream: pathlib.Path) -> None:
    stream.write_bytes(CROSSING[0])
    total = 5000 * SCALE + 96 / -math.expm1(-0.048)
    head, *lines = run("flow", stream, "--no-symbols").stdout.splitlines()
    assert head.startswith(f"prog, process 77: {total / MIB:.2f} MiB of ")
    assert head.endswith(" %, were freed by another thread (52 samples)")
    words = [line.split() for line in lines]
    assert ["1", "9.00", "99", "1.00", "5.00", "3.00", "0.00", "0"] in words, "allocated, freed by itself, by others, live; frees others'"
    assert ["2", "1.00", "4", "0.00", "0.00", "1.00", "5.00", "52", "a", "worker"] in words
    assert ["1", "2", "5.00", "14", "%", "520", "52"] in words, "the only pair that crosses"
    assert ["100", "0.05", "13", "%", "50", f"{50 * SCALE:.0f}", f"{10 * SCALE * 50 / 80:.0f}", "62.5", "%"] in words, "5 of 8 that were freed; so of 10 that live"
    stacks = lines[next(i for i, line in enumerate(lines) if line.endswith("allocated by:")) :]
    assert [line.strip() for line in stacks[1:3]] == ["prog+0x40000f", "prog+0x400004"]
    assert [line.strip() for line in stacks[4:]] == ["prog+0x40000f", "prog+0x400fef"]


def test_whose_allocations_are_live(stream: pathlib.Path) -> None:
    stream.write_bytes(b"".join(CROSSING))
    head, titles, *lines = run("threads", stream, "--at", "1").stdout.splitlines()
    assert head.startswith("prog, process 77: live: 4.00 MiB in about ") and head.endswith(" blocks, allocated by 2 threads")
    assert titles.split() == ["live", "MiB", "share", "blocks", "samples", "thread", "name"]
    words = [line.split() for line in lines]
    assert [each[:3] + each[4:] for each in words] == [["3.00", "75.0", "%", "11", "1", "ended"], ["1.00", "25.0", "%", "4", "2", "a", "worker"]]
    assert len(run("threads", stream, "--at", "1", "--count", "1").stdout.splitlines()) == 3
    assert " grew MiB " in run("threads", stream, "--since", "1").stdout
    stream.write_bytes(moment(version=1))
    assert "format 1" in run("threads", stream).stderr


def test_the_flow_between_two_moments(stream: pathlib.Path) -> None:
    """A fork's child can have a pair twice; the pairs that had no room are named apart."""
    stream.write_bytes(b"".join(CROSSING))
    within = run("flow", stream, "--since", "1").stdout
    words = [line.split() for line in within.splitlines()]
    assert "MiB/s in 4.0 s" in within
    assert ["1", "2", "10.00", "10", "%", "2.50", "1000", "100"] in words
    assert ["1", "10.00", "100", "0.00", "10.00", "0.00", "0.00", "0"] in words
    assert "3.00 MiB more were freed in pairs that the table had no room for" in within
    assert ["100", f"{10000 * SCALE / MIB:.2f}", "10", "%", "100", f"{10000 * SCALE / MIB / 4:.2f}", f"{100 * SCALE:.0f}", f"{10 * SCALE * 150 / 180:.0f}", "100.0", "%"] in words
    assert not any(line[:1] == ["48"] for line in words), "unchanged"
    files = [stream.with_name(name) for name in "ab"]
    for file, data in zip(files, CROSSING, strict=True):
        file.write_bytes(data)
    assert run("flow", *files).stdout == within


def test_a_stream_of_format_1(stream: pathlib.Path) -> None:
    stream.write_bytes(moment(site(100, [10, 900, 4, 300], [0x1010], version=1), version=1))
    assert run("leaks", stream).stdout.startswith("prog, process 77: live: ")
    result = run("flow", stream)
    assert (result.returncode, result.stderr) == (2, "hakozuna profile: the file is of format 1, which says nothing of threads\n")


def test_a_site_that_is_there_twice(stream: pathlib.Path) -> None:
    stream.write_bytes(moment(site(100, [1, 90, 0, 0], [0x1010]), site(100, [2, 180, 1, 90], [0x1010])))
    assert heap_profile.read_moments(stream)[0].sites == {(100, (0x1010,)): (3, 270, 1, 90, 0, 0)}


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
        (heap_profile.MAGIC + number(3), "format 3; this program reads the formats 1 to 2"),
        (moment(rate=0), "the rate is 0; allowed: 1 or more"),
        (ONE[:-2] + numbers(9, 2), "record 9; allowed: 0 to 4"),
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
        (["--at", "3"], "snapshot 3; the file has snapshots 1 to 2"),
        (["--since", "0"], "snapshot 0; the file has snapshots 1 to 2"),
    ],
)
def test_bad_moments(stream: pathlib.Path, words: list[str], message: str) -> None:
    result = run("leaks", stream, *words)
    assert (result.returncode, result.stderr) == (2, f"hakozuna profile: {message}\n")


def test_moments_of_two_processes(stream: pathlib.Path) -> None:
    stream.write_bytes(ONE + moment(pid=78))
    assert "snapshot 1 is of process 77, the other of 78" in run("leaks", stream, "--since", "1").stderr


def test_a_file_that_is_not_there(tmp_path: pathlib.Path) -> None:
    result = run("list", tmp_path / "none")
    assert (result.returncode, result.stderr) == (2, f"hakozuna profile: {tmp_path}/none: No such file or directory\n")


def test_the_build_id_of_a_file() -> None:
    program = os.path.realpath(sys.executable)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {heap_profile.build_id_of(program)}\n" in notes
    assert heap_profile.build_id_of(str(TOOL)) is None
    assert heap_profile.build_id_of("/no/such/file") is None
