"""Pages of results, and the table in docs/benchmarks.md that sums them up.

Beside the CSV of a suite lies its page SUITE.md, with plots as SVG files in SUITE/. A page names its CSV. The table
stands between two markers of a document written by hand; it has the suites that have pages. The same CSV always gives
the same bytes, so a test can tell whether pages and table are what the results give.
"""

import dataclasses
import math
import os
import pathlib
import re
import textwrap
from collections.abc import Sequence

import jinja2

from hakobench import record, standing, summary
from hakobench.project import public_path
from hakobench.record import Recording
from hakobench.report import facts, page, plots, svg, theme
from hakobench.report.facts import Facts

BEGIN = "<!-- hakobench: begin -->"
END = "<!-- hakobench: end -->"
_RESULTS = re.compile(r"^<!-- results: (.+) -->\n")
LINES_IN_PLOT = 6  # groups in one picture of scaling
ROWS_OVER_TIME = 6  # in one picture of RSS over time; a suite with more has none
TEXT_COLUMNS = 120  # width of wrapped text; tables are wider
LOSSES_IN_TABLE = 2  # at most; with fewer where the line would be wider than LINE_COLUMNS
LINE_COLUMNS = 160
NAMES_IN_TABLE = 9  # allocators; a table with more is two tables
HEAD_COLUMNS = 150  # width of the head of a table


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' is not text in UTF-8: {error}") from error


def _split(document: pathlib.Path) -> tuple[str, str, str]:
    """The text before, between and after the markers. Raises ValueError."""
    text = _read(document)
    for marker in (BEGIN, END):
        if text.count(marker) != 1:
            raise ValueError(
                f"'{document}' has the marker '{marker}' {text.count(marker)} times; needed are one '{BEGIN}' and "
                f"below it one '{END}'"
            )
    before, rest = text.split(BEGIN)
    if END not in rest:
        raise ValueError(f"'{document}': '{END}' stands above '{BEGIN}'")
    between, after = rest.split(END)
    return before, between, after


def results_of(path: pathlib.Path) -> pathlib.Path | None:
    """The CSV that a page names, None when a program has not written the page. Raises ValueError."""
    named = _RESULTS.match(_read(path))
    return path.with_name(named[1]) if named else None


def pages(folder: pathlib.Path) -> dict[pathlib.Path, pathlib.Path]:
    """The pages of a folder and the CSV of each. Raises ValueError."""
    found = {path: results_of(path) for path in sorted(folder.glob("*.md"))}
    return {path: csv for path, csv in found.items() if csv is not None}


def _cell_text(text: str) -> str:
    """`text`, made safe for a table of a Markdown page."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([|`*_\[\]~])", r"\\\1", text) if re.search(r"[|`*\[\]~]", text) else text


def _stands(line: summary.Line, name: str) -> str:
    found = line.standing_to_best(name)
    return "–" if found is None else found.text


def _speed(line: summary.Line, name: str) -> str:
    cell = line.cells.get(name)
    if cell is None:
        return "–"
    if not cell.values:
        return "failed"
    text = f"{summary.figure(cell.value)} ±{cell.spread * 100:.0f}"
    if cell.failures:
        return f"{text} ({cell.failures}/{cell.rounds} failed)"
    return f"**{text}**" if cell is line.best_peer else text


def _rss(line: summary.Line, name: str) -> str:
    cell = line.cells.get(name)
    if cell is None or not cell.values:
        return "–" if cell is None else "failed"
    return f"{_mib(cell.peak_rss_mb)} / {_mib(cell.final_rss_mb)}"


def _mib(value: float) -> str:
    """A process always has memory, so 0 means that nobody measured it."""
    return "–" if value <= 0 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _latency(line: facts.Latency, name: str) -> str:
    if name not in line.cells:
        return "–"
    return " / ".join("–" if value is None else summary.figure(value) for value in line.cells[name])


def _parts(items: Sequence, count: int) -> list[Sequence]:
    """`count` parts of about the same length, in order."""
    ends = [len(items) * part // count for part in range(count + 1)]
    return [items[start:end] for start, end in zip(ends, ends[1:], strict=False)]


def _name_parts(names: Sequence[str]) -> list[Sequence[str]]:
    """The allocators of each table that shows all of them side by side."""
    return _parts(names, max(1, math.ceil(len(names) / NAMES_IN_TABLE)))


def _column_parts(line: summary.Line) -> list[Sequence[tuple[str, str, bool]]]:
    """The row's figures in tables whose heads are not too wide."""
    width = sum(len(summary.heading(*column)) + len(" |  ") for column in line.columns)
    return _parts(line.columns, math.ceil(width / HEAD_COLUMNS))


def _beside(line: summary.Line, name: str, columns: Sequence[tuple[str, str, bool]]) -> list[str]:
    """Figures of the row under one allocator, the best peer's bold."""
    texts = []
    for metric, _, less_is_better in columns:
        value = line.figure_of(name, metric)
        text = summary.cell_text(line, name, metric)
        best = value is not None and line.best_of(metric, less_is_better) == name
        texts.append(f"**{text}**" if best else text)
    return texts


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(page.TEMPLATES), trim_blocks=True, lstrip_blocks=True, autoescape=False,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"cell": _cell_text, "times": summary.times}
    environment.globals |= {"speed": _speed, "rss": _rss, "latency": _latency, "beside": _beside}
    environment.globals |= {"stands": _stands, "share": summary.share}
    environment.globals |= {"name_parts": _name_parts, "column_parts": _column_parts, "heading": summary.heading}
    environment.globals |= {"ratio_text": facts.ratio_text, "doubtful_mark": facts.DOUBTFUL}
    environment.filters |= {"with_columns": summary.with_columns}
    return environment


def _subtitle(found: Facts) -> str:
    header = dict(found.header)
    return f"suite {found.suite}, commit {header['commit']}, {header['machine']}, medians of {found.rounds} rounds"


def _speed_map(found: Facts, looks: plots.Looks) -> str:
    lines = {line.row: line for line in found.table}

    def tile(row: str, name: str) -> plots.Tile | None:
        cell = lines[row].cells.get(name)
        if cell is None:
            return None
        ratio = lines[row].ratio_to_best(name)
        text = "failed" if cell.failed else facts.ratio_text(lines[row], ratio)
        return plots.Tile(text, ratio, plots.shown(cell, lines[row].unit))

    figure = plots.heat_map([(line.row, "") for line in found.table], found.names, tile, looks)
    title = f"{found.terms.figure.capitalize()}, relative to the best peer of each row"
    return svg.standalone(figure, title, [_subtitle(found), f"above 1 (blue) is {found.terms.better}", *_doubt(found)])


def _doubt(found: Facts) -> list[str]:
    return [f"{facts.DOUBTFUL} runs of a peer failed in this row"] if found.doubtful else []


def _memory_map(found: Facts, looks: plots.Looks) -> str:
    lines = {line.row: line for line in found.table}

    def tile(row: str, name: str) -> plots.Tile | None:
        cell = lines[row].cells.get(name)
        if cell is None:
            return None
        good = facts.rss_goodness(lines[row], name)
        text = facts.ratio_text(lines[row], 1 / good if good else None)
        return plots.Tile(text, good, f"peak {_mib(cell.peak_rss_mb)} MiB")

    figure = plots.heat_map([(line.row, "") for line in found.table], found.names, tile, looks)
    lines_above = [_subtitle(found), "below 1 (blue) is less memory than any peer", *_doubt(found)]
    return svg.standalone(figure, "Peak RSS, relative to the leanest peer of each row", lines_above)


def _scaling(found: Facts, axis: str, looks: plots.Looks) -> str | None:
    groups = [group for group in found.scaling if group.axis == axis]
    groups = sorted(groups, key=lambda group: -len(group.rows))[:LINES_IN_PLOT]
    if not groups:
        return None
    figures = [
        (f"{group.title}, {next(iter(group.rows.values())).unit}", page.scaling_figure(group, looks))
        for group in groups
    ]
    title = "Scaling over threads" if axis == "threads" else "Scaling over the share of frees by another thread"
    return svg.sheet(figures, title, [_subtitle(found), "lines at the points: from the lowest to the highest round"])


def _tradeoff(found: Facts, looks: plots.Looks) -> str | None:
    points = page.overall_points(found)
    if not points:
        return None
    figure = plots.scatter(points, looks, "peak RSS, × leanest peer", "speed, × best peer", size=(640, 380), units=True)
    lines = [_subtitle(found), f"geometric means over {found.speed_rows}; up and left is better"]
    return svg.standalone(figure, "Speed against memory", lines)


def _over_time(found: Facts, looks: plots.Looks) -> str | None:
    figures = page.rss_figures(found, looks)
    if not figures or len(figures) > ROWS_OVER_TIME:
        return None
    lines = [_subtitle(found), "for each allocator, the run with the median peak"]
    return svg.sheet([(line.row, figure) for line, figure in figures], "RSS over time", lines)


def plots_of(found: Facts) -> dict[str, tuple[str, str]]:
    """The plots by name: a description and the SVG of each."""
    looks = theme.looks({library.name: library.ours for library in found.libraries})
    figure = found.terms.figure.capitalize()
    made = {
        "speed": (f"{figure} of each allocator in each row, relative to the best peer", _speed_map(found, looks)),
        "memory": ("Peak RSS of each allocator in each row, relative to the leanest peer", _memory_map(found, looks)),
        "tradeoff": (f"Speed against memory, geometric means over {found.speed_rows}", _tradeoff(found, looks)),
        "threads": (f"{figure} over the number of threads", _scaling(found, "threads", looks)),
        "over-time": ("RSS of each allocator over time", _over_time(found, looks)),
        "remote": (f"{figure} over the share of frees by another thread", _scaling(found, "remote", looks)),
    }
    return {name: (about, text) for name, (about, text) in made.items() if text is not None}


def _wrapped(text: str) -> str:
    """Folds long lines of text; those of tables and pictures stay."""
    lines = []
    for line in text.split("\n"):
        if len(line) <= TEXT_COLUMNS or line.startswith(("|", "!", "<!--")):
            lines.append(line)
        else:
            indent = "  " if line.startswith("* ") else ""
            lines += textwrap.wrap(
                line, TEXT_COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(lines)


def _page(recording: Recording) -> tuple[pathlib.Path, dict[pathlib.Path, str]]:
    """The path of the recording's page, and the contents of the page and its plots by path."""
    found = facts.collect(recording)
    folder = recording.path.parent
    name = page.slug(found.suite)
    path = folder / f"{name}.md"
    files: dict[pathlib.Path, str] = {}
    pictures = []
    with svg.settings():
        for plot, (about, text) in plots_of(found).items():
            files[folder / name / f"{plot}.svg"] = text
            pictures.append((about, f"{name}/{plot}.svg"))
    template = _environment().get_template("suite.md.j2")
    text = template.render(facts=found, pictures=pictures, csv=recording.path.name, few_rounds=summary.FEW_ROUNDS)
    return path, {path: _wrapped(text)} | files


def _next_best(found: Facts) -> str:
    """The peer with the best geometric mean, to compare ours with."""
    sound = [line for line in found.table if not line.failed_peers]
    means = {
        name: facts.geometric_mean(ratio for line in sound if (ratio := line.ratio_to_best(name)) is not None)
        for name in found.peers
    }
    best = max((name for name in means if means[name] is not None), key=lambda name: means[name], default=None)
    return "–" if best is None else f"{_cell_text(best)} {summary.times(means[best])}"


def _table_line(found: Facts, verdict: facts.Verdict, link: str, count: int = LOSSES_IN_TABLE) -> str:
    header = dict(found.header)
    losses = verdict.losses[:count]
    worst = ", ".join(f"{_cell_text(row)} {summary.times(verdict.ratios[row])}" for row in losses)
    cells = [
        f"[{_cell_text(found.suite)}]({link})", header["date"][:10], header["commit"], _cell_text(verdict.name),
        str(len(verdict.ratios)), *(str(count) for _, count in verdict.counts), summary.times(verdict.mean),
        _next_best(found), worst or "none",
    ]  # fmt: skip
    line = f"| {' | '.join(cells)} |"
    return line if len(line) <= LINE_COLUMNS or count <= 1 else _table_line(found, verdict, link, count - 1)


def table(document: pathlib.Path, recordings: dict[pathlib.Path, Recording]) -> str:
    """One line for each page and library of ours. `recordings` are by the path of their page."""
    lines = [
        f"| suite | date | commit | library | rows | {' | '.join(standing.WORDS)} | mean | best peer's mean | worst rows |",
        f"|---|---|---|---|{'--:|' * (len(standing.WORDS) + 2)}---|---|",
    ]
    for path, recording in recordings.items():
        found = facts.collect(recording)
        link = os.path.relpath(path.resolve(), document.resolve().parent)
        lines += [_table_line(found, verdict, link) for verdict in found.verdicts if verdict.ratios]
    return "\n".join(lines)


def _with_table(document: pathlib.Path, recordings: dict[pathlib.Path, Recording]) -> str:
    before, _, after = _split(document)
    return f"{before}{BEGIN}\n\n{table(document, recordings)}\n\n{END}{after}"


def _strays(folder: pathlib.Path, files: dict[pathlib.Path, str]) -> list[pathlib.Path]:
    """Plots of ours that no page shows."""
    return [
        path
        for path in sorted(folder.glob("*/*.svg"))
        if path not in files and svg.GENERATED in path.read_text(encoding="utf-8")
    ]


def _everything(document: pathlib.Path, folder: pathlib.Path, new: Sequence[Recording]) -> dict[pathlib.Path, str]:
    """Contents of all pages of the folder and their plots, with `new` in the place of the older results of a suite,
    and of the document. Raises ValueError."""
    made = {}
    for recording in new:
        path, files = _page(recording)
        if path in made:
            raise ValueError(f"'{recording.path}' is of suite {path.stem}, as another CSV is; a page shows one run")
        if path.exists() and results_of(path) is None:
            raise ValueError(f"'{path}' was written by hand; suite {path.stem} would overwrite it")
        made[path] = (recording, files)
    for path, csv in pages(folder).items():
        if path not in made:
            recording = record.read(csv)
            made[path] = (recording, _page(recording)[1])
    made = dict(sorted(made.items()))
    files = {path: text for _, of_page in made.values() for path, text in of_page.items()}
    return files | {document: _with_table(document, {path: recording for path, (recording, _) in made.items()})}


def write(document: pathlib.Path, folder: pathlib.Path, recordings: Sequence[Recording]) -> list[pathlib.Path]:
    """Writes the pages of `recordings`, which lie in `folder`, and the document's table over all pages of the folder.
    Returns the paths that were written. Raises ValueError, OSError."""
    for recording in recordings:
        if recording.path.resolve().parent != folder.resolve():
            raise ValueError(f"'{recording.path}' is not in {public_path(folder)}; a page lies beside its results")
    here = [dataclasses.replace(recording, path=folder / recording.path.name) for recording in recordings]
    files = _everything(document, folder, here)
    for path in _strays(folder, files):
        path.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return list(files)


def differences(document: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """A line for each file that is not what the results give. Raises ValueError."""
    files = _everything(document, folder, [])
    found = []
    for path, content in files.items():
        if not path.is_file():
            found.append(f"'{path}' is missing")
        elif path.read_text(encoding="utf-8") != content:
            found.append(f"'{path}' is not what the results give")
    return found + [f"'{path}' belongs to no page" for path in _strays(folder, files)]
