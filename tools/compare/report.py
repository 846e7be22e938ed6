"""From runs to the raw CSV, the table for people, and the part of docs/benchmarks.md between two markers."""

import csv
import dataclasses
import pathlib
import statistics
from typing import TextIO

from compare.allocators import Allocator
from compare.machine import Machine
from compare.measure import Plan, Run
from compare.rows import Row

BEGIN = "<!-- compare: begin -->"
END = "<!-- compare: end -->"
FAILED = "FAILED"
NOISY_SHARE = 0.05  # of the machine used by others during a run, median over a row
FEW_ROUNDS = 5
RSS_PEER_SPEED = 0.8  # a peer counts as lean only when it reaches this share of our speed

COLUMNS = (
    "row", "allocator", "round", "position", "status", "failure", "figure", "unit", "value", "seconds",
    "peak_rss_kb", "final_rss_kb", "other_cpu_share", "command", "library", "library_sha256", "config",
    "program_sha256", "commit", "cpu", "cores", "kernel", "load", "busy_share", "seed", "scale",
)  # fmt: skip


class RawCsv:
    """Writes one line per run, at once: a comparison that is interrupted leaves what it has."""

    def __init__(self, out: TextIO, plan: Plan, machine: Machine, programs: dict[str, str]):
        self._out = out
        self._plan = plan
        self._machine = machine
        self._programs = programs
        self._writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        self._writer.writeheader()

    def add(self, run: Run) -> None:
        figures = (run.value, run.seconds, run.peak_rss_kb, run.final_rss_kb) if not run.failure else ("",) * 4
        self._writer.writerow(
            {
                "row": run.row.name,
                "allocator": run.allocator.name,
                "round": run.round,
                "position": run.position,
                "status": FAILED if run.failure else "ok",
                "failure": run.failure,
                "figure": run.row.figure,
                "unit": run.row.unit,
                "value": figures[0],
                "seconds": figures[1],
                "peak_rss_kb": figures[2],
                "final_rss_kb": figures[3],
                "other_cpu_share": "" if run.other_cpu_share is None else f"{run.other_cpu_share:.4f}",
                "command": run.command,
                "library": run.allocator.shown_library,
                "library_sha256": run.allocator.sha256,
                "config": run.allocator.config,
                "program_sha256": self._programs[run.row.workload],
                "commit": self._machine.commit,
                "cpu": self._machine.cpu,
                "cores": self._machine.cores,
                "kernel": self._machine.kernel,
                "load": f"{self._machine.load:.2f}",
                "busy_share": f"{self._machine.busy_share:.4f}",
                "seed": self._plan.seed,
                "scale": self._plan.scale,
            }
        )
        self._out.flush()


@dataclasses.dataclass(frozen=True)
class Cell:
    """One allocator in one row: medians over its rounds. `failures` counts runs that did not end well."""

    value: float
    spread: float  # (max - min) / median
    peak_rss_mb: float
    final_rss_mb: float
    failures: int
    rounds: int

    @property
    def failed(self) -> bool:
        return self.failures > 0


@dataclasses.dataclass(frozen=True)
class Line:
    """One row of the table."""

    row: Row
    cells: dict[str, Cell]
    best_peer: str | None
    other_cpu_share: float

    def ratio(self, name: str) -> float | None:
        """Speed of `name` as a multiple of the best peer's; above 1 is faster, for seconds too."""
        mine = self.cells[name]
        if self.best_peer is None or mine.failed:
            return None
        peer = self.cells[self.best_peer]
        return peer.value / mine.value if self.row.less_is_better else mine.value / peer.value


def _cell(runs: list[Run]) -> Cell:
    good = [run for run in runs if not run.failure]
    if not good:
        return Cell(0.0, 0.0, 0.0, 0.0, len(runs), len(runs))
    values = [run.value for run in good]
    median = statistics.median(values)
    return Cell(
        median,
        (max(values) - min(values)) / median if median else 0.0,
        statistics.median(run.peak_rss_kb for run in good) / 1024,
        statistics.median(run.final_rss_kb for run in good) / 1024,
        len(runs) - len(good),
        len(runs),
    )


def lines(plan: Plan, runs: list[Run]) -> list[Line]:
    result = []
    for row in plan.rows:
        of_row = [run for run in runs if run.row is row]
        cells = {
            allocator.name: _cell([run for run in of_row if run.allocator is allocator])
            for allocator in plan.allocators
        }
        peers = [a.name for a in plan.allocators if not a.is_ours and not cells[a.name].failed]
        choose = min if row.less_is_better else max
        best = choose(peers, key=lambda name: cells[name].value) if peers else None
        others = [run.other_cpu_share for run in of_row if run.other_cpu_share is not None]
        result.append(Line(row, cells, best, statistics.median(others) if others else 0.0))
    return result


def _rss_ratio(line: Line, ours: Allocator, peers: list[Allocator]) -> float | None:
    """Our peak RSS as a multiple of that of the leanest peer which reaches RSS_PEER_SPEED of our speed."""
    mine = line.cells[ours.name]
    if mine.failed:
        return None
    lean = []
    for peer in peers:
        cell = line.cells[peer.name]
        if not cell.failed:
            speed = mine.value / cell.value if line.row.less_is_better else cell.value / mine.value
            if speed >= RSS_PEER_SPEED:
                lean.append(cell.peak_rss_mb)
    return mine.peak_rss_mb / min(lean) if lean else None


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def speed_table(plan: Plan, table: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and lines. A cell is "median ±spread %"; per library of ours two ratios follow."""
    ours = [allocator for allocator in plan.allocators if allocator.is_ours]
    peers = [allocator for allocator in plan.allocators if not allocator.is_ours]
    header = ["row", "unit", *(allocator.name for allocator in plan.allocators)]
    header += [title for own in ours for title in (f"{own.name} / best peer", f"{own.name} RSS / leanest peer")]
    body = []
    for line in table:
        noisy = " (!)" if line.other_cpu_share > NOISY_SHARE else ""
        texts = [line.row.name + noisy, line.row.unit]
        for allocator in plan.allocators:
            cell = line.cells[allocator.name]
            text = f"{FAILED} {cell.failures}/{cell.rounds}" if cell.failed else _figure(cell.value)
            text += "" if cell.failed else f" ±{cell.spread * 50:.0f} %"
            texts.append(f"**{text}**" if allocator.name == line.best_peer else text)
        for own in ours:
            texts += [_times(line.ratio(own.name)), _times(_rss_ratio(line, own, peers))]
        body.append(texts)
    return header, body


def rss_table(plan: Plan, table: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and lines; a cell is "peak / final" in MiB."""
    header = ["row", *(allocator.name for allocator in plan.allocators)]
    body = []
    for line in table:
        texts = [line.row.name]
        for allocator in plan.allocators:
            cell = line.cells[allocator.name]
            texts.append(FAILED if cell.failed else f"{cell.peak_rss_mb:.1f} / {cell.final_rss_mb:.1f}")
        body.append(texts)
    return header, body


def failures(runs: list[Run]) -> list[str]:
    """Each different failure of a row under an allocator once, with the number of runs it hit."""
    counts: dict[tuple[str, str, str], int] = {}
    for run in runs:
        if run.failure:
            key = (run.row.name, run.allocator.name, run.failure)
            counts[key] = counts.get(key, 0) + 1
    return [f"{row}, {name}: {why} ({count} runs)" for (row, name, why), count in counts.items()]


def remarks(plan: Plan, machine: Machine, table: list[Line], forced: bool) -> list[str]:
    """What a reader of the figures has to know, one sentence each."""
    texts = [
        (
            f"Commit {machine.commit}; {machine.cpu}, {machine.cores} cores, Linux {machine.kernel}; load "
            f"{machine.load:.2f} at the start; medians of {plan.rounds} interleaved rounds, shuffled with seed "
            f"{plan.seed}; amount of work x {plan.scale:g}."
        ),
        (
            "± is half the distance from the slowest to the fastest round. The best peer is bold; a ratio above 1 "
            "means faster than it. The RSS ratio is that of the peaks, to the leanest peer that reaches "
            f"{RSS_PEER_SPEED:.0%} of our speed."
        ),
    ]
    if forced:
        texts.append(f"NOT A QUIET MACHINE: {machine.busy_share:.0%} of the cpus were in use before the start.")
    if any(line.other_cpu_share > NOISY_SHARE for line in table):
        texts.append(f"(!) Others used more than {NOISY_SHARE:.0%} of the machine during the median run of this row.")
    if plan.rounds < FEW_ROUNDS:
        texts.append(f"Fewer than {FEW_ROUNDS} rounds: do not quote these figures.")
    texts += [f"{allocator.name}: {allocator.config}" for allocator in plan.allocators if allocator.is_ours]
    return texts


def _markdown_table(header: list[str], body: list[list[str]]) -> str:
    rule = "|" + "---|" * len(header)
    return "\n".join(["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(texts) + " |" for texts in body)])


def markdown(plan: Plan, machine: Machine, runs: list[Run], csv_name: str, forced: bool) -> str:
    table = lines(plan, runs)
    parts = ["\n".join(f"* {text}" for text in remarks(plan, machine, table, forced))]
    parts[0] += f"\n* Raw figures: `{csv_name}`."
    parts += [_markdown_table(*speed_table(plan, table)), "Peak / final RSS, MiB:"]
    parts += [_markdown_table(*rss_table(plan, table))]
    failed = failures(runs)
    if failed:
        parts += ["Failed:", "\n".join(f"* {text}" for text in failed)]
    parts += ["Rows:", "\n".join(f"* `{row.name}`: {row.about}" for row in plan.rows)]
    return "\n\n".join(parts) + "\n"


def markdown_check(path: pathlib.Path) -> None:
    """Raises ValueError unless the file is new or has both markers once, in order."""
    if not path.exists():
        if not path.parent.is_dir():
            raise ValueError(f"--markdown: no directory '{path.parent}'")
        return
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"--markdown: '{path}' needs one line '{BEGIN}' and below it one line '{END}'")


def markdown_write(path: pathlib.Path, table: str) -> None:
    """Replaces what is between the markers; a new file gets them."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n\n{table}\n{END}{tail}", encoding="utf-8")
