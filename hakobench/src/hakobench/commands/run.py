"""`hakobench run SUITE`."""

import dataclasses
import datetime
import json
import pathlib
import random
import re
import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakobench import allocators, machine, program_table, record, runner, suite, summary
from hakobench.project import BIN_DIR, LOG_DIR, RESULTS_DIR, ROOT, public_path

_DIRECTORY = click.Path(file_okay=False, path_type=pathlib.Path)
INTERRUPTED = 130
OWN_RESULTS = "hakobench-results"  # for a caller's program: the folder in the current one
_ARGV = "hakobench.argv"
FOLD_ABOVE = 6  # allocators; a wider table does not fit into a terminal


def _speed_table(table: list[summary.Line]) -> Table:
    """The table. A cell is "median ±spread", the best peer is bold, and each library of ours adds two ratios and how it
    stands to the best peer."""
    names = list(dict.fromkeys(name for line in table for name in line.cells))
    ours = [name for name in names if any(name in line.cells and line.cells[name].ours for line in table)]
    columns = [column for name in ours for column in (f"{name} / best", f"{name} is", "RSS / lean")]
    shown = Table("row", "unit", *names, "by", *columns, "stolen")
    for line in table:
        best = line.best_peer
        cells = []
        for name in names:
            cell = line.cells.get(name)
            if cell is None:
                cells.append("-")
            elif cell.failed:
                cells.append(f"[red]FAILED {cell.failures}/{cell.rounds}[/red]")
            else:
                text = f"{summary.figure(cell.value)} ±{cell.spread:.0%}"
                cells.append(f"[bold]{text}[/bold]" if best is cell else text)
        ratios = [
            text
            for name in ours
            for text in (summary.times(line.ratio_to_best(name)), _stands(line, name), summary.times(line.rss_ratio(name)))
        ]
        noisy = " (!)" if line.is_noisy else ""
        stolen = summary.share(line.stolen_share)
        shown.add_row(escape(line.row) + noisy, line.unit, *cells, line.judged_by, *ratios, stolen)
    return shown


def _stands(line: summary.Line, name: str) -> str:
    found = line.standing_to_best(name)
    return found.text if found else "-"


def allocator_table(line: summary.Line) -> Table:
    """One row of the suite with one line an allocator, for many allocators or a single row."""
    best = line.best_peer
    table = Table("allocator", line.unit, "spread", "/ best peer", "is", "peak MiB", "/ best peer", "MiB after")
    for name, cell in line.cells.items():
        if cell.failed:
            table.add_row(name, f"[red]FAILED {cell.failures}/{cell.rounds}[/red]", *[""] * 6)
            continue
        memory = summary.times(cell.peak_rss_mb / best.peak_rss_mb if best and best.peak_rss_mb else None)
        shown = f"[bold]{name}[/bold]" if cell.ours else name
        table.add_row(
            shown, summary.figure(cell.value), f"±{cell.spread:.0%}", summary.times(line.ratio_to_best(name)),
            _stands(line, name), summary.figure(cell.peak_rss_mb), memory, summary.figure(cell.final_rss_mb),
        )  # fmt: skip
    return table


def _row_table(line: summary.Line) -> Table:
    """The figures of one row: a line an allocator, the best peer of each column bold."""
    shown = Table(escape(line.row), *(summary.heading(*column) for column in line.columns))
    for name in line.cells:
        cells = []
        for metric, _, less_is_better in line.columns:
            text = escape(summary.cell_text(line, name, metric))
            cells.append(f"[bold]{text}[/bold]" if line.best_of(metric, less_is_better) == name else text)
        shown.add_row(name, *cells)
    return shown


def print_confined(runs: list[record.Run], pairs: dict[str, str], console: Console) -> None:
    """Prints each row's figure without and with the seccomp profile; `pairs` has the names of the allocators."""
    shown = Table("row", "unit", "allocator", "without", "with", "ratio")
    for line in summary.lines(runs):
        for name, other in pairs.items():
            plain, confined = line.cells.get(name), line.cells.get(other)
            if plain is None or confined is None or plain.failed or confined.failed:
                shown.add_row(escape(line.row), line.unit, name, *(["-"] * 2), "[red]FAILED[/red]")
                continue
            ratio = confined.value / plain.value if plain.value else None
            cells = (summary.figure(plain.value), summary.figure(confined.value), summary.times(ratio))
            shown.add_row(escape(line.row), line.unit, name, *cells)
    console.print(shown)


def print_result(runs: list[record.Run], console: Console) -> None:
    """Prints the table, and what its reader has to know."""
    table = summary.lines(runs)
    if not console.is_terminal:
        ours = {run.allocator for run in runs if run.ours}
        console.width = 80 + 18 * len({run.allocator for run in runs}) + 30 * len(ours)
    if console.is_terminal and len({run.allocator for run in runs}) > FOLD_ABOVE:
        for line in table:
            noisy = " (!)" if line.is_noisy else ""
            stolen = f"; stolen {summary.share(line.stolen_share)}" if line.stolen_share is not None else ""
            about = f"{line.row}{noisy}: {line.about}; judged by {line.judged_by}{stolen}"
            console.print(about, markup=False, soft_wrap=True)
            console.print(allocator_table(line))
    else:
        console.print(_speed_table(table))
    if len({run.allocator for run in runs}) > 1:
        knows_stolen = any(line.stolen_share is not None for line in table)
        for text in summary.legend({line.judged_by for line in table}, knows_stolen):
            console.print(text, markup=False, soft_wrap=True)
    for line in summary.with_columns(table):
        console.print(_row_table(line))
    _print_remarks(runs, table, console)


def print_program(runs: list[record.Run], console: Console) -> None:
    """The same for a caller's program."""
    program_table.show(runs, console)
    _print_remarks(runs, summary.lines(runs), console)


def _print_remarks(runs: list[record.Run], table: list[summary.Line], console: Console) -> None:
    """What casts doubt on the figures, and the failures."""
    rounds = max(cell.rounds for line in table for cell in line.cells.values())
    if rounds < summary.FEW_ROUNDS:
        console.print(f"Only {rounds} rounds: do not quote these figures (from {summary.FEW_ROUNDS} on).")
    marks = sorted({mark for run in runs for mark in run.marks.split()})
    if marks:
        console.print(f"Marks: {', '.join(marks)}; the raw results say which runs.")
    failed: dict[tuple[str, str, str], int] = {}
    for run in runs:
        if run.failure:
            key = (run.row, run.allocator, run.failure)
            failed[key] = failed.get(key, 0) + 1
    for (row, name, why), count in failed.items():
        console.print(f"FAILED: {row}, {name}: {why} ({count} runs)", style="red", markup=False, soft_wrap=True)


class _RunCommand(click.Command):
    """What stands behind `--` is a program and its arguments, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGV] = None
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_ARGV] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


def _chosen(suite_name: str | None, argv: tuple[str, ...] | None, output: str) -> suite.Suite:
    """The suite, or that of the caller's program. Raises ValueError."""
    if (suite_name is None) == (argv is None):
        raise ValueError("it takes either a SUITE or '-- PROGRAM [ARGS]...'")
    if argv is None:
        return suite.load(suite_name)
    if not argv:
        raise ValueError("'--' is not followed by a program")
    return suite.of_program(argv, output == "discard")


def export_json(runs: list[record.Run], path: pathlib.Path) -> None:
    """Writes the table for programs. Raises OSError."""
    path.write_text(json.dumps(summary.as_json(summary.lines(runs)), indent=1) + "\n", encoding="utf-8")


def _list_rows(chosen: suite.Suite) -> None:
    click.echo(f"{chosen.name}: {chosen.about}; {chosen.rounds} rounds")
    width = max(len(row.name) for row in chosen.rows)
    for row in chosen.rows:
        click.echo(f"  {row.name:{width}}  {row.unit:9}  {row.about}")


def quiet_machine(force: bool) -> machine.Machine:
    """Looks at the machine. Raises click.UsageError when it is busy, unless `force` is given."""
    seen = machine.look()
    if seen.is_busy and not force:
        raise click.UsageError(machine.busy_text(seen))
    return seen


def new_plan(
    chosen: suite.Suite, row_names: str | None, picked: list[allocators.Allocator], rounds: int | None, scale: float,
    seed: int | None, results_dir: pathlib.Path, log_dir: pathlib.Path, bin_dir: pathlib.Path, forced: bool,
    warmup: int = 0,
) -> tuple[runner.Plan, list[str]]:  # fmt: skip
    """The plan, and remarks about rows that it leaves out. Raises ValueError when no row is left to run."""
    rows = chosen.select(row_names)
    missing = runner.missing_rows(rows, bin_dir)
    rows = tuple(row for row in rows if row.name not in missing)
    remarks = [f"row {name} is left out: {why}" for name, why in missing.items()]
    if not rows:
        raise ValueError("; ".join(["no row can be run", *remarks]))
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    scale = float(f"{scale:.{record.FLOAT_DIGITS}g}")  # as the CSV will have it
    stem = f"{chosen.name}-{datetime.datetime.now():%Y%m%d-%H%M%S}-{seed}"
    plan = runner.Plan(
        chosen.name, rows, picked, rounds or chosen.rounds, scale, seed, results_dir / f"{stem}.csv", log_dir / stem,
        bin_dir.absolute(), forced, warmup,
    )  # fmt: skip
    return plan, remarks


def _is_of(plan: runner.Plan, path: pathlib.Path) -> bool:
    """Whether the file holds a run of the plan's suite, not of a suite whose name only begins like it."""
    name = re.fullmatch(re.escape(plan.suite) + r"-\d{8}-\d{6}-\d+\.csv", path.name)
    return name is not None and record.has_run(path)


def _resumed(
    plan: runner.Plan, seen: machine.Machine, results_dir: pathlib.Path
) -> tuple[runner.Plan, list[record.Run]]:
    """The newest results of this suite, and the plan with their seed. Raises ValueError."""
    found = [path for path in results_dir.glob(f"{plan.suite}-*.csv") if _is_of(plan, path)]
    if not found:
        raise ValueError(f"--resume: no results of suite {plan.suite} in {public_path(results_dir)}")
    newest = max(found, key=lambda path: path.stat().st_mtime)
    for path in (newest, record.rss_path(newest)):
        record.drop_torn_line(path)
    done = record.read(newest).runs
    log_dir = plan.log_dir.parent / newest.stem
    resumed = dataclasses.replace(plan, seed=done[0].seed, csv_path=newest, log_dir=log_dir)
    runner.check_resumable(resumed, seen, done)
    return resumed, done


def path_for_shell(path: pathlib.Path) -> str:
    """A path that the caller can use from the current directory: whole when it is outside the project."""
    return public_path(path) if path.resolve().is_relative_to(ROOT) else str(path)


@click.command(cls=_RunCommand, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
               options_metavar="[OPTIONS]")  # fmt: skip
@click.argument("suite_name", metavar="SUITE | -- PROGRAM [ARGS]...", required=False)
@click.option("--rows", "row_names", metavar="NAMES", help="Comma-separated names, shell patterns or @tags.")
@allocators.options
@click.option("--under", metavar="PROFILE", help="Also run each cell under a seccomp profile: a name such as container, or a file.")
@click.option("--rounds", type=click.IntRange(1, 1000), help="Runs of each cell; default: that of the suite; 7.")
@click.option("--warmup", type=click.IntRange(0, 100), help="Runs of each cell before them, not recorded; default: 0; 1.")
@click.option("--output", type=click.Choice(["keep", "discard"]), default="keep", show_default=True,
              help="Of PROGRAM: stdout must be the same under every allocator, or goes to /dev/null.")  # fmt: skip
@click.option("--scale", type=click.FloatRange(0, 1000, min_open=True), default=1.0, show_default=True,
              help="Multiplies the amount of work of each row.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63), help="Of the order of the runs; default: chosen and printed.")
@click.option("--list", "list_only", is_flag=True, help="List the suite's rows.")
@click.option("--resume", is_flag=True, help="Continue the newest results of this suite.")
@click.option("--force", is_flag=True, help="Run on a busy machine too; the results are marked.")
@click.option("--export-json", "json_path", type=click.Path(dir_okay=False, path_type=pathlib.Path),
              help="Write the table to this file, for programs.")  # fmt: skip
@click.option("--results-dir", type=_DIRECTORY, help="For the CSV; default: bench/results; of a PROGRAM, or if installed, ./hakobench-results.")
@click.option("--log-dir", type=_DIRECTORY, help="For the logs; default: build/bench-logs; beside the CSV.")
@click.option("--bin-dir", type=_DIRECTORY, default=BIN_DIR, help="Of the workloads; default: the release build.")
@click.pass_context
def command(
    ctx: click.Context, suite_name: str | None, row_names: str | None, names: str | None,
    extra: dict[str, pathlib.Path], under: str | None, rounds: int | None, warmup: int | None, output: str, scale: float,
    seed: int | None, list_only: bool, resume: bool, force: bool, json_path: pathlib.Path | None,
    results_dir: pathlib.Path | None, log_dir: pathlib.Path | None, bin_dir: pathlib.Path,
) -> None:  # fmt: skip
    """Run SUITE (a name, or a TOML file), or a PROGRAM of yours, under every allocator.

    Every row runs under every allocator, preloaded into the same program, in shuffled and interleaved rounds. The raw
    CSV has every run with its command, commit, machine and configuration; its path is the last line on stdout.
    Libraries with hz_config_string are ours, all others are peers.

    PROGRAM runs in the current folder and with your environment. Where two defaults are given, the second one is for it.

    Exit code: 0; 1 when a run failed; 2 when nothing was run (bad arguments, busy machine); 130 when interrupted.
    """
    notes = Console(stderr=True, highlight=False)
    done: list[record.Run] = []
    argv = ctx.meta[_ARGV]
    own_dir = pathlib.Path.cwd() / OWN_RESULTS
    results_dir = results_dir or (RESULTS_DIR if argv is None else own_dir)
    log_dir = log_dir or (LOG_DIR if argv is None else own_dir / "logs")
    warmup = (0 if argv is None else 1) if warmup is None else warmup
    try:
        chosen = _chosen(suite_name, argv, output)
        if list_only:
            _list_rows(chosen)
            return
        picked, remarks = allocators.select(names, extra, chosen.peers, few=argv is not None)
        confined = allocators.confined(picked, under) if under else {}
        picked += confined.values()
        plan, left_out = new_plan(
            chosen, row_names, picked, rounds, scale, seed, results_dir, log_dir, bin_dir, force, warmup
        )
        if resume and seed is not None:
            raise ValueError("--resume takes the seed of the interrupted call; leave --seed out")
        results_dir.mkdir(parents=True, exist_ok=True)
        for remark in remarks + left_out:
            notes.print(f"note: {remark}", markup=False, soft_wrap=True)
        seen = quiet_machine(force)
        if resume:
            plan, done = _resumed(plan, seen, results_dir)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from error
    notes.print(f"seed {plan.seed}, {len(done)} runs done, logs in {public_path(plan.log_dir)}", markup=False)
    try:
        runs = runner.execute(plan, seen, done, notes)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        notes.print(f"interrupted; the finished runs are in {public_path(plan.csv_path)}, --resume makes the others")
        sys.exit(INTERRUPTED)
    if argv is not None:
        print_program(runs, Console(highlight=False))
    else:
        print_result(runs, Console(highlight=False))
    if confined:
        print_confined(runs, {name: one.name for name, one in confined.items()}, Console(highlight=False))
    if json_path is not None:
        try:
            export_json(runs, json_path)
        except OSError as error:
            raise click.ClickException(f"cannot write '{json_path}': {error.strerror}") from error
    click.echo(path_for_shell(plan.csv_path))
    sys.exit(1 if any(run.failure for run in runs) else 0)
