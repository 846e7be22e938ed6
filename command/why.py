#!/usr/bin/env python3
"""`hakozuna why` where hakobench is not installed: runs a program under the C library's malloc and under ours, and says which is faster.
It builds nothing. What share of its time a program spends in malloc, and which lane suits it, only `hakobench why` says."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time
from dataclasses import dataclass

import nearest

BUDGET_SECONDS = 10.0
PAIRS_MAX = 20
MORE = "Only the program was measured. Which share of its time malloc takes, and which lane suits it, `hakobench why` says (package hakobench)."


class Refused(Exception):
    """Why nothing was measured. The text is for people."""


@dataclass(frozen=True)
class Run:
    """Seconds, and bytes."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(argv: list[str], library: str | None) -> Run:
    """One run, without input, its output thrown away. Raises Refused if it fails."""
    before = os.environ.get("LD_PRELOAD", "")
    preload = ":".join(filter(None, [library, before]))
    environment = {**os.environ, "LD_PRELOAD": preload} if preload else dict(os.environ)
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2))]
    start = time.monotonic()
    try:
        pid = os.posix_spawnp(argv[0], argv, environment, file_actions=nothing)
    except OSError as error:
        raise Refused(f"cannot run '{argv[0]}': {error.strerror}") from error
    _, status, used = os.wait4(pid, 0)
    wall = time.monotonic() - start
    if status != 0:
        under = "the C library's malloc" if library is None else "hakozuna"
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.waitstatus_to_exitcode(status)}"
        raise Refused(f"'{argv[0]}' failed under {under}: {how}")
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def measure(argv: list[str], library: str, budget: float) -> list[tuple[Run, Run]]:
    """Pairs of runs, under the C library's malloc and under ours, in alternating order."""
    run(argv, None)  # so that files are in memory
    pairs: list[tuple[Run, Run]] = []
    end = time.monotonic() + budget
    while len(pairs) < PAIRS_MAX and (not pairs or time.monotonic() < end):
        order = (None, library) if len(pairs) % 2 == 0 else (library, None)
        found = {each: run(argv, each) for each in order}
        pairs.append((found[None], found[library]))
        longest = max(theirs.wall_seconds + ours.wall_seconds for theirs, ours in pairs)
        if time.monotonic() + longest > end:
            break
    return pairs


def sentences(pairs: list[tuple[Run, Run]], lane: str, own_peak: int) -> list[str]:
    """`own_peak`: of this program, which a child's peak is never below, since the kernel counts from before exec on."""
    speeds = sorted(theirs.wall_seconds / max(ours.wall_seconds, 1e-9) for theirs, ours in pairs)
    middle = statistics.median(speeds)
    count = f"{len(pairs)} pair{'' if len(pairs) == 1 else 's'} of runs"
    line = f"Under {lane} the program is {middle:.3g} times as fast as under the C library's malloc ({count}, {speeds[0]:.3g} to {speeds[-1]:.3g})"
    peaks = [statistics.median(run.peak_bytes for run in side) for side in zip(*pairs)]
    if min(peaks) > 1.1 * own_peak:
        line += f", with {peaks[1] / peaks[0]:.3g} times the peak memory"
    if speeds[0] <= 1 <= speeds[-1]:
        line += ". That is no difference"
    cpu = statistics.median(theirs.cpu_seconds for theirs, _ in pairs)
    wall = statistics.median(theirs.wall_seconds for theirs, _ in pairs)
    return [f"{line}.", f"A run takes {wall:.3g} s, and {cpu:.3g} s of CPU time.", MORE]


def json_of(pairs: list[tuple[Run, Run]], lane: str) -> str:
    """`times_as_fast`: the median of all pairs."""
    rows = [{"c_library": vars(theirs), "hakozuna": vars(ours)} for theirs, ours in pairs]
    return json.dumps({"lane": lane, "times_as_fast": statistics.median(a.wall_seconds / max(b.wall_seconds, 1e-9) for a, b in pairs), "pairs": rows})


def lane_of(library: str) -> str:
    name = pathlib.PurePath(library).name.partition(".so")[0]
    return name.removeprefix("libhakozuna-") if name != "libhakozuna" else "hz3-scale"


def parser() -> argparse.ArgumentParser:
    whole = nearest.Parser(prog="hakozuna why", description="Says whether a program is faster under hakozuna than under the C library's malloc.",
                           epilog="The program gets no input, and its output is thrown away. With hakobench installed, this is `hakobench why`.")  # fmt: skip
    whole.add_argument("--library", required=True, help=argparse.SUPPRESS)
    whole.add_argument("--budget", type=float, default=BUDGET_SECONDS, metavar="SECONDS", help="for all runs together, about; default: %(default)g")
    whole.add_argument("--json", action="store_true", help="every run, as JSON; as the first option also where hakobench is installed")
    whole.add_argument("program")
    whole.add_argument("arguments", nargs=argparse.REMAINDER)
    return whole


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    if not 0.1 <= arguments.budget <= 86400:
        parser().error(f"--budget {arguments.budget:g}: allowed are 0.1 to 86400 seconds")
    try:
        pairs = measure([arguments.program, *arguments.arguments], arguments.library, arguments.budget)
    except Refused as error:
        print(f"hakozuna why: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if arguments.json:
        print(json_of(pairs, lane_of(arguments.library)))
        return 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print("\n".join(sentences(pairs, lane_of(arguments.library), own)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
