#!/usr/bin/env python3
"""Builds a variant, which is a lane with some knobs changed, and prints the path of its library.

usage: variant.py [--test | --archive | --stats] LANE [NAME=VALUE ...]

LANE is ENGINE/LANE, or ENGINE alone for its lane `default`, or a lane's name alone if only one engine has a lane of that
name. NAME is a knob, with or without its HZ_. The library is build/variants/V/lib/libhakozuna_V.so, where V consists of the
lane and the overrides in the order of the knobs; its configuration string has them as overrides=NAME:VALUE,... . Each
variant has its own build directory. With `--archive`, the tool also builds the archive, under the lane's own name. With `--stats` the library has the
counters of hot paths; its directory is then build/variants/V.stats. With
`--test`, it instead builds the variant with internal assertions, in build/variants/V.check, and runs its unit, contract,
death and stress suites.
An unknown lane or knob and a value out of range (exit 2), and a combination that does not compile (exit 1), are refused
with the reason, and no library is built.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import lanes

ROOT = lanes.ROOT
VARIANTS = ROOT / "build" / "variants"
REASON = re.compile(r"static assertion failed: (.*)|#error (.*)")


def cmake_entry(lane: lanes.Lane) -> str:
    return lane.engine if lane.name == "default" else lane.title


def find_lane(word: str, known: list[lanes.Lane]) -> lanes.Lane:
    """The lane that `word` names. Raises LaneError."""
    found = [lane for lane in known if word in (lane.title, lane.name, cmake_entry(lane))]
    if len(found) != 1:
        titles = ", ".join(lane.title for lane in known)
        raise lanes.LaneError(f"'{word}' is {'not a lane' if not found else 'a lane of several engines'}; allowed: {titles}")
    return found[0]


def read_overrides(words: list[str], lane: lanes.Lane, knobs: list[lanes.Knob]) -> dict[str, int]:
    """Values by the knobs' full names, in the order of the knobs. Raises LaneError."""
    by_name = {knob.name: knob for knob in knobs}
    given: dict[str, int] = {}
    for word in words:
        name, separator, value = word.partition("=")
        name = name if name.startswith("HZ_") else f"HZ_{name}"
        if not separator:
            raise lanes.LaneError(f"'{word}' is not NAME=VALUE")
        if name not in by_name:
            raise lanes.LaneError(f"'{name}' is not a knob of {lane.engine}; its knobs: {', '.join(by_name)}")
        if name in given:
            raise lanes.LaneError(f"{name} is set twice")
        given[name] = lanes.read_value(by_name[name], value, "SET")
    return {name: given[name] for name in by_name if name in given}


def library_name(lane: lanes.Lane) -> str:
    return lane.library.removeprefix("libhakozuna_").removesuffix(".so")


def variant_name(lane: lanes.Lane, overrides: dict[str, int]) -> str:
    """Contains no '=', which names of libraries and allocators should avoid."""
    return "+".join([library_name(lane), *(f"{name.removeprefix('HZ_').lower()}-{value}" for name, value in overrides.items())])


def run(command: list[str]) -> None:
    """Prints nothing. On failure raises LaneError with the reason given in the sources, or with the command's whole output."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        reasons = dict.fromkeys((found[1] or found[2]).strip('"') for found in REASON.finditer(done.stdout))
        raise lanes.LaneError("; ".join(reasons) or f"{' '.join(command)} failed:\n{done.stdout}")


def configure(folder: pathlib.Path, lane: lanes.Lane, overrides: dict[str, int], settings: list[str]) -> None:
    words = ";".join(f"{name}={value}" for name, value in overrides.items())
    run([
        "cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "--log-level=WARNING",
        f"-DHAKOZUNA_LANES={cmake_entry(lane)}", f"-DHZ_OVERRIDES={words}", "-DHAKOZUNA_BUILD_BENCHMARKS=OFF",
        "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++", *settings,
    ])  # fmt: skip


def build(folder: pathlib.Path, jobs: int, *targets: str) -> None:
    run(["cmake", "--build", str(folder), "-j", str(jobs), *(word for target in targets for word in ("--target", target))])


def make_library(name: str, lane: lanes.Lane, overrides: dict[str, int], chosen: argparse.Namespace) -> pathlib.Path:
    folder = VARIANTS / (f"{name}.stats" if chosen.stats else name)
    library = folder / "lib" / f"libhakozuna_{name}.so"
    library.unlink(missing_ok=True)  # a failed build must not leave an old library behind
    configure(folder, lane, overrides, ["-DHZ_BUILD=release", f"-DHZ_STATS={'ON' if chosen.stats else 'OFF'}", "-DHAKOZUNA_BUILD_TESTS=OFF"])
    target = f"hakozuna_{library_name(lane)}"
    build(folder, chosen.jobs, target, *([f"{target}_static"] if chosen.archive else []))
    if overrides:
        library.symlink_to(lane.library)
    return library


def test(name: str, lane: lanes.Lane, overrides: dict[str, int], jobs: int) -> int:
    folder = VARIANTS / f"{name}.check"
    configure(folder, lane, overrides, ["-DHZ_BUILD=check", "-DHZ_SYSTEM_SUITES=OFF", "-DHZ_UNITY=ON"])
    build(folder, jobs)
    return subprocess.run(["ctest", "--test-dir", str(folder), "--output-on-failure", "-j", str(jobs)], check=False).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds a lane with some knobs changed.")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--test", action="store_true", help="instead build with internal assertions and run the suites")
    instead.add_argument("--archive", action="store_true", help="build the archive, too")
    instead.add_argument("--stats", action="store_true", help="build with the counters of hot paths")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("lane", metavar="LANE")
    parser.add_argument("overrides", metavar="NAME=VALUE", nargs="*")
    chosen = parser.parse_args(arguments)
    try:
        engines, known = lanes.read_engines(ROOT)
        lane = find_lane(chosen.lane, known)
        knobs = next(engine.knobs for engine in engines if engine.name == lane.engine)
        overrides = read_overrides(chosen.overrides, lane, knobs)
    except lanes.LaneError as error:
        print(f"variant.py: {error}", file=sys.stderr)
        return 2
    name = variant_name(lane, overrides)
    try:
        if chosen.test:
            return test(name, lane, overrides, chosen.jobs)
        print(make_library(name, lane, overrides, chosen).relative_to(ROOT))
    except lanes.LaneError as error:
        print(f"variant.py: {name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
