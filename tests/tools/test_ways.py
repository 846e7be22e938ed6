"""A library contains the ways home that its knobs choose, and no other; lane home sends nearly all blocks by them."""

import json
import os
import pathlib
import re
import subprocess

import pytest

import lanes
import variant

LIBRARIES = lanes.ROOT / "build" / "lib"
RING = lanes.ROOT / "build" / "release" / "bench" / "bench_random_mixed_mt_remote_malloc"
PLAIN = ("hz3_scale", "hz3_fast", "hz3_p32", "hz4")
# A mechanism, and how its functions' names begin. The archives have each function, whatever link-time optimisation
# makes of it.
MECHANISMS = {
    "lists": r"hz_(mail_|list_|box_)",
    "transfer": r"hz_transfer_(lockfree|mutex|check)",
    "central": r"hz_central_(lockfree|mutex)",
    "shadow": r"hz_shadow_",
    "page queues": r"hz_page_local_",
    "a shard for each thread": r"hz_takers_may_share",
    "bins of CPUs": r"hz_(cpu_|rseq_)",
}
TEXTS = {
    "transfer": "corrupt list in transfer at:",
    "shadow": "block is on central already:",
    "a shard for each thread": "more threads than shards; shards there are:",
}


def mechanisms_of(archive: pathlib.Path) -> set[str]:
    """The mechanisms of which an archive has functions or texts."""
    names = subprocess.run(["nm", "--defined-only", archive], capture_output=True, text=True, check=True).stdout
    functions = re.findall(r"^[0-9a-f]+ [tTwW] (\w+)$", names, re.MULTILINE)
    assert "hz_shard_send" in functions, "nm does not read the archive"
    content = archive.read_bytes()
    found = {name for name, pattern in MECHANISMS.items() if any(re.match(pattern, function) for function in functions)}
    return found | {name for name, text in TEXTS.items() if text.encode() in content}


@pytest.mark.parametrize("lane", PLAIN)
def test_a_plain_lane_contains_no_other_way_home(lane):
    assert mechanisms_of(LIBRARIES / f"libhakozuna_{lane}.a") == set()
    library = (LIBRARIES / f"libhakozuna_{lane}.so").read_bytes()
    assert [name for name, text in TEXTS.items() if text.encode() in library] == []


@pytest.mark.parametrize(
    ("lane", "expected"),
    [
        ("hz3_home", {"lists", "transfer", "central", "shadow"}),
        ("hz4_home", {"lists"}),
        ("hz4_pageq", {"lists", "page queues"}),
        ("hz3_percpu", {"bins of CPUs"}),
    ],
)
def test_other_lanes_contain_theirs(lane, expected):
    assert mechanisms_of(LIBRARIES / f"libhakozuna_{lane}.a") == expected


@pytest.mark.deep
def test_a_variant_contains_what_its_knobs_choose():
    switches = ("TRANSFER_LOCKFREE=0", "CENTRAL_LOCKFREE=0", "CENTRAL_SHADOW=1", "TRANSFER_FAILFAST=1", "SHARD_COLLISION_FAILFAST=1")
    words = ["hz3/home", *switches]
    built = subprocess.run([variant.__file__, "--archive", *words], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    library = lanes.ROOT / built.stdout.strip()
    assert mechanisms_of(library.parent / "libhakozuna_hz3_home.a") == {"lists", "transfer", "central", "shadow", "a shard for each thread"}
    counters = counters_of_ring(library)
    assert counters["counters"]["central_send"] > 0


def counters_of_ring(library: pathlib.Path, rounds: int = 100_000) -> dict[str, dict[str, int]]:
    """The statistics after a ring of 16 threads of which 90 % of the frees are of another thread's blocks, 16 to 2048 bytes."""
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "HAKOZUNA_STATS": "json"}
    done = subprocess.run(
        [RING, *f"16 {rounds} 400 16 2048 90 65536".split()], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stderr[done.stderr.index("{") :])


@pytest.mark.deep
@pytest.mark.parametrize("lane", ["hz3_home", "hz4_home"])
def test_lane_home_sends_remote_frees_by_its_mailbox(lane):
    # blocks of a thread that has ended go straight into their pages: in a long ring few do
    numbers = counters_of_ring(LIBRARIES / f"libhakozuna_{lane}.so", 1_000_000)
    counters, remote = numbers["counters"], numbers["remote"]
    assert counters["remote_free"] > 4_000_000, "the ring must have carried blocks from thread to thread"
    assert remote["mail_blocks"] > 0.95 * counters["remote_free"]
    assert counters["depot_push"] == counters["refill_depot"] == 0
    if lane == "hz3_home":
        assert counters["stash_send"] == 0 and counters["transfer_send"] > 0 and counters["central_send"] > 0
        assert counters["refill_transfer"] > 0 and counters["refill_central"] > 0
    else:
        assert remote["inbox_push_list"] > 0 and remote["inbox_consume"] > 0


def test_another_lane_does_not():
    numbers = counters_of_ring(LIBRARIES / "libhakozuna_hz3_scale.so")
    assert numbers["remote"]["mail_blocks"] < 0.5 * 400_000
    assert numbers["counters"]["depot_push"] > 0
