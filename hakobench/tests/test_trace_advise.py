"""The sentences of `advise`, and the three commands from the program to the table."""

import dataclasses
import math
import pathlib

import pytest
from click.testing import CliRunner, Result
from preloads import slow
from trace_programs import build_program, build_tools
from trace_samples import random_rows, trace_of
from workload_programs import build_library

from hakobench import machine, process, record, summary
from hakobench.cli import main
from hakobench.project import ROOT
from hakobench.trace import advice, capture, events, figures, memory, replays, store

PROGRAM = """
static void *body(void *block) { free(block); for (int i = 0; i < 2000; i++) free(keep(malloc(100))); return NULL; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, body, malloc(10));
    pthread_join(thread, NULL);
    return 9;
}
"""
OURS = """
#include "next.h"
const char *hz_config_string(void) { return "engine=test lane=none shards=1"; }
void *malloc(size_t size) { return next_malloc(size); }
"""
FLIPS = """
#include "next.h"
void *malloc(size_t size) {
    static _Thread_local unsigned char *last; static _Thread_local int calls;
    if (size == 100 && ++calls == 5) last[size - 1] ^= 1;
    unsigned char *block = next_malloc(size + 16);
    last = size == 100 ? block : last;
    return block;
}
"""


def _runs(speeds: dict[str, list[float]], ours: str = "mine", **fields: object) -> list[record.Run]:
    """One run for each figure; a figure of 0 is a failed run."""
    blank = {field.name: "" for field in dataclasses.fields(record.Run)}
    numbers = {name: 0 for name in ("row_index", "position", "wall_seconds", "cpu_seconds", "final_rss_kb", "cores", "load", "seed")}
    return [
        record.Run(**(blank | numbers | {
            "row": "replay-x", "allocator": name, "ours": name.startswith(ours), "round": at, "value": speed,
            "failure": "" if speed else "killed by SIGSEGV", "metric": "ops_per_s", "unit": "M ops/s",
            "less_is_better": False, "peak_rss_kb": 20480, "other_cpu_share": 0.0, "stolen_share": None,
            "config": "lane=x shards=3",
        } | fields))
        for name, figures_of in speeds.items() for at, speed in enumerate(figures_of, 1)
    ]  # fmt: skip


def _judge(runs: list[record.Run], threads: int = 1) -> advice.Advice:
    rows = random_rows(7, 2000, threads=threads)
    return advice.judge(figures.compute(trace_of(rows)), runs, summary.lines(runs)[0])


def _around(speed: float) -> list[float]:
    return [speed * factor for factor in (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0)]


def test_the_faster_library_is_suggested() -> None:
    found = _judge(_runs({"mine": _around(30), "mine2": _around(20), "glibc": _around(10), "peer": _around(15)}))
    assert found.library == "mine"
    assert found.verdict.startswith("Take mine: 2.00 times (")
    assert "as fast as peer, the best other allocator." in found.verdict
    assert [rival.name for rival in found.rivals] == ["mine2", "peer", "glibc"]
    assert all(rival.interval.low > 1.0 for rival in found.rivals)


def test_a_faster_peer_is_suggested() -> None:
    found = _judge(_runs({"mine": _around(10), "glibc": _around(8), "peer": _around(20)}))
    assert found.verdict.startswith("Take peer: mine is only 0.50 times (")


def test_figures_that_do_not_separate_are_reported() -> None:
    speeds = {"mine": [10, 14, 9, 12, 11, 10, 13], "peer": [11, 10, 12, 9, 13, 11, 10]}
    found = _judge(_runs(speeds))
    assert found.verdict.startswith("The figures do not separate mine from peer: ")
    assert found.rivals[0].interval.contains_one


def test_a_difference_that_is_too_small_is_no_advice() -> None:
    for factor in (1.01, 0.99):
        found = _judge(_runs({"mine": [10.0 * factor] * 7, "glibc": [10.0] * 7}))
        assert found.verdict.startswith(f"mine and glibc are alike: {factor:.2f} times (")


def test_that_the_choice_was_made_among_several_is_reported() -> None:
    found = _judge(_runs({"mine": _around(30), "mine2": _around(20), "glibc": _around(10), "peer": _around(15)}))
    assert "as the fastest of 2 of ours and of 2 others" in found.verdict
    assert "Picked" not in _judge(_runs({"mine": _around(30), "glibc": _around(10)})).verdict


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("calls=1000 waits=20 pace_waits=30 wait_share=0.0500", None),
        ("calls=1000 waits=30 pace_waits=30 wait_share=0.0100", "up to 1% of their time, and before 6.0% of"),
        ("calls=1000 waits=1 pace_waits=1 wait_share=0.4300", "up to 43% of their time, and before 0.2% of"),
        ("", None),
    ],
)
def test_waiting_is_reported(printed: str, text: str | None) -> None:
    found = _judge(_runs({"mine": _around(30), "glibc": _around(10)}, figures=printed))
    remarks = [remark for remark in found.remarks if "waited for each other" in remark]
    assert [text in remark for remark in remarks] == ([True] if text else [])


@pytest.mark.parametrize(("calls", "printed"), [(1999, True), (2001, False)])
def test_many_thread_starts_are_reported(calls: int, printed: bool) -> None:
    rows = [(1, events.ALLOCATE, min(block, 2), block, 8, 0) for block in range(calls)]
    runs = _runs({"mine": _around(30), "glibc": _around(10)})
    found = advice.judge(figures.compute(trace_of(rows)), runs, summary.lines(runs)[0])
    assert any(remark.startswith(f"2 threads are started for {calls} calls") for remark in found.remarks) == printed


def test_few_rounds_decide_nothing() -> None:
    found = _judge(_runs({"mine": [30.0, 30.0], "glibc": [10.0, 10.0]}))
    assert found.verdict == (
        "The figures do not separate mine from glibc: 3.00 times (only 2 rounds, 5 are needed) as fast."
    )


@pytest.mark.parametrize(("peak", "text"), [(10240, "; it needs 2.00 times the peak memory"), (19000, ""),
                                            (40960, "; it needs 0.50 times the peak memory")])  # fmt: skip
def test_memory_is_part_of_the_sentence_when_it_differs(peak: int, text: str) -> None:
    runs = _runs({"mine": _around(30)}) + _runs({"glibc": _around(10)}, peak_rss_kb=peak)
    assert _judge(runs).verdict.endswith(f"the best other allocator{text}.")


def test_failures_are_no_figures() -> None:
    found = _judge(_runs({"mine": _around(30), "glibc": _around(10), "broken": [50.0, 0.0] + [50.0] * 5}))
    assert "as fast as glibc" in found.verdict
    assert "broken failed, so nothing is known of it." in found.remarks
    none = _judge(_runs({"mine": [0.0] * 7, "glibc": _around(10)}))
    assert (none.library, none.rivals) == (None, ())
    assert none.verdict.startswith("No library of ours")
    alone = _judge(_runs({"mine": _around(10)}))
    assert alone.verdict == "mine: there is no other allocator to compare it with."


def test_lanes_that_cannot_be_told_apart_are_named() -> None:
    found = _judge(_runs({"mine": _around(30), "mine2": list(reversed(_around(30))), "glibc": _around(10)}))
    assert any(remark.startswith("mine2 cannot be told apart from mine: ") for remark in found.remarks)


@pytest.mark.parametrize(
    ("threads", "text"), [(3, "3 threads alive at a time fit into the 3 shards"), (4, "and mine has 3 shards: some threads share")]
)
def test_threads_against_shards(threads: int, text: str) -> None:
    found = _judge(_runs({"mine": _around(30), "glibc": _around(10)}), threads)
    assert any(text in remark for remark in found.remarks)


def test_what_the_difference_is_worth_is_reported() -> None:
    found = _judge(_runs({"mine": _around(20), "glibc": _around(10), "peer": _around(5)}))
    assert any("take 0.1 ms under mine, 0.2 ms under glibc" in remark for remark in found.remarks)


def test_shards_are_read_from_the_configuration() -> None:
    assert advice.shards_of("engine=hz3 shards=63 HZ3_NUM_SHARDS=7") == 63
    assert advice.shards_of("HZ3_NUM_SHARDS=7 xshards=2") is None
    assert "does not state" in advice._thread_remark(figures.compute(trace_of([])), "x", "")


def test_ratios_are_those_of_pairs_of_runs() -> None:
    """The machine is half as fast in every other round, so only pairs show that the ratios are alike."""
    mine = [20.0, 10.0, 20.0, 10.0, 20.0, 10.0, 20.0]
    found = _judge(_runs({"mine": mine, "glibc": [speed / 1.1 for speed in mine]}))
    assert math.isclose(found.rivals[0].interval.low, 1.1)
    assert math.isclose(found.rivals[0].interval.high, 1.1)


# ---- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = build_tools(tmp_path_factory.mktemp("tools"))
    build_program(directory / "program", PROGRAM)
    for name, code in (("slow", slow(20000)), ("ours", OURS), ("flips", FLIPS)):
        build_library(directory / f"{name}.so", code)
    return directory


@pytest.fixture
def cli(built: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Calls hakobench in tmp_path, with the tools of this test and without the build directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture, "RECORDER", built / "libhakotrace.so")
    monkeypatch.setattr(replays, "BIN_DIR", built)
    monkeypatch.setattr(machine, "look", lambda *_: _quiet())
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def _quiet() -> machine.Machine:
    values = {field.name: "" if field.type in (str, "str") else 0 for field in dataclasses.fields(machine.Machine)}
    return machine.Machine(**values)


def _ok(result: Result, code: int = 0) -> Result:
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def _replay_words(tmp_path: pathlib.Path, built: pathlib.Path, *libraries: str) -> list[str]:
    words = ["--allocators", "glibc", "--rounds", "5", "--repeat", "2", "--results-dir", str(tmp_path / "results")]
    return words + [word for name in libraries for word in ("--lib", f"{name}={built / name}.so")]


def test_from_a_program_to_a_table(cli, built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    printed = _ok(cli("trace", "-o", "x.hakotrace", "--", built / "program"))
    assert "malloc 2001" in printed.output
    assert "the program ended with exit code 9" in printed.output
    assert printed.output.rstrip().splitlines()[-1] == "x.hakotrace"
    assert [path.name for path in tmp_path.iterdir()] == ["x.hakotrace"]
    replayed = _ok(cli("replay", "x.hakotrace", *_replay_words(tmp_path, built, "slow", "ours")))
    csv = list((tmp_path / "results").iterdir())
    assert replayed.output.rstrip().splitlines()[-1] == csv[0].name
    runs = record.read(csv[0]).runs
    assert (len(runs), {run.failure for run in runs}) == (15, {""})
    assert {run.round: None for run in runs} == dict.fromkeys(range(1, 6))
    by_name = summary.lines(runs)[0].cells
    assert by_name["slow"].value < by_name["glibc"].value / 2
    assert not any(str(ROOT) in run.command or str(tmp_path) in run.command for run in runs)
    assert not list(replays.DIRECTORY.glob("replay-x-*.plan"))


def test_advice_for_a_recording_and_for_a_program(cli, built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = _replay_words(tmp_path, built, "slow", "ours")
    printed = _ok(cli("advise", *words, "--", built / "program")).output
    assert "ours as a multiple of" in printed
    assert ("Take " in printed) or ("do not separate ours from glibc" in printed)
    store.write(tmp_path / "y.hakotrace", trace_of(random_rows(3, 3000, threads=3)))
    printed = _ok(cli("advise", *words, "y.hakotrace")).output
    assert "3 threads are alive at a time, and ours has 1 shards" in printed
    assert [path.name for path in tmp_path.iterdir() if path.name != "results"] == ["y.hakotrace"]


def test_a_library_that_breaks_blocks_fails_its_runs(cli, built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rows = [(1, events.ALLOCATE, 0, block, 100, 0) for block in range(8)]
    rows += [(events.FREE, events.RELEASE, 0, block, 0, 0) for block in range(8)]
    store.write(tmp_path / "x.hakotrace", trace_of(rows))
    printed = _ok(cli("replay", "x.hakotrace", *_replay_words(tmp_path, built, "flips")), 1).output
    assert "FAILED: flips: exit code 1: hakoreplay: content check failed" in printed


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["trace", "--", "/no/such/program"], 2, "'/no/such/program': No such file or directory"),
        (["trace"], 2, "Missing argument"),
        (["trace", "--nonsense", "true"], 2, "no such option '--nonsense'; put -- before the program"),
        (["trace", "-o", "no/directory/x", "--", "true"], 2, "there is no directory"),
        (["trace", "-o", ".", "--", "true"], 2, "is a directory"),
        (["replay", "missing"], 2, "'missing' does not exist"),
        (["replay", "empty"], 2, "empty: offset 0: truncated"),
        (["replay", "text"], 2, "text: offset 0: not a recording"),
        (["replay", "good", "--allocators", "nobody"], 2, "no allocator is called 'nobody'"),
        (["replay", "good", "--lib", "x=missing.so"], 2, "cannot read"),
        (["replay", "good", "--rounds", "0"], 2, "0 is not in the range"),
        (["replay", "failed-only"], 2, "no call to replay"),
        (["advise", "good", "argument"], 2, "'argument': a recording takes no arguments"),
        (["advise", "/no/such/program"], 2, "'/no/such/program': No such file or directory"),
    ],
)
def test_bad_arguments(cli, tmp_path: pathlib.Path, words: list[str], code: int, message: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("This is no recording at all, but long enough for a header.\n")
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    store.write(tmp_path / "failed-only", trace_of([(1, 4, 0, 0, 1 << 62, 0)]))
    before = sorted(tmp_path.iterdir())
    result = _ok(cli(*words), code)
    assert message in result.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_busy_machine_is_refused(cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    monkeypatch.setattr(machine, "look", lambda *_: dataclasses.replace(_quiet(), busy_share=0.9))
    assert "the machine is busy" in _ok(cli("replay", "good"), 2).output


def test_advice_looks_before_the_program_runs(
    cli, built: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["advise", "--allocators", "glibc", "touch", "ran"]
    monkeypatch.setattr(replays, "BIN_DIR", tmp_path)
    assert "no program" in _ok(cli(*words), 2).output
    monkeypatch.setattr(replays, "BIN_DIR", built)
    monkeypatch.setattr(machine, "look", lambda *_: dataclasses.replace(_quiet(), busy_share=0.9))
    assert "the machine is busy" in _ok(cli(*words), 2).output
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", ["choose", "write", "replay", "interrupt"])
def test_recordings_stay_after_an_error(
    cli, built: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt if command == "interrupt" else OSError(28, "No space left on device", "x")

    monkeypatch.setattr(store, "write", fail)
    monkeypatch.setattr(replays, "run", fail)
    words, code = {
        "choose": (["trace", "--process", "nobody", "--"], 1),
        "write": (["trace", "-o", "x", "--"], 2),
        "replay": (["advise", "--allocators", "glibc", "--"], 1),
        "interrupt": (["advise", "--allocators", "glibc", "--"], 130),
    }[command]
    printed = _ok(cli(*words, built / "program"), code).output
    (directory,) = tmp_path.iterdir()
    assert f"what was recorded is kept in '{directory}'" in printed
    (path,) = directory.iterdir()
    assert store.read(path).program == "program"


def test_a_replay_larger_than_memory_is_refused(cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program can reserve much memory and touch little of it."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemAvailable: 1024 kB\n")
    store.write(tmp_path / "x", trace_of([(1, events.ALLOCATE, 0, 0, 5 << 20, 0)]))
    words = ["replay", "x", "--allocators", "glibc", "--rounds", "1", "--repeat", "1", "--results-dir", tmp_path / "r"]
    for touch in ("pages", "all"):
        printed = _ok(cli(*words, "--touch", touch), 2).output
        assert f"--touch={touch}: up to 5.0 MiB of this recording are live at a time, and 1.0 MiB of memory" in printed
        assert "--touch=edges" in printed
    _ok(cli(*words, "--touch", "edges"))


def test_missing_tools_are_reported(cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RECORDER", tmp_path / "gone.so")
    assert "no recorder 'gone.so'" in _ok(cli("trace", "--", "true"), 1).output
    monkeypatch.setattr(replays, "BIN_DIR", tmp_path)
    store.write(tmp_path / "good", trace_of(random_rows(1, 100)))
    printed = _ok(cli("replay", "good", "--allocators", "glibc", "--results-dir", tmp_path / "results"), 2).output
    assert "no program" in printed


def test_a_run_prints_what_the_runner_reads(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The names of the figures are a contract with hakobench.runner."""
    from hakobench.trace import plan

    plan.write(tmp_path / "plan", trace_of(random_rows(1, 1000)))
    ended = process.run([str(built / "hakoreplay"), str(tmp_path / "plan")], {"PATH": "/usr/bin"}, timeout=60)
    printed = process.key_values(ended.stdout)
    assert {"ops_per_s", "seconds", "peak_rss_kb", "final_rss_kb", "malloc_from", "identity"} <= printed.keys()
