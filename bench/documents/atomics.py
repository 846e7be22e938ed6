#!/usr/bin/env python3
"""Counts the atomic read-modify-write instructions that a run executes: `atomics.py NAME=LIBRARY... -- PROGRAM ARGS... {N}`

NAME= without a library is the system's malloc. callgrind counts how often each instruction runs, and the disassembly says
which ones lock a cache line: those with a lock prefix, and xchg with memory. The program runs with the number in braces, and with
twice that number; the difference, divided by that of `remote_sent`, `freed` or `allocated` which the program prints, is the cost
of one operation, free of start and end. The program's own instructions do not count; those of the C library do, since
they are its mutexes' (the workloads take none, or one for thousands of blocks).

Prints `name,per,operations,atomics,object,atomics_per_operation`, a line for each object (`all` first) and, with --top N, the functions.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
_LOCKED = re.compile(r"^\s+([0-9a-f]+):\s+(?:lock |xchg\s.*\()")
_COST = re.compile(r"(0x[0-9a-f]+|\+\d+|-\d+|\*) \S+ (\d+)$")
_NAME = re.compile(r"(ob|fn)=\((\d+)\)(?: (.*))?$")
_CALLED = re.compile(r"c(ob|fn)=\((\d+)\) (.*)$")
OPERATIONS = ("remote_sent", "freed", "allocated")


def locked_addresses(path: str) -> set[int]:
    """The addresses, within the file, of the instructions that lock a cache line."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    return {int(found[1], 16) for line in text.splitlines() if (found := _LOCKED.match(line))}


def executions(text: str) -> dict[tuple[str, str], collections.Counter]:
    """How often each address ran, by (object, function), from a callgrind file with --dump-instr=yes."""
    names: dict[tuple[str, str], str] = {}
    place = {"ob": "", "fn": ""}
    found: dict[tuple[str, str], collections.Counter] = collections.defaultdict(collections.Counter)
    address, skip = 0, False
    for line in text.splitlines():
        if cost := _COST.match(line):
            word = cost[1]
            address = int(word, 16) if word.startswith("0x") else address if word == "*" else address + int(word)
            if not skip:
                found[place["ob"], place["fn"]][address] += int(cost[2])
            skip = False
        elif line.startswith("calls="):
            skip = True  # the next line has the callee's cost, at the address of the call
        elif named := _NAME.match(line):
            kind, number, name = named.groups()
            if name is not None:
                names[kind, number] = name
            place[kind] = names.get((kind, number), "?")
        elif called := _CALLED.match(line):
            names[called[1], called[2]] = called[3]
    return found


def run(library: str, command: list[str], folder: pathlib.Path) -> tuple[str, dict[tuple[str, str], int]]:
    """What the program printed, and the atomic instructions that ran, by (object, function). Raises ValueError."""
    out = folder / "callgrind.out"
    words = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--dump-instr=yes", "--fair-sched=yes",
             f"--callgrind-out-file={out}", f"--log-file={folder}/log",
             *(["env", f"LD_PRELOAD={library}"] if library else []), *command]  # fmt: skip
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(words, env=plain, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-300:]}")
    program = str(pathlib.Path(command[0]).resolve())
    counts: dict[tuple[str, str], int] = {}
    locked: dict[str, set[int]] = {}
    for (file, function), by_address in executions(out.read_text(errors="replace")).items():
        if file == program or not pathlib.Path(file).is_file():
            continue
        if file not in locked:
            locked[file] = locked_addresses(file)
        counted = sum(count for address, count in by_address.items() if address in locked[file])
        if counted:
            counts[file, function] = counted
    return done.stdout, counts


def operations(printed: str) -> tuple[str, int]:
    """The first of OPERATIONS that the program printed as a number above 0. Raises ValueError."""
    values = dict(re.findall(r"(?:^|\s)([a-z_]+)=(\d+)(?=\s|$)", printed))
    for name in OPERATIONS:
        if int(values.get(name, "0")) > 0:
            return name, int(values[name])
    raise ValueError(f"the program printed none of {', '.join(OPERATIONS)}")


def difference(library: str, command: list[str]) -> tuple[str, int, dict[tuple[str, str], int]]:
    """The name of the operation, its number, and the atomic instructions of the longer run beyond those of the shorter one."""
    results = []
    for factor in (1, 2):
        words = [str(int(word[1:-1]) * factor) if re.fullmatch(r"\{\d+\}", word) else word for word in command]
        with tempfile.TemporaryDirectory() as name:
            results.append(run(library, words, pathlib.Path(name)))
    (short_text, short), (long_text, long) = results
    name, few = operations(short_text)
    many = operations(long_text)[1]
    if many <= few:
        raise ValueError(f"the longer run has {many} operations, the shorter one {few}: put the number that counts them in braces")
    return name, many - few, {key: count - short.get(key, 0) for key, count in long.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Counts atomic read-modify-write instructions.")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("libraries", metavar="NAME=LIBRARY", nargs="+")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    if "--" not in arguments:
        parser.error("'--' must stand before the program")
    at = arguments.index("--")
    chosen, command = parser.parse_args(arguments[:at]), arguments[at + 1 :]
    print("name,per,operations,atomics,object,atomics_per_operation")
    for word in chosen.libraries:
        name, _, library = word.partition("=")
        per, count, found = difference(str(pathlib.Path(library).resolve()) if library else "", command)
        objects: collections.Counter = collections.Counter()
        for (file, _), number in found.items():
            objects[pathlib.Path(file).name] += number
        objects["all"] = sum(objects.values())
        for file, number in sorted(objects.items(), key=lambda item: (item[0] != "all", -item[1])):
            print(f"{name},{per},{count},{number},{file},{number / count:.4f}", flush=True)
        for (file, function), number in sorted(found.items(), key=lambda item: -item[1])[: chosen.top]:
            print(f"{name},{per},{count},{number},{pathlib.Path(file).name}:{function},{number / count:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"atomics.py: {error}", file=sys.stderr)
        sys.exit(1)
