"""Runs the rows: same program, only LD_PRELOAD differs, allocators interleaved and shuffled round by round."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
from collections.abc import Iterator

from compare.allocators import Allocator
from compare.machine import CpuTimes
from compare.project import public_path, public_text
from compare.rows import Row

_KEY_VALUE = re.compile(r"(?:^|\s)([a-z_0-9]+)=(\S+)")
_KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be run."""

    rows: list[Row]
    allocators: list[Allocator]
    rounds: int
    scale: float
    seed: int
    bin_dir: pathlib.Path
    timeout: float


@dataclasses.dataclass
class Run:
    """One run of one row under one allocator. `failure` empty: it ended well and the figures are there."""

    row: Row
    allocator: Allocator
    round: int
    position: int
    command: str
    failure: str = ""
    value: float = 0.0
    seconds: float = 0.0
    peak_rss_kb: int = 0
    final_rss_kb: int = 0
    other_cpu_share: float | None = None


def programs(plan: Plan) -> dict[str, str]:
    """sha256 of each workload's program. Raises ValueError that names the first one that is not there."""
    digests = {}
    for workload in dict.fromkeys(row.workload for row in plan.rows):
        path = plan.bin_dir / workload
        if not os.access(path, os.X_OK):
            raise ValueError(f"no program '{public_path(path)}'; 'make build-release' builds the workloads")
        digests[workload] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def environment(allocator: Allocator) -> dict[str, str]:
    """Nearly empty: settings of the caller's shell (MALLOC_CONF, GLIBC_TUNABLES, ...) must not decide a row."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    return kept | {"LC_ALL": "C"} | ({"LD_PRELOAD": str(allocator.library)} if allocator.library else {})


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _status_text(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
    return f"exit code {status}"


def _wrong_malloc(allocator: Allocator, malloc_from: str) -> str:
    """Why the program did not run on this allocator; empty when it did."""
    served_by = pathlib.Path(malloc_from)
    if allocator.library is None:
        return "" if served_by.name.startswith("libc.so") else f"malloc comes from {served_by.name}, not from glibc"
    if served_by.exists() and served_by.samefile(allocator.library):
        return ""
    return f"the preload took no effect: malloc comes from {served_by.name}"


def _last_words(stderr: str | bytes | None) -> str:
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr or ""
    found = text.strip().splitlines()
    return f": {found[-1]}" if found else ""


def _judge(run: Run, ended: subprocess.CompletedProcess[str]) -> None:
    """Fills the figures, or `failure`."""
    if ended.returncode != 0:
        run.failure = _status_text(ended.returncode) + _last_words(ended.stderr)
        return
    values = dict(_KEY_VALUE.findall(ended.stdout))
    try:
        wrong = _wrong_malloc(run.allocator, values["malloc_from"])
        run.failure = wrong + _last_words(ended.stderr) if wrong else ""
        run.value = float(values[run.row.figure]) / run.row.divisor
        run.seconds = float(values["seconds"])
        run.peak_rss_kb = int(values["peak_rss_kb"])
        run.final_rss_kb = int(values["final_rss_kb"])
    except (KeyError, ValueError) as error:
        run.failure = f"the output has no usable value: {error}"


def run_once(plan: Plan, row: Row, allocator: Allocator, round_number: int, position: int) -> Run:
    program = plan.bin_dir / row.workload
    args = row.scaled_args(plan.scale)
    shown = shlex.join([public_path(program), *args])
    preload = f"LD_PRELOAD={shlex.quote(allocator.shown_library)} " if allocator.library else ""
    run = Run(row, allocator, round_number, position, preload + shown)
    before, used_before = CpuTimes.now(), _children_cpu_seconds()
    try:
        ended = subprocess.run(
            [str(program), *args], env=environment(allocator), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=plan.timeout, check=False,
        )  # fmt: skip
        _judge(run, ended)
    except subprocess.TimeoutExpired as expired:
        run.failure = f"no end after {plan.timeout:g} s{_last_words(expired.stderr)}"
    run.other_cpu_share = CpuTimes.now().share_since(before, _children_cpu_seconds() - used_before)
    run.failure = public_text(run.failure, program, *([allocator.library] if allocator.library else []))
    return run


def run_all(plan: Plan) -> Iterator[Run]:
    """All runs, in an order that `plan.seed` decides. The allocators of a row follow each other within a round, so
    that what drifts on the machine hits all of them alike."""
    order = random.Random(plan.seed)
    position = 0
    for round_number in range(1, plan.rounds + 1):
        for row in order.sample(plan.rows, len(plan.rows)):
            for allocator in order.sample(plan.allocators, len(plan.allocators)):
                position += 1
                yield run_once(plan, row, allocator, round_number, position)
