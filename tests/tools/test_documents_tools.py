"""bench/documents: the plan of measurements names rows and lanes that exist and applies its edits; atomics.py counts locked instructions
exactly; remote_counts.py sees a remote free where there is one; counts.py takes no library that cannot be built again."""

import argparse
import csv
import pathlib
import re
import subprocess
import sys

import pytest
from workload_programs import build_library

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/documents"))
sys.path.insert(0, str(ROOT / "tools"))
import atomics  # noqa: E402
import counts  # noqa: E402
import lanes  # noqa: E402
import measure  # noqa: E402
import remote_counts  # noqa: E402

VARIANTS = {one.name: one for part in measure.PARTS for pair in part.pairs for one in pair}


@pytest.mark.parametrize("part", measure.PARTS, ids=lambda part: part.name)
def test_a_part_has_rows_and_a_gate(part):
    from hakobench import judge, suite

    for level in (1, 2):
        names = measure.rows_of(part, level)
        assert names
        assert 0 < measure.minutes(part, level, 10, 1.0) < 240
    assert measure.minutes(part, 1, 10, 1.0) <= measure.minutes(part, 2, 10, 1.0)
    rows = suite.load(part.suite).select(part.rows[0])
    judge.check_gate(judge.load_gate(part.gate), [row.tags for row in rows])


@pytest.mark.parametrize("one", VARIANTS.values(), ids=lambda one: one.name)
def test_a_variant_is_a_lane_with_knobs_of_its_engine(one):
    lane, knobs = measure.lane_and_knobs(one)
    engines, known = lanes.read_engines(ROOT)
    assert lane in {each.title for each in known}
    engine = next(each for each in engines if each.name == lane.partition("/")[0])
    by_name = {knob.name: knob for knob in engine.knobs}
    for name, value in knobs.items():
        lanes.read_value(by_name[f"HZ_{name}"], value, "SET")
    for edit in one.edits:
        assert (ROOT / edit.path).read_text().count(edit.old) == 1
        assert edit.new != edit.old


def test_the_two_sides_of_a_pair_differ():
    for part in measure.PARTS:
        for first, second in part.pairs:
            assert first.name != second.name
            assert (first.lane, first.knobs, first.edits) != (second.lane, second.knobs, second.edits)


def test_a_name_is_one_variant():
    for part in measure.PARTS:
        for pair in part.pairs:
            for one in pair:
                assert VARIANTS[one.name] == one


def test_an_edit_that_does_not_apply_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "COPIES", tmp_path)
    bad = measure.variant("bad", "hz3/scale", [measure.Edit("src/base/lists/lock.c", "SPIN_COUNT = 63", "SPIN_COUNT = 1")])
    with pytest.raises(ValueError, match="occurs 0 times in src/base/lists/lock.c, not once"):
        measure.edited_copy(bad)
    good = measure.variant("good", "hz3/scale", [measure.Edit("src/base/lists/lock.c", measure.SPIN, "enum { SPIN_COUNT = 7 };")])
    assert "SPIN_COUNT = 7" in (measure.edited_copy(good) / "src/base/lists/lock.c").read_text()


def test_a_comparison_becomes_a_line_of_the_summary():
    part = measure.PARTS[0]
    text = "a table\nruns: build/x.csv\nverdict=NO-GO gain=0.9 [0.8, 1.0] hold=- gate=any rounds=10\n"
    line = measure.summary_line(part, part.pairs[0], text)
    assert line[3:] == ["NO-GO", "0.9 [0.8, 1.0]", "-", "any", "10", "build/x.csv"]
    with pytest.raises(ValueError, match="no verdict"):
        measure.summary_line(part, part.pairs[0], "runs: build/x.csv\n")


def test_a_part_that_was_measured_is_not_measured_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measure, "OUT", tmp_path)
    calls = []

    def fake(part: measure.Part, _chosen: argparse.Namespace, _say) -> list[list[str]]:
        calls.append(part.name)
        return [[part.name, *"abcdefgh"]]

    monkeypatch.setattr(measure, "measure", fake)
    assert measure.main(["random", "lock"]) == measure.main(["random", "inbox"]) == 0
    assert calls == ["random", "lock", "inbox"]
    with (tmp_path / "summary.csv").open() as file:
        assert [line[0] for line in csv.reader(file)] == ["part", "random", "lock", "inbox"]
    assert measure.main(["--again", "lock"]) == 0
    assert calls[-1] == "lock"
    assert "measured before" in capsys.readouterr().err


LOCKED = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) void work(long n);
int main(int argc, char **argv) {
    long n = atol(argv[argc - 1]);
    work(n);
    printf("allocated=%ld\\n", n);
    return 0;
}
"""
WORK = """
static long counter, cell;
void work(long n) {
    for (long i = 0; i < n; i++) {
        __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
        __atomic_exchange_n(&cell, i, __ATOMIC_RELAXED);
        __atomic_store_n(&cell, i, __ATOMIC_RELEASE); /* no lock */
        if (i % 2) __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
    }
}
"""


def test_atomics_are_counted_exactly(tmp_path):
    """Two atomics each time and a third every other time, in a library: 2.5. Those of the program itself do not count."""
    library = build_library(tmp_path / "libwork.so", WORK)
    source = tmp_path / "main.c"
    source.write_text(LOCKED.replace("long n = atol", "static long own; __atomic_fetch_add(&own, 1, __ATOMIC_RELAXED); long n = atol"))
    program = tmp_path / "main"
    subprocess.run(["cc", "-O2", source, library, f"-Wl,-rpath,{tmp_path}", "-o", program], check=True)
    words = [sys.executable, ROOT / "bench/documents/atomics.py", "--top", "1", "plain=", "--", program, "{1000}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "plain,allocated,1000,2500,all,2.5000"
    assert "plain,allocated,1000,2500,libwork.so:work,2.5000" in lines


def test_atomics_refuses_what_it_cannot_count(tmp_path):
    with pytest.raises(ValueError, match="printed none of remote_sent, freed, allocated"):
        atomics.operations("seconds=1.5 freed=0\n")
    assert atomics.operations("allocated=3 remote_sent=7 freed=9\n") == ("remote_sent", 7)


def test_remote_frees_are_counted(tmp_path):
    """A ring with half of its frees remote, and one with none."""
    library = ROOT / "build/lib/libhakozuna_hz4.so"
    ring = remote_counts.Program("ring", remote_counts._workload("bench_random_mixed_mt_remote_malloc", "3", "{2000}", "50", "16", "100", "50", "64", "--full=wait"))
    alone = remote_counts.Program("alone", remote_counts._workload("bench_random_mixed_mt_remote_malloc", "3", "{2000}", "50", "16", "100", "0", "64"))
    out = tmp_path / "counts.csv"
    with out.open("w") as file:
        remote_counts.measure([ring, alone], 1.0, {"hz4": library}, file)
    text = out.read_text()
    figures = {(row[0], row[1], row[2]): float(row[3]) for row in csv.reader(line for line in text.splitlines() if not line.startswith("#")) if row[0] != "program"}
    assert 0.45 < figures["ring", "trace", "remote_frees"] / figures["ring", "trace", "given_back"] < 0.55
    assert figures["alone", "trace", "remote_frees"] == 0
    assert figures["ring", "hz4", "counters.refill"] > 0
    assert re.search(r"^# command ring: build/release/bench/bench_random", text, re.MULTILINE)
    assert re.search(r"^# library hz4: engine=hz4 lane=default", text, re.MULTILINE)


def test_counts_name_what_the_pages_keep():
    kept = {path.name for path in (ROOT / "bench/results/documents").iterdir()}
    assert {file for file, _ in counts.FILES.values()} <= kept


def test_counts_of_a_changed_tree_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(counts.machine, "commit", lambda: "1234567-dirty")
    with pytest.raises(SystemExit):
        counts.main(["locks"])
    assert "the tree is '1234567-dirty': commit its changes first" in capsys.readouterr().err


def test_a_report_is_kept_without_its_classes_and_threads():
    library = ROOT / "build/lib/libhakozuna_hz4.so"
    lines = counts.report(library, "2", "2000", "50", "16", "100", "50", "64", "--full=wait")
    (whole,) = [line for line in lines if line.startswith("{")]
    assert lines[0].endswith("bench_random_mixed_mt_remote_malloc 2 2000 50 16 100 50 64 --full=wait")
    assert '"counters":{' in whole and len(whole) < 8000
