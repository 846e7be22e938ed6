"""The simulation of the depot's cache lines: cases small enough to compute by hand, and bugs that it must show. The figures that
depend on its parameters are not tested, only what follows from the rules."""

import dataclasses
import pathlib
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/coherence"))
import simulate  # noqa: E402
from simulate import Costs, Depot, Directory, Line  # noqa: E402

COSTS = Costs(hit=1, line=100, cas=10, far=3, group=0, lines=2, overlap=2, think=1000)


def finish(steps):
    """Runs one visit alone, and returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_a_line_moves_once_for_each_change_of_hands():
    directory, line = Directory(COSTS), Line(0)
    assert directory.access(line, 0, 0, write=True) == 1
    assert directory.access(line, 1, 1, write=True) == 101
    assert directory.access(line, 1, 101, write=True) == 102
    assert directory.access(line, 0, 102, write=False) == 202
    assert line.holders == {0, 1}
    assert directory.access(line, 1, 202, write=False) == 203
    assert directory.access(line, 1, 203, write=True) == 303  # the other copy is invalidated
    assert line.holders == {1}
    assert directory.moves == 3


def test_cpus_that_want_the_same_line_queue():
    directory, line = Directory(COSTS), Line(0)
    assert [directory.access(line, cpu, 0, write=True) for cpu in (1, 2, 3)] == [100, 200, 300]


def test_a_line_from_another_group_takes_longer():
    costs = dataclasses.replace(COSTS, group=2)
    near, far = Directory(costs), Directory(costs)
    assert near.access(Line(0), 1, 0, write=True) == 100
    assert far.access(Line(0), 2, 0, write=True) == 300
    shared = Line(0)
    shared.holders = {0, 3}
    assert near.access(shared, 1, 0, write=True) == 300


@pytest.mark.parametrize(("overlap", "end"), [(1, 400), (2, 200), (4, 100), (8, 100)])
def test_prefetched_lines_overlap(overlap, end):
    directory = Directory(dataclasses.replace(COSTS, overlap=overlap))
    assert directory.access_all([Line(0) for _ in range(4)], 1, 0) == end
    assert directory.moves == 4


def test_a_push_and_a_pop_by_one_cpu():
    """Push: the head comes from memory (100), link (1), CAS on the own head (1 + 10). Pop: head (1), two lines at once (1),
    CAS (11)."""
    depot = Depot(1, 1, COSTS)
    batch = depot.batch_make(0)
    assert finish(depot.push(depot.full[0], 0, batch, 0)) == 112
    assert finish(depot.pop(depot.full[0], 0, 112)) == (125, batch)
    assert finish(depot.pop(depot.full[0], 0, 125)) == (126, None)
    assert depot.full[0].version == 2
    assert depot.directory.moves == 1


def test_a_batch_that_another_cpu_pushed():
    """Head (100), two lines (100), CAS (11): three lines move."""
    depot = Depot(2, 1, COSTS)
    batch = depot.batch_make(0)
    finish(depot.push(depot.full[0], 0, batch, 0))
    moved = depot.directory.moves
    assert finish(depot.pop(depot.full[0], 1, 1000)) == (1211, batch)
    assert depot.directory.moves - moved == 3


def test_an_empty_part_is_only_read():
    """A second look costs a hit, and the part stays with everybody."""
    depot = Depot(2, 2, COSTS)
    assert finish(depot.pop_any(depot.full, 0, 0)) == (200, None)
    assert finish(depot.pop_any(depot.full, 1, 200)) == (400, None)
    assert finish(depot.pop_any(depot.full, 0, 400)) == (402, None)
    assert all(stack.line.holders == {0, 1} for stack in depot.full)


def test_of_two_pops_at_a_time_one_fails_its_cas():
    depot = Depot(2, 1, COSTS)
    depot.full[0].batches = [depot.batch_make(0), depot.batch_make(0)]
    visits = [depot.pop(depot.full[0], cpu, 0) for cpu in (0, 1)]
    for _ in range(2):  # both have read the head and the batch
        for visit in visits:
            next(visit)
    first = finish(visits[0])
    second = finish(visits[1])
    assert (first[1], second[1]) == (1, 0)
    assert depot.counts["cas_failures"] == 1


def test_no_batch_is_lost_or_twice():
    """The invariant of depot.c: a batch is in one stack or in one CPU's hands."""
    costs = dataclasses.replace(COSTS, think=5)
    depot = Depot(8, 2, costs)
    waits = numpy.zeros(8)
    running = {cpu: simulate._side(depot, cpu, 50, 0.0, waits) for cpu in range(8)}
    times = dict.fromkeys(running, 0.0)
    while running:
        cpu = min(running, key=lambda one: (times[one], one))
        try:
            times[cpu] = next(running[cpu])
        except StopIteration:
            del running[cpu]
    held = [batch for stack in (*depot.full, *depot.empty) for batch in stack.batches]
    held += [batch for spares in depot.spares for batch in spares]
    assert sorted(held) == list(range(len(depot.batch_lines)))
    assert depot.counts["pushes"] == depot.counts["pops"] == 4 * 50
    assert depot.counts["cas_failures"] > 0


def test_a_part_for_each_cpu_makes_a_ring_local():
    """Nothing moves but the lines' first arrival; with one stack nearly every batch moves."""
    own = simulate.simulate("ring", 8, 8, COSTS, visits=200)
    assert own.cas_failures == own.from_others == 0
    assert own.moves * 200 * 8 == pytest.approx(8, abs=8)  # each CPU's head once
    one = simulate.simulate("ring", 8, 1, COSTS, visits=200)
    assert one.moves > COSTS.lines
    assert one.visit_ns > 5 * own.visit_ns


def test_one_sided_work_moves_each_batch_whatever_the_parts():
    """Two CPUs, so nobody queues: at least head and lines cross for each batch, and the empty array crosses back."""
    for parts in (1, 2):
        found = simulate.simulate("sides", 2, parts, COSTS, visits=500)
        assert found.moves > 2 * COSTS.lines + 1
        assert found.moves < 2 * (COSTS.lines + 6)


def test_contention_of_one_head_bounds_the_speed():
    """A head moves at most once in `line` ns: 64 CPUs on one stack take at least visits x 64 x line."""
    costs = dataclasses.replace(COSTS, think=100)
    visits = 50
    found = simulate.simulate("ring", 64, 1, costs, visits=visits)
    busy = visits * (costs.think + 2 * (costs.cas + 3 * costs.hit))
    assert found.slowdown * busy > 0.95 * visits * 64 * costs.line


def test_the_same_seed_gives_the_same_figures():
    first, again = (simulate.simulate("sides", 4, 2, COSTS, visits=50, seed=3) for _ in range(2))
    assert first == again


def test_command_line():
    words = [sys.executable, ROOT / "bench/coherence/simulate.py", "--cpus", "2,4", "--parts", "1,4", "--visits", "20", "--line", "50"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "line=50.0" in lines[0]
    assert lines[1].startswith("pattern,cpus,parts,visit_ns,moves,")
    assert [line.rsplit(",", 5)[0] for line in lines[2:]] == ["ring,2,1", "ring,4,1", "ring,4,4", "sides,2,1", "sides,4,1", "sides,4,4"]
