"""Judges the replays: which library is fastest with this program's calls, and whether that is certain."""

import dataclasses
import re
from collections.abc import Sequence

from hakobench import statistics
from hakobench.record import Run
from hakobench.summary import Cell, Line
from hakobench.trace.figures import Figures

# Peak memory as a multiple of the other's; beyond these limits the sentence mentions it.
LEAN_RATIO, FAT_RATIO = 0.8, 1.25
REMOTE_SHARE_SMALL = 0.01
# Beyond these limits a replay spends much of its time on other things than allocating.
WAIT_SHARE_MAX = 0.05
STARTS_PER_CALL_MAX = 1 / 1000  # starting a thread takes as long as about a thousand calls
EFFECT_MIN = 0.02  # a smaller difference is not worth a change, however certain it is


@dataclasses.dataclass(frozen=True)
class Rival:
    """Another allocator beside the suggested one. `interval` is the suggested one's speed as a multiple of this one's,
    None when a run of either failed; `memory` is its peak as a multiple of this one's."""

    name: str
    ours: bool
    interval: statistics.Interval | None
    memory: float | None


@dataclasses.dataclass(frozen=True)
class Advice:
    """`library` is the one of ours with the best median, None when there is none to judge. `verdict` is one sentence,
    `remarks` are more sentences. `rivals` are sorted by speed, the fastest first."""

    library: str | None
    verdict: str
    rivals: tuple[Rival, ...]
    remarks: tuple[str, ...]


def log_ratios(runs: Sequence[Run], first: str, second: str) -> list[float]:
    """The speed of `second` as a multiple of that of `first`, as logs, for the rounds in which both ended well."""
    rounds: dict[int, dict[str, Run]] = {}
    for run in runs:
        if not run.failure:
            rounds.setdefault(run.round, {})[run.allocator] = run
    pairs = [mine for _, mine in sorted(rounds.items()) if first in mine and second in mine]
    return [
        statistics.log_ratio(mine[first].value, mine[second].value, mine[first].less_is_better) for mine in pairs
    ]


def _rival(runs: Sequence[Run], mine: Cell, other: Cell) -> Rival:
    memory = mine.peak_rss_mb / other.peak_rss_mb if not other.failed and other.peak_rss_mb else None
    if other.failed:
        return Rival(other.allocator, other.ours, None, memory)
    ratios = log_ratios(runs, other.allocator, mine.allocator)
    return Rival(other.allocator, other.ours, statistics.interval([ratios]) if ratios else None, memory)


def shards_of(config: str) -> int | None:
    """The number of shards in a configuration string of ours."""
    found = re.search(r"(?:^|\s)shards=(\d+)", config)
    return int(found.group(1)) if found else None


def _thread_remark(figures: Figures, name: str, config: str) -> str:
    shards = shards_of(config)
    if shards is None:
        return f"{name} does not state its number of shards."
    if figures.alive_at_once > shards:
        return (
            f"{figures.alive_at_once} threads are alive at a time, and {name} has {shards} shards: some threads share "
            "one. A lane with more shards would suit this program better."
        )
    threads = "1 thread alive at a time fits" if figures.alive_at_once == 1 else f"{figures.alive_at_once} threads alive at a time fit"
    return f"{threads} into the {shards} shards of {name}."


def _program_remark(figures: Figures) -> str:
    if figures.alive_at_once == 1:
        return "The program allocates in one thread at a time: how an allocator serves threads does not matter for it."
    if figures.remote_share <= REMOTE_SHARE_SMALL:
        return f"{figures.remote_share:.1%} of the frees are remote: threads keep to their own blocks."
    return f"{figures.remote_share:.1%} of the frees are remote: how blocks get home matters for this program."


# Programs that allocate most of their objects from pools of their own, and what makes them use malloc instead.
POOLS = {
    "python": "Python's own pool (pymalloc) serves objects up to 512 bytes, so malloc sees few of them; PYTHONMALLOC=malloc "
    "shows all to the allocator.",
    "php": "PHP's own memory manager serves its scripts, so malloc sees little of them; USE_ZEND_ALLOC=0 shows all to the "
    "allocator.",
    "perl": "Perl cuts its values out of arenas of its own, so malloc sees fewer calls than the program makes.",
    "ruby": "Ruby's objects lie in slots of its own heap, so malloc sees only what does not fit into them.",
    "node": "JavaScript's objects lie in the heap of V8, so malloc sees little of the program.",
    "java": "Java's objects lie in the heap of the virtual machine, so malloc sees little of the program.",
}


def pool_remarks(program: str) -> list[str]:
    """What hides a program's allocations from every allocator."""
    name = re.sub(r"[0-9.]*(?:-[a-z]+)?$", "", program.split(" ")[0].rpartition("/")[2])
    return [POOLS[name]] if name in POOLS else []


def _start_remarks(figures: Figures) -> list[str]:
    """Remarks about thread starts. The first thread does not count: it exists from the beginning."""
    started = len(figures.threads) - 1
    if started <= figures.event_count * STARTS_PER_CALL_MAX:
        return []
    return [
        f"{started} threads are started for {figures.event_count} calls: starting threads is a good part of the time "
        "of a replay, so the ratios say little about malloc and free."
    ]


def _wait_remarks(runs: Sequence[Run]) -> list[str]:
    """Remarks about the longest wait of threads for each other in a run that ended well."""
    good = [run for run in runs if not run.failure and run.figure("calls")]
    time = max((run.figure("wait_share") or 0.0 for run in good), default=0.0)
    waits = [((run.figure("waits") or 0.0) + (run.figure("pace_waits") or 0.0)) / run.figure("calls") for run in good]
    calls = max(waits, default=0.0)
    if max(time, calls) <= WAIT_SHARE_MAX:
        return []
    return [
        f"In these replays threads waited for each other for up to {time:.0%} of their time, and before {calls:.1%} of "
        "the calls: that hides how much the allocators differ."
    ]


def _interval_text(interval: statistics.Interval) -> str:
    if not interval.is_known:
        return f"{interval.ratio:.2f} times (only {interval.pairs} rounds, {statistics.MIN_ROUNDS} are needed)"
    if interval.is_wide:
        return f"{interval.ratio:.2f} times (the {interval.pairs} rounds are too few, or too noisy, for an interval)"
    return f"{interval.ratio:.2f} times ({interval.low:.2f} to {interval.high:.2f})"


def _memory_text(memory: float | None) -> str:
    """The part of the sentence about memory; empty when the memory is about the same."""
    if memory is None or LEAN_RATIO < memory < FAT_RATIO:
        return ""
    return f"; it needs {memory:.2f} times the peak memory"


def _verdict(library: str, rivals: Sequence[Rival]) -> str:
    """The sentence, against the fastest allocator that is not ours: a user could take that one instead."""
    against = next((rival for rival in rivals if not rival.ours and rival.interval is not None), None)
    if against is None:
        return f"{library}: there is no other allocator to compare it with."
    interval = against.interval
    text = _interval_text(interval)
    memory = _memory_text(against.memory)
    if interval.contains_one:
        return f"The figures do not separate {library} from {against.name}: {text} as fast{memory}."
    if abs(interval.ratio - 1.0) < EFFECT_MIN:
        return f"{library} and {against.name} are alike: {text} as fast, which is nothing to choose by{memory}."
    if interval.low > 1.0:
        return f"Take {library}: {text} as fast as {against.name}, the best other allocator{memory}."
    return f"Take {against.name}: {library} is only {text} as fast{memory}."


def _time_remark(figures: Figures, cells: Sequence[Cell]) -> str:
    """What the difference is worth, since a replay makes only the calls. `cells` are in millions a second."""
    times = [f"{figures.event_count / cell.value / 1e3:.3g} ms under {cell.allocator}" for cell in cells]
    return (
        f"Replayed, all calls of one run take {', '.join(times)}, threads being started and waiting for each other "
        "included; the program's own work is not, so a difference in the program is usually smaller."
    )


def _own_remarks(rivals: Sequence[Rival], library: str) -> list[str]:
    """Remarks about our other lanes."""
    remarks = []
    for rival in rivals:
        if rival.ours and rival.interval is not None and rival.interval.contains_one:
            remarks.append(f"{rival.name} cannot be told apart from {library}: {_interval_text(rival.interval)} as fast.")
    return remarks


def _choice_text(ours: int, others: int) -> str:
    """The best of several in one set of runs was partly lucky in it."""
    if ours <= 1 and others <= 1:
        return ""
    return (
        f" (Picked by these same runs, as the fastest of {ours} of ours and of {others} others: that flatters who is "
        "picked.)"
    )


def judge(figures: Figures, runs: Sequence[Run], line: Line) -> Advice:
    """The advice. `line` is the summary of `runs`, which all belong to the replay of this recording."""
    good = sorted((cell for cell in line.cells.values() if not cell.failed), key=lambda cell: cell.value, reverse=True)
    ours = [cell for cell in good if cell.ours]
    remarks = [*pool_remarks(figures.program), _program_remark(figures), *_start_remarks(figures), *_wait_remarks(runs)]
    remarks += [f"{name} failed, so nothing is known of it." for name, cell in line.cells.items() if cell.failed]
    if not ours:
        return Advice(None, "No library of ours could be replayed, so there is nothing to suggest.", (), tuple(remarks))
    mine = ours[0]
    order = [cell for cell in good if cell is not mine]
    rivals = [_rival(runs, mine, cell) for cell in order]
    config = next(run.config for run in runs if run.allocator == mine.allocator)
    remarks.append(_thread_remark(figures, mine.allocator, config))
    remarks.append(_time_remark(figures, [mine, *[cell for cell in order if not cell.ours][:1]]))
    remarks += _own_remarks(rivals, mine.allocator)
    if line.is_noisy:
        remarks.append(f"Others used {line.other_cpu_share:.0%} of the machine meanwhile: repeat it when it is quiet.")
    verdict = _verdict(mine.allocator, rivals) + _choice_text(len(ours), len(good) - len(ours))
    return Advice(mine.allocator, verdict, tuple(rivals), tuple(remarks))
