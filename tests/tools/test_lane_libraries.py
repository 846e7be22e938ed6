"""The promises of the lanes about threads and shards, checked with python running under the libraries."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import lanes
import variant

# All threads allocate before the first of them ends.
THREADS = """
import sys, threading
count = int(sys.argv[1])
barrier = threading.Barrier(count)
def work():
    blocks = [bytes(i) for i in range(64, 4096, 64)]
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(count)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
LIBRARIES = lanes.ROOT / "build" / "lib"
LANES = ("hz3_scale", "hz3_fast", "hz3_p32", "hz3_home", "hz3_percpu", "hz4", "hz4_home", "hz4_pageq")


def run(library: pathlib.Path, threads: int):
    """Runs `threads` threads at the same time, in addition to the main thread."""
    environment = {
        "PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc", "HAKOZUNA_SHOW_CONFIG": "2",
        "HAKOZUNA_STATS": "json",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", THREADS, str(threads)], env=environment, capture_output=True, text=True, check=False
    )


def config_and_counters(stderr: str) -> tuple[dict[str, str], dict[str, int]]:
    config = re.search(r"^.*\bengine=.*$", stderr, re.MULTILINE)[0]
    return dict(word.split("=", 1) for word in config.split() if "=" in word), json.loads(stderr[stderr.index("{") :])["counters"]


@pytest.mark.parametrize("threads", [128, 254, 255, 300])
def test_p32_has_and_uses_255_shards(threads):
    done = run(LIBRARIES / "libhakozuna_hz3_p32.so", threads)
    assert done.returncode == 0, done.stderr
    config, counters = config_and_counters(done.stderr)
    assert (config["lane"], config["shards"], config["HZ_NUM_SHARDS"]) == ("p32", "255", "255")
    assert counters["shards"] == min(threads + 1, 255)
    assert counters["thread_blocks"] - threads in (1, 2)  # main, and the keeper, unless it has an ended thread's


@pytest.mark.parametrize("lane", LANES)
def test_no_lane_aborts_with_more_threads_than_shards(lane):
    done = run(LIBRARIES / f"libhakozuna_{lane}.so", 300)
    assert done.returncode == 0, done.stderr
    config, counters = config_and_counters(done.stderr)
    expected = {"hz3_fast": 8, "hz3_p32": 255}.get(lane, 63)
    assert int(config["shards"]) == expected
    per_cpu = int(config["HZ_SHARDS_PER_CPU"])
    assert (per_cpu == 0) == (lane in ("hz3_fast", "hz3_p32", "hz3_home", "hz4_home"))
    assert counters["shards"] == min(expected, per_cpu * len(os.sched_getaffinity(0)) or expected)


@pytest.mark.deep
def test_a_lane_for_benchmarks_may_refuse_to_share():
    built = subprocess.run([variant.__file__, "fast", "SHARD_COLLISION_FAILFAST=1"], capture_output=True, text=True, check=True)
    library = lanes.ROOT / built.stdout.strip()
    assert run(library, 7).returncode == 0, "8 threads with the main thread"
    done = run(library, 8)
    assert done.returncode == -6
    assert done.stderr.splitlines()[-1] == "hakozuna: more threads than shards; shards there are: 8"
