"""`hakobench why`: the share of time that allocation takes, in figures that are given, and for programs with much and with little of it."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import pytest
from preloads import OURS, slow
from trace_programs import build_program, build_tools
from workload_programs import build_library

from hakobench import record
from hakobench.drivers import app
from hakobench.project import BIN_DIR, ROOT
from hakobench.trace import share

NO_PROGRAM = app.missing_program(app.MEASURE_CHILD, BIN_DIR)
needs_programs = pytest.mark.skipif(NO_PROGRAM != "", reason=NO_PROGRAM)
MUCH = "int main(void) { for (int i = 0; i < 500000; i++) free(keep(malloc(100))); return 0; }"
LITTLE = """
int main(void) {
    char *block = keep(malloc(100));
    for (volatile int i = 0; i < 60000000; i++) { }
    free(block);
    return 0;
}
"""


def _runs(seconds: dict[str, list[float]], cpu: float = 2.0, **fields: object) -> list[record.Run]:
    """One run of the program for each time; 0 is a failed run."""
    blank = {field.name: "" for field in dataclasses.fields(record.Run)}
    return [
        record.Run(**(blank | {
            "allocator": name, "ours": name != "glibc", "round": at, "value": each, "wall_seconds": each, "cpu_seconds": cpu,
            "failure": "" if each else "exit code 1", "less_is_better": True, "peak_rss_kb": 1000 if name == "glibc" else 1500,
        } | fields))
        for name, times in seconds.items() for at, each in enumerate(times, 1)
    ]  # fmt: skip


def _around(value: float) -> list[float]:
    return [value * factor for factor in (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0)]


def test_the_share_is_calls_times_their_time() -> None:
    runs = _runs({"glibc": _around(2.0)})
    one = share.share_of(10_000_000, 50e6, 1, runs, 4)
    assert (one.ns, one.value) == (20.0, 0.1) and not one.is_small
    assert one.sentence == "Allocation is about 10 % of this program's CPU time: 10000000 calls of 20 ns each, in 2 s"
    two = share.share_of(10_000_000, 50e6, 8, runs, 2)
    assert (two.ns, two.value) == (40.0, 0.2), "threads replay beside each other, on as many cpus as there are"
    assert share.share_of(10**12, 50e6, 1, runs, 4).value == 1.0
    assert share.share_of(1, 50e6, 1, _runs({"glibc": _around(2.0)}, cpu=0.0), 4).value == 0.0


@pytest.mark.parametrize(
    ("value", "text"), [(0.00001, "less than 0.01 %"), (0.0012, "about 0.12 %"), (0.05, "about 5 %"), (0.234, "about 23 %"), (1.0, "about 100 %")]
)
def test_percent(value: float, text: str) -> None:
    assert share.percent(value) == text


def test_little_allocation_and_no_difference_is_the_whole_answer() -> None:
    runs = _runs({"glibc": _around(2.0), "mine": _around(2.0)[::-1]})
    part, pairs = share.share_of(100_000, 50e6, 1, runs, 4), share.pairs_of(runs, "mine")
    assert share.is_enough(part, pairs)
    first, second = share.sentences(part, pairs)
    assert first == "Allocation is about 0.1 % of this program's CPU time: 100000 calls of 20 ns each, in 2 s. No allocator will make it faster."
    assert second.startswith("Measured, the program is 1.00 times as fast under mine as under glibc (7 pairs, 0.9")
    assert second.endswith("with 1.50 times the peak memory.")


def test_little_allocation_in_a_program_that_differs_is_not() -> None:
    runs = _runs({"glibc": _around(2.0), "mine": _around(1.5)})
    part, pairs = share.share_of(100_000, 50e6, 1, runs, 4), share.pairs_of(runs, "mine")
    assert not share.is_enough(part, pairs)
    assert "Yet the whole program differs" in share.sentences(part, pairs)[0]


def test_much_allocation_says_what_there_is_to_win() -> None:
    runs = _runs({"glibc": _around(2.0), "mine": _around(2.0)})
    part = share.share_of(10_000_000, 50e6, 1, runs, 4)
    assert share.sentences(part, None)[0].endswith("An allocator that is twice as fast would save about 5 %.")
    assert not share.is_enough(part, share.pairs_of(runs, "mine"))


def test_a_program_that_waits_is_named() -> None:
    part = share.share_of(100, 50e6, 1, _runs({"glibc": _around(2.0)}, cpu=0.5), 4)
    assert share.sentences(part, None)[-1] == "It works for 0.5 s of 2 s and waits in between, which no allocator changes."


def test_few_pairs_decide_nothing() -> None:
    runs = _runs({"glibc": [2.0, 2.0], "mine": [1.0, 1.0]})
    pairs = share.pairs_of(runs, "mine")
    assert not pairs.differs and "(2 pairs, too few for an interval)" in pairs.sentence


def test_failures_are_no_figures() -> None:
    assert share.pairs_of(_runs({"glibc": [2.0, 2.0], "mine": [0.0, 0.0]}), "mine") is None
    with pytest.raises(ValueError, match="the program failed under glibc: exit code 1"):
        share.share_of(1, 50e6, 1, _runs({"glibc": [0.0]}), 4)


# ---- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = build_tools(tmp_path_factory.mktemp("tools"))
    for name, code in (("much", MUCH), ("little", LITTLE)):
        build_program(directory / name, code)
    for name, code in (("ours", OURS), ("slow", slow(100))):
        build_library(directory / f"{name}.so", code)
    return directory


def _call(built: pathlib.Path, folder: pathlib.Path, *words: object) -> subprocess.CompletedProcess[str]:
    options = ["--force", "--budget", "1", "--allocators", "glibc", "--lib", f"mine={built}/ours.so", "--lib", f"slow={built}/slow.so"]
    command = [sys.executable, "-m", "hakobench", "why", *options, *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "hakobench/src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs_programs
def test_a_program_that_hardly_allocates(built, tmp_path):
    called = _call(built, tmp_path, built / "little")
    assert called.returncode == 0, called.stdout + called.stderr
    assert re.match(r"Allocation is (less than|about) 0\.0\d+ % of this program's CPU time: 2 calls of ", called.stdout), called.stdout
    assert "Measured, the program is " in called.stdout and " under mine as under glibc (" in called.stdout
    assert list(tmp_path.iterdir()) == []


@needs_programs
def test_a_program_that_does_little_else(built, tmp_path):
    called = _call(built, tmp_path, built / "much")
    assert called.returncode == 0, called.stdout + called.stderr
    first = called.stdout.splitlines()[0]
    assert " 1000000 calls of " in first and "An allocator that is twice as fast would save about " in first
    assert "mine as a multiple of" in called.stdout and "slow" in called.stdout


@needs_programs
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/no/such/program"], "no program '/no/such/program'"),
        (["--nonsense", "true"], "no such option '--nonsense'; put -- before the program"),
        (["false"], "'false' failed under glibc; the logs in "),
        ([], "Missing argument"),
    ],
)
def test_bad_arguments(built, tmp_path, words, message):
    called = _call(built, tmp_path, *words)
    assert called.returncode == 2 and message in called.stderr, called.stdout + called.stderr
    assert list(tmp_path.iterdir()) == []


@needs_programs
def test_it_needs_a_library_of_ours(built, tmp_path):
    command = [sys.executable, "-m", "hakobench", "why", "--force", "--allocators", "glibc", "true"]
    called = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "hakobench/src")}, capture_output=True, text=True, check=False)
    assert called.returncode == 2 and "it needs glibc and a library of ours" in called.stderr
