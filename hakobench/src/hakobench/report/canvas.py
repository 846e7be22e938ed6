"""Figures measured in pixels, with plain axes and labels that do not overlap."""

import functools
import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from hakobench.report.theme import placeholder

FONT_SIZE = 11
LABEL_CHARACTERS = 22


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float = FONT_SIZE, weight: str = "normal") -> float:
    """The width of a text in pixels, in a font that is wider than most."""
    properties = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, properties, False)[0]


def shortened(text: str, limit: int = LABEL_CHARACTERS) -> str:
    """`text` in one line, without its middle when it is too long for a label."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def figure(width: float, height: float) -> Figure:
    """A figure without background; its size is in pixels."""
    drawn = Figure(figsize=(width / 72, height / 72), dpi=72)
    drawn.patch.set_visible(False)
    return drawn


def axes(drawn: Figure, left: float, right: float, top: float, bottom: float) -> Axes:
    """Axes without frame and ticks; the margins are in pixels."""
    width, height = (inches * 72 for inches in drawn.get_size_inches())
    box = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    made = drawn.add_axes(box)
    made.patch.set_visible(False)
    made.set_axisbelow(True)
    for spine in made.spines.values():
        spine.set_visible(False)
    made.set_xticks([])
    made.set_yticks([])
    return made


def _ticks(axis, positions: Sequence[float], labels: Sequence[str]) -> None:
    axis.set_ticks(positions, labels)
    axis.set_ticks([], minor=True)
    axis.set_tick_params(length=0, pad=5, labelsize=FONT_SIZE - 1, labelcolor=placeholder("muted"))
    axis.grid(True, color=placeholder("line"), linewidth=1)


def x_ticks(drawn: Axes, positions: Sequence[float], labels: Sequence[str]) -> None:
    """Ticks with a grid line each."""
    _ticks(drawn.xaxis, positions, labels)


def y_ticks(drawn: Axes, positions: Sequence[float], labels: Sequence[str]) -> None:
    """Ticks with a grid line each."""
    _ticks(drawn.yaxis, positions, labels)


def text(drawn: Axes, x: float, y: float, words: str, **style):
    """A text at a place in pixels of the figure, from the bottom left."""
    style = {"fontsize": FONT_SIZE, "color": placeholder("ink"), "va": "center_baseline"} | style
    return drawn.text(x, y, words, transform=None, **style)


def finish(drawn: Figure) -> Figure:
    """Turns clipping off: everything lies within the limits, and clip paths would only make the file larger."""
    for made in drawn.axes:
        for artist in made.findobj():
            artist.set_clip_on(False)
    return drawn


def number(value: float) -> str:
    """A tick's label, with only the digits it needs."""
    return f"{value:.0f}" if value == 0 or abs(value) >= 10 else f"{value:.3g}"


def _step(span: float, count: int) -> float:
    raw = span / count
    power = 10 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)


def linear_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round values within low..high, about `count`."""
    if not high > low:
        return [low]
    step = _step(high - low, count)
    first = math.ceil(low / step - 1e-9)
    return [at * step for at in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """1-2-5 values within low..high; linear ones when the range is too narrow for two of them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors]
        found = [value for value in found if low * 0.999 <= value <= high * 1.001]
        if len(found) <= most:
            break
    return found if len(found) >= 2 else linear_ticks(low, high, 3)


def log_limits(values: Iterable[float], margin: float = 0.12) -> tuple[float, float]:
    """Of positive values, with room on both sides, at least a factor of 1.5 in all."""
    logs = [math.log10(value) for value in values]
    low, high = min(logs), max(logs)
    missing = max(0.0, math.log10(1.5) - (high - low)) / 2
    room = (high - low + 2 * missing) * margin
    return 10 ** (low - missing - room), 10 ** (high + missing + room)


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near `wanted`, in the same order, at least `gap` apart, and within low..high if there is room."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    groups: list[list[int]] = []
    centres: list[float] = []
    for at in order:
        groups.append([at])
        centres.append(min(max(wanted[at], low), high))
        while len(groups) > 1 and centres[-1] - centres[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2:
            merged = groups[-2] + groups[-1]
            half = gap * (len(merged) - 1) / 2
            centre = sum(wanted[one] for one in merged) / len(merged)
            groups[-2:] = [merged]
            centres[-2:] = [min(max(centre, low + half), high - half)]
    placed = [0.0] * len(wanted)
    for group, centre in zip(groups, centres, strict=True):
        for rank, at in enumerate(group):
            placed[at] = centre + (rank - (len(group) - 1) / 2) * gap
    return placed


MARK_RADIUS = 5  # pixels
LEADER_FREE = 9  # a label so near to the middle of its mark needs no line

Box = tuple[float, float, float, float]  # left, bottom, right, top


def _overlap(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def place_labels(
    points: Sequence[tuple[float, float]], widths: Sequence[float], area: Box, height: float = FONT_SIZE + 1
) -> list[tuple[float, float]]:
    """Left ends and middles of labels beside their points, in pixels.

    Each label, in the given order, gets the nearest place that hides no point and no earlier label, or else the place
    that hides least.
    """
    marks = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    taken: list[Box] = []
    placed = []
    for at, ((x, y), width) in enumerate(zip(points, widths, strict=True)):
        best = None
        for rank, (left, middle) in enumerate(_candidates(x, y, width, height)):
            box = (left - 3, middle - height / 2, left + width + 3, middle + height / 2)
            hidden = sum(_overlap(box, mark) for other, mark in enumerate(marks) if other != at)
            hidden += sum(2 * _overlap(box, other) for other in taken)
            inside = _overlap(box, area)
            outside = width * height - inside
            cost = hidden + 4 * outside + 0.5 * rank
            if best is None or cost < best[0]:
                best = (cost, box, (left, middle))
        taken.append(best[1])
        placed.append(best[2])
    return placed


def leader(point: tuple[float, float], label: tuple[float, float], width: float, height: float = FONT_SIZE + 1) -> list[tuple[float, float]]:
    """The ends of a line from a point's mark to its label, in pixels; none for a label that is directly beside its point."""
    (x, y), (left, middle) = point, label
    end_x = min(max(x, left - 2), left + width + 2)
    end_y = min(max(y, middle - height / 2 + 1), middle + height / 2 - 1)
    distance = math.hypot(end_x - x, end_y - y)
    if distance <= LEADER_FREE:
        return []
    return [(x + (end_x - x) * MARK_RADIUS / distance, y + (end_y - y) * MARK_RADIUS / distance), (end_x, end_y)]


def _candidates(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    near, high = 8, height * 0.9
    beside = [(x + near, y), (x - near - width, y)]
    for step in (1, 1.7, 2.5, 3.4):
        up = high * step
        beside += [(x + near, y + up), (x + near, y - up), (x - near - width, y + up), (x - near - width, y - up)]
        beside += [(x - width / 2, y + up + 2), (x - width / 2, y - up - 2)]
    return beside
