#!/usr/bin/env python3
"""Writes the table of tests/apps/README.md from the results of `make test-apps`, which are in build/apps.json.

usage: tests/apps/page.py
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

from programs import PROGRAMS  # noqa: E402 - from the folder that the line above adds

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/apps/README.md"
RESULTS = ROOT / "build/apps.json"
BEGIN = "<!-- written by tests/apps/page.py: begin -->"
END = "<!-- written by tests/apps/page.py: end -->"
DEFAULT_LANES = ("hz3_scale", "hz4")  # with CPU seconds; the others only pass or fail


def machine() -> str:
    """The kind of machine: processor and its count."""
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} CPUs"


def cell(row: dict[str, object] | None) -> str:
    if row is None:
        return "-"
    return f"{row['seconds']:.1f}" if row["result"] == "ok" else "**wrong**"


def lanes_cell(rows: list[dict[str, object]]) -> str:
    """How many lanes passed, or which did not."""
    if not rows:
        return "-"
    wrong = [str(row["lane"]) for row in rows if row["result"] != "ok"]
    return f"**wrong**: {', '.join(wrong)}" if wrong else f"{len(rows)} ok"


def table(results: dict[str, dict[str, object]]) -> str:
    rows = list(results.values())
    lines = [
        f"Library at commit {', '.join(sorted({str(row['commit']) for row in rows}))}; {', '.join(sorted({str(row['machine']) for row in rows}))}.",
        "",
        f"| program | version | what it does | glibc | {' | '.join(DEFAULT_LANES)} | other lanes | profile | check |",
        f"|---|---|---|---|{'---|' * len(DEFAULT_LANES)}---|---|---|",
    ]
    for program in PROGRAMS:
        mine = [row for row in rows if row["program"] == program.name]
        if not mine:
            continue
        release = {str(row["lane"]): row for row in mine if row["build"] == "release" and not row["under"]}
        glibc_seconds = f"{next(iter(release.values()))['glibc_seconds']:.1f}" if release else "-"
        cells = " | ".join(cell(release.get(lane)) for lane in DEFAULT_LANES)
        others = lanes_cell([row for lane, row in sorted(release.items()) if lane not in DEFAULT_LANES])
        profile = lanes_cell([row for row in mine if row["build"] == "release" and row["under"]])
        check = lanes_cell([row for row in mine if row["build"] == "check"])
        lines.append(f"| {program.name} | {mine[0]['version']} | {program.does} | {glibc_seconds} | {cells} | {others} | {profile} | {check} |")
    sums = [total(rows, lane) for lane in DEFAULT_LANES]
    lines.append(f"| all, CPU seconds | | | {max(sums, default=(0, 0))[0]:.0f} | {' | '.join(f'{ours:.0f} of {glibc:.0f}' for glibc, ours in sums)} | | | |")
    return "\n".join(lines)


def total(rows: list[dict[str, object]], lane: str) -> tuple[float, float]:
    """CPU seconds under glibc and under a lane, of the programs that ran under this lane."""
    mine = [row for row in rows if row["lane"] == lane and row["build"] == "release" and not row["under"]]
    return sum(row["glibc_seconds"] for row in mine), sum(row["seconds"] for row in mine)


def replaced(text: str, results: dict[str, dict[str, object]]) -> str:
    """The page with a new table between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{rest.split(END)[1]}"


def main() -> int:
    if not RESULTS.exists():
        print(f"page.py: {RESULTS} does not exist; `make test-apps` writes it", file=sys.stderr)
        return 1
    PAGE.write_text(replaced(PAGE.read_text(), json.loads(RESULTS.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
