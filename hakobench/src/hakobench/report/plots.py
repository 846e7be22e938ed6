"""The pictures, as matplotlib figures in placeholder colours. Sizes are in pixels; a `Look` is how an allocator
looks."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hakobench import summary
from hakobench.report import canvas, svg, theme
from hakobench.report.canvas import FONT_SIZE, shortened, text_width
from hakobench.report.theme import Look, placeholder

WIDTH = 360
ROUNDS_AS_DOTS = 12
Looks = dict[str, Look]


def shown(cell: summary.Cell, unit: str) -> str:
    """A cell in words."""
    if not cell.values:
        return f"{cell.allocator}: failed in all {cell.rounds} rounds"
    failed = f"; {cell.failures} of {cell.rounds} rounds failed" if cell.failures else ""
    rounds = ", ".join(summary.figure(value) for value in cell.values)
    return f"{cell.allocator}: {summary.figure(cell.value)} {unit} ±{cell.spread:.0%} (rounds: {rounds}){failed}"


def _by_speed(line: summary.Line) -> list[summary.Cell]:
    def rank(cell: summary.Cell) -> tuple[bool, float]:
        return (not cell.values, cell.value if line.less_is_better else -cell.value)

    return sorted(line.cells.values(), key=rank)


def bars(line: summary.Line, looks: Looks) -> Figure:
    """One row: medians, fastest first, with the rounds as dots on a line from the slowest to the fastest."""
    cells = _by_speed(line)
    labels = [shortened(cell.allocator) for cell in cells]
    left = max(text_width(label, weight="bold") for label in labels) + 14
    right, top, bottom, pitch = 84, 4, 22, 22
    height = top + bottom + pitch * len(cells)
    drawn = canvas.figure(WIDTH, height)
    ax = canvas.axes(drawn, left, right, top, bottom)
    most = max((max(cell.values) for cell in cells if cell.values), default=0.0) or 1.0
    ax.set_xlim(0, most * 1.02)
    ax.set_ylim(len(cells) - 0.5, -0.5)
    canvas.x_ticks(ax, ticks := canvas.linear_ticks(0, most, 3), [canvas.number(at) for at in ticks])
    best = line.best_peer
    if best is not None:
        ax.plot([best.value] * 2, [-0.5, len(cells) - 0.5], color=placeholder("muted"), linewidth=1, dashes=(3, 3))
    for at, (cell, label) in enumerate(zip(cells, labels, strict=True)):
        look = looks[cell.allocator]
        middle = height - top - pitch * (at + 0.5)
        words = canvas.text(ax, left - 8, middle, label, ha="right", fontweight=look.weight)
        svg.tip(words, shown(cell, line.unit))
        if cell.values:
            _bar(ax, at, cell, look, line.unit)
        value = f"{summary.figure(cell.value)} ±{cell.spread:.0%}"
        if cell.failures:
            value = "failed" if not cell.values else f"{cell.failures}/{cell.rounds} failed"
        colour = placeholder("loss") if cell.failures else placeholder("ink")
        canvas.text(ax, WIDTH - 2, middle, value, ha="right", fontweight=look.weight, color=colour)
    return canvas.finish(drawn)


def _bar(ax: Axes, at: int, cell: summary.Cell, look: Look, unit: str) -> None:
    alpha = 1.0 if look.ours else 0.55
    patch = Rectangle((0, at - 0.34), cell.value, 0.68, facecolor=look.colour, edgecolor="none", alpha=alpha)
    svg.tip(ax.add_patch(patch), shown(cell, unit))
    if len(cell.values) > 1:
        line_width = 3.4  # a border in the card's colour keeps the range readable on every bar
        for colour, width in ((placeholder("card"), line_width), (placeholder("ink"), 1.2)):
            ax.plot([min(cell.values), max(cell.values)], [at, at], color=colour, linewidth=width)
    if len(cell.values) <= ROUNDS_AS_DOTS:
        ax.plot(
            cell.values, [at] * len(cell.values), linestyle="none", marker="o", markersize=4,
            markerfacecolor=placeholder("card"), markeredgecolor=placeholder("ink"), markeredgewidth=1,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Point:
    """One allocator in a scatter plot; `x` and `y` are positive."""

    name: str
    x: float
    y: float
    about: str


def scatter(
    points: Sequence[Point], looks: Looks, x_label: str, y_label: str, size: tuple[float, float] = (WIDTH, 250),
    better_below: bool = False, units: bool = False,
) -> Figure:  # fmt: skip
    """A scatter plot with logarithmic axes. `better_below` turns y round, so that up is better; `units` marks 1.0."""
    width, height = size
    left, right, top, bottom = 44, 14, 26, 40
    drawn = canvas.figure(width, height)
    ax = canvas.axes(drawn, left, right, top, bottom)
    ax.set_xscale("log")
    ax.set_yscale("log")
    x_low, x_high = canvas.log_limits([point.x for point in points], 0.15)
    y_low, y_high = canvas.log_limits([point.y for point in points])
    ax.set_xlim(x_low, x_high)
    ax.set_ylim(*((y_high, y_low) if better_below else (y_low, y_high)))
    canvas.x_ticks(ax, at := canvas.log_ticks(x_low, x_high), [canvas.number(value) for value in at])
    canvas.y_ticks(ax, at := canvas.log_ticks(y_low, y_high), [canvas.number(value) for value in at])
    if units:
        for line in (ax.axhline, ax.axvline):
            line(1, color=placeholder("axis"), linewidth=1, dashes=(3, 3))
    canvas.text(ax, left, height - 10, f"↑ {y_label}", color=placeholder("muted"), fontsize=FONT_SIZE - 1)
    canvas.text(ax, width - right, 9, f"{x_label} →", ha="right", color=placeholder("muted"), fontsize=FONT_SIZE - 1)
    ordered = sorted(points, key=lambda point: not looks[point.name].ours)
    for point in reversed(ordered):
        look = looks[point.name]
        (mark,) = ax.plot(
            [point.x], [point.y], marker=look.marker, color=look.colour, markersize=9 if look.ours else 7,
            markeredgecolor=placeholder("card"), markeredgewidth=1, linestyle="none",
        )  # fmt: skip
        svg.tip(mark, point.about)
    labels = [shortened(point.name, 18) for point in ordered]
    widths = [text_width(label, weight=looks[point.name].weight) for label, point in zip(labels, ordered, strict=True)]
    pixels = [tuple(ax.transData.transform((point.x, point.y))) for point in ordered]
    area = (2, bottom - 6, width - 2, height - top + 4)
    placed = canvas.place_labels(pixels, widths, area)
    for point, label, at, (x, y), wide in zip(ordered, labels, pixels, placed, widths, strict=True):
        look = looks[point.name]
        if ends := canvas.leader(at, (x, y), wide):
            (line,) = ax.plot(*zip(*ends, strict=True), transform=None, color=look.colour, linewidth=0.7)
            line.set_alpha(0.7)
        canvas.text(ax, x, y, label, fontweight=look.weight)
    return canvas.finish(drawn)


@dataclasses.dataclass(frozen=True)
class Series:
    """One line of a plot. `low` and `high`, if given, are the ends of the spread at each x."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    marks: bool = True


def _end_labels(ax: Axes, series: Sequence[Series], looks: Looks, right_edge: float, area: tuple[float, float]) -> None:
    """Names at the right ends of the lines, spread out, each with a leader to its line."""
    ends = [tuple(ax.transData.transform((one.x[-1], one.y[-1]))) for one in series]
    heights = canvas.spread_out([y for _, y in ends], FONT_SIZE + 2, *area)
    for one, (x, y), middle in zip(series, ends, heights, strict=True):
        look = looks[one.name]
        leader = ax.plot([x + 5, right_edge + 14], [y, middle], transform=None, color=look.colour, linewidth=0.7)
        leader[0].set_alpha(0.7)
        label = canvas.text(ax, right_edge + 17, middle, shortened(one.name, 16), fontweight=look.weight)
        svg.tip(label, one.name)


def lines(
    series: Sequence[Series], looks: Looks, x_label: str, y_label: str, *, x_labels: dict[float, str] | None = None,
    log_x: bool = False, from_zero: bool = True, level: float | None = None, size: tuple[float, float] = (WIDTH, 236),
) -> Figure:  # fmt: skip
    """Lines over x with their names at the right. `x_labels`: the ticks; `level`: a dashed line."""
    width, height = size
    names = max(text_width(shortened(one.name, 16), weight=looks[one.name].weight) for one in series)
    left, right, top, bottom = 40, names + 22, 26, 40
    drawn = canvas.figure(width, height)
    ax = canvas.axes(drawn, left, right, top, bottom)
    if log_x:
        ax.set_xscale("log")
    xs = [x for one in series for x in one.x]
    ys = [y for one in series for y in (*one.y, *one.low, *one.high)] + ([] if level is None else [level])
    room = 0.0 if log_x or max(xs) > min(xs) else 0.5
    ax.set_xlim(min(xs) - room, max(xs) * (1.0001 if log_x else 1) + room)
    low, high = (0.0, max(ys)) if from_zero else (min(ys), max(ys))
    margin = (high - low) * 0.06 or 0.1
    ax.set_ylim(low if from_zero else low - margin, high + margin)
    ticks = x_labels or {at: canvas.number(at) for at in canvas.linear_ticks(min(xs), max(xs), 5)}
    canvas.x_ticks(ax, list(ticks), list(ticks.values()))
    canvas.y_ticks(ax, at := canvas.linear_ticks(low, high), [canvas.number(value) for value in at])
    if level is not None:
        ax.axhline(level, color=placeholder("axis"), linewidth=1, dashes=(3, 3))
    canvas.text(ax, left, height - 10, y_label, color=placeholder("muted"), fontsize=FONT_SIZE - 1)
    canvas.text(ax, width - right, 9, x_label, ha="right", color=placeholder("muted"), fontsize=FONT_SIZE - 1)
    for one in sorted(series, key=lambda one: looks[one.name].ours):
        _line(ax, one, looks[one.name])
    _end_labels(ax, series, looks, width - right, (bottom, height - top))
    return canvas.finish(drawn)


def _line(ax: Axes, one: Series, look: Look) -> None:
    if one.low:
        for x, low, high in zip(one.x, one.low, one.high, strict=True):
            ax.plot([x, x], [low, high], color=look.colour, linewidth=1, alpha=0.6)
    marker = {"marker": look.marker, "markersize": 5 if look.ours else 4} if one.marks else {}
    (line,) = ax.plot(one.x, one.y, color=look.colour, linewidth=look.line_width, markeredgewidth=0, **marker)
    points = ", ".join(f"{canvas.number(x)}: {summary.figure(y)}" for x, y in zip(one.x, one.y, strict=True))
    svg.tip(line, f"{one.name}: {points}" if one.marks else one.name)


@dataclasses.dataclass(frozen=True)
class Tile:
    """One field of a heat map. Without a measurement, `goodness` is None and `text` says why."""

    text: str
    goodness: float | None
    about: str
    link: str = ""


def heat_map(
    rows: Sequence[tuple[str, str]], names: Sequence[str], tile: Callable[[str, str], Tile | None], looks: Looks
) -> Figure:  # fmt: skip
    """`rows`: name and link. `names` from left to right; ours are set apart from the peers by a gap."""
    cell_width, cell_height = 45, 23
    labels = [shortened(name, 26) for name, _ in rows]
    heads = [shortened(name, 18) for name in names]
    left = max(text_width(label) for label in labels) + 10
    widest = max(text_width(head, weight="bold") for head in heads)
    top = math.sin(math.radians(40)) * widest + 18
    gaps = [12 if at and looks[names[at - 1]].ours and not looks[name].ours else 0 for at, name in enumerate(names)]
    places = [left + at * cell_width + sum(gaps[: at + 1]) for at in range(len(names))]
    turned = math.cos(math.radians(40))
    ends = [x + 22 + turned * text_width(head, weight="bold") for x, head in zip(places, heads, strict=True)]
    width = max(places[-1] + cell_width, *ends)
    height = top + cell_height * len(rows) + 2
    drawn = canvas.figure(math.ceil(width), math.ceil(height))
    ax = canvas.axes(drawn, 0, 0, 0, 0)
    ax.set_xlim(0, math.ceil(width))
    ax.set_ylim(0, math.ceil(height))
    for name, head, x in zip(names, heads, places, strict=True):
        style = {"ha": "left", "va": "bottom", "rotation": 40, "rotation_mode": "anchor"}
        head_text = canvas.text(ax, x + 20, height - top + 6, head, fontweight=looks[name].weight, **style)
        svg.tip(head_text, name)
    for at, ((row, link), label) in enumerate(zip(rows, labels, strict=True)):
        bottom = height - top - cell_height * (at + 1)
        row_text = canvas.text(ax, left - 8, bottom + cell_height / 2, label, ha="right")
        svg.tip(row_text, row, link)
        for name, x in zip(names, places, strict=True):
            found = tile(row, name)
            if found is not None:
                _tile(ax, found, (x, bottom, cell_width, cell_height), looks[name])
    return canvas.finish(drawn)


def _tile(ax: Axes, tile: Tile, box: tuple[float, float, float, float], look: Look) -> None:
    x, y, width, height = box
    bucket = None if tile.goodness is None else theme.heat_bucket(tile.goodness)
    colour = "none" if bucket is None else placeholder(f"heat{bucket}")
    edge = placeholder("line") if bucket is None else "none"
    patch = Rectangle((x + 1, y + 1), width - 2, height - 2, facecolor=colour, edgecolor=edge, linewidth=1)
    svg.tip(ax.add_patch(patch), tile.about, tile.link)
    ink = placeholder("muted" if bucket is None else f"heattext{bucket}")
    words = canvas.text(
        ax, x + width / 2, y + height / 2, tile.text, ha="center", fontsize=FONT_SIZE - (bucket is None),
        color=ink, fontweight=look.weight,
    )  # fmt: skip
    if tile.link:
        words.set_url(tile.link)


@dataclasses.dataclass(frozen=True)
class Ratio:
    """One row in a picture of wins and losses."""

    row: str
    ratio: float
    is_decided: bool
    about: str
    link: str


def ratios(rows: Sequence[Ratio]) -> Figure:
    """A bar from 1.0 for each row, best first: wins to the right, and losses, just as visible, to the left."""
    ordered = sorted(rows, key=lambda one: -one.ratio)
    labels = [shortened(one.row, 24) for one in ordered]
    left = max(text_width(label) for label in labels) + 12
    right, top, bottom, pitch = 40, 4, 22, 19
    height = top + bottom + pitch * len(ordered)
    drawn = canvas.figure(WIDTH, height)
    ax = canvas.axes(drawn, left, right, top, bottom)
    ax.set_xscale("log")
    low, high = canvas.log_limits([*(one.ratio for one in rows), 0.9, 1.1], 0.04)
    ax.set_xlim(low, high)
    ax.set_ylim(len(ordered) - 0.5, -0.5)
    ticks = [1.0]
    for at in (0.1, 0.2, 0.5, 0.8, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0):
        apart = all(abs(math.log(at / other)) > math.log(high / low) * 0.13 for other in ticks)
        if low <= at <= high and apart:
            ticks.append(at)
    ticks.sort()
    canvas.x_ticks(ax, ticks, [canvas.number(at) for at in ticks])
    for at, (one, label) in enumerate(zip(ordered, labels, strict=True)):
        colour = placeholder("win" if one.ratio >= 1 else "loss")
        ends = sorted((1.0, one.ratio))
        patch = Rectangle((ends[0], at - 0.33), ends[1] - ends[0], 0.66, facecolor=colour, edgecolor="none")
        patch.set_alpha(1.0 if one.is_decided else 0.45)
        svg.tip(ax.add_patch(patch), one.about, one.link)
        middle = height - top - pitch * (at + 0.5)
        row_text = canvas.text(ax, left - 8, middle, label, ha="right")
        svg.tip(row_text, one.about, one.link)
        value = summary.times(one.ratio)
        ink = placeholder("ink" if one.ratio >= 1 else "loss")
        canvas.text(
            ax, WIDTH - 2, middle, value, ha="right", color=ink, fontweight="normal" if one.ratio >= 1 else "bold"
        )
    ax.axvline(1, color=placeholder("ink"), linewidth=1)
    return canvas.finish(drawn)
