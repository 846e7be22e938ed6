#!/usr/bin/env python3
"""Measures the environments of tests/preload/environments.py, and writes the table in docs/containers.md.

usage: environments_table.py [--lib LIBRARY] [--json FILE] [--only NAME]... [--print]

Runs as root with the project's .venv; `make environments` does that. Results are kept in build/environments.json.
--print: write the table to stdout and leave the page alone; so do --only and --lib.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/preload"))

import environments  # noqa: E402 - from the folder that the line above adds
from environments import ENVIRONMENTS, Environment, Place, Seen  # noqa: E402

PAGE = ROOT / "docs/containers.md"
RESULTS = ROOT / "build/environments.json"
LIBRARY = ROOT / "build/lib/libhakozuna.so"
BEGIN = "<!-- written by tools/environments_table.py: begin -->"
END = "<!-- written by tools/environments_table.py: end -->"
AT_ONCE = 3


def measured(chosen: list[Environment], library: Path | None) -> dict[str, Seen]:
    """What returns.c shows in each environment; those that cannot run here have a failure."""
    found = {one.name: Seen(failure=why) for one in chosen if (why := one.missing())}
    todo = [one for one in chosen if one.name not in found]
    with environments.place(library) as place:
        for start in range(0, len(todo), AT_ONCE):
            together = todo[start : start + AT_ONCE]
            found |= environments.run(together, place)
            for one in together:
                add_refused(one, place, found[one.name])
                print(f"environments_table.py: {one.name}: {words(found[one.name])}", file=sys.stderr)
    return found


def add_refused(environment: Environment, place: Place, seen: Seen) -> None:
    if not seen.failure:
        seen.refused = environments.refused(environment, place)


def words(seen: Seen) -> str:
    return seen.failure or seen.killed or f"keeper {keeper_cell(seen)}, {seen.resident_mb:.0f} MB"


def keeper_cell(seen: Seen) -> str:
    if not seen.keeper:
        return "none"
    return "runs" if seen.keeper_name else "runs, nameless"


def refused_cell(refused: dict[str, str]) -> str:
    """The calls by what happens to them: `EPERM: prctl, tgkill`; `kills: all but /proc`."""
    kinds: dict[str, list[str]] = {}
    for call, kind in refused.items():
        kinds.setdefault(kind, []).append(call)
    return "; ".join(f"{kind}: {calls_text(calls)}" for kind, calls in kinds.items()) or "-"


def calls_text(calls: list[str]) -> str:
    others = [call for call in environments.CALLS if call not in calls]
    return f"all but {', '.join(others)}" if len(others) < len(calls) else ", ".join(calls)


def row(environment: Environment, seen: Seen) -> str:
    if seen.failure:
        return f"| {environment.name} | {environment.does} | not run here: {seen.failure.replace('|', '/')} | | |"
    keeper = f"**killed**: {seen.killed.replace('|', '/')}" if seen.killed else keeper_cell(seen)
    memory = "-" if seen.killed else f"{seen.resident_mb:.0f}"
    return f"| {environment.name} | {environment.does} | {keeper} | {memory} | {refused_cell(seen.refused)} |"


def table(found: dict[str, Seen], glibc_mb: float, commit: str) -> str:
    lines = [
        f"Library at commit {commit}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} CPUs. "
        f"glibc's malloc holds {glibc_mb:.0f} MB in environment `none`.",
        "",
        "| environment | what it is | keeper | MB after 3 s | what it refuses |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row(one, found[one.name]) for one in ENVIRONMENTS if one.name in found)])


def replaced(text: str, new: str) -> str:
    """The page with another table between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{new}\n{END}{rest.split(END)[1]}"


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in ENVIRONMENTS]
    parser.add_argument("--lib", type=Path, default=LIBRARY, metavar="LIBRARY", help=f"default: {LIBRARY.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help=f"default: {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="one environment; can be repeated")
    parser.add_argument("--print", action="store_true", help="write the table to stdout and leave the page alone")
    given = parser.parse_args(arguments)
    if not given.lib.is_file():
        parser.error(f"'{given.lib}' is not a file; `make libs` builds the libraries")
    return given


def main(arguments: list[str]) -> int:
    given = parsed(arguments)
    chosen = [one for one in ENVIRONMENTS if given.only is None or one.name in given.only]
    glibc_mb = measured([environments.BY_NAME["none"]], None)["none"].resident_mb
    found = measured(chosen, given.lib.resolve())
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    given.json.parent.mkdir(exist_ok=True)
    document = {"commit": commit, "glibc_mb": glibc_mb, "environments": {name: dataclasses.asdict(seen) for name, seen in found.items()}}
    given.json.write_text(json.dumps(document, indent=1) + "\n")
    text = table(found, glibc_mb, commit)
    if given.print or given.only or given.lib != LIBRARY:
        print(text)
    else:
        PAGE.write_text(replaced(PAGE.read_text(), text))
    return 1 if any(seen.killed for seen in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
