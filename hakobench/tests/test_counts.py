"""`hakobench counts`: its readers of valgrind's and perf's output, its arithmetic, and one real run."""

import csv
import dataclasses
import os
import pathlib
import select
import signal
import subprocess
import sys

import click.testing
import pytest
from preloads import CRASHES, NO_MALLOC, OURS
from workload_programs import build_library

from hakobench import allocators, parallel, suite
from hakobench.commands import counts
from hakobench.counts import callgrind, perf
from hakobench.project import LIB_DIR
from hakobench.rows import Row

SAMPLE = (pathlib.Path(__file__).parent / "callgrind_sample.txt").read_text()
SUITE = """about = "for tests"

[[row]]
name = "args"
about = "one thread"
workload = "bench_random_mixed_malloc_args"
args = ["{work}", "400", "16", "2048", "--pair"]
metric = "pairs_per_s"
work = 1_000_000
tags = ["st"]

[[row]]
name = "app"
about = "no workload of ours"
workload = "true"
driver = "command"
metric = "wall_seconds"
"""
SCALE = 0.005  # 5000 and 10000 pairs


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    directory = tmp_path_factory.mktemp("libraries")
    codes = {"crashes": CRASHES, "no_malloc": NO_MALLOC, "ours": OURS}
    return {name: build_library(directory / f"lib{name}.so", code) for name, code in codes.items()}


@pytest.fixture
def suite_path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def args_row(suite_path: pathlib.Path) -> Row:
    return suite.load(str(suite_path)).rows[0]


class Counts:
    """Calls of `hakobench counts`."""

    def __init__(self, programs: pathlib.Path, suite_path: pathlib.Path, results: pathlib.Path):
        self.results = results
        self.options = (
            "--suite", str(suite_path), "--bin-dir", str(programs), "--results-dir", str(results),
            "--scale", str(SCALE),
        )  # fmt: skip

    def __call__(self, *args: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(counts.command, [*self.options, *args])

    def raw(self) -> list[dict[str, str]]:
        (path,) = self.results.glob("*.csv")
        with path.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))


@pytest.fixture
def count(programs: pathlib.Path, suite_path: pathlib.Path, tmp_path: pathlib.Path) -> Counts:
    return Counts(programs, suite_path, tmp_path / "results")


def without_program(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A PATH without valgrind and perf."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


# ---- callgrind ----


def test_sample_is_read() -> None:
    profile = callgrind.parse(SAMPLE, "sample")
    assert {event: profile.totals[event] for event in ("Ir", "Dr", "Dw", "Bc", "Bcm", "Bi", "Bim")} == {
        "Ir": 1200, "Dr": 298, "Dw": 110, "Bc": 110, "Bcm": 9, "Bi": 40, "Bim": 2,
    }  # fmt: skip
    assert profile.instructions == {
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "memmove"): 10,
        ("/usr/lib/libexample.so", "malloc"): 500,
        ("/usr/lib/libexample.so", "free"): 240,
        ("/usr/bin/bench", "main"): 450,
    }
    assert profile.calls == {
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "memmove"): 7,
        ("/usr/lib/libexample.so", "malloc"): 100,
    }
    assert profile.of_object("/usr/lib/libexample.so") == 740
    assert profile.of_object("/nowhere.so") == 0
    # a callee's cost is not counted at its caller, so the functions' own costs add up to the total
    assert sum(profile.instructions.values()) == profile.totals["Ir"]


def test_a_name_is_known_from_its_first_mention() -> None:
    """Here `free` has its name as a callee, and its own section below has only the number."""
    text = SAMPLE.replace("fn=(41) free", "fn=(41)").replace("calls=7", "cfn=(41) free\ncalls=7")
    assert callgrind.parse(text, "x").instructions["/usr/lib/libexample.so", "free"] == 240


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SAMPLE[: SAMPLE.index("totals:")], "sample: cut off: no line 'totals:'"),
        ("", "sample: not a callgrind file"),
        ("what is this\n", "sample: not a callgrind file"),
        (SAMPLE.replace("events: Ir Dr", "events: Dr Ir"), "sample: not a callgrind file that counts instructions"),
        (SAMPLE.replace(" Bim\n", "\n").replace(" 40 2\n", " 40\n"), "sample: no counts of Bim"),
        (SAMPLE.replace("totals: 1200", "totals: 12x0"), "sample: '12x0' is not a count"),
        (SAMPLE.replace("12 400 100", "12 4oo 100"), "sample:30: '4oo' is not a count"),
    ],
)
def test_files_that_are_no_samples(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        callgrind.parse(text, "sample")


def counted(pairs: int, factor: int, failure: str = "") -> callgrind.Counted:
    totals = {event: 1000 + factor * number for number, event in enumerate(callgrind.EVENTS, 1)}
    profile = callgrind.Profile(totals, {("/l.so", "malloc"): [50 + 7 * factor], ("/l.so", "malloc'2"): [factor]})
    return callgrind.Counted("row", "x", 1.0, "command", failure, pairs, 20 + 5 * factor, profile)


def test_start_up_cancels() -> None:
    found = callgrind.per_pair(counted(100, 100), counted(300, 300))
    assert found.events == {event: number for number, event in enumerate(callgrind.EVENTS, 1)}
    assert (found.pairs, found.outside) == (200, 5.0)
    assert found.functions == [("malloc (l.so)", 8.0)]
    assert found.sum("Ir", "Bc") == 3.0


def test_differences_that_mean_nothing() -> None:
    with pytest.raises(ValueError, match="the longer run has 100 operations, the shorter one 100; a larger --scale"):
        callgrind.per_pair(counted(100, 1), counted(100, 2))
    with pytest.raises(ValueError, match="^killed by SIGSEGV$"):
        callgrind.per_pair(counted(100, 1), counted(300, 2, "killed by SIGSEGV"))


def test_valgrind_is_not_preloaded() -> None:
    library = allocators.Allocator("x", pathlib.Path("/l.so"))
    command = callgrind.argv(pathlib.Path("out"), ["bench", "1"], library)
    assert command[0] == "valgrind"
    assert command[-4:] == ["env", "LD_PRELOAD=/l.so", "bench", "1"]
    assert "--trace-children=yes" in command
    assert callgrind.argv(pathlib.Path("out"), ["bench"], allocators.Allocator("glibc"))[-2:] == [
        "--log-file=out.log", "bench",
    ]  # fmt: skip


needs_valgrind = pytest.mark.skipif(callgrind.missing() != "", reason=callgrind.missing())


EVENTS = ("Ir", "Bc", "Dr", "Dw")


def two_that_agree(row: Row, allocator: allocators.Allocator, programs: pathlib.Path) -> tuple[callgrind.PerPair, callgrind.PerPair]:
    """Two of at most five results whose events are the same, except for the digits of the times that the workload prints:
    some hundred in 5000 pairs. On a slow machine the clock makes the heap do more in some runs than in others."""
    results: list[callgrind.PerPair] = []
    for _ in range(5):
        both = [callgrind.count(row, allocator, scale, programs) for scale in (SCALE, 2 * SCALE)]
        assert [one.failure for one in both] == ["", ""]
        found = callgrind.per_pair(*both)
        for earlier in results:
            if all(found.events[event] == pytest.approx(earlier.events[event], rel=1e-3, abs=0.1) for event in EVENTS):
                return earlier, found
        results.append(found)
    pytest.fail(f"no two of five agree: {[{event: one.events[event] for event in EVENTS} for one in results]}")


@needs_valgrind
def test_real_counts_are_positive_and_repeatable(programs: pathlib.Path, args_row: Row) -> None:
    own = allocators.own_libraries()
    assert own, f"'make libs' builds them into {LIB_DIR.name}"
    picked = [allocators.Allocator("glibc"), *(allocators.load(name, path) for name, path in list(own.items())[:1])]
    costs = {}
    for allocator in picked:
        first, second = two_that_agree(args_row, allocator, programs)
        assert first.pairs == second.pairs == 5000
        assert all(first.events[event] > 1.0 for event in EVENTS)
        assert first.outside == pytest.approx(second.outside, rel=1e-3, abs=0.1)
        assert 0 < first.outside < first.events["Ir"]
        assert any(name.startswith("malloc (") for name, _ in first.functions[:20])
        costs[allocator.name] = first
    names = list(costs)
    loop = {name: costs[name].events["Ir"] - costs[name].outside for name in names}
    assert loop[names[0]] == pytest.approx(loop[names[1]], rel=0.01)  # the workload's own part is the same


@needs_valgrind
def test_table_and_csv(count: Counts, libraries: dict[str, pathlib.Path]) -> None:
    done = count("--allocators", "glibc", "--lib", f"ours={libraries['ours']}", "--top", "5")
    assert done.exit_code == 0, done.output
    assert "args, glibc: instructions per operation by function" in done.stdout
    listed = done.stdout.split("args, ours: instructions per operation by function")[1]
    assert "random_mixed_run (bench_random_mixed_malloc_args)" in listed
    raw = count.raw()
    assert [(run["allocator"], run["scale"]) for run in raw] == [
        ("glibc", "0.005"), ("glibc", "0.01"), ("ours", "0.005"), ("ours", "0.01"),
    ]  # fmt: skip
    for run in raw:
        assert tuple(run) == counts.COLUMNS
        assert run["failure"] == ""
        assert int(run["pairs"]) > 0 < int(run["Ir"])
        assert len(run["program_sha256"]) == 64
        assert run["valgrind"].startswith("valgrind-3")
        assert "bench_random_mixed_malloc_args" in run["command"]
        assert not any("/tmp" in value or str(count.results.parent) in value for value in run.values())
    assert raw[2]["config"] == "engine=test lane=none"
    assert len(raw[2]["library_sha256"]) == 64


@needs_valgrind
def test_cells_that_do_not_run_are_reported_and_left_out(count: Counts, libraries: dict[str, pathlib.Path]) -> None:
    bad = [f"--lib={name}={libraries[name]}" for name in ("crashes", "no_malloc")]
    done = count("--allocators", "glibc", *bad)
    assert done.exit_code == 0, done.output
    printed = " ".join(done.stdout.split())
    assert "left out: crashes: killed by SIGSEGV (args)" in printed
    assert "left out: no_malloc: the preload took no effect: malloc comes from libc.so.6 (args)" in printed
    assert [run["allocator"] for run in count.raw() if run["failure"]] == ["crashes", "no_malloc"]


@needs_valgrind
def test_nothing_counted_is_exit_code_1(count: Counts, libraries: dict[str, pathlib.Path]) -> None:
    assert count("--allocators", "", "--lib", f"crashes={libraries['crashes']}").exit_code == 1


def test_without_valgrind(count: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    without_program(monkeypatch, tmp_path)
    done = count("--allocators", "glibc", "--perf")
    assert done.exit_code == 1
    assert "not counted: no valgrind; 'apt-get install valgrind' brings it" in done.stdout
    assert "not measured: no perf; 'apt-get install linux-perf' brings it" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--rows", "app"], "rows app: only workloads of bench/workloads can be counted"),
        (["--rows", "nope"], "suite mine has no row 'nope'"),
        (["--allocators", "nope"], "no allocator is called 'nope'"),
        (["--scale", "0"], "0.0 is not in the range 0<x<=100"),
        (["--suite", "nope"], "no suite is called 'nope'"),
        (["--bin-dir", "/nowhere"], "no program 'bench_random_mixed_malloc_args' in nowhere"),
    ],
)
def test_bad_arguments(count: Counts, args: list[str], message: str) -> None:
    done = count("--allocators", "glibc", *args)
    assert done.exit_code == 2
    assert message in done.stderr.replace("\n", " ")


@needs_valgrind
def test_interrupt_keeps_finished_counts(
    count: Counts, libraries: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = callgrind.count

    def until_ours(row: Row, allocator: allocators.Allocator, *rest) -> callgrind.Counted:
        if allocator.is_ours:
            raise KeyboardInterrupt
        return real(row, allocator, *rest)

    monkeypatch.setattr(callgrind, "count", until_ours)
    monkeypatch.setattr(parallel, "RUNS_MAX", 1)
    done = count("--allocators", "glibc", "--lib", f"ours={libraries['ours']}")
    assert done.exit_code == 130
    assert [run["allocator"] for run in count.raw()] == ["glibc", "glibc"]


def test_interrupt_ends_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr(parallel.os, "killpg", lambda pid, _signal: ended.append(pid))
    children = parallel.Children()
    with children.one() as started:
        children.watch(started, 4710)
    with children.one() as started:
        children.watch(started, 4711)
        children.end()
        children.watch(started, 4712)  # started later by a thread
    assert ended == [4711, 4712]


# ---- perf ----

STAT = """# started on Sun Nov 22 00:05:19 2026

<not supported>,,cycles:u,0,100.00,,
123456,,instructions,1000,100.00,1.5,insn per cycle
<not counted>,,branches,0,100.00,,
12.5,,branch-misses,1000,50.00,,
"""
REPORT = """# Samples: 129  of event 'cpu-clock:u'
 9.30%  |libexample.so                 |[.] free
 68.22% |bench_random_mixed_malloc_args|[.] random_mixed_run
 14.73% |libexample.so                 |[.] operator new(unsigned long)

"""
ANNOTATE = """ Percent |\tSource code & Disassembly of libexample.so for cpu-clock:u (19 samples, percent: local period)
-----------------------------------------------------------------------------------------------------
         : 3    Disassembly of section .text:
         : 5    0000000000004780 <malloc>:
    0.00 :   4780:   cmp    $0x800,%rdi
   15.79 :   47a3:   test   %rdx,%rdx
   78.95 :   479f:   mov    -0x8(%rdx),%rdx   # 10 <x>
    5.26 :   47ac:   mov    %rdx,%rax
    0.40 :   47af:   ret
"""


def test_stat_is_read() -> None:
    assert perf.parse_stat(STAT) == {
        "cycles": None, "instructions": perf.Measured(123456.0), "branches": None,
        "branch-misses": perf.Measured(12.5, 50.0),
    }  # fmt: skip
    one = perf.Counted("", "perf", 1000, perf.parse_stat(STAT))
    assert one.per_pair("instructions") == 123.456
    assert (one.percent("instructions"), one.percent("branch-misses"), one.percent("cycles")) == (100.0, 50.0, 100.0)
    assert one.per_pair("cycles") is None
    assert one.per_pair("nothing of the kind") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12,,cycles\nError: no\n", "line 2: 'Error: no' is not value,unit,event"),
        ("many,,cycles,0\n", "line 1: 'many' is not a count"),
        ("nan,,cycles,0\n", "line 1: 'nan' is not a count"),
        ("12,,cycles,0,half\n", "line 1: 'half' is not a percentage"),
        ("12,,cycles,0,101.0\n", "line 1: '101.0' is not a percentage"),
    ],
)
def test_stat_that_is_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perf.parse_stat(text)


def test_report_is_read() -> None:
    assert perf.parse_report(REPORT) == [
        perf.Symbol(68.22, "bench_random_mixed_malloc_args", "random_mixed_run"),
        perf.Symbol(14.73, "libexample.so", "operator new(unsigned long)"),
        perf.Symbol(9.3, "libexample.so", "free"),
    ]
    assert perf.parse_report("no samples\n") == []


def test_annotate_is_read() -> None:
    assert perf.parse_annotate(ANNOTATE, 2) == (
        (78.95, "479f", "mov -0x8(%rdx),%rdx # 10 <x>"), (15.79, "47a3", "test %rdx,%rdx"),
    )  # fmt: skip
    assert len(perf.parse_annotate(ANNOTATE, 10)) == 3  # the others are too cool
    assert perf.parse_annotate("", 5) == ()


# The output of the real perf on a machine without counters, with and without permission.
FAKE_PERF = """#!/bin/sh
case "$1" in
stat)
    {stat}
    ;;
record)
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@"
    ;;
report) printf ' 60.00%% |libc.so.6|[.] malloc\\n 40.00%% |bench_random_mixed_malloc_args|[.] main\\n' ;;
annotate) printf '   90.00 :   10:   mov    %%rax,%%rbx\\n' ;;
esac
"""
UNSUPPORTED = """out=$4; printf '<not supported>,,%s,0,100.00,,\\n' cycles instructions branches branch-misses \\
        L1-dcache-load-misses LLC-load-misses dTLB-load-misses iTLB-load-misses >"$out" """
FORBIDDEN = "printf 'Error:\\nAccess to performance monitoring is limited.\\n' >&2; exit 255"
SUPPORTED = """out=$4; shift 7; "$@"; printf '5000000,,%s,0,100.00,,\\n' cycles instructions branches >"$out" """


def fake_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, stat: str) -> None:
    """A fake perf before the real one on PATH, which behaves as on a given machine."""
    directory = tmp_path / "fake"
    directory.mkdir()
    program = directory / "perf"
    program.write_text(FAKE_PERF.replace("{stat}", stat))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setattr(callgrind, "missing", lambda: "no valgrind in this test")


def test_perf_without_counters_samples_by_the_clock(
    count: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    fake_perf(monkeypatch, tmp_path, UNSUPPORTED)
    done = count("--allocators", "glibc", "--perf")
    assert done.exit_code == 0, done.output
    assert f"this machine cannot measure: {', '.join(perf.EVENTS)}" in done.stdout
    assert "samples come from a timer (cpu-clock)" in done.stdout
    assert " 60.00 %  malloc (libc.so.6)\n       90.00 %  10: mov %rax,%rbx\n" in done.stdout
    assert " 40.00 %  main (bench_random_mixed_malloc_args)\n" in done.stdout


def test_perf_that_is_not_permitted(count: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    fake_perf(monkeypatch, tmp_path, FORBIDDEN)
    done = count("--allocators", "glibc", "--perf")
    assert "not measured: perf stat refuses: Access to performance monitoring is limited." in done.stdout


def test_perf_with_counters(count: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    fake_perf(monkeypatch, tmp_path, SUPPORTED)
    done = count("--allocators", "glibc", "--perf")
    assert done.exit_code == 0, done.output
    assert "this machine cannot measure: branch-misses, L1-dcache-load-misses" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("│ args "))
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["args", "glibc", "5.00", "5.00", "5.00"]


def test_events_that_share_counters_are_marked(
    count: Counts, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    fake_perf(monkeypatch, tmp_path, SUPPORTED.replace("100.00", "62.50"))
    done = count("--allocators", "glibc", "--perf")
    assert "5.00 (62 %)" in done.stdout
    assert "(n %): an estimate from that part of the run" in done.stdout


# Prints its pid, and never ends by itself.
ENDLESS_VALGRIND = """#!/bin/sh
[ "$1" = --version ] && exec echo valgrind-3
sleep 1000 &
echo $$ $! >{fifo}
wait
"""


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_children(
    ending: signal.Signals, suite_path: pathlib.Path, programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    fifo, fake, scratch = tmp_path / "fifo", tmp_path / "fake", tmp_path / "scratch"
    os.mkfifo(fifo)
    printed = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fake.mkdir()
    scratch.mkdir()
    (fake / "valgrind").write_text(ENDLESS_VALGRIND.replace("{fifo}", str(fifo)))
    (fake / "valgrind").chmod(0o755)
    environment = os.environ | {"PATH": f"{fake}:{os.environ['PATH']}", "TMPDIR": str(scratch)}
    places = ("--suite", suite_path, "--bin-dir", programs, "--results-dir", tmp_path / "results")
    process = subprocess.Popen(
        [sys.executable, "-m", "hakobench", "counts", "--allocators", "glibc", *map(str, places)], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    ready, _, _ = select.select([printed], [], [], 120)
    process.send_signal(ending)
    assert ready, "valgrind was not started"
    started = [int(pid) for pid in os.read(printed, 100).split()]
    os.close(printed)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "interrupted" in said
    for pid in started:
        state = pathlib.Path(f"/proc/{pid}/stat")  # its present parent has perhaps not waited for it yet
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(perf.missing() != "", reason=perf.missing())
def test_real_perf_or_its_reason(programs: pathlib.Path, args_row: Row) -> None:
    here, refusal = perf.probe()
    assert set(here) == set(perf.EVENTS) or refusal
    row = dataclasses.replace(args_row, work=20_000_000)
    recorded = perf.record(row, allocators.Allocator("glibc"), 1.0, programs, "cpu-clock:u", 5)
    assert recorded.failure or recorded.symbols
    if not recorded.failure:
        assert any(symbol.file.startswith(("libc.so", "bench_")) for symbol in recorded.symbols)
        assert sum(symbol.percent for symbol in recorded.symbols) <= 100.1
