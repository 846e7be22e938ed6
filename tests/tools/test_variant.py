"""A variant has its overrides in its name and configuration; an impossible one is refused with the reason."""

import pathlib
import subprocess
import sys

import pytest

import lanes
import variant

TOOL = pathlib.Path(variant.__file__)


def run(*words):
    return subprocess.run([TOOL, *words], capture_output=True, text=True, check=False, cwd=lanes.ROOT)


def config_of(library):
    """Read in a child with the library preloaded, because the library replaces malloc in the process that loads it."""
    code = (
        "import ctypes; f = ctypes.CDLL(None).hz_config_string; f.restype = ctypes.c_char_p; print(f().decode())"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=True
    )
    return dict(word.split("=", 1) for word in asked.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("hz3/none",), "'hz3/none' is not a lane; allowed: "),
        (("hz3",), "'hz3' is not a lane; allowed: "),
        (("hz9/scale",), "'hz9/scale' is not a lane; allowed: "),
        (("none",), "'none' is not a lane; allowed: "),
        (("hz4/",), "'hz4/' is not a lane; allowed: "),
        (("",), "'' is not a lane; allowed: "),
        (("scale", "BIN_SIZE=1"), "'HZ_BIN_SIZE' is not a knob of hz3; its knobs: HZ_NUM_SHARDS, "),
        (("scale", "INBOX_BYTES=8192"), "'HZ_INBOX_BYTES' is not a knob of hz3; its knobs: "),
        (("scale", "BIN_COUNT"), "'BIN_COUNT' is not NAME=VALUE"),
        (("scale", "BIN_COUNT="), "SET: HZ_BIN_COUNT is ; allowed: 8..1024"),
        (("scale", "BIN_COUNT=7"), "SET: HZ_BIN_COUNT is 7; allowed: 8..1024"),
        (("scale", "BIN_COUNT=1025"), "SET: HZ_BIN_COUNT is 1025; allowed: 8..1024"),
        (("scale", "BIN_COUNT=-8"), "SET: HZ_BIN_COUNT is -8; allowed: 8..1024"),
        (("scale", "BIN_COUNT=0x10"), "SET: HZ_BIN_COUNT is 0x10; allowed: 8..1024"),
        (("scale", "BIN_COUNT=16", "HZ_BIN_COUNT=32"), "HZ_BIN_COUNT is set twice"),
    ],
)
def test_bad_words_build_nothing(words, message, monkeypatch, capsys):
    """Other tests build variants at the same time, so what counts is that this call runs no command."""
    monkeypatch.setattr(variant, "run", lambda command: pytest.fail(f"runs {command}"))
    assert variant.main(list(words)) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"variant.py: {message}")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("words", "name", "reason"),
    [
        (
            ("hz4", "BIN_COUNT=256", "BATCH_COUNT=200"),
            "hz4+bin_count-256+batch_count-200",
            "HZ_BATCH_COUNT: two batches must fit into a bin, or it flushes the batch that has just filled it",
        ),
        (
            ("scale", "CENTRAL_LOCKFREE=0"),
            "hz3_scale+central_lockfree-0",
            "HZ_TRANSFER_LOCKFREE=0, HZ_CENTRAL_LOCKFREE=0, HZ_TRANSFER_FAILFAST=1, HZ_CENTRAL_SHADOW=1: need HZ_TRANSFER_CENTRAL=1, "
            "or there is no transfer and no central",
        ),
        (
            ("hz3/home", "CENTRAL_SHADOW=1"),
            "hz3_home+central_shadow-1",
            "HZ_CENTRAL_SHADOW: needs HZ_CENTRAL_LOCKFREE=0, or block and note cannot change together",
        ),
        (
            ("scale", "SHARD_COLLISION_FAILFAST=1"),
            "hz3_scale+shard_collision_failfast-1",
            "HZ_SHARD_COLLISION_FAILFAST=1: needs HZ_SHARDS_PER_CPU=0, or the machine decides how many threads are too many",
        ),
        (
            ("scale", "EXCLUSIVE_ALWAYS=0"),
            "hz3_scale+exclusive_always-0",
            "HZ_EXCLUSIVE_ALWAYS=0: needs HZ_SHARD_COLLISION_FAILFAST=1, or two threads of a shard could take what was sent and "
            "overwrite the leftovers of the other, whether transfer and central are lock-free or not",
        ),
        (
            ("fast", "EXCLUSIVE_ALWAYS=0", "SHARD_COLLISION_FAILFAST=1", "PAGE_LOCAL_REMOTE=1"),
            "hz3_fast+shard_collision_failfast-1+exclusive_always-0+page_local_remote-1",
            "HZ_PAGE_LOCAL_REMOTE=1, HZ_REMOTE_INBOX=0: need HZ_EXCLUSIVE_ALWAYS=1, because the queue of pages allows one taker at a time",
        ),
        (
            ("pageq", "SHARDS_PER_CPU=0", "EXCLUSIVE_ALWAYS=0", "SHARD_COLLISION_FAILFAST=1"),
            "hz4_pageq+shards_per_cpu-0+shard_collision_failfast-1+exclusive_always-0",
            "HZ_PAGE_LOCAL_REMOTE=1, HZ_REMOTE_INBOX=0: need HZ_EXCLUSIVE_ALWAYS=1, because the queue of pages allows one taker at a time",
        ),
        (
            ("pageq", "HZ_BIN_COUNT_MIN=64", "BIN_COUNT=32", "BATCH_COUNT=16"),
            "hz4_pageq+bin_count-32+bin_count_min-64+batch_count-16",
            "HZ_BIN_COUNT_MIN: must not be above HZ_BIN_COUNT",
        ),
    ],
)
def test_a_combination_that_does_not_compile_says_why(words, name, reason):
    done = run(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"variant.py: {name}: {reason}\n"
    assert not list((variant.VARIANTS / name).glob("lib/*+*.so"))


@pytest.mark.deep
def test_a_variant_has_its_overrides_and_its_own_library():
    done = run("scale", "BIN_COUNT=96", "HZ_NUM_SHARDS=7", "BATCH_COUNT=48")
    name = "hz3_scale+num_shards-7+bin_count-96+batch_count-48"
    assert (done.returncode, done.stderr) == (0, "")
    library = lanes.ROOT / done.stdout.strip()
    assert library == variant.VARIANTS / name / "lib" / f"libhakozuna_{name}.so"
    assert variant.VARIANTS / name in library.resolve().parents
    config = config_of(library)
    assert config["overrides"] == "NUM_SHARDS:7,BIN_COUNT:96,BATCH_COUNT:48"
    assert (config["engine"], config["lane"], config["shards"]) == ("hz3", "scale", "7")
    assert (config["HZ_BIN_COUNT"], config["HZ_BATCH_COUNT"], config["HZ_NUM_SHARDS"]) == ("96", "48", "7")
    _, known = lanes.read_engines(lanes.ROOT)
    scale = next(lane for lane in known if lane.title == "hz3/scale")
    others = {key: value for key, value in scale.values.items() if f"{key.removeprefix('HZ_')}:" not in config["overrides"]}
    assert {key: int(config[key]) for key in others} == others


@pytest.mark.deep
def test_a_lane_without_overrides():
    done = run("hz4")
    assert (done.returncode, done.stderr) == (0, "")
    assert config_of(lanes.ROOT / done.stdout.strip())["overrides"] == "none"
