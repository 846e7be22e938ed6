"""Runs a program that ends by itself: an interpreter, a compiler, a compressor, a database shell.

The row's `workload` is the program (on PATH, or an absolute path) and its args are the program's. It runs in an empty
folder. Words in args:
    @KIND=AMOUNT      the file KIND, which bench/apps/generate.py KIND AMOUNT writes there before the run
    bench/...         a file of the project
params:
    result = "FILE"   the program's output file. FILE and stdout, unless it is discarded, have to be the same under every
                      allocator
    figures = "FILE"  a file of key=value words that the program writes; they join the figures
    cpus = "all"      for a program with threads: it can use all cpus, not only those of a program under test
    NAME = "VALUE"    in capitals: an environment variable
"""

import functools
import hashlib
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable

from hakobench import process
from hakobench.drivers import app
from hakobench.drivers.job import Job, Outcome
from hakobench.drivers.program import process_figures
from hakobench.project import CACHE_DIR, SOURCES, public_text
from hakobench.rows import Row

GENERATOR = SOURCES / "apps" / "generate.py"
RESULT_DIGITS = 16
LOOK_SECONDS = 0.001
_INPUT = re.compile(r"@([a-z]+\.[a-z]+)=([0-9]+)")


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    return app.missing_program(row.workload, bin_dir) or app.missing_program(app.MEASURE_CHILD, bin_dir)


def input_file(kind: str, amount: str) -> pathlib.Path:
    """A generated input from the cache. Its name contains the generator's digest, so a new generator makes a new file.

    Raises FailedError when the generator fails."""
    digest = hashlib.sha256(GENERATOR.read_bytes()).hexdigest()[:RESULT_DIGITS]
    path = CACHE_DIR / "inputs" / f"{digest}-{amount}-{kind}"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
        # Written beside and then renamed, so that nobody reads half of it.
        made = subprocess.run(
            [sys.executable, str(GENERATOR), kind, amount], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    if made.returncode != 0:
        os.unlink(out.name)
        last_words = made.stderr.strip().splitlines()[-1:]
        raise app.FailedError(f"no input {kind}: {' '.join(last_words) or process.status_text(made.returncode)}")
    os.replace(out.name, path)
    return path


def prepare_inputs(args: list[str], folder: pathlib.Path) -> list[tuple[str, str]]:
    """Copies the generated inputs that `args` name to `folder`, and returns their kinds and amounts."""
    found = [match.groups() for arg in args for match in _INPUT.finditer(arg)]
    for kind, amount in found:
        shutil.copyfile(input_file(kind, amount), folder / kind)
    return found


def final_args(args: list[str]) -> list[str]:
    """The args as the program gets them."""
    args = [_INPUT.sub(r"\1", arg) for arg in args]
    return [str(SOURCES / arg.removeprefix("bench/")) if arg.startswith("bench/") else arg for arg in args]


def settings(row: Row) -> dict[str, str]:
    """The environment variables among the params."""
    return {name: value for name, value in row.params.items() if name.isupper()}


def result_digest(stdout: str, file: pathlib.Path | None) -> str:
    """The digest of the program's stdout and output file. Raises FailedError without that file."""
    digest = hashlib.sha256(stdout.encode())
    if file is not None:
        try:
            digest.update(b"\0" + file.read_bytes())
        except OSError as error:
            raise app.FailedError(f"the program ended well, but its result {file.name} is not there") from error
    return digest.hexdigest()[:RESULT_DIGITS]


def printed_figures(file: pathlib.Path) -> dict[str, str]:
    """The figures that the program wrote to a file. Raises FailedError without that file."""
    try:
        return process.key_values(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise app.FailedError(f"the program ended well, but its figures {file.name} are not there") from error


def _watch_child(watch: Callable[[int], None], parent: int) -> None:
    """Calls `watch` with the pid of the only child of `parent`, as soon as it runs another program than `parent`."""
    pidfd = os.pidfd_open(parent)
    try:
        launcher = os.readlink(f"/proc/{parent}/exe")
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        while not poll.poll(LOOK_SECONDS * 1000):
            children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            if children and os.readlink(f"/proc/{children[0]}/exe") != launcher:
                watch(int(children[0]))
                return
    except (FileNotFoundError, ProcessLookupError):
        return  # already over, or a kernel without lists of children: the run gets the mark `unverified`
    finally:
        os.close(pidfd)


def execute(
    job: Job, argv: list[str], environment: dict[str, str], folder: pathlib.Path | None = None
) -> tuple[process.Ended, dict[str, str]]:
    """Runs the program under measure_child, in the scratch folder or another one, and returns its figures. Raises
    FailedError when the program fails."""
    environment = environment | app.glibc_settings(environment)
    report = job.scratch / "measure_child.report"
    settings_alone = [f"{key}={value}" for key, value in environment.items() if job.plain_environment.get(key) != value]
    launcher = [app.program_path(job, app.MEASURE_CHILD), str(report), *settings_alone, "--"]
    ended = process.run(
        [*launcher, *argv], job.plain_environment, timeout=job.timeout, cwd=folder or job.scratch,
        cpus=() if job.row.params.get("cpus") == "all" else job.cpus,
        discard_output=job.row.discard_output, watch=functools.partial(_watch_child, job.watch),
        confine=job.confine,
    )  # fmt: skip
    if ended.failure:
        raise app.FailedError(public_text(ended.failure))
    return ended, process_figures(ended) | process.key_values(report.read_text(encoding="ascii"))


def run(job: Job) -> Outcome:
    outcome = Outcome("")

    def work() -> None:
        program = app.program_path(job, job.row.workload)
        argv = [program, *final_args(job.args)]
        inputs = prepare_inputs(job.args, job.scratch)
        made = [f"  # {kind}: bench/apps/{GENERATOR.name} {kind} {amount}" for kind, amount in inputs]
        outcome.command = app.shown(argv, environment=settings(job.row)) + "".join(made)
        ended, figures = execute(job, argv, job.environment | settings(job.row))
        outcome.output = public_text(ended.stdout + ended.stderr)
        written = job.row.params.get("result")
        outcome.figures = figures
        if written or not job.row.discard_output:
            outcome.figures["result"] = result_digest(ended.stdout, job.scratch / written if written else None)
        if "figures" in job.row.params:
            outcome.figures |= printed_figures(job.scratch / job.row.params["figures"])

    return app.guarded(outcome, work)
