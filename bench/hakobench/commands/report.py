"""`hakobench report`."""

import pathlib
import sys

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hakobench import record
from hakobench.project import RESULTS_DIR, ROOT, public_path
from hakobench.record import Recording
from hakobench.report import history, markdown, page

REPORT_DIR = ROOT / "build" / "report"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
_FILE = click.Path(dir_okay=False, path_type=pathlib.Path)


def _shown(path: pathlib.Path) -> str:
    """For the terminal: files outside of the project as they were given."""
    return public_path(path) if path.is_relative_to(ROOT) else str(path)


def _pages(
    recordings: list[Recording], output: pathlib.Path | None, others: list[Recording], remarks: list[str]
) -> list[pathlib.Path]:
    """Writes a page for each recording."""
    columns = (
        TextColumn("report"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("pictures, left"),
        TimeRemainingColumn(),
    )
    written = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for recording in recordings:
            rows = len({run.row for run in recording.runs})
            task = progress.add_task("", total=page.picture_count(rows))
            earlier = history.collect(recording, others, remarks)
            text = page.render(recording, earlier, lambda _, task=task: progress.advance(task))
            path = output or REPORT_DIR / f"{recording.path.stem}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _document(document: pathlib.Path, csv_files: list[pathlib.Path], check: bool) -> None:
    """Writes the document and its plots, or only compares. Raises ValueError."""
    csv_files = csv_files if csv_files or not check else markdown.named_results(document)
    recordings = [record.read(path) for path in csv_files]
    if not check:
        for path in markdown.write(document, recordings):
            click.echo(_shown(path))
        return
    differences = markdown.differences(document, recordings)
    for line in differences:
        click.echo(line, err=True)
    if differences:
        again = " ".join(["hakobench report --markdown", _shown(document), *map(_shown, csv_files)])
        click.echo(f"'{again}' writes it anew", err=True)
        sys.exit(1)
    click.echo(f"{_shown(document)} is what its {len(recordings)} results give")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("csv_files", metavar="[CSV]...", nargs=-1, type=_FILE)
@click.option("--output", type=_FILE, help="The page; default: build/report/<name of the CSV>.html.")
@click.option(
    "--history",
    "history_dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    default=RESULTS_DIR,
    help="Raw results of earlier commits; default: bench/results.",
)
@click.option(
    "--markdown", "document", type=_FILE, help="Write the generated part of this file, and its plots, instead."
)
@click.option("--check", is_flag=True, help="Only compare a document (docs/benchmarks.md) with the CSVs named in it.")
def command(
    csv_files: tuple[pathlib.Path, ...], output: pathlib.Path | None, history_dir: pathlib.Path,
    document: pathlib.Path | None, check: bool,
) -> None:  # fmt: skip
    """Write one self-contained HTML page from raw results (default: the newest in bench/results).

    The path of the page is the last line on stdout. With --markdown, a section for each CSV goes between
    '<!-- hakobench: begin -->' and '<!-- hakobench: end -->' of the given file, and plots into the folder beside it
    that has its name.

    Exit code: 0; 1 when --check finds a difference; 2 when a file cannot be read or an argument is wrong.
    """
    notes = Console(stderr=True, highlight=False)
    try:
        if output is not None and (len(csv_files) > 1 or document or check):
            raise ValueError("--output is for one page: give one CSV, and neither --markdown nor --check")
        if document is not None or check:
            if document is not None and not check and not csv_files:
                raise ValueError("--markdown needs the CSVs to write about")
            _document(document or DOCUMENT, list(csv_files), check)
            return
        others, remarks = history.read_all(history_dir)
        recordings = [record.read(path) for path in csv_files]
        if not recordings:
            newest = history.newest(others)
            if newest is None:
                raise ValueError(
                    "; ".join([f"no results in {public_path(history_dir)}: 'hakobench run quick' makes some", *remarks])
                )
            recordings = [newest]
        for remark in remarks:
            notes.print(f"note: {remark}", markup=False, soft_wrap=True)
        written = _pages(recordings, output, others, remarks)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write '{error.filename}': {error.strerror}") from error
    for path in written:
        click.echo(_shown(path))
