"""docs/benchmarks.md: a section for each recording between two markers, and plots as SVG files beside it.

The same CSV always gives the same bytes, so that a test can tell whether the document is what its results give.
"""

import os
import pathlib
import re
from collections.abc import Sequence

import jinja2

from hakobench import summary
from hakobench.project import ROOT
from hakobench.record import Recording
from hakobench.report import facts, page, plots, svg, theme
from hakobench.report.facts import Facts

BEGIN = "<!-- hakobench: begin -->"
END = "<!-- hakobench: end -->"
_RESULTS = re.compile(r"^<!-- results: (.+) -->$", re.MULTILINE)
LINES_IN_PLOT = 6  # groups in one picture of scaling


def _split(document: pathlib.Path) -> tuple[str, str, str]:
    """What stands before, between and after the markers. Raises ValueError."""
    try:
        text = document.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read '{document}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"'{document}' is not text in UTF-8: {error}") from error
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


def named_results(document: pathlib.Path) -> list[pathlib.Path]:
    """The CSVs from which the document says it was made. Raises ValueError."""
    folder = document.absolute().parent
    return [pathlib.Path(os.path.normpath(folder / name)) for name in _RESULTS.findall(_split(document)[1])]


def _relative(document: pathlib.Path, path: pathlib.Path) -> str:
    """How the document names a file. Raises ValueError for one that others would not find there."""
    folder = document.resolve().parent
    home = ROOT if folder.is_relative_to(ROOT) else folder
    if not path.resolve().is_relative_to(home):
        raise ValueError(
            f"'{path}' is not in the folder of the project; a document can only be made from results that are"
        )
    return os.path.relpath(path.resolve(), folder)


def _cell_text(text: str) -> str:
    """Safe in a table of a Markdown page."""
    text = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([|`*_\[\]~])", r"\\\1", text) if re.search(r"[|`*\[\]~]", text) else text


def _speed(line: summary.Line, name: str) -> str:
    cell = line.cells.get(name)
    if cell is None:
        return "–"
    if not cell.values:
        return "failed"
    text = f"{summary.figure(cell.value)} ±{cell.spread * 100:.0f} %"
    if cell.failures:
        return f"{text} ({cell.failures}/{cell.rounds} failed)"
    return f"**{text}**" if cell is line.best_peer else text


def _rss(line: summary.Line, name: str) -> str:
    cell = line.cells.get(name)
    if cell is None or not cell.values:
        return "–" if cell is None else "failed"
    return f"{_mib(cell.peak_rss_mb)} / {_mib(cell.final_rss_mb)}"


def _mib(value: float) -> str:
    """Nothing has no memory at all: 0 is what nobody measured."""
    return f"{value:.1f}" if value > 0 else "–"


def _latency(line: facts.Latency, name: str) -> str:
    if name not in line.cells:
        return "–"
    return " / ".join("–" if value is None else summary.figure(value) for value in line.cells[name])


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(page.TEMPLATES), trim_blocks=True, lstrip_blocks=True, autoescape=False,
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"cell": _cell_text, "times": summary.times}
    environment.globals |= {"speed": _speed, "rss": _rss, "latency": _latency}
    environment.globals |= {"ratio_text": facts.ratio_text, "doubtful_mark": facts.DOUBTFUL}
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


def plots_of(found: Facts) -> dict[str, tuple[str, str]]:
    """Name -> what it shows, and the SVG."""
    looks = theme.looks({library.name: library.ours for library in found.libraries})
    figure = found.terms.figure.capitalize()
    made = {
        "speed": (f"{figure} of each allocator in each row, relative to the best peer", _speed_map(found, looks)),
        "memory": ("Peak RSS of each allocator in each row, relative to the leanest peer", _memory_map(found, looks)),
        "tradeoff": (f"Speed against memory, geometric means over {found.speed_rows}", _tradeoff(found, looks)),
        "threads": (f"{figure} over the number of threads", _scaling(found, "threads", looks)),
        "remote": (f"{figure} over the share of frees by another thread", _scaling(found, "remote", looks)),
    }
    return {name: (about, text) for name, (about, text) in made.items() if text is not None}


def _stem(found: Facts, taken: set[str]) -> str:
    stem = base = page.slug(found.suite)
    number = 1
    while stem in taken:
        number += 1
        stem = f"{base}-{number}"
    taken.add(stem)
    return stem


def _made(document: pathlib.Path, recordings: Sequence[Recording]) -> tuple[str, dict[pathlib.Path, str]]:
    """The whole document, and its plots by path."""
    before, _, after = _split(document)
    template = _environment().get_template("benchmarks.md.j2")
    folder = document.parent / document.stem
    parts: list[str] = []
    files: dict[pathlib.Path, str] = {}
    taken: set[str] = set()
    with svg.settings():
        for recording in recordings:
            found = facts.collect(recording)
            stem = _stem(found, taken)
            pictures = []
            for name, (about, text) in plots_of(found).items():
                path = folder / f"{stem}-{name}.svg"
                files[path] = text
                pictures.append((about, f"{folder.name}/{path.name}"))
            csv = _relative(document, recording.path)
            parts.append(template.render(facts=found, pictures=pictures, csv=csv, few_rounds=summary.FEW_ROUNDS))
    middle = "\n".join(["", *parts]) if parts else ""
    return f"{before}{BEGIN}\n{middle}{END}{after}", files


def _strays(document: pathlib.Path, files: dict[pathlib.Path, str]) -> list[pathlib.Path]:
    """Plots of ours that the document does not have any more."""
    folder = document.parent / document.stem
    found = sorted(folder.glob("*.svg")) if folder.is_dir() else []
    return [path for path in found if path not in files and svg.GENERATED in path.read_text(encoding="utf-8")]


def write(document: pathlib.Path, recordings: Sequence[Recording]) -> list[pathlib.Path]:
    """Writes the part between the markers, and the plots; returns what was written. Raises ValueError, OSError."""
    text, files = _made(document, recordings)
    for path in _strays(document, files):
        path.unlink()
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    document.write_text(text, encoding="utf-8")
    return [document, *files]


def differences(document: pathlib.Path, recordings: Sequence[Recording]) -> list[str]:
    """A line for each file that is not what `recordings` give. Raises ValueError."""
    text, files = _made(document, recordings)
    found = []
    if document.read_text(encoding="utf-8") != text:
        found.append(f"'{document}' is not what its results give")
    for path, content in files.items():
        if not path.is_file():
            found.append(f"'{path}' is missing")
        elif path.read_text(encoding="utf-8") != content:
            found.append(f"'{path}' is not what the results give")
    return found + [f"'{path}' belongs to no results of the document" for path in _strays(document, files)]
