"""The simulation of lanes on many CPUs: cases with a known answer, what must not change with its parameters, and its messages. The
depot and the directory below it are tested in test_coherence.py."""

import dataclasses
import gzip
import json
import pathlib
import sys

import pytest
from click.testing import CliRunner

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/coherence"))
import rates  # noqa: E402
import scaling  # noqa: E402
import simulate  # noqa: E402
from scaling import LANES, WORKLOADS, Case, Lane, Machine, Program, Shared  # noqa: E402

RATES_FILE = ROOT / "bench/results/documents/scaling-rates.csv"
SIMULATED_FILE = ROOT / "bench/results/documents/scaling.csv"
COUNTED = {
    "refill": 0.04, "refill_depot": 0.038, "refill_carry": 0, "refill_page": 0.002, "page_create": 1e-5, "page_retire": 1e-5,
    "flush": 0.04, "depot_push": 0.038, "home_blocks": 0.05, "direct_home": 1e-4, "mail_blocks": 0.04, "ls_acq_self": 0.002,
    "ls_rel_self": 2e-4, "ls_rel_steal": 1e-4, "send": 0.003, "take": 0.001, "remote_share": 0.9, "heap_kb": 8000,
    "one_cpu_ns": 20, "ns": 60, "line_ns": 40, "cas_ns": 5,
}  # fmt: skip
NOTHING = {name: 0.0 for name in COUNTED} | {"heap_kb": 4000, "one_cpu_ns": 20, "ns": 22, "line_ns": 40, "cas_ns": 5}
RATES = {
    (row, lane): NOTHING if row == "local" else COUNTED
    for row in ("local", "larson", "ring50", "ring90", "ring90-t16", "xmalloc")
    for lane in ("scale", "hz4")
}
PROGRAM = Program(pair_ns=20, exposed=0.5)


def predict(machine, lane=LANES["scale"], workload="ring90", cycles=60):
    return scaling.predict(machine, lane, WORKLOADS[workload], RATES, PROGRAM, cycles)


@pytest.mark.parametrize("cpus", [2, 5, 64])
def test_one_contended_line_passes_once_in_its_transfer_time(cpus):
    """With n CPUs that do nothing but write one line, throughput is 1 / transfer time, however many they are."""
    directory = simulate.Directory(simulate.Costs(line=100))
    line = simulate.Line()

    def writer(cpu):
        now = 0.0
        for _ in range(50):
            now = directory.access(line, cpu, now, write=True)
            yield now

    end = simulate.run((0.0, writer(cpu)) for cpu in range(cpus))
    assert end / (50 * cpus) == pytest.approx(100)
    assert directory.moves == 50 * cpus


def test_a_shards_lock_serves_one_cpu_at_a_time():
    lane = dataclasses.replace(LANES["scale"], shards=1)
    shared = Shared(Machine(4, line=100), lane, WORKLOADS["ring90"], COUNTED, PROGRAM, 1)
    end = simulate.run((0.0, shared._locked(cpu, 0, 10, 0.0)) for cpu in range(4))
    held = scaling.HOLD_NS + 10 * scaling.HOLD_BLOCK_NS
    assert end >= 4 * held + 4 * 100


def test_no_batch_is_lost_or_twice():
    for name in ("ring90", "xmalloc"):
        shared, _, _, _ = scaling._run(Machine(6, 2), LANES["scale"], WORKLOADS[name], COUNTED, PROGRAM, 80, 1)
        depot = shared.depot
        held = [batch for stacks in depot.classes for stack in stacks for batch in stack.batches]
        held += [batch for stack in depot.empty for batch in stack.batches] + [batch for spares in depot.spares for batch in spares]
        assert sorted(held) == list(range(len(depot.batch_lines)))
        assert depot.counts["pushes"] > 100


def test_events_come_as_often_as_counted():
    shared, _, _, mallocs = scaling._run(Machine(4), LANES["scale"], WORKLOADS["ring90"], COUNTED, PROGRAM, 200, 1)
    tried = shared.depot.counts["pushes"] + shared.depot.counts["refused"]
    assert tried / mallocs == pytest.approx(COUNTED["depot_push"], rel=0.02)
    asked = shared.depot.counts["pops"] + shared.depot.counts["misses"]
    assert asked / mallocs == pytest.approx(COUNTED["refill_depot"], rel=0.02)


def test_work_that_shares_nothing_scales():
    for cpus in (1, 16):
        found = predict(Machine(cpus), workload="local", cycles=5)
        assert found.ns == pytest.approx(PROGRAM.pair_ns, rel=1e-3)
        assert found.of_alone == pytest.approx(1, rel=1e-3)


def test_slower_lines_take_longer():
    times = [predict(Machine(8, line=line)).ns for line in (0.0, 50.0, 100.0, 200.0)]
    assert times == sorted(times)
    assert times[3] > times[1]
    times = [predict(Machine(8, 2, remote=remote), workload="ring90-across").ns for remote in (1.0, 2.0, 3.0)]
    assert times == sorted(times)


def test_more_cpus_and_a_second_node_do_not_make_a_cpu_faster():
    times = [predict(Machine(cpus), workload="xmalloc").ns for cpus in (2, 8, 32)]
    assert times[0] <= times[1] * 1.02 and times[1] <= times[2] * 1.02
    near = predict(Machine(16, 2)).ns
    assert predict(Machine(16, 1)).ns <= near * 1.01
    assert near < predict(Machine(16, 2), workload="ring90-across").ns


def test_the_wait_for_the_programs_lines_is_the_products_of_its_factors():
    """Two CPUs, lines without cost for the allocator: nothing but the pair and the exposed part of the program's lines."""
    quiet = {name: 0.0 for name in COUNTED} | {"remote_share": 0.9, "heap_kb": 1000, "refill": 0.01}
    table = {("ring90", "scale"): quiet}
    found = scaling.predict(Machine(2, line=100), LANES["scale"], WORKLOADS["ring90"], table, PROGRAM, 10)
    assert found.ns == pytest.approx(20 + 0.9 * (3.25 + 2) * 0.5 * 100, rel=1e-3)
    assert found.allocator == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("numbering", scaling.NUMBERINGS)
def test_by_node_nothing_is_shared_between_nodes(numbering):
    lane = dataclasses.replace(LANES["scale"], by_node=True)
    shared = Shared(Machine(128, 2, numbering=numbering), lane, WORKLOADS["ring90"], COUNTED, PROGRAM, 1)
    for divided in (shared.depot.part_map, shared.shard_map):
        nodes = {}
        for cpu, number in enumerate(divided):
            nodes.setdefault(number, set()).add(shared.nodes[cpu])
        assert all(len(one) == 1 for one in nodes.values())
    own_half = {part for cpu, part in enumerate(shared.depot.part_map) if shared.nodes[cpu] == shared.nodes[127]}
    order = shared.depot.order(127)
    assert order[0] == shared.depot.part_of(127)
    assert set(order[: len(own_half)]) == own_half
    assert sorted(order) == list(range(shared.depot.parts))


def test_parts_by_number_span_nodes_only_where_numbers_take_turns():
    for numbering, spans in (("blocks", False), ("turns", True)):
        shared = Shared(Machine(32, 2, numbering=numbering), LANES["scale"], WORKLOADS["ring90"], COUNTED, PROGRAM, 1)
        nodes = {shared.nodes[cpu] for cpu in range(32) if shared.depot.part_of(cpu) == 0}
        assert (len(nodes) == 2) == spans


def test_a_push_beyond_its_share_reads_the_other_heads():
    costs = simulate.Costs(line=100, lines=1)
    depot = simulate.Depot(4, 4, costs, cap=4)
    for expected in (0, 1):  # the share is one batch
        steps = depot.give(0, 0.0)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                assert end.value[1]
                break
        assert depot.counts["scans"] == expected
    assert all(0 in stack.line.holders for stack in depot.full)
    depot.cap = 2
    steps = depot.give(0, 0.0)
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    assert end.value.value[1] is False


def test_size_classes():
    classes = scaling.classes_of(16, 2048)
    assert len(classes) == 16 + 3 * 8
    assert sum(share for _, share in classes) == pytest.approx(1)
    assert [size for size, _ in classes][14:18] == [240, 256, 288, 320]
    assert scaling.classes_of(64, 64) == [(64, 1.0)]


def test_the_fitted_row_comes_out_as_measured():
    program = scaling.calibrate(RATES, WORKLOADS["ring90"], scaling.smt(RATES))
    found = scaling.predict(scaling.measured_machine(COUNTED), LANES["scale"], WORKLOADS["ring90"], RATES, program)
    assert found.ns == pytest.approx(COUNTED["ns"], rel=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Machine(0), "0 CPUs: at least 1"),
        (lambda: Machine(4, 3), "3 nodes with 4 CPUs"),
        (lambda: Machine(4, line=-1), "line -1 ns"),
        (lambda: Machine(4, remote=0.5), "remote 0.5"),
        (lambda: Machine(4, numbering="odd"), "numbering 'odd': one of blocks, turns"),
        (lambda: predict(Machine(1), workload="xmalloc"), "xmalloc has two sides"),
        (lambda: predict(Machine(2), Lane("new", "new", 1)), "no rates of row 'ring90' and lane 'new'"),
        (lambda: scaling.calibrate(RATES | {("ring90", "scale"): COUNTED | {"ns": 2}}, WORKLOADS["ring90"], 1.0), "less than without any line"),
        (lambda: scaling.calibrate(RATES | {("ring90", "scale"): COUNTED | {"ns": 9e5}}, WORKLOADS["ring90"], 1.0), "more than its lines"),
        (lambda: rates.parse_printed("nothing"), "the program printed no figures"),
        (lambda: rates.parse_report("nothing"), "no statistics"),
        (lambda: rates.per_malloc({}, {}, 0), "no more mallocs"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make()


def test_rates_are_differences_for_each_malloc():
    groups = {"counters": dict.fromkeys(rates.COUNTERS, 0) | {"refill": 40, "stash_send": 6}, "remote": {}, "locks": {}}
    short = rates.parse_report("a message\n" + json.dumps({"version": 1} | groups))
    long = dict(short) | {"refill": 140.0}
    found = rates.per_malloc(short, long, 1000)
    assert found["refill"] == pytest.approx(0.1)
    assert found["send"] == 0
    assert short["send"] == 6
    printed = rates.parse_printed("allocated=10 x\n[STATS] remote_sent=9\nseconds=0.5 peak_rss_kb=70\n")
    assert printed == {"allocated": 10, "remote_sent": 9, "seconds": 0.5, "peak_rss_kb": 70}


def test_command_line(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    for command in (["validate", bad], ["simulate", bad], ["tables", RATES_FILE, bad, bad], ["tables", bad, bad, bad]):
        found = CliRunner().invoke(scaling.main, [str(word) for word in command])
        assert isinstance(found.exception, ValueError)
        assert "bad.csv: the columns are not" in str(found.exception)
    found = CliRunner().invoke(rates.main, [str(tmp_path / "out.csv"), "scale=/no=/such"])
    assert found.exit_code == 2
    assert "'scale=/no=/such' is not LANE=STATS_LIBRARY=RELEASE_LIBRARY" in found.output


def test_the_page_shows_the_stored_figures():
    """bench/coherence/README.md has the tables of the stored simulation, which has every case."""
    page = (ROOT / "bench/coherence/README.md").read_text(encoding="utf-8")
    table = scaling.read_simulated(SIMULATED_FILE)
    assert {tuple(str(value) for value in dataclasses.astuple(case)) for case in scaling.cases()} == set(table)
    blocks = {"scaling": scaling.scaling_table(table), "variants": scaling.variant_table(table), "machines": scaling.machine_table(table)}
    assert scaling.page_with(page, blocks) == page
    assert scaling.of_linear(table, Case("ring90", "scale", 2, 1)) == 1
    assert set(rates.read(RATES_FILE)) >= {(row.name, lane) for row in rates.ROWS for lane in ("scale", "hz4")}


def test_a_page_without_marks():
    with pytest.raises(ValueError, match="the page has no '<!-- scaling.py: variants -->'"):
        scaling.page_with("<!-- scaling.py: variants -->\nold\n", {"variants": "new"})
    page = "a\n<!-- scaling.py: variants -->\nold\n<!-- end -->\nb\n"
    assert scaling.page_with(page, {"variants": "new"}) == page.replace("old", "new")


def test_times_of_suite_quick(tmp_path):
    path = tmp_path / "quick.csv"
    rows = [f"{quick},{allocator},50" for _, quick, _ in rates.QUICK for allocator in ("hz3_scale", "hz4")]
    path.write_text("row,allocator,value\n" + "\n".join(rows), encoding="utf-8")
    found = rates.quick_times(path, 40)
    assert found["ring90", "hz4"] == {"ns": 80, "one_cpu_ns": 80, "line_ns": 40, "cas_ns": rates.CAS_NS}
    assert found["xmalloc", "scale"]["ns"] == 40
    assert found["xmalloc", "scale"]["one_cpu_ns"] == 20
    packed = tmp_path / "quick.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rates.quick_times(packed, 40) == found
    path.write_text("row,allocator,value\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no row 'args-16-256' of hz3_scale"):
        rates.quick_times(path, 40)
