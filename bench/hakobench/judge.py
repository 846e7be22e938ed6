"""Judges B against A by a gate: GO, NO-GO or UNDECIDED.

A gate is a TOML file in hakobench/gates (or anywhere): which rows must gain, which must hold, and how much.

    about = "one line"
    [gain]
    tags = ["r50", "r90"]      # rows with one of these tags; "*" is every row
    at_least = 1.05            # above 1: B's speed as a multiple of A's
    [hold]                     # may be left out
    tags = ["r0"]
    at_least = 0.99            # at most 1

The rules, for the intervals of hakobench.statistics:
    GO         the gain rows' interval lies above 1.0 and their ratio reaches the gate, and the hold rows' interval lies
               above theirs. (The seeds state +5 % of the figure itself. To ask that the interval's lower end reaches
               it would turn a gain of 5 % away for ever; the interval has to show that there is a gain at all.)
    NO-GO      a run of B failed; or the gain rows' interval lies below 1.0, or above 1.0 and below the gate (a gain
               that is real and too small); or the hold rows' interval lies below theirs.
    UNDECIDED  everything else. A gain interval that contains 1.0 shows no difference, however narrow it is.
    NOT-JUDGED a run of A failed, so there is nothing to compare with.
"""

import dataclasses
import math
import pathlib
import re
import statistics as plain
import tomllib
from collections.abc import Iterable, Sequence

from hakobench import statistics
from hakobench.record import Run

GATES_DIR = pathlib.Path(__file__).parent / "gates"
EVERY_ROW = "*"
GO, NO_GO, UNDECIDED, NOT_JUDGED = "GO", "NO-GO", "UNDECIDED", "NOT-JUDGED"


@dataclasses.dataclass(frozen=True)
class Demand:
    """`tags` choose the rows, `at_least` is the ratio asked of them."""

    tags: tuple[str, ...]
    at_least: float

    def concerns(self, tags: Iterable[str]) -> bool:
        return EVERY_ROW in self.tags or any(tag in self.tags for tag in tags)


@dataclasses.dataclass(frozen=True)
class Gate:
    """What B must show. `hold` None: nothing has to hold."""

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
    """A gate's file, for messages that name the line."""

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
        raise source.error(name, "tags", f"{name}.tags is {tags!r}; allowed is a list of texts that is not empty")
    is_number = isinstance(at_least, int | float) and not isinstance(at_least, bool)
    if not is_number or not low < at_least <= high or math.isinf(at_least):
        allowed = f"above {low:g}" + ("" if math.isinf(high) else f" to {high:g}")
        raise source.error(name, "at_least", f"{name}.at_least is {at_least!r}; allowed: a number {allowed}")
    return Demand(tuple(tags), float(at_least))


@dataclasses.dataclass(frozen=True)
class RowResult:
    """One row of the comparison. Medians in `unit`, over the good runs; `interval` None: no pair of good runs.
    `ratios` are the log ratios of the pairs. `role` is what the gate asks of the row: gain, hold, or nothing."""

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


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`reasons` say why; `gain` and `hold` are the intervals of the two groups, None where there is none. `rounds` is
    the number of rounds of the row that has fewest; `rounds_needed` about how many would decide (UNDECIDED only; None:
    no number would, or more than a million times as many)."""

    word: str
    reasons: tuple[str, ...]
    gain: statistics.Interval | None
    hold: statistics.Interval | None
    rounds: int
    rounds_needed: int | None = None


def _pairs(runs: Sequence[Run], first: str, second: str) -> tuple[list[Run], list[Run], list[float]]:
    """The runs of both in one row, and the log ratios of the rounds in which both ended well."""
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
    good = [mine for mine in both if len(mine) == 2 and not any(run.failure for run in mine.values())]
    ratios = []
    for mine in good:
        a, b = mine[first], mine[second]
        try:
            ratios.append(statistics.log_ratio(a.value, b.value, a.less_is_better))
        except ValueError as error:
            raise ValueError(f"row {a.row}, round {a.round}: {error}") from error
    return firsts, seconds, ratios


def _median(runs: Sequence[Run]) -> float | None:
    values = [run.value for run in runs if not run.failure]
    return plain.median(values) if values else None


def _failures(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(run.failure for run in runs if run.failure)


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


def compare_rows(runs: Sequence[Run], first: str, second: str, gate: Gate) -> list[RowResult]:
    """The rows that ran under both, in the suite's order. Raises ValueError when runs cannot be compared."""
    check_same(runs, first)
    check_same(runs, second)
    results = []
    places = {(run.suite, run.row, run.scale): None for run in sorted(runs, key=lambda run: run.row_index)}
    for place in places:
        of_row = [run for run in runs if (run.suite, run.row, run.scale) == place]
        firsts, seconds, ratios = _pairs(of_row, first, second)
        if not firsts or not seconds:
            continue
        if len({run.program_sha256 for run in firsts + seconds}) > 1:
            raise ValueError(f"row {place[1]}: the program under test is not the same file in all runs")
        tags = tuple(firsts[0].tags.split())
        results.append(
            RowResult(
                place[1], firsts[0].unit, tags, _median(firsts), _median(seconds), tuple(ratios),
                statistics.interval([ratios]) if ratios else None, _role(gate, tags), _failures(firsts),
                _failures(seconds),
            )
        )  # fmt: skip
    if not results:
        raise ValueError(f"no row has runs of both '{first}' and '{second}'")
    return results


def check_gate(gate: Gate, rows: Iterable[tuple[str, ...]]) -> None:
    """`rows`: their tags. Raises ValueError when the gate has nothing to judge by."""
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


def verdict(rows: Sequence[RowResult], first: str, second: str, gate: Gate) -> Verdict:
    """Judges the rows by the rules above."""
    first_failed = [_named(row, row.first_failures, first) for row in rows if row.first_failures]
    second_failed = [_named(row, row.second_failures, second) for row in rows if row.second_failures]
    judged = [row for row in rows if row.role]
    rounds = min((len(row.ratios) for row in judged), default=0)
    gain, hold = _group(rows, "gain"), _group(rows, "hold")
    if first_failed:
        return Verdict(NOT_JUDGED, tuple(first_failed), gain, hold, rounds)
    if second_failed:
        return Verdict(NO_GO, tuple(second_failed), gain, hold, rounds)
    opinions = [_judge_gain(gain, gate.gain.at_least, rounds)]
    if gate.hold is not None:
        opinions.append(_judge_hold(hold, gate.hold.at_least, rounds))
    words = [word for word, _, _ in opinions]
    word = NO_GO if NO_GO in words else UNDECIDED if UNDECIDED in words else GO
    reasons = tuple(reason for one, reason, _ in opinions if one == word)
    needed = [count for one, _, count in opinions if one == UNDECIDED]
    total = max(needed) if word == UNDECIDED and None not in needed else None
    return Verdict(word, reasons, gain, hold, rounds, total)


Opinion = tuple[str, str, int | None]  # verdict, reason, rounds needed


def _too_few(name: str) -> Opinion:
    reason = f"fewer than {statistics.MIN_ROUNDS} good rounds of a {name} row show nothing"
    return UNDECIDED, reason, statistics.MIN_ROUNDS


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
