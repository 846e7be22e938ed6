#!/usr/bin/env python3
"""Writes docs/counters.md from the lists of counters.

usage: counters.py [--check]     --check: write nothing; exit 1 when the page is stale

Reads src/heap/counters.def and engine_counters.def of each engine. Figures that src/heap/report/stats.c computes instead of counting,
and those of the parts of each engine's mailbox (its way.h), are described in COMPUTED below or, if they are no counters, in
docs/formats/stats-schema.json; a figure that only the sources or only COMPUTED has is a fault. Faults are reported as
`file:line: what`.
"""

import argparse
import json
import pathlib
import re
import sys
from typing import NamedTuple

import lanes

ROOT = lanes.ROOT
COMMON = "src/heap/counters.def"
ENGINE_LISTS = "src/engines/*/engine_counters.def"
REPORT = "src/heap/report/stats.c"
LISTS = "src/ways/lists/sent.c"  # what only lanes with mailboxes report
MAILBOXES = "src/engines/*/way.h"
PAGE = "docs/counters.md"
SCHEMA = "docs/formats/stats-schema.json"

COUNTER = re.compile(
    r'COUNTER\("(?P<group>[a-z]+)", (?P<field>[a-z_]+), "(?P<name>[a-z0-9_]+)", (?P<kind>SUM|MAX|HOT), "(?P<text>[^"]+)"\)'
)
WANTED = 'COUNTER("group", field, "name", SUM or MAX or HOT, "text")'
REPORTED = re.compile(r'hz_report_(?:number|string)\(report, "(?P<name>[a-z0-9_]+)"')
PART = re.compile(r'^#define HZ_[A-Z]+_FIGURE +"(?P<name>[a-z0-9_]+)"$', re.MULTILINE)

# In the order of the report. Each is a section of the page.
GROUPS = {
    "counters": "Blocks of all classes, pages and threads.",
    "mid": "Blocks above 2 KiB and up to 2 MiB.",
    "remote": "Blocks that return to their shard. `push_objs`, `pageq_enq`, `pop_calls`, `pageq_deq`, `drain_total` and `blocks_per_100_pages` stay 0\nunless "
    "blocks are sent to their pages: lane hz4-pageq, and hz3 with `HZ_PAGE_LOCAL_REMOTE=1`.",
    "os": "Memory from the operating system.",
    "locks": "A shard's lock, `exclusive`.",
    "rest": "Cached and free bytes, by where they are ([memory](memory.md)). Only the arena's say how much of it is resident: elsewhere free and live blocks share "
    "pages.",
    "threads": "One row for each thread of the program that has a thread block, but for the keeper.",
}


class CounterError(Exception):
    """A fault in a list of counters."""


class Counter(NamedTuple):
    """`engines` is empty when all engines have the counter."""

    group: str
    name: str
    kind: str
    text: str
    engines: tuple[str, ...] = ()


COMPUTED = [
    Counter("counters", "threads", "SUM", "thread blocks that living threads use"),
    Counter("counters", "thread_blocks", "SUM", "thread blocks made; they are reused: about the most threads that were attached at the same time"),
    Counter("counters", "shards", "SUM", "shards made, at most `HZ_NUM_SHARDS`"),
    Counter("counters", "meta_bytes", "SUM", "bytes mapped for the allocator's own structures, without page tags and segment directory"),
    Counter("mid", "malloc_calls", "HOT", "allocations: `alloc_cache_hit` + `depot_hit` + `lock_path`"),
    Counter("mid", "free_calls", "HOT", "frees by attached threads, computed from allocations, refills, flushes and what the bins hold"),
    Counter("mid", "free_batch_enq", "HOT", "frees that put the block into a bin: the same number as `free_calls`"),
    Counter("remote", "blocks_per_100_pages", "SUM", "average length of a page's remote list when it was taken, times 100: `drain_total` * 100 / `pageq_deq`"),
    Counter("os", "seg_acq", "SUM", "segments of 4 MiB obtained for pages"),
    Counter("os", "huge_asked", "SUM", "units of 2 MiB for which huge pages were asked"),
    Counter("os", "huge_refused", "SUM", "units of 2 MiB for which they were refused, since a part of the unit went back"),
    Counter("os", "huge_slow", "SUM", "units that took the kernel more than 2 ms to make resident"),
    Counter("os", "huge_most_us", "MAX", "the longest that the kernel took to make a unit resident, in microseconds"),
    Counter("os", "huge_collapsed", "SUM", "units whose small pages the keeper has collapsed into a huge page"),
    Counter("rest", "bins_bytes", "SUM", "freed blocks in the bins of threads"),
    Counter("rest", "remote_bytes", "SUM", "freed blocks in the remote buffers of threads"),
    Counter("rest", "stash_bytes", "SUM", "freed blocks in stashes", ("hz3",)),
    Counter("rest", "transfer_bytes", "SUM", "freed blocks in transfers", ("hz3",)),
    Counter("rest", "central_bytes", "SUM", "freed blocks in centrals", ("hz3",)),
    Counter("rest", "inbox_bytes", "SUM", "freed blocks in inboxes", ("hz4",)),
    Counter("rest", "carry_bytes", "SUM", "freed blocks in carries: left over from lists that refills took; only in lanes with mailboxes"),
    Counter("rest", "page_lists_bytes", "SUM", "freed blocks in the lists of their pages; 0 unless blocks are sent to their pages"),
    Counter("rest", "waiting_bytes", "SUM", "all that waits for a shard: the sum of the figures between `remote_bytes` and this one"),
    Counter("rest", "depot_bytes", "SUM", "freed blocks in the depot"),
    Counter("rest", "pages_bytes", "SUM", "free blocks in pages that hold memory: the slack"),
    Counter("rest", "arena_bytes", "SUM", "free pages and units that hold memory"),
    Counter("rest", "hollow_bytes", "SUM", "bytes of free blocks and unused ends of pages that hold no memory: returned to the system or never touched"),
    Counter("rest", "keeper", "SUM", "1 while the keeper runs"),
    Counter("threads", "number", "SUM", "number of the thread block; a later thread can get the same"),
    Counter("threads", "thread_id", "SUM", "the kernel's number of the thread; 0 if not known: archives, `dlopen`, a fork's child, a first thread that allocates early"),
    Counter("threads", "name", "SUM", "the thread's name; empty if not known"),
    Counter("threads", "shard", "SUM", "number of the thread's shard"),
    Counter("threads", "bins_bytes", "SUM", "freed blocks in its bins"),
    Counter("threads", "remote_bytes", "SUM", "freed blocks in its remote buffer"),
    Counter("threads", "parked", "SUM", "1 while the thread is parked ([memory](memory.md#sleeping-threads))"),
    Counter("threads", "refill", "SUM", "bins found empty, by all threads that have had the thread block"),
    Counter("threads", "flush", "SUM", "bins flushed because they were full, by all threads that have had the thread block"),
]  # fmt: skip

HEAD = """\
<!-- written by tools/counters.py (make docs); do not edit -->
# Counters

`hz_stats_print` writes these figures in the groups below, as JSON and, without zeros, with `HZ_STATS_VERBOSE` ([statistics](statistics.md));
[stats-schema.json](formats/stats-schema.json) describes what else is in a JSON report. Each thread writes counters of its own. The report adds up all thread
blocks, used or not, since the start of the process; a fork's child continues from its parent's counts. An engine in parentheses: only it prints the counter.
*stats*: only builds with statistics count it, because the path is too short for a counter (`-DHZ_STATS=ON`, preset `stats`, presets with assertions).
"""

READING = """
## Reading them
* `refill` divided by the number of allocations is the miss rate of the bins. `refill_depot` near `refill`: threads live off each other's frees.
* `page_create` and `page_retire` both high: a class swings between many pages and few.
* `direct_home` or `central_send` high: consumers free far more than the owners of their blocks allocate, or these owners have ended.
* `lock_path` divided by `malloc_calls`: the share of allocations above 2 KiB that take a shard's lock.
* `remote_free` divided by `remote_flush_calls`: blocks in one flush of a remote buffer. Both are 0 in the lanes of hz3 (`HZ_HOME_BELOW_BYTES` is 0).
* `mail_blocks` divided by `inbox_push_list`: about a list's length. `inbox_consume` far below `inbox_push_list`: lists pile up.
* `ls_acq_miss` and `ls_rel_miss` high: threads share a shard, or senders find its mailbox full and put blocks into its pages themselves.
"""


def read_counters(text: str, path: str, engines: tuple[str, ...] = (), before: tuple[Counter, ...] = ()) -> list[Counter]:
    """The counters of one file. `before`: counters that the library already has, from other files."""
    found: list[Counter] = []
    for number, line in enumerate(lanes.strip_comments(text).splitlines(), 1):
        line, place = line.strip(), f"{path}:{number}"
        if not line:
            continue
        match = COUNTER.fullmatch(line)
        if match is None:
            raise CounterError(f"{place}: '{line}' is not a counter; want {WANTED}")
        counter = Counter(match["group"], match["name"], match["kind"], match["text"], engines)
        if counter.group not in GROUPS:
            raise CounterError(f"{place}: group '{counter.group}' of {counter.name} is not one of: {', '.join(GROUPS)}")
        if any((other.group, other.name) == (counter.group, counter.name) for other in (*before, *found)):
            raise CounterError(f"{place}: {counter.group}.{counter.name} is defined twice")
        found.append(counter)
    if not found:
        raise CounterError(f"{path}:1: no counters; want lines {WANTED}")
    return found


def names_in_schema(schema: dict) -> set[str]:
    """The keys that the rows and groups of a report can have."""
    groups = schema["properties"].values()
    return {name for group in groups for name in group.get("items", group).get("properties", {})}


def require_computed(
    text: str, path: str, pattern: re.Pattern = REPORTED, engines: tuple[str, ...] = (), elsewhere: frozenset[str] = frozenset()
) -> None:
    """Each figure that a source reports is in COMPUTED or `elsewhere`, and COMPUTED has no other figure of these engines."""
    there = {found["name"]: text.count("\n", 0, found.start()) + 1 for found in pattern.finditer(text)}
    described = {counter.name for counter in COMPUTED if counter.engines == engines}
    for name in sorted(set(there) - described - elsewhere):
        raise CounterError(f"{path}:{there[name]}: reports '{name}', which COMPUTED in tools/counters.py does not describe")
    for name in sorted(described - set(there)):
        raise CounterError(f"{path}:1: does not report '{name}', which COMPUTED in tools/counters.py describes")


def read_all(root: pathlib.Path) -> list[Counter]:
    """All counters: those that are computed, the common ones, and those of each engine."""
    elsewhere = frozenset(names_in_schema(json.loads((root / SCHEMA).read_text(encoding="utf-8"))))
    texts = (path.read_text(encoding="utf-8") for path in (root / REPORT, root / LISTS) if path.is_file())
    require_computed("".join(texts), REPORT, elsewhere=elsewhere)
    for path in sorted(root.glob(MAILBOXES)):
        require_computed(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), PART, (path.parent.name,))
    common = read_counters((root / COMMON).read_text(encoding="utf-8"), COMMON, before=tuple(COMPUTED))
    lists = sorted(root.glob(ENGINE_LISTS))
    if not lists:
        raise CounterError(f"{ENGINE_LISTS}:1: no engines")
    counters = [*COMPUTED, *common]
    for path in lists:
        name = path.relative_to(root).as_posix()
        counters += read_counters(path.read_text(encoding="utf-8"), name, (path.parent.name,), (*COMPUTED, *common))
    return counters


def item(counter: Counter) -> str:
    """`* `name`: what it counts (hz4, stats)`: which engine and which builds, unless it is all of them."""
    text = counter.text + ("; the largest value of any thread" if counter.kind == "MAX" else "")
    limits = [*counter.engines, *(["stats"] if counter.kind == "HOT" else [])]
    return f"* `{counter.name}`: {text}" + (f" ({', '.join(limits)})" if limits else "")


def page(counters: list[Counter]) -> str:
    lines = [HEAD.rstrip("\n")]
    for group, about in GROUPS.items():
        items = [item(counter) for counter in counters if counter.group == group]
        lines += ["", f"## {group}", about, "", *items]
    return "\n".join(lines) + "\n" + READING


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=f"Writes {PAGE}.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is stale")
    options = parser.parse_args(arguments)
    path = ROOT / PAGE
    try:
        wanted = page(read_all(ROOT))
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            return 0
        if options.check:
            print(f"counters: {PAGE} is stale; `make docs` writes it", file=sys.stderr)
            return 1
        path.write_text(wanted, encoding="utf-8")
        print(f"counters: wrote {PAGE}")
    except (CounterError, OSError) as error:
        print(f"counters: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
