"""The page: one HTML file with style, script and pictures inside, which loads nothing."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable, Iterable

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from hakobench import standing, summary
from hakobench.project import public_path
from hakobench.record import Recording, Run, rss_path
from hakobench.report import facts, plots, svg, theme
from hakobench.report.facts import Facts
from hakobench.report.history import DIRTY, Commit, History, common_rows

TEMPLATES = pathlib.Path(__file__).parent / "templates"
RSS_POINTS = 160  # of one line over time
RSS_HEIGHT = 270
END_MS = 100  # at the end of a run: the process ends, and its memory is unmapped
RAW, ALL_RAW = "raw rows and command", "raw rows and commands"
Step = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Picture:
    """One picture. `links` are the words and anchors of all raw rows behind it."""

    title: str
    about: str
    svg: Markup
    links: tuple[tuple[str, str], ...]


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
    """The runs of one allocator in one row, with their command if all have the same."""

    allocator: str
    anchor: str
    commands: list[str]
    runs: list[tuple[str, Run]]


def slug(text: str) -> str:
    """`text` as an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


class Anchors:
    """The ids of rows, cells and runs: unique, and readable as far as the names allow."""

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
    """Draws the pictures of one recording, and calls `step` for each, for a progress bar."""

    def __init__(self, found: Facts, history: History, step: Step):
        self.facts = found
        self.history = history
        self.anchors = Anchors(found)
        self.looks = theme.looks({library.name: library.ours for library in found.libraries})
        self._step = step
        self._pictures = 0
        self._history_ratios: dict[tuple[int, str], dict[str, float]] = {}

    def _inline(self, figure, label: str) -> Markup:
        self._pictures += 1
        self._step(label)
        return Markup(svg.inline(figure, f"p{self._pictures}-", label))

    def speed_map(self) -> Markup:
        """The figure of each allocator in each row, relative to the best peer."""

        def tile(row: str, name: str) -> plots.Tile | None:
            line = lines[row]
            cell = line.cells.get(name)
            if cell is None:
                return None
            ratio = line.ratio_to_best(name)
            text = "failed" if cell.failed else facts.ratio_text(line, ratio)
            about = f"{row}: {plots.shown(cell, line.unit)}; {summary.times(ratio)} of the best peer{self._doubt(line)}"
            return plots.Tile(text, ratio, about, f"#{self.anchors.cell(row, name)}")

        lines = {line.row: line for line in self.facts.table}
        figure = self.facts.terms.figure.capitalize()
        return self._map(tile, f"{figure} of each allocator in each row as a multiple of the best peer's")

    @staticmethod
    def _doubt(line: summary.Line) -> str:
        return f"; {facts.DOUBTFUL} runs failed under {', '.join(line.failed_peers)}" if line.failed_peers else ""

    def memory_map(self) -> Markup:
        """Peak RSS of each allocator in each row, relative to the leanest peer."""

        def tile(row: str, name: str) -> plots.Tile | None:
            line = lines[row]
            cell = line.cells.get(name)
            if cell is None:
                return None
            goodness = facts.rss_goodness(line, name)
            ratio = facts.ratio_text(line, 1 / goodness if goodness else None)
            text = "failed" if not cell.values else ratio
            about = f"{row}: {name}: peak RSS {'failed' if not cell.values else 'not measured'}"
            if goodness:
                about = f"{row}: {name}: peak {cell.peak_rss_mb:.1f} MiB, {ratio} × the leanest peer{self._doubt(line)}"
            return plots.Tile(text, goodness, about, f"#{self.anchors.cell(row, name)}")

        lines = {line.row: line for line in self.facts.table}
        return self._map(tile, "Peak RSS of each allocator in each row as a multiple of the leanest peer's")

    def _map(self, tile, label: str) -> Markup:
        rows = [(line.row, f"#{self.anchors.row(line.row)}") for line in self.facts.table]
        return self._inline(plots.heat_map(rows, self.facts.names, tile, self.looks), label)

    def tradeoff(self) -> Markup | None:
        """All rows in one point for each allocator: geometric means of both ratios."""
        points = overall_points(self.facts)
        if not points:
            return None
        figure = plots.scatter(
            points, self.looks, "peak RSS, × leanest peer", "speed, × best peer", size=(plots.WIDTH, 420), units=True
        )
        return self._inline(figure, f"Speed against memory, geometric means over {self.facts.speed_rows}")

    def verdict_picture(self, verdict: facts.Verdict) -> Markup | None:
        """Ratios of all rows, best first."""
        if not verdict.ratios:
            return None
        lines = {line.row: line for line in self.facts.table}
        rows = []
        for row, ratio in verdict.ratios.items():
            found = verdict.standings[row]
            about = f"{row}: {ratio:.2f} of {lines[row].best_peer.allocator}; {found.text}"
            is_decided = found.word in (standing.AHEAD, standing.BEHIND)
            rows.append(plots.Ratio(row, ratio, is_decided, about, f"#{self.anchors.row(row)}"))
        figure = self.facts.terms.figure.capitalize()
        return self._inline(plots.ratios(rows), f"{figure} of {verdict.name} as a multiple of the best peer's, by row")

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
            if points and not facts.is_memory(line):
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
                links = tuple((line.row, f"#{self.anchors.raw(line.row)}") for line in group.rows.values())
                found.append(Picture(group.title, "", picture, links))
        return found

    def rss_over_time(self) -> list[Picture]:
        """One picture for each row with samples."""
        found = []
        for line, figure in rss_figures(self.facts, self.looks):
            picture = self._inline(figure, f"{line.row}: RSS over time")
            found.append(Picture(line.row, line.about, picture, ((RAW, f"#{self.anchors.raw(line.row)}"),)))
        return found

    def history_pictures(self) -> list[Picture]:
        """Ratios to the best peer by commit: one picture of the rows that all commits have, then one for each row."""
        if len(self.history.commits) < 2:
            return []
        shared = common_rows(self.history.commits, self.facts.ours)
        every = [line.row for line in self.facts.table if line.row in shared]
        wanted = [("rows of all commits, geometric mean", every)] if every else []
        found = []
        for title, rows in [*wanted, *((line.row, [line.row]) for line in self.facts.table)]:
            series = self._history_series(set(rows))
            if not series:
                continue
            about = f"{len(rows)} of {len(self.facts.table)} rows" if rows is every else ""
            places = {float(at): _commit_label(commit) for at, commit in enumerate(self.history.commits)}
            label = f"{self.facts.terms.figure}, × best peer"
            figure = plots.lines(
                series, self.looks, "commit, in order of date", label, x_labels=_thin_labels(places),
                from_zero=False, level=1.0, size=(plots.WIDTH, 190),
            )  # fmt: skip
            picture = self._inline(figure, f"{title}: {self.facts.terms.figure} by commit")
            link = (ALL_RAW, "#raw") if rows is every else (RAW, f"#{self.anchors.raw(rows[0])}")
            found.append(Picture(title, about, picture, (link,)))
        return found

    def _history_series(self, rows: set[str]) -> list[plots.Series]:
        """For each library of ours, the means over `rows` at the commits that have all of them."""
        found = []
        for name in self.facts.ours:
            points = []
            for at, commit in enumerate(self.history.commits):
                ratios = self._ratios_of(commit, name)
                if rows <= ratios.keys():
                    points.append((float(at), facts.geometric_mean(ratios[row] for row in sorted(rows))))
            if len(points) > 1:
                found.append(plots.Series(name, *map(tuple, zip(*points, strict=True))))
        return found

    def _ratios_of(self, commit: Commit, name: str) -> dict[str, float]:
        key = (id(commit), name)
        if key not in self._history_ratios:
            self._history_ratios[key] = commit.ratios(name)
        return self._history_ratios[key]

    def raw_groups(self) -> dict[str, list[RawGroup]]:
        """The runs by row."""
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


def _commit_label(commit: Commit) -> str:
    """Seven letters of the commit, and a star for uncommitted changes."""
    return commit.name[:7] + ("*" if commit.name.endswith(DIRTY) else "")


def _thin_labels(labels: dict[float, str], most: int = 5) -> dict[float, str]:
    """Every n-th label, so that labels do not touch; always the last one."""
    every = math.ceil(len(labels) / most)
    return {at: text for at, text in labels.items() if (len(labels) - 1 - at) % every == 0}


def thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most RSS_POINTS of (time, RSS): the highest of each stretch, so that no peak is lost."""
    every = math.ceil(len(points) / RSS_POINTS)
    stretches = (points[at : at + every] for at in range(0, len(points), every))
    return [max(stretch, key=lambda point: point[1]) for stretch in stretches]


def overall_points(found: Facts) -> list[plots.Point]:
    """For each allocator the geometric means over the rows that measure speed, where it and all peers ended well:
    memory and speed relative to peers."""
    points = []
    table = [line for line in found.table if not facts.is_memory(line) and not line.failed_peers]
    for name in found.names:
        speed = facts.geometric_mean(ratio for line in table if (ratio := line.ratio_to_best(name)))
        memory = facts.geometric_mean(1 / good for line in table if (good := facts.rss_goodness(line, name)))
        if speed and memory:
            points.append(plots.Point(name, memory, speed, f"{name}: speed {speed:.2f}, peak RSS {memory:.2f}"))
    return points


def rss_figures(found: Facts, looks: plots.Looks) -> list[tuple[summary.Line, Figure]]:
    """RSS over time of each row with samples: for each allocator, the run with the median peak."""
    samples: dict[int, list[tuple[int, int]]] = {}
    for sample in found.recording.rss:
        samples.setdefault(sample.position, []).append((sample.time_ms, sample.rss_kb))
    made = ((line, _rss_series(found, line, samples)) for line in found.table)
    size = (plots.WIDTH, RSS_HEIGHT)
    return [(line, plots.lines(series, looks, "seconds", "RSS, MiB", size=size)) for line, series in made if series]


def _rss_series(found: Facts, line: summary.Line, samples: dict[int, list[tuple[int, int]]]) -> list[plots.Series]:
    series = []
    for name in line.cells:
        runs = [
            run for run in found.recording.runs
            if run.row == line.row and run.allocator == name and not run.failure and run.position in samples
        ]  # fmt: skip
        if runs:
            run = sorted(runs, key=lambda run: (run.peak_rss_kb, run.position))[(len(runs) - 1) // 2]
            taken = sorted(samples[run.position])
            points = thinned([point for point in taken if point[0] <= taken[-1][0] - END_MS] or taken)
            times = tuple(at / 1000 for at, _ in points)
            series.append(plots.Series(name, times, tuple(kb / 1024 for _, kb in points), marks=False))
    return series


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
    environment.filters |= {"figure": summary.figure, "times": summary.times, "with_columns": summary.with_columns}
    environment.globals |= {"cell_text": summary.cell_text, "heading": summary.heading}
    environment.globals |= {"ratio_text": facts.ratio_text, "doubtful_mark": facts.DOUBTFUL}
    with svg.settings():
        builder = Builder(found, history, step)
        verdicts = [(verdict, builder.verdict_picture(verdict)) for verdict in found.verdicts]
        context = {
            "facts": found,
            "history": history,
            "anchors": builder.anchors,
            "looks": builder.looks,
            "lines": {line.row: line for line in found.table},
            "terms": found.terms,
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
    """About how many pictures a page with this number of rows has, for a progress bar."""
    return 3 * found_rows + 12
