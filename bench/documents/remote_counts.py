#!/usr/bin/env python3
"""Counts how programs free blocks of other threads: `remote_counts.py OUT.csv NAME=LIBRARY...`

Document 001 asks whether real programs look like xmalloc-test (its question 4). Each program below runs once under the
recorder of `hakobench trace`, which knows the thread that allocated each block, and once under each library, whose
statistics tell in how many pieces blocks went home. All figures are counts, so load on the machine changes them little;
those of programs with several threads differ a little from run to run.

A line of the CSV is `program,source,figure,value`; lines with # have the commit, the programs' commands and the
libraries' configurations. `--programs a,b` runs only these, `--scale` multiplies their work.
Needs `make build-release`; redis-server, memcached, db_bench and g++ are packages that tools/setup installs.
"""

import argparse
import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from hakobench import machine
from hakobench.project import BIN_DIR, ROOT, public_text
from hakobench.trace import capture, figures, raw, store

GROUPS = ("counters", "remote", "mid", "locks")
SOCKET = "socket"
SECONDS = 300


@dataclasses.dataclass(frozen=True)
class Program:
    """`command` gets the scale. Its process is observed; `load` is run against it when it is a server, which SIGTERM ends."""

    name: str
    command: Callable[[float], list[str]]
    load: Callable[[float], list[str]] | None = None


def _work(count: int, scale: float) -> str:
    return str(max(1, round(count * scale)))


def _kv_load(protocol: str, count: int, *options: str) -> Callable[[float], list[str]]:
    def command(scale: float) -> list[str]:
        program = str(BIN_DIR / "kv_load")
        return [program, _work(count, scale), _work(60_000, scale), SOCKET, f"--protocol={protocol}", *options]

    return command


def _redis(*options: str) -> list[str]:
    return ["redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--appendonly", "no", *options]


def _memcached(_scale: float) -> list[str]:
    return ["memcached", "-s", SOCKET, "-u", pwd.getpwuid(os.getuid()).pw_name, "-t", "4", "-m", "1024"]


def _db_bench(benchmarks: str, count: int) -> Callable[[float], list[str]]:
    def command(scale: float) -> list[str]:
        number = _work(count, scale)
        return ["db_bench", "--db=db", f"--benchmarks={benchmarks}", f"--num={number}", f"--reads={number}", "--threads=4",
                "--value_size=200", "--disable_wal=1", "--seed=1", "--cache_size=1000000"]  # fmt: skip

    return command


def _compiler(scale: float) -> list[str]:
    """cc1plus itself: g++ starts it, and runs the assembler beside it."""
    program, multiarch = (
        subprocess.run(["g++", option], capture_output=True, text=True, check=True).stdout.strip()
        for option in ("-print-prog-name=cc1plus", "-print-multiarch")
    )
    source = pathlib.Path("source.cc")
    with source.open("w", encoding="ascii") as out:
        words = [sys.executable, str(ROOT / "bench/apps/generate.py"), "source.cc", _work(60, scale)]
        subprocess.run(words, stdout=out, check=True)
    return [program, "-quiet", "-imultiarch", multiarch, "-D_GNU_SOURCE", "-std=c++17", "-O2", "source.cc", "-o", "source.s"]


def _workload(name: str, *arguments: str) -> Callable[[float], list[str]]:
    """The second argument that is a number in braces is scaled."""

    def command(scale: float) -> list[str]:
        return [str(BIN_DIR / name), *(_work(int(one[1:-1]), scale) if one.startswith("{") else one for one in arguments)]

    return command


MIXED = ("--pipeline=16", "--value-min=16", "--value-max=4096", "--set-percent=50", "--delete-percent=20", "--delete-all")
PROGRAMS = (
    Program("redis", lambda _scale: _redis(), _kv_load("redis", 150_000, *MIXED)),
    Program("redis-io-threads", lambda _scale: _redis("--io-threads", "2", "--io-threads-do-reads", "yes", "--lazyfree-lazy-user-del", "yes"),
            _kv_load("redis", 40_000, "--clients=16", *MIXED)),
    Program("memcached", _memcached, _kv_load("memcached", 150_000, "--clients=16", *MIXED[:3], "--set-percent=30")),
    Program("rocksdb-fill", _db_bench("fillrandom", 40_000)),
    Program("rocksdb-read", _db_bench("fillrandom,flush,readrandom", 25_000)),
    Program("g++", _compiler),
    Program("ring-t16-r90", _workload("bench_random_mixed_mt_remote_malloc", "16", "{50000}", "400", "16", "2048", "90", "1024", "--full=wait")),
    Program("ring-t16-r90-64b", _workload("bench_random_mixed_mt_remote_malloc", "16", "{50000}", "400", "64", "64", "90", "1024", "--full=wait")),
    Program("xmalloc-8-8", _workload("xmalloc_test", "8", "8", "{100}")),
    Program("larson-16", _workload("larson", "16", "8", "1000", "1000", "{10}")),
    Program("key-value-t8", _workload("workload_bench_system", "8", "{50}", "1000", "16", "1024")),
)  # fmt: skip


@contextlib.contextmanager
def _scratch() -> Iterator[pathlib.Path]:
    """A fresh working directory, below the project's build directory, because /tmp is memory on many machines."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="remote-counts-", dir=build) as name:
        before = pathlib.Path.cwd()
        os.chdir(name)
        try:
            yield pathlib.Path(name)
        finally:
            os.chdir(before)


def _wait_for_socket(process: subprocess.Popen) -> None:
    end = time.monotonic() + SECONDS
    while not pathlib.Path(SOCKET).exists():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{process.args[0]} does not listen: {pathlib.Path('errors').read_text()[-300:]}")
        time.sleep(0.01)


def _run(program: Program, scale: float, settings: dict[str, str]) -> str:
    """Runs the program to its end; returns what it wrote to stderr. Raises RuntimeError when it or its load fails."""
    command = program.command(scale)
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with pathlib.Path("output").open("w") as out, pathlib.Path("errors").open("w") as errors:
        process = subprocess.Popen(command, env=plain | settings, stdout=out, stderr=errors)
        try:
            if program.load is not None:
                _wait_for_socket(process)
                subprocess.run(program.load(scale), env=plain, stdout=subprocess.DEVNULL, check=True, timeout=SECONDS)
                process.send_signal(signal.SIGTERM)
            status = process.wait(SECONDS)
        finally:
            process.kill()
            process.wait()
    text = pathlib.Path("errors").read_text(errors="replace")
    if status not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{command[0]} ended with {status}: {text[-300:]}")
    return text


def traced(program: Program, scale: float) -> dict[str, float]:
    """Frees, and those of another thread's blocks, from a recording of every call."""
    with _scratch() as folder:
        _run(program, scale, {"LD_PRELOAD": str(capture.RECORDER), "HAKOTRACE_FILE": str(folder / "raw")})
        paths = [path for path in folder.glob("raw.*") if raw.peek(path)[1] > 0]
        found = figures.compute(store.read(max(paths, key=lambda path: raw.peek(path)[1])))
    return {
        "threads": len(found.threads),
        "allocations": found.allocations,
        "given_back": found.frees + found.moves,
        "remote_frees": found.remote_frees,
        "pairs_of_threads": len(found.pairs),
    }


def counted(program: Program, scale: float, library: pathlib.Path) -> tuple[dict[str, float], str]:
    """The library's counters at the program's end, and its configuration."""
    with _scratch():
        text = _run(program, scale, {"LD_PRELOAD": str(library), "HAKOZUNA_STATS": "json"})
    lines = [line for line in text.splitlines() if line.startswith('{"version"')]
    if not lines:
        raise RuntimeError(f"{program.name}: no statistics: it did not end by exit, or the library was not loaded")
    report = json.loads(lines[-1])
    values = {f"{group}.{name}": value for group in GROUPS for name, value in report[group].items() if value}
    return values, report["config"]


def measure(programs: Sequence[Program], scale: float, libraries: dict[str, pathlib.Path], out) -> None:
    """Writes a line as soon as its figure is known."""
    print(f"# commit={machine.commit()} cpus={os.cpu_count()} scale={scale:g}", file=out)
    configs: dict[str, str] = {}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("program", "source", "figure", "value"))
    for program in programs:
        with _scratch():
            words = " ".join(program.command(scale)) + (f" & {' '.join(program.load(scale))}" if program.load else "")
        print(f"# command {program.name}: {public_text(words)}", file=out)
        for name, value in traced(program, scale).items():
            writer.writerow((program.name, "trace", name, value))
        for name, library in libraries.items():
            values, configs[name] = counted(program, scale, library)
            writer.writerows((program.name, name, figure, value) for figure, value in values.items())
        out.flush()
        print(f"{program.name}: done", file=sys.stderr)
    for name, config in configs.items():
        print(f"# library {name}: {config}", file=out)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Counts how programs free blocks of other threads.")
    parser.add_argument("--programs", help="comma-separated; default: all: " + ", ".join(one.name for one in PROGRAMS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("libraries", metavar="NAME=LIBRARY", nargs="*")
    chosen = parser.parse_args(arguments)
    known = {program.name: program for program in PROGRAMS}
    names = chosen.programs.split(",") if chosen.programs else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no program '{unknown[0]}'; there are: {', '.join(known)}")
    libraries = {}
    for word in chosen.libraries:
        name, separator, path = word.partition("=")
        if not separator or not pathlib.Path(path).is_file():
            parser.error(f"'{word}' is not NAME=LIBRARY with a file that exists")
        libraries[name] = pathlib.Path(path).absolute()
    if not capture.RECORDER.is_file():
        parser.error(f"no recorder {capture.RECORDER.relative_to(ROOT)}; `make build-release` makes it")
    with chosen.out.open("w", encoding="utf-8") as out:
        measure([known[name] for name in names], chosen.scale, libraries, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
