"""Results of earlier commits: the raw CSVs of a directory that were measured on the same machine."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from hakobench import record, summary
from hakobench.project import public_path, public_text
from hakobench.record import PACKED, RSS_SUFFIX, SUFFIX, Recording, Run, rss_path
from hakobench.report.facts import geometric_mean, ratios_of, time_of

DIRTY = "-dirty"  # ends the name of a commit when the working tree had changes
# The settings for the allocator stand before the command; a scratch folder has another name in each run.
_PRELOAD = re.compile(r"(?:\w+=(?:'[^']*'|[^\s'])*\s+)*LD_PRELOAD=(?:'[^']*'|[^\s'])*\s+")
_SCRATCH = re.compile(r"\bhakobench-\w{8}\b")


@dataclasses.dataclass(frozen=True)
class Commit:
    """All measurements of a commit. `files` are the names of the CSVs. `tables` has one table for each of them, because
    ratios hold only between interleaved runs."""

    name: str
    date: str
    tables: list[list[summary.Line]]
    files: tuple[str, ...]

    def ratios(self, name: str) -> dict[str, float]:
        """The speed of `name` relative to the best peer, by row; over several files the geometric mean."""
        found: dict[str, list[float]] = {}
        for table in self.tables:
            for row, ratio in ratios_of([line for line in table if not line.failed_peers], name).items():
                found.setdefault(row, []).append(ratio)
        return {row: geometric_mean(ratios) for row, ratios in found.items()}


@dataclasses.dataclass(frozen=True)
class History:
    """Commits in the order of their first measurement. `remarks` name the files that are left out, and why."""

    commits: list[Commit]
    remarks: list[str]


def csv_files(directory: pathlib.Path) -> list[pathlib.Path]:
    """The CSVs that can contain runs, packed ones among them, by name."""
    found = [path for suffix in (SUFFIX, SUFFIX + PACKED) for path in directory.glob(f"*{suffix}")]
    return sorted(path for path in found if not path.name.removesuffix(PACKED).endswith(RSS_SUFFIX))


def read_all(directory: pathlib.Path) -> tuple[list[Recording], list[str]]:
    """The recordings of a directory, and a remark for each file that cannot be read."""
    recordings, remarks = [], []
    for path in csv_files(directory):
        try:
            recordings.append(record.read(path))
        except ValueError as error:
            remarks.append(f"left out: {public_text(str(error), rss_path(path), path)}")
    return recordings, remarks


def newest(recordings: Sequence[Recording]) -> Recording | None:
    """The recording whose last run started last."""
    return max(recordings, key=lambda one: max(time_of(run.started) for run in one.runs), default=None)


def common_rows(commits: Sequence[Commit], names: Sequence[str]) -> set[str]:
    """The rows that have a ratio in every commit and for every name that has any. Means over different sets of rows
    cannot be compared."""
    found = [set(ratios) for commit in commits for name in names if (ratios := commit.ratios(name))]
    return set.intersection(*found) if found else set()


def work_of(command: str) -> str:
    """A command without the parts that differ between allocators or from run to run."""
    return _SCRATCH.sub("hakobench", _PRELOAD.sub("", command, count=1) if _PRELOAD.match(command) else command)


def _row_key(run: Run) -> tuple:
    return run.suite, run.row, run.metric, run.params, run.scale, run.cpu, run.cores


def _key(run: Run) -> tuple:
    """The facts that two runs of different commits must share to be compared."""
    return *_row_key(run), work_of(run.command)


def _same_work(runs: Sequence[Run], wanted: set[tuple]) -> list[Run]:
    """The runs like those `wanted`. A run that failed early has less of its command; its row decides."""
    rows = {_row_key(run) for run in runs if not run.failure and _key(run) in wanted}
    return [run for run in runs if _row_key(run) in rows and (run.failure or _key(run) in wanted)]


def collect(current: Recording, others: Sequence[Recording], remarks: Sequence[str] = ()) -> History:
    """The rows of `current` in all recordings, its own among them, by commit. A name with -dirty does not say which
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
