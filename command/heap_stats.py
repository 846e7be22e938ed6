#!/usr/bin/env python3
"""Shows what a process keeps in its heap: `hakozuna stats PID`, `hakozuna top PID` and `hakozuna stats --core FILE` (docs/diagnose.md).

`stats` lets the process write one report; `top` (top.py) does so again and again, and shows what has changed in between. Of a process
that has ended, `stats` reads the core file (heap_core.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

import asking
import heap_core
import nearest
import running
import top
from report_parts import LOOKED_UP, NO_FLOW, ORDERS, ROWS, SHOWN, Room, core_heading, heading, joined, report_of, situation

PARTS = ("totals", "sizes", "classes", "threads", "flow", "process", "limits")
CORE_PARTS = ("totals", "sizes", "classes", "largest", "threads")


def room() -> Room:
    """On a terminal no line is wider than that; a file or a pipe gets everything."""
    return Room(shutil.get_terminal_size().columns if sys.stdout.isatty() else None)


def whole_report(process: running.Process, report: dict, parts: list[str], room: Room) -> list[str]:
    blocks = [[*heading(report), *situation(report)]]
    for part in parts:
        blocks.append(SHOWN[part](report, None, room) if part in SHOWN else LOOKED_UP[part](process, report))
        if part == "flow" and not blocks[-1]:
            blocks[-1] = [NO_FLOW]
    return joined(blocks)


def core_stats(arguments: argparse.Namespace) -> None:
    for part in arguments.part or ():
        if part not in CORE_PARTS:
            raise running.Refused(f"--part {part}: a core file does not say; it has {', '.join(CORE_PARTS)}")
    reports = [heap.report(arguments.largest) for heap in heap_core.heaps(arguments.core)]
    if arguments.json:
        print("\n".join(json.dumps(report) for report in reports))
        return
    shown = [joined([core_heading(report), *(SHOWN[part](report, None) for part in arguments.part or CORE_PARTS)]) for report in reports]
    print("\n\n".join("\n".join(lines) for lines in shown))


def stats(arguments: argparse.Namespace) -> None:
    if arguments.core is not None:
        core_stats(arguments)
        return
    with running.Process(arguments.pid) as process:
        if "largest" in (arguments.part or ()):
            raise running.Refused("--part largest: only a core file says which blocks are the largest")
        answer = asking.ask(process, "HAKOZUNA_STATS", arguments)
        if answer.words.format != "json" and not (arguments.json or arguments.part):
            print("\n".join(running.printable(line) for line in answer.data.decode(errors="replace").splitlines()))
            return
        report = report_of(answer, process)
        print(json.dumps(report) if arguments.json else "\n".join(whole_report(process, report, arguments.part or list(PARTS), room())))


def parser() -> argparse.ArgumentParser:
    whole = nearest.Parser(prog="hakozuna", description="Shows what a process keeps in its heap.")
    commands = whole.add_subparsers(dest="command", required=True)
    pid_help = "of a process that `hakozuna run --watch` or HAKOZUNA_STATS has started"
    common = argparse.ArgumentParser(add_help=False)
    asking.add_signal_option(common)
    common.add_argument("--words", help="with --signal: the value of HAKOZUNA_STATS, for a program that overwrites its environment")
    common.add_argument("--wait", type=asking.seconds, default=running.WAIT_SECONDS, metavar="SECONDS", help="for an answer; default: %(default)g")
    one = commands.add_parser("stats", parents=[common], help="print one report, of a running process or of a core file")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("pid", type=running.process_number, nargs="?", metavar="PID", help=pid_help)
    what.add_argument("--core", metavar="FILE", help="a core file, as the kernel, gcore or gdb's generate-core-file writes it")
    one.add_argument("--largest", type=int, default=ROWS, metavar="COUNT", help="of a core file: so many of the largest blocks; default: %(default)d")
    one.add_argument("--json", action="store_true", help="the report as the process writes it (docs/formats/stats-schema.json)")
    one.add_argument("--part", action="append", choices=(*PARTS, "largest"), help="only this part; may be given several times")
    live = commands.add_parser("top", parents=[common], help="show reports again and again, and what changes")
    live.add_argument("pid", type=running.process_number, nargs="+", metavar="PID", help=pid_help)
    live.add_argument("--interval", type=asking.seconds, default=top.INTERVAL_SECONDS, metavar="SECONDS", help="default: %(default)g")
    live.add_argument("--sort", choices=tuple(ORDERS), default="held", help="which classes come first; default: %(default)s")
    live.add_argument("--json", action="store_true", help="a line for each process and report: as stats --json, with what changes a second")
    live.add_argument("--once", action="store_true", help="print one frame, from two reports, and end")
    return whole


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    sys.stdout.reconfigure(errors="replace")
    try:
        {"stats": stats, "top": top.run}[arguments.command](arguments)
        sys.stdout.flush()
    except running.Refused as error:
        print(f"hakozuna {arguments.command}: {error}", file=sys.stderr)
        return 1 if isinstance(error, running.NoAnswer) else 2
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
