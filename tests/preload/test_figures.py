"""All reports of the heap agree: with each other, with their own sums, and with what the program allocated.

programs/figures.c makes mallinfo2, mallinfo, malloc_info, malloc_stats, hz_stats_get and the JSON report at one moment.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import Preload, compile_c, describe

pytestmark = pytest.mark.usefixtures("ours_only")

FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
STATS = "live cached free resident mapped".split()
MIB = 1 << 20
# An allocation beside the program's blocks: the C library's, for a thread.
BESIDE = 4096
# No figure of a program with three busy threads gets near it; one that fell below 0 is above it.
NOISE_MOST = 4 << 30


@dataclass
class Point:
    """What the program printed of one moment."""

    name: str
    wanted: int
    unsure: int = 0  # what is taken for the blocks may be more by that
    numbers: dict[str, list[int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def info(self) -> dict[str, int]:
        return dict(zip(FIELDS, self.numbers["mallinfo2"], strict=True))

    @property
    def stats(self) -> dict[str, int]:
        return dict(zip(STATS, self.numbers["hz_stats"], strict=True))

    @property
    def json(self) -> dict:
        return json.loads(self.texts["json"])


def points_of(output: str) -> list[Point]:
    points = []
    lines = iter(output.splitlines())
    for line in lines:
        word, *rest = line.split()
        if word == "point":
            points.append(Point(rest[0], *map(int, rest[1:])))
        elif word == "begin":
            body = []
            for inner in lines:
                if inner == f"end {rest[0]}":
                    break
                body.append(inner)
            points[-1].texts[rest[0]] = "\n".join(body)
        else:
            if word == "mallinfo2" and "mallinfo2" in (points[-1].numbers if points else {"mallinfo2": []}):
                points.append(Point("noise", 0))
            points[-1].numbers[word] = [int(number) for number in rest]
    return points


def wrapped(value: int) -> int:
    """The low 32 bits as an int, which glibc's mallinfo has."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def check_mallinfo(point: Point) -> None:
    info = point.info
    assert info["arena"] == info["uordblks"] + info["fordblks"]
    assert info["fordblks"] == info["fsmblks"] + info["keepcost"]
    assert (info["hblks"] == 0) == (info["hblkhd"] == 0)
    assert info["usmblks"] == 0


def check_old_mallinfo(point: Point) -> None:
    assert point.numbers["mallinfo"] == [wrapped(value) for value in point.numbers["mallinfo2"]]


def check_stats(point: Point) -> None:
    info, stats = point.info, point.stats
    assert stats["live"] == info["uordblks"] + info["hblkhd"]
    assert stats["cached"] == info["fsmblks"]
    assert stats["free"] == info["keepcost"]
    assert stats["resident"] == info["arena"] + info["hblkhd"]
    assert stats["mapped"] >= stats["resident"]


def numbers_of(element: ElementTree.Element) -> tuple[int, int]:
    return int(element.attrib["count"]), int(element.attrib["size"])


def check_xml(point: Point, exact: bool = True) -> None:
    root = ElementTree.fromstring(point.texts["xml"])
    heap = root.find("heap")
    assert root.attrib["version"] == "1"
    assert heap is not None
    totals = {element.attrib["type"]: numbers_of(element) for element in root.findall("total")}
    assert totals["fast"] == numbers_of(heap.findall("total")[0])
    assert totals["rest"] == numbers_of(heap.findall("total")[1])
    count = size = 0
    for line in heap.findall("sizes/*"):
        count += int(line.attrib["count"])
        size += int(line.attrib["total"])
        if line.tag == "size":
            assert int(line.attrib["total"]) == int(line.attrib["count"]) * int(line.attrib["to"])
    assert (count, size) == tuple(sum(pair) for pair in zip(totals["fast"], totals["rest"], strict=True))
    systems = {element.attrib["type"]: int(element.attrib["size"]) for element in root.findall("system")}
    spaces = {element.attrib["type"]: int(element.attrib["size"]) for element in root.findall("aspace")}
    assert spaces["total"] >= systems["current"] >= size
    assert systems["max"] >= systems["current"]
    if not exact:
        return
    info = point.info
    assert systems["current"] == info["arena"]
    assert totals["mmap"] == (info["hblks"], info["hblkhd"])
    assert totals["fast"] == (info["smblks"], info["fsmblks"])
    assert totals["rest"] == (info["ordblks"], info["keepcost"])


def check_json(point: Point, exact: bool = True) -> None:
    report = point.json
    heap = report["heap"]
    for name in ("live", "resting", "free", "held"):
        total = heap[{"live": "live", "resting": "cached", "free": "free", "held": "resident"}[name] + "_bytes"]
        assert sum(row[f"{name}_bytes"] for row in report["ranges"]) == total, name
    for row in report["ranges"]:
        assert row["live_bytes"] + row["resting_bytes"] + row["free_bytes"] == row["held_bytes"], row
        assert (row["live_blocks"] == 0) == (row["live_bytes"] == 0), row
    classes = {key: sum(row[key] * row["block_bytes"] for row in report["classes"]) for key in ("live", "cached")}
    pools = [row for row in report["ranges"] if row["name"] in ("guarded", "profiled")]
    large = sum(row["live_bytes"] for row in report["large"])
    assert classes["live"] + large + sum(row["live_bytes"] for row in pools) == heap["live_bytes"]
    assert classes["cached"] == heap["cached_bytes"]
    for row in report["classes"]:
        assert (row["live"] + row["cached"]) * row["block_bytes"] + row["free_bytes"] == row["held_bytes"], row
    assert heap["mapped_bytes"] >= heap["resident_bytes"]
    assert heap["peak_bytes"] >= heap["resident_bytes"]
    assert heap["alone_bytes"] <= next(row["live_bytes"] for row in report["ranges"] if row["name"] == "mapped")
    assert heap["alone_count"] <= heap["mapping_count"]
    if exact:
        assert [heap[f"{name}_bytes"] for name in STATS] == point.numbers["hz_stats"]
        assert (heap["alone_count"], heap["alone_bytes"]) == (point.info["hblks"], point.info["hblkhd"])
        bins = report["rest"]
        assert bins["bins_bytes"] + bins["remote_bytes"] + bins["waiting_bytes"] + bins["depot_bytes"] == heap["cached_bytes"]


def check_text(point: Point) -> None:
    for name, key in (("live", "live"), ("cached", "cached"), ("free", "free"), ("held", "resident")):
        found = re.search(rf"^{name} *(\d+)\.(\d\d) MiB", point.texts["text"], re.MULTILINE)
        assert found is not None, name
        assert int(found[1]) * 100 + int(found[2]) == point.stats[key] * 100 // MIB, name


def check_quiet(point: Point) -> None:
    check_mallinfo(point)
    check_old_mallinfo(point)
    check_stats(point)
    check_xml(point)
    check_json(point)
    check_text(point)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c("figures.c", tmp_path_factory.mktemp("figures") / "figures")


NAMES = ["start", "full", "child-full", "child-freed", "child-trimmed", "half", "half-trimmed", "child-half", "child-freed",
         "child-trimmed", "empty", "empty-trimmed"]  # fmt: skip

VARIABLES = [
    {},
    {"HAKOZUNA_BACKGROUND": "0"},
    {"HAKOZUNA_SAMPLE_GUARD": "50"},
    {"HAKOZUNA_PROFILE": "rate=4096,file=/dev/null"},
]


@pytest.mark.parametrize("variables", VARIABLES, ids=["keeper", "alone", "guard", "profile"])
@pytest.mark.parametrize("workload", ["one", "small", "medium", "large", "direct", "huge", "zone", "mixed"])
def test_reports_agree_with_each_other_and_with_the_program(
    preload: Preload, program: Path, workload: str, variables: dict[str, str]
) -> None:
    result = preload.run(program, workload, variables=variables)
    points = points_of(result.stdout)
    assert [point.name for point in points] == NAMES, describe(result)
    start = points[0].stats["live"]
    for point in points:
        try:
            check_quiet(point)
            assert -BESIDE <= point.stats["live"] - start - point.wanted <= point.unsure + BESIDE
            if workload in ("one", "small", "medium", "large", "zone"):
                assert point.info["hblks"] == 0, "nothing here is a mapping of its own"
        except AssertionError as error:
            error.add_note(f"at the point {point.name}")
            raise
    full, trimmed = points[1], points[-1]
    if workload == "huge" and full.wanted > 0:
        assert full.wanted <= full.info["hblkhd"] <= full.wanted + full.unsure
        assert full.info["hblks"] * 3_000_000_000 <= full.info["hblkhd"]
    if "HAKOZUNA_PROFILE" not in variables:  # the samples' slots keep their memory
        assert trimmed.info["arena"] <= points[0].info["arena"] + MIB, "what a trim gave back counts no more"


def test_no_figure_is_nonsense_while_other_threads_work(preload: Preload, program: Path) -> None:
    points = points_of("point noise 0\n" + preload.run(program, "noise").stdout)
    assert len(points) == 201
    for point in points[:-1]:
        check_mallinfo(point)
        check_xml(point, exact=False)
        check_json(point, exact=False)
        stats = point.stats
        assert stats["live"] + stats["cached"] + stats["free"] == stats["resident"]
        assert max(max(numbers) for numbers in point.numbers.values()) < NOISE_MOST
        assert max(row["held_bytes"] for row in point.json["ranges"]) < NOISE_MOST
    check_quiet(points[-1])
