"""`hakobench compare A B`."""

import dataclasses
import pathlib
import random
import re
import sys
import tempfile

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakobench import allocators, commits, judge, record, runner, statistics, suite, summary
from hakobench.commands.run import INTERRUPTED, new_plan, quiet_machine
from hakobench.project import BIN_DIR, LOG_DIR, OUT_DIR, ROOT, public_path

COMPARE_DIR = OUT_DIR / "bench-compare"
EXIT_CODES = {judge.GO: 0, judge.NO_GO: 1, judge.UNDECIDED: 3}
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_DIRECTORY = click.Path(file_okay=False, path_type=pathlib.Path)
_FILE = click.Path(dir_okay=False, path_type=pathlib.Path)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One comparison. `same`: A and B are the same file."""

    verdict: judge.Verdict
    rows: list[judge.RowResult]
    same: bool
    marks: dict[str, int]
    csv_path: pathlib.Path
    seed: int

    @property
    def is_biased(self) -> bool:
        """The comparison found a difference between a file and itself."""
        shown = (self.verdict.gain, self.verdict.hold)
        apart = any(one is not None and not one.contains_one for one in shown)
        return self.same and (self.verdict.word != judge.UNDECIDED or apart)


def _find(word: str, console: Console) -> allocators.Allocator:
    """A name, NAME=PATH or git:REV[:LANE]. Raises ValueError."""
    if word.startswith(commits.PREFIX):
        return commits.load(word, console)
    name, is_path, path = word.partition("=")
    if not _NAME.fullmatch(name) or (is_path and not path):
        raise ValueError(f"'{word}' is not a name, NAME=PATH or git:REV; a name has letters, digits and _.+-")
    if is_path:
        return allocators.load(name, pathlib.Path(path))
    return allocators.select(name, {})[0][0]


def _both(first: str, second: str, console: Console) -> list[allocators.Allocator]:
    """Both allocators, with different names. Raises ValueError."""
    found = [_find(first, console), _find(second, console)]
    if found[0].name == found[1].name:
        if found[0].sha256 != found[1].sha256:
            raise ValueError(f"both are called '{found[0].name}', but they are different files; name them differently")
        found[1] = dataclasses.replace(found[1], name=f"{found[1].name}-again")
    return found


def _recorded_name(word: str) -> str:
    """The name of the allocator in a CSV file."""
    return commits.name_of(word) if word.startswith(commits.PREFIX) else word.partition("=")[0]


def _choose_gate(name: str | None, tags: list[tuple[str, ...]]) -> judge.Gate:
    """The named gate; without a name, `seeds` where the rows allow it, else `any`. Raises ValueError."""
    gate = judge.load_gate(name or "seeds")
    try:
        judge.check_gate(gate, tags)
    except ValueError:
        if name is not None:
            raise
        return judge.load_gate("any")
    return gate


def _judge(runs: list[record.Run], names: list[str], gate: judge.Gate, csv_path: pathlib.Path) -> Outcome:
    """Raises ValueError when the runs cannot be compared."""
    rows = judge.compare_rows(runs, names[0], names[1], gate)
    judge.check_gate(gate, [row.tags for row in rows])
    digests = [{run.library_sha256 for run in runs if run.allocator == name} for name in names]
    marks: dict[str, int] = {}
    for run in runs:
        for mark in run.marks.split() if run.allocator in names else ():
            marks[mark] = marks.get(mark, 0) + 1
    return Outcome(judge.verdict(rows, *names, gate), rows, digests[0] == digests[1], marks, csv_path, runs[0].seed)


def _shown(found: statistics.Interval | None) -> str:
    if found is None:
        return "-"
    return f"{found.ratio:.3f} [too few rounds]" if found.is_wide else f"{found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _cell(value: float | None, failures: tuple[str, ...]) -> str:
    shown = "-" if value is None else summary.figure(value)
    return f"{shown} [red]FAILED {len(failures)}[/red]" if failures else shown


def _table(outcome: Outcome, names: list[str]) -> Table:
    within = f"{statistics.row_confidence(len(outcome.rows)):.2%} interval"
    stands = f"{names[1]} is"
    table = Table("row", "gate asks", "unit", *map(escape, names), "by", "ratio", within, "n", escape(stands), "stolen")
    for row in outcome.rows:
        found = row.interval
        if found is None:
            ratio, within = "-", "-"
        else:
            ratio = f"{found.ratio:.3f}"
            within = f"{found.low:.3f} to {found.high:.3f}" if not found.is_wide else "too few rounds"
        cells = (_cell(row.first, row.first_failures), _cell(row.second, row.second_failures))
        stands, stolen = row.standing.text if row.standing else "-", summary.share(row.stolen_share)
        table.add_row(
            escape(row.row), row.role or "-", row.unit, *cells, row.judged_by, ratio, within, str(len(row.ratios)), stands,
            stolen,
        )  # fmt: skip
    return table


def verdict_line(outcome: Outcome, gate: judge.Gate) -> str:
    """The last line, for scripts."""
    found = outcome.verdict
    return (f"verdict={found.word} gain={_shown(found.gain)} hold={_shown(found.hold)} gate={gate.name} "
            f"rounds={found.rounds}")  # fmt: skip


def _print(outcome: Outcome, names: list[str], gate: judge.Gate, console: Console) -> None:
    if not console.is_terminal:
        console.width = 180
    console.print(_table(outcome, names))
    say = console.out
    say(f"ratio: speed of {names[1]} as a multiple of that of {names[0]}; above 1 {names[1]} is faster.")
    knows_stolen = any(row.stolen_share is not None for row in outcome.rows)
    for text in summary.legend({row.judged_by for row in outcome.rows}, knows_stolen):
        say(text)
    if outcome.same:
        say("Both are the same file: any difference comes from the machine or the method.")
    demands = f"gain rows at {gate.gain.at_least:g} or above" + (
        f", hold rows at {gate.hold.at_least:g} or above" if gate.hold else ""
    )
    say(f"gate {gate.name}: {gate.about} ({demands}).")
    for reason in outcome.verdict.reasons:
        say(f"{outcome.verdict.word}: {reason}.")
    if outcome.verdict.word == judge.UNDECIDED and not outcome.same:
        needed = outcome.verdict.rounds_needed
        if needed is None:
            say("No sensible number of rounds would decide it.")
        else:
            say(f"About {needed} rounds would decide it, if the figures stay so; {outcome.verdict.rounds} were run.")
    for note in outcome.verdict.notes:
        say(f"Note: {note}.")
    if outcome.marks:
        text = ", ".join(f"{mark} {count}" for mark, count in sorted(outcome.marks.items()))
        say(f"Marked runs: {text}; the raw results say which.")
    say(f"runs: {public_path(outcome.csv_path)}")
    say(verdict_line(outcome, gate))


def _print_repeated(outcomes: list[Outcome], console: Console) -> None:
    table = Table("#", "seed", "verdict", "gain", "hold", "runs")
    for number, one in enumerate(outcomes, 1):
        table.add_row(
            str(number), str(one.seed), one.verdict.word, escape(_shown(one.verdict.gain)),
            escape(_shown(one.verdict.hold)), public_path(one.csv_path),
        )  # fmt: skip
    console.print(table)
    words = [one.verdict.word for one in outcomes]
    counts = " ".join(f"{word}={words.count(word)}" for word in dict.fromkeys(words))
    biased = sum(one.is_biased for one in outcomes)
    text = f" same_library=yes biased={biased}" if outcomes[0].same else ""
    console.out(f"comparisons={len(outcomes)} {counts}{text}")


def _measure(plan: runner.Plan, gate: judge.Gate, repeat: int, forced: bool, notes: Console) -> list[Outcome]:
    """Makes `repeat` comparisons, each with its own seed and CSV, and shows each at its end."""
    seen = quiet_machine(forced)
    names = [allocator.name for allocator in plan.allocators]
    shown = Console(highlight=False)
    outcomes = []
    for number in range(repeat):
        seed = plan.seed + number
        stem = plan.csv_path.stem + (f"-{number + 1}" if repeat > 1 else "")
        path = plan.csv_path.with_name(f"{stem}.csv")
        one = dataclasses.replace(plan, seed=seed, csv_path=path, log_dir=plan.log_dir.parent / stem)
        text = f"seed {seed}, {one.rounds} rounds, logs in {public_path(one.log_dir)}"
        notes.print(text, markup=False, soft_wrap=True)
        try:
            runs = runner.execute(one, seen, None, notes)
        except KeyboardInterrupt:
            judged = f"hakobench compare {names[0]} {names[1]} --csv {public_path(path)}"
            notes.print(f"interrupted; to judge the finished runs: '{judged}'", markup=False, soft_wrap=True)
            sys.exit(INTERRUPTED)
        try:
            outcomes.append(_judge(runs, names, gate, path))
        except ValueError as error:
            raise click.ClickException(f"{error}; the runs are in {public_path(path)}") from error
        _print(outcomes[-1], names, gate, shown)
    if repeat > 1:
        _print_repeated(outcomes, shown)
    return outcomes


def _status(outcomes: list[Outcome], by_verdict: bool) -> int:
    if any(one.is_biased or one.verdict.word == judge.NOT_JUDGED for one in outcomes):
        return 1
    return max(EXIT_CODES[one.verdict.word] for one in outcomes) if by_verdict else 0


def _recorded(path: pathlib.Path, words: tuple[str, str], gate_name: str | None) -> Outcome:
    """Judges the runs of a file and shows the outcome. Raises ValueError."""
    names = [_recorded_name(word) for word in words]
    if names[0] == names[1]:
        raise ValueError(f"both are '{names[0]}'; --csv compares two names that are in the file")
    found = record.read(path).runs
    tags = [tuple(run.tags.split()) for run in found if run.allocator in names]
    gate = _choose_gate(gate_name, tags) if tags else judge.load_gate(gate_name or "any")
    outcome = _judge(found, names, gate, path)
    _print(outcome, names, gate, Console(highlight=False))
    return outcome


def _reason(error: OSError) -> str:
    return f"'{public_path(pathlib.Path(error.filename))}': {error.strerror}" if error.filename else str(error)


def _check_writable(directory: pathlib.Path) -> None:
    """Called before anything is built or measured. Raises ValueError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise ValueError(f"cannot write to directory '{directory}': {error.strerror}") from error


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--suite", "suite_name", default="quick", show_default=True, help="A name, or a TOML file.")
@click.option("--rows", "row_names", metavar="NAMES", help="Comma-separated names, shell patterns or @tags.")
@click.option("--rounds", type=click.IntRange(statistics.MIN_ROUNDS, 1000), default=statistics.DEFAULT_ROUNDS,
              show_default=True, help="Pairs of runs of each row.")  # fmt: skip
@click.option("--scale", type=click.FloatRange(0, 1000, min_open=True), default=1.0, show_default=True,
              help="Multiplies the amount of work of each row.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**62), help="Of the order of the runs; default: chosen and printed.")
@click.option("--gate", "gate_name", metavar="NAME",
              help="seeds, any, or a TOML file; default: seeds where the rows have its tags, else any.")  # fmt: skip
@click.option("--csv", "csv_path", type=_FILE, help="Judge these recorded runs instead of making new ones.")
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True,
              help="Make the whole comparison N times. With A = B each must be UNDECIDED.")  # fmt: skip
@click.option("--exit-code", "by_verdict", is_flag=True, help="Exit 0 for GO, 1 for NO-GO, 3 for UNDECIDED.")
@click.option("--force", is_flag=True, help="Run on a busy machine too; the results are marked.")
@click.option("--results-dir", type=_DIRECTORY, default=COMPARE_DIR, help="For the CSV; default: build/bench-compare.")
@click.option("--log-dir", type=_DIRECTORY, default=LOG_DIR, help="For the logs; default: build/bench-logs.")
@click.option("--bin-dir", type=_DIRECTORY, default=BIN_DIR, help="Of the workloads; default: the release build.")
def command(
    first: str, second: str, suite_name: str, row_names: str | None, rounds: int, scale: float, seed: int | None,
    gate_name: str | None, csv_path: pathlib.Path | None, repeat: int, by_verdict: bool, force: bool,
    results_dir: pathlib.Path, log_dir: pathlib.Path, bin_dir: pathlib.Path,
) -> None:  # fmt: skip
    """Judge B against A by paired runs: GO, NO-GO or UNDECIDED.

    A and B are each the name of an allocator, NAME=PATH of a library, or git:REV[:LANE], a commit of this repository
    that is built in a clean tree. The last line on stdout is
    `verdict=... gain=RATIO [LOW, HIGH] hold=RATIO [LOW, HIGH] gate=... rounds=...`; a ratio is B's speed as a multiple
    of A's.

    Exit code: 0 judged, whatever the verdict (see --exit-code); 1 when a run of A failed, so that nothing could be
    judged, or when a library differs from itself; 2 bad arguments or busy machine; 130 interrupted.
    """
    notes = Console(stderr=True, highlight=False)
    try:
        if csv_path is not None:
            if repeat > 1:
                raise ValueError("--repeat makes new runs, --csv judges old ones; only one of them")
            outcomes = [_recorded(csv_path, (first, second), gate_name)]
        else:
            chosen = suite.load(suite_name)
            gate = _choose_gate(gate_name, [row.tags for row in chosen.select(row_names)])
            for directory in (results_dir, log_dir):
                _check_writable(directory)
            both = _both(first, second, notes)
            seed = random.SystemRandom().randrange(2**32) if seed is None else seed
            plan, remarks = new_plan(
                chosen, row_names, both, rounds, scale, seed, results_dir, log_dir, bin_dir, force
            )
            for remark in remarks:
                notes.print(f"note: {remark}", markup=False, soft_wrap=True)
            outcomes = _measure(plan, gate, repeat, force, notes)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(_reason(error)) from error
    except KeyboardInterrupt:
        notes.print("interrupted", markup=False)
        sys.exit(INTERRUPTED)
    sys.exit(_status(outcomes, by_verdict))
