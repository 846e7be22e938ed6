#!/usr/bin/env python3
"""`hakozuna leaks PROGRAM`: runs a program to its end, and shows the blocks that nothing reaches then, by the calls that allocated them.
For tests: it exits with 1 if there are any that no suppression names."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import names
import nearest
import symbols

# As src/front/reports/leaks.c writes them.
TITLE = re.compile(r"^hakozuna: leaks: (.*)$")
GROUP = re.compile(r"^  (direct|indirect): (\d+) bytes in (\d+) blocks?(?:,| of)")

FOUND, REFUSED, NOT_RUN = 1, 2, 127


class Wrong(Exception):
    """What the caller has given is not right."""


@dataclass
class Group:
    kind: str
    bytes: int
    blocks: int
    lines: list[str] = field(default_factory=list)


@dataclass
class Report:
    title: str = ""
    groups: list[Group] = field(default_factory=list)

    @property
    def is_checked(self) -> bool:
        return self.title != "" and not self.title.startswith("not checked")


def report_of(text: str) -> Report:
    """The last report in the text."""
    report = Report()
    for line in text.splitlines():
        if title := TITLE.match(line):
            report = Report(title[1])
        elif group := GROUP.match(line):
            report.groups.append(Group(group[1], int(group[2]), int(group[3]), [line]))
        elif report.groups:
            report.groups[-1].lines.append(line)
    return report


# ---- suppressions ------------------------------------------------------------------------------------


def pattern_of(text: str) -> re.Pattern[str]:
    """A part of a name: `*` stands for anything, `^` and `$` for the name's ends, as in LeakSanitizer."""
    start, end = text.startswith("^"), text.endswith("$")
    body = ".*".join(re.escape(part) for part in text[start : len(text) - end].split("*"))
    return re.compile(("^" if start else "") + body + ("$" if end else ""))


def suppressions_of(path: str) -> list[tuple[str, re.Pattern[str]]]:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise Wrong(f"cannot read '{path}': {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        kind, colon, name = line.partition(":")
        if kind != "leak" or not colon or not name.strip("^$*"):
            raise Wrong(f"'{path}', line {number}: '{line}': allowed are leak:NAME, with a part of the name of a function, file or library, and # comments")
        found.append((name, pattern_of(name)))
    return found


def names_in(line: str) -> list[str]:
    """The names of a line with a call: "    ./server+0x16ba (main)  main  server.c:12"."""
    call = re.match(r"^ +(?:(\S.*?)\+0x[0-9a-f]+)?(?: \(([^()]*)\))?(?:  (.*?))?(?:  (\S+))?$", line)
    if call is None:
        return [line.strip()]
    return [name for name in (call[1], call[2], call[3], (call[4] or "").partition(":")[0]) if name]


def suppressed_by(group: Group, suppressions: list[tuple[str, re.Pattern[str]]]) -> str | None:
    for text, pattern in suppressions:
        if any(pattern.search(name) for line in group.lines[1:] for name in names_in(line)):
            return text
    return None


# ---- running -----------------------------------------------------------------------------------------


def run(arguments: argparse.Namespace, folder: str) -> int:
    """Runs the program. Returns its exit status, or 128 and the number of the signal that has ended it."""
    children = ",children" if arguments.children else ""
    environment = dict(os.environ)
    environment["LD_PRELOAD"] = ":".join(filter(None, [arguments.library, environment.get("LD_PRELOAD")]))
    environment["HAKOZUNA_LEAKS"] = f"exit,file={folder.replace('%', '%%')}/%p{children}"
    if not arguments.by_size:
        environment["HAKOZUNA_PROFILE"] = f"rate=1,file=/dev/null{children}"
    saved = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:  # the program gets these from the terminal too, and ends, or does not

        def restore() -> None:
            for number in saved:
                signal.signal(number, signal.SIG_DFL)

        status = subprocess.run(arguments.program, env=environment, check=False, preexec_fn=restore).returncode
    finally:
        for number, action in saved.items():
            signal.signal(number, action)
    return status if status >= 0 else 128 - status


def named_lines(text: str, full_names: bool) -> str:
    tool = symbols.find_tool()
    return text if tool is None else "\n".join(names.named(text, tool, full_names, symbols.CompiledCode()))


def show(report: Report, suppressions: list[tuple[str, re.Pattern[str]]]) -> bool:
    """Shows a report. Returns whether it is one without leaks."""
    left, hidden = [], []
    for group in report.groups:
        (hidden if suppressed_by(group, suppressions) is not None else left).append(group)
    if not any(group.kind == "direct" for group in left):  # only what is suppressed reaches these
        left, hidden = [], hidden + left
    if not report.is_checked or left:
        print(f"hakozuna: leaks: {report.title or 'not checked'}", file=sys.stderr)
        for group in left:
            print("\n".join(group.lines), file=sys.stderr)
    if hidden:
        blocks, size = sum(group.blocks for group in hidden), sum(group.bytes for group in hidden)
        print(f"hakozuna: leaks: suppressed: {blocks} blocks of {size} bytes", file=sys.stderr)
    return report.is_checked and not any(group.kind == "direct" for group in left)


def write_json(path: Path, reports: list[Report], suppressions: list[tuple[str, re.Pattern[str]]]) -> None:
    rows = []
    for report in reports:
        groups = [{"kind": group.kind, "bytes": group.bytes, "blocks": group.blocks, "calls": [line.strip() for line in group.lines[1:]],
                   "suppressed_by": suppressed_by(group, suppressions)} for group in report.groups]  # fmt: skip
        rows.append({"title": report.title, "is_checked": report.is_checked, "groups": groups})
    write(path, json.dumps({"processes": rows}) + "\n")


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Wrong(f"cannot write '{path}': {error.strerror}") from error


def parser() -> argparse.ArgumentParser:
    whole = nearest.Parser(
        prog="hakozuna leaks", usage="hakozuna leaks [OPTION...] PROGRAM [ARGUMENT...]",
        description="Runs a program to its end, and shows the blocks that it has leaked, with the calls that allocated them.",
        epilog="Exits with the program's status; if that is 0, with 1 if there are leaks or they could not be looked for. Every allocation is "
        "recorded, so the program is slower: --by-size records none.",
    )  # fmt: skip
    whole.add_argument("-s", "--suppressions", action="append", default=[], metavar="FILE", help="lines leak:NAME, as LeakSanitizer has them")
    whole.add_argument("--by-size", action="store_true", help="no calls, only sizes; the program runs at its usual speed")
    whole.add_argument("--children", action="store_true", help="the processes that the program starts, too")
    whole.add_argument("--json", type=Path, metavar="FILE", help="write the leaks to this file as JSON, too")
    whole.add_argument("--full-names", action="store_true", help="C++ names with their arguments, and every call within headers of libraries")
    whole.add_argument("--library", required=True, help=argparse.SUPPRESS)
    whole.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return whole


def main(words: list[str] | None = None) -> int:
    whole = parser()
    arguments = whole.parse_args(words)
    if arguments.program[:1] == ["--"]:
        del arguments.program[0]
    if not arguments.program:
        whole.error("the program is missing")
    try:
        suppressions = [each for path in arguments.suppressions for each in suppressions_of(path)]
        if arguments.json is not None:
            write(arguments.json, "")  # a mistake is named before the program has run
        usual = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="hakozuna-leaks-", dir="/tmp" if "," in usual else usual) as folder:  # a comma ends a word
            try:
                status = run(arguments, folder)
            except OSError as error:
                print(f"hakozuna leaks: '{arguments.program[0]}': {error.strerror}", file=sys.stderr)
                return NOT_RUN
            texts = [path.read_text(errors="replace") for path in sorted(Path(folder).iterdir())]
    except Wrong as wrong:
        print(f"hakozuna leaks: {wrong}", file=sys.stderr)
        return REFUSED
    reports = [report_of(named_lines(text, arguments.full_names)) for text in texts]
    if not reports:
        print("hakozuna: leaks: not checked: the program did not end by exit or SIGTERM, or the library is not in it", file=sys.stderr)
    is_clean = all([show(report, suppressions) for report in reports]) and bool(reports)
    if arguments.json is not None:
        try:
            write_json(arguments.json, reports, suppressions)
        except Wrong as wrong:
            print(f"hakozuna leaks: {wrong}", file=sys.stderr)
            return REFUSED
    return status if status != 0 or is_clean else FOUND


if __name__ == "__main__":
    sys.exit(main())
