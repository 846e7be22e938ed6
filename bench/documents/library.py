#!/usr/bin/env python3
"""Builds a library from a lane and the documents' flags: `library.py LANE OUT [-DFLAG=VALUE...]`; OUT becomes a link to it.

The documents set flags by -D; here a lane has knobs. FLAGS says which flag is which knob, and WITH what else such a knob
sets, because without it the value would do nothing or not build. Without a flag that sets a knob, the library is that of
`make libs`, else a variant (tools/variant.py). HZ4_MID_STATS_B1=1 builds with the counters of hot paths. PARTS names the
flags of parts that are always there. A flag whose path carries blocks only in lane home is accepted in other lanes, and a
line on stderr says so. An unknown flag, a value out of range and two flags that contradict each other are refused.
"""

import pathlib
import shlex
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]

FLAGS = {
    "HZ3_NUM_SHARDS": "NUM_SHARDS",
    "HZ3_P32_NUM_SHARDS": "NUM_SHARDS",
    "HZ3_S142_XFER_LOCKFREE": "TRANSFER_LOCKFREE",
    "HZ3_S142_CENTRAL_LOCKFREE": "CENTRAL_LOCKFREE",
    "HZ3_OWNER_EXCL_ALWAYS": "EXCLUSIVE_ALWAYS",
    "HZ3_SHARD_COLLISION_FAILFAST": "SHARD_COLLISION_FAILFAST",
    "HZ3_S86_CENTRAL_SHADOW": "CENTRAL_SHADOW",
    "HZ3_LIST_FAILFAST": "LIST_FAILFAST",
    "HZ3_S142_FAILFAST": "TRANSFER_FAILFAST",
    "HZ3_XFER_STRUCT_FAILFAST": "TRANSFER_FAILFAST",
    "HZ3_S121": "PAGE_LOCAL_REMOTE",
    "HZ3_S121_LAZY_THRESHOLD": "PAGE_LOCAL_THRESHOLD",
    "HZ4_REMOTE_INBOX": "REMOTE_INBOX",
}

# What else a knob sets, or one of its values.
STAGES = {"TRANSFER_CENTRAL": "1"}
OWN_SHARDS = {"SHARDS_PER_CPU": "0"}  # a thread gets a shard of its own while there is one, as in the documents
WITH: dict[str | tuple[str, str], dict[str, str]] = {
    "TRANSFER_LOCKFREE": STAGES,
    "CENTRAL_LOCKFREE": STAGES,
    ("CENTRAL_SHADOW", "1"): STAGES,
    ("TRANSFER_FAILFAST", "1"): STAGES,
    "NUM_SHARDS": OWN_SHARDS,
    ("SHARD_COLLISION_FAILFAST", "1"): OWN_SHARDS,
    ("REMOTE_INBOX", "1"): {"INBOX_BYTES": "1048576"},
    "PAGE_LOCAL_THRESHOLD": {"PAGE_LOCAL_REMOTE": "1"},
    ("PAGE_LOCAL_REMOTE", "1"): {"TRANSFER_CENTRAL": "0"},
}

# Knobs of ways home that only lane home uses for all that is freed remotely: the other lanes of hz3 adopt.
AT_HOME = ("TRANSFER_LOCKFREE", "CENTRAL_LOCKFREE", "CENTRAL_SHADOW", "TRANSFER_FAILFAST", "PAGE_LOCAL_REMOTE")
HOME = "hz3/home"

# 1 builds with the counters of hot paths.
STATISTICS = "HZ4_MID_STATS_B1"

# Nothing to switch: 1 is how it is, and another value is refused.
PARTS = (
    "HZ3_LOCAL_BINS_SPLIT", "HZ3_PTAG_DSTBIN_ENABLE", "HZ3_PTAG_DSTBIN_FASTLOOKUP", "HZ3_REALLOC_PTAG32",
    "HZ3_USABLE_SIZE_PTAG32", "HZ4_OS_STATS", "HZ4_OS_STATS_B9",
)  # fmt: skip


class Chosen(NamedTuple):
    """What the flags ask for. `statistics`: with the counters of hot paths."""

    knobs: dict[str, str]
    statistics: bool


def _set(found: dict[str, str], reasons: dict[str, str], knob: str, value: str, flag: str) -> None:
    """Raises ValueError when another flag has set the knob to another value."""
    if found.setdefault(knob, value) != value:
        raise ValueError(f"{flag}: needs {knob}={value}, but {reasons[knob]} sets it to {found[knob]}")
    reasons.setdefault(knob, flag)


def choose(words: list[str]) -> Chosen:
    """What the -D words ask for. Raises ValueError."""
    found: dict[str, str] = {}
    reasons: dict[str, str] = {}  # the flag by which a knob has its value
    statistics = False
    for word in words:
        flag, separator, value = word.removeprefix("-D").partition("=")
        value = value if separator else "1"  # as the preprocessor does
        if not word.startswith("-D"):
            raise ValueError(f"'{word}' is not -DFLAG=VALUE")
        if flag == STATISTICS:
            if value not in ("0", "1"):
                raise ValueError(f"{flag}={value}; allowed: 0, 1")
            statistics = value == "1"
        elif flag in PARTS:
            if value != "1":
                raise ValueError(f"{flag}={value}: this part cannot be switched off (bench/documents/names.md)")
        elif flag in FLAGS:
            _set(found, reasons, FLAGS[flag], value, f"{flag}={value}")
        else:
            raise ValueError(f"'{flag}' is no flag of the documents; allowed: {', '.join([*FLAGS, STATISTICS, *PARTS])}")
    waiting = list(found)
    while waiting:
        knob = waiting.pop()
        for other, value in (WITH.get(knob, {}) | WITH.get((knob, found[knob]), {})).items():
            waiting += [] if other in found else [other]
            _set(found, reasons, other, value, reasons[knob])
    return Chosen(found, statistics)


def hint(lane: str, chosen: Chosen) -> str:
    """Which knobs switch a way that hardly carries a block in this lane, or ""."""
    knobs = [knob for knob in chosen.knobs if knob in AT_HOME]
    if lane == HOME or not knobs or not lane.startswith("hz3/"):
        return ""
    return (
        f"{', '.join(knobs)}: in lane {lane} threads keep the blocks that they free, so this way home gets hardly any; "
        "`all_ldpreload_home` builds the lane in which it carries all remote frees"
    )


def build(lane: str, chosen: Chosen) -> pathlib.Path:
    """Raises CalledProcessError when it does not build; the reason is on stderr."""
    if not chosen.knobs and not chosen.statistics:
        subprocess.run(["make", "--no-print-directory", "-s", "libs"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        engine, _, name = lane.partition("/")
        return ROOT / "build/lib" / f"libhakozuna_{engine}{'' if name == 'default' else f'_{name}'}.so"
    words = [f"{knob}={value}" for knob, value in chosen.knobs.items()]
    if chosen.knobs.get("EXCLUSIVE_ALWAYS") == "0" and lane != HOME and "TRANSFER_CENTRAL" not in chosen.knobs:
        words.append("STASH_BYTES=262144")  # only what waits in a mailbox can be taken without the lock
    command = [ROOT / "tools/variant.py", *(["--stats"] if chosen.statistics else []), lane, *words]
    return ROOT / subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main(lane: str, out: str, *words: str) -> int:
    try:
        chosen = choose([one for word in words for one in shlex.split(word)])
        if hint(lane, chosen):
            print(f"library.py: {hint(lane, chosen)}", file=sys.stderr)
        library = build(lane, chosen)
    except ValueError as error:
        print(f"library.py: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        return error.returncode
    link = pathlib.Path(out)
    link.unlink(missing_ok=True)
    link.symlink_to(library)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
