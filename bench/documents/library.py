#!/usr/bin/env python3
"""Builds a library from a lane and the documents' flags: `library.py LANE OUT [-DFLAG=VALUE...]`; OUT becomes a link to it.

The documents set flags by -D; here a lane has knobs. FLAGS says which flag is which knob, PARTS names the flags of parts
that are always there. Without a flag that sets a knob, the library is that of `make libs`, else a variant
(tools/variant.py). An unknown flag, a value out of range and two flags that contradict each other are refused.
"""

import pathlib
import shlex
import subprocess
import sys

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
    "HZ3_S121_LAZY_THRESHOLD": "PAGE_LOCAL_THRESHOLD",
    "HZ4_REMOTE_INBOX": "REMOTE_INBOX",
}

# Knobs that mean nothing unless another one is set.
NEEDED = {
    "TRANSFER_LOCKFREE": "TRANSFER_CENTRAL", "CENTRAL_LOCKFREE": "TRANSFER_CENTRAL", "CENTRAL_SHADOW": "TRANSFER_CENTRAL",
    "TRANSFER_FAILFAST": "TRANSFER_CENTRAL",
}  # fmt: skip

# Nothing to switch: 1 is how it is, and another value is refused.
PARTS = (
    "HZ3_LOCAL_BINS_SPLIT", "HZ3_PTAG_DSTBIN_ENABLE", "HZ3_PTAG_DSTBIN_FASTLOOKUP", "HZ3_REALLOC_PTAG32",
    "HZ3_USABLE_SIZE_PTAG32", "HZ4_MID_STATS_B1", "HZ4_OS_STATS", "HZ4_OS_STATS_B9",
)  # fmt: skip


def knobs(words: list[str]) -> dict[str, str]:
    """The knobs that the -D words set. Raises ValueError."""
    found: dict[str, str] = {}
    for word in words:
        flag, separator, value = word.removeprefix("-D").partition("=")
        value = value if separator else "1"  # as the preprocessor does
        if not word.startswith("-D"):
            raise ValueError(f"'{word}' is not -DFLAG=VALUE")
        if flag in PARTS:
            if value != "1":
                raise ValueError(f"{flag}={value}: this part cannot be switched off (bench/documents/names.md)")
            continue
        if flag not in FLAGS:
            raise ValueError(f"'{flag}' is no flag of the documents; allowed: {', '.join([*FLAGS, *PARTS])}")
        knob = FLAGS[flag]
        if found.setdefault(knob, value) != value:
            raise ValueError(f"{flag}={value}: another flag sets {knob} to {found[knob]}")
    return found | {NEEDED[knob]: "1" for knob in found if knob in NEEDED}


def build(lane: str, chosen: dict[str, str]) -> pathlib.Path:
    """Raises CalledProcessError when it does not build; the reason is on stderr."""
    if not chosen:
        subprocess.run(["make", "--no-print-directory", "-s", "libs"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        engine, _, name = lane.partition("/")
        return ROOT / "build/lib" / f"libhakozuna_{engine}{'' if name == 'default' else f'_{name}'}.so"
    words = [f"{knob}={value}" for knob, value in chosen.items()]
    built = subprocess.run([ROOT / "tools/variant.py", lane, *words], stdout=subprocess.PIPE, text=True, check=True)
    return ROOT / built.stdout.strip()


def main(lane: str, out: str, *words: str) -> int:
    try:
        library = build(lane, knobs([one for word in words for one in shlex.split(word)]))
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
