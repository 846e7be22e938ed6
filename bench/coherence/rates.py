#!/usr/bin/env python3
"""Counts what each lane does to shared memory in one malloc, for scaling.py: `rates.py OUT.csv LANE=STATS_LIBRARY=RELEASE_LIBRARY...`

Each program runs twice under the library with statistics, with its work and with three times its work. The difference of
the counters, per malloc, is what the program does in the long run, without its start and end. Then it runs `--rounds`
times under the release library, without statistics: on one CPU, and on two, with line_transfer before and after. The
least times of a malloc with its free are `one_cpu_ns` and `ns`; `line_ns` and `cas_ns` are those around that round, because
a virtual machine's two CPUs are sometimes two threads of a core and sometimes two cores. Counts change little when
others use the machine, except those of xmalloc_test; times do. So a round, and a count, is good only if a line took less
than LINE_NS_MAX before and after it, which it does not while one of two threads waits for a CPU, and, where there is a CPU
for each thread, if threads lost their CPU PREEMPTED_MAX times at most. A row for which that did not happen in `--tries`
has no times, and its figure `quiet` is 0.

With `--times RESULTS.csv --line NS`, times come from a run of suite quick, on whatever machine that was, instead; `one_cpu_ns` is
then that of its ring in which nothing passes from thread to thread, and for xmalloc_test that of `args-16-256`.

A line of the CSV is `row,lane,figure,value`. Needs `make workloads`, and both builds of each lane:

    cmake --preset stats && ninja -C build/stats lib/libhakozuna_hz3_scale.so lib/libhakozuna_hz4.so
    .venv/bin/python bench/coherence/rates.py bench/results/documents/scaling-rates.csv \\
        scale=build/stats/lib/libhakozuna_hz3_scale.so=build/release/lib/libhakozuna_hz3_scale.so \\
        hz4=build/stats/lib/libhakozuna_hz4.so=build/release/lib/libhakozuna_hz4.so
"""

import collections
import csv
import gzip
import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import click
from hakobench import machine
from hakobench.project import BIN_DIR, public_path, public_text

Result = TypeVar("Result")
GROUPS = ("counters", "remote", "locks")
COUNTERS = ("refill", "refill_depot", "refill_carry", "refill_page", "page_create", "page_retire", "flush", "depot_push",
            "home_blocks", "direct_home", "mail_blocks", "ls_acq_self", "ls_rel_self", "ls_rel_steal")  # fmt: skip
SENDS = ("stash_send", "inbox_push_list")  # the engines' names of one counter
TAKES = ("refill_stash", "inbox_consume")
SECONDS = 300
PREEMPTED_MAX = 4
CAS_NS = 5.0
QUICK = (  # row here, row of suite quick, operations of it for each malloc; all use two CPUs but `alone`
    ("alone", "args-16-256", 0.5),
    ("local", "mt-t2-r0", 2),
    ("ring50", "mt-t2-r50", 2),
    ("ring90", "mt-t2-r90", 2),
    ("ring90-t16", "mt-t16-r90", 2),
    ("xmalloc", "xmalloc-2-2", 1),
)
TIMED_SHARE = 0.25  # of the work, so that a quiet moment is enough
LINE_NS_MAX = 260.0  # a line of another core takes 180 to 190 ns here; a thread that waits for a CPU takes far longer


@dataclasses.dataclass(frozen=True)
class Row:
    """`command`: the word in braces is the work. `mallocs`: the figure that the program prints."""

    name: str
    threads: int
    command: tuple[str, ...]

    def words(self, factor: float) -> list[str]:
        program, *rest = self.command
        return [str(BIN_DIR / program), *(str(round(int(one[1:-1]) * factor)) if one.startswith("{") else one for one in rest)]


def _ring(threads: int, work: int, remote: int, ring: int = 1024) -> tuple[str, ...]:
    words = (str(threads), f"{{{work}}}", "400", "16", "2048", str(remote), str(ring), "--full=wait")
    return ("bench_random_mixed_mt_remote_malloc", *words)


ROWS = (
    Row("alone", 1, _ring(1, 4_000_000, 0)),
    Row("local", 2, _ring(2, 4_000_000, 0)),
    Row("ring50", 2, _ring(2, 1_000_000, 50)),
    Row("ring90", 2, _ring(2, 1_000_000, 90)),
    Row("ring90-t16", 16, _ring(16, 125_000, 90)),
    Row("xmalloc", 2, ("xmalloc_test", "1", "1", "{600}")),
    Row("larson", 2, ("larson", "2", "8", "1000", "1000", "{150}")),
)


def parse_printed(text: str) -> dict[str, float]:
    """The figures that a workload printed: `allocated`, `remote_sent` and `seconds`. Raises ValueError."""
    values = dict(re.findall(r"(?:^|\s)([a-z_]+)=([\d.]+)(?=\s|$)", text))
    if "allocated" not in values or "seconds" not in values:
        raise ValueError(f"the program printed no figures: {text[-200:]!r}")
    return {name: float(values.get(name, "0")) for name in ("allocated", "remote_sent", "seconds", "peak_rss_kb")}


def parse_report(text: str) -> dict[str, float]:
    """The counters in the JSON report among a program's messages. Raises ValueError."""
    lines = [line for line in text.splitlines() if line.startswith('{"version"')]
    if not lines:
        raise ValueError("no statistics: the library was not loaded, or the program did not end by exit")
    report = json.loads(lines[-1])
    values = {name: value for group in GROUPS for name, value in report[group].items()}
    found = {name: float(values[name]) for name in COUNTERS}
    found["send"] = float(sum(values.get(name, 0) for name in SENDS))
    found["take"] = float(sum(values.get(name, 0) for name in TAKES))
    return found


def per_malloc(short: Mapping[str, float], long: Mapping[str, float], mallocs: float) -> dict[str, float]:
    """What each of `mallocs` mallocs does, from the counters of two runs that differ by so many. Raises ValueError."""
    if mallocs <= 0:
        raise ValueError("the longer run has no more mallocs than the shorter one")
    return {name: max(0.0, (long[name] - short[name]) / mallocs) for name in short}


def _run(words: list[str], library: pathlib.Path, *, statistics_on: bool = False, cpus: Collection[int] = ()) -> tuple[dict[str, float], str]:
    env = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "HAKOZUNA_STATS")}
    env |= {"LD_PRELOAD": str(library)} | ({"HAKOZUNA_STATS": "json"} if statistics_on else {})
    bound = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw
    done = subprocess.run(bound + words, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-300:]}")
    preempted = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw - before
    return parse_printed(done.stdout) | {"preempted": preempted}, done.stderr


def quiet_round(run: Callable[[], Result], tries: int, is_good: Callable[[Result], bool] = lambda _: True) -> tuple[Result, dict[str, float]] | None:
    """What `run` returns while the machine is quiet before and after it, and the times of a line and a CAS then."""
    for _ in range(tries):
        before = line_times()
        if before["line_ns"] > LINE_NS_MAX:
            time.sleep(0.2)
            continue
        found = run()
        after = line_times()
        if after["line_ns"] <= LINE_NS_MAX and is_good(found):
            return found, {name: (before[name] + after[name]) / 2 for name in before}
    return None


def count(row: Row, library: pathlib.Path, tries: int) -> dict[str, float]:
    def both() -> tuple[tuple[dict[str, float], str], ...]:
        return tuple(_run(row.words(factor), library, statistics_on=True) for factor in (1, 3))

    quiet = quiet_round(both, tries)
    short, long = quiet[0] if quiet else both()
    mallocs = long[0]["allocated"] - short[0]["allocated"]
    found = per_malloc(parse_report(short[1]), parse_report(long[1]), mallocs)
    found["remote_share"] = long[0]["remote_sent"] / long[0]["allocated"]
    found["heap_kb"] = long[0]["peak_rss_kb"]
    found["quiet"] = float(quiet is not None)
    return found


def time_of(row: Row, library: pathlib.Path, rounds: int, tries: int) -> dict[str, float]:
    """ns of a CPU for each malloc with its free, on two CPUs and on one. Empty when the machine was never quiet."""
    allowed = sorted(os.sched_getaffinity(0))[:2]
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, cpus in (("ns", allowed), ("one_cpu_ns", allowed[:1])):
            used = min(row.threads, len(cpus))
            most = PREEMPTED_MAX if row.threads == used else math.inf
            run = functools.partial(_run, row.words(TIMED_SHARE), library, cpus=cpus)
            quiet = quiet_round(run, tries, lambda found, most=most: found[0]["preempted"] <= most)
            if quiet is None:
                return {}
            (printed, _), lines = quiet
            ns = printed["seconds"] * 1e9 * used / printed["allocated"]
            if ns < best.get(name, math.inf):
                best |= {name: ns} | (lines if name == "ns" else {})
            if name == "ns":
                best["ns_most"] = max(ns, best.get("ns_most", 0.0))
    return best


def line_times() -> dict[str, float]:
    text = subprocess.run([str(BIN_DIR / "line_transfer"), "50000", "3"], capture_output=True, text=True, check=True).stdout
    return {name: float(value) for name, value in re.findall(r"(line_ns|cas_ns)=(-?[\d.]+)", text)}


def read(path: pathlib.Path) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of each row and lane, from the CSV that this program writes. Raises ValueError."""
    found: dict[tuple[str, str], dict[str, float]] = collections.defaultdict(dict)
    with path.open(encoding="utf-8") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        if reader.fieldnames != ["row", "lane", "figure", "value"]:
            raise ValueError(f"{path.name}: the columns are not row, lane, figure, value: not written by rates.py")
        for line in reader:
            found[line["row"], line["lane"]][line["figure"]] = float(line["value"])
    return dict(found)


def quick_times(path: pathlib.Path, line_ns: float) -> dict[tuple[str, str], dict[str, float]]:
    """The times of our rows, from a file of suite quick, which may be packed. Raises ValueError."""
    values: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    with (gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")) as file:
        for line in csv.DictReader(one for one in file if not one.startswith("#")):
            if line.get("value"):
                values[line["row"], line["allocator"]].append(float(line["value"]))
    found = {}
    for lane, allocator in (("scale", "hz3_scale"), ("hz4", "hz4")):
        ns = {}
        for row, quick, per_malloc in QUICK:
            if (quick, allocator) not in values:
                raise ValueError(f"{path.name}: no row '{quick}' of {allocator}: not a file of suite quick")
            ns[row] = 1e3 * 2 * per_malloc / statistics.median(values[quick, allocator])
        for row, time_ns in ns.items():
            base = ns["alone"] if row in ("alone", "xmalloc") else ns["local"]
            found[row, lane] = {"ns": time_ns, "one_cpu_ns": base, "line_ns": line_ns, "cas_ns": CAS_NS}
        found["larson", lane] = {"one_cpu_ns": ns["alone"]}  # suite quick has no larson
    return found


def libraries_of(words: tuple[str, ...]) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    libraries = {}
    for word in words:
        name, *paths = word.split("=")
        if len(paths) != 2 or not all(pathlib.Path(path).is_file() for path in paths):
            raise click.BadParameter(f"'{word}' is not LANE=STATS_LIBRARY=RELEASE_LIBRARY with files that exist")
        libraries[name] = (pathlib.Path(paths[0]).absolute(), pathlib.Path(paths[1]).absolute())
    return libraries


@click.command(help="Counts what each lane does to shared memory in one malloc, and measures how long it takes.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="timed runs of each row")
@click.option("--tries", default=30, show_default=True, type=click.IntRange(1), help="tries until the machine is quiet in one")
@click.option("--times", type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path), help="take times from a file of suite quick")
@click.option("--line", default=51.0, show_default=True, type=click.FloatRange(1), help="with --times: ns for a line on that machine")
@click.argument("out", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.argument("libraries", nargs=-1, required=True)
def main(out: pathlib.Path, libraries: tuple[str, ...], rounds: int, tries: int, times: pathlib.Path | None, line: float) -> None:
    chosen = libraries_of(libraries)
    seen = machine.look()
    known = quick_times(times, line) if times else {}
    rows: list[tuple[str, str, str, float]] = []
    for row in ROWS:
        for lane, (with_statistics, release) in chosen.items():
            figures = count(row, with_statistics, tries) | (known.get((row.name, lane), {}) if times else time_of(row, release, rounds, tries))
            rows += [(row.name, lane, name, value) for name, value in figures.items()]
            text = ", ".join(f"{name} {figures[name]:.1f}" for name in ("ns", "one_cpu_ns", "line_ns") if name in figures)
            click.echo(f"{row.name} {lane}: {text or 'never quiet'}", err=True)
    with out.open("w", encoding="utf-8") as file:
        print(f"# commit={seen.commit} cpu={seen.cpu} cpus={os.cpu_count()} busy_share={seen.busy_share:.2f} rounds={rounds}", file=file)
        if times:
            print(f"# times from {public_path(times)}, a line {line:g} ns", file=file)
        for row in ROWS:
            print(f"# command {row.name}: {public_text(' '.join(row.words(1)))}; and three times the work", file=file)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "lane", "figure", "value"))
        writer.writerows((row, lane, figure, f"{value:.5g}") for row, lane, figure, value in rows)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"rates.py: {error}")
