"""The contents of the pages, from the raw runs: header, summary, scaling, ratios of the five documents, failures."""

import dataclasses
import datetime
import math
import os
import re
import statistics
from collections.abc import Iterable, Sequence

from hakobench import standing, suite, summary
from hakobench.record import Recording, Run, words
from hakobench.rows import BY_CPU
from hakobench.standing import Standing

MARKS = {
    "busy": "the machine was busy before the start",
    "forced": "started with --force on a busy machine",
    "noisy": f"others used more than {summary.NOISY_SHARE:.0%} of the machine during the run",
    "stolen": f"the host took more than {summary.NOISY_SHARE:.0%} of the machine during the run",
    "fallback": "more than 0.1 % of the remote frees fell back to local ones: the allocators did different work",
    "unverified": "nothing showed whether the preload took effect",
}
AXES = {"threads": "t", "remote": "r"}  # parameter -> its letter in names of rows
SMALL = 1e-12
DOUBTFUL = "†"  # beside a ratio of a row in which a peer had failed runs


@dataclasses.dataclass(frozen=True)
class Terms:
    """The words for the figures: rows that measure memory are not fast or slow."""

    figure: str
    better: str
    worse: str
    best: str


SPEED_TERMS = Terms("speed", "faster", "slower", "fastest")
NEUTRAL_TERMS = Terms("result", "better", "worse", "best")


@dataclasses.dataclass(frozen=True)
class Library:
    """One allocator of the recording."""

    name: str
    ours: bool
    version: str
    path: str
    sha256: str
    config: str


@dataclasses.dataclass(frozen=True)
class Failure:
    """`count` runs of a row that ended with the same failure. `first` is the index of the first in the recording."""

    row: str
    allocator: str
    reason: str
    count: int
    first: int


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One library of ours against the best peer of each row. A ratio above 1 is better; `standings` has how each row
    stands. `doubtful` has the ratios of rows in which a peer failed, because that peer might have been the best; they
    count nowhere."""

    name: str
    ratios: dict[str, float]
    standings: dict[str, Standing]
    rss: float | None
    failed_runs: int
    doubtful: dict[str, float]

    @property
    def mean(self) -> float | None:
        return geometric_mean(self.ratios.values())

    @property
    def wins(self) -> list[str]:
        return [row for row, ratio in self.ratios.items() if ratio >= 1]

    @property
    def losses(self) -> list[str]:
        """Worst first."""
        return sorted((row for row, ratio in self.ratios.items() if ratio < 1), key=lambda row: self.ratios[row])

    def rows(self, word: str) -> list[str]:
        """The rows of which `word` (hakobench.standing) says how they stand."""
        return [row for row, found in self.standings.items() if found.word == word]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Each word with the number of its rows, losses first."""
        return [(word, len(self.rows(word))) for word in standing.WORDS]

    @property
    def best(self) -> str | None:
        return max(self.ratios, key=lambda row: self.ratios[row], default=None)

    @property
    def worst(self) -> str | None:
        return min(self.ratios, key=lambda row: self.ratios[row], default=None)


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Rows that differ in one parameter only. `rows` are by the value of the parameter, in its order."""

    axis: str
    title: str
    rows: dict[float, summary.Line]


@dataclasses.dataclass(frozen=True)
class SeedLine:
    """A ratio of the five documents, and ours in the same row against the same opponent. None: not measured, or the
    opponent itself."""

    row: str
    library: str
    against: str
    ratio: float
    source: str
    ours: dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class Latency:
    """A row whose runs report latencies: the medians of p50 and p99 in microseconds by allocator, None without one."""

    row: str
    cells: dict[str, tuple[float | None, float | None]]


@dataclasses.dataclass
class Facts:
    """Everything about one recording."""

    recording: Recording
    table: list[summary.Line]
    libraries: list[Library]
    header: list[tuple[str, str]]
    marks: list[tuple[str, str, int]]
    verdicts: list[Verdict]
    failures: list[Failure]
    scaling: list[Scaling]
    seeds: list[SeedLine]
    latencies: list[Latency]

    @property
    def terms(self) -> Terms:
        return NEUTRAL_TERMS if any(is_memory(line) for line in self.table) else SPEED_TERMS

    @property
    def speed_rows(self) -> str:
        """The rows that show speed against memory, in words."""
        words = "the rows that measure speed" if self.terms is NEUTRAL_TERMS else "all rows"
        return f"{words} in which no peer failed" if self.doubtful else words

    @property
    def doubtful(self) -> dict[str, tuple[str, ...]]:
        """Row -> its peers with failed runs."""
        return {line.row: line.failed_peers for line in self.table if line.failed_peers}

    @property
    def standing_rule(self) -> str:
        """What the words of the standings mean."""
        return standing.LEGEND

    @property
    def knows_stolen(self) -> bool:
        return any(line.stolen_share is not None for line in self.table)

    @property
    def by_cpu(self) -> list[str]:
        """The rows that CPU time judges."""
        return [line.row for line in self.table if line.judged_by == BY_CPU]

    @property
    def suite(self) -> str:
        return self.recording.runs[0].suite

    @property
    def names(self) -> list[str]:
        """The allocators, ours first."""
        return [library.name for library in self.libraries]

    @property
    def ours(self) -> list[str]:
        return [library.name for library in self.libraries if library.ours]

    @property
    def judged(self) -> list[str]:
        """Those of ours in the table of standings: a line has room for two, which are the engines' default lanes if there are more."""
        shipped = [name for name in self.ours if name in ("hz3_scale", "hz4")]
        return shipped if shipped and len(self.ours) > 2 else self.ours

    @property
    def peers(self) -> list[str]:
        return [library.name for library in self.libraries if not library.ours]

    @property
    def rounds(self) -> int:
        return max(cell.rounds for line in self.table for cell in line.cells.values())


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive values; None without any."""
    logs = [math.log(max(value, SMALL)) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def is_memory(line: summary.Line) -> bool:
    """Whether the row's figure is itself an RSS, so that there is no speed to show against memory."""
    return line.metric.endswith("_rss_kb")


def ratio_text(line: summary.Line, ratio: float | None) -> str:
    """A ratio to the best or the leanest peer, with a mark when a peer of the row failed."""
    return summary.times(ratio) + (DOUBTFUL if ratio is not None and line.failed_peers else "")


def rss_goodness(line: summary.Line, name: str) -> float | None:
    """Peak RSS of the leanest peer over that of `name`: above 1 is less memory than any peer."""
    peers = [cell.peak_rss_mb for cell in line.cells.values() if not cell.ours and cell.values and cell.peak_rss_mb > 0]
    cell = line.cells.get(name)
    if not peers or cell is None or not cell.values or cell.peak_rss_mb <= 0:
        return None
    return min(peers) / cell.peak_rss_mb


def time_of(started: str) -> float:
    """The start of a run in seconds since 1970; 0 when it is not a date."""
    try:
        return datetime.datetime.fromisoformat(started).timestamp()
    except ValueError:
        return 0.0


def _minute(started: str) -> str:
    try:
        return datetime.datetime.fromisoformat(started).strftime("%Y-%m-%d %H:%M %z").strip()
    except ValueError:
        return started


def _distinct(runs: Sequence[Run], column: str) -> str:
    values = dict.fromkeys(str(getattr(run, column)) for run in runs)
    return ", ".join(value for value in values if value) or "unknown"


def _stolen(runs: Sequence[Run]) -> str:
    known = [run.stolen_share for run in runs if run.stolen_share is not None]
    if not known:
        return "not recorded"
    return f"{statistics.median(known):.1%} of the machine in the median run, {max(known):.1%} at most"


def _header(recording: Recording) -> list[tuple[str, str]]:
    runs = recording.runs
    by_time = sorted(runs, key=lambda run: time_of(run.started))
    cells = {(run.row, run.allocator) for run in runs}
    rounds = max(run.round for run in runs)
    loads = sorted({run.load for run in runs})
    first, last = _minute(by_time[0].started), _minute(by_time[-1].started)
    same_day = first[:10] == last[:10]
    return [
        ("suite", _distinct(runs, "suite")),
        ("commit", _distinct(runs, "commit")),
        ("date", f"{first} to {last[11:16] if same_day else last}" if first != last else first),
        ("machine", f"{_distinct(runs, 'cpu')}, {_distinct(runs, 'cores')} cores"),
        ("kernel", _distinct(runs, "kernel")),
        ("governor", _distinct(runs, "governor")),
        ("load at the start", ", ".join(f"{load:.2f}" for load in loads)),
        ("runs", f"{len(runs)}: {len(cells)} cells, {rounds} interleaved and shuffled rounds"),
        ("stolen by the host", _stolen(runs)),
        ("seed", _distinct(runs, "seed")),
        ("amount of work", ", ".join(f"× {scale:g}" for scale in sorted({run.scale for run in runs}))),
    ]


def _marks(runs: Sequence[Run]) -> list[tuple[str, str, int]]:
    counts: dict[str, int] = {}
    for run in runs:
        for mark in run.marks.split():
            counts[mark] = counts.get(mark, 0) + 1
    return [(mark, MARKS.get(mark, ""), count) for mark, count in sorted(counts.items())]


def _libraries(runs: Sequence[Run]) -> list[Library]:
    first: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: (not run.ours, run.allocator)):
        first.setdefault(run.allocator, run)
    return [
        Library(name, run.ours, run.library_version, run.library, run.library_sha256, run.config)
        for name, run in first.items()
    ]


def _failures(runs: Sequence[Run]) -> list[Failure]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for at, run in enumerate(runs):
        if run.failure:
            found.setdefault((run.row, run.allocator, run.failure), []).append(at)
    return [Failure(*key, len(places), places[0]) for key, places in found.items()]


def verdict(table: Sequence[summary.Line], name: str, failed_runs: int = 0) -> Verdict:
    """The verdict over the rows in which both sides ran and no peer failed."""
    sound = [line for line in table if not line.failed_peers]
    standings = {line.row: found for line in sound if (found := line.standing_to_best(name)) is not None}
    rss = geometric_mean(ratio for line in sound if (ratio := line.rss_ratio(name)) is not None)
    return Verdict(
        name, ratios_of(sound, name), standings, rss, failed_runs,
        ratios_of([line for line in table if line.failed_peers], name),
    )  # fmt: skip


def ratios_of(table: Sequence[summary.Line], name: str) -> dict[str, float]:
    """The ratios of `name` to the best peer, by row."""
    found = {line.row: line.ratio_to_best(name) for line in table}
    return {row: ratio for row, ratio in found.items() if ratio is not None}


def _scaling_key(line: summary.Line, axis: str, value: str) -> tuple[str, ...]:
    """A key that is the same for rows that differ in `axis` only: unit, other parameters, name without the value."""
    others = sorted(f"{key}={other}" for key, other in words(line.params).items() if key != axis)
    lettered = rf"(?<![A-Za-z0-9]){AXES[axis]}{re.escape(value)}(?![0-9])"
    name, count = re.subn(lettered, f"{AXES[axis]}*", line.row, count=1)
    if not count:
        name = re.sub(rf"(?<![0-9]){re.escape(value)}(?![0-9])", "*", line.row, count=1)
    return (line.metric, line.unit, *others, name)


def _scaling_title(key: tuple[str, ...], keys: Sequence[tuple[str, ...]]) -> str:
    """The name with a star for the value, and the parameters that differ from another group of that name."""
    namesakes = [set(other) for other in keys if other[-1] == key[-1]]
    own = [word for word in key[2:-1] if any(word not in other for other in namesakes)]
    return f"{key[-1]} ({' '.join(own)})" if own else key[-1]


def scaling(table: Sequence[summary.Line]) -> list[Scaling]:
    """Groups of at least two rows over threads, then over the remote share."""
    found = []
    for axis in AXES:
        groups: dict[tuple[str, ...], dict[float, summary.Line]] = {}
        for line in table:
            value = words(line.params).get(axis)
            try:
                place = float(value) if value is not None else None
            except ValueError:
                continue
            if place is not None and math.isfinite(place) and (axis != "threads" or place > 0):
                groups.setdefault(_scaling_key(line, axis, value), {})[place] = line
        groups = {key: rows for key, rows in groups.items() if len(rows) > 1}
        for key, rows in groups.items():
            found.append(Scaling(axis, _scaling_title(key, list(groups)), dict(sorted(rows.items()))))
    return found


def _seeds(suite_name: str, table: Sequence[summary.Line], ours: Sequence[str]) -> list[SeedLine]:
    try:
        known = suite.load(os.path.basename(suite_name))
    except ValueError:
        return []  # a suite from a file of the user has no ratios of the five documents
    by_row = {line.row: line for line in table}
    return [
        SeedLine(
            seed.row, seed.ours, seed.against, seed.ratio, seed.source,
            {name: by_row[seed.row].speed_ratio(name, seed.against) if name != seed.against else None for name in ours},
        )
        for seed in known.seeds
        if seed.row in by_row
    ]  # fmt: skip


def _median(runs: Sequence[Run], name: str) -> float | None:
    printed = [value for run in runs if (value := run.figure(name)) is not None and math.isfinite(value)]
    return statistics.median(printed) if printed else None


def _latencies(runs: Sequence[Run], table: Sequence[summary.Line]) -> list[Latency]:
    """The latencies of the rows in which a good run reported a percentile."""
    by_cell: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if not run.failure:
            by_cell.setdefault((run.row, run.allocator), []).append(run)
    found = []
    for line in table:
        cells = {name: by_cell.get((line.row, name), []) for name in line.cells}
        printed = {name: (_median(of_cell, "p50_us"), _median(of_cell, "p99_us")) for name, of_cell in cells.items()}
        printed = {name: pair for name, pair in printed.items() if pair != (None, None)}
        if printed:
            found.append(Latency(line.row, printed))
    return found


def collect(recording: Recording) -> Facts:
    """All facts about a recording, which has at least one run."""
    runs = recording.runs
    table = summary.lines(runs)
    libraries = _libraries(runs)
    ours = [library.name for library in libraries if library.ours]
    failed = {name: sum(1 for run in runs if run.allocator == name and run.failure) for name in ours}
    return Facts(
        recording=recording,
        table=table,
        libraries=libraries,
        header=_header(recording),
        marks=_marks(runs),
        verdicts=[verdict(table, name, failed[name]) for name in ours],
        failures=_failures(runs),
        scaling=scaling(table),
        seeds=_seeds(runs[0].suite, table, ours),
        latencies=_latencies(runs, table),
    )
