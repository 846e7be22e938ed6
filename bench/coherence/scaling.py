#!/usr/bin/env python3
"""Simulates whole lanes on 2 to 128 CPUs, in one or two NUMA nodes: which shared line stops which lane, and where.

A CPU works in cycles, from one empty bin to the next. In a cycle it computes (the time of a malloc and its free that meet
nothing shared), waits for the program's own lines, and then does to shared memory what the counters of a real run say that
it does in so many mallocs (rates.py). These visits run on the depot and the directory of simulate.py, together with the
lines that shards, pages and page tags have. So how often something is done is counted, and how long it takes is simulated.

    scaling.py validate RATES.csv                    predictions for two CPUs, beside what was measured
    scaling.py simulate RATES.csv >SIMULATED.csv     throughput of each lane, workload, number of CPUs and placement
    scaling.py tables RATES.csv SIMULATED.csv PAGE   writes the tables of bench/coherence/README.md

bench/coherence/README.md states the assumptions and their sources.
"""

import collections
import csv
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import click
import numpy
import scipy.optimize
import simulate
from rates import read
from simulate import Costs, Depot, Line, Steps

EXCESS_MAX = 0.25  # of the measured time
WINDOW = 64  # visits after which a CPU has given as many batches of each class as it has taken
TAG_LINE_KB = 1024  # 16 tags of 64 KiB pages are a line
PAGE_LINES = 3  # a page's description, and the lines of its bits
HOLD_NS = 50.0  # a shard's lock is held for this long, and
HOLD_BLOCK_NS = 2.0  # for each block that leaves its page or returns to it


@dataclasses.dataclass(frozen=True)
class Machine:
    """`line`, `cas`: ns, as of Costs. `remote`: how many times longer a line takes from the other node. `numbering`: whether
    CPUs with neighbouring numbers share a node, or take turns."""

    cpus: int
    nodes: int = 1
    line: float = 185.0
    remote: float = 2.0
    cas: float = 5.0
    overlap: int = 10
    numbering: str = "blocks"

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise ValueError(f"{self.cpus} CPUs: at least 1")
        if self.nodes not in (1, 2) or self.nodes > self.cpus:
            raise ValueError(f"{self.nodes} nodes with {self.cpus} CPUs: 1 or 2, and no more than CPUs")
        if self.line < 0 or self.remote < 1:
            raise ValueError(f"line {self.line} ns, remote {self.remote}: at least 0, and at least 1")
        if self.numbering not in NUMBERINGS:
            raise ValueError(f"numbering '{self.numbering}': one of {', '.join(NUMBERINGS)}")

    def node_of(self) -> list[int]:
        if self.numbering == "turns":
            return [cpu % self.nodes for cpu in range(self.cpus)]
        return [cpu * self.nodes // self.cpus for cpu in range(self.cpus)]


NUMBERINGS = ("blocks", "turns")


@dataclasses.dataclass(frozen=True)
class Lane:
    """`rates`: whose counters. `extra_ns`: of a malloc and its free, beyond those of `rates`. `by_node`: parts of the depot and
    shards that no two nodes share, and pages that stay in their node. `scan_batches`: a part may hold so many batches
    before a push looks at the other parts, however small its share of the limit is."""

    name: str
    rates: str
    depot_bytes: int
    extra_ns: float = 0.0
    bins_per_cpu: bool = False
    parts: int = 8
    shards: int = 63
    by_node: bool = False
    scan_batches: int = 0


LANES = {
    "scale": Lane("scale", "scale", 1 << 20),
    "hz4": Lane("hz4", "hz4", 1 << 19),
    "percpu": Lane("percpu", "scale", 1 << 20, extra_ns=2.0, bins_per_cpu=True),
}


@dataclasses.dataclass(frozen=True)
class Workload:
    """`row`: of rates.py. `cpu_row`: the row with as many threads as CPUs, which bins for each CPU see. `sizes`: of blocks.
    `reads`: lines that a thread reads of a block, or beside it, that another CPU wrote; `rewrites`: lines of it that the thread
    writes when it has the block again. `sided`: even CPUs allocate, odd ones free. `across`: blocks come from another node, if
    there is one. `threads`: of the run that was counted, which had two CPUs."""

    name: str
    row: str
    cpu_row: str
    sizes: tuple[int, int]
    reads: float
    rewrites: float
    threads: int = 2
    sided: bool = False
    across: bool = False


WORKLOADS = {
    one.name: one
    for one in (
        Workload("local", "local", "local", (16, 2048), 0, 0),
        Workload("larson", "larson", "larson", (8, 1000), 0, 0),
        Workload("ring50", "ring50", "ring50", (16, 2048), 3.25, 2),
        Workload("ring90", "ring90", "ring90", (16, 2048), 3.25, 2),
        Workload("ring90-across", "ring90", "ring90", (16, 2048), 3.25, 2, across=True),
        Workload("ring90-t8", "ring90-t16", "ring90", (16, 2048), 3.25, 2, threads=16),
        Workload("xmalloc", "xmalloc", "xmalloc", (64, 64), 1.125, 1, sided=True),
        Workload("xmalloc-across", "xmalloc", "xmalloc", (64, 64), 1.125, 1, sided=True, across=True),
    )
}


def batch_count(size: int) -> int:
    """Blocks in a full batch: half a bin (hz_batch_count)."""
    return min(max(16384 // size, 36), 256) // 2


def classes_of(smallest: int, largest: int) -> list[tuple[int, float]]:
    """Block size, and the share of the visits, of each size class that uniform sizes use (size-classes and bin-sizes of
    docs/decisions): a class is visited as often as its sizes come, divided by the blocks of a batch."""
    bounds = [16 * number for number in range(1, 17)]
    while bounds[-1] < largest:
        step = 1 << (bounds[-1].bit_length() - 4)
        bounds.append(bounds[-1] + step)
    found = []
    for below, bound in zip([0, *bounds], bounds, strict=False):
        width = min(bound, largest) - max(below, smallest - 1)
        if width > 0:
            found.append((bound, width / batch_count(bound)))
    total = sum(weight for _, weight in found)
    return [(bound, weight / total) for bound, weight in found]


Rates = Mapping[str, float]


def rates_of(rates: Mapping[tuple[str, str], Rates], row: str, lane: str) -> Rates:
    if (row, lane) not in rates:
        raise ValueError(f"no rates of row '{row}' and lane '{lane}': run rates.py with them")
    return rates[row, lane]


@dataclasses.dataclass(frozen=True)
class Program:
    """What the program itself takes. `pair_ns`: a malloc, its free and the program's work between them. `exposed`: the share of
    a line's time for which the program really waits, since stores and independent loads overlap."""

    pair_ns: float
    exposed: float


class Shared:
    """All lines that the allocator shares, and what a CPU does to them."""

    def __init__(self, machine: Machine, lane: Lane, workload: Workload, rates: Rates, program: Program, seed: int):
        self.machine, self.lane, self.workload, self.rates, self.program = machine, lane, workload, rates, program
        self.nodes = machine.node_of()
        self.random = numpy.random.default_rng(seed)
        self.cycle = min(1 / max(rates["refill"], 1e-9), 4000.0)  # mallocs
        classes = classes_of(*workload.sizes)
        self.class_shares = [share for _, share in classes]
        parts, part_map = self._divide(lane.parts)
        _, self.shard_map = self._divide(lane.shards)
        blocks = self.batch_blocks = round(min(self.cycle, sum(share * batch_count(bound) for bound, share in classes)))
        costs = Costs(hit=1.0, line=machine.line, cas=machine.cas, far=machine.remote, lines=-(-(blocks + 1) // 8), overlap=machine.overlap)
        cap = self._cap(classes)
        self.depot = Depot(machine.cpus, parts, costs, classes=len(classes), groups=self.nodes, part_map=part_map, cap=cap,
                           share=max(cap / parts, lane.scan_batches), blocks=blocks)  # fmt: skip
        self.directory = self.depot.directory
        if lane.by_node:
            self.depot.order = self._order_by_node  # type: ignore[method-assign]
        if not workload.sided:
            for stacks in self.depot.classes:
                for cpu in range(machine.cpus):
                    stack = stacks[self.depot.part_of(cpu)]
                    if len(stack.batches) + 1 <= self.depot.share:
                        stack.batches.append(self.depot.batch_make(cpu))
        count = max(self.shard_map) + 1
        self.locks = [Line(kind="lock") for _ in range(count)]
        self.hints = [Line(kind="mail") for _ in range(count)]
        self.mails = [[Line(kind="mail") for _ in classes] for _ in range(count)]
        self.pages = [[Line(kind="page") for _ in range(PAGE_LINES)] for _ in range(count)]
        self.arena = Line(kind="arena")
        self.tags = [Line(kind="tags") for _ in range(max(1, round(self._heap_kb() / TAG_LINE_KB)))]
        for line in self.tags:  # every CPU has read them before
            line.holders = set(range(machine.cpus))

    def _heap_kb(self) -> float:
        return self.rates["heap_kb"] / 2 * self.machine.cpus  # counted on two CPUs

    def _divide(self, most: int) -> tuple[int, list[int]]:
        """Neighbours by number share, as hz_cpus_groups does it; by node, neighbours within a node do."""
        cpus = self.machine.cpus
        order = sorted(range(cpus), key=lambda cpu: (self.nodes[cpu], cpu)) if self.lane.by_node else range(cpus)
        count = min(most, cpus)
        if self.lane.by_node and count > 1:
            count -= count % self.machine.nodes
        found = [0] * cpus
        for place, cpu in enumerate(order):
            found[cpu] = place * count // cpus
        return count, found

    def _order_by_node(self, cpu: int) -> list[int]:
        own, parts = self.depot.part_of(cpu), self.depot.parts
        order = [(own + offset) % parts for offset in range(parts)]
        half = parts // self.machine.nodes
        return sorted(order, key=lambda part: part // max(half, 1) != own // max(half, 1))

    def _cap(self, classes: list[tuple[int, float]]) -> float:
        """Batches of a class that may rest: HZ_DEPOT_BYTES, or half of the class's blocks if that is more."""
        size = sum(bound * share for bound, share in classes)
        blocks = self._heap_kb() * 1024 / size / len(classes)
        return max(self.lane.depot_bytes / size, blocks / 2, self.batch_blocks) / self.batch_blocks

    def partner(self, cpu: int) -> int:
        """Whose blocks a CPU frees: its neighbour's in its node, or a CPU's of the other node."""
        near = [other for other in range(self.machine.cpus) if self.nodes[other] == self.nodes[cpu]]
        place = near.index(cpu)
        far = [other for other in range(self.machine.cpus) if self.nodes[other] != self.nodes[cpu]]
        if far and (self.workload.across or len(near) == 1):
            return far[(place - 1 if self.workload.sided else place) % len(far)]
        return near[place - 1]

    def class_sequences(self) -> tuple[Iterator[int], Iterator[int]]:
        """The classes that a CPU takes, and those it gives: the same ones in another order, within a window."""
        window = self.random.choice(len(self.class_shares), size=WINDOW, p=self.class_shares)
        other = self.random.permutation(window)

        def endless(values: Sequence[int]) -> Iterator[int]:
            while True:
                yield from (int(value) for value in values)

        return endless(window), endless(other)

    def _locked(self, cpu: int, shard: int, blocks: float, now: float) -> Steps:
        """Takes blocks out of a shard's pages, or puts them there, under its lock."""
        lock = self.locks[shard]
        now = self.directory.access(lock, cpu, now, write=True) + self.machine.cas
        lock.free_at = now
        yield now
        for line in self.pages[shard]:
            now = self.directory.access(line, cpu, now, write=True)
        now += HOLD_NS + HOLD_BLOCK_NS * blocks
        lock.free_at = max(lock.free_at, now)
        yield now
        return now

    def carve(self, cpu: int, now: float) -> Steps:
        shard = self.shard_map[cpu]
        now = self.directory.access(self.mails[shard][0], cpu, now, write=False)
        return (yield from self._locked(cpu, shard, self.batch_blocks, now))

    def put_own(self, cpu: int, now: float) -> Steps:
        return (yield from self._locked(cpu, self.shard_map[cpu], self.batch_blocks, now))

    def put_others(self, cpu: int, now: float) -> Steps:
        """The sender puts a list into the pages of another shard."""
        lists = max(self.rates["ls_rel_steal"], 1e-9)
        blocks = max(0.0, self.rates["home_blocks"] - self.rates["mail_blocks"]) / lists
        return (yield from self._locked(cpu, self.shard_map[self.owner(cpu)], min(blocks, 128), now))

    def owner(self, cpu: int) -> int:
        """A CPU whose shard owns blocks that go home. A side frees what any CPU of the other side allocated. In a ring, adopted
        blocks mix, so it is any CPU; blocks that always go home are the partner's."""
        if self.workload.sided:
            node = self.nodes[self.partners[cpu]]
            allocating = [other for other in range(self.machine.cpus) if self.nodes[other] == node and self.side(other) == 0]
            return int(self.random.choice(allocating)) if allocating else self.partners[cpu]
        if self.lane.rates == "hz4":
            return self.partners[cpu]
        return int(self.random.integers(self.machine.cpus))

    def send(self, cpu: int, now: float) -> Steps:
        shard = self.shard_map[self.owner(cpu)]
        now = self.directory.access(self.hints[shard], cpu, now, write=False)
        size_class = int(self.random.integers(min(8, len(self.class_shares))))  # home classes: up to 128 B
        now = self.directory.access(self.mails[shard][size_class], cpu, now, write=True) + self.machine.cas
        yield now
        return now

    def receive(self, cpu: int, now: float) -> Steps:
        """Takes a shard's mail."""
        now = self.directory.access(self.mails[self.shard_map[cpu]][0], cpu, now, write=True) + self.machine.cas
        yield now
        return now

    def follow(self, cpu: int, now: float) -> float:
        """Follows the links of a cycle's share of the mail, each in a block that another CPU wrote last. Blocks that lie side by
        side, as where one side frees what the other allocated in order, are prefetched by the processor."""
        if self.partners[cpu] == cpu:
            return now
        blocks = self.rates["mail_blocks"] * self.cycle
        cost = self.directory.distance((self.partners[cpu],), cpu)
        self.directory.count(round(blocks), cost)
        wait = blocks * cost / (self.machine.overlap if self.workload.sided else 1)
        self.directory.waits["links"] += wait
        return now + wait

    def page_change(self, cpu: int, now: float) -> Steps:
        """A page is made, or given back: the arena's word, and a tag that every CPU reads."""
        now = self.directory.access(self.arena, cpu, now, write=True) + self.machine.cas
        yield now
        now = self.directory.access(self.tags[int(self.random.integers(len(self.tags)))], cpu, now, write=True)
        yield now
        return now

    def read_tags(self, cpu: int, frees: float, now: float) -> float:
        """Frees read tags; a tag that has not changed is in the cache. Blocks from one page follow one another where one
        side frees what the other allocated in order."""
        count = 2 if self.workload.sided else min(round(frees), 32, 2 * len(self.tags))
        for number in self.random.integers(len(self.tags), size=count):
            now = self.directory.access(self.tags[number], cpu, now, write=False) - 1.0  # a hit is part of the pair
        return now

    def side(self, cpu: int) -> int | None:
        """0: the CPU only allocates; 1: it only frees. Both sides are in each node, unless blocks go from one to the other."""
        return self._sides[cpu] if self.workload.sided else None

    @functools.cached_property
    def _sides(self) -> list[int]:
        cpus = sorted(range(self.machine.cpus), key=lambda cpu: (self.nodes[cpu], cpu))
        return [cpus.index(cpu) % 2 for cpu in range(self.machine.cpus)]

    @functools.cached_property
    def partners(self) -> list[int]:
        return [self.partner(cpu) for cpu in range(self.machine.cpus)]


SHARED_EVENTS = (
    # figure of the rates, method, side that does it: 0 allocates, 1 frees
    ("take", "receive", 0),
    ("ls_acq_self", "carve", 0),
    ("page_create", "page_change", 0),
    ("page_retire", "page_change", 1),
    ("ls_rel_self", "put_own", 1),
    ("ls_rel_steal", "put_others", 1),
    ("send", "send", 1),
)


def _worker(shared: Shared, cpu: int, cycles: int, start: float, waits: collections.Counter) -> Steps:
    """One CPU. On a side, it only allocates or only frees."""
    rates, workload, program = shared.rates, shared.workload, shared.program
    side = shared.side(cpu)
    due = dict(zip([name for name, *_ in SHARED_EVENTS] + ["depot_push", "refill_depot"], shared.random.random(9), strict=True))
    taken, given = shared.class_sequences()
    partner_ns = shared.directory.distance((shared.partners[cpu],), cpu) if shared.partners[cpu] != cpu else 0.0
    from_depot = min(1.0, rates["refill_depot"] * shared.cycle)
    now = start
    for _ in range(cycles):
        frees = 0 if side == 0 else shared.cycle
        lines = frees * workload.reads * (1.0 if workload.sided else rates["remote_share"])
        if side == 0:
            lines += shared.cycle * workload.rewrites * (1 - from_depot)  # the depot's are prefetched
        elif side is None:
            lines += frees * workload.rewrites * rates["remote_share"]
        own = shared.cycle * (program.pair_ns + shared.lane.extra_ns) * (1.0 if side is None else 0.5)
        waits["compute"] += own
        waits["program"] += lines * program.exposed * partner_ns
        now += own + lines * program.exposed * partner_ns
        yield now
        if frees:
            now = shared.read_tags(cpu, frees, now)
        if side != 1:
            now = shared.follow(cpu, now)
            due["refill_depot"] += from_depot
            if due["refill_depot"] >= 1:
                due["refill_depot"] -= 1
                now, found = yield from shared.depot.take(cpu, now, next(taken))
                if not found:
                    now = yield from shared.carve(cpu, now)
        if side != 0:
            due["depot_push"] += min(1.0, rates["depot_push"] * shared.cycle)
            if due["depot_push"] >= 1:
                due["depot_push"] -= 1
                now, kept = yield from shared.depot.give(cpu, now, next(given))
                if not kept:
                    now = yield from shared.put_others(cpu, now)
        for name, method, event_side in SHARED_EVENTS:
            if side is not None and side != event_side:
                continue
            due[name] += rates[name] * shared.cycle
            while due[name] >= 1:
                due[name] -= 1
                now = yield from getattr(shared, method)(cpu, now)
    waits["allocates" if side == 0 else "frees" if side == 1 else "both"] += now - start


@dataclasses.dataclass(frozen=True)
class Result:
    """`ns`: of a CPU, for each malloc with its free. `of_alone`: throughput relative to as many CPUs that never wait for a line
    of another. `allocator`: share of the time in which a CPU waits for the allocator's lines. `worst`: the kind of line for
    which CPUs wait longest, beside the program's own, and `worst_ns`: for how long, in each malloc. `gb_per_s`: lines between
    nodes."""

    ns: float
    of_alone: float
    allocator: float
    worst: str
    worst_ns: float
    from_others: float
    scans: float
    gb_per_s: float


def _run(machine: Machine, lane: Lane, workload: Workload, rates: Rates, program: Program, cycles: int, seed: int):
    shared = Shared(machine, lane, workload, rates, program, seed)
    starts = shared.random.uniform(0, shared.cycle * program.pair_ns, machine.cpus)
    own: collections.Counter = collections.Counter()
    simulate.run((float(start), _worker(shared, cpu, cycles, float(start), own)) for cpu, start in enumerate(starts))
    if workload.sided:
        allocating = -(-machine.cpus // 2)
        mallocs = cycles * shared.cycle * allocating
        busy = 2 * max(own["allocates"], own["frees"] * allocating / (machine.cpus - allocating))  # the faster side waits
    else:
        mallocs = cycles * shared.cycle * machine.cpus
        busy = own["both"]
    own["busy"] = own["allocates"] + own["frees"] + own["both"]
    return shared, own, busy / mallocs, mallocs


def predict(machine: Machine, lane: Lane, workload: Workload, all_rates: Mapping[tuple[str, str], Rates], program: Program,
            cycles: int = 0, seed: int = 1) -> Result:  # fmt: skip
    """Raises ValueError when the machine makes no sense, or there are no rates for the workload."""
    if workload.sided and machine.cpus < 2:
        raise ValueError(f"{workload.name} has two sides, so it needs 2 CPUs")
    rates = rates_of(all_rates, workload.cpu_row if lane.bins_per_cpu else workload.row, lane.rates)
    cycles = cycles or max(150, 3000 // machine.cpus)
    shared, own, ns, mallocs = _run(machine, lane, workload, rates, program, cycles, seed)
    least = dataclasses.replace(machine, cpus=2 if workload.sided else 1, nodes=1, line=0.0)
    _, _, ideal, _ = _run(least, lane, workload, rates, program, 400, seed)
    depot, waits = shared.depot, shared.directory.waits
    worst = max(waits, key=lambda kind: waits[kind], default="")
    return Result(
        ns=ns,
        of_alone=min(1.0, ideal / ns),
        allocator=max(0.0, 1 - (own["compute"] + own["program"]) / own["busy"]),
        worst=worst,
        worst_ns=waits[worst] / mallocs if worst else 0.0,
        from_others=depot.counts["from_others"] / max(1, depot.counts["pops"]),
        scans=depot.counts["scans"] / max(1, depot.counts["pushes"]),
        gb_per_s=shared.directory.far_moves * 64 / (ns * mallocs / machine.cpus),
    )


def smt(all_rates: Mapping[tuple[str, str], Rates]) -> float:
    """How much slower work that shares nothing is on two CPUs than on one, as on two threads of a core."""
    local = rates_of(all_rates, "local", "scale")
    return max(1.0, local["ns"] / local["one_cpu_ns"])


def calibrate(all_rates: Mapping[tuple[str, str], Rates], workload: Workload, slowdown: float) -> Program:
    """The two figures that nothing else gives. `pair_ns`: the program's time on one CPU, where no line moves, with `slowdown`.
    `exposed`: so that lane scale comes out as measured on two CPUs; from ring90 for all rings, from xmalloc for both. 0 when the
    model takes a little too long even so. Raises ValueError when no share of a line's time explains what was measured."""
    fit = WORKLOADS["xmalloc" if workload.sided else "ring90"]
    fitted = rates_of(all_rates, fit.row, "scale")
    if "ns" not in fitted:
        raise ValueError(f"row '{fit.row}' has no times: run rates.py on a quiet machine")
    machine, fit_ns = measured_machine(fitted), fitted["one_cpu_ns"] * smt(all_rates)

    def error(exposed: float) -> float:
        return predict(machine, LANES["scale"], fit, all_rates, Program(fit_ns, exposed)).ns - fitted["ns"]

    pair_ns = rates_of(all_rates, workload.row, "scale")["one_cpu_ns"] * slowdown
    if 0 < error(0.0) <= EXCESS_MAX * fitted["ns"]:
        return Program(pair_ns, 0.0)
    if error(0.0) > 0:
        raise ValueError(f"'{fit.row}' took {fitted['ns']:.1f} ns, less than without any line: run rates.py on a quiet machine")
    if error(4.0) < 0:
        raise ValueError(f"'{fit.row}' took {fitted['ns']:.1f} ns, more than its lines explain: run rates.py on a quiet machine")
    return Program(pair_ns, float(scipy.optimize.brentq(error, 0.0, 4.0, xtol=1e-3)))


def measured_machine(rates: Rates) -> Machine:
    return Machine(cpus=2, line=rates["line_ns"], cas=rates["cas_ns"])


CPUS = (2, 4, 8, 16, 32, 64, 128)
CPU_CHOICES = {  # name: ns between CPUs of a node, times between nodes; bench/coherence/README.md names the sources
    "measured here": (185.0, 2.0),
    "EPYC 7R13": (107.0, 1.84),
    "Xeon 8375C": (51.0, 2.1),
    "Xeon 6242": (48.0, 2.8),
}
VARIANTS = {
    "16 parts": {"parts": 16},
    "64 parts": {"parts": 64},
    "64 parts, 4 batches each": {"parts": 64, "scan_batches": 4},
    "8 parts by node": {"by_node": True},
    "16 parts by node": {"by_node": True, "parts": 16},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One simulated run. `variant`: what differs from the lane; `cpu`: of CPU_CHOICES."""

    workload: str
    lane: str
    cpus: int
    nodes: int
    numbering: str = "blocks"
    variant: str = ""
    cpu: str = "measured here"


def cases() -> list[Case]:
    """Every lane and workload; then variants of lane scale, on CPUs numbered by node and in turns; then other CPUs."""
    found = [Case(workload, lane, cpus, nodes) for workload in WORKLOADS for lane in LANES for nodes in (1, 2) for cpus in CPUS]
    for workload in ("ring90", "ring90-across", "xmalloc", "xmalloc-across"):
        for cpus in (16, 64, 128):
            for nodes, numbering in ((1, "blocks"), (2, "blocks"), (2, "turns")):
                names = [name for name in VARIANTS if nodes == 2 or "node" not in name]
                found += [Case(workload, "scale", cpus, nodes, numbering, name) for name in names]
            found.append(Case(workload, "scale", cpus, 2, "turns"))
    for cpu in list(CPU_CHOICES)[1:]:
        found += [Case(workload, lane, 2, 1, cpu=cpu) for workload in ("ring90", "xmalloc") for lane in LANES]
        found += [Case(workload, lane, cpus, 2, cpu=cpu) for workload in ("ring90", "xmalloc") for lane in LANES for cpus in (32, 128)]
    return found


def simulate_case(case: Case, rates: Mapping[tuple[str, str], Rates], program: Program, cycles: int) -> Result:
    line, remote = CPU_CHOICES[case.cpu]
    machine = Machine(case.cpus, case.nodes, line=line, remote=remote, numbering=case.numbering)
    lane = dataclasses.replace(LANES[case.lane], **VARIANTS.get(case.variant, {}))
    return predict(machine, lane, WORKLOADS[case.workload], rates, program, cycles)


@dataclasses.dataclass(frozen=True)
class Check:
    """A row as measured here on two CPUs, or on one, and as predicted."""

    row: str
    lane: str
    line_ns: float
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def checks(rates: Mapping[tuple[str, str], Rates]) -> list[Check]:
    found = []
    for name in ("local", "ring50", "ring90", "ring90-t8", "xmalloc", "larson"):
        for lane in ("scale", "hz4"):
            workload = WORKLOADS[name]
            counted = rates_of(rates, workload.row, lane)
            if "ns" in counted and workload.row != "local":  # by definition right
                program = calibrate(rates, workload, smt(rates))
                predicted = predict(measured_machine(counted), LANES[lane], workload, rates, program, cycles=1500).ns
                found.append(Check(workload.row, lane, counted["line_ns"], counted["ns"], predicted))
    return found


def _number_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * 1 + "|---" + "|--:" * (len(header) - 2) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


Table = dict[tuple[str, ...], dict[str, str]]
FITTED = (("ring90", "scale"), ("xmalloc", "scale"))
KEYS = tuple(field.name for field in dataclasses.fields(Case))


def read_simulated(path: pathlib.Path) -> Table:
    """By the fields of Case, as text. Raises ValueError."""
    with path.open(encoding="utf-8") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        if reader.fieldnames is None or tuple(reader.fieldnames[: len(KEYS)]) != KEYS:
            raise ValueError(f"{path.name}: the columns are not {', '.join(KEYS)}, ...: not written by scaling.py simulate")
        return {tuple(line[key] for key in KEYS): line for line in reader}


def _find(table: Table, case: Case) -> dict[str, str]:
    key = tuple(str(value) for value in dataclasses.astuple(case))
    if key not in table:
        raise ValueError(f"not simulated: {case}")
    return table[key]


def of_linear(table: Table, case: Case) -> float:
    """Throughput relative to cpus / 2 times that of two CPUs of one node."""
    two = dataclasses.replace(case, cpus=2, nodes=1, numbering="blocks", variant="")
    return float(_find(table, two)["ns"]) / float(_find(table, case)["ns"])


PAGE_WORKLOADS = ("ring90", "ring90-t8", "xmalloc", "xmalloc-across")  # the page says what the others do


def scaling_table(table: Table) -> str:
    """A line for each workload and lane: with one node / with two, or with two where blocks go from one to the other."""
    rows = []
    for workload in PAGE_WORKLOADS:
        nodes = (2,) if "across" in workload else (1, 2)
        for lane in LANES:
            cells = [" / ".join(f"{of_linear(table, Case(workload, lane, cpus, node)):.2f}" for node in nodes) for cpus in CPUS]
            last = _find(table, Case(workload, lane, CPUS[-1], 2))
            wait = f"{last['worst']} {float(last['worst_ns']):.1f}"
            rows.append([workload, lane, *cells, f"{100 * float(last['allocator']):.0f} %", wait])
    return _number_table(("workload", "lane", *map(str, CPUS), "allocator", "longest wait, ns"), rows)


def validation_table(rates: Mapping[tuple[str, str], Rates]) -> str:
    rows = [(one.row, one.lane, f"{one.line_ns:.0f}", f"{one.measured:.1f}", f"{one.predicted:.1f}",
             "fitted" if (one.row, one.lane) in FITTED else f"{100 * one.error:+.0f} %") for one in checks(rates)]  # fmt: skip
    return _number_table(("row", "lane", "a line, ns", "measured, ns", "predicted, ns", "error"), rows)


def machine_table(table: Table) -> str:
    rows = []
    for workload in ("xmalloc",):
        for cpu, (line, remote) in CPU_CHOICES.items():
            cells = []
            for lane in LANES:
                cells += [f"{of_linear(table, Case(workload, lane, cpus, 2, cpu=cpu)):.2f}" for cpus in (32, 128)]
            rows.append([workload, f"{cpu}: {line:.0f}, {line * remote:.0f} ns", *cells])
    header = [f"{lane}, {cpus}" for lane in LANES for cpus in (32, 128)]
    return _number_table(("workload", "a line in a node, between nodes", *header), rows)


def variant_table(table: Table) -> str:
    rows = []
    for workload, counts in (("ring90", (64,)), ("xmalloc", (64, 128))):
        for nodes, numbering in ((1, "blocks"), (2, "blocks"), (2, "turns")):
            for cpus in counts:
                base = float(_find(table, Case(workload, "scale", cpus, nodes, numbering))["ns"])
                cells = []
                for variant in VARIANTS:
                    if nodes == 1 and "node" in variant:
                        cells.append("-")
                    else:
                        found = _find(table, Case(workload, "scale", cpus, nodes, numbering, variant))
                        cells.append(f"{base / float(found['ns']):.2f}")
                rows.append([workload, f"{nodes}{', in turns' if numbering == 'turns' else ''}, {cpus}", f"{base:.0f}", *cells])
    return _number_table(("workload", "nodes, CPUs", "scale, ns", *VARIANTS), rows)


@click.group(help=__doc__.split("\n\n")[0])
def main() -> None:
    pass


RATES = click.argument("rates", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))


@main.command(help="Compares predictions for two CPUs with what rates.py measured.")
@RATES
def validate(rates: pathlib.Path) -> None:
    found = read(rates)
    for workload in ("ring90", "xmalloc"):
        program = calibrate(found, WORKLOADS[workload], smt(found))
        click.echo(f"{workload}: {program.pair_ns:.1f} ns without waiting; {program.exposed:.2f} of a line's time is exposed")
    click.echo(validation_table(found))


@main.command("simulate", help="Simulates every case; writes CSV to stdout.")
@RATES
@click.option("--cycles", default=0, type=click.IntRange(0), help="cycles of each CPU; 0: 150, or more with few CPUs")
def simulate_command(rates: pathlib.Path, cycles: int) -> None:
    found = read(rates)
    programs = {name: calibrate(found, workload, 1.0) for name, workload in WORKLOADS.items()}
    for name, program in programs.items():
        print(f"# {name}: {program}", flush=True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((*KEYS, *(field.name for field in dataclasses.fields(Result))))
    for case in cases():
        values = dataclasses.astuple(simulate_case(case, found, programs[case.workload], cycles))
        writer.writerow((*dataclasses.astuple(case), *(value if isinstance(value, str) else f"{value:.4g}" for value in values)))


def page_with(text: str, blocks: Mapping[str, str]) -> str:
    """The page with new text between its lines `<!-- scaling.py: NAME -->` and `<!-- end -->`. Raises ValueError."""
    for name, block in blocks.items():
        start = f"<!-- scaling.py: {name} -->\n"
        before, found, rest = text.partition(start)
        _, ended, after = rest.partition("<!-- end -->")
        if not found or not ended:
            raise ValueError(f"the page has no '{start.strip()}' with '<!-- end -->' after it")
        text = before + start + block + "\n" + ended + after
    return text


def blocks_of(rates: Mapping[tuple[str, str], Rates], table: Table) -> dict[str, str]:
    return {"validation": validation_table(rates), "scaling": scaling_table(table), "variants": variant_table(table),
            "machines": machine_table(table)}  # fmt: skip


@main.command(help="Writes the tables into bench/coherence/README.md.")
@RATES
@click.argument("simulated", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path))
def tables(rates: pathlib.Path, simulated: pathlib.Path, page: pathlib.Path) -> None:
    blocks = blocks_of(read(rates), read_simulated(simulated))
    page.write_text(page_with(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"scaling.py: {error}")
