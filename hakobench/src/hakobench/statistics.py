"""An interval for the ratio of two speeds, from paired runs: is B faster than A?

The estimate. The runs of a row under both allocators follow each other within a round. A drift of the machine hits
both, so it cancels in the pair's log(speed of B / speed of A). A row's figure is the trimmed mean of its log ratios,
the middle 60 %. A mean in the log scale is a geometric mean of ratios; the trimming keeps a single run that another
process slowed down by 30 % from deciding the row. All rows of a group have the same weight: the group's figure is the
mean of its rows' figures.

The interval. scipy.stats.bootstrap resamples each row's rounds and gives the standard error. The interval is the
estimate -+ Student's t times that error, with the degrees of freedom of Yuen (1974) for trimmed means (for each row the
number of values that are kept, minus one). The factor sqrt(n / (n - 1)) makes up for the error that a bootstrap of n
values underestimates (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015). Each interval has a
confidence of 99.5 %.

The reason for this choice is a simulation: 1000 to 4000 comparisons of equals for each line; noise of a run: Student's
t with 3 degrees of freedom, scale 2 % | 3 %, and 3 % | 5 % of the runs 30 % slower; groups of one and of three rows, 15
rounds, intervals at 99.5 %. "finds" is the share of comparisons in which a real +5 % over three rows gives an interval
above 1.

                                              misses 1.0,     misses 1.0,     width,
    interval                                  1 row           3 rows          3 rows         finds
    mean, percentile                          1.8 % | 3.2 %   1.8 % | 1.2 %   6.3 % | 8.6 %  84 % | 64 %
    mean, BCa                                 6.1 % | 4.5 %   3.5 % | 2.5 %   6.5 % | 8.8 %  81 % | 67 %
    trimmed, percentile                       0.8 % | 1.3 %   0.4 % | 0.2 %   5.3 % | 7.9 %  95 % | 74 %
    trimmed, percentile, level for small n    0.2 % | 0.3 %   0.1 % | 0.0 %   6.1 % | 8.8 %  92 % | 60 %
    trimmed, t with bootstrap standard error  0.1 % | 0.0 %   0.1 % | 0.0 %   5.3 % | 8.3 %  98 % | 72 %

A comparison of a library with itself passes when the intervals of both groups contain 1.0. To pass ten out of ten with
a probability of 95 %, a comparison may miss in 0.5 % of the cases, both groups together. The last two lines leave room
for noise that is worse than the simulation's; the last one has the narrower intervals. With a confidence of 95 % it
would miss in 2 % of the cases, and pass ten out of ten with a probability of only 80 %. A row with fewer than
MIN_ROUNDS pairs has no interval at all.

Single rows. A judge that also looks at each row by itself has as many chances to be wrong as there are rows. These
intervals therefore share the 0.5 % (Bonferroni; `row_confidence`). For any number of rows, the probability that one of
the intervals of equals lies below 1.0 is then at most half of that. In 1500 comparisons of equals with twelve rows and
the noise above, an interval of some row lay below 1.0 in 0.2 % | 0.1 % of the cases with the confidence of a single
interval, and in 0.0 % | 0.0 % with the shared one.

A row's standing. Tables say how each row stands to another (hakobench.standing) by `of_pairs`: the same bootstrap and t,
for the mean of all log ratios, of which nothing is trimmed, with 95 %. A suite has few rounds, often three or five, and
there the mean loses nothing. In a simulation of 40,000 rows of equals with the noise above, with Student's and Yuen's
formulas in place of the bootstrap, the interval missed 1.0 in

    pairs of runs                      3                5                11
    mean of all                        3.4 % | 3.2 %    3.1 % | 2.8 %    2.9 % | 3.4 %
    trimmed mean                       the same         5.0 % | 4.6 %    4.4 % | 3.9 %
    median width, mean                 19 % | 32 %      11 % | 20 %      9 % | 13 %
    median width, trimmed mean         the same         13 % | 21 %      6 % | 9 %
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy
import scipy.stats

CONFIDENCE = 0.995
DEFAULT_ROUNDS = 15
MIN_ROUNDS = 5  # of every row; with fewer there is nothing to trim
PAIRS_CONFIDENCE = 0.95
MIN_PAIRS = 3  # for the standing of a row
TRIMMED_SHARE = 0.2  # at each end
WIDE = 4.0
RESAMPLES = 2000  # which give the standard error to about 1.6 %
_SEED = 1  # of the resampling: the same runs always give the same interval


@dataclasses.dataclass(frozen=True)
class Interval:
    """A ratio of speeds and the interval around it; above 1 the second is faster. `pairs` is the number of pairs of
    runs behind it. With too few pairs `low` is 0 and `high` infinite."""

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def is_known(self) -> bool:
        return self.low > 0.0

    @property
    def is_wide(self) -> bool:
        """It says nothing: so few rounds that the interval is unknown, or its ends are a factor of WIDE apart."""
        return not self.is_known or self.high > WIDE * self.low

    @property
    def contains_one(self) -> bool:
        return self.low <= 1.0 <= self.high

    def rounds_needed(self, rounds: int, distance: float) -> int | None:
        """About how many rounds would make the interval reach less than `distance` (in log ratio) to each side of the
        estimate. `rounds` gave its present width, which falls with their square root. None: no number would."""
        half = (math.log(self.high) - math.log(self.low)) / 2
        if distance <= 0.0 or half / distance > 1e3:
            return None
        return max(rounds + 1, math.ceil(rounds * (half / distance) ** 2))


def log_ratio(first: float, second: float, less_is_better: bool) -> float:
    """The log of the second's speed as a multiple of the first's. Raises ValueError unless both are above 0."""
    if not (first > 0.0 and second > 0.0):
        raise ValueError(f"a ratio needs two figures above 0, not {first:g} and {second:g}")
    return math.log(first / second) if less_is_better else math.log(second / first)


def row_confidence(rows: int) -> float:
    """The confidence that each of `rows` intervals needs for all of them together to have CONFIDENCE."""
    return 1.0 - (1.0 - CONFIDENCE) / max(1, rows)


def _trimmed(values: Sequence[float], share: float) -> float:
    return float(scipy.stats.trim_mean(values, share))


def estimate(rows: Sequence[Sequence[float]], share: float = TRIMMED_SHARE) -> float:
    """The mean over rows of the means of their log ratios, `share` trimmed at each end."""
    return sum(_trimmed(row, share) for row in rows) / len(rows)


def _vectorized(*samples: numpy.ndarray, share: float, axis: int = -1) -> numpy.ndarray:
    """`estimate` for many resamples in one call."""
    means = []
    for sample in samples:
        count = sample.shape[axis]
        cut = int(share * count)
        kept = numpy.partition(sample, (cut, count - cut - 1), axis=axis)
        means.append(numpy.take(kept, range(cut, count - cut), axis=axis).mean(axis=axis))
    return numpy.mean(means, axis=0)


def of_pairs(log_ratios: Sequence[float]) -> Interval:
    """The interval of one row from all of its pairs, with PAIRS_CONFIDENCE; unknown with fewer than MIN_PAIRS. Raises
    ValueError without any."""
    return _interval([log_ratios], PAIRS_CONFIDENCE, 0.0, MIN_PAIRS)


def interval(rows: Sequence[Sequence[float]], confidence: float = CONFIDENCE) -> Interval:
    """The interval for a group of one or more rows, each of them a list of log ratios. Raises ValueError without rows,
    and for a row without values."""
    return _interval(rows, confidence, TRIMMED_SHARE, MIN_ROUNDS)


def _interval(rows: Sequence[Sequence[float]], confidence: float, share: float, least: int) -> Interval:
    if not rows or not all(rows):
        raise ValueError("an interval needs rows with values")
    pairs = sum(len(row) for row in rows)
    middle = estimate(rows, share)
    if min(len(row) for row in rows) < least:
        return Interval(math.exp(middle), 0.0, math.inf, pairs)
    samples = tuple(numpy.asarray(row, dtype=float) for row in rows)
    found = scipy.stats.bootstrap(
        samples, functools.partial(_vectorized, share=share), n_resamples=RESAMPLES, vectorized=True, method="percentile",
        rng=numpy.random.default_rng(_SEED),
    )  # fmt: skip
    fewest = min(len(row) for row in rows)
    error = float(found.standard_error) * math.sqrt(fewest / (fewest - 1))
    freedom = sum(len(row) - 2 * int(share * len(row)) - 1 for row in rows)
    half = float(scipy.stats.t.isf((1.0 - confidence) / 2, freedom)) * error
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half), pairs)
