"""The page: one HTML file with style, script and pictures inside, which asks nobody for anything."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable, Iterable

import jinja2
from markupsafe import Markup

from hakobench import summary
from hakobench.project import public_path
from hakobench.record import Recording, Run, rss_path
from hakobench.report import facts, plots, svg, theme
from hakobench.report.facts import Facts
from hakobench.report.history import History

TEMPLATES = pathlib.Path(__file__).parent / "templates"
RSS_POINTS = 160  # of one line over time
Step = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Picture:
    """`link` leads to the raw rows behind it."""

    title: str
    about: str
    svg: Markup
    link: str = ""


@dataclasses.dataclass(frozen=True)
class RowPanel:
    """Everything about one row. `failures`: allocator and reason."""

    line: summary.Line
    anchor: str
    raw: str
    bars: Markup
    scatter: Markup | None
    is_noisy: bool


@dataclasses.dataclass(frozen=True)
class RawGroup:
    """The runs of one allocator in one row, with the command that is the same for all of them where it is."""

    allocator: str
    anchor: str
    commands: list[str]
    runs: list[tuple[str, Run]]


def slug(text: str) -> str:
    """For an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


class Anchors:
    """Ids of rows, of cells and of runs: unique, and readable as far as the names allow."""

    def __init__(self, found: Facts):
        self._rows = self._unique([line.row for line in found.table])
        self._names = self._unique(found.names)

    @staticmethod
    def _unique(names: Iterable[str]) -> dict[str, str]:
        taken: dict[str, str] = {}
        for name in names:
            base = candidate = slug(name)
            number = 1
            while candidate in taken.values():
                number += 1
                candidate = f"{base}--{number}"
            taken[name] = candidate
        return taken

    def row(self, row: str) -> str:
        return f"row.{self._rows[row]}"

    def raw(self, row: str) -> str:
        return f"raw.{self._rows[row]}"

    def cell(self, row: str, name: str) -> str:
        return f"raw.{self._rows[row]}.{self._names[name]}"

    @staticmethod
    def run(at: int) -> str:
        return f"run.{at + 1}"


class Builder:
    """Draws the pictures of one recording. `step` is told of each, for a progress bar."""

    def __init__(self, found: Facts, history: History, step: Step):
        self.facts = found
        self.history = history
        self.anchors = Anchors(found)
        self.looks = theme.looks({library.name: library.ours for library in found.libraries})
        self._step = step
        self._pictures = 0

    def _inline(self, figure, label: str) -> Markup:
        self._pictures += 1
        self._step(label)
        return Markup(svg.inline(figure, f"p{self._pictures}-", label))

    def speed_map(self) -> Markup:
        """Speed of each allocator in each row, relative to the best peer."""

        def tile(row: str, name: str) -> plots.Tile | None:
            line = lines[row]
            cell = line.cells.get(name)
            if cell is None:
                return None
            ratio = line.ratio_to_best(name)
            text = "failed" if cell.failed else summary.times(ratio)
            about = f"{row}: {plots.shown(cell, line.unit)}; {summary.times(ratio)} of the best peer"
            return plots.Tile(text, ratio, about, f"#{self.anchors.cell(row, name)}")

        lines = {line.row: line for line in self.facts.table}
        return self._map(tile, "Speed of each allocator in each row as a multiple of the best peer's")

    def memory_map(self) -> Markup:
        """Peak RSS of each allocator in each row, relative to the leanest peer."""

        def tile(row: str, name: str) -> plots.Tile | None:
            cell = lines[row].cells.get(name)
            if cell is None:
                return None
            goodness = facts.rss_goodness(lines[row], name)
            text = summary.times(1 / goodness) if goodness else "failed" if not cell.values else "-"
            about = f"{row}: {name}: peak {cell.peak_rss_mb:.1f} MiB, {text} × the leanest peer"
            return plots.Tile(text, goodness, about, f"#{self.anchors.cell(row, name)}")

        lines = {line.row: line for line in self.facts.table}
        return self._map(tile, "Peak RSS of each allocator in each row as a multiple of the leanest peer's")

    def _map(self, tile, label: str) -> Markup:
        rows = [(line.row, f"#{self.anchors.row(line.row)}") for line in self.facts.table]
        return self._inline(plots.heat_map(rows, self.facts.names, tile, self.looks), label)

    def tradeoff(self) -> Markup | None:
        """All rows in one: geometric means of both ratios."""
        points = overall_points(self.facts)
        if not points:
            return None
        figure = plots.scatter(
            points, self.looks, "peak RSS, × leanest peer", "speed, × best peer", size=(plots.WIDTH, 420), units=True
        )
        return self._inline(figure, "Speed against memory, geometric means over all rows")

    def verdict_picture(self, verdict: facts.Verdict) -> Markup | None:
        """Ratios of all rows, best first."""
        if not verdict.ratios:
            return None
        lines = {line.row: line for line in self.facts.table}
        rows = []
        for row, ratio in verdict.ratios.items():
            within = row in verdict.within_spread
            best = lines[row].best_peer.allocator
            about = f"{row}: {ratio:.2f} of {best}" + ("; within the spread of the rounds" if within else "")
            rows.append(plots.Ratio(row, ratio, within, about, f"#{self.anchors.row(row)}"))
        return self._inline(plots.ratios(rows), f"Speed of {verdict.name} as a multiple of the best peer's, by row")

    def panels(self) -> list[RowPanel]:
        found = []
        for line in self.facts.table:
            bars = self._inline(plots.bars(line, self.looks), f"{line.row}: {line.unit} of each allocator")
            points = [
                plots.Point(
                    name, cell.peak_rss_mb, cell.value,
                    f"{plots.shown(cell, line.unit)}; peak {cell.peak_rss_mb:.1f} MiB",
                )
                for name, cell in line.cells.items()
                if cell.value > 0 and cell.peak_rss_mb > 0
            ]  # fmt: skip
            scatter = None
            if points:
                y_label = f"{line.unit}, up is better" if line.less_is_better else line.unit
                figure = plots.scatter(
                    points, self.looks, "peak RSS, MiB", y_label,
                    better_below=line.less_is_better,
                )  # fmt: skip
                scatter = self._inline(figure, f"{line.row}: speed against peak RSS")
            anchor, raw = self.anchors.row(line.row), self.anchors.raw(line.row)
            found.append(RowPanel(line, anchor, raw, bars, scatter, line.is_noisy))
        return found

    def scaling(self, axis: str) -> list[Picture]:
        found = []
        for group in self.facts.scaling:
            if group.axis == axis:
                figure = scaling_figure(group, self.looks)
                first = next(iter(group.rows.values()))
                picture = self._inline(figure, f"{group.title}: {first.unit} over {axis}")
                found.append(Picture(group.title, "", picture, f"#{self.anchors.row(first.row)}"))
        return found

    def rss_over_time(self) -> list[Picture]:
        """One picture for each row with samples: of each allocator the run whose peak is the median one."""
        samples: dict[int, list[tuple[int, int]]] = {}
        for sample in self.facts.recording.rss:
            samples.setdefault(sample.position, []).append((sample.time_ms, sample.rss_kb))
        found = []
        for line in self.facts.table:
            series = self._rss_series(line, samples)
            if series:
                figure = plots.lines(series, self.looks, "seconds", "RSS, MiB", size=(plots.WIDTH, 270))
                picture = self._inline(figure, f"{line.row}: RSS over time")
                found.append(Picture(line.row, line.about, picture, f"#{self.anchors.raw(line.row)}"))
        return found

    def _rss_series(self, line: summary.Line, samples: dict[int, list[tuple[int, int]]]) -> list[plots.Series]:
        series = []
        for name in line.cells:
            runs = [
                run for run in self.facts.recording.runs
                if run.row == line.row and run.allocator == name and not run.failure and run.position in samples
            ]  # fmt: skip
            if runs:
                run = sorted(runs, key=lambda run: (run.peak_rss_kb, run.position))[(len(runs) - 1) // 2]
                points = thinned(sorted(samples[run.position]))
                times = tuple(at / 1000 for at, _ in points)
                series.append(plots.Series(name, times, tuple(kb / 1024 for _, kb in points), marks=False))
        return series

    def history_pictures(self) -> list[Picture]:
        """First all rows in one, then each: ratios to the best peer by commit."""
        if len(self.history.commits) < 2:
            return []
        found = []
        for row in [None, *(line.row for line in self.facts.table)]:
            series = self._history_series(row)
            if series:
                title = row or "all rows, geometric mean"
                places = {float(at): commit.name[:7] for at, commit in enumerate(self.history.commits)}
                figure = plots.lines(
                    series, self.looks, "commit, in order of date", "speed, × best peer", x_labels=_thin_labels(places),
                    from_zero=False, level=1.0, size=(plots.WIDTH, 190),
                )  # fmt: skip
                link = f"#{self.anchors.raw(row)}" if row else ""
                found.append(Picture(title, "", self._inline(figure, f"{title}: speed by commit"), link))
        return found

    def _history_series(self, row: str | None) -> list[plots.Series]:
        found = []
        for name in self.facts.ours:
            points = []
            for at, commit in enumerate(self.history.commits):
                table = [line for line in commit.table if row in (None, line.row)]
                ratio = facts.verdict(table, name).mean
                if ratio is not None:
                    points.append((float(at), ratio))
            if len(points) > 1:
                found.append(plots.Series(name, *map(tuple, zip(*points, strict=True))))
        return found

    def raw_groups(self) -> dict[str, list[RawGroup]]:
        """By row."""
        by_cell: dict[tuple[str, str], list[tuple[str, Run]]] = {}
        for at, run in enumerate(self.facts.recording.runs):
            by_cell.setdefault((run.row, run.allocator), []).append((self.anchors.run(at), run))
        found: dict[str, list[RawGroup]] = {}
        for line in self.facts.table:
            for name in self.facts.names:
                runs = by_cell.get((line.row, name))
                if runs:
                    commands = list(dict.fromkeys(run.command for _, run in runs))
                    group = RawGroup(name, self.anchors.cell(line.row, name), commands, runs)
                    found.setdefault(line.row, []).append(group)
        return found


def _thin_labels(labels: dict[float, str], most: int = 5) -> dict[float, str]:
    """Every n-th label, so that they do not touch; the last one always."""
    every = math.ceil(len(labels) / most)
    return {at: text for at, text in labels.items() if (len(labels) - 1 - at) % every == 0}


def thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most RSS_POINTS of (time, RSS): of each stretch the highest, so that no peak is lost."""
    every = math.ceil(len(points) / RSS_POINTS)
    stretches = (points[at : at + every] for at in range(0, len(points), every))
    return [max(stretch, key=lambda point: point[1]) for stretch in stretches]


def overall_points(found: Facts) -> list[plots.Point]:
    """For each allocator the geometric means over the rows that it ended well: memory and speed relative to peers."""
    points = []
    for name in found.names:
        speed = facts.geometric_mean(ratio for line in found.table if (ratio := line.ratio_to_best(name)))
        memory = facts.geometric_mean(1 / good for line in found.table if (good := facts.rss_goodness(line, name)))
        if speed and memory:
            points.append(plots.Point(name, memory, speed, f"{name}: speed {speed:.2f}, peak RSS {memory:.2f}"))
    return points


def scaling_figure(group: facts.Scaling, looks: plots.Looks):
    """Medians over the parameter, with the spread of the rounds."""
    names = list(dict.fromkeys(name for line in group.rows.values() for name in line.cells))
    series = []
    for name in names:
        cells = {
            place: line.cells[name]
            for place, line in group.rows.items()
            if name in line.cells and line.cells[name].values
        }
        if cells:
            found = [cells[place] for place in cells]
            series.append(
                plots.Series(
                    name, tuple(cells), tuple(cell.value for cell in found), tuple(min(cell.values) for cell in found),
                    tuple(max(cell.values) for cell in found),
                )
            )  # fmt: skip
    if not series:
        series = [plots.Series(names[0], tuple(group.rows), tuple(0.0 for _ in group.rows))]
    threads = group.axis == "threads"
    unit = next(iter(group.rows.values())).unit
    ticks = {place: f"{place:g}" if threads else f"{place:g} %" for place in group.rows}
    label = "threads" if threads else "frees by another thread"
    return plots.lines(series, looks, label, unit, x_labels=ticks, log_x=threads)


def render(recording: Recording, history: History, step: Step = lambda _: None) -> str:
    """The whole page."""
    found = facts.collect(recording)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"figure": summary.figure, "times": summary.times}
    with svg.settings():
        builder = Builder(found, history, step)
        verdicts = [(verdict, builder.verdict_picture(verdict)) for verdict in found.verdicts]
        context = {
            "facts": found,
            "history": history,
            "anchors": builder.anchors,
            "looks": builder.looks,
            "lines": {line.row: line for line in found.table},
            "file": public_path(recording.path),
            "rss_file": public_path(rss_path(recording.path)) if recording.rss else "",
            "few_rounds": summary.FEW_ROUNDS,
            "verdicts": verdicts,
            "speed_map": builder.speed_map(),
            "memory_map": builder.memory_map(),
            "tradeoff": builder.tradeoff(),
            "panels": builder.panels(),
            "threads": builder.scaling("threads"),
            "remote": builder.scaling("remote"),
            "rss": builder.rss_over_time(),
            "history_pictures": builder.history_pictures(),
            "raw": builder.raw_groups(),
            "speed_legend": theme.SPEED_LEGEND,
            "rss_legend": theme.RSS_LEGEND,
        }
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style = style.replace("/* LIGHT */", theme.page_variables(0)).replace("/* DARK */", theme.page_variables(1))
    context |= {"style": Markup(style + theme.page_classes())}
    context |= {"script": Markup((TEMPLATES / "page.js").read_text(encoding="utf-8"))}
    return environment.get_template("page.html.j2").render(context)


def picture_count(found_rows: int) -> int:
    """About how many pictures a page of so many rows has; for a progress bar."""
    return 3 * found_rows + 12
