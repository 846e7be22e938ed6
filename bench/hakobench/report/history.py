"""Results of earlier commits: every raw CSV of a directory, as far as it was measured on the same machine."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from hakobench import record, summary
from hakobench.project import public_path, public_text
from hakobench.record import RSS_SUFFIX, Recording, Run, rss_path
from hakobench.report.facts import geometric_mean, time_of, verdict

DIRTY = "-dirty"  # ends the name of a commit that the working tree differed from
# What a command says of the allocator stands in front of it; a scratch folder has another name in each run.
_PRELOAD = re.compile(r"(?:\w+=(?:'[^']*'|[^\s'])*\s+)*LD_PRELOAD=(?:'[^']*'|[^\s'])*\s+")
_SCRATCH = re.compile(r"\bhakobench-\w{8}\b")


@dataclasses.dataclass(frozen=True)
class Commit:
    """All that was measured of a commit. `files`: the names of the CSVs. `tables`: one for each of them, since ratios
    hold only between runs that were interleaved."""

    name: str
    date: str
    tables: list[list[summary.Line]]
    files: tuple[str, ...]

    def ratios(self, name: str) -> dict[str, float]:
        """Row -> speed of `name` relative to the best peer; of several files the geometric mean."""
        found: dict[str, list[float]] = {}
        for table in self.tables:
            for row, ratio in verdict(table, name).ratios.items():
                found.setdefault(row, []).append(ratio)
        return {row: geometric_mean(ratios) for row, ratios in found.items()}


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


def common_rows(commits: Sequence[Commit], names: Sequence[str]) -> set[str]:
    """Rows with a ratio wherever one of `names` has any: means over other sets of rows are not comparable."""
    found = [set(ratios) for commit in commits for name in names if (ratios := commit.ratios(name))]
    return set.intersection(*found) if found else set()


def work_of(command: str) -> str:
    """A command without what differs between allocators, or from run to run."""
    return _SCRATCH.sub("hakobench", _PRELOAD.sub("", command, count=1) if _PRELOAD.match(command) else command)


def _row_key(run: Run) -> tuple:
    return run.suite, run.row, run.metric, run.params, run.scale, run.cpu, run.cores


def _key(run: Run) -> tuple:
    """What has to be the same for two runs of different commits to be compared."""
    return *_row_key(run), work_of(run.command)


def _same_work(runs: Sequence[Run], wanted: set[tuple]) -> list[Run]:
    """The runs like those `wanted`. A run that failed early tells less of its command, and belongs to its row."""
    rows = {_row_key(run) for run in runs if not run.failure and _key(run) in wanted}
    return [run for run in runs if _row_key(run) in rows and (run.failure or _key(run) in wanted)]


def collect(current: Recording, others: Sequence[Recording], remarks: Sequence[str] = ()) -> History:
    """The rows of `current` in all recordings, its own included, by commit. A name with -dirty does not tell which
    changes there were, so each file of such a state stands alone."""
    wanted = {_key(run) for run in current.runs}
    sources = {one.path.resolve(): one for one in [*others, current]}
    found: dict[tuple[str, str], list[tuple[pathlib.Path, list[Run]]]] = {}
    left_out = list(remarks)
    for path, one in sources.items():
        same = one.runs if one is current else _same_work(one.runs, wanted)
        if not same:
            left_out.append(f"{public_path(path)} has no row of this suite with the same machine, work and parameters")
        for name in dict.fromkeys(run.commit for run in same):
            state = path.name if name.endswith(DIRTY) else ""
            found.setdefault((name, state), []).append((path, [run for run in same if run.commit == name]))
    commits = []
    for (name, _), parts in found.items():
        date = min((run.started for _, runs in parts for run in runs), key=time_of)
        files = tuple(path.name for path, _ in parts)
        commits.append(Commit(name, date, [summary.lines(runs) for _, runs in parts], files))
    commits.sort(key=lambda commit: time_of(commit.date))
    return History(commits, left_out)
