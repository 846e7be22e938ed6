"""Reads the heap out of a core file: what `hakozuna stats --core FILE` shows (docs/formats.md). Used by heap_stats.py.

The core file has the memory of the process, and the library says in it where its structures lie and what they look like
(src/base/os/anatomy.h). So nothing here knows an offset, and neither the program nor the library's file is needed.

The process may have stopped at any instant: a thread may be in the middle of a change, the program may have overwritten what it
likes, and parts may be missing. So no number that is read is trusted: every walk is bounded, and what does not fit together is
left out and reported (`unsure`).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import running

# ---- the file --------------------------------------------------------------------------------------

PT_LOAD, PT_NOTE, ET_CORE, PN_XNUM = 1, 4, 4, 0xFFFF
NT_PRSTATUS, NT_PRPSINFO, NT_FILE = 1, 3, 0x46494C45
NOTE_BYTES_MAX = 256 << 20


@dataclass(frozen=True)
class Part:
    """Neighbouring memory of the process that is in the file; the file can be cut off before its end."""

    begin: int
    end: int
    offset: int


@dataclass
class About:
    """What the notes say of the process."""

    program: str = ""
    pid: int = 0
    signal: int = 0
    threads: int = 0
    files: list[tuple[int, int, str]] = field(default_factory=list)  # begin, end, name of each mapped file's mapping


class Core:
    """The memory of a process, by its addresses."""

    def __init__(self, path: str):
        self.path = path
        try:
            with open(path, "rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise running.Refused(f"cannot read '{path}': {getattr(error, 'strerror', None) or 'it is empty'}") from error
        ident = self.data[:16]
        if ident[:4] != b"\x7fELF":
            raise running.Refused(f"'{path}' is no core file: it is not in the format ELF{compressed(ident)}")
        if ident[4] != 2:
            raise running.Refused(f"'{path}' is the core file of a 32-bit program, which hakozuna does not support")
        self.order = "<" if ident[5] == 1 else ">"
        self.about = About()
        self.missing = 0
        try:
            kind, self.parts, notes = self.headers()
        except struct.error as error:
            raise running.Refused(f"'{path}' is cut off in its headers") from error
        if kind != ET_CORE:
            raise running.Refused(f"'{path}' is no core file, but a program or a library")
        self.begins = [part.begin for part in self.parts]
        for note in notes:
            with contextlib.suppress(struct.error):  # cut off
                self.take_notes(note)

    def headers(self) -> tuple[int, list[Part], list[bytes]]:
        kind = struct.unpack_from(self.order + "H", self.data, 16)[0]
        table, sections = struct.unpack_from(self.order + "QQ", self.data, 32)
        entry_bytes, count = struct.unpack_from(self.order + "HH", self.data, 54)
        if count == PN_XNUM:  # the number is in section header 0
            count = struct.unpack_from(self.order + "I", self.data, sections + 44)[0]
        parts, notes = [], []
        for index in range(count):
            at = table + index * entry_bytes
            what, _flags, offset, address, _physical, in_file, in_memory = struct.unpack_from(self.order + "IIQQQQQ", self.data, at)
            if what == PT_NOTE:
                notes.append(self.data[offset : offset + min(in_file, NOTE_BYTES_MAX)])
            elif what == PT_LOAD and min(in_file, in_memory) > 0:
                there = max(0, min(in_file, in_memory, len(self.data) - offset))
                self.missing += min(in_file, in_memory) - there
                if there > 0:
                    parts.append(Part(address, address + there, offset))
        return kind, sorted(parts, key=lambda part: part.begin), notes

    def take_notes(self, data: bytes) -> None:
        at = 0
        while at + 12 <= len(data):
            name_bytes, length, kind = struct.unpack_from(self.order + "III", data, at)
            at += 12 + (name_bytes + 3 & ~3)
            body = data[at : at + length]
            at += length + 3 & ~3
            if kind == NT_PRSTATUS and length > 36:
                self.about.threads += 1
                if self.about.threads == 1:  # the thread that was hit, or the one that gdb was at
                    self.about.signal = struct.unpack_from(self.order + "H", body, 12)[0]
            elif kind == NT_PRPSINFO and length >= 56:
                self.about.pid = struct.unpack_from(self.order + "I", body, 24)[0]
                self.about.program = body[40:56].split(b"\0")[0].decode("ascii", "replace").replace("\ufffd", "?")
            elif kind == NT_FILE and length > 16:
                self.take_files(body)

    def take_files(self, body: bytes) -> None:
        count = struct.unpack_from(self.order + "Q", body)[0]
        names = body[16 + 24 * count :].split(b"\0")
        for index in range(min(count, len(names))):
            begin, end, _offset = struct.unpack_from(self.order + "QQQ", body, 16 + 24 * index)
            self.about.files.append((begin, end, os.fsdecode(names[index])))

    def read(self, address: int, length: int) -> bytes | None:
        """None unless all of it is in the file."""
        found = b""
        while len(found) < length:
            index = bisect_right(self.begins, address + len(found)) - 1
            if index < 0 or address + len(found) >= self.parts[index].end:
                return None
            part, at = self.parts[index], address + len(found)
            offset = part.offset + at - part.begin
            found += self.data[offset : offset + min(length - len(found), part.end - at)]
        return found

    def number(self, address: int, length: int) -> int | None:
        data = self.read(address, length)
        return None if data is None else int.from_bytes(data, "little" if self.order == "<" else "big")

    def numbers(self, data: bytes, length: int) -> tuple[int, ...]:
        letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[length]
        return struct.unpack(f"{self.order}{len(data) // length}{letter}", data[: len(data) // length * length])


def compressed(ident: bytes) -> str:
    """Advice on files as systemd-coredump and others store them."""
    for magic, how in ((b"\x28\xb5\x2f\xfd", "zstd -d"), (b"\x1f\x8b", "gunzip"), (b"\xfd7zXZ", "unxz"), (b"\x04\x22\x4d\x18", "lz4 -d")):
        if ident.startswith(magic):
            return f"; it is compressed: unpack it with {how}"
    return ""


# ---- what the library says of itself ---------------------------------------------------------------

MAGIC = b"\x7fhakozuna anatomy "
VERSION = b"1"
NAME_BYTES = 48
ENTRIES_MAX = 1000


@dataclass(frozen=True)
class Entry:
    value: int
    bytes: int


class Anatomy:
    """The entries of one copy of the library, by name."""

    def __init__(self, entries: dict[str, Entry]):
        self.entries = entries

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __getitem__(self, name: str) -> int:
        return self.entry(name).value

    def entry(self, name: str) -> Entry:
        try:
            return self.entries[name]
        except KeyError as error:
            raise running.Refused(f"the library in the core file is not of this version: it does not say where '{name}' is") from error


def anatomies(core: Core) -> list[Anatomy]:
    """One for each copy of the library in the process: there are several if one that is linked with the library loads another."""
    found: dict[object, dict[str, Entry]] = {}
    for part, owner in parts_to_search(core):
        at, end = part.offset, part.offset + part.end - part.begin
        while (at := core.data.find(MAGIC, at, end)) >= 0:
            entries = anatomy_at(core, part.begin + at - part.offset)
            if entries:
                found.setdefault(owner, {}).update(entries)
            at += 1
    return [Anatomy(entries) for entries in found.values() if "arena" in entries and "config" in entries]


def parts_to_search(core: Core) -> Iterator[tuple[Part, object]]:
    """Memory of mapped files, if the file says which that is, and who owns it. Otherwise everything."""
    if not core.about.files:
        yield from ((part, None) for part in core.parts)
        return
    names = {begin: name for begin, _end, name in core.about.files}
    begins = sorted(names)
    ends = {begin: end for begin, end, _name in core.about.files}
    for part in core.parts:
        index = bisect_right(begins, part.begin) - 1
        if index >= 0 and part.begin < ends[begins[index]]:
            yield part, names[begins[index]]


def anatomy_at(core: Core, address: int) -> dict[str, Entry]:
    entry_bytes = NAME_BYTES + 16
    entries: dict[str, Entry] = {}
    for index in range(ENTRIES_MAX):
        data = core.read(address + index * entry_bytes, entry_bytes)
        if data is None:
            return {}
        name = data[:NAME_BYTES].rstrip(b"\0")
        value, length = struct.unpack_from(core.order + "QQ", data, NAME_BYTES)
        if index == 0:
            if name == MAGIC + VERSION and value == entry_bytes:
                continue
            if re.fullmatch(re.escape(MAGIC) + rb"[0-9]+", name):
                raise running.Refused("the library in the core file is not of this version: its description has another form")
            return {}
        if not name:
            return entries
        entries[name.decode("ascii", "replace")] = Entry(value, length)
    return {}


# ---- the heap --------------------------------------------------------------------------------------


@dataclass
class ClassFigures:
    block_bytes: int
    pages: int = 0
    run_pages: int = 0
    capacity: int = 0
    free: int = 0
    resting: int = 0
    depot: int = 0
    hollow_bytes: int = 0

    @property
    def live(self) -> int:
        return max(0, self.capacity - self.free - self.resting)

    def free_bytes(self, page_bytes: int) -> int:
        """What the pages hold beside the blocks that are out."""
        return max(0, self.run_pages * page_bytes - (self.live + self.resting) * self.block_bytes - self.hollow_bytes)

    def held_bytes(self, page_bytes: int) -> int:
        return (self.live + self.resting) * self.block_bytes + self.free_bytes(page_bytes)


@dataclass(frozen=True)
class Page:
    """A page of blocks of one size."""

    start: int
    size_class: int
    block_bytes: int
    capacity: int
    rotation: int
    free_bits: int

    def place(self, address: int) -> int:
        """Where the memory of a block begins: the program's pointer to a long one can be a little behind (base/arena/spread.h)."""
        return address - (address - self.start) % self.block_bytes

    def blocks(self, is_free: bool) -> Iterator[int]:
        """Places of those blocks that are free in the page, or that are out."""
        for bit in range(self.capacity):
            if (self.free_bits >> bit & 1) == is_free:
                yield self.start + (bit + self.rotation) % self.capacity * self.block_bytes


@dataclass
class Block:
    start: int
    bytes: int
    is_alone: bool = False


def ones(value: int) -> int:
    return bin(value).count("1")


class Heap:
    """The figures of heap/report/figures.c, from a core file."""

    def __init__(self, core: Core, anatomy: Anatomy):
        self.core, self.anatomy = core, anatomy
        self.unsure: list[str] = []
        self.strange: Counter[str] = Counter()
        self.classes: dict[int, ClassFigures] = {}
        self.pages: dict[int, Page] = {}  # by the address of each 64 KiB that the page has
        self.runs: list[Block] = []
        self.direct: list[Block] = []
        self.tiers: Counter[str] = Counter()  # bytes
        self.threads: list[dict] = []
        self.lists: list[tuple[int, int, int]] = []  # size class, first block, count: not walked yet
        self.resting: set[int] = set()  # addresses of blocks that rest outside their pages
        self.counters: dict[str, dict[str, int]] = {group: {} for group in ("counters", "mid", "remote", "os", "locks")}
        self.free_dirty_bytes = self.used_bytes = self.paged_segments = 0
        self.arena = anatomy["arena"]
        self.config = self.text("config")
        self.walk_segments()
        self.walk_shards()
        self.walk_depot()
        self.walk_cpu_bins()
        self.walk_threads()
        self.walk_zones()
        self.walk_lists()
        self.note_unsure()

    # reading

    def value(self, address: int, name: str) -> int:
        """A field of the struct at the address. 0 if it is not in the file."""
        entry = self.anatomy.entry(name)
        return self.word(address + entry.value, entry.bytes)

    def word(self, address: int, length: int = 8) -> int:
        value = self.core.number(address, length)
        if value is None:
            self.strange["words that the core file does not have"] += 1
            return 0
        return value

    def object(self, name: str) -> int:
        """The value of a global variable."""
        entry = self.anatomy.entry(name)
        return self.word(entry.value, entry.bytes)

    def text(self, name: str) -> str:
        entry = self.anatomy.entry(name)
        return (self.core.read(entry.value, entry.bytes) or b"").split(b"\0")[0].decode("ascii", "replace")

    def part_of(self, data: bytes, name: str, base: int = 0) -> int:
        entry = self.anatomy.entry(name)
        at = base + entry.value
        return int.from_bytes(data[at : at + entry.bytes], "little" if self.core.order == "<" else "big")

    # segments

    def walk_segments(self) -> None:
        count = self.value(self.arena, "arena.count")
        arrays = {}
        for name, at in (
            ("segments", self.value(self.arena, "arena.segments")),
            ("free", self.value(self.arena + self.anatomy["arena.pages"], "hz_runmap.free_masks")),
            ("dirty", self.value(self.arena + self.anatomy["arena.pages"], "hz_runmap.dirty_masks")),
        ):
            data = self.core.read(at, count * 8) if count else b""
            if data is None:
                raise running.Refused("the core file does not have the table of the heap's segments: it is cut off, or was written without private memory")
            arrays[name] = self.core.numbers(data, 8)
        for segment, free, dirty in zip(arrays["segments"], arrays["free"], arrays["dirty"]):
            kind = self.value(segment, "hz_segment.kind") if segment else 0
            if kind == self.anatomy["HZ_SEGMENT_PAGED"]:
                self.take_paged(segment, free, dirty)
            elif kind == self.anatomy["HZ_SEGMENT_DIRECT"]:
                is_alone = self.value(segment, "hz_segment.region") == 0
                self.direct.append(Block(self.value(segment, "hz_segment.base"), self.value(segment, "hz_segment.direct_bytes"), is_alone))

    def take_paged(self, segment: int, free: int, dirty: int) -> None:
        page_bytes, pages = self.anatomy["HZ_PAGE_BYTES"], self.anatomy["HZ_SEGMENT_PAGES"]
        every = (1 << pages) - 1
        self.paged_segments += 1
        self.free_dirty_bytes += ones(dirty & free) * page_bytes
        self.used_bytes += ones(~free & every) * page_bytes
        data = self.core.read(segment, self.anatomy["hz_segment"])
        if data is None:
            self.strange["segments whose description the core file does not have"] += 1
            return
        base = self.part_of(data, "hz_segment.base")
        run_pages = data[self.anatomy["hz_segment.run_pages"] :][:pages]
        first = 0
        while first < pages:
            length = run_pages[first]
            run = ((1 << length) - 1) << first
            if free >> first & 1:
                first += 1
            elif length == 0 or run & (free | ~every):  # its holder is about to begin it or end it
                self.strange["pages of 64 KiB that a thread was about to get or to give back"] += 1
                first += 1
            else:
                self.take_run(data, base + first * page_bytes, first, length)
                first += length

    def take_run(self, segment: bytes, start: int, first: int, length: int) -> None:
        at = self.anatomy["hz_segment.meta"] + first * self.anatomy["HZ_PAGE_META_BYTES"]
        page_bytes = self.anatomy["HZ_PAGE_BYTES"]
        size_class = self.part_of(segment, "hz_page.size_class", at)
        if size_class == 0:
            self.runs.append(Block(start, length * page_bytes))
            return
        block_bytes = self.part_of(segment, "hz_page.block_bytes", at)
        capacity = self.part_of(segment, "hz_page.capacity", at)
        run_pages = self.part_of(segment, "hz_page.run_pages", at)
        room = self.anatomy["HZ_PAGE_META_BYTES"] - self.anatomy["hz_page.free_bits"]
        if not 0 < size_class < self.anatomy["HZ_CLASS_COUNT"] or run_pages != length or not 0 < capacity <= 8 * room or (
            capacity != length * page_bytes // max(block_bytes, 1)
        ):
            self.strange["pages whose description makes no sense"] += 1
            return
        bits_at = at + self.anatomy["hz_page.free_bits"]
        bits = 0
        for index, word in enumerate(self.core.numbers(segment[bits_at : bits_at + (capacity + 63) // 64 * 8], 8)):
            bits |= word << 64 * index
        free = ones(bits & (1 << capacity) - 1)
        if free != self.part_of(segment, "hz_page.free_count", at):
            self.strange["pages that a thread was about to change"] += 1
        figures = self.classes.setdefault(size_class, ClassFigures(block_bytes))
        figures.pages += 1
        figures.run_pages += length
        figures.capacity += capacity
        figures.free += free
        figures.hollow_bytes += ones(self.part_of(segment, "hz_page.purged_units", at)) << self.part_of(segment, "hz_page.unit_log2", at)
        page = Page(start, size_class, block_bytes, capacity, self.part_of(segment, "hz_page.rotation", at), bits)
        for index in range(length):
            self.pages[start + index * page_bytes] = page
        if self.anatomy["HZ_WAY_IS_QUEUES"]:
            self.take_list("page_lists", size_class, self.part_of(segment, "hz_page.remote", at))

    def take_list(self, tier: str, size_class: int, word: int) -> None:
        """A list through free blocks: its word has the number of blocks above the address of the first one."""
        shift = self.anatomy["HZ_LIST_COUNT_SHIFT"]
        count, block = word >> shift & 0xFFFF, word & (1 << shift) - 1
        self.rest(tier, size_class, count)
        self.lists.append((size_class, block, count))

    def rest(self, tier: str, size_class: int, blocks: int) -> int:
        """Notes that blocks rest outside their pages. Returns their bytes."""
        if blocks == 0:
            return 0
        figures = self.classes.get(size_class)
        if figures is None or figures.resting + blocks > figures.capacity:
            self.strange["free blocks that are listed where none can be"] += blocks
            return 0
        figures.resting += blocks
        figures.depot += blocks if tier == "depot" else 0
        self.tiers[tier] += blocks * figures.block_bytes
        return blocks * figures.block_bytes

    # tiers

    def shards(self) -> list[int]:
        entry = self.anatomy.entry("shards")
        found = self.core.numbers(self.core.read(entry.value, entry.bytes) or b"", 8)
        return list(found[: found.index(0)] if 0 in found else found)  # they are made in order

    def walk_shards(self) -> None:
        for number, shard in enumerate(self.shards()):
            for size_class in range(1, self.anatomy["HZ_CLASS_COUNT"]):
                home = shard + self.anatomy["hz_shard.classes"] + size_class * self.anatomy["hz_shard_class"]
                self.take_stack(size_class, self.value(home, "hz_shard_class.surplus.word"))
            if "boxes" in self.anatomy.entries:
                self.walk_boxes(number)

    def walk_boxes(self, number: int) -> None:
        """What waits for shard `number`, in lanes with mailboxes."""
        mails = [(name.removeprefix("mail."), entry) for name, entry in self.anatomy.entries.items() if name.startswith("mail.")]
        for name in ("carry", *(name.removesuffix("_bytes") for name, _entry in mails)):
            self.tiers[name] += 0
        boxes = self.anatomy["boxes"] + number * self.anatomy["hz_boxes"] + self.anatomy["hz_boxes.classes"]
        for size_class in range(1, self.anatomy["HZ_CLASS_COUNT"]):
            box = boxes + size_class * self.anatomy["hz_box"]
            self.take_list("carry", size_class, self.value(box, "hz_box.carry"))
            for name, entry in mails:
                data = self.core.read(box + self.anatomy["hz_box.mail"] + entry.value, entry.bytes)
                for word in self.core.numbers(data or b"", 8):
                    self.take_list(name.removesuffix("_bytes"), size_class, word)

    def take_stack(self, size_class: int, word: int) -> None:
        """A stack of the depot: its word has the number of blocks above the index of the top batch."""
        bits = self.anatomy["INDEX_BITS"]
        count, index = word >> bits & (1 << self.anatomy["HZ_STACK_COUNT_BITS"]) - 1, word & (1 << bits) - 1
        self.rest("depot", size_class, count)
        while index != 0 and count > 0:
            kind, number = index & 1, (index >> 1) - 1
            chunk, inside = number >> self.anatomy["CHUNK_LOG2"], number & (1 << self.anatomy["CHUNK_LOG2"]) - 1
            chunks = self.anatomy.entry("batches.chunks")
            at = self.word(chunks.value + kind * (chunks.bytes // 2) + chunk * 8)
            at += inside * self.anatomy["LONG_BYTES" if kind else "SHORT_BYTES"]
            held = self.value(at, "batch.count")
            blocks = self.core.read(at + self.anatomy["batch.blocks"], min(held, count) * 8)
            if not held or blocks is None:
                break
            self.resting.update(self.places_of(self.core.numbers(blocks, 8)))
            count -= held
            index = self.value(at, "batch.next")

    def walk_depot(self) -> None:
        stacks, parts, stack_bytes = self.anatomy.entry("depot.stacks"), self.anatomy["HZ_DEPOT_PARTS"], self.anatomy["hz_part_stack"]
        for part in range(parts):
            for size_class in range(1, self.anatomy["HZ_CLASS_COUNT"]):
                at = stacks.value + part * (stacks.bytes // parts) + size_class * stack_bytes
                self.take_stack(size_class, self.word(at))

    def walk_cpu_bins(self) -> None:
        slab = self.object("cpu_bins.made_last") if "cpu_bins.made_last" in self.anatomy else 0
        for slab in self.chain(slab, "hz_cpu_slab.made_before"):
            for size_class in range(1, self.anatomy["HZ_CLASS_COUNT"]):
                at = slab + self.anatomy["hz_cpu_slab.bins"] + size_class * self.anatomy["hz_cpu_bin"]
                first = self.value(at, "hz_cpu_bin.first")
                blocks = self.core.read(slab + first, max(0, self.value(at, "hz_cpu_bin.top") - first)) or b""
                self.rest("bins", size_class, len(blocks) // 8)
                self.resting.update(self.places_of(self.core.numbers(blocks, 8)))

    def chain(self, address: int, link: str) -> Iterator[int]:
        """The structs of a list. Ends at one that was met before, or that the file does not have."""
        seen: set[int] = set()
        while address != 0:
            if address in seen or self.core.read(address + self.anatomy[link], 8) is None:
                self.strange["lists that lead nowhere"] += 1
                return
            seen.add(address)
            yield address
            address = self.value(address, link)

    # zones

    def walk_zones(self) -> None:
        """What the cursors of zones have not handed out is free, though the pages say that it is taken."""
        for zone in self.chain(self.object("zones"), "hz_zone.next_made"):
            for size_class, figures in self.classes.items():
                if size_class >= self.anatomy["HZ_ZONE_CURSORS"]:
                    continue
                cursor = zone + self.anatomy["hz_zone.cursors"] + size_class * self.anatomy["hz_zone_cursor"]
                start = self.value(cursor, "hz_zone_cursor.start")
                left = range(self.value(cursor, "hz_zone_cursor.next"), self.value(cursor, "hz_zone_cursor.end"), figures.block_bytes)
                figures.free += len(left)
                self.resting.update(start + at for at in left)

    # threads

    def walk_threads(self) -> None:
        blocks = used = 0
        self.take_counters(self.anatomy["threads_ended"])
        for registered in self.chain(self.object("newest_thread"), "hz_registered.next"):
            blocks += 1
            state = self.value(registered, "hz_registered.state")
            used += state == self.anatomy["HZ_THREAD_USED"]
            if self.value(registered, "hz_registered.is_hollow"):
                continue
            thread = self.value(registered, "hz_registered.block")
            parked = self.value(thread, "hz_thread_block.parking.parked")
            in_bins = self.take_bins(thread)
            in_buffer = self.take_remote(thread)
            self.take_counters(thread + self.anatomy["hz_thread_block.counters"])
            label = self.value(registered, "hz_registered.label")
            busy = self.value(thread, "hz_thread_block.busy")
            if busy and state == self.anatomy["HZ_THREAD_USED"]:
                self.strange["threads that were inside malloc or free"] += 1
            if state == self.anatomy["HZ_THREAD_USED"] and label != 0:
                self.threads.append(
                    {
                        "number": self.value(registered, "hz_registered.number"),
                        "thread_id": label >> 32,
                        "name": "",
                        "shard": max(0, (label & 0xFFFFFFFF) - 1),
                        "bins_bytes": in_bins,
                        "remote_bytes": in_buffer,
                        "parked": int(parked != 0),
                        "refill": self.value(thread, "hz_thread_block.counters.refill"),
                        "flush": self.value(thread, "hz_thread_block.counters.flush"),
                    }
                )
        self.counters["counters"].update(threads=used, thread_blocks=blocks, shards=len(self.shards()), meta_bytes=self.object("meta_bytes"))

    def bin_blocks(self, thread: int, index: int) -> list[int]:
        """The blocks in a bin. Slots of a parked thread's bins can be empty, and one of its blocks can be gone."""
        cache = thread + self.anatomy["hz_thread_block.cache"]
        at = cache + self.anatomy["hz_cache.bins"] + index * self.anatomy["hz_bin"]
        base = self.word(cache + self.anatomy["hz_cache.bases"] + 4 * index, 4)
        top = self.value(at, "hz_bin.top")
        if top <= base or base == 0 or top - base > 8 * 0xFFFF:
            return []
        slots = self.core.read(thread + base, top - base)
        if slots is None:
            self.strange["bins that the core file does not have"] += 1
            return []
        gone = self.word(thread + self.anatomy["hz_thread_block.parking.gone"] + 8 * index)
        found = [*self.core.numbers(slots, 8)[1:], self.value(at, "hz_bin.newest")]
        return [block for block in found if block not in (0, gone)]

    def page_of(self, block: int) -> Page | None:
        return self.pages.get(block & ~(self.anatomy["HZ_PAGE_BYTES"] - 1))

    def places_of(self, blocks: Iterable[int]) -> Iterator[int]:
        return (page.place(block) for block in blocks if (page := self.page_of(block)) is not None)

    def take_bins(self, thread: int) -> int:
        total = 0
        for size_class in range(1, self.anatomy["HZ_CLASS_COUNT"]):
            blocks = self.bin_blocks(thread, size_class)
            pages = [self.page_of(block) for block in blocks]
            fitting = [page.place(block) for block, page in zip(blocks, pages) if page is not None and page.size_class == size_class]
            self.strange["pointers in bins that are no blocks of the size"] += len(blocks) - len(fitting)
            self.resting.update(fitting)
            total += self.rest("bins", size_class, len(fitting))
        return total

    def take_remote(self, thread: int) -> int:
        total = 0
        for block in self.bin_blocks(thread, self.anatomy["HZ_REMOTE_BIN"]):
            page = self.page_of(block)
            if page is None:
                self.strange["pointers in remote buffers that are no blocks"] += 1
            else:
                total += self.rest("remote", page.size_class, 1)
                self.resting.add(page.place(block))
        return total

    def take_counters(self, counters: int) -> None:
        for name, entry in self.anatomy.entries.items():
            if not name.startswith("counter."):
                continue
            path, _, kind = name.partition(" ")
            _, group, key = path.split(".", 2)
            if kind == "HOT" and not self.anatomy["HZ_CONFIG_STATS"]:
                continue
            known, value = self.counters[group].get(key, 0), self.word(counters + entry.value)
            self.counters[group][key] = max(known, value) if kind == "MAX" else known + value

    # what does not fit together

    def note_unsure(self) -> None:
        if self.core.missing:
            self.unsure.append(f"the core file is cut off: {self.core.missing} bytes of memory are missing")
        locks = [("the arena", self.arena + self.anatomy["arena.lock"])]
        locks += [(f"shard {index}", shard + self.anatomy["hz_shard.exclusive"]) for index, shard in enumerate(self.shards())]
        self.unsure += [f"a thread held the lock of {name}" for name, lock in locks if self.value(lock, "hz_lock.word")]
        self.unsure += [f"{count} {what}" for what, count in self.strange.items() if count]

    # the report

    def cached_units(self) -> int:
        """Units of direct blocks that were freed a moment ago."""
        groups, slots = self.anatomy["direct_cache.groups"], self.anatomy["KEPT_GROUPS"] * self.anatomy["KEPT_SLOTS"]
        words = [self.word(groups + 8 * slot) for slot in range(slots)]
        pages = [word >> self.anatomy["KEPT_INDEX_BITS"] & (1 << self.anatomy["KEPT_PAGES_BITS"]) - 1 for word in words]
        return sum(-(-(count << self.anatomy["KEPT_PAGE_LOG2"]) // self.anatomy["HZ_UNIT_BYTES"]) for count in pages)

    def resting_units(self) -> int:
        units = self.value(self.anatomy["regions"], "hz_runmap.counts") & 0xFFFFFFFF
        return (units + self.cached_units()) * self.anatomy["HZ_UNIT_BYTES"]

    def ranges(self) -> list[dict]:
        small, medium = self.anatomy["HZ_SMALL_MAX"], self.anatomy["HZ_CLASS_BYTES_MAX"]
        page_bytes = self.anatomy["HZ_PAGE_BYTES"]
        rows = []
        for name, up_to, low, high in (("small", small, 0, self.anatomy["HZ_MID_CLASS_FIRST"]), ("medium", medium, self.anatomy["HZ_MID_CLASS_FIRST"], 256)):
            found = [row for size_class, row in self.classes.items() if low <= size_class < high]
            rows.append(
                {
                    "name": name,
                    "up_to_bytes": up_to,
                    "live_bytes": sum(row.live * row.block_bytes for row in found),
                    "resting_bytes": sum(row.resting * row.block_bytes for row in found),
                    "free_bytes": sum(row.free_bytes(page_bytes) for row in found),
                    "held_bytes": sum(row.held_bytes(page_bytes) for row in found),
                    "live_blocks": sum(row.live for row in found),
                }
            )
        in_runs = sum(block.bytes for block in self.runs)
        with_blocks = sum(row.run_pages for row in self.classes.values()) * page_bytes + in_runs
        free_pages = self.free_dirty_bytes + self.resting_units() + max(0, self.used_bytes - with_blocks)
        in_direct = sum(block.bytes for block in self.direct)
        guard, profile = ({key: self.object(f"{name}.{key}") for key in keys} for name, keys in (
            ("guard", ("live_bytes", "live_blocks", "resident_bytes", "mapped_bytes")), ("profile", ("live_bytes", "live_blocks", "held_bytes")),
        ))  # fmt: skip
        for name, up_to, live, free, held, blocks in (
            ("large", self.anatomy["HZ_RUN_PAGES_MAX"] * page_bytes, in_runs, 0, in_runs, len(self.runs)),
            ("mapped", 0, in_direct, 0, in_direct, len(self.direct)),
            ("guarded", self.anatomy["HZ_GUARD_BLOCK_MAX"], guard["live_bytes"], max(0, guard["resident_bytes"] - guard["live_bytes"]), guard["resident_bytes"], guard["live_blocks"]),
            ("profiled", medium, profile["live_bytes"], max(0, profile["held_bytes"] - profile["live_bytes"]), profile["held_bytes"], profile["live_blocks"]),
            ("free pages", 0, 0, free_pages, free_pages, 0),
        ):  # fmt: skip
            rows.append({"name": name, "up_to_bytes": up_to, "live_bytes": live, "resting_bytes": 0, "free_bytes": free, "held_bytes": max(held, live), "live_blocks": blocks})
        return rows

    def totals(self, ranges: list[dict]) -> dict:
        held = {row["name"]: row["held_bytes"] for row in ranges}
        units, resident = self.resting_units(), sum(held.values())
        alone = [block for block in self.direct if block.is_alone]
        mapped = self.paged_segments * self.anatomy["HZ_SEGMENT_BYTES"] + held["mapped"] + units + self.object("guard.mapped_bytes") + held["profiled"]
        return {
            "live_bytes": sum(row["live_bytes"] for row in ranges),
            "cached_bytes": sum(row["resting_bytes"] for row in ranges),
            "free_bytes": sum(row["free_bytes"] for row in ranges),
            "resident_bytes": resident,
            "mapped_bytes": max(mapped, resident),
            "purged_bytes": self.value(self.arena, "arena.purged_bytes"),
            "mapping_count": len(self.direct),
            "alone_count": len(alone),
            "alone_bytes": sum(block.bytes for block in alone),
            "peak_bytes": max(self.object("peak_bytes"), resident),
        }

    def rest_figures(self) -> dict:
        waiting = [name for name in self.tiers if name not in ("bins", "remote", "depot")]
        found = {f"{name}_bytes": self.tiers[name] for name in dict.fromkeys(("bins", "remote", *waiting, "page_lists", "depot"))}
        found["waiting_bytes"] = sum(self.tiers[name] for name in waiting)
        slack = (self.value(shard, "hz_shard.free_bytes") for shard in self.shards())
        found["pages_bytes"] = sum(value for value in slack if value < 1 << 63)  # below 0: between two changes
        found["arena_bytes"] = self.free_dirty_bytes + self.resting_units()
        found["hollow_bytes"] = self.value(self.arena, "arena.hollow_bytes")
        return found

    def class_rows(self) -> list[dict]:
        page_bytes = self.anatomy["HZ_PAGE_BYTES"]
        rows = []
        for _, row in sorted(self.classes.items()):
            held = row.held_bytes(page_bytes)
            unused = max(0, held - row.live * row.block_bytes) * 1000 // held if held else 0
            rows.append({"block_bytes": row.block_bytes, "pages": row.pages, "live": row.live, "cached": row.resting, "free": row.free,
                         "depot_blocks": row.depot, "free_bytes": row.free_bytes(page_bytes), "held_bytes": held, "unused_permille": unused})  # fmt: skip
        return rows

    def large_rows(self) -> list[dict]:
        sizes: dict[int, list[int]] = {}
        for block in self.runs + self.direct:
            sizes.setdefault((block.bytes - 1).bit_length() if block.bytes > 1 else 0, []).append(block.bytes)
        return [{"up_to_bytes": 1 << size, "live_bytes": sum(found), "live_blocks": len(found)} for size, found in sorted(sizes.items())]

    def walk_lists(self) -> None:
        """Finds the blocks of the lists. The program may have overwritten a link: the rest of the list is not known then."""
        for size_class, block, count in self.lists:
            while count > 0 and (page := self.page_of(block)) is not None and page.size_class == size_class:
                self.resting.add(page.place(block))
                count -= 1
                block = self.word(block) if count else 0
            self.strange["blocks of lists whose links were overwritten"] += count
        self.lists = []

    def live_blocks(self) -> Iterator[Block]:
        """All blocks in use, the largest first."""
        yield from sorted(self.runs + self.direct, key=lambda block: (-block.bytes, block.start))
        pages = sorted({page.start: page for page in self.pages.values()}.values(), key=lambda page: (-page.block_bytes, page.start))
        for page in pages:
            yield from (Block(block, page.block_bytes) for block in sorted(page.blocks(False)) if block not in self.resting)

    def largest(self, count: int) -> list[dict]:
        return [{"address": block.start, "bytes": block.bytes} for block in islice(self.live_blocks(), count)]

    def report(self, largest: int) -> dict:
        """As docs/formats/stats-schema.json says."""
        about, ranges = self.core.about, self.ranges()
        version = re.search(r"(?:^| )version=(\S+)", self.config)
        not_known = "not known: read from a core file"
        self.counters["os"]["seg_acq"] = self.value(self.arena, "arena.segments_acquired")
        return {
            "version": version[1] if version else "0.0.0",
            "config": self.config,
            "process": {"program": about.program, "pid": about.pid, "keeper": not_known, "keeper_advice": "",
                        "soft_limit_bytes": 0, "soft_limit_source": not_known},
            "core": {"file": os.path.basename(self.core.path), "signal": about.signal, "threads": about.threads, "unsure": self.unsure},
            "heap": self.totals(ranges),
            **self.counters,
            "rest": self.rest_figures(),
            "ranges": ranges,
            "classes": self.class_rows(),
            "large": self.large_rows(),
            "largest": self.largest(largest),
            "threads": sorted(self.threads, key=lambda row: -row["number"]),
            "flow": [],
            "flow_pairs": [],
        }  # fmt: skip


def heaps(path: str) -> list[Heap]:
    """The heaps of a core file: one for each copy of the library that has been used, and at least one."""
    core = Core(path)
    found = [Heap(core, anatomy) for anatomy in anatomies(core)]
    if not found:
        if core.missing:
            raise running.Refused(f"'{path}' is cut off: {core.missing} bytes are missing, among them what the library says of itself")
        raise running.Refused(f"'{path}': the process did not run under hakozuna, or its memory is not in the file")
    used = [heap for heap in found if heap.classes or heap.runs or heap.direct]
    return used or found[:1]
