#!/usr/bin/env python3
"""Simulates what the depot (src/heap/cache/depot.c, batches.c) costs with 2 to 128 CPUs, in cache lines that move between them.

The machine here has two CPUs, so what many CPUs would pay is computed: a discrete-event simulation of CPUs that push and
pop batches, with a directory of lines like MESI's. A line is *modified* by one CPU or *shared* by several. A CPU that has
what it needs pays `hit`; else the line moves, which takes `line` (times `far` if it comes from another group of CPUs), and
one CPU after the other gets it. A CAS takes `cas` more, and fails if the head has changed since the CPU read it. Lines
that are prefetched together overlap, `overlap` at a time.

Patterns: `ring`: each CPU pops a batch, uses it, pushes a batch. `sides`: half of the CPUs only push, the others only
pop, so each batch crosses, and its empty array crosses back. `think` is the time between two visits, in which the
program uses up a batch.

line_transfer (beside this file) measures the times on two CPUs: `simulate.py --line 90 --cas 9` and so on. As a command, this
file leaves out: the blocks' own lines, size classes, limits of the depot. scaling.py, beside it, runs whole lanes on
the same depot and directory, with these. Both leave out the bandwidth between sockets, hyperthreads that share a cache,
and preemption.

Output: CSV, one line for each pattern, number of CPUs and number of parts.
"""

import argparse
import collections
import csv
import dataclasses
import heapq
import sys
from collections.abc import Generator, Iterable, Sequence

import numpy

SPARES = 8  # HZ_SPARE_BATCHES


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times in ns. `lines`: cache lines of a batch. `group`: CPUs that share a last-level cache; 0: all do."""

    hit: float = 1.0
    line: float = 80.0
    cas: float = 8.0
    far: float = 2.5
    group: int = 0
    lines: int = 4
    overlap: int = 4
    think: float = 1000.0


class Line:
    """A cache line. `holders`: the CPUs that have it; one that wrote it is the only one. `free_at`: when it can move again.
    `kind`: what lies in it."""

    __slots__ = ("free_at", "holders", "kind")

    def __init__(self, holder: int | None = None, kind: str = ""):
        self.kind = kind
        self.holders: set[int] = set() if holder is None else {holder}
        self.free_at = 0.0


class Directory:
    """Who has which line, how often lines moved, and how long CPUs waited for lines of each kind. `groups`: the group of
    each CPU, if it does not follow from `costs.group`."""

    def __init__(self, costs: Costs, groups: Sequence[int] | None = None):
        self._costs = costs
        self._groups = groups
        self.moves = 0
        self.far_moves = 0
        self.waits: collections.Counter = collections.Counter()

    def _group_of(self, cpu: int) -> int:
        if self._groups is not None:
            return self._groups[cpu]
        return cpu // self._costs.group if self._costs.group else 0

    def distance(self, holders: Iterable[int], cpu: int) -> float:
        """The time to bring a line here, which is longer when any of its holders is in another group. A line that
        nobody has is in memory, which counts as near."""
        if self._groups is None and not self._costs.group:
            return self._costs.line
        here = self._group_of(cpu)
        far = any(self._group_of(other) != here for other in holders)
        return self._costs.line * (self._costs.far if far else 1.0)

    def count(self, lines: int, cost: float) -> None:
        """Lines moved, each at this cost."""
        self.moves += lines
        self.far_moves += lines if cost > self._costs.line else 0

    def access(self, line: Line, cpu: int, now: float, write: bool) -> float:
        """When the CPU has the line as it needs it."""
        done = self._move(line, cpu, now, write)
        self.waits[line.kind] += done - now
        return done

    def _move(self, line: Line, cpu: int, now: float, write: bool) -> float:
        if cpu in line.holders and (not write or len(line.holders) == 1):
            return max(now, line.free_at if write else now) + self._costs.hit
        cost = self.distance(line.holders, cpu)
        done = max(now, line.free_at) + cost
        self.count(1, cost)
        if write:
            line.holders = {cpu}
        else:
            line.holders.add(cpu)
        line.free_at = done
        return done

    def access_all(self, lines: list[Line], cpu: int, now: float) -> float:
        """Several lines, for writing, of which `overlap` move at a time."""
        done = now
        starts = [now] * self._costs.overlap
        for line in lines:
            slot = min(range(len(starts)), key=starts.__getitem__)
            starts[slot] = self._move(line, cpu, starts[slot], write=True)
            done = max(done, starts[slot])
        self.waits[lines[0].kind] += done - now
        return done

    def bring(self, count: int, holder: int, cpu: int, now: float) -> float:
        """As access_all, for `count` lines that nobody else wants and that one CPU wrote last."""
        if holder == cpu:
            return now
        cost = self.distance((holder,), cpu)
        self.count(count, cost)
        wait = -(-count // self._costs.overlap) * cost
        self.waits["blocks"] += wait
        return now + wait


class Stack:
    """A head and the batches on it. `version` changes with every push and pop, as the tag does."""

    def __init__(self) -> None:
        self.line = Line(kind="head")
        self.version = 0
        self.batches: list[int] = []


Steps = Generator[float, None, None]


class Depot:
    """Parts with a stack of full batches for each class and one of empty ones, and the CPUs' visits. A visit is a
    generator that yields the time of its next access; so accesses of all CPUs happen in the order of their times.

    `part_map`: the part of each CPU; else neighbours share one. `cap`: batches of a class that may rest; 0: any number.
    `share`: batches in a part from which on a push looks at all other parts (cap_in in depot.c).
    `blocks`: lines of blocks that a popped batch brings from the CPU that pushed it."""

    def __init__(self, cpus: int, parts: int, costs: Costs, *, classes: int = 1, groups: Sequence[int] | None = None,
                 part_map: Sequence[int] | None = None, cap: float = 0, share: float | None = None, blocks: int = 0):  # fmt: skip
        self.cpus, self.costs = cpus, costs
        self.parts = min(parts, cpus)
        self.directory = Directory(costs, groups)
        self.part_map = part_map or [cpu * self.parts // cpus for cpu in range(cpus)]
        self.cap, self.blocks = cap, blocks
        self.share = cap / self.parts if share is None else share
        self.classes = [[Stack() for _ in range(self.parts)] for _ in range(classes)]
        self.full = self.classes[0]
        self.empty = [Stack() for _ in range(self.parts)]
        self.batch_lines: list[list[Line]] = []
        self.pushed_by: list[int] = []
        self.spares: list[list[int]] = [[] for _ in range(cpus)]
        self.counts: collections.Counter = collections.Counter()

    def part_of(self, cpu: int) -> int:
        return self.part_map[cpu]

    def order(self, cpu: int) -> list[int]:
        """The parts as a pop looks at them."""
        own = self.part_of(cpu)
        return [(own + offset) % self.parts for offset in range(self.parts)]

    def batch_make(self, cpu: int) -> int:
        self.batch_lines.append([Line(cpu, "batch") for _ in range(self.costs.lines)])
        self.pushed_by.append(cpu)
        return len(self.batch_lines) - 1

    def push(self, stack: Stack, cpu: int, batch: int, now: float) -> Generator[float, None, float]:
        """Returns when the batch is on the stack."""
        now = self.directory.access(stack.line, cpu, now, write=True)  # prefetched for writing
        yield now
        while True:
            seen = stack.version
            now = self.directory.access(self.batch_lines[batch][0], cpu, now, write=True)  # the link to the batch below
            yield now
            now = self.directory.access(stack.line, cpu, now, write=True) + self.costs.cas
            if stack.version == seen:
                stack.version += 1
                stack.batches.append(batch)
                stack.line.free_at = max(stack.line.free_at, now)
                return now
            self.counts["cas_failures"] += 1
            yield now

    def pop(self, stack: Stack, cpu: int, now: float) -> Generator[float, None, tuple[float, int | None]]:
        """Returns when the batch is there, and the batch; None from an empty stack, whose head is only read."""
        now = self.directory.access(stack.line, cpu, now, write=bool(stack.batches))
        yield now
        while stack.batches:
            seen, top = stack.version, stack.batches[-1]
            now = self.directory.access_all(self.batch_lines[top], cpu, now)  # its link, and its blocks, for reuse
            yield now
            now = self.directory.access(stack.line, cpu, now, write=True) + self.costs.cas
            if stack.version == seen:
                stack.version += 1
                stack.batches.pop()
                stack.line.free_at = max(stack.line.free_at, now)
                return now, top
            self.counts["cas_failures"] += 1
            yield now
        return now, None

    def pop_any(self, stacks: list[Stack], cpu: int, now: float) -> Generator[float, None, tuple[float, int | None]]:
        """From the CPU's own part, else from the next one that has a batch."""
        for place, part in enumerate(self.order(cpu)):
            now, batch = yield from self.pop(stacks[part], cpu, now)
            if batch is not None:
                self.counts["from_others"] += stacks is not self.empty and place > 0
                return now, batch
        return now, None

    def has_room(self, stacks: list[Stack], cpu: int, now: float) -> tuple[float, bool]:
        """Whether a push is allowed. Beyond an equal share of the limit, it reads the heads of all other parts."""
        own = stacks[self.part_of(cpu)]
        now = self.directory.access(own.line, cpu, now, write=True)
        if len(own.batches) + 1 <= self.share:
            return now, True
        self.counts["scans"] += 1
        began = now
        for stack in stacks:
            if stack is not own:
                now = self.directory.access(stack.line, cpu, now, write=False)
        self.directory.waits["scan"] += now - began
        self.directory.waits["head"] -= now - began
        return now, sum(len(stack.batches) for stack in stacks) + 1 <= self.cap

    def give(self, cpu: int, now: float, size_class: int = 0) -> Generator[float, None, tuple[float, bool]]:
        """A full bin's visit: an empty batch is filled and pushed. False if enough of the class rests."""
        stacks = self.classes[size_class]
        if self.cap:
            now, has_room = self.has_room(stacks, cpu, now)
            yield now
            if not has_room:
                self.counts["refused"] += 1
                return now, False
        if self.spares[cpu]:
            batch = self.spares[cpu].pop()
        else:
            now, found = yield from self.pop_any(self.empty, cpu, now)
            batch = self.batch_make(cpu) if found is None else found
        now = self.directory.access_all(self.batch_lines[batch], cpu, now)
        yield now
        now = yield from self.push(stacks[self.part_of(cpu)], cpu, batch, now)
        self.pushed_by[batch] = cpu
        self.counts["pushes"] += 1
        return now, True

    def take(self, cpu: int, now: float, size_class: int = 0) -> Generator[float, None, tuple[float, bool]]:
        """An empty bin's visit: a batch is popped, its blocks are prefetched, and its array is kept or given back."""
        now, batch = yield from self.pop_any(self.classes[size_class], cpu, now)
        if batch is None:
            self.counts["misses"] += 1
            return now, False
        self.counts["pops"] += 1
        now = self.directory.bring(self.blocks, self.pushed_by[batch], cpu, now)
        if len(self.spares[cpu]) < SPARES:
            self.spares[cpu].append(batch)
        else:
            now = yield from self.push(self.empty[self.part_of(cpu)], cpu, batch, now)
        return now, True


def _ring(depot: Depot, cpu: int, visits: int, start: float, waits: numpy.ndarray) -> Steps:
    now = start
    for _ in range(visits):
        began = now
        now, _ = yield from depot.take(cpu, now)
        now, _ = yield from depot.give(cpu, now)
        waits[cpu] += now - began
        now += depot.costs.think
        yield now


def _side(depot: Depot, cpu: int, visits: int, start: float, waits: numpy.ndarray) -> Steps:
    """Even CPUs push, odd ones pop. One that finds nothing looks again after a tenth of its think time."""
    now, done = start, 0
    while done < visits:
        began = now
        if cpu % 2 == 0:
            now, found = yield from depot.give(cpu, now)
        else:
            now, found = yield from depot.take(cpu, now)
        done += found
        if found:
            waits[cpu] += now - began
        now += depot.costs.think * (1.0 if found else 0.1)
        yield now


PATTERNS = {"ring": _ring, "sides": _side}


@dataclasses.dataclass(frozen=True)
class Result:
    """`visit_ns`: mean time of a visit in the depot. `moves`: lines that moved, for each batch pushed. `slowdown`: the
    time of the whole run relative to one without any waiting for lines of others."""

    visit_ns: float
    moves: float
    cas_failures: float
    from_others: float
    slowdown: float


def run(processes: Iterable[tuple[float, Steps]]) -> float:
    """Runs processes, each from its own start, in the order of the times that they yield. Returns when the last one ends."""
    queue = [(start, number, steps) for number, (start, steps) in enumerate(processes)]
    heapq.heapify(queue)
    end = 0.0
    while queue:
        now, number, steps = heapq.heappop(queue)
        try:
            heapq.heappush(queue, (next(steps), number, steps))
        except StopIteration:
            end = max(end, now)
    return end


def simulate(pattern: str, cpus: int, parts: int, costs: Costs, visits: int = 300, seed: int = 1) -> Result:
    depot = Depot(cpus, parts, costs)
    waits = numpy.zeros(cpus)
    starts = numpy.random.default_rng(seed).uniform(0, costs.think, cpus)
    for cpu in range(cpus):  # some batches rest everywhere, as in a program that runs for a while
        for _ in range(4 if pattern == "ring" else 0):
            depot.full[depot.part_of(cpu)].batches.append(depot.batch_make(cpu))
    end = run((float(starts[cpu]), PATTERNS[pattern](depot, cpu, visits, float(starts[cpu]), waits)) for cpu in range(cpus))
    pushes = depot.counts["pushes"]
    per_visit = 2 if pattern == "ring" else 1
    busy = visits * (costs.think + per_visit * (costs.cas + 3 * costs.hit))
    return Result(
        visit_ns=float(waits.sum()) / (cpus * visits * per_visit),
        moves=depot.directory.moves / pushes,
        cas_failures=depot.counts["cas_failures"] / pushes,
        from_others=depot.counts["from_others"] / max(1, depot.counts["pops"]),
        slowdown=(end - float(starts.min())) / busy,
    )


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Simulates the depot's cache lines with many CPUs.")
    for field in dataclasses.fields(Costs):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    parser.add_argument("--cpus", type=_numbers, default=[2, 4, 8, 16, 32, 64, 128])
    parser.add_argument("--parts", type=_numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--visits", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    costs = Costs(**{field.name: getattr(chosen, field.name) for field in dataclasses.fields(Costs)})
    print(f"# simulate.py {costs} visits={chosen.visits} seed={chosen.seed}")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("pattern", "cpus", "parts", *(field.name for field in dataclasses.fields(Result))))
    for pattern in PATTERNS:
        for cpus in chosen.cpus:
            for parts in [parts for parts in chosen.parts if parts <= cpus]:
                result = simulate(pattern, cpus, parts, costs, chosen.visits, chosen.seed)
                writer.writerow((pattern, cpus, parts, *(f"{value:.4g}" for value in dataclasses.astuple(result))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
