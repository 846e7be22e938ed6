"""The ledger over the history of the repository: which commit changed what an operation costs.

Counts have no noise, so a change can be bisected like a bug: the first and the last commit are counted, and while a
row differs between two counted commits, the one in the middle is counted too, until they are neighbours or as many
commits are counted as asked for. The pair with the largest change comes first.
"""

import dataclasses
import heapq
import math
import pathlib
from collections.abc import Callable, Sequence

from hakobench import commits
from hakobench.counts import ledger
from hakobench.project import ROOT

CELL_INCHES = (0.42, 0.2)
SHORT_HASH = 9

Costs = dict[str, ledger.Cost]  # by row


@dataclasses.dataclass(frozen=True)
class Point:
    """A counted commit. `position` is its place in the list of commits, the oldest first."""

    position: int
    commit: str
    subject: str
    costs: Costs


def _ratio(before: Costs, after: Costs, row: str) -> float:
    """The instructions after, as a multiple of those before; 1 when a row was not counted."""
    if row not in before or row not in after:
        return 1.0
    return after[row].instructions / before[row].instructions


def _change(before: Costs, after: Costs) -> float:
    """The largest change of a row, as a logarithm."""
    return max((abs(math.log(_ratio(before, after, row))) for row in before), default=0.0)


def search(commits: Sequence[tuple[str, str]], count: Callable[[str], Costs | None], most: int) -> list[Point]:
    """Counts up to `most` of the commits, (hash, subject) from the oldest to the newest, and returns them in that order.
    `count` returns None for a commit that does not build; its neighbour is tried then."""
    points: dict[int, Point] = {}
    tried: set[int] = set()

    def try_one(low: int, high: int, wanted: int) -> Point | None:
        """The point nearest to `wanted` in [low, high] that can be counted."""
        for position in sorted(range(low, high + 1), key=lambda each: abs(each - wanted)):
            if len(tried) >= most:
                return None
            if position in tried:
                continue
            tried.add(position)
            commit, subject = commits[position]
            costs = count(commit)
            if costs is not None:
                points[position] = Point(position, commit, subject, costs)
                return points[position]
        return None

    first, last = try_one(0, len(commits) - 1, 0), try_one(0, len(commits) - 1, len(commits) - 1)
    if first is None or last is None:
        return list(points.values())
    gaps = [(-_change(first.costs, last.costs), first.position, last.position)]
    while gaps and len(tried) < most:
        size, low, high = heapq.heappop(gaps)
        if -size <= math.log1p(ledger.TOLERANCE) or high - low < 2:
            continue
        middle = try_one(low + 1, high - 1, (low + high) // 2)
        if middle is None:
            continue
        for left, right in ((low, middle.position), (middle.position, high)):
            heapq.heappush(gaps, (-_change(points[left].costs, points[right].costs), left, right))
    return [points[position] for position in sorted(points)]


@dataclasses.dataclass(frozen=True)
class Step:
    """A row whose instructions changed from one counted commit to the next. `between` is the number of commits that
    could have done it: 1 when it is certain."""

    row: str
    before: float
    after: float
    commit: str
    subject: str
    between: int

    def text(self) -> str:
        which = f"{self.commit[:SHORT_HASH]} {self.subject}" if self.between == 1 else f"one of {self.between} up to {self.commit[:SHORT_HASH]}"
        return f"{self.row:20} {self.before:9.1f} -> {self.after:9.1f} {self.after / self.before - 1:+7.1%}  {which}"


def steps(points: Sequence[Point]) -> list[Step]:
    """All changes above the tolerance, in the order of commits."""
    found = []
    for before, after in zip(points, points[1:], strict=False):
        for row, cost in before.costs.items():
            ratio = _ratio(before.costs, after.costs, row)
            if abs(math.log(ratio)) > math.log1p(ledger.TOLERANCE):
                now = after.costs[row].instructions
                between = after.position - before.position
                found.append(Step(row, cost.instructions, now, after.commit, after.subject, between))
    return found


def draw(points: Sequence[Point], rows: Sequence[str], path: pathlib.Path) -> None:
    """Draws a line for each row of the ledger and a column for each counted commit: the instructions relative to the
    first. The suffix of `path` chooses the format. Raises OSError, and ValueError for an unknown suffix."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    ratios = [[_ratio(points[0].costs, point.costs, row) for point in points] for row in rows]
    drawn = Figure(figsize=(3 + CELL_INCHES[0] * len(points), 2 + CELL_INCHES[1] * len(rows)), layout="constrained")
    made = drawn.add_subplot()
    made.imshow([[math.log2(ratio) for ratio in line] for line in ratios], cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    made.set_xticks(range(len(points)), [point.commit[:SHORT_HASH] for point in points], rotation=60, ha="right", fontsize=7)
    made.set_yticks(range(len(rows)), rows, fontsize=8)
    made.set_title(
        "Instructions of an operation relative to the first commit: red is more, blue is less.\n"
        "A figure stands where it differs from the commit before by more than 2 %.", fontsize=9, loc="left",
    )  # fmt: skip
    for line, values in enumerate(ratios):
        for column, ratio in enumerate(values):
            if column == 0 or abs(math.log(ratio / values[column - 1])) > math.log1p(ledger.TOLERANCE):
                made.text(column, line, f"{ratio:.2f}", ha="center", va="center", fontsize=6)
    with rc_context({"svg.hashsalt": "hakobench", "svg.fonttype": "none"}):
        drawn.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def commits_between(first: str, last: str, root: pathlib.Path = ROOT) -> list[tuple[str, str]]:
    """(hash, subject) of `first` and of all later commits up to `last`, the oldest first, of those that changed what a
    library is built from. Raises ValueError."""
    listed = commits.git(root, "log", "--first-parent", "--reverse", "--format=%H %s", f"{first}..{last}", "--", "src", "include", "cmake", "CMakeLists.txt")
    later = [tuple(line.split(" ", 1)) for line in listed.splitlines() if line]
    start = commits.git(root, "log", "-1", "--format=%H %s", first)
    return [tuple(start.split(" ", 1)), *later]
