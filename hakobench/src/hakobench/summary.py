"""The figures of tables and pictures, from raw runs: medians, spread, the best peer, ratios and standings.

A ratio is the geometric mean of the ratios of all pairs of runs of the same round, of the speeds that the row is judged
by (record.Run.speed): what changes from round to round and hits both cancels. No run that ended well is left out.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

from hakobench import standing
from hakobench.record import Run
from hakobench.rows import BY_CPU, BY_FIGURE, METRICS, Metric

NOISY_SHARE = 0.05  # of the machine that other processes used, or the host took, during a run; median over a row
FEW_ROUNDS = 5
RSS_PEER_SPEED = 0.8  # the leanest peer is one that reaches this share of our speed


@dataclasses.dataclass(frozen=True)
class Cell:
    """One allocator in one row: medians over its rounds. `failures` counts the failed runs, `values` are those of the
    good runs. `spread` is half of (max - min), relative to the median. `beside` has the medians of the figures that the
    row shows beside its metric. `speeds` are those of the good runs (record.Run.speed) by round, and by number where a
    round has several."""

    allocator: str
    ours: bool
    value: float
    spread: float
    values: tuple[float, ...]
    peak_rss_mb: float
    final_rss_mb: float
    failures: int
    rounds: int
    marks: frozenset[str]
    beside: dict[str, float] = dataclasses.field(default_factory=dict)
    speeds: dict[tuple[int, int], float] = dataclasses.field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.failures > 0

    @property
    def speed(self) -> float:
        """The median speed; 0 without a good run."""
        return statistics.median(self.speeds.values()) if self.speeds else 0.0


@dataclasses.dataclass(frozen=True)
class Line:
    """One row of the table. `cells` are by allocator, in the order of `lines`. `other_cpu_share` and `stolen_share` are
    medians over the runs; the latter is None where no run says it."""

    row: str
    about: str
    unit: str
    metric: str
    less_is_better: bool
    tags: tuple[str, ...]
    params: str
    cells: dict[str, Cell]
    other_cpu_share: float
    also: tuple[str, ...] = ()
    judged_by: str = BY_FIGURE
    stolen_share: float | None = None

    @property
    def columns(self) -> list[tuple[str, str, bool]]:
        """The metric and those beside it: name, unit, whether less is better."""
        beside = [(name, _metric(name).unit, _metric(name).less_is_better) for name in self.also]
        return [(self.metric, self.unit, self.less_is_better), *beside]

    def figure_of(self, name: str, metric: str) -> float | None:
        """The median of an allocator's figure `metric`; None without a good run."""
        cell = self.cells.get(name)
        if cell is None or not cell.values:
            return None
        return cell.value if metric == self.metric else cell.beside.get(metric)

    def best_of(self, metric: str, less_is_better: bool) -> str | None:
        """The peer with the best figure `metric`; None when it judges nothing or no peer has it."""
        known = [
            (found, cell.allocator)
            for cell in self.cells.values()
            if not cell.ours and not cell.failed and (found := self.figure_of(cell.allocator, metric)) is not None
        ]
        if not known or _metric(metric).is_neutral:
            return None
        return (min if less_is_better else max)(known, key=lambda one: one[0])[1]

    @property
    def best_peer(self) -> Cell | None:
        peers = [cell for cell in self.cells.values() if not cell.ours and not cell.failed]
        if not peers:
            return None
        return max(peers, key=lambda cell: cell.speed)

    @property
    def failed_peers(self) -> tuple[str, ...]:
        """Peers with failed runs. They cannot be the best peer, so with any of them a ratio to the best peer
        flatters."""
        return tuple(cell.allocator for cell in self.cells.values() if not cell.ours and cell.failed)

    @property
    def is_noisy(self) -> bool:
        return max(self.other_cpu_share, self.stolen_share or 0.0) > NOISY_SHARE

    @property
    def noise(self) -> str:
        """The shares of the machine that the program did not get, in words."""
        taken = "" if self.stolen_share is None else f", the host took {self.stolen_share:.0%}"
        return f"others used {self.other_cpu_share:.0%}{taken}"

    def log_ratios(self, name: str, against: str) -> list[float]:
        """The log of the speed of `name` as a multiple of that of `against`, for each pair of runs of the same round.
        Empty when runs of either failed."""
        mine, other = self.cells.get(name), self.cells.get(against)
        if mine is None or other is None or mine.failed or other.failed:
            return []
        both = [(speed, other.speeds.get(key, 0.0)) for key, speed in mine.speeds.items()]
        return [math.log(speed / against) for speed, against in both if speed > 0 and against > 0]

    def speed_ratio(self, name: str, against: str) -> float | None:
        """The speed of `name` as a multiple of that of `against`: above 1 is better, for seconds too."""
        found = self.log_ratios(name, against)
        return math.exp(statistics.fmean(found)) if found else None

    def standing_to_best(self, name: str) -> standing.Standing | None:
        """How `name` stands to the best peer; None without a pair of runs, and for the best peer itself."""
        best = self.best_peer
        found = self.log_ratios(name, best.allocator) if best is not None and best.allocator != name else []
        return standing.of(found) if found else None

    def ratio_to_best(self, name: str) -> float | None:
        """The speed of `name` as a multiple of the best peer's."""
        best = self.best_peer
        return None if best is None else self.speed_ratio(name, best.allocator)

    def rss_ratio(self, name: str) -> float | None:
        """The peak RSS as a multiple of that of the leanest peer that reaches RSS_PEER_SPEED of our speed. In rows
        whose figure is itself memory, every peer counts. None without such a peer, or without a measured RSS of
        ours."""
        mine = self.cells.get(name)
        if mine is None or mine.failed or not mine.peak_rss_mb:
            return None
        speed_min = 0.0 if self.metric.endswith("_rss_kb") else RSS_PEER_SPEED
        lean = []
        for cell in self.cells.values():
            speed = self.speed_ratio(cell.allocator, name)
            if not cell.ours and speed is not None and speed >= speed_min and cell.peak_rss_mb > 0:
                lean.append(cell.peak_rss_mb)
        return mine.peak_rss_mb / min(lean) if lean else None


def _metric(name: str) -> Metric:
    """A metric that this version no longer knows keeps its name as its unit."""
    return METRICS.get(name, Metric(name, True, is_neutral=True))


def _beside(names: Sequence[str], runs: Sequence[Run]) -> dict[str, float]:
    printed = {name: [found for run in runs if (found := run.figure(name)) is not None] for name in names}
    return {name: statistics.median(found) / _metric(name).divisor for name, found in printed.items() if found}


def _cell(name: str, runs: Sequence[Run]) -> Cell:
    good = [run for run in runs if not run.failure]
    marks = frozenset(mark for run in runs for mark in run.marks.split())
    failures = len(runs) - len(good)
    if not good:
        return Cell(name, runs[0].ours, 0.0, 0.0, (), 0.0, 0.0, failures, len(runs), marks)
    values = tuple(run.value for run in good)
    median = statistics.median(values)
    speeds: dict[tuple[int, int], float] = {}
    for run in good:
        number = sum(key[0] == run.round for key in speeds)
        speeds[run.round, number] = run.speed
    return Cell(
        name,
        runs[0].ours,
        median,
        (max(values) - min(values)) / median / 2 if median else 0.0,
        values,
        statistics.median(run.peak_rss_kb for run in good) / 1024,
        statistics.median(run.final_rss_kb for run in good) / 1024,
        failures,
        len(runs),
        marks,
        _beside(runs[0].also.split(), good),
        speeds,
    )


def lines(runs: Sequence[Run]) -> list[Line]:
    """One line a row, in the suite's order (`row_index`). The cells of peers come first, then ours, each by name."""
    table = []
    allocators = list(dict.fromkeys(run.allocator for run in sorted(runs, key=lambda run: (run.ours, run.allocator))))
    for row in dict.fromkeys(run.row for run in sorted(runs, key=lambda run: run.row_index)):
        of_row = [run for run in runs if run.row == row]
        first = of_row[0]
        by_name = {name: [run for run in of_row if run.allocator == name] for name in allocators}
        cells = {name: _cell(name, found) for name, found in by_name.items() if found}
        others = [run.other_cpu_share for run in of_row if run.other_cpu_share is not None]
        stolen = [run.stolen_share for run in of_row if run.stolen_share is not None]
        table.append(
            Line(
                row, first.about, first.unit, first.metric, first.less_is_better, tuple(first.tags.split()),
                first.params, cells, statistics.median(others) if others else 0.0, tuple(first.also.split()),
                first.judged_by, statistics.median(stolen) if stolen else None,
            )
        )  # fmt: skip
    return table


def as_json(table: Sequence[Line]) -> dict:
    """The table for programs. `figures` are medians over the rounds by metric, in the units of `units`; `values` are the
    metric's figures of the good runs. `standing` is the word of hakobench.standing for the ratio to the best peer, and
    `interval` its two ends, null with too few pairs. A failed allocator has what its good runs gave."""
    rows = []
    for line in table:
        metrics = [metric for metric, _, _ in line.columns]
        cells = {
            name: {
                "ours": cell.ours,
                "rounds": cell.rounds,
                "failures": cell.failures,
                "marks": sorted(cell.marks),
                "values": list(cell.values),
                "spread": cell.spread,
                "figures": {metric: line.figure_of(name, metric) for metric in metrics},
                "peak_rss_mib": cell.peak_rss_mb,
                "ratio_to_best_peer": line.ratio_to_best(name),
                "standing": stood.word if stood else None,
                "interval": [stood.interval.low, stood.interval.high] if stood and stood.interval.is_known else None,
            }
            for name, cell in line.cells.items()
            for stood in [line.standing_to_best(name)]
        }
        units = {metric: unit for metric, unit, _ in line.columns}
        rows.append({
            "row": line.row, "about": line.about, "metric": line.metric, "units": units,
            "less_is_better": line.less_is_better, "judged_by": line.judged_by, "noisy": line.is_noisy,
            "stolen_share": line.stolen_share, "allocators": cells,
        })  # fmt: skip
    return {"rows": rows}


def figure(value: float) -> str:
    """Three digits, as a table shows them."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell_text(line: Line, name: str, metric: str) -> str:
    """One figure of an allocator as a table shows it: "failed" without a good run, a dash when it was not measured."""
    cell = line.cells.get(name)
    if cell is not None and not cell.values:
        return "failed"
    value = line.figure_of(name, metric)
    text = "–" if value is None else "0" if value == 0 else figure(value)
    return f"{text} ({cell.failures}/{cell.rounds} failed)" if cell is not None and cell.failures else text


def heading(metric: str, unit: str, less_is_better: bool) -> str:
    """The head of a figure's column: an arrow says that less is better, where anything is."""
    return unit + (" ↓" if less_is_better and not _metric(metric).is_neutral else "")


def with_columns(table: Sequence[Line]) -> list[Line]:
    """The rows that show figures beside their metric."""
    return [line for line in table if line.also]


def share(value: float | None) -> str:
    """A share of the machine as a table shows it."""
    return "-" if value is None else f"{value:.1%}"


def legend(judges: Collection[str], knows_stolen: bool) -> list[str]:
    """What a reader of a table with standings has to know."""
    found = []
    if BY_CPU in judges:
        found.append("by cpu: the program's CPU time gives the ratio; by figure: the figure that the table shows.")
    found.append(standing.LEGEND)
    if knows_stolen:
        found.append("stolen: the share of the machine that the host took while the row ran, median of the runs.")
    return found


def times(ratio: float | None) -> str:
    """A ratio as a table shows it."""
    return "-" if ratio is None else f"{ratio:.2f}"
