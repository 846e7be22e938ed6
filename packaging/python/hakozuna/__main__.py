"""`python -m hakozuna`."""

from __future__ import annotations

import argparse
import os
import sys

import hakozuna


# name -> the tool that does it, and its words in front of the caller's
_TOOLS = {"stats": ("heap_stats.py", ["stats"]), "top": ("heap_stats.py", ["top"]), "profile": ("heap_profile.py", [])}


def _run(lane: str, watch: bool, profile: bool, command: list[str]) -> int:
    environment = hakozuna.environment(lane) | hakozuna.watched(watch, profile)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        print(f"hakozuna: cannot run '{command[0]}': {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hakozuna", description="The hakozuna memory allocator.")
    commands = parser.add_subparsers(dest="command", required=True)
    lane = argparse.ArgumentParser(add_help=False)
    lane.add_argument("-l", "--lane", default=hakozuna.DEFAULT_LANE, help="default: %(default)s")
    run = commands.add_parser("run", parents=[lane], help="run a program and its children under the library")
    run.add_argument("--watch", action="store_true", help="so that stats and top can ask it")
    run.add_argument("--profile", action="store_true", help="so that profile can ask it")
    run.add_argument("program")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("path", parents=[lane], help="print the library's path, for LD_PRELOAD")
    commands.add_parser("lanes", help="print the names of the lanes, the default first")
    commands.add_parser("stats", help="print what a process keeps in its heap: a running one, or that of a core file", add_help=False)
    commands.add_parser("top", help="show it again and again, and what changes", add_help=False)
    commands.add_parser("profile", help="ask a running process for its heap profile, or read a file of profiles", add_help=False)
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in _TOOLS:
        tool, words = _TOOLS[arguments[0]]
        os.execv(sys.executable, [sys.executable, str(hakozuna.TOOLS / tool), *words, *arguments[1:]])
    options = parser.parse_args(arguments)
    try:
        if options.command == "run":
            return _run(options.lane, options.watch, options.profile, [options.program, *options.arguments])
        print(*(hakozuna.lanes() if options.command == "lanes" else [hakozuna.library(options.lane)]), sep="\n")
    except ValueError as error:
        print(f"hakozuna: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
