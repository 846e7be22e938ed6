"""Runs RocksDB's db_bench. The row's args are its options; the figures are those of its last benchmark.

The result is the number of keys found of those looked for: keys and values follow from --seed, so it is the same under
every allocator.
"""

import pathlib
import re

from hakobench.drivers import app, command
from hakobench.drivers.job import Job, Outcome
from hakobench.project import public_text
from hakobench.rows import Row

OPTIONS = ("--db=db", "--histogram=1", "--progress_reports=0")
_LINE = re.compile(
    r"^(?P<test>\w+) +: +[\d.]+ micros/op (?P<rate>\d+) ops/sec [\d.]+ seconds (?P<count>\d+) operations;"
    r"(?:.*\((?P<found>\d+ of \d+) found\))?",
    re.MULTILINE,
)
_PERCENTILES = re.compile(r"^Percentiles: P50: (?P<p50>[\d.]+) .*\bP99: (?P<p99>[\d.]+) ", re.MULTILINE)


def missing(row: Row, bin_dir: pathlib.Path) -> str:
    return command.missing(row, bin_dir)


def parse(text: str) -> dict[str, str]:
    """The figures in db_bench's output. Raises FailedError that says what is missing. `compact` has no percentiles."""
    tests, percentiles = list(_LINE.finditer(text)), list(_PERCENTILES.finditer(text))
    if not tests:
        raise app.FailedError("db_bench printed no line with ops/sec")
    timed = [test for test in tests if test["test"] != "compact"]
    if len(percentiles) != len(timed):
        raise app.FailedError(f"db_bench printed {len(percentiles)} lines of percentiles for {len(timed)} tests")
    results = [f"{test['test']}:{test['found'] or test['count']}".replace(" ", "-") for test in tests]
    return {
        "requests_per_s": tests[-1]["rate"],
        "p50_us": percentiles[-1]["p50"],
        "p99_us": percentiles[-1]["p99"],
        "result": ",".join(results),
    }


def run(job: Job) -> Outcome:
    outcome = Outcome("")

    def work() -> None:
        argv = [app.program_path(job, job.row.workload), *OPTIONS, *job.args]
        outcome.command = app.shown(argv)
        ended, figures = command.execute(job, argv, job.environment)
        outcome.output = public_text(ended.stdout)
        outcome.figures = figures if job.row.discard_output else figures | parse(ended.stdout)

    return app.guarded(outcome, work)
