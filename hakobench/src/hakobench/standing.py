"""How one allocator stands to another in a row, in words that tables, pages and comparisons share.

    level within 2 %       the whole interval of the ratio lies within 2 % of 1
    ahead, behind          the interval does not contain 1
    not decided (x .. y)   everything else; x .. y is the interval

The ratio is that of two speeds (record.Run.speed), the interval that of statistics.of_pairs: of every pair of runs of
the same round, with a confidence of 95 %: of two equals one is called ahead or behind in one row of twenty. The best of
several peers is chosen by the same runs, though. In a simulation of eight equals, normal noise and 5 or 11 rounds, one was
called behind the best of the other seven in 8 % of the rows, and ahead of it in 0.1 %.
"""

import dataclasses
from collections.abc import Sequence

from hakobench import statistics

LEVEL_SHARE = 0.02
AHEAD, BEHIND, NOT_DECIDED = "ahead", "behind", "not decided"
LEVEL = f"level within {LEVEL_SHARE * 100:g} %"
WORDS = (BEHIND, LEVEL, NOT_DECIDED, AHEAD)
LEGEND = (
    f'"{LEVEL}" means that the {statistics.PAIRS_CONFIDENCE * 100:g} % interval of the ratio, from all pairs of runs of the '
    f'same round, lies within {LEVEL_SHARE * 100:g} % of 1; "{AHEAD}" and "{BEHIND}", that it does not contain 1.'
)


@dataclasses.dataclass(frozen=True)
class Standing:
    """`word` is one of the four, for the interval."""

    word: str
    interval: statistics.Interval

    @property
    def text(self) -> str:
        """The word, with the interval where it says more."""
        if self.word == LEVEL:
            return self.word
        if not self.interval.is_known:
            return f"{self.word} (pairs: {self.interval.pairs})"
        return f"{self.word} ({_end(self.interval.low)} .. {_end(self.interval.high)})"


def _end(value: float) -> str:
    """One end of an interval. A difference of 0.1 % shows, and an end that is not 1 does not read as 1."""
    if value >= 10:
        return f"{value:.1f}" if value < 100 else f"{value:.0f}"
    texts = (f"{value:.{digits}f}" for digits in range(3, 9))
    return next((text for text in texts if float(text) != 1), f"{value:.3f}")


def _word(found: statistics.Interval) -> str:
    if not found.is_known:
        return NOT_DECIDED
    if 1 - LEVEL_SHARE <= found.low and found.high <= 1 + LEVEL_SHARE:
        return LEVEL
    return AHEAD if found.low > 1 else BEHIND if found.high < 1 else NOT_DECIDED


def of(log_ratios: Sequence[float]) -> Standing:
    """The standing for the log ratios of all pairs. Raises ValueError without any."""
    found = statistics.of_pairs(log_ratios)
    return Standing(_word(found), found)
