"""Text in columns that fits a width: for heap_stats.py and top.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = "  "
ELLIPSIS = "…"


@dataclass(frozen=True)
class Column:
    """`width` is the least; `is_text`: at the left, and cut off if there is no room; `order`: which goes first where there is no room
    for all, the highest; 0: none; `more`: what the title has in addition, where there is room."""

    title: str
    width: int = 0
    is_text: bool = False
    order: int = 0
    more: str = ""


def cut(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return text
    return text[: max(width - 1, 0)] + ELLIPSIS if width > 0 else ""


def whole_parts(text: str, width: int | None) -> str:
    """As many parts of a list as there is room for, if need be none."""
    if width is None or len(text) <= width:
        return text
    return text[: max(0, *(text.rfind(mark, 0, max(width, 0) + len(mark)) for mark in (", ", "; ", ": ")))]


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """The titles and the rows. Without a width everything is shown."""
    shown = list(range(len(columns)))
    titles = [column.title + column.more for column in columns]

    def widths_of() -> list[int]:
        return [max(column.width, len(titles[at]), *(len(row[at]) for row in rows), 0) for at, column in enumerate(columns)]

    def excess() -> int:
        return 0 if width is None else sum(widths[at] for at in shown) + len(GAP) * (len(shown) - 1) - width

    widths = widths_of()
    if excess() > 0:
        titles = [column.title for column in columns]
        widths = widths_of()
    for at in sorted(shown, key=lambda each: -columns[each].order):
        if excess() > 0 and columns[at].order > 0:
            shown.remove(at)
    for at in shown:
        if columns[at].is_text and excess() > 0:
            widths[at] = max(widths[at] - excess(), 4)

    def line(cells: Sequence[str]) -> str:
        parts = [f"{cut(cells[at], widths[at]):{'<' if columns[at].is_text else '>'}{widths[at]}}" for at in shown]
        return cut(GAP.join(parts).rstrip(), width)

    return [line(titles), *map(line, rows)]
