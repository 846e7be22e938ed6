"""Runs a workload of bench/workloads: one process that prints key=value words."""

import os
import pathlib
import shlex

from hakobench import process
from hakobench.drivers.job import Job, Outcome
from hakobench.project import public_path, public_text
from hakobench.rows import Row


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    """Workloads come from the build, not from a package."""
    path = bin_dir / row.workload
    return "" if os.access(path, os.X_OK) else f"no program '{public_path(path)}'; 'make bench' builds the workloads"


def process_figures(ended: process.Ended) -> dict[str, str]:
    """The figures that are known without the program's output."""
    return {
        "wall_seconds": f"{ended.wall_seconds:.6f}",
        "user_seconds": f"{ended.user_seconds:.6f}",
        "system_seconds": f"{ended.system_seconds:.6f}",
        "cpu_seconds": f"{ended.user_seconds + ended.system_seconds:.6f}",
    }


def run(job: Job) -> Outcome:
    """The workload pins its own threads, so the process can use all cpus. It has to print its own RSS."""
    program = job.bin_dir / job.row.workload
    outcome = Outcome(shlex.join([public_path(program), *job.args]))
    try:
        ended = process.run(
            [str(program), *job.args], job.environment, timeout=job.timeout, cwd=job.scratch,
            discard_output=job.row.discard_output, watch=job.watch, confine=job.confine,
        )  # fmt: skip
    except OSError as error:
        outcome.failure = f"cannot start '{public_path(program)}': {error.strerror}"
        return outcome
    outcome.output = public_text(ended.stdout + ended.stderr, program)
    outcome.failure = public_text(ended.failure, program)
    outcome.figures = process_figures(ended) | process.key_values(ended.stdout)
    return outcome
