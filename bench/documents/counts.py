#!/usr/bin/env python3
"""Makes the files of counts that the five documents' pages use: `counts.py [NAME...]`.

one-thread, statistics and lockfree are instructions and simulated cache misses (`hakobench counts`); locks and p32 are a
library's own statistics at the end of a run. Other work on the machine hardly changes any of them. The files come to
build/documents-measured. To take them, move them to bench/results/documents, give their date in FILES of figures.py,
and write the pages anew. A library is named by its commit, so a tree with changes is refused.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import measure
from hakobench import machine

ROOT = measure.ROOT
RING = "bench_random_mixed_mt_remote_malloc"
ONE_THREAD = "tiny-16-256,app-16-256,app-16-32768,args-16-32768"
STATISTICS = "tiny-16-256,app-16-32768,args-16-32768,mt-t16-r0,mt-t16-r90"
BY_CLASS = re.compile(r',"classes":\[.*')  # and what follows: the longest parts of a report, which no page uses
RAW_COUNTS = re.compile(r"^raw counts: (\S+)$", re.MULTILINE)


def stats_library(lane: str) -> pathlib.Path:
    """The lane with the counters of hot paths."""
    done = subprocess.run([ROOT / "tools/variant.py", "--stats", lane], stdout=subprocess.PIPE, text=True, check=True)
    return ROOT / done.stdout.strip()


def simulate(out: pathlib.Path, suite: str, rows: str, scale: float, allocators: str, libraries: dict[str, pathlib.Path]) -> None:
    """`libraries`: those that --lib names. The ones of `allocators` are built already."""
    words = ["counts", "--suite", suite, "--rows", rows, "--scale", str(scale), "--results-dir", measure.OUT / "counts"]
    words += [word for name, path in libraries.items() for word in ("--lib", f"{name}={path}")]
    words += ["--allocators", ",".join([allocators, *libraries])]
    done = subprocess.run([measure.HAKOBENCH, *words], stdout=subprocess.PIPE, text=True, check=True)
    (name,) = RAW_COUNTS.findall(done.stdout)
    shutil.move(measure.OUT / "counts" / pathlib.PurePath(name).name, out)


def one_thread(out: pathlib.Path) -> None:
    simulate(out, "seeds", ONE_THREAD, 0.01, "hz3_scale,hz4,tcmalloc", {})


def statistics(out: pathlib.Path) -> None:
    simulate(out, "seeds", STATISTICS, 0.01, "hz3_scale,hz4", {"hz3_scale_stats": stats_library("hz3/scale"), "hz4_stats": stats_library("hz4/default")})


def lockfree(out: pathlib.Path) -> None:
    free, mutex = (measure.build(measure.variant("home", "hz3/home", STASH_BYTES=0, CENTRAL_LOCKFREE=one, TRANSFER_LOCKFREE=one)) for one in (1, 0))
    simulate(out, "documents", "t4-r90,t16-r90", 0.02, "glibc", {"home-free": free, "home-mutex": mutex})


def report(library: pathlib.Path, *arguments: str) -> list[str]:
    """The command, and what the run printed."""
    command = [f"build/release/bench/{RING}", *arguments]
    variables = {"HAKOZUNA_STATS": "exit,json", "LD_PRELOAD": str(library)}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    lines = [BY_CLASS.sub("", line) for line in done.stdout.splitlines()]
    return [f"# HAKOZUNA_STATS=exit,json LD_PRELOAD={library.relative_to(ROOT)} {' '.join(command)}", *lines]


def write(out: pathlib.Path, about: str, *reports: list[str]) -> None:
    here = machine.look(0.1)
    head = f"# {about}; commit={here.commit}, {here.cpu}, {here.cores} CPUs, Linux {here.kernel}; classes and threads of each report are left out"
    out.write_text("\n".join([head, *(line for one in reports for line in one)]) + "\n")


def locks(out: pathlib.Path) -> None:
    ring = ["16", "200000", "400", "16", "32768", "90", "65536"]
    hz4, hz3 = stats_library("hz4/default"), stats_library("hz3/scale")
    cases = [(library, how) for how in ("wait", "fallback") for library in (hz4, hz3)]
    write(out, "document 004's ring in builds with statistics", *(report(library, *ring, f"--full={how}") for library, how in cases))


def p32(out: pathlib.Path) -> None:
    library = ROOT / "build/lib/libhakozuna_hz3_p32.so"
    write(out, "lane p32 with 128 threads", report(library, "128", "20000", "400", "16", "2048", "90", "1024", "--full=wait"))


FILES: dict[str, tuple[str, Callable[[pathlib.Path], None]]] = {
    "one-thread": ("counts-one-thread.csv", one_thread),
    "statistics": ("counts-statistics.csv", statistics),
    "lockfree": ("counts-lockfree.csv", lockfree),
    "locks": ("locks-ring-32k.log", locks),
    "p32": ("p32-t128.log", p32),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Makes the files of counts that the five documents' pages use.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(FILES))
    chosen = parser.parse_args(arguments).names or list(FILES)
    unknown = [name for name in chosen if name not in FILES]
    if unknown:
        parser.error(f"no counts '{unknown[0]}'; there are: {', '.join(FILES)}")
    commit = machine.commit()
    if commit.endswith("-dirty"):
        parser.error(f"the tree is '{commit}': commit its changes first, so that the library can be built again")
    measure.OUT.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        file, make = FILES[name]
        try:
            make(measure.OUT / file)
        except subprocess.CalledProcessError as error:
            print(f"counts.py: {name}: '{error.cmd[0]}' ended with {error.returncode}", file=sys.stderr)
            return 1
        print(measure.OUT / file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
