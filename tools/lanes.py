#!/usr/bin/env python3
"""Writes docs/lanes.md, and the marked table in docs/architecture.md, from the knobs and lanes of hz3.

usage: lanes.py [--check]     --check: write nothing; exit 1 when a file is not what would be written

Reads src/hz3/knobs.def and src/hz3/lanes/*.h; what follows from them (bytes in all bins of a thread, and so on) is
printed by tools/lanes_probe.c, compiled with each lane ($CC, else cc). A line that is no knob, a lane that lacks one and
a value out of range are reported as `file:line: what`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
KNOBS = "src/hz3/knobs.def"
LANES = "src/hz3/lanes"
LANES_PAGE = "docs/lanes.md"
ARCHITECTURE_PAGE = "docs/architecture.md"
BEGIN = "<!-- written by tools/lanes.py: begin -->"
END = "<!-- written by tools/lanes.py: end -->"

KNOB = re.compile(r'KNOB\((?P<name>HZ3_[A-Z0-9_]+), (?P<low>[0-9]+), (?P<high>[0-9]+), "(?P<text>[^"]+)"\)')
DEFINE = re.compile(r"#define (?P<name>HZ3_[A-Z0-9_]+) +(?P<value>\S+)")


class LaneError(Exception):
    """Something in the knobs or a lane that has to be put right."""


class Knob(NamedTuple):
    name: str
    low: int
    high: int
    text: str


class Lane(NamedTuple):
    name: str
    path: str
    values: dict[str, int]


def strip_comments(text: str) -> str:
    """Comments become blanks; lines keep their numbers."""
    return re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group(0).count("\n"), text, flags=re.DOTALL)


def read_knobs(text: str, path: str) -> list[Knob]:
    knobs: list[Knob] = []
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        if not line.strip():
            continue
        found = KNOB.fullmatch(line.strip())
        if found is None:
            raise LaneError(f"{path}:{number}: '{line.strip()}' is no knob; want KNOB(HZ3_NAME, smallest, largest, \"text\")")
        knob = Knob(found["name"], int(found["low"]), int(found["high"]), found["text"])
        if knob.low > knob.high:
            raise LaneError(f"{path}:{number}: {knob.name}: smallest {knob.low} is above largest {knob.high}")
        if any(other.name == knob.name for other in knobs):
            raise LaneError(f"{path}:{number}: {knob.name} is there already")
        knobs.append(knob)
    if not knobs:
        raise LaneError(f"{path}:1: no knobs; want KNOB(HZ3_NAME, smallest, largest, \"text\") lines")
    return knobs


def read_lane(text: str, path: str, knobs: list[Knob]) -> Lane:
    name = ""
    values: dict[str, int] = {}
    ranges = {knob.name: knob for knob in knobs}
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        found = DEFINE.fullmatch(line.strip())
        if found is None:
            continue
        if found["name"] == "HZ3_LANE_NAME":
            name = found["value"].strip('"')
            continue
        if found["name"] not in ranges:
            raise LaneError(f"{path}:{number}: {found['name']} is no knob; {KNOBS} has: {', '.join(ranges)}")
        knob = ranges[found["name"]]
        if not found["value"].isdecimal() or not knob.low <= int(found["value"]) <= knob.high:
            raise LaneError(f"{path}:{number}: {knob.name} is {found['value']}; allowed: {knob.low}..{knob.high}")
        values[knob.name] = int(found["value"])
    for knob in knobs:
        if knob.name not in values:
            raise LaneError(f"{path}:1: does not set {knob.name}")
    if not name:
        raise LaneError(f"{path}:1: does not set HZ3_LANE_NAME")
    return Lane(name, path, values)


def probe(lane: Lane) -> dict[str, int]:
    """Compiles and runs lanes_probe.c with the lane."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "probe"
        header = pathlib.PurePosixPath(lane.path).relative_to("src/hz3")
        command = [
            *os.environ.get("CC", "cc").split(), "-std=c11", "-O1", f"-I{ROOT}/src", f"-I{ROOT}/src/hz3", f'-DHZ_LANE_HEADER="{header}"',
            f"{ROOT}/tools/lanes_probe.c", f"{ROOT}/src/base/check.c", "-o", str(program),
        ]  # fmt: skip
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise LaneError(f"{lane.path}:1: tools/lanes_probe.c does not compile with it:\n{built.stderr}")
        lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    return {key: int(value) for key, value in (line.split() for line in lines)}


def human(count: int) -> str:
    """1048576 -> 1 MiB. Exact when it is a whole number, else three digits."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.3g} {unit}"
    return f"{count} B"


def value_text(knob: Knob, value: int) -> str:
    return human(value) if knob.name.endswith("_BYTES") else str(value)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


BOUNDS = (
    ("one thread: all bins full", "bins_bytes", "sum over classes of `hz3_bin_capacity(c)` x block size"),
    ("one thread: its fullest bin", "bin_max_bytes", "the largest of these products"),
    ("one thread: remote buffer", "remote_bytes", "`HZ3_REMOTE_COUNT` x `HZ3_HOME_BELOW_BYTES`; 0 when no class goes home"),
    ("one shard, one class: stash", "stash_bytes", "max(`HZ3_STASH_BYTES`, one batch)"),
    ("one shard, one class: transfer", "transfer_bytes", "`HZ3_TRANSFER_SLOTS` lists, each at most one full bin"),
    ("one shard, one class: central", "central_bytes", "max(`HZ3_CENTRAL_BYTES`, one batch)"),
    ("one shard, one class: all of it", "waiting_bytes", "stash + transfer + central + carry (what is left of one drained list)"),
    ("depot, one class: fixed part", "depot_bytes", "`HZ3_DEPOT_BYTES`; or `HZ3_DEPOT_PERCENT` of all blocks of the class, if that is more"),
    ("a thread block itself", "thread_block_bytes", "metadata, touched as bins are used; recycled, never unmapped"),
    ("a shard itself", "shard_struct_bytes", "metadata, touched as classes are used"),
)  # fmt: skip


def bounds_table(lanes: list[Lane], figures: list[dict[str, int]]) -> list[str]:
    rows = [[what, *(human(f[key]) for f in figures), why] for what, key, why in BOUNDS]
    return table(["the most there can be in", *(lane.name for lane in lanes), "how it comes about"], rows)


def lanes_page(knobs: list[Knob], lanes: list[Lane], figures: list[dict[str, int]]) -> str:
    first = figures[0]
    names = [lane.name for lane in lanes]
    lines = [
        "<!-- written by tools/lanes.py (make docs); do not edit -->",
        "# Lanes",
        "",
        "A lane is a named set of compile-time constants, the knobs; one lane is one library. The knobs are listed in",
        f"[`{KNOBS}`](../{KNOBS}), the values in " + ", ".join(f"[`{lane.path}`](../{lane.path})" for lane in lanes) + ".",
        "`hz_config_string()` gives them back at run time. A value out of its range does not compile.",
        "",
        "## Knobs",
        "",
        *table(
            ["knob", *names, "allowed", "what it trades"],
            [
                [f"`{k.name}`", *(value_text(k, lane.values[k.name]) for lane in lanes), f"{value_text(k, k.low)} .. {value_text(k, k.high)}", k.text]
                for k in knobs
            ],
        ),
        "",
        "Besides, the two batches of a bin must fit into it: `HZ3_BATCH_COUNT` is at most half of `HZ3_BIN_COUNT`.",
        "",
        "## What is bounded, and by how much",
        "",
        *bounds_table(lanes, figures),
        "",
        "## Bins and batches",
        "",
        f"{first['classes']} size classes; here those that are powers of two. A bin holds `hz3_bin_capacity(class)` blocks,",
        "`hz3_batch_count(class)` move at once.",
        "",
    ]
    head = ["block", *(f"{name}: {what}" for name in names for what in ("bin", "in bytes", "batch"))]
    sizes = [int(key.removeprefix("class_")) for key in first if key.startswith("class_")]
    rows = [
        [human(s), *(text for f in figures for text in (str(f[f"bin_{s}"]), human(f[f"bin_{s}"] * s), str(f[f"batch_{s}"])))]
        for s in sizes
    ]
    return "\n".join(lines + table(head, rows)) + "\n"


def replace_marked(text: str, lines: list[str], path: str) -> str:
    """`text` with what stands between the two marks replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise LaneError(f"{path}:1: want '{BEGIN}' and, after it, '{END}', once each")
    return text[: text.index(BEGIN)] + "\n".join([BEGIN, *lines, END]) + text[text.index(END) + len(END) :]


def read_lanes(root: pathlib.Path) -> tuple[list[Knob], list[Lane]]:
    knobs = read_knobs((root / KNOBS).read_text(encoding="utf-8"), KNOBS)
    paths = sorted((root / LANES).glob("*.h"))
    lanes = [read_lane(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), knobs) for path in paths]
    if not lanes:
        raise LaneError(f"{LANES}:1: no lanes")
    return knobs, lanes


def pages() -> dict[str, str]:
    """What each page must be."""
    knobs, lanes = read_lanes(ROOT)
    figures = [probe(lane) for lane in lanes]
    architecture = (ROOT / ARCHITECTURE_PAGE).read_text(encoding="utf-8")
    return {
        LANES_PAGE: lanes_page(knobs, lanes, figures),
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
