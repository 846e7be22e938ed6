#!/usr/bin/env python3
"""Writes docs/lanes.md, and the marked table in docs/architecture.md, from the knobs and lanes of the engines.

usage: lanes.py [--check]     --check: write nothing; exit 1 when a page is stale

Reads src/heap/knobs.def, and of each engine engine_knobs.def and lanes/*.h. A knob that a lane does not set has its default.
Figures that follow from the values (bytes in all bins of a thread, and so on) are computed from what tools/lanes_probe.c
prints, compiled with each lane ($CC, else cc). Faults in a knob or a lane are reported as `file:line: what`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from typing import Callable, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAP_KNOBS = "src/heap/knobs.def"
ENGINES = "src/engines"
LANES_PAGE = "docs/lanes.md"
ARCHITECTURE_PAGE = "docs/architecture.md"
BEGIN = "<!-- written by tools/lanes.py: begin -->"
END = "<!-- written by tools/lanes.py: end -->"
TEXT_COLUMNS = 156

KNOB = re.compile(
    r'KNOB\((?P<name>HZ_[A-Z0-9_]+), (?P<low>[0-9]+), (?P<high>[0-9]+), (?P<default>[0-9]+), "(?P<unit>[^"]+)", "(?P<text>[^"]+)"\)'
)
WANTED_KNOB = 'KNOB(HZ_NAME, smallest, largest, default, "unit", "text")'
NAME = re.compile(r'#define HZ_LANE_NAME +"(?P<name>[a-z0-9]+)"')
SETTING = re.compile(r"#define LANE_(?P<name>HZ_[A-Z0-9_]+) +HZ_SET\((?P<value>[^)]*)\)")
INCLUDE = re.compile(r'#include "(?P<name>lanes/[a-z0-9]+\.h)"')
SKIPPED = re.compile(r"#(?:ifndef \w+|define \w+|endif)?")


class LaneError(Exception):
    """A fault in the knobs or in a lane."""


class Knob(NamedTuple):
    name: str
    low: int
    high: int
    default: int
    unit: str
    text: str


class Engine(NamedTuple):
    """An engine's name, and its knobs: those of the heap and its own."""

    name: str
    knobs: list[Knob]


class Lane(NamedTuple):
    """`set_here`: the knobs that the lane sets; `values`: all of them."""

    engine: str
    name: str
    path: str
    set_here: dict[str, int]
    values: dict[str, int]

    @property
    def title(self) -> str:
        return f"{self.engine}/{self.name}"

    @property
    def user_name(self) -> str:
        """The name that users know, as in `hakozuna -l` and in the library's file: "hz3-fast", "hz4"."""
        return self.engine if self.name == "default" else f"{self.engine}-{self.name}"

    @property
    def library(self) -> str:
        """As cmake/lane.cmake names it."""
        return f"libhakozuna_{self.engine}.so" if self.name == "default" else f"libhakozuna_{self.engine}_{self.name}.so"


Figures = dict[str, int]


def strip_comments(text: str) -> str:
    """Comments become blanks; lines keep their numbers."""
    return re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group(0).count("\n"), text, flags=re.DOTALL)


def read_knobs(text: str, path: str, before: tuple[Knob, ...] = ()) -> list[Knob]:
    """The knobs of one file. `before`: knobs that the engine already has, from the heap's file."""
    knobs: list[Knob] = []
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        found = KNOB.fullmatch(line.strip())
        if found is None:
            raise LaneError(f"{place}: '{line.strip()}' is not a knob; want {WANTED_KNOB}")
        knob = Knob(found["name"], *(int(found[key]) for key in ("low", "high", "default")), found["unit"], found["text"])
        if knob.low > knob.high:
            raise LaneError(f"{place}: {knob.name}: smallest {knob.low} is above largest {knob.high}")
        read_value(knob, str(knob.default), f"{place}: default")
        if any(other.name == knob.name for other in (*before, *knobs)):
            raise LaneError(f"{place}: {knob.name} exists already")
        knobs.append(knob)
    if not knobs:
        raise LaneError(f"{path}:1: no knobs; want lines {WANTED_KNOB}")
    return knobs


def read_value(knob: Knob, text: str, place: str) -> int:
    if not text.isdecimal() or not knob.low <= int(text) <= knob.high:
        raise LaneError(f"{place}: {knob.name} is {text}; allowed: {knob.low}..{knob.high}")
    return int(text)


def read_settings(root: pathlib.Path, path: str, engine: Engine, found: dict[str, str | int], seen: set[str]) -> None:
    """Adds what a lane's header sets to `found`. A lane that another one includes is read there, and must not set a knob
    again: the compiler would refuse that too."""
    if path in seen:
        return
    seen.add(path)
    knobs = {knob.name: knob for knob in engine.knobs}
    for number, line in enumerate(strip_comments((root / path).read_text(encoding="utf-8")).splitlines(), 1):
        place, line = f"{path}:{number}", line.strip()
        if other := INCLUDE.fullmatch(line):
            target = f"{ENGINES}/{engine.name}/{other['name']}"
            if not (root / target).is_file():
                raise LaneError(f"{place}: there is no {target}")
            read_settings(root, target, engine, found, seen)
        elif name := NAME.fullmatch(line):
            found.setdefault("HZ_LANE_NAME", name["name"])
        elif setting := SETTING.fullmatch(line):
            if setting["name"] not in knobs:
                raise LaneError(f"{place}: {setting['name']} is not a knob of {engine.name}; it has: {', '.join(knobs)}")
            if setting["name"] in found:
                raise LaneError(f"{place}: {setting['name']} is set twice")
            found[setting["name"]] = read_value(knobs[setting["name"]], setting["value"], place)
        elif line and not SKIPPED.fullmatch(line):
            raise LaneError(f"{place}: '{line}' sets nothing; want #define LANE_HZ_NAME HZ_SET(value)")


def read_lane(root: pathlib.Path, path: str, engine: Engine) -> Lane:
    found: dict[str, str | int] = {}
    read_settings(root, path, engine, found, set())
    if "HZ_LANE_NAME" not in found:
        raise LaneError(f"{path}:1: does not set HZ_LANE_NAME")
    name = str(found.pop("HZ_LANE_NAME"))
    set_here = {knob.name: int(found[knob.name]) for knob in engine.knobs if knob.name in found}
    return Lane(engine.name, name, path, set_here, {knob.name: set_here.get(knob.name, knob.default) for knob in engine.knobs})


def ways_home_of(lane: Lane) -> tuple[str, ...]:
    """The folders of src/ways with the lane's way home, as cmake/lane.cmake chooses them."""
    if lane.values.get("HZ_PAGE_LOCAL_REMOTE") == 1 or lane.values.get("HZ_REMOTE_INBOX") == 0:
        return ("lists", "queues")
    if lane.values.get("HZ_TRANSFER_CENTRAL") == 1:
        return ("lists", "stages")
    return ("lists", "inbox") if lane.values.get("HZ_STASH_BYTES") or lane.values.get("HZ_INBOX_BYTES") else ("direct",)


def takers_of(lane: Lane) -> str:
    """The folder of src/ways with the rule who takes from the mailbox."""
    return "alone" if lane.values.get("HZ_SHARD_COLLISION_FAILFAST") == 1 else "shared"


def bins_of(lane: Lane) -> str:
    """The folder of src/ways that says whether CPUs have bins."""
    return "percpu" if lane.values.get("HZ_CPU_BYTES") else "perthread"


# For lanes_probe.c: what only lanes with mailboxes have.
WITHOUT_MAIL = ("-DPROBE_LIST(size_class)=0*(size_class)", "-DPROBE_BOXES_BYTES=0", "-DPROBE_CONSTANTS=")
WITH_MAIL = ("-D_GNU_SOURCE=", "-include", "box.h", "-include", "mail.h", "-DPROBE_LIST=hz_mail_list_max", "-DPROBE_BOXES_BYTES=sizeof(struct hz_boxes)")
CONSTANTS = {"stages": "CONSTANT(HZ_LIST_COUNT_MAX) CONSTANT(HZ_TRANSFER_SLOTS)"}


def mail_words(lane: Lane) -> tuple[str, ...]:
    home = ways_home_of(lane)
    return WITHOUT_MAIL if home == ("direct",) else (*WITH_MAIL, f"-DPROBE_CONSTANTS={CONSTANTS.get(home[-1], 'CONSTANT(HZ_LIST_COUNT_MAX)')}")


def probe(lane: Lane) -> Figures:
    """Compiles and runs lanes_probe.c with the lane."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "probe"
        header = pathlib.PurePosixPath(lane.path).relative_to(f"{ENGINES}/{lane.engine}")
        command = [
            *os.environ.get("CC", "cc").split(), "-std=c11", "-O1", f"-I{ROOT}/src", f"-I{ROOT}/{ENGINES}/{lane.engine}",
            *(f"-I{ROOT}/src/ways/{way}" for way in ways_home_of(lane)), f"-I{ROOT}/src/ways/{takers_of(lane)}",
            f"-I{ROOT}/src/ways/{bins_of(lane)}",
            f'-DHZ_LANE_HEADER="{header}"', *mail_words(lane),
            f"{ROOT}/tools/lanes_probe.c", f"{ROOT}/src/base/os/check.c", f"{ROOT}/src/base/os/os_linux.c", f"{ROOT}/src/base/os/os_process.c",
            f"{ROOT}/src/base/os/vdso.c", "-o", str(program),
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
    mid: int
    list: int


def classes_of(f: Figures) -> list[Class]:
    return [
        Class(*(f[f"class_{c}_{what}"] for what in ("bytes", "bin", "start", "batch", "home", "shared", "mid", "list")))
        for c in range(1, f["HZ_CLASS_COUNT"])
    ]


def capped(f: Figures, c: Class, limit: str, least: int) -> int:
    """Bytes of as many blocks as fit into `limit` bytes, or of `least` blocks if that is more."""
    return min(max(f[limit] // c.block, least), f["HZ_LIST_COUNT_MAX"]) * c.block


def bin_bytes(f: Figures, c: Class) -> int:
    return min(c.bin * c.block, f["HZ_LONG_ROOM_BYTES"])


def all_bins(f: Figures) -> int:
    """All bins of blocks up to 64 KiB full, and as much of longer ones as all bins together may have."""
    return sum(c.bin * c.block for c in classes_of(f)[: f["HZ_LONG_CLASS_FIRST"] - 1]) + f["HZ_LONG_ROOM_BYTES"]


def stash(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_STASH_BYTES", c.list) if f["HZ_STASH_BYTES"] > 0 else 0


def central(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_CENTRAL_BYTES", c.list)


def inbox(f: Figures, c: Class) -> int:
    return capped(f, c, "HZ_INBOX_BYTES", c.list)


def sent_list(f: Figures, c: Class) -> int:
    """Bytes of the longest list that a thread sends: all its blocks of the class, but at most HZ_HOME_COUNT at a time."""
    return min(f["HZ_HOME_COUNT"], max(c.bin, f["HZ_REMOTE_COUNT"] if c.home and not c.mid else 0)) * c.block


def transfer(f: Figures, c: Class) -> int:
    return f["HZ_TRANSFER_SLOTS"] * sent_list(f, c)


def waiting(f: Figures, c: Class) -> int:
    if "HZ_INBOX_BYTES" in f:
        return 2 * inbox(f, c)
    if "HZ_TRANSFER_SLOTS" not in f:
        return 2 * stash(f, c)
    parts = (stash(f, c), transfer(f, c), central(f, c))
    return sum(parts) + max(parts[0], sent_list(f, c), parts[2])


def depot(f: Figures, c: Class) -> int:
    batch = c.batch * c.block
    return f["HZ_DEPOT_BYTES"] // batch * batch if c.shared and not c.home else 0


def surplus(f: Figures, c: Class) -> int:
    batch = c.batch * c.block
    return f["HZ_DEPOT_BYTES"] // batch * batch if c.shared and c.home else 0


def has_surplus(f: Figures) -> bool:
    return any(surplus(f, c) > 0 for c in classes_of(f))


def has(name: str) -> Callable[[Figures], bool]:
    return lambda f: name in f


def has_inbox(f: Figures) -> bool:
    return f.get("HZ_REMOTE_INBOX") == 1 and f["HZ_INBOX_BYTES"] > 0


def has_stash(f: Figures) -> bool:
    return f.get("HZ_STASH_BYTES", 0) > 0 and f.get("HZ_PAGE_LOCAL_REMOTE") != 1


def has_mailbox(f: Figures) -> bool:
    return has_inbox(f) or has_stash(f) or "HZ_TRANSFER_SLOTS" in f


def most(of: Callable[[Figures, Class], int]) -> Callable[[Figures], int]:
    """The largest over the classes."""
    return lambda f: max(of(f, c) for c in classes_of(f))


def always(_: Figures) -> bool:
    return True


# What is bounded, which lanes have it, its bytes, and the formula.
BOUNDS: tuple[tuple[str, Callable[[Figures], bool], Callable[[Figures], int], str], ...] = (
    ("one thread: all bins full", always, all_bins, "`hz_bin_capacity(c)` x block, all up to 64 KiB, + `HZ_LONG_ROOM_BYTES`"),
    ("one thread: its fullest bin", always, most(bin_bytes), "the largest `hz_bin_capacity(c)` x block, or `HZ_LONG_ROOM_BYTES`"),
    ("one thread: remote buffer", always, most(lambda f, c: c.home * f["HZ_REMOTE_COUNT"] * c.block), "`HZ_REMOTE_COUNT` x the largest home block"),
    ("one shard, one class: stash", has_stash, most(stash), "max(`HZ_STASH_BYTES`, one list) (1)"),
    ("one shard, one class: transfer", has("HZ_TRANSFER_SLOTS"), most(transfer), "`HZ_TRANSFER_SLOTS` lists of one bin (1)"),
    ("one shard, one class: central", has("HZ_TRANSFER_SLOTS"), most(central), "max(`HZ_CENTRAL_BYTES`, one list) (1)"),
    ("one shard, one class: inbox", has_inbox, most(inbox), "max(`HZ_INBOX_BYTES`, one list) (1)"),
    ("one shard, one class: all that waits", has_mailbox, most(waiting), "sum of the mailbox's rows, and carry (2)"),
    ("one shard, one class: its stack in the depot", has_surplus, most(surplus), "max(`HZ_DEPOT_BYTES`, one batch), of home classes only"),
    ("depot, one class: fixed part", always, most(depot), "max(`HZ_DEPOT_BYTES`, one batch) (3)"),
    ("a thread block itself", always, lambda f: f["thread_block_bytes"], "metadata, touched as bins are used (4)"),
    ("a shard itself", always, lambda f: f["shard_bytes"], "metadata, touched as classes are used (4)"),
)  # fmt: skip

BOUND_NOTES = (
    "1. A list has at most `HZ_HOME_COUNT` blocks, and no more than a full bin or remote buffer holds; above 2 KiB, than a bin.",
    "2. Carry is what is left of the list last taken. In lane pageq blocks wait in the lists of their pages, without a bound.",
    "3. In [bursts](decisions/bursts.md#limit) up to twice; while blocks pass, `HZ_DEPOT_PERCENT` of all if that is more. Either twice when work moves between CPUs.",
    "4. Recycled, never unmapped. The memory of a thread block that no thread has goes back.",
)


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
    if knob.unit != "bytes":
        return str(value)
    return f"{value} B" if value % 1024 else human(value)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def bounds_rows(lanes: list[Lane], figures: list[Figures]) -> list[list[str]]:
    return [[what, *(human(value(f)) if there(f) else "-" for f in figures), why] for what, there, value, why in BOUNDS]


def bounds_table(lanes: list[Lane], figures: list[Figures]) -> list[str]:
    """Lanes with the same bounds share a column."""
    columns = list(zip(*bounds_rows(lanes, figures)))
    groups: dict[tuple[str, ...], list[str]] = {}
    for lane, column in zip(lanes, columns[1:-1]):
        groups.setdefault(column, []).append(lane.user_name)
    head = ["at most", *(", ".join(titles) for titles in groups.values()), "formula"]
    rows = [list(row) for row in zip(columns[0], *groups, columns[-1])]
    return [*table(head, rows), "", *BOUND_NOTES]


def knob_lines(engines: list[Engine]) -> list[str]:
    """Every knob once: its default, its range and, if not all of them have it, its engines; then what it trades."""
    owners: dict[Knob, list[str]] = {}
    for engine in engines:
        for knob in engine.knobs:
            owners.setdefault(knob, []).append(engine.name)
    lines: list[str] = []
    for knob, names in sorted(owners.items(), key=lambda item: len(item[1]), reverse=True):
        default, low, high = (value_text(knob, value) for value in (knob.default, knob.low, knob.high))
        unit = "" if knob.unit == "bytes" else f", {knob.unit}"
        values = f"switch, {default}" if knob.unit == "switch" else f"{default}; {low} to {high}{unit}"
        only = "" if len(names) == len(engines) else f"; {', '.join(names)}"
        lines += textwrap.wrap(f"* `{knob.name}` ({values}{only}): {knob.text}.", TEXT_COLUMNS, subsequent_indent="  ")
    return lines


def lane_table(lanes: list[Lane], engines: list[Engine]) -> list[str]:
    knobs = {knob.name: knob for engine in engines for knob in engine.knobs}
    rows = [
        [
            lane.user_name,
            ", ".join(f"{name.removeprefix('HZ_')} {value_text(knobs[name], value)}" for name, value in lane.set_here.items()) or "nothing",
        ]
        for lane in lanes
    ]
    return table(["lane", "sets, without HZ_"], rows)


def bins_table(lanes: list[Lane], figures: list[Figures]) -> list[str]:
    """Bins and batches of the classes that are powers of four; lanes that agree share their columns, most of them those without a name."""
    groups: dict[tuple[Class, ...], list[str]] = {}
    for lane, f in zip(lanes, figures):
        sizes = [c._replace(home=0, shared=0, list=0) for c in classes_of(f) if c.block & (c.block - 1) == 0 and c.block.bit_length() % 2 == 1]
        groups.setdefault(tuple(sizes), []).append(lane.user_name)
    most = max(groups.values(), key=len)
    titles = ["" if names is most else f"{', '.join(names)}: " for names in groups.values()]
    head = [title + what for title in titles for what in ("bin", "at first", "batch")]
    rows = [
        [human(row[0].block), *(str(count) for c in row for count in (c.bin, c.start, c.batch))]
        for row in zip(*groups)
    ]
    return table(["block", *head], rows)


def lanes_page(engines: list[Engine], lanes: list[Lane], figures: list[Figures]) -> str:
    files = [HEAP_KNOBS, *(f"{ENGINES}/{engine.name}/engine_knobs.def" for engine in engines)]
    lines = [
        "<!-- written by tools/lanes.py (make docs); do not edit -->",
        "# Lanes and knobs",
        "",
        "A knob is a compile-time constant. A lane is a named set of knobs' values, and one lane is one library.",
        "",
        "* The lists of knobs:",
        *(f"  [`{path}`](../{path})" for path in files),
        "* `hz_config_string()` returns a library's values at run time.",
        '* To try other values: `make variant LANE=scale SET="BIN_COUNT=64 BATCH_COUNT=32"`. A value out of its range does not compile.',
        "",
        "## Lanes",
        "",
        "Lane X is `libhakozuna-X.so.0`, and hz3-scale, the default, `libhakozuna.so.0`. `hakozuna -l X program` takes it, and `hakozuna lanes` lists those that",
        "are installed. The build calls hz3-fast `hz3/fast`.",
        "Headers: [hz3](../src/engines/hz3/lanes), [hz4](../src/engines/hz4/lanes).",
        "",
        *lane_table(lanes, engines),
        "",
        "## Knobs",
        "",
        "In parentheses: the default, the range, and the engine if only one has the knob. Two batches must fit into a bin: `HZ_BATCH_COUNT` is at most half of",
        "`HZ_BIN_COUNT`. [architecture.md](architecture.md#what-is-bounded) has what the values bound.",
        "",
        *knob_lines(engines),
        "",
        "## Bins and batches",
        "",
        f"There are {figures[0]['HZ_CLASS_COUNT'] - 1} size classes. The table has those that are powers of four. A bin holds at most",
        "`hz_bin_capacity(class)` blocks, and after its first few visits `hz_bin_start(class)`. At most `hz_batch_count(class)` blocks move in one step.",
        "",
        *bins_table(lanes, figures),
    ]
    return "\n".join(lines) + "\n"


def replace_marked(text: str, lines: list[str], path: str) -> str:
    """`text` with the lines between the two marks replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise LaneError(f"{path}:1: want '{BEGIN}' and, after it, '{END}', once each")
    return text[: text.index(BEGIN)] + "\n".join([BEGIN, *lines, END]) + text[text.index(END) + len(END) :]


def read_engines(root: pathlib.Path) -> tuple[list[Engine], list[Lane]]:
    common = read_knobs((root / HEAP_KNOBS).read_text(encoding="utf-8"), HEAP_KNOBS)
    engines: list[Engine] = []
    lanes: list[Lane] = []
    for path in sorted((root / ENGINES).glob("hz[0-9]*/engine_knobs.def")):
        own = read_knobs(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), tuple(common))
        engine = Engine(path.parent.name, common + own)
        headers = sorted(header.relative_to(root).as_posix() for header in (path.parent / "lanes").glob("*.h"))
        if not headers:
            raise LaneError(f"{ENGINES}/{engine.name}/lanes:1: no lanes")
        engines.append(engine)
        lanes += [read_lane(root, header, engine) for header in headers]
    if not engines:
        raise LaneError(f"src:1: no engine; want {ENGINES}/hz*/engine_knobs.def")
    return engines, lanes


def pages() -> dict[str, str]:
    """The text that each page must have."""
    engines, lanes = read_engines(ROOT)
    figures = [probe(lane) for lane in lanes]
    architecture = (ROOT / ARCHITECTURE_PAGE).read_text(encoding="utf-8")
    return {
        LANES_PAGE: lanes_page(engines, lanes, figures),
        ARCHITECTURE_PAGE: replace_marked(architecture, bounds_table(lanes, figures), ARCHITECTURE_PAGE),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes docs/lanes.md and the table in docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    options = parser.parse_args(arguments)
    fresh = True
    try:
        for path, wanted in pages().items():
            page = ROOT / path
            if page.is_file() and page.read_text(encoding="utf-8") == wanted:
                continue
            if options.check:
                print(f"lanes: {path} is stale; `make docs` writes it", file=sys.stderr)
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
