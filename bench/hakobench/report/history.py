"""Results of earlier commits: every raw CSV of a directory, as far as it was measured on the same machine."""

import dataclasses
import pathlib
from collections.abc import Sequence

from hakobench import record, summary
from hakobench.project import public_path, public_text
from hakobench.record import RSS_SUFFIX, Recording, Run, rss_path
from hakobench.report.facts import time_of


@dataclasses.dataclass(frozen=True)
class Commit:
    """All that was measured of a commit. `files`: the names of the CSVs."""

    name: str
    date: str
    table: list[summary.Line]
    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class History:
    """Commits in the order in which they were first measured. `remarks`: files that are left out, and why."""

    commits: list[Commit]
    remarks: list[str]


def csv_files(directory: pathlib.Path) -> list[pathlib.Path]:
    """The CSVs that may hold runs, by name."""
    return sorted(path for path in directory.glob("*.csv") if not path.name.endswith(RSS_SUFFIX))


def read_all(directory: pathlib.Path) -> tuple[list[Recording], list[str]]:
    """What can be read of a directory, and a remark for each file that cannot."""
    recordings, remarks = [], []
    for path in csv_files(directory):
        try:
            recordings.append(record.read(path))
        except ValueError as error:
            remarks.append(f"left out: {public_text(str(error), rss_path(path), path)}")
    return recordings, remarks


def newest(recordings: Sequence[Recording]) -> Recording | None:
    """The one whose last run started last."""
    return max(recordings, key=lambda one: max(time_of(run.started) for run in one.runs), default=None)


def _like(current: Recording) -> set[tuple]:
    return {_key(run) for run in current.runs}


def _key(run: Run) -> tuple:
    """What has to be the same for two runs of different commits to be compared."""
    return run.row, run.metric, run.params, run.scale, run.cpu, run.cores


def collect(current: Recording, others: Sequence[Recording], remarks: Sequence[str] = ()) -> History:
    """The rows of `current` in all recordings, its own included, by commit."""
    wanted = _like(current)
    sources = {one.path.resolve(): one for one in [*others, current]}
    by_commit: dict[str, list[tuple[Run, pathlib.Path]]] = {}
    left_out = list(remarks)
    for path, one in sources.items():
        same = [run for run in one.runs if _key(run) in wanted]
        if not same:
            left_out.append(f"{public_path(path)} has no row of this suite with the same machine, work and parameters")
        for run in same:
            by_commit.setdefault(run.commit, []).append((run, path))
    commits = []
    for name, found in by_commit.items():
        runs = [run for run, _ in found]
        date = min((run.started for run in runs), key=time_of)
        files = tuple(dict.fromkeys(path.name for _, path in found))
        commits.append(Commit(name, date, summary.lines(runs), files))
    commits.sort(key=lambda commit: time_of(commit.date))
    return History(commits, left_out)
