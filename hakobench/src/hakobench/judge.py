"""Judges B against A by a gate: GO, NO-GO or UNDECIDED.

A gate is a TOML file, in hakobench/gates or anywhere: it says which rows must gain, which must hold, and how much.

    about = "one line"
    [gain]
    tags = ["r50", "r90"]      # rows with one of these tags; "*" is every row
    at_least = 1.05            # above 1: B's speed as a multiple of A's
    [hold]                     # optional
    tags = ["r0"]
    at_least = 0.99            # at most 1

The rules, for the intervals of hakobench.statistics:
    GO         the gain rows' interval lies above 1.0 and their ratio reaches the gate, and the hold rows' interval lies
               above theirs. (The gate of the five documents is +5 % of the figure itself. An interval whose lower end
               must reach +5 % would never let a gain of 5 % pass, so the interval only has to show a gain at all.)
    NO-GO      a run of B failed; or the gain rows' interval lies below 1.0, or above 1.0 and below the gate (the gain
               is real but too small); or the hold rows' interval lies below theirs; or the interval of a single gain
               row lies below 1.0, or that of a single hold row below the gate: other rows do not make up for the loss
               in one row.
    UNDECIDED  everything else. A gain interval that contains 1.0 shows no difference, however narrow it is. A row that
               did not run under both, or has no pair of runs that counts, leaves the comparison incomplete.
    NOT-JUDGED a run of A failed, so there is nothing to compare with.

With enough rows, one of them lies outside its interval by chance. The intervals of single rows therefore have a
confidence that grows with the number of rows (hakobench.statistics.row_confidence): a comparison of equals, groups and
single rows together, ends in a false NO-GO in less than 0.5 % of the cases. The simulations in
hakobench/tests/test_compare.py show it.

The ratio of a pair is that of the speeds that judge its row (record.Run.speed): of CPU time where the row allows it.

A pair counts when both runs ended well with a figure above 0 and neither is marked `unverified` (the library was not
seen in the process) or `fallback` (the work was not the same). A run whose figure or CPU time is 0, infinite or no number failed.
Rows outside the gate do not change the verdict, but a loss in one is reported.
"""

import dataclasses
import math
import pathlib
import re
import statistics as plain
import tomllib
from collections.abc import Iterable, Sequence

from hakobench import standing, statistics
from hakobench.record import Run
from hakobench.rows import BY_FIGURE
from hakobench.standing import Standing

GATES_DIR = pathlib.Path(__file__).parent / "gates"
EVERY_ROW = "*"
DOUBTFUL_MARKS = ("fallback", "unverified")  # the run perhaps did other work, or did not run under the library
NOISE_MARKS = ("busy", "forced", "noisy", "stolen")  # the run shared the machine with other processes
GO, NO_GO, UNDECIDED, NOT_JUDGED = "GO", "NO-GO", "UNDECIDED", "NOT-JUDGED"


@dataclasses.dataclass(frozen=True)
class Demand:
    """`tags` choose the rows, `at_least` is the ratio that they must reach."""

    tags: tuple[str, ...]
    at_least: float

    def concerns(self, tags: Iterable[str]) -> bool:
        return EVERY_ROW in self.tags or any(tag in self.tags for tag in tags)


@dataclasses.dataclass(frozen=True)
class Gate:
    """What B must show. Without `hold`, no row has to hold."""

    name: str
    about: str
    gain: Demand
    hold: Demand | None


def gate_names() -> list[str]:
    """The gates that come with the package."""
    return sorted(path.stem for path in GATES_DIR.glob("*.toml"))


def load_gate(name_or_path: str) -> Gate:
    """A gate of the package by name, or a TOML file. Raises ValueError `file:line: what is wrong`."""
    is_path = name_or_path.endswith(".toml") or "/" in name_or_path
    path = pathlib.Path(name_or_path) if is_path else GATES_DIR / f"{name_or_path}.toml"
    if not is_path and not path.is_file():
        raise ValueError(f"no gate is called '{name_or_path}'; there are: {', '.join(gate_names())}, or a .toml file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read gate '{path}': {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise ValueError(f"{path}:{at[1] if at else max(1, len(text.splitlines()))}: {error}") from error
    source = _Source(path, text.splitlines())
    for key in document:
        if key not in ("about", "gain", "hold"):
            raise source.error(key, "", f"unknown key '{key}'; allowed: about, gain, hold")
    about = document.get("about")
    if not isinstance(about, str) or "gain" not in document:
        raise source.error("about", "", "needs 'about' (a text) and a table [gain]")
    hold = _demand(source, "hold", document["hold"], 0.0, 1.0) if "hold" in document else None
    return Gate(path.stem, about, _demand(source, "gain", document["gain"], 1.0, math.inf), hold)


@dataclasses.dataclass(frozen=True)
class _Source:
    """A gate's file. Its errors name the line."""

    path: pathlib.Path
    lines: list[str]

    def error(self, table: str, key: str, text: str) -> ValueError:
        """Names the line of `key` in `table`, or that of `table` (also a key of the top level), or the first."""
        heads = rf"\s*(\[\s*)?{re.escape(table)}\b"
        line = next((at for at, one in enumerate(self.lines) if re.match(heads, one)), 0)
        if key:
            within = range(line, len(self.lines))
            line = next((at for at in within if re.match(rf"\s*{key}\s*=", self.lines[at])), line)
        return ValueError(f"{self.path}:{line + 1}: {text}")


def _demand(source: _Source, name: str, table: object, low: float, high: float) -> Demand:
    if not isinstance(table, dict) or table.keys() != {"tags", "at_least"}:
        raise source.error(name, "", f"[{name}] has exactly the keys tags and at_least")
    tags, at_least = table["tags"], table["at_least"]
    if not isinstance(tags, list) or not tags or not all(isinstance(tag, str) for tag in tags):
        raise source.error(name, "tags", f"{name}.tags is {tags!r}; allowed: a list of texts that is not empty")
    is_number = isinstance(at_least, int | float) and not isinstance(at_least, bool)
    if not is_number or not low < at_least <= high or math.isinf(at_least):
        allowed = f"above {low:g}" + ("" if math.isinf(high) else f" to {high:g}")
        raise source.error(name, "at_least", f"{name}.at_least is {at_least!r}; allowed: a number {allowed}")
    return Demand(tuple(tags), float(at_least))


@dataclasses.dataclass(frozen=True)
class RowResult:
    """One row of the comparison. Medians are in `unit`, over the runs that count, None without any. `ratios` are the
    log ratios of the pairs that count. `interval` has the confidence of statistics.row_confidence, None without a pair;
    `standing` is that of B to A from the same pairs. `stolen_share` is the median over the runs, None where none says it.
    `role` is what the gate asks of the row: gain, hold, or nothing. `missing` names the allocator without a run of the
    row. `dropped` has the marks of each pair that does not count; `noisy` is the number of pairs that count although
    other processes ran beside them."""

    row: str
    unit: str
    tags: tuple[str, ...]
    first: float | None
    second: float | None
    ratios: tuple[float, ...]
    interval: statistics.Interval | None
    role: str
    first_failures: tuple[str, ...]
    second_failures: tuple[str, ...]
    missing: str = ""
    dropped: tuple[str, ...] = ()
    noisy: int = 0
    judged_by: str = BY_FIGURE
    standing: Standing | None = None
    stolen_share: float | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`reasons` say why, `notes` say what else a reader should know. `gain` and `hold` are the intervals of the two
    groups, None without one. `rounds` is that of the row with the fewest rounds. `rounds_needed` is about how many
    would decide an UNDECIDED; None when no number would, or only more than a million times as many."""

    word: str
    reasons: tuple[str, ...]
    gain: statistics.Interval | None
    hold: statistics.Interval | None
    rounds: int
    rounds_needed: int | None = None
    notes: tuple[str, ...] = ()


Pair = tuple[Run, Run]  # of one round


def _marks(pair: Pair, among: Sequence[str]) -> list[str]:
    found = {mark for run in pair for mark in run.marks.split()}
    return sorted(found.intersection(among))


def _failure(run: Run) -> str:
    """Why the run failed, or ""."""
    if run.failure:
        return run.failure
    if not (math.isfinite(run.value) and run.value > 0.0):
        return f"its figure is {run.value:g}, which is no speed"
    if not (math.isfinite(run.speed) and run.speed > 0.0):
        return f"its CPU time is {run.cpu_seconds:g}, which is no speed"
    return ""


def _pairs(runs: Sequence[Run], first: str, second: str) -> tuple[list[Run], list[Run], list[Pair]]:
    """The runs of both allocators in one row, and the pairs of the rounds in which both ended well."""
    by_round: dict[int, dict[str, Run]] = {}
    for run in runs:
        if run.allocator in (first, second):
            mine = by_round.setdefault(run.round, {})
            if run.allocator in mine:
                raise ValueError(f"row {run.row}: {run.allocator} ran twice in round {run.round}; more than one set of "
                                 "runs is in the file")  # fmt: skip
            mine[run.allocator] = run
    both = [mine for _, mine in sorted(by_round.items())]
    firsts = [mine[first] for mine in both if first in mine]
    seconds = [mine[second] for mine in both if second in mine]
    good = [mine for mine in both if len(mine) == 2 and not any(_failure(run) for run in mine.values())]
    return firsts, seconds, [(mine[first], mine[second]) for mine in good]


def _median(runs: Sequence[Run]) -> float | None:
    values = [run.value for run in runs if not _failure(run) and not set(run.marks.split()) & set(DOUBTFUL_MARKS)]
    return plain.median(values) if values else None


def _failures(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(filter(None, map(_failure, runs)))


def _role(gate: Gate, tags: Sequence[str]) -> str:
    if gate.gain.concerns(tags):
        return "gain"
    return "hold" if gate.hold is not None and gate.hold.concerns(tags) else ""


def check_same(runs: Sequence[Run], name: str) -> None:
    """Raises ValueError when `name` has no runs, or when its library or a program differ between them."""
    mine = [run for run in runs if run.allocator == name]
    if not mine:
        there = ", ".join(dict.fromkeys(run.allocator for run in runs))
        raise ValueError(f"no runs of '{name}'; there are runs of: {there}")
    for run in mine:
        if run.library_sha256 != mine[0].library_sha256:
            raise ValueError(f"'{name}' is two different libraries in runs {mine[0].position} and {run.position}")


def _row_result(runs: Sequence[Run], first: str, second: str, gate: Gate) -> RowResult | None:
    """The result of one row without its interval; None when the row ran under neither. Raises ValueError."""
    firsts, seconds, pairs = _pairs(runs, first, second)
    mine = firsts + seconds
    if not mine:
        return None
    if len({run.judged_by for run in mine}) > 1:
        raise ValueError(f"row {mine[0].row}: CPU time judges some of its runs, and their figure the others")
    if len({run.program_sha256 for run in mine}) > 1:
        raise ValueError(f"row {mine[0].row}: the program under test is not the same file in all runs")
    tags = tuple(mine[0].tags.split())
    marks = [_marks(pair, DOUBTFUL_MARKS) for pair in pairs]
    counting = [pair for pair, found in zip(pairs, marks, strict=True) if not found]
    ratios = tuple(statistics.log_ratio(a.speed, b.speed, less_is_better=False) for a, b in counting)
    stolen = [run.stolen_share for run in mine if run.stolen_share is not None]
    return RowResult(
        row=mine[0].row, unit=mine[0].unit, tags=tags, first=_median(firsts), second=_median(seconds),
        ratios=ratios, interval=None,
        role=_role(gate, tags), first_failures=_failures(firsts), second_failures=_failures(seconds),
        missing=second if not seconds else first if not firsts else "",
        dropped=tuple(" ".join(found) for found in marks if found),
        noisy=sum(bool(_marks(pair, NOISE_MARKS)) for pair in counting), judged_by=mine[0].judged_by,
        standing=standing.of(ratios) if ratios else None, stolen_share=plain.median(stolen) if stolen else None,
    )  # fmt: skip


def compare_rows(runs: Sequence[Run], first: str, second: str, gate: Gate) -> list[RowResult]:
    """The rows that ran under A or B, in the suite's order. Raises ValueError when their runs cannot be compared."""
    check_same(runs, first)
    check_same(runs, second)
    places = {(run.suite, run.row, run.scale): None for run in sorted(runs, key=lambda run: run.row_index)}
    of_places = [[run for run in runs if (run.suite, run.row, run.scale) == place] for place in places]
    found = [one for one in (_row_result(mine, first, second, gate) for mine in of_places) if one is not None]
    if all(one.missing for one in found):
        raise ValueError(f"no row has runs of both '{first}' and '{second}'")
    confidence = statistics.row_confidence(len(found))
    return [
        dataclasses.replace(one, interval=statistics.interval([one.ratios], confidence) if one.ratios else None)
        for one in found
    ]


def check_gate(gate: Gate, rows: Iterable[tuple[str, ...]]) -> None:
    """`rows` are the tags of each row. Raises ValueError when the gate has no row to judge by."""
    roles = {_role(gate, tags) for tags in rows}
    for name, demand in (("gain", gate.gain), ("hold", gate.hold)):
        if demand is not None and name not in roles:
            raise ValueError(
                f"gate {gate.name} judges {name} rows by the tags {', '.join(demand.tags)}; no chosen row has one; "
                "choose other rows, or another gate, such as --gate any"
            )


def _named(row: RowResult, failures: tuple[str, ...], name: str) -> str:
    return f"{name} failed in {len(failures)} of its runs of {row.row}: {failures[0]}"


def _group(rows: Sequence[RowResult], role: str) -> statistics.Interval | None:
    ratios = [row.ratios for row in rows if row.role == role]
    return statistics.interval(ratios) if ratios and all(ratios) else None


def _rounds(rows: Sequence[RowResult]) -> int:
    return min((len(row.ratios) for row in rows), default=0)


def _notes(rows: Sequence[RowResult]) -> tuple[str, ...]:
    """Facts that do not change the verdict, but that its reader should know."""
    notes = []
    for row in rows:
        if not row.role and row.interval is not None and row.interval.high < 1.0:
            notes.append(f"{row.row} loses, at {row.interval.ratio:.3f}; the gate asks nothing of it")
        if not row.role and row.missing:
            notes.append(f"{row.row} has no run of {row.missing}")
        if row.dropped:
            marks = " ".join(sorted({mark for marks in row.dropped for mark in marks.split()}))
            notes.append(f"{row.row}: {len(row.dropped)} pairs do not count, they are marked {marks}")
    pairs, noisy = sum(len(row.ratios) for row in rows), sum(row.noisy for row in rows)
    if noisy > statistics.TRIMMED_SHARE * pairs:
        notes.append(f"{noisy} of {pairs} pairs shared the machine with something else; repeat it on a quiet one")
    return tuple(notes)


def verdict(rows: Sequence[RowResult], first: str, second: str, gate: Gate) -> Verdict:
    """Judges the rows by the rules above."""
    first_failed = [_named(row, row.first_failures, first) for row in rows if row.first_failures]
    second_failed = [_named(row, row.second_failures, second) for row in rows if row.second_failures]
    rounds = _rounds([row for row in rows if row.role])
    gain, hold, notes = _group(rows, "gain"), _group(rows, "hold"), _notes(rows)
    if first_failed:
        return Verdict(NOT_JUDGED, tuple(first_failed), gain, hold, rounds, notes=notes)
    if second_failed:
        return Verdict(NO_GO, tuple(second_failed), gain, hold, rounds, notes=notes)
    opinions = [_judge_gain(gain, gate.gain.at_least, rounds)]
    if gate.hold is not None:
        opinions.append(_judge_hold(hold, gate.hold.at_least, rounds))
    opinions += [opinion for row in rows if row.role for opinion in _judge_row(row, gate)]
    words = [word for word, _, _ in opinions]
    word = NO_GO if NO_GO in words else UNDECIDED if UNDECIDED in words else GO
    reasons = tuple(reason for one, reason, _ in opinions if one == word)
    needed = [count for one, _, count in opinions if one == UNDECIDED]
    total = max(needed) if word == UNDECIDED and None not in needed else None
    return Verdict(word, reasons, gain, hold, rounds, total, notes)


Opinion = tuple[str, str, int | None]  # verdict, reason, rounds needed


def _too_few(name: str) -> Opinion:
    reason = f"fewer than {statistics.MIN_ROUNDS} good rounds of a {name} row show nothing"
    return UNDECIDED, reason, statistics.MIN_ROUNDS


def _judge_row(row: RowResult, gate: Gate) -> list[Opinion]:
    """The reasons against a GO in a single row: missing runs, or a loss."""
    if row.missing:
        return [(UNDECIDED, f"{row.row} has no run of {row.missing}", statistics.MIN_ROUNDS)]
    if row.interval is None:
        return [(UNDECIDED, f"{row.row} has no pair of runs that counts", statistics.MIN_ROUNDS)]
    at_least = gate.hold.at_least if row.role == "hold" and gate.hold is not None else 1.0
    if row.interval.high < at_least:
        text = f"{row.row} loses, at {row.interval.ratio:.3f}: its interval is below {at_least:g}"
        return [(NO_GO, text, None)]
    return []


def _judge_gain(found: statistics.Interval | None, at_least: float, rounds: int) -> Opinion:
    if found is None or not found.is_known:
        return _too_few("gain")
    if found.high < 1.0:
        return NO_GO, "the gain rows are slower", None
    if found.low > 1.0:
        if found.high < at_least:
            return NO_GO, f"the gain is real, but below {at_least:g}", None
        if found.ratio >= at_least:
            return GO, f"the gain rows gain, {at_least:g} or more", None
        to_decide = math.log(at_least / found.ratio)
        reason = f"there is a gain, but whether it reaches {at_least:g} is not shown"
        return UNDECIDED, reason, found.rounds_needed(rounds, to_decide)
    distance = abs(math.log(found.ratio))
    if 1.0 < found.ratio < at_least:
        distance = min(distance, math.log(at_least / found.ratio))
    return UNDECIDED, "the gain rows show no difference", found.rounds_needed(rounds, distance)


def _judge_hold(found: statistics.Interval | None, at_least: float, rounds: int) -> Opinion:
    if found is None or not found.is_known:
        return _too_few("hold")
    if found.high < at_least:
        return NO_GO, f"the hold rows lose: they are below {at_least:g}", None
    if found.low >= at_least:
        return GO, "the hold rows hold", None
    distance = abs(math.log(found.ratio / at_least))
    reason = f"whether the hold rows stay at {at_least:g} or above is not shown"
    return UNDECIDED, reason, found.rounds_needed(rounds, distance)
