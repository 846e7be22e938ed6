"""What docs/memory.md promises, for each shape of the workload `resident`: how much memory stays after the work.

The figures are resident memory without the tables of the workload. Each bound is what the largest of ten runs had (two
seeds, both engines), and about 30 % more.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, Preload

sys.path.append(str(ROOT / "tests" / "tools"))

from workload_programs import build_workloads  # from the folder that the line above adds

pytestmark = [pytest.mark.usefixtures("ours_only"), pytest.mark.deep]  # most of its tests wait for seconds

IDLE_SECONDS = 3
# Blocks that live on leave parts of pages that cannot go back.
LIVE_SHARE = 1.25


@dataclass(frozen=True)
class Shape:
    name: str
    arguments: tuple[str, ...]
    idle_kb: int  # after IDLE_SECONDS without a call, beside LIVE_SHARE of the live pages
    trimmed_kb: int  # after malloc_trim(0), beside the live pages
    peak_kb: int | None = None  # at any time


SHAPES = [
    # one thread, so no keeper: bins, slack and dirty budget stay as they are at the last free
    Shape("classes", ("12",), idle_kb=26_000, trimmed_kb=3_500),
    # the same; slack and dirty budget grow with what the live blocks pin, about 90 MB
    Shape("shift", ("16",), idle_kb=40_000, trimmed_kb=9_500),
    # 16 threads sleep, each with a block of most small classes. Peak: 2 MiB in queues, the rest in bins and the depot
    Shape("queues", ("2", "8", "--rounds=20000"), idle_kb=8_000, trimmed_kb=8_000, peak_kb=66_000),
    # 4 threads sleep, each with a block of all small classes
    Shape("relay", ("24", "4"), idle_kb=7_500, trimmed_kb=7_500),
    # 32 threads sleep, each with a block of all small classes, on 13 to 15.5 MB of pages. Peak: their bins, which did
    # not age in the short time, and what they carve faster than it goes back
    Shape("sleepers", ("32", "32"), idle_kb=17_000, trimmed_kb=17_000, peak_kb=210_000),
    # 4 threads, each of which frees what it has allocated itself. Peak: what rests must make way for the next size
    Shape("sleepers", ("20", "4"), idle_kb=18_000, trimmed_kb=15_000, peak_kb=95_000),
    # two threads sleep that used one class: little more than a process has that allocates nothing
    Shape("stranger", ("32",), idle_kb=3_700, trimmed_kb=3_200),
    # no thread is left but main: thread blocks, and the last page of each class in a shard
    Shape("ended", ("32", "32"), idle_kb=13_000, trimmed_kb=13_000),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_workloads(tmp_path_factory.mktemp("workloads"), names=["resident"]) / "resident"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_what_stays_is_bounded(preload: Preload, program: Path, shape: Shape, seed: int) -> None:
    command = [program, *shape.arguments, f"--shape={shape.name}", f"--idle={IDLE_SECONDS}", f"--seed={seed}"]
    result = preload.run(*command)
    words = dict(word.split("=", 1) for word in result.stdout.split())
    kb = {key: int(value) for key, value in words.items() if key.endswith("_kb")}
    table, live = kb["table_kb"], kb["live_pages_kb"]
    assert kb["after5_rss_kb"] - table <= LIVE_SHARE * live + shape.idle_kb, result.stdout
    assert kb["trimmed_rss_kb"] - table <= live + shape.trimmed_kb, result.stdout
    if shape.peak_kb is not None:
        assert kb["peak_rss_kb"] - table <= shape.peak_kb, result.stdout
