#!/usr/bin/env python3
"""Writes docs/lanes.md, and the marked table in docs/architecture.md, from the knobs and lanes of the engines.

usage: lanes.py [--check]     --check: write nothing; exit 1 when a file is not what would be written

Reads src/core/knobs.def, and of each engine engine_knobs.def and lanes/*.h; what follows from them (bytes in all bins of
a thread, and so on) is computed from what tools/lanes_probe.c, compiled with each lane ($CC, else cc), prints. A line that
is no knob, a lane that lacks one and a value out of range are reported as `file:line: what`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Callable, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORE_KNOBS = "src/core/knobs.def"
LANES_PAGE = "docs/lanes.md"
ARCHITECTURE_PAGE = "docs/architecture.md"
BEGIN = "<!-- written by tools/lanes.py: begin -->"
END = "<!-- written by tools/lanes.py: end -->"

KNOB = re.compile(r'KNOB\((?P<name>HZ_[A-Z0-9_]+), (?P<low>[0-9]+), (?P<high>[0-9]+), "(?P<text>[^"]+)"\)')
DEFINE = re.compile(r"#define (?P<name>HZ_[A-Z0-9_]+) +(?P<value>\S+)")
INCLUDE = re.compile(r'#include "(?P<name>lanes/[a-z0-9]+\.h)"')


class LaneError(Exception):
    """Something in the knobs or a lane that has to be put right."""


class Knob(NamedTuple):
    name: str
    low: int
    high: int
    text: str


class Engine(NamedTuple):
    """What its lanes are read with: knobs of core and its own."""

    name: str
    knobs: list[Knob]


class Lane(NamedTuple):
    engine: str
    name: str
    path: str
    values: dict[str, int]

    @property
    def title(self) -> str:
        return f"{self.engine}/{self.name}"

    @property
    def library(self) -> str:
        """As cmake/lane.cmake names it."""
        return f"libhakozuna_{self.engine}.so" if self.name == "default" else f"libhakozuna_{self.engine}_{self.name}.so"


Figures = dict[str, int]


def strip_comments(text: str) -> str:
    """Comments become blanks; lines keep their numbers."""
    return re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group(0).count("\n"), text, flags=re.DOTALL)


def read_knobs(text: str, path: str, before: tuple[Knob, ...] = ()) -> list[Knob]:
    """The knobs of one file; `before`: those that the engine has from elsewhere."""
    knobs: list[Knob] = []
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        if not line.strip():
            continue
        found = KNOB.fullmatch(line.strip())
        if found is None:
            raise LaneError(f"{path}:{number}: '{line.strip()}' is no knob; want KNOB(HZ_NAME, smallest, largest, \"text\")")
        knob = Knob(found["name"], int(found["low"]), int(found["high"]), found["text"])
        if knob.low > knob.high:
            raise LaneError(f"{path}:{number}: {knob.name}: smallest {knob.low} is above largest {knob.high}")
        if any(other.name == knob.name for other in (*before, *knobs)):
            raise LaneError(f"{path}:{number}: {knob.name} is there already")
        knobs.append(knob)
    if not knobs:
        raise LaneError(f"{path}:1: no knobs; want KNOB(HZ_NAME, smallest, largest, \"text\") lines")
    return knobs


def read_value(knob: Knob, text: str, place: str) -> int:
    if not text.isdecimal() or not knob.low <= int(text) <= knob.high:
        raise LaneError(f"{place}: {knob.name} is {text}; allowed: {knob.low}..{knob.high}")
    return int(text)


def read_defines(root: pathlib.Path, path: str, engine: Engine, found: dict[str, str | int], seen: set[str]) -> None:
    """Adds what a lane's header defines to `found`, in the order the compiler sees it: what is there already stays, and
    an included lane is read where it is included."""
    if path in seen:
        return
    seen.add(path)
    ranges = {knob.name: knob for knob in engine.knobs}
    for number, line in enumerate(strip_comments((root / path).read_text(encoding="utf-8")).splitlines(), 1):
        other = INCLUDE.fullmatch(line.strip())
        if other is not None:
            target = f"src/{engine.name}/{other['name']}"
            if not (root / target).is_file():
                raise LaneError(f"{path}:{number}: there is no {target}")
            read_defines(root, target, engine, found, seen)
            continue
        define = DEFINE.fullmatch(line.strip())
        if define is None:
            continue
        name, value = define["name"], define["value"]
        if name == "HZ_LANE_NAME":
            found.setdefault(name, value.strip('"'))
        elif name in ranges:
            found.setdefault(name, read_value(ranges[name], value, f"{path}:{number}"))
        else:
            raise LaneError(f"{path}:{number}: {name} is no knob of {engine.name}; it has: {', '.join(ranges)}")


def read_lane(root: pathlib.Path, path: str, engine: Engine) -> Lane:
    found: dict[str, str | int] = {}
    read_defines(root, path, engine, found, set())
    for name in ("HZ_LANE_NAME", *(knob.name for knob in engine.knobs)):
        if name not in found:
            raise LaneError(f"{path}:1: does not set {name}")
    return Lane(engine.name, str(found.pop("HZ_LANE_NAME")), path, {name: int(value) for name, value in found.items()})


# Constants that only one engine has and that a bound depends on.
CONSTANTS = {"hz3": "CONSTANT(HZ3_TRANSFER_SLOTS)"}


def probe(lane: Lane) -> Figures:
    """Compiles and runs lanes_probe.c with the lane."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "probe"
        header = pathlib.PurePosixPath(lane.path).relative_to(f"src/{lane.engine}")
        command = [
            *os.environ.get("CC", "cc").split(), "-std=c11", "-O1", f"-I{ROOT}/src", f"-I{ROOT}/src/{lane.engine}",
            f'-DHZ_LANE_HEADER="{header}"', f"-DPROBE_CONSTANTS={CONSTANTS.get(lane.engine, '')}",
            f"{ROOT}/tools/lanes_probe.c", f"{ROOT}/src/base/check.c", "-o", str(program),
        ]  # fmt: skip
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise LaneError(f"{lane.path}:1: tools/lanes_probe.c does not compile with it:\n{built.stderr}")
        lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    figures = {key: int(value) for key, value in (line.split() for line in lines)}
    for name, value in lane.values.items():
        if figures.get(name) != value:
            raise LaneError(f"{lane.path}:1: {name} is read as {value}, but compiled as {figures.get(name)}")
    return figures


# ---- bounds ----------------------------------------------------------------------------------------


class Class(NamedTuple):
    """A size class in one lane."""

    block: int
    bin: int
    start: int
    batch: int
    home: int
    shared: int


def classes_of(f: Figures) -> list[Class]:
    return [
        Class(*(f[f"class_{c}_{what}"] for what in ("bytes", "bin", "start", "batch", "home", "shared")))
        for c in range(1, f["HZ_CLASS_COUNT"])
    ]


def capped(f: Figures, c: Class, limit: str, least: int) -> int:
    """Bytes of a list that takes `limit` bytes, but at least `least` blocks."""
    return min(max(f[limit] // c.block, least), f["HZ_LIST_COUNT_MAX"]) * c.block


def stash(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_STASH_BYTES", c.batch)


def central(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_CENTRAL_BYTES", c.batch)


def inbox(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_INBOX_BYTES", f["HZ_HOME_COUNT"] if c.home else c.batch)


def sent_list(f: Figures, c: Class) -> int:
    """The longest list that a thread sends: all that it has of the class, but grouped so many blocks at a time."""
    return min(f["HZ_HOME_COUNT"], max(c.bin, f["HZ_REMOTE_COUNT"] if c.home else 0)) * c.block


def transfer(f: Figures, c: Class) -> int:
    return f["HZ3_TRANSFER_SLOTS"] * sent_list(f, c)


def waiting(f: Figures, c: Class) -> int:
    if "HZ_INBOX_BYTES" in f:
        return 2 * inbox(f, c)
    parts = (stash(f, c), transfer(f, c), central(f, c))
    return sum(parts) + max(parts[0], sent_list(f, c), parts[2])


def depot(f: Figures, c: Class) -> int:
    batch = c.batch * c.block
    return f["HZ_DEPOT_BYTES"] // batch * batch if c.shared else 0


def has(name: str) -> Callable[[Figures], bool]:
    return lambda f: name in f


def has_inbox(f: Figures) -> bool:
    return f.get("HZ_REMOTE_INBOX") == 1


def most(of: Callable[[Figures, Class], int]) -> Callable[[Figures], int]:
    """The largest over the classes."""
    return lambda f: max(of(f, c) for c in classes_of(f))


def always(_: Figures) -> bool:
    return True


# What is bounded, in which lanes there is such a thing, its bytes, and how they come about.
BOUNDS: tuple[tuple[str, Callable[[Figures], bool], Callable[[Figures], int], str], ...] = (
    ("one thread: all bins full", always, lambda f: sum(c.bin * c.block for c in classes_of(f)), "sum over classes of `hz_bin_capacity(c)` x block size"),
    ("one thread: its fullest bin", always, most(lambda f, c: c.bin * c.block), "the largest of these products"),
    ("one thread: remote buffer", always, most(lambda f, c: c.home * f["HZ_REMOTE_COUNT"] * c.block), "`HZ_REMOTE_COUNT` x the largest block that goes home (`HZ_HOME_BELOW_BYTES`)"),
    ("one shard, one class: stash", has("HZ_STASH_BYTES"), most(stash), "max(`HZ_STASH_BYTES`, one batch)"),
    ("one shard, one class: transfer", has("HZ3_TRANSFER_SLOTS"), most(transfer), "`HZ3_TRANSFER_SLOTS` lists, each at most one full bin, and at most `HZ_HOME_COUNT` blocks"),
    ("one shard, one class: central", has("HZ_CENTRAL_BYTES"), most(central), "max(`HZ_CENTRAL_BYTES`, one batch)"),
    ("one shard, one class: inbox", has_inbox, most(inbox), "max(`HZ_INBOX_BYTES`, one list: `HZ_HOME_COUNT` blocks, of mid classes a batch)"),
    ("one shard, one class: all of it", lambda f: has_inbox(f) or "HZ_STASH_BYTES" in f, most(waiting), "these, and carry (what is left of one taken list). Lane pageq: blocks wait in lists of their pages, without a bound"),
    ("depot, one class: fixed part", always, most(depot), "max(`HZ_DEPOT_BYTES`, one batch); or `HZ_DEPOT_PERCENT` of all blocks of the class, while blocks pass and if that is more; up to twice that when work has moved to other CPUs"),
    ("a thread block itself", always, lambda f: f["thread_block_bytes"], "metadata, touched as bins are used; recycled, never unmapped"),
    ("a shard itself", always, lambda f: f["shard_bytes"], "metadata, touched as classes are used"),
)  # fmt: skip


# ---- pages -----------------------------------------------------------------------------------------


def human(count: int) -> str:
    """1048576 -> 1 MiB. Exact when it is a whole number, else three digits."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.3g} {unit}"
    return f"{count} B"


def value_text(knob: Knob, value: int) -> str:
    """Exact, unlike human()."""
    if not knob.name.endswith("_BYTES"):
        return str(value)
    return f"{value} B" if value % 1024 else human(value)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def bounds_table(lanes: list[Lane], figures: list[Figures]) -> list[str]:
    rows = [[what, *(human(value(f)) if there(f) else "-" for f in figures), why] for what, there, value, why in BOUNDS]
    return table(["the most there can be in", *(lane.title for lane in lanes), "how it comes about"], rows)


def knob_table(engines: list[Engine], lanes: list[Lane]) -> list[str]:
    knobs = dict.fromkeys(knob for engine in engines for knob in engine.knobs if all(knob in e.knobs for e in engines))
    knobs |= dict.fromkeys(knob for engine in engines for knob in engine.knobs)
    of_engine = {engine.name: engine.knobs for engine in engines}
    rows = [
        [
            f"`{k.name}`",
            *(value_text(k, lane.values[k.name]) if k in of_engine[lane.engine] else "-" for lane in lanes),
            f"{value_text(k, k.low)} .. {value_text(k, k.high)}",
            k.text,
        ]
        for k in knobs
    ]
    return table(["knob", *(lane.title for lane in lanes), "allowed", "what it trades"], rows)


def bins_table(lanes: list[Lane], figures: list[Figures]) -> list[str]:
    """Bins and batches of the classes that are powers of two; lanes that agree share their columns."""
    groups: dict[tuple[Class, ...], list[str]] = {}
    for lane, f in zip(lanes, figures):
        sizes = [c._replace(home=0, shared=0) for c in classes_of(f) if c.block & (c.block - 1) == 0]
        groups.setdefault(tuple(sizes), []).append(lane.title)
    titles = [f"{', '.join(names)}: " for names in groups.values()] if len(groups) > 1 else [""]
    head = [title + what for title in titles for what in ("bin", "in bytes", "at first", "batch")]
    rows = [
        [human(row[0].block), *(text for c in row for text in (str(c.bin), human(c.bin * c.block), str(c.start), str(c.batch)))]
        for row in zip(*groups)
    ]
    return table(["block", *head], rows)


def lanes_page(engines: list[Engine], lanes: list[Lane], figures: list[Figures]) -> str:
    files = [CORE_KNOBS, *(f"src/{engine.name}/engine_knobs.def" for engine in engines)]
    lines = [
        "<!-- written by tools/lanes.py (make docs); do not edit -->",
        "# Lanes",
        "",
        "A lane is a named set of compile-time constants of an engine, the knobs; one lane is one library. The knobs are",
        "listed in " + ", ".join(f"[`{path}`](../{path})" for path in files) + ".",
        "`hz_config_string()` gives them back at run time. A value out of its range does not compile.",
        "",
        *table(["lane", "its values", "library"], [[lane.title, f"[`{lane.path}`](../{lane.path})", f"`{lane.library}`"] for lane in lanes]),
        "",
        "## Knobs",
        "",
        "`-`: the engine does not have it.",
        "",
        *knob_table(engines, lanes),
        "",
        "Besides, the two batches of a bin must fit into it: `HZ_BATCH_COUNT` is at most half of `HZ_BIN_COUNT`.",
        "",
        "## What is bounded, and by how much",
        "",
        *bounds_table(lanes, figures),
        "",
        "## Bins and batches",
        "",
        f"{figures[0]['HZ_CLASS_COUNT'] - 1} size classes; here those that are powers of two. A bin holds `hz_bin_capacity(class)` blocks at most,",
        "`hz_bin_start(class)` at first, and `hz_batch_count(class)` move at once at most. Lanes that agree share their columns.",
        "",
        *bins_table(lanes, figures),
    ]
    return "\n".join(lines) + "\n"


def replace_marked(text: str, lines: list[str], path: str) -> str:
    """`text` with what stands between the two marks replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise LaneError(f"{path}:1: want '{BEGIN}' and, after it, '{END}', once each")
    return text[: text.index(BEGIN)] + "\n".join([BEGIN, *lines, END]) + text[text.index(END) + len(END) :]


def read_engines(root: pathlib.Path) -> tuple[list[Engine], list[Lane]]:
    common = read_knobs((root / CORE_KNOBS).read_text(encoding="utf-8"), CORE_KNOBS)
    engines: list[Engine] = []
    lanes: list[Lane] = []
    for path in sorted((root / "src").glob("hz[0-9]*/engine_knobs.def")):
        own = read_knobs(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), tuple(common))
        engine = Engine(path.parent.name, common + own)
        headers = sorted(header.relative_to(root).as_posix() for header in (path.parent / "lanes").glob("*.h"))
        if not headers:
            raise LaneError(f"src/{engine.name}/lanes:1: no lanes")
        engines.append(engine)
        lanes += [read_lane(root, header, engine) for header in headers]
    if not engines:
        raise LaneError("src:1: no engine; want src/hz*/engine_knobs.def")
    return engines, lanes


def pages() -> dict[str, str]:
    """What each page must be."""
    engines, lanes = read_engines(ROOT)
    figures = [probe(lane) for lane in lanes]
    architecture = (ROOT / ARCHITECTURE_PAGE).read_text(encoding="utf-8")
    return {
        LANES_PAGE: lanes_page(engines, lanes, figures),
        ARCHITECTURE_PAGE: replace_marked(architecture, bounds_table(lanes, figures), ARCHITECTURE_PAGE),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes docs/lanes.md and the table in docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is not up to date")
    options = parser.parse_args(arguments)
    fresh = True
    try:
        for path, wanted in pages().items():
            page = ROOT / path
            if page.is_file() and page.read_text(encoding="utf-8") == wanted:
                continue
            if options.check:
                print(f"lanes: {path} is not up to date; `make docs` writes it", file=sys.stderr)
                fresh = False
            else:
                page.write_text(wanted, encoding="utf-8")
                print(f"lanes: wrote {path}")
    except (LaneError, OSError) as error:
        print(f"lanes: {error}", file=sys.stderr)
        return 2
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
