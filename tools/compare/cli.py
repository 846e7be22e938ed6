"""The command line of tools/compare."""

import datetime
import pathlib
import random
import sys

import click
from rich.console import Console
from rich.table import Table

from compare import allocators, machine, measure, report, rows
from compare.project import BIN_DIR, RESULTS_DIR, public_path

BUSY_SHARE_MAX = 0.10

_DIRECTORY = click.Path(file_okay=False, path_type=pathlib.Path)


def _libraries(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> dict[str, pathlib.Path]:
    libraries = {}
    for word in words:
        name, separator, path = word.partition("=")
        if not separator or not name or not path:
            raise click.BadParameter(f"'{word}' is not NAME=PATH")
        libraries[name] = pathlib.Path(path)
    return libraries


def _print_table(console: Console, header: list[str], body: list[list[str]]) -> None:
    table = Table(*header)
    for texts in body:
        table.add_row(*(f"[bold]{text.strip('*')}[/bold]" if text.startswith("**") else text for text in texts))
    console.print(table)


def _print_result(plan: measure.Plan, seen: machine.Machine, runs: list[measure.Run], forced: bool, text: str) -> None:
    """Tables for a terminal; for a pipe Markdown, which no width can spoil."""
    console = Console(highlight=False)
    if not console.is_terminal:
        click.echo(text, nl=False)
        return
    table = report.lines(plan, runs)
    _print_table(console, *report.speed_table(plan, table))
    console.print("Peak / final RSS, MiB:")
    _print_table(console, *report.rss_table(plan, table))
    for remark in report.remarks(plan, seen, table, forced):
        console.print(remark, markup=False)
    for failure in report.failures(runs):
        console.print(f"{report.FAILED}: {failure}", style="red", markup=False)


def _run_and_record(plan: measure.Plan, record: report.RawCsv) -> list[measure.Run]:
    runs = []
    total = plan.rounds * len(plan.rows) * len(plan.allocators)
    for run in measure.run_all(plan):
        record.add(run)
        runs.append(run)
        shown = f"{report.FAILED}: {run.failure}" if run.failure else f"{run.value:.4g} {run.row.unit}"
        click.echo(f"[{run.position}/{total}] {run.row.name} {run.allocator.name}: {shown}", err=True)
    return runs


def _list_rows(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        for row in rows.ROWS:
            click.echo(f"{row.name:20} {row.unit:10} {row.about}")
        context.exit()


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--rows", "row_names", metavar="NAMES", help="Comma-separated names or shell patterns; default: all.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_rows, help="List the rows.")
@click.option(
    "--allocators",
    "names",
    metavar="NAMES",
    help="Comma-separated names (build/lib/libhakozuna_X.so is X); default: all that are found.",
)
@click.option("--lib", "extra", metavar="NAME=PATH", multiple=True, callback=_libraries, help="One more allocator.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Runs of each cell.")
@click.option(
    "--scale",
    type=click.FloatRange(0, 1000, min_open=True),
    default=1.0,
    show_default=True,
    help="Multiplies the amount of work of each row.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the order of the runs; default: chosen and printed.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds after which a run has failed.",
)
@click.option(
    "--markdown",
    "markdown_file",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Put the table between the markers of this file.",
)
@click.option(
    "--bin-dir", type=_DIRECTORY, default=BIN_DIR, help="Where the workloads are; default: the release build."
)
@click.option("--results-dir", type=_DIRECTORY, default=RESULTS_DIR, help="Where the CSV goes; default: bench/results.")
@click.option("--force", is_flag=True, help="Run on a busy machine too; the table says so.")
def main(
    row_names: str | None,
    names: str | None,
    extra: dict[str, pathlib.Path],
    rounds: int,
    scale: float,
    seed: int | None,
    timeout: float,
    markdown_file: pathlib.Path | None,
    bin_dir: pathlib.Path,
    results_dir: pathlib.Path,
    force: bool,
) -> None:  # fmt: skip
    """Compare allocators over the workloads.

    Every row is run under every allocator, preloaded into the same program, in shuffled and interleaved rounds.
    Medians, ratios to the best peer and memory are printed; the raw CSV has every run with its command, commit,
    machine and configuration. Libraries that have hz_config_string are ours, all others are peers.

    Exit code: 0; 1 when a run failed; 2 when nothing was run (bad arguments, busy machine).
    """
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    try:
        chosen, absent = allocators.select(names, extra)
        plan = measure.Plan(rows.select(row_names), chosen, rounds, scale, seed, bin_dir.absolute(), timeout)
        programs = measure.programs(plan)
        if markdown_file is not None:
            report.markdown_check(markdown_file)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for remark in absent:
        click.echo(f"note: {remark}", err=True)
    seen = machine.look()
    busy = seen.busy_share > BUSY_SHARE_MAX
    if busy and not force:
        raise click.UsageError(
            f"the machine is busy: {seen.busy_share:.0%} of its cpus are in use, allowed are {BUSY_SHARE_MAX:.0%}; "
            "wait, or use --force, which marks the table"
        )
    results_dir.mkdir(parents=True, exist_ok=True)
    csv_path = results_dir / f"compare-{datetime.datetime.now():%Y%m%d-%H%M%S}-{seed}.csv"
    click.echo(f"seed {seed}, {public_path(csv_path)}", err=True)
    with csv_path.open("w", newline="", encoding="utf-8") as out:
        runs = _run_and_record(plan, report.RawCsv(out, plan, seen, programs))
    text = report.markdown(plan, seen, runs, public_path(csv_path), busy)
    _print_result(plan, seen, runs, busy, text)
    if markdown_file is not None:
        report.markdown_write(markdown_file, text)
    sys.exit(1 if any(run.failure for run in runs) else 0)
