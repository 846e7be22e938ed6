"""How much of a program's time its allocation calls take, and what two allocators make of the whole program."""

import dataclasses
import statistics as plain_statistics
from collections.abc import Sequence

from hakobench import statistics
from hakobench.record import Run
from hakobench.trace.advice import EFFECT_MIN, log_ratios

SHARE_MIN = 0.01  # of the CPU time; what takes less is not worth another allocator
IDLE_SHARE = 0.5  # a program that uses less of its time on a cpu waits more than it works


def percent(share: float) -> str:
    if share < 0.0001:
        return "less than 0.01 %"
    return f"about {100 * share:.0f} %" if share >= 0.095 else f"about {100 * share:.2g} %"


@dataclasses.dataclass(frozen=True)
class Share:
    """`calls` are those of one run of the program, in all its processes; `ns` is the time of one of them under glibc, as its replay
    takes it, on all the cpus that it uses together. The seconds are medians under glibc."""

    calls: int
    ns: float
    cpu_seconds: float
    wall_seconds: float

    @property
    def value(self) -> float:
        return min(1.0, self.calls * self.ns / 1e9 / self.cpu_seconds) if self.cpu_seconds > 0 else 0.0

    @property
    def is_small(self) -> bool:
        return self.value < SHARE_MIN

    @property
    def sentence(self) -> str:
        return (
            f"Allocation is {percent(self.value)} of this program's CPU time: {self.calls} calls of {self.ns:.3g} ns each, in "
            f"{self.cpu_seconds:.3g} s"
        )


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The program itself under glibc and under a library. `speed` is the library's as a multiple of glibc's."""

    library: str
    speed: statistics.Interval
    memory: float | None

    @property
    def differs(self) -> bool:
        """For certain, and by so much that it matters."""
        return self.speed.is_known and not self.speed.contains_one and abs(self.speed.ratio - 1.0) >= EFFECT_MIN

    @property
    def sentence(self) -> str:
        speed = self.speed
        if not speed.is_known or speed.is_wide:
            known = "too few for an interval"
        else:
            known = f"{speed.low:.2f} to {speed.high:.2f}"
        memory = f", with {self.memory:.2f} times the peak memory" if self.memory is not None else ""
        return f"Measured, the program is {speed.ratio:.2f} times as fast under {self.library} as under glibc ({speed.pairs} pairs, {known}){memory}."


def share_of(calls: int, calls_per_second: float, threads: int, program_runs: Sequence[Run], cores: int) -> Share:
    """Raises ValueError when the program never ended well."""
    good = [run for run in program_runs if not run.failure and run.allocator == "glibc"]
    if not good:
        failures = sorted({run.failure for run in program_runs if run.failure})
        raise ValueError(f"the program failed under glibc: {'; '.join(failures)}")
    together = min(max(1, threads), max(1, cores))
    return Share(
        calls, together * 1e9 / calls_per_second, plain_statistics.median(run.cpu_seconds for run in good),
        plain_statistics.median(run.wall_seconds for run in good),
    )  # fmt: skip


def pairs_of(program_runs: Sequence[Run], library: str) -> Pairs | None:
    """None when the program failed under the library, each time."""
    ratios = log_ratios(program_runs, "glibc", library)
    if not ratios:
        return None
    peaks = [
        plain_statistics.median(run.peak_rss_kb for run in program_runs if run.allocator == name and not run.failure)
        for name in (library, "glibc")
    ]
    return Pairs(library, statistics.interval([ratios]), peaks[0] / peaks[1] if peaks[1] else None)


def is_enough(share: Share, pairs: Pairs | None) -> bool:
    """Whether nothing is left to find out: the calls take too little time, and the whole program shows no difference."""
    return share.is_small and (pairs is None or not pairs.differs)


def sentences(share: Share, pairs: Pairs | None) -> list[str]:
    if is_enough(share, pairs):
        found = [share.sentence + ". No allocator will make it faster."]
    elif share.is_small:
        found = [
            share.sentence + ". Yet the whole program differs, so it is not the calls: blocks lie elsewhere, or memory goes back at "
            "other times."
        ]
    else:
        found = [share.sentence + f". An allocator that is twice as fast would save {percent(share.value / 2)}."]
    if pairs is not None:
        found.append(pairs.sentence)
    if share.wall_seconds > 0 and share.cpu_seconds / share.wall_seconds < IDLE_SHARE:
        found.append(f"It works for {share.cpu_seconds:.3g} s of {share.wall_seconds:.3g} s and waits in between, which no allocator changes.")
    return found
