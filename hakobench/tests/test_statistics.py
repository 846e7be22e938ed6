"""The interval for a ratio, compared with textbook formulas, and its level, checked by simulation."""

import math

import numpy
import pytest
import scipy.stats

from hakobench import statistics

SIMULATED = 300  # comparisons of equals
ROUNDS = statistics.DEFAULT_ROUNDS


def slowness(generator: numpy.random.Generator, rows: int, scale: float, outliers: float) -> numpy.ndarray:
    """Log speeds of runs: heavy tails, and some runs that are 30 % slower."""
    noise = scale * generator.standard_t(3, (rows, ROUNDS))
    return -noise - math.log(1.3) * (generator.random((rows, ROUNDS)) < outliers)


def log_ratios(
    generator: numpy.random.Generator, rows: int, scale: float = 0.02, outliers: float = 0.03, gain: float = 1.0
) -> list[list[float]]:
    """The log ratios of pairs of runs, the second `gain` times as fast."""
    both = [slowness(generator, rows, scale, outliers) for _ in range(2)]
    return (both[1] - both[0] + math.log(gain)).tolist()


def test_log_ratio_is_above_zero_when_the_second_is_faster() -> None:
    assert statistics.log_ratio(2.0, 3.0, less_is_better=False) == math.log(1.5)
    assert statistics.log_ratio(3.0, 2.0, less_is_better=True) == math.log(1.5)
    assert statistics.log_ratio(3.0, 2.0, less_is_better=False) == pytest.approx(-math.log(1.5))


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_a_ratio_needs_figures_above_zero(pair: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="two figures above 0"):
        statistics.log_ratio(*pair, less_is_better=False)


def test_estimate_is_the_mean_of_trimmed_means() -> None:
    rows = [[0.1, -9.0, 0.2, 0.3, 9.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    assert statistics.estimate(rows) == pytest.approx((0.2 + 1.0) / 2)
    values = numpy.random.default_rng(3).standard_t(3, (4, 13))
    expected = scipy.stats.trim_mean(values, 0.2, axis=1).mean()
    assert statistics.estimate(values.tolist()) == pytest.approx(expected)


def test_one_wild_round_does_not_move_the_figure() -> None:
    calm = [[0.05 + 0.001 * step for step in range(ROUNDS)]]
    wild = [[*calm[0][:-1], 3.0]]
    assert statistics.interval(wild).ratio == pytest.approx(statistics.interval(calm).ratio)


def test_equal_figures_give_exactly_their_ratio() -> None:
    found = statistics.interval([[math.log(1.25)] * 10])
    assert (found.ratio, found.low, found.high) == pytest.approx((1.25, 1.25, 1.25))
    assert found.pairs == 10
    assert not found.contains_one
    assert statistics.interval([[0.0] * 10]).contains_one


def test_half_width_is_that_of_yuens_trimmed_t() -> None:
    """One row: standard error s_w / ((1 - 2 x 0.2) sqrt(n)), with s_w of the Winsorized values."""
    values = numpy.random.default_rng(5).normal(0.03, 0.02, 60)
    found = statistics.interval([values.tolist()], confidence=0.99)
    winsorized = scipy.stats.mstats.winsorize(values, limits=(0.2, 0.2))
    error = float(numpy.std(winsorized, ddof=1)) / (0.6 * math.sqrt(len(values)))
    half = scipy.stats.t.isf(0.005, 60 - 2 * 12 - 1) * error
    assert math.log(found.ratio) == pytest.approx(scipy.stats.trim_mean(values, 0.2))
    assert math.log(found.high / found.low) / 2 == pytest.approx(half, rel=0.08)


def test_normal_noise_agrees_with_the_paired_t_test() -> None:
    """With normal noise trimming costs about 8 % of the width, and not more."""
    generator = numpy.random.default_rng(6)
    first = generator.normal(0.0, 0.02, 200)
    second = first + generator.normal(0.04, 0.03, 200)
    found = statistics.interval([(second - first).tolist()], confidence=0.99)
    expected = scipy.stats.ttest_rel(second, first).confidence_interval(0.99)
    width = math.log(found.high / found.low)
    assert math.log(found.ratio) == pytest.approx((expected.low + expected.high) / 2, abs=0.003)
    assert 0.9 < width / (expected.high - expected.low) < 1.25


def test_rows_weigh_alike() -> None:
    found = statistics.interval([[0.0] * 30, [math.log(4.0)] * 6])
    assert found.ratio == pytest.approx(2.0)


def test_the_same_runs_give_the_same_interval() -> None:
    values = log_ratios(numpy.random.default_rng(8), 3)
    assert statistics.interval(values) == statistics.interval(values)


def test_too_few_rounds_say_nothing() -> None:
    found = statistics.interval([[0.5] * 20, [0.5] * 4])
    assert not found.is_known
    assert found.contains_one
    assert found.ratio == pytest.approx(math.exp(0.5))
    assert (found.low, found.high, found.pairs) == (0.0, math.inf, 24)


@pytest.mark.parametrize("rows", [[], [[]], [[0.1] * 9, []]])
def test_no_values_is_an_error(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="rows with values"):
        statistics.interval(rows)


def test_rounds_needed_follow_the_square_root() -> None:
    found = statistics.Interval(1.0, math.exp(-0.04), math.exp(0.04), 15)
    assert found.rounds_needed(15, 0.0201) == 60
    assert found.rounds_needed(15, 0.03999) == 16
    assert found.rounds_needed(15, 0.0) is None
    assert found.rounds_needed(15, 1e-6) is None


@pytest.mark.parametrize(("scale", "outliers"), [(0.02, 0.03), (0.03, 0.05)])
def test_equals_pass_ten_out_of_ten(scale: float, outliers: float) -> None:
    """A comparison passes when the intervals of three gain rows and of one hold row contain 1.0. To pass ten out of ten
    with a probability of 95 % it may fail in 0.5 % of the cases; the limit here would fail a correct interval with a
    probability below 1 %."""
    generator = numpy.random.default_rng(20)
    failed = 0
    for _ in range(SIMULATED):
        groups = [statistics.interval(log_ratios(generator, rows, scale, outliers)) for rows in (3, 1)]
        failed += not all(found.contains_one for found in groups)
    limit = scipy.stats.binom.isf(0.01, SIMULATED, 0.005)
    assert failed <= limit


def test_the_simulation_notices_a_level_that_is_too_low() -> None:
    generator = numpy.random.default_rng(20)
    intervals = [statistics.interval(log_ratios(generator, 3), confidence=0.9) for _ in range(200)]
    missed = sum(not found.contains_one for found in intervals)
    assert missed > scipy.stats.binom.isf(0.01, 200, 0.005)


def test_five_percent_are_found() -> None:
    """Noise of 3 % (standard deviation of a run), normal and with outliers."""
    generator = numpy.random.default_rng(21)
    noise = [generator.normal(0.0, 0.03 * math.sqrt(2), (3, ROUNDS)) + math.log(1.05) for _ in range(200)]
    normal = sum(statistics.interval(one.tolist()).low > 1.0 for one in noise)
    assert normal / 200 > 0.9
    heavy = [log_ratios(generator, 3, scale=0.03 / math.sqrt(3), gain=1.05) for _ in range(200)]
    assert sum(statistics.interval(one).low > 1.0 for one in heavy) / 200 > 0.9


def test_rows_share_the_chance_of_a_mistake() -> None:
    assert statistics.row_confidence(1) == statistics.CONFIDENCE
    assert statistics.row_confidence(10) == pytest.approx(0.9995)
    values = log_ratios(numpy.random.default_rng(9), 1)
    one, of_ten = (statistics.interval(values, statistics.row_confidence(rows)) for rows in (1, 10))
    assert of_ten.low < one.low < one.high < of_ten.high


def test_many_rows_of_equals_are_not_below_one() -> None:
    """Ten single rows: hardly ever is one below 1.0; with a confidence of 90 % one is, in every third comparison."""
    generator = numpy.random.default_rng(22)
    comparisons = [log_ratios(generator, 10, scale, 0.03) for scale in (0.02, 0.03) for _ in range(25)]

    def missed(confidence: float) -> int:
        return sum(any(statistics.interval([row], confidence).high < 1.0 for row in rows) for rows in comparisons)

    limit = scipy.stats.binom.isf(0.01, len(comparisons), 0.005)
    assert missed(statistics.row_confidence(10)) <= limit
    assert missed(0.9) > limit
