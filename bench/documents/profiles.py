#!/usr/bin/env python3
"""Records the profiles that the five documents ask for: `profiles.py [NAME...]`, on a quiet machine with perf.

Each profile is one command under some libraries, three runs of each, sampled 4,000 times a second of CPU time (cpu-clock:
a virtual machine has no hardware counters). build/documents-measured/NAME-profile.log has the shares of the symbols, and
for locks who called them. The first line names command, commit, machine and date. To keep a profile, move its file to
bench/results/documents and name it in FILES of figures.py.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import measure
from hakobench import allocators, machine

RUNS = 3
SHARE = re.compile(r"^\s*([0-9.]+)%\s+\[(.)\]\s+(\S+(?: \S+)*)", re.MULTILINE)
LOCK = "src/base/lists/lock.c"
APART = tuple(
    measure.Edit(LOCK, f"\nvoid {name}(struct hz_lock *lock) {{", f"\nHZ_NOINLINE void {name}(struct hz_lock *lock) {{")
    for name in ("hz_lock_acquire", "hz_lock_release")
)


@dataclasses.dataclass(frozen=True)
class Profile:
    """`libraries`: variants that are built, or names of peers."""

    name: str
    about: str
    workload: str
    args: str
    libraries: tuple[measure.Variant | str, ...]
    least_percent: float = 0.5
    callers_of: str = ""


def ring(threads: int, remote: int) -> str:
    return f"{threads} {24_000_000 // threads} 400 16 2048 {remote} 65536"


RING = "bench_random_mixed_mt_remote_malloc"
NO_STASH = {"STASH_BYTES": 0, "CENTRAL_LOCKFREE": 1, "TRANSFER_LOCKFREE": 1}
PROFILES = (
    Profile("mutex", "the mutex of transfer and central in T8 R50; locks are no part of their callers", RING, ring(8, 50),
            (measure.variant("hz3-home-mutex-apart", "hz3/home", APART, STASH_BYTES=0, CENTRAL_LOCKFREE=0, TRANSFER_LOCKFREE=0),),
            callers_of="hz_lock_acquire"),
    Profile("tiny", "one thread, all sizes 16 to 256, as row tiny-16-256 of suite seeds", "bench_random_mixed_malloc_dist",
            "200000000 400 16 256 0x12345678 trimix 16 256 100 257 2048 0 2049 32768 0", (measure.SCALE, "tcmalloc"), 0.2),
    Profile("stash", "lane p32, all blocks sent home, without and with a stash, T16 R50", RING, ring(16, 50),
            (measure.variant("p32-home-nostash", "p32-home", **NO_STASH),
             measure.variant("p32-home-capped", "p32-home", **(NO_STASH | {"STASH_BYTES": 262144})))),
)  # fmt: skip


def library_of(one: measure.Variant | str) -> tuple[str, pathlib.Path]:
    if isinstance(one, str):
        (chosen,), _ = allocators.select(one, {})
        if chosen.library is None:
            raise ValueError(f"'{one}' is no library that can be loaded")
        return one, chosen.library
    return one.name, measure.build(one)


def perf(*words: str | pathlib.Path, **variables: str) -> str:
    done = subprocess.run(["perf", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env=os.environ | variables)  # fmt: skip
    if done.returncode != 0:
        raise ValueError(f"perf {words[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def record(profile: Profile, library: pathlib.Path, data: pathlib.Path) -> None:
    command = [measure.ROOT / "build/release/bench" / profile.workload, *profile.args.split()]
    graph = ["--call-graph", "dwarf,4096", "-F", "1000"] if profile.callers_of else ["-F", "4000"]
    perf("record", *graph, "-e", "cpu-clock", "-o", data, "--", "/usr/bin/env", f"LD_PRELOAD={library}", *command)


def sections(profile: Profile) -> list[str]:
    lines = []
    for one in profile.libraries:
        name, library = library_of(one)
        for run in range(1, RUNS + 1):
            with tempfile.TemporaryDirectory() as folder:
                data = pathlib.Path(folder) / "data"
                record(profile, library, data)
                report = ["report", "--stdio", "--no-children", "-i", data, "--sort", "symbol"]
                shares = SHARE.findall(perf(*report, "-g", "none"))
                lines.append(f"# {name} run {run}: share, symbol; above {profile.least_percent} %, and all with lock in their name")
                lines += [
                    f"{share}% [{kind}] {symbol.replace(' ', '_')}"
                    for share, kind, symbol in shares
                    if float(share) >= profile.least_percent or "lock" in symbol
                ]
                if profile.callers_of:
                    graph = perf(*report, "-g", "caller,0.5,callee,function,percent", "-S", profile.callers_of)
                    lines.append(f"# {name} run {run}: callers of {profile.callers_of}")
                    lines += [line for line in graph.splitlines() if line.strip() and not line.startswith("#")][:40]
    return lines


def main(arguments: list[str]) -> int:
    by_name = {profile.name: profile for profile in PROFILES}
    parser = argparse.ArgumentParser(description="Records the profiles that the five documents ask for.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(by_name))
    chosen = parser.parse_args(arguments).names or list(by_name)
    unknown = [name for name in chosen if name not in by_name]
    if unknown:
        parser.error(f"no profile '{unknown[0]}'; there are: {', '.join(by_name)}")
    measure.OUT.mkdir(parents=True, exist_ok=True)
    here = machine.look(0.1)
    for profile in (by_name[name] for name in chosen):
        try:
            found = sections(profile)
        except (ValueError, subprocess.CalledProcessError) as error:
            print(f"{profile.name}: {error}", file=sys.stderr)
            return 1
        head = f"# {profile.about}: perf record -e cpu-clock, {profile.workload} {profile.args}. commit={here.commit}, "
        head += f"{here.cpu}, {here.cores} CPUs, Linux {here.kernel}, {time.strftime('%Y-%m-%d')}."
        (measure.OUT / f"{profile.name}-profile.log").write_text("\n".join([head, *found]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
