"""The figures of tables and pictures, from raw runs: medians, spread, the best peer, ratios."""

import dataclasses
import statistics
from collections.abc import Sequence

from hakobench.record import Run

NOISY_SHARE = 0.05  # of the machine that other processes used during a run; median over a row
FEW_ROUNDS = 5
RSS_PEER_SPEED = 0.8  # the leanest peer is one that reaches this share of our speed


@dataclasses.dataclass(frozen=True)
class Cell:
    """One allocator in one row: medians over its rounds. `failures` counts the failed runs, `values` are those of the
    good runs. `spread` is half of (max - min), relative to the median."""

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

    @property
    def failed(self) -> bool:
        return self.failures > 0


@dataclasses.dataclass(frozen=True)
class Line:
    """One row of the table. `cells` are by allocator, in the order of `lines`."""

    row: str
    about: str
    unit: str
    metric: str
    less_is_better: bool
    tags: tuple[str, ...]
    params: str
    cells: dict[str, Cell]
    other_cpu_share: float

    @property
    def best_peer(self) -> Cell | None:
        peers = [cell for cell in self.cells.values() if not cell.ours and not cell.failed]
        if not peers:
            return None
        return (min if self.less_is_better else max)(peers, key=lambda cell: cell.value)

    @property
    def failed_peers(self) -> tuple[str, ...]:
        """Peers with failed runs. They cannot be the best peer, so with any of them a ratio to the best peer
        flatters."""
        return tuple(cell.allocator for cell in self.cells.values() if not cell.ours and cell.failed)

    @property
    def is_noisy(self) -> bool:
        return self.other_cpu_share > NOISY_SHARE

    def speed_ratio(self, name: str, against: str) -> float | None:
        """The speed of `name` as a multiple of that of `against`: above 1 is better, for seconds too."""
        mine, other = self.cells.get(name), self.cells.get(against)
        if mine is None or other is None or mine.failed or other.failed or not mine.value or not other.value:
            return None
        return other.value / mine.value if self.less_is_better else mine.value / other.value

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


def _cell(name: str, runs: Sequence[Run]) -> Cell:
    good = [run for run in runs if not run.failure]
    marks = frozenset(mark for run in runs for mark in run.marks.split())
    failures = len(runs) - len(good)
    if not good:
        return Cell(name, runs[0].ours, 0.0, 0.0, (), 0.0, 0.0, failures, len(runs), marks)
    values = tuple(run.value for run in good)
    median = statistics.median(values)
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
        table.append(
            Line(
                row, first.about, first.unit, first.metric, first.less_is_better, tuple(first.tags.split()),
                first.params, cells, statistics.median(others) if others else 0.0,
            )
        )  # fmt: skip
    return table


def figure(value: float) -> str:
    """Three digits, as a table shows them."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(ratio: float | None) -> str:
    """A ratio as a table shows it."""
    return "-" if ratio is None else f"{ratio:.2f}"
