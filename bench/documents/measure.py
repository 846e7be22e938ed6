#!/usr/bin/env python3
"""Measures what the five documents ask, part by part: `measure.py [--list] [PART...]`, on a quiet machine.

A part is a question, variants of a lane, and pairs of them that `hakobench compare` judges over rows of suite `documents`.
Level 1 has the few rows that can decide, level 2 all rows that the documents have. --list prints the parts with the
minutes that they take; they stand in the order in which they are worth the time, and without PART all run.

A variant is a lane, knobs, and edits: a word of a source or of the build that is no knob, replaced in a copy of the
working tree.

build/documents-measured/PART.txt has the whole output of a part, summary.csv a line for each pair: part, A, B, verdict,
gain and hold with their intervals, file with the runs. Parts that were measured are not measured again, unless --again.
"""

import argparse
import csv
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build/documents-measured"
COPIES = ROOT / "build/documents-copies"
HAKOBENCH = ROOT / ".venv/bin/hakobench"
VERDICT = re.compile(r"^verdict=(\S+) gain=(.*?) hold=(.*?) gate=(\S+) rounds=(\d+)$", re.MULTILINE)
RUNS = re.compile(r"^runs: (\S+)$", re.MULTILINE)
P32_HOME = (("HOME_BELOW_BYTES", "65552"), ("DEPOT_BYTES", "0"), ("TRANSFER_CENTRAL", "1"), ("CENTRAL_BYTES", "16777216"))
UNCAPPED = str(1 << 30)


@dataclasses.dataclass(frozen=True)
class Edit:
    """`old` occurs once in the file; `new` replaces it."""

    path: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True)
class Variant:
    """`lane` can be p32-home, for lane p32 with all blocks sent home as in lane home of hz3, or any lane."""

    name: str
    lane: str
    knobs: tuple[tuple[str, str], ...] = ()
    edits: tuple[Edit, ...] = ()


@dataclasses.dataclass(frozen=True)
class Part:
    """`rows`: those of level 1 and of level 2. `pairs`: A and B; a ratio is B's speed as a multiple of A's."""

    name: str
    question: str
    pairs: tuple[tuple[Variant, Variant], ...]
    rows: tuple[str, str]
    gate: str = "seeds"
    suite: str = "documents"


def variant(name: str, lane: str, edits: Sequence[Edit] = (), **knobs: object) -> Variant:
    return Variant(name, lane, tuple((knob, str(value)) for knob, value in knobs.items()), tuple(edits))


def _lock_free(lane: str, stash: int | str, central: int, transfer: int) -> Variant:
    word = {0: "nostash", 262144: "capped"}.get(stash, "uncapped")  # type: ignore[call-overload]
    name = f"{lane.replace('/', '-')}-{word}-c{central}t{transfer}"
    return variant(name, lane, STASH_BYTES=stash, CENTRAL_LOCKFREE=central, TRANSFER_LOCKFREE=transfer)


def _lock_free_pairs(lane: str) -> tuple[tuple[Variant, Variant], ...]:
    """Both with a mutex against both without, the two steps of document 000, and both behind a capped stash."""
    steps = [_lock_free(lane, 0, *which) for which in ((0, 0), (1, 0), (1, 1))]
    behind = [_lock_free(lane, 262144, *which) for which in ((0, 0), (1, 1))]
    return ((steps[0], steps[2]), (steps[0], steps[1]), (steps[1], steps[2]), (behind[0], behind[1]))


def _stash_pairs(lane: str) -> tuple[tuple[Variant, Variant], ...]:
    off, capped, uncapped = (_lock_free(lane, stash, 1, 1) for stash in (0, 262144, UNCAPPED))
    return ((off, capped), (capped, uncapped))


def _against(base: Variant, *others: Variant) -> tuple[tuple[Variant, Variant], ...]:
    return tuple((base, other) for other in others)


HOME3, HOME4 = variant("hz3-home", "hz3/home"), variant("hz4-home", "hz4/home")
SCALE, DEFAULT4 = variant("hz3-scale", "hz3/scale"), variant("hz4", "hz4/default")
SPIN = "enum { SPIN_COUNT = 64 };"
MAILBOX = "src/ways/stages/mailbox.h"
SLOTS = ("HZ_TRANSFER_SLOTS = HZ_CACHE_LINE_BYTES", "HZ_TRANSFER_SLOTS = 4 * HZ_CACHE_LINE_BYTES")
ONE_SLOT = (SLOTS[0] + " / sizeof(hz_list_word)", "HZ_TRANSFER_SLOTS = 1")
LINES = ("== 3 * HZ_CACHE_LINE_BYTES", "== 6 * HZ_CACHE_LINE_BYTES")
GROUPS = "HZ_HOME_COUNT = 128 }"
FLAGS = "add_compile_options(-O2 -g)"
SMALL = "@small"
TO_T32 = f"{SMALL},@t8,t32-r0,t32-r50,t32-r90"
ALL_RINGS = "@short,@long,@wide"
NO_SHARING = "tiny-16-256,app-16-32768,args-16-2048"

PARTS = (
    Part("random", "000, 5: does lock-free transfer and central pay in pattern RANDOM with 8 threads?",
         _lock_free_pairs("hz3/home")[:1], ("random-t8", "random-t8,key-value-t*"), gate="any"),
    Part("lockfree-home", "000: transfer and central, lock-free or mutex, where every block goes through them",
         _lock_free_pairs("hz3/home"), (TO_T32, f"{SMALL},@t8,@short,@long,@wide")),
    Part("stash-home", "000: stash off, capped or uncapped", _stash_pairs("hz3/home"), (SMALL, ALL_RINGS)),
    Part("inbox", "002: lists through the inbox against each block to its page",
         ((variant("hz4-home-pages", "hz4/home", REMOTE_INBOX=0), HOME4),
          (variant("hz4-pages", "hz4/default", REMOTE_INBOX=0), DEFAULT4)), (f"{SMALL},@sides", f"{ALL_RINGS},@sides")),
    Part("pages", "001: each block to its page against lists through stash, transfer and central",
         _against(HOME3, variant("hz3-home-pages", "hz3/home", PAGE_LOCAL_REMOTE=1, TRANSFER_CENTRAL=0),
                  variant("hz3-home-pages-th4", "hz3/home", PAGE_LOCAL_REMOTE=1, TRANSFER_CENTRAL=0, PAGE_LOCAL_THRESHOLD=4)),
         (f"{SMALL},@sides", f"{ALL_RINGS},@sides")),
    Part("engines", "002: hz4 against hz3, as shipped and at home",
         ((SCALE, DEFAULT4), (HOME3, HOME4)), (f"{SMALL},t4-r90", f"{ALL_RINGS},@sides")),
    Part("home", "is the documents' own design worth it?", _against(SCALE, HOME3), (f"{SMALL},@sides", f"{ALL_RINGS},@sides,@kv")),
    Part("lockfree-p32", "000, 7: the same in lane p32 with all blocks sent home", _lock_free_pairs("p32-home"),
         (f"{SMALL},t64-r0,t64-r50,t64-r90", f"{SMALL},@short")),
    Part("lockfree-t128", "000, 7: transfer and central, lock-free or mutex, in lane p32 with all blocks sent home and 128 threads",
         _lock_free_pairs("p32-home")[:1], ("t128-r50,t128-r90", "t128-r0,t128-r50,t128-r90"), gate="any"),
    Part("stash-p32", "000: stash off, capped or uncapped in lane p32", _stash_pairs("p32-home"), (SMALL, "@short")),
    Part("lock", "004, 6: spinning against sleeping in a shard's lock, 64 turns by default",
         _against(HOME3, *(variant(f"hz3-home-spin{count}", "hz3/home", [Edit("src/base/lists/lock.c", SPIN, SPIN.replace("64", str(count)))])
                           for count in (0, 1000, 100000))),
         (SMALL, f"{ALL_RINGS},@sides"), gate="any"),
    Part("buffer", "004, 6: blocks in a remote buffer before they are sent home",
         _against(HOME4, *(variant(f"hz4-home-buffer{count}", "hz4/home", REMOTE_COUNT=count) for count in (16, 32, 64, 192, 384, 1024))),
         (f"{SMALL},xmalloc-8-8", f"{ALL_RINGS},@sides"), gate="any"),
    Part("batch", "004, 6: blocks grouped in one step, 128 by default",
         _against(HOME4, *(variant(f"hz4-home-batch{count}", "hz4/home",
                                   [Edit("src/heap/pages/send.h", GROUPS, GROUPS.replace("128", str(count)))])
                           for count in (16, 32, 64))),
         (f"{SMALL},xmalloc-8-8", f"{ALL_RINGS},@sides"), gate="any"),
    Part("layout", "003, 4: functions aligned to a line; cold code not moved away",
         _against(SCALE, variant("hz3-scale-aligned", "hz3/scale", [Edit("cmake/build.cmake", FLAGS, "add_compile_options(-O2 -g -falign-functions=64)")]),
                  variant("hz3-scale-unsplit", "hz3/scale",
                          [Edit("cmake/build.cmake", FLAGS, "add_compile_options(-O2 -g -fno-reorder-blocks-and-partition)")])),
         (NO_SHARING, NO_SHARING), gate="any", suite="seeds"),
    Part("redis-remote", "000, 3-2: transfer and central, lock-free or mutex, in redis with I/O threads and key-value with 8 threads",
         _lock_free_pairs("hz3/home")[:1], ("redis-io-threads,key-value-t8", "redis-io-threads,key-value-t8"), gate="any"),
    Part("slots", "000, S142-1: 8 slots of lists in transfer against 32, and against one before central's stack",
         _against(HOME3, variant("hz3-home-slots32", "hz3/home", [Edit(MAILBOX, *SLOTS), Edit(MAILBOX, *LINES)]),
                  variant("hz3-home-slots1", "hz3/home", [Edit(MAILBOX, *ONE_SLOT)])),
         (f"{SMALL},@sides", f"{ALL_RINGS},@sides"), gate="any"),
    Part("lock-mid", "004, 6: spinning against sleeping in a shard's lock of hz4, with mid blocks",
         _against(DEFAULT4, *(variant(f"hz4-spin{count}", "hz4/default", [Edit("src/base/lists/lock.c", SPIN, SPIN.replace("64", str(count)))])
                              for count in (0, 1000))),
         (f"{SMALL},t16-r90-32768", f"{SMALL},@wide"), gate="any"),
    Part("redis", "000, 3-2: a real redis-server and the key-value patterns, one thread, where no free is remote",
         (_lock_free_pairs("hz3/home")[0], (SCALE, HOME3)), ("redis-t1,key-value-t1", "redis-t1,@kv"), gate="any"),
)  # fmt: skip

# Seconds that a run of a row takes on two CPUs, for --list: from suite `seeds` of 2026-11-23, with half of scale's speed.
SECONDS = (
    (r"t4-.*", 0.4), (r"t8-r0", 0.5), (r"t8-.*", 1.5), (r"t16-r0", 0.3), (r"t16-r\d+", 0.8), (r"t32-.*", 1.6), (r"t64-r\d+", 3.5),
    (r"t128-.*", 8), (r"t16-.*-long", 2.2), (r"t64-.*-long", 5), (r"t16-.*", 2.2), (r"random.*|key-value.*", 2), (r"xmalloc.*", 1),
    (r"redis.*", 3), (r".*", 1),
)  # fmt: skip
START_SECONDS = 0.7  # of hakobench around a run


def row_seconds(row: str) -> float:
    return next(seconds for pattern, seconds in SECONDS if re.fullmatch(pattern, row))


def rows_of(part: Part, level: int) -> list[str]:
    from hakobench import suite  # the package is needed only where rows are looked up

    return [row.name for row in suite.load(part.suite).select(part.rows[level - 1])]


def minutes(part: Part, level: int, rounds: int, scale: float) -> float:
    each = sum(row_seconds(row) * scale + START_SECONDS for row in rows_of(part, level))
    return len(part.pairs) * 2 * rounds * each / 60


def lane_and_knobs(one: Variant) -> tuple[str, dict[str, str]]:
    """The lane to build, and its knobs."""
    if one.lane == "p32-home":
        return "hz3/p32", dict(P32_HOME) | dict(one.knobs)
    return one.lane, dict(one.knobs)


def edited_copy(one: Variant) -> pathlib.Path:
    """A copy of the working tree's files with the variant's edits. Raises ValueError for an edit that does not apply."""
    copy = COPIES / one.name
    for folder in ("src", "include", "cmake", "tools", "tests", "bench", "packaging", "command"):
        shutil.copytree(ROOT / folder, copy / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy2(ROOT / name, copy / name)
    for edit in one.edits:
        text = (copy / edit.path).read_text()
        if text.count(edit.old) != 1:
            raise ValueError(f"{one.name}: '{edit.old}' occurs {text.count(edit.old)} times in {edit.path}, not once")
        (copy / edit.path).write_text(text.replace(edit.old, edit.new))
    return copy


def build(one: Variant) -> pathlib.Path:
    """Raises ValueError for an edit that does not apply, CalledProcessError when it does not build."""
    lane, knobs = lane_and_knobs(one)
    tree = edited_copy(one) if one.edits else ROOT
    words = [f"{name}={value}" for name, value in knobs.items()]
    done = subprocess.run([tree / "tools/variant.py", lane, *words], stdout=subprocess.PIPE, text=True, check=True)
    return tree / done.stdout.strip()


def summary_line(part: Part, pair: tuple[Variant, Variant], text: str) -> list[str]:
    """Raises ValueError when the comparison printed no verdict."""
    verdict, runs = VERDICT.search(text), RUNS.search(text)
    if verdict is None or runs is None:
        raise ValueError(f"{part.name}: {pair[0].name} against {pair[1].name}: no verdict")
    return [part.name, pair[0].name, pair[1].name, *verdict.groups(), runs[1]]


def measure(part: Part, chosen: argparse.Namespace, say) -> list[list[str]]:
    """Raises ValueError and CalledProcessError."""
    variants = {one.name: one for pair in part.pairs for one in pair}
    libraries = {name: build(one) for name, one in variants.items()}
    lines = []
    with (OUT / f"{part.name}.txt").open("w") as out:
        for pair in part.pairs:
            names = [f"{one.name}={libraries[one.name]}" for one in pair]
            words = [HAKOBENCH, "compare", *names, "--suite", part.suite, "--rows", part.rows[chosen.level - 1],
                     "--rounds", str(chosen.rounds), "--scale", str(chosen.scale), "--gate", part.gate,
                     "--results-dir", OUT, *(["--force"] if chosen.force else [])]  # fmt: skip
            say(f"{part.name}: {pair[0].name} against {pair[1].name}")
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
            out.write(done.stdout)
            out.flush()
            lines.append(summary_line(part, pair, done.stdout))
            say("    " + " ".join(lines[-1][3:6]))
    return lines


def read_summary(path: pathlib.Path) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def write_summary(path: pathlib.Path, lines: list[list[str]]) -> None:
    with path.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("part", "a", "b", "verdict", "gain", "hold", "gate", "rounds", "runs"))
        writer.writerows(lines)


def show(parts: Sequence[Part], chosen: argparse.Namespace) -> None:
    total = 0.0
    for part in parts:
        needed = minutes(part, chosen.level, chosen.rounds, chosen.scale)
        total += needed
        print(f"{part.name:14} {needed:6.0f} min  {part.question}")
    print(f"{'together':14} {total:6.0f} min, beside some seconds for each variant that is built")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Measures what the five documents ask.")
    parser.add_argument("--list", action="store_true", help="print the parts with the minutes they take, measure nothing")
    parser.add_argument("--level", type=int, choices=(1, 2), default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--force", action="store_true", help="on a busy machine too; the runs are marked")
    parser.add_argument("--again", action="store_true", help="also parts that summary.csv has")
    parser.add_argument("parts", metavar="PART", nargs="*")
    chosen = parser.parse_args(arguments)
    by_name = {part.name: part for part in PARTS}
    unknown = [name for name in chosen.parts if name not in by_name]
    if unknown:
        parser.error(f"no part '{unknown[0]}'; there are: {', '.join(by_name)}")
    parts = [by_name[name] for name in chosen.parts] or list(PARTS)
    if chosen.list:
        show(parts, chosen)
        return 0

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    OUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for part in parts:
        lines = read_summary(OUT / "summary.csv")
        if not chosen.again and any(line[0] == part.name for line in lines):
            say(f"{part.name}: measured before; --again measures it anew")
            continue
        try:
            found = measure(part, chosen, say)
        except (ValueError, subprocess.CalledProcessError) as error:
            say(f"{part.name}: {error}")
            failed += 1
            continue
        write_summary(OUT / "summary.csv", [line for line in lines if line[0] != part.name] + found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
