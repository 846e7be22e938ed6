#!/usr/bin/env python3
"""Reads the heap profiles that HAKOZUNA_PROFILE writes (docs/profile.md), and asks running processes for them: `hakozuna profile ...`.

A file has moments, one behind the other, each with all sites so far: docs/formats.md. Every number that this
program shows is an estimate: what was sampled, divided by the probability with which blocks of that size are sampled.
"""

from __future__ import annotations

import argparse
import bisect
import json
import math
import os
import pathlib
import re
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import asking
import nearest
import pprof
import running
import symbols as symbols_of
from symbols import Frame, Mapping, build_id_of

MAGIC = b"\x7fhakoprf"
VERSIONS = (1, 2)  # 1: without threads
SECONDS_MAX = 86400
ROWS_MAX = 1000000
END, MAPPING, SITE, PAIR, THREAD = 0, 1, 2, 3, 4
NOBODY, OTHERS = 0, 2**32 - 1  # instead of a thread in a pair
# The library's own functions, where it is linked into the program; otherwise it leaves its calls out.
OWN = r"hz_\w+|malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign|operator new.*"
OWN_DEPTH = 12  # functions at most
TYPES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "freed_elsewhere_objects", "freed_elsewhere_space")


class BadInput(Exception):
    """A mistake of the caller. The text is for people."""


# ---- the stream ------------------------------------------------------------------------------------


# A site: the weight of its blocks in bytes, and its return addresses, the innermost first.
Site = tuple[int, tuple[int, ...]]
# The thread that allocated, and the one that freed; NOBODY: what the first has allocated.
Pair = tuple[int, int]


def added(left: tuple, right: tuple, sign: int = 1) -> tuple:
    return tuple(a + sign * b for a, b in zip(left, right))


@dataclass
class Moment:
    pid: int
    time_ns: int
    rate: int
    lost: int
    program: str
    mappings: list[Mapping] = field(default_factory=list)
    version: int = VERSIONS[-1]
    # allocated blocks, bytes; freed blocks, bytes; of those, by another thread than the one that allocated them
    sites: dict[Site, tuple[int, ...]] = field(default_factory=dict)
    pairs: dict[Pair, tuple[int, int, int]] = field(default_factory=dict)  # samples; estimates: blocks, bytes
    threads: dict[int, str] = field(default_factory=dict)  # names

    def chance(self, weight: int) -> float:
        """The probability with which blocks of a weight are sampled."""
        return -math.expm1(-weight / self.rate)

    def estimates(self) -> dict[Site, tuple[float, ...]]:
        """By site, in the order of TYPES."""
        found = {}
        for site, (blocks, size, freed, freed_size, *passed) in self.sites.items():
            scale = 1 / self.chance(site[0])
            found[site] = tuple(scale * value for value in (blocks, size, blocks - freed, size - freed_size, *passed))
        return found


class Reader:
    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self.at = name, data, 0

    def bytes(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise BadInput(f"{self.name}: cut off at byte {len(self.data)}, in the middle of a snapshot")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise BadInput(f"{self.name}: byte {self.at}: a number of more than 64 bits")

    def text(self) -> bytes:
        return self.bytes(self.number())

    def mapping(self) -> Mapping:
        start, size, offset, address = (self.number() for _ in range(4))
        path = self.text().decode(errors="replace")
        return Mapping(start, size, offset, address, path, self.text().hex())

    def site(self, version: int) -> tuple[Site, tuple[int, ...]]:
        weight, *sums = (self.number() for _ in range(5 if version == 1 else 7))
        sums += [0] * (6 - len(sums))
        addresses = []
        address = 0
        for _ in range(self.number()):
            difference = self.number()
            address = (address + (difference >> 1 ^ -(difference & 1))) % 2**64
            addresses.append(address)
        return (weight, tuple(addresses)), tuple(sums)

    def moment(self) -> Moment:
        if self.bytes(len(MAGIC)) != MAGIC:
            raise BadInput(f"{self.name}: byte {self.at - len(MAGIC)}: no heap profile of hakozuna begins here")
        version = self.number()
        if version not in VERSIONS:
            raise BadInput(f"{self.name}: format {version}; this program reads the formats {VERSIONS[0]} to {VERSIONS[-1]}")
        pid, seconds, nanoseconds, rate, lost = (self.number() for _ in range(5))
        moment = Moment(pid, seconds * 10**9 + nanoseconds, rate, lost, running.printable(self.text().decode(errors="replace")), version=version)
        if rate == 0:
            raise BadInput(f"{self.name}: byte {self.at}: the rate is 0; allowed: 1 or more")
        sites = 0
        while (kind := self.number()) != END:
            if kind == MAPPING:
                moment.mappings.append(self.mapping())
            elif kind == SITE:
                sites += 1
                site, sums = self.site(version)
                moment.sites[site] = added(moment.sites.get(site, (0,) * len(sums)), sums)  # a fork's child can have two
            elif kind == PAIR and version > 1:
                pair, sums = (self.number(), self.number()), tuple(self.number() for _ in range(3))
                moment.pairs[pair] = added(moment.pairs.get(pair, (0, 0, 0)), sums)
            elif kind == THREAD and version > 1:
                number = self.number()
                moment.threads[number] = running.printable(self.text().decode(errors="replace"))
            else:
                raise BadInput(f"{self.name}: byte {self.at - 1}: record {kind}; allowed: {END} to {THREAD}")
        if self.number() != sites:
            raise BadInput(f"{self.name}: byte {self.at}: the number of sites is wrong")
        return moment


def read_moments(path: pathlib.Path) -> list[Moment]:
    try:
        reader = Reader(str(path), path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    moments = []
    while reader.at < len(reader.data):
        moments.append(reader.moment())
    if not moments:
        raise BadInput(f"{path}: the file is empty")
    return moments


# ---- what is asked ---------------------------------------------------------------------------------


@dataclass
class Profile:
    """A moment, or the difference of two, as estimates."""

    moment: Moment
    since: Moment | None
    values: dict[Site, tuple[float, ...]]
    pairs: dict[Pair, tuple[int, ...]]

    def samples(self, site: Site, value: str) -> int:
        """How many samples an estimate comes from: of a difference, those that came and those that went."""
        blocks, _, freed, _, passed, _ = self.moment.sites.get(site, (0,) * 6)
        if self.since is not None:
            old = self.since.sites.get(site, (0,) * 6)
            blocks, freed, passed = blocks - old[0], freed - old[2], passed - old[4]
        live = blocks - freed if self.since is None else blocks + freed
        return max({"alloc": blocks, "inuse": live, "freed_elsewhere": passed}[value], 0)

    def mapping_of(self, address: int) -> Mapping | None:
        if not hasattr(self, "_sorted"):
            self._sorted = sorted(self.moment.mappings, key=lambda mapping: mapping.start)
            self._starts = [mapping.start for mapping in self._sorted]
        index = bisect.bisect_right(self._starts, address) - 1
        found = self._sorted[index] if index >= 0 else None
        return found if found is not None and address < found.start + found.size else None


def choose(moments: list[Moment], number: int) -> Moment:
    if not 1 <= number <= len(moments):
        raise BadInput(f"snapshot {number}; the file has snapshots 1 to {len(moments)}")
    return moments[number - 1]


def difference(new: dict, old: dict) -> dict:
    """Without what did not change."""
    nothing = tuple(0 for _ in next(iter(old.values()), ()))
    found = {**new, **{key: added(new.get(key, nothing), value, -1) for key, value in old.items()}}
    return {key: value for key, value in found.items() if any(value)}


def profile_of(path: pathlib.Path, at: int | None, since: int | None, later: pathlib.Path | None = None) -> Profile:
    """With a later file of the same process: the difference to it, by default of the last moment of each."""
    moments = read_moments(path)
    earlier = moments
    if later is not None:
        moments = read_moments(later)
        since = len(earlier) if since is None else since
    moment = moments[-1] if at is None else choose(moments, at)
    if since is None:
        return Profile(moment, None, moment.estimates(), moment.pairs)
    before = choose(earlier, since)
    if (before.pid, before.rate) != (moment.pid, moment.rate):
        raise BadInput(f"snapshot {since} is of process {before.pid}, the other of {moment.pid}: no difference of the two")
    values = difference(moment.estimates(), before.estimates())
    return Profile(moment, before, values, difference(moment.pairs, before.pairs))


# ---- names of functions ----------------------------------------------------------------------------


class Symbols:
    """Names of functions. Without the programs that know them, and for files that have changed, no names."""

    def __init__(self, profile: Profile, wanted: bool, full_names: bool = False, root: str = "") -> None:
        """`root` leads to the process's files, if it still runs and may have others."""
        self.frames: dict[int, list[Frame]] = {}
        self.full_names = full_names
        self.compiled = symbols_of.CompiledCode.of_process(profile.moment.pid, root) if wanted else symbols_of.CompiledCode()
        tool = symbols_of.find_tool() if wanted else None
        by_mapping: dict[Mapping, list[int]] = defaultdict(list)
        for address in sorted({call - 1 for _, stack in profile.values for call in stack}):
            if (mapping := profile.mapping_of(address)) is not None:
                by_mapping[mapping].append(address)
        for mapping, addresses in by_mapping.items():
            if tool is not None and build_id_of(mapping.path) == mapping.build_id:
                found = symbols_of.frames_in(tool, mapping.path, map(mapping.in_file, addresses))
                self.frames |= {address: found[mapping.in_file(address)] for address in addresses if mapping.in_file(address) in found}

    def known(self, address: int) -> list[Frame]:
        """The functions at an address, innermost first: more than one where a function was inlined. Empty if they are not known."""
        if found := self.frames.get(address):
            return found
        compiled = self.compiled.at(address)
        return [] if compiled is None else [compiled]

    def of(self, profile: Profile, address: int) -> list[Frame]:
        """The same, or the address."""
        if found := self.known(address):
            return found
        mapping = profile.mapping_of(address)
        name = f"{address:#x}" if mapping is None else f"{mapping.name}+{mapping.in_file(address):#x}"
        return [Frame(name, "", 0)]


def frames_of(profile: Profile, symbols: Symbols, stack: tuple[int, ...]) -> list[Frame]:
    """The functions of a call stack, innermost first, without the library's own."""
    frames = [frame for call in stack for frame in symbols.of(profile, call - 1)]
    own = [index for index, frame in enumerate(frames[:OWN_DEPTH]) if re.fullmatch(OWN, frame.function)]
    frames = frames[own[-1] + 1 :] if own else frames
    return frames if symbols.full_names else list(symbols_of.for_people(frames))


# ---- text ------------------------------------------------------------------------------------------


def folded(profile: Profile, symbols: Symbols, value: str) -> Iterator[str]:
    """One line for each call stack, the outermost call first, as flame graph programs read it."""
    sums: dict[str, float] = defaultdict(float)
    for (_, stack), values in profile.values.items():
        names = [frame.function.replace(";", ":") for frame in frames_of(profile, symbols, stack)]
        sums[";".join(reversed(names)) or "?"] += values[TYPES.index(value)]
    for name, total in sorted(sums.items()):
        if round(total) > 0:
            yield f"{name} {round(total)}"


def mib(size: float) -> str:
    return f"{size / 2**20:.2f} MiB"


def counted(number: float, what: str) -> str:
    return f"{number:.0f} {what}" + ("" if round(number) == 1 else "s")


@dataclass
class Estimate:
    """Bytes and blocks, and how sure they are: how many samples they come from, and the variance of the bytes."""

    size: float = 0.0
    blocks: float = 0.0
    samples: int = 0
    variance: float = 0.0

    def add(self, other: Estimate) -> None:
        self.size += other.size
        self.blocks += other.blocks
        self.samples += other.samples
        self.variance += other.variance

    @property
    def text(self) -> str:
        """8.60 MiB ±24 %, 17 samples: one standard deviation."""
        error = f" ±{100 * math.sqrt(self.variance) / abs(self.size):.0f} %" if self.size else ""
        return f"{mib(self.size)}{error}, {counted(self.samples, 'sample')}"


def estimate_of(profile: Profile, site: Site, values: tuple[float, ...], value: str) -> Estimate:
    """Of a type without _space. Each block is sampled independently of others, with the chance of its weight."""
    size, blocks = values[TYPES.index(f"{value}_space")], values[TYPES.index(f"{value}_objects")]
    samples = profile.samples(site, value)
    chance = profile.moment.chance(site[0])
    block = size / blocks if blocks and size else site[0]
    return Estimate(size, blocks, samples, samples * (1 - chance) * (block / chance) ** 2)


def largest_stacks(profile: Profile, value: str) -> list[tuple[Estimate, tuple[int, ...]]]:
    """Call stacks by falling bytes. `value`: a type without _space."""
    sums: dict[tuple[int, ...], Estimate] = defaultdict(Estimate)
    for site, values in profile.values.items():
        sums[site[1]].add(estimate_of(profile, site, values, value))
    found = [(estimate, stack) for stack, estimate in sums.items() if round(estimate.size) > 0]
    return sorted(found, key=lambda each: (-each[0].size, each[1]))


def total_of(stacks: list[tuple[Estimate, tuple[int, ...]]]) -> Estimate:
    total = Estimate()
    for estimate, _ in stacks:
        total.add(estimate)
    return total


def stack_lines(profile: Profile, symbols: Symbols, stacks: list[tuple[Estimate, tuple[int, ...]]], count: int) -> Iterator[str]:
    total = total_of(stacks).size
    for estimate, stack in stacks[:count]:
        share = 100 * estimate.size / total
        yield f"  {estimate.text}, {share:.1f} % of all, in about {counted(estimate.blocks, 'block')}, allocated by:"
        for frame in frames_of(profile, symbols, stack):
            yield f"    {frame}"


def leaks(profile: Profile, symbols: Symbols, count: int, allocated: bool = False) -> Iterator[str]:
    """The call stacks that hold the most, or that have allocated the most, freed blocks too."""
    held = largest_stacks(profile, "alloc" if allocated else "inuse")
    what = "allocated" if allocated else "grew" if profile.since is not None else "live"
    total, moment = total_of(held), profile.moment
    blocks, stacks = counted(total.blocks, "block"), counted(len(held), "stack trace")
    yield f"{moment.program}, process {moment.pid}: {what}: {total.text}, in about {blocks} of {stacks}"
    yield from stack_lines(profile, symbols, held, count)


def thread_name(number: int) -> str:
    return "others" if number == OTHERS else str(number)


def need_threads(moment: Moment) -> None:
    if moment.version == 1:
        raise BadInput("the file is of format 1, which says nothing of threads")


def held_by_threads(profile: Profile) -> list[tuple[int, int, int, int]]:
    """Whose allocations are live, by the thread that made them: all that it allocated, less what any thread freed of it. Bytes, blocks,
    samples, thread."""
    need_threads(profile.moment)
    threads: dict[int, tuple] = defaultdict(lambda: (0, 0, 0))
    for (source, to), (samples, blocks, size) in profile.pairs.items():
        threads[source] = added(threads[source], (size, blocks, samples), 1 if to == NOBODY else -1)
    return sorted(((size, blocks, samples, thread) for thread, (size, blocks, samples) in threads.items() if blocks > 0 or size > 0), reverse=True)


def holders(profile: Profile, count: int) -> Iterator[str]:
    moment, held = profile.moment, held_by_threads(profile)
    what = "grew" if profile.since is not None else "live"
    total, blocks = sum(each[0] for each in held), sum(each[1] for each in held)
    of = f"{counted(blocks, 'block')}, allocated by {counted(len(held), 'thread')}"
    yield f"{moment.program}, process {moment.pid}: {what}: {mib(total)} in about {of}"
    yield f"{what + ' MiB':>12}  {'share':>7}  {'blocks':>10}  {'samples':>8}  {'thread':>10}  name"
    for size, number, samples, thread in held[:count]:
        figures = f"{size / 2**20:>12.2f}  {100 * size / max(total, 1):>5.1f} %  {number:>10}  {samples:>8}  {thread_name(thread):>10}"
        yield f"{figures}  {moment.threads.get(thread, '' if thread == OTHERS else 'ended')}".rstrip()


def flow_of_threads(profile: Profile, count: int) -> Iterator[str]:
    """What each thread allocated, where it went, and what the thread freed of others. In MiB."""
    threads: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])  # allocated; of it freed by itself, by others; frees others'
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # samples: of what it allocated, and of what it frees of others
    for (source, to), (samples, _, size) in profile.pairs.items():
        threads[source][0 if to == NOBODY else 1 if to == source else 2] += size
        counts[source][0] += samples if to == NOBODY else 0
        if to not in (NOBODY, source):
            threads[to][3] += size
            counts[to][1] += samples
    live = "grew" if profile.since is not None else "live"
    titles = f"{'MiB, thread':>12}  {'allocated':>10}  {'samples':>7}  {'freed it':>10}  {'others did':>10}  {live:>10}"
    yield f"{titles}  {'frees others':>12}  {'samples':>7}  name"
    for thread, sums in sorted(threads.items(), key=lambda each: -each[1][0] - each[1][3])[:count]:
        made, own, other, received = (size / 2**20 for size in sums)
        of_made, of_received = counts[thread]
        figures = f"{made:>10.2f}  {of_made:>7}  {own:>10.2f}  {other:>10.2f}  {made - own - other:>10.2f}  {received:>12.2f}  {of_received:>7}"
        yield f"{thread_name(thread):>12}  {figures}  {profile.moment.threads.get(thread, '')}".rstrip()


def deviation(samples: int, chance: float = 0.0) -> str:
    """One standard deviation of an estimate from so many samples, each taken with this chance; without it, the most that it can be."""
    return f"{100 * math.sqrt((1 - chance) / samples):.0f} %" if samples > 0 else ""


def crossing(profile: Profile) -> list[tuple[int, int, int, Pair]]:
    """What one thread allocated and another freed: bytes, blocks, samples, and the two."""
    found = ((size, blocks, samples, pair) for pair, (samples, blocks, size) in profile.pairs.items() if pair[1] not in (NOBODY, pair[0]))
    return sorted(found, reverse=True)


def flow_of_pairs(profile: Profile, seconds: float, count: int) -> Iterator[str]:
    """Which threads free what others allocated."""
    yield f"{'allocated by':>12}  {'freed by':>10}  {'MiB':>10}  {'±':>6}" + f"  {'MiB/s':>10}" * (seconds > 0) + f"  {'blocks':>10}  samples"
    for size, blocks, samples, (source, to) in crossing(profile)[:count]:
        speed = f"  {size / 2**20 / seconds:>10.2f}" if seconds > 0 else ""
        yield f"{thread_name(source):>12}  {thread_name(to):>10}  {size / 2**20:>10.2f}  {deviation(samples):>6}{speed}  {blocks:>10}  {samples:>7}"


def in_flight(moment: Moment) -> dict[int, float]:
    """Estimates, by weight, how many live blocks another thread will free: at each site the same share as of its freed blocks."""
    found: dict[int, float] = defaultdict(float)
    for (weight, _), (allocated, _, live, _, passed, _) in moment.estimates().items():
        freed = allocated - live
        if freed > 0 and live > 0:
            found[weight] += live * min(passed / freed, 1)
    return found


def flow_of_sizes(profile: Profile, seconds: float, count: int) -> Iterator[str]:
    """How much of what was freed crossed, by the bytes of the size class; of large blocks: rounded up, as they are sampled."""
    sizes: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    counts: dict[int, int] = defaultdict(int)
    flies = in_flight(profile.moment)
    for site, (_, allocated, _, live, blocks, passed) in profile.values.items():
        sizes[site[0]] = list(added(sizes[site[0]], (passed, blocks, allocated - live)))
        counts[site[0]] += profile.samples(site, "freed_elsewhere")
    yield f"{'block bytes':>12}  {'MiB':>10}  {'±':>6}  samples" + f"  {'MiB/s':>10}" * (seconds > 0) + f"  {'blocks':>10}  {'in flight':>10}  of this size's frees"
    for size, (passed, blocks, freed) in sorted(sizes.items(), key=lambda each: -each[1][0])[:count]:
        if round(passed) > 0:
            speed = f"  {passed / 2**20 / seconds:>10.2f}" if seconds > 0 else ""
            share = f"{100 * passed / max(freed, passed):.1f} %"
            sure = deviation(counts[size], profile.moment.chance(size))
            yield f"{size:>12}  {passed / 2**20:>10.2f}  {sure:>6}  {counts[size]:>7}{speed}  {blocks:>10.0f}  {flies[size]:>10.0f}  {share}"


def flow(profile: Profile, symbols: Symbols, count: int) -> Iterator[str]:
    """What crosses between threads."""
    moment, since = profile.moment, profile.since
    need_threads(moment)
    seconds = 0.0 if since is None else (moment.time_ns - since.time_ns) / 1e9
    stacks = largest_stacks(profile, "freed_elsewhere")
    total = total_of(stacks)
    passed = total.size
    freed = sum(values[1] - values[3] for values in profile.values.values())
    speed = f", {passed / 2**20 / seconds:.2f} MiB/s in {seconds:.1f} s" if seconds > 0 else ""
    yield (
        f"{moment.program}, process {moment.pid}: {mib(passed)} of {mib(freed)} that were freed, {100 * passed / max(freed, 1):.1f} %, "
        f"were freed by another thread{speed} ({counted(total.samples, 'sample')})"
    )
    yield from ("", *flow_of_threads(profile, count))
    yield from ("", *flow_of_pairs(profile, seconds, count))
    if lost := profile.pairs.get((OTHERS, OTHERS), (0, 0, 0))[2]:
        yield f"{mib(lost)} more were freed in pairs that the table had no room for"
    yield from ("", *flow_of_sizes(profile, seconds, count), "")
    yield from stack_lines(profile, symbols, stacks, count)


def listing(moments: list[Moment]) -> Iterator[str]:
    yield "snapshot  time                 process  live           samples  allocated     samples  sites  lost"
    for number, moment in enumerate(moments, 1):
        values = moment.estimates().values()
        live, allocated = sum(each[3] for each in values), sum(each[1] for each in values)
        sampled = sum(each[0] for each in moment.sites.values())
        kept = sampled - sum(each[2] for each in moment.sites.values())
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment.time_ns // 10**9))
        yield f"{number:>8}  {when}  {moment.pid:>7}  {mib(live):<12}  {kept:>8}  {mib(allocated):<12}  {sampled:>7}  {len(moment.sites):>5}  {moment.lost:>4}"


# ---- JSON ------------------------------------------------------------------------------------------


def json_of(estimate: Estimate) -> dict:
    """`deviation_bytes`: one standard deviation."""
    return {"bytes": round(estimate.size), "blocks": round(estimate.blocks), "samples": estimate.samples, "deviation_bytes": round(math.sqrt(estimate.variance))}


def thread_json(profile: Profile, thread: int) -> dict:
    """null: threads that the table had no room for."""
    return {"thread_id": None if thread == OTHERS else thread, "name": profile.moment.threads.get(thread, "")}


def stacks_json(profile: Profile, symbols: Symbols, value: str, count: int) -> dict:
    found = largest_stacks(profile, value)
    rows = [json_of(estimate) | {"frames": [vars(frame) for frame in frames_of(profile, symbols, stack)]} for estimate, stack in found[:count]]
    return {"total": json_of(total_of(found)), "stacks": rows}


def profile_json(profile: Profile, symbols: Symbols, arguments: argparse.Namespace, shows: str, allocated: bool = False) -> str:
    """`shows`: "threads", "flow" or "stacks"."""
    moment, count = profile.moment, arguments.count
    kind = "allocated" if allocated else "grew" if profile.since is not None else "live"
    known = {"program": moment.program, "pid": moment.pid, "time_ns": moment.time_ns, "rate_bytes": moment.rate, "lost": moment.lost}
    if shows == "threads":
        rows = [thread_json(profile, thread) | {"bytes": size, "blocks": blocks, "samples": samples} for size, blocks, samples, thread in held_by_threads(profile)]
        found = {"kind": kind, "threads": rows[:count]}
    elif shows == "flow":
        need_threads(moment)
        pairs = [{"allocated_by": thread_json(profile, source), "freed_by": thread_json(profile, to), "bytes": size, "blocks": blocks, "samples": samples}
                 for size, blocks, samples, (source, to) in crossing(profile)]  # fmt: skip
        freed = sum(values[1] - values[3] for values in profile.values.values())
        others = profile.pairs.get((OTHERS, OTHERS), (0, 0, 0))[2]  # the table of pairs had no room for them
        found = {"kind": "freed by another thread", "freed_bytes": round(freed), "pairs": pairs[:count], "other_pairs_bytes": others}
        found |= stacks_json(profile, symbols, "freed_elsewhere", count)
    else:
        found = {"kind": kind, **stacks_json(profile, symbols, "alloc" if allocated else "inuse", count)}
    return json.dumps(known | found)


def listing_json(moments: list[Moment]) -> str:
    rows = []
    for number, moment in enumerate(moments, 1):
        values = moment.estimates().values()
        rows.append({"snapshot": number, "time_ns": moment.time_ns, "pid": moment.pid, "live_bytes": round(sum(each[3] for each in values)),
                     "allocated_bytes": round(sum(each[1] for each in values)), "sites": len(moment.sites), "lost": moment.lost})  # fmt: skip
    return json.dumps({"snapshots": rows})


# ---- a running process -----------------------------------------------------------------------------


def ask(arguments: argparse.Namespace) -> None:
    """Lets the process write a moment, or two, and prints its call stacks."""
    with running.Process(arguments.pid) as process:

        def moment(words: str = "") -> tuple[pathlib.Path, int]:
            answer = asking.ask(process, "HAKOZUNA_PROFILE", arguments, words)
            return answer.path, len(read_moments(answer.path))

        try:
            path, first = moment(words_of(arguments))
        except asking.Waits:  # the first question begins it
            path, first = moment("profile start")
        last = None
        if (pause := arguments.seconds or arguments.over) is not None:
            if process.has_ended(pause):
                raise running.Refused(f"process {process.number} has ended")
            path, last = moment()
        show(path, last or first, first if last is not None else None, arguments, f"{process.folder}/root")
        keep(path, arguments)


def words_of(arguments: argparse.Namespace) -> str:
    """What the process is to do before it answers."""
    if arguments.seconds is not None:
        return f"profile for={arguments.seconds}"
    return "profile start" if arguments.start else "profile stop" if arguments.stop else ""


def whole_seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= SECONDS_MAX):
        raise argparse.ArgumentTypeError(f"'{text}': allowed are 1 to {SECONDS_MAX}")
    return int(text)


def row_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= ROWS_MAX):
        raise argparse.ArgumentTypeError(f"'{text}': allowed are 1 to {ROWS_MAX}")
    return int(text)


def show(path: pathlib.Path, at: int, since: int | None, arguments: argparse.Namespace, root: str) -> None:
    profile = profile_of(path, at, since)
    tell_lost(profile)
    allocated = arguments.allocated or arguments.seconds is not None
    symbols = Symbols(profile, not (arguments.no_symbols or arguments.threads), arguments.full_names, root)
    if arguments.json:
        print(profile_json(profile, symbols, arguments, "threads" if arguments.threads else "flow" if arguments.flow else "stacks", allocated))
    elif arguments.threads:
        print("\n".join(holders(profile, arguments.count)))
    elif arguments.pprof is not None:
        pprof.Writer(profile, symbols, TYPES, OWN).write(arguments.pprof)
        print(arguments.pprof)
    elif arguments.flow:
        print("\n".join(flow(profile, symbols, arguments.count)))
    else:
        print("\n".join(leaks(profile, symbols, arguments.count, allocated)))


def keep(path: pathlib.Path, arguments: argparse.Namespace) -> None:
    if arguments.keep is not None:
        shutil.copyfile(path, arguments.keep)
        arguments.keep.chmod(0o600)


def tell_lost(profile: Profile) -> None:
    if profile.moment.lost:
        print(f"hakozuna profile: {profile.moment.lost} sampled blocks were lost: figures are too low", file=sys.stderr)


# ---- command line ----------------------------------------------------------------------------------


def add_names(command: argparse.ArgumentParser) -> None:
    command.add_argument("--no-symbols", action="store_true", help="do not look up the names of functions")
    command.add_argument("--full-names", action="store_true", help="C++ names with their arguments, and every call within headers of libraries")


def parser() -> argparse.ArgumentParser:
    top = nearest.Parser(
        prog="hakozuna profile", description="Reads heap profiles that HAKOZUNA_PROFILE has written, or with a PID queries a process for one.",
        epilog="`hakozuna profile PID` is short for `hakozuna profile now PID`.",
    )  # fmt: skip
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, chooses: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", type=pathlib.Path, help="the file that the library has written")
        if chooses:
            command.add_argument("--at", type=int, metavar="N", help="the snapshot; default: the last")
            command.add_argument("--since", type=int, metavar="N", help="only what has changed since this snapshot")
            add_names(command)
        return command

    lists = [add("list", "List the snapshots of a file.", chooses=False)]
    pprof = add("pprof", "Write a profile for pprof.")
    pprof.add_argument("-o", "--output", type=pathlib.Path, help="default: FILE.pb.gz")
    add("folded", "Print folded stacks for flame graphs.").add_argument("--value", choices=TYPES, default="inuse_space")
    lists += [add("leaks", "Print the stack traces that hold the most memory."), add("threads", "Print how much live memory each thread has allocated.")]
    passing = add("flow", "Print which threads free what which threads allocated.")
    passing.add_argument("later", type=pathlib.Path, nargs="?", help="a later file of the process: only what has changed since FILE")
    text = "Query a running process, and print the stack traces that hold the most memory."
    now = commands.add_parser("now", help=text, description=text)
    now.add_argument("pid", type=running.process_number, metavar="PID", help="of a process that `hakozuna run --profile` or HAKOZUNA_PROFILE has started")
    times = now.add_mutually_exclusive_group()
    times.add_argument("--over", type=float, metavar="SECONDS", help="query twice, so many seconds apart, and print only what has changed")
    times.add_argument("--seconds", type=whole_seconds, metavar="N", help="print what is allocated in the next N seconds; a process that waits samples so long")
    times.add_argument("--start", action="store_true", help="a process that waits (HAKOZUNA_PROFILE=wait) begins to sample; so does the first question")
    times.add_argument("--stop", action="store_true", help="a process that waits ends that, whoever has begun it; prints what it has sampled")
    shown = now.add_mutually_exclusive_group()
    shown.add_argument("--threads", action="store_true", help="the threads that have allocated what is live, instead of stack traces")
    shown.add_argument("--flow", action="store_true", help="what one thread has allocated and another freed: by thread, pair, size and stack trace")
    shown.add_argument("--allocated", action="store_true", help="those that allocate the most, whether they free it or not")
    shown.add_argument("--pprof", type=pathlib.Path, metavar="FILE", help="write the profile to this file, for pprof")
    for command in (*lists, passing, now):
        command.add_argument("--json", action="store_true", help="the same figures as JSON")
    for command in (*lists[1:], passing, now):
        command.add_argument("--count", type=row_count, default=10, metavar="N", help="rows at most; default: %(default)d")
    now.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="copy the profile to this file, for the other commands")
    add_names(now)
    asking.add_signal_option(now)
    now.add_argument("--words", help="with --signal: the value of HAKOZUNA_PROFILE, for a program that overwrites its environment")
    now.add_argument("--wait", type=float, default=running.WAIT_SECONDS, metavar="SECONDS", help="for an answer; default: %(default)g")
    return top


def run(arguments: argparse.Namespace) -> None:
    if arguments.command == "list":
        moments = read_moments(arguments.file)
        print(listing_json(moments) if arguments.json else "\n".join(listing(moments)))
        return
    if arguments.command == "now":
        if arguments.json and arguments.pprof is not None:
            raise BadInput("--json and --pprof: only one of them; allowed beside --json: --threads, --flow, --allocated")
        ask(arguments)
        return
    profile = profile_of(arguments.file, arguments.at, arguments.since, getattr(arguments, "later", None))
    tell_lost(profile)
    symbols = Symbols(profile, not arguments.no_symbols and arguments.command != "threads", arguments.full_names)
    if arguments.command == "pprof":
        output = arguments.output or arguments.file.with_name(arguments.file.name + ".pb.gz")
        pprof.Writer(profile, symbols, TYPES, OWN).write(output)
        print(output)
    elif getattr(arguments, "json", False):
        print(profile_json(profile, symbols, arguments, {"leaks": "stacks"}.get(arguments.command, arguments.command)))
    elif arguments.command == "folded":
        print("\n".join(folded(profile, symbols, arguments.value)))
    elif arguments.command == "threads":
        print("\n".join(holders(profile, arguments.count)))
    elif arguments.command == "flow":
        print("\n".join(flow(profile, symbols, arguments.count)))
    else:
        print("\n".join(leaks(profile, symbols, arguments.count)))


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words and words[0].isdigit():
        words = ["now", *words]
    try:
        run(parser().parse_args(words))
        sys.stdout.flush()
    except (BadInput, running.Refused) as error:
        print(f"hakozuna profile: {error}", file=sys.stderr)
        return 1 if isinstance(error, running.NoAnswer) else 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"hakozuna profile: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
