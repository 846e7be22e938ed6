#!/usr/bin/env python3
"""`hakozuna names`: adds functions and lines to the addresses in what the library writes for people: reports of misuse and of the guard,
and lists of leaks (docs/failure.md). Everything else passes through as it is."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections import defaultdict

import nearest
import running
import symbols

# As src/base/profile/callstack.c writes a call: "    ./server+0x16ba (main)", or an address alone.
CALL = re.compile(r"^( +)(?:(\S.*)\+)?0x([0-9a-f]+)(?: \([^()]*\))?$")


def file_of(name: str) -> str | None:
    """The path of a file that a report names: the program has the name by which it was called."""
    return name if os.path.isfile(name) else shutil.which(name) if "/" not in name else None


def names_of(calls: dict[str, set[int]], tool: str) -> dict[tuple[str, int], list[symbols.Frame]]:
    found = {}
    for name, offsets in calls.items():
        if (path := file_of(name)) is not None:
            found |= {(name, offset): frames for offset, frames in symbols.frames_in(tool, path, sorted(offsets)).items()}
    return found


def named(text: str, tool: str, full_names: bool, compiled: symbols.CompiledCode) -> list[str]:
    lines = text.split("\n")
    calls: dict[str, set[int]] = defaultdict(set)
    matches = [CALL.match(line) for line in lines]
    for match in matches:
        if match is not None and match[2] is not None:
            calls[match[2]].add(int(match[3], 16))
    names = names_of(calls, tool)
    out = []
    for line, match in zip(lines, matches):
        frames = []
        if match is not None and match[2] is not None:
            frames = names.get((match[2], int(match[3], 16)), [])
        elif match is not None and (frame := compiled.at(int(match[3], 16))) is not None:
            frames = [frame]
        shown = frames if full_names else list(symbols.for_people(frames))
        out.append(line if not shown else f"{line}  {shown[0]}")
        out += [f"{match[1]}{'':{len(line) - len(match[1])}}  {frame}" for frame in shown[1:]]  # what it is inlined into
    return out


def parser() -> argparse.ArgumentParser:
    whole = nearest.Parser(
        prog="hakozuna names", description="Adds functions and lines to the addresses in reports of misuse, of the guard and of leaks.",
        epilog="Files are looked for from the current folder, as the program was called. Names come from llvm-symbolizer or addr2line.",
    )  # fmt: skip
    whole.add_argument("file", nargs="?", help="with what the program has written to stderr; default: standard input")
    whole.add_argument("--pid", type=running.process_number, help="the process's number, to find code that its runtime has compiled in /tmp/perf-PID.map")
    whole.add_argument("--full-names", action="store_true", help="C++ names with their arguments, and every call within headers of libraries")
    return whole


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    tool = symbols.find_tool()
    if tool is None:
        print("hakozuna names: it needs llvm-symbolizer or addr2line (Debian: binutils), and there is neither", file=sys.stderr)
        return 2
    try:
        if arguments.file is None:
            text = sys.stdin.buffer.read()
        else:
            with open(arguments.file, "rb") as file:
                text = file.read()
        compiled = symbols.CompiledCode() if arguments.pid is None else symbols.CompiledCode.of_process(arguments.pid)
        out = "\n".join(named(text.decode(errors="surrogateescape"), tool, arguments.full_names, compiled))
        sys.stdout.buffer.write(out.encode(errors="surrogateescape"))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"hakozuna names: '{error.filename}': {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
