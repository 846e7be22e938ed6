"""`hakobench report`."""

import pathlib
import sys

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hakobench import record
from hakobench.project import OUT_DIR, RESULTS_DIR, ROOT, public_path
from hakobench.record import Recording
from hakobench.report import history, markdown, page

REPORT_DIR = OUT_DIR / "report"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
_FILE = click.Path(dir_okay=False, path_type=pathlib.Path)


def _shown(path: pathlib.Path) -> str:
    """A path for the terminal: a file outside the project as the caller gave it."""
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
            path = output or REPORT_DIR / f"{record.stem(recording.path)}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _write_pages(document: pathlib.Path, folder: pathlib.Path, csv_files: list[pathlib.Path]) -> None:
    """Writes a page for each CSV. Raises ValueError, OSError."""
    if not csv_files:
        raise ValueError("--markdown needs the CSVs to write pages about")
    for path in markdown.write(document, folder, [record.read(path) for path in csv_files]):
        click.echo(_shown(path))


def _check_pages(document: pathlib.Path, folder: pathlib.Path) -> None:
    """Compares the pages and the document with the results; exits with 1 when they differ. Raises ValueError."""
    differences = markdown.differences(document, folder)
    for line in differences:
        click.echo(line, err=True)
    pages = markdown.pages(folder)
    if differences:
        again = " ".join(["hakobench report --markdown", *map(_shown, pages.values())])
        click.echo(f"'{again}' writes them again", err=True)
        sys.exit(1)
    click.echo(f"{len(pages)} pages and {_shown(document)} are what the results give")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("csv_files", metavar="[CSV]...", nargs=-1, type=_FILE)
@click.option("--output", type=_FILE, help="The page; default: build/report/<name of the CSV>.html.")
@click.option(
    "--results-dir",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    default=RESULTS_DIR,
    help="Folder of the raw results, those of earlier commits among them; default: bench/results.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Write a Markdown page beside each CSV instead.")
@click.option("--check", is_flag=True, help="Only compare the Markdown pages and the table with the results.")
@click.option("--document", type=_FILE, default=DOCUMENT, help="Holds the table; default: docs/benchmarks.md.")
def command(
    csv_files: tuple[pathlib.Path, ...], output: pathlib.Path | None, results_dir: pathlib.Path,
    as_markdown: bool, check: bool, document: pathlib.Path,
) -> None:  # fmt: skip
    """Write one self-contained HTML page from raw results (default: the newest in bench/results).

    The path of the page is the last line on stdout. With --markdown, each CSV gets a page SUITE.md beside it with its
    plots in SUITE/, and the table between '<!-- hakobench: begin -->' and '<!-- hakobench: end -->' of the document is
    made from all pages of the folder.

    Exit code: 0; 1 when --check finds a difference; 2 when a file cannot be read or an argument is wrong.
    """
    notes = Console(stderr=True, highlight=False)
    try:
        if output is not None and (len(csv_files) > 1 or as_markdown or check):
            raise ValueError("--output is for one HTML page: give one CSV, and neither --markdown nor --check")
        if check and (csv_files or as_markdown):
            raise ValueError("--check compares all pages: give neither CSVs nor --markdown")
        if check:
            _check_pages(document, results_dir)
            return
        if as_markdown:
            _write_pages(document, results_dir, list(csv_files))
            return
        others, remarks = history.read_all(results_dir)
        recordings = [record.read(path) for path in csv_files]
        if not recordings:
            newest = history.newest(others)
            if newest is None:
                nothing = f"no results in {public_path(results_dir)}: 'hakobench run quick' makes some"
                raise ValueError("; ".join([nothing, *remarks]))
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
