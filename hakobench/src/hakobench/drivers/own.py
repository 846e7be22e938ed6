"""Runs a program of the caller's, as `hakobench run -- CMD ARGS` names it: in the caller's folder and environment, with
the allocator preloaded.

Unlike driver `command` it prepares nothing and gives the program all cpus. Its stdout has to be the same under every
allocator, unless the row discards it. What it reads from its standard input is nothing.
"""

import os
import pathlib
import shutil

from hakobench.drivers import app, command
from hakobench.drivers.job import Job, Outcome
from hakobench.project import public_text
from hakobench.rows import Row


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    if shutil.which(row.workload) is None:
        return f"no program '{row.workload}', neither on PATH nor, with a slash in its name, from the current folder"
    return app.missing_program(app.MEASURE_CHILD, bin_dir)


def environment(job: Job) -> dict[str, str]:
    """The caller's, without a preload of his own; the allocator's preload and settings."""
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return own | {name: value for name, value in job.environment.items() if name not in job.plain_environment}


def run(job: Job) -> Outcome:
    outcome = Outcome("")

    def work() -> None:
        found = shutil.which(job.row.workload)
        if found is None:
            raise app.FailedError(missing(job.row, job.bin_dir))
        argv = [str(pathlib.Path(found).absolute()), *job.row.args]  # as they are: nothing in them is a placeholder
        outcome.command = app.shown([job.row.workload, *job.row.args])
        ended, figures = command.execute(job, argv, environment(job), pathlib.Path.cwd())
        outcome.output = public_text(ended.stdout + ended.stderr)
        outcome.figures = figures
        if not job.row.discard_output:
            outcome.figures["result"] = command.result_digest(ended.stdout, None)

    return app.guarded(outcome, work)
