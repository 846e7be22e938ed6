"""How rows stand to the best peer: a real difference is found below noise that hits a whole round, a flat row is level, and
few rounds decide nothing."""

import dataclasses
import math

import numpy
import pytest
import scipy.stats
from report_recordings import MadeRow, make_run

from hakobench import judge, record, standing, statistics, summary
from hakobench.rows import BY_CPU

ROW = MadeRow("python-json", "one program", "")
COMMON = 0.38  # of the time of a run, from round to round
OWN = 0.005


def runs(gain: float, rounds: int = 15, common: float = COMMON, own: float = OWN, seed: int = 4) -> list[record.Run]:
    """A peer and a library of ours that is `gain` times as fast, in figures. `common` is the noise that both have in a
    round, `own` that of each run."""
    noise = numpy.random.default_rng(seed)
    made = []
    for turn in range(1, rounds + 1):
        speed = 100.0 * math.exp(noise.normal(0.0, common))
        for name, factor in (("jemalloc", 1.0), ("hz4", gain)):
            value = speed * factor * math.exp(noise.normal(0.0, own))
            made.append(make_run(ROW, 0, name, name == "hz4", round=turn, value=value, position=len(made) + 1))
    return made


def stands(made: list[record.Run]) -> standing.Standing:
    (line,) = summary.lines(made)
    return line.standing_to_best("hz4")


def by_cpu(made: list[record.Run]) -> list[record.Run]:
    """The same runs with their time as CPU time, and wall times that say nothing."""
    wall = numpy.random.default_rng(11)
    return [
        dataclasses.replace(run, judged_by=BY_CPU, cpu_seconds=100 / run.value, value=100 * math.exp(wall.normal(0, COMMON)))
        for run in made
    ]


@pytest.mark.parametrize("seed", range(5))
def test_pairs_find_two_percent_below_noise_of_a_round(seed: int) -> None:
    made = runs(1.02, seed=seed)
    ours, peer = ([run.value for run in made if run.ours is mine] for mine in (True, False))
    assert max(min(ours), min(peer)) < min(max(ours), max(peer)), "the rounds overlap"
    found = stands(made)
    assert found.word == standing.AHEAD
    assert found.interval.low <= 1.02 <= found.interval.high
    assert found.text == f"ahead ({found.interval.low:.3f} .. {found.interval.high:.3f})"
    assert stands(runs(0.97, seed=seed)).word == standing.BEHIND


def test_without_pairs_the_noise_hides_it() -> None:
    """The same figures with the rounds of one side in another order."""
    made = runs(1.02)
    turned = [dataclasses.replace(run, round=run.round % 15 + 1) if run.ours else run for run in made]
    found = stands(turned)
    assert found.word == standing.NOT_DECIDED
    assert found.interval.high / found.interval.low > 1.2


def test_a_flat_row_is_level() -> None:
    found = stands(runs(1.0))
    assert (found.word, found.text) == ("level within 2 %", "level within 2 %")
    assert 0.98 <= found.interval.low < found.interval.high <= 1.02


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ((1.010, 1.010, 1.010), standing.LEVEL),  # without a doubt not 1, but level all the same
        ((1.021, 1.021, 1.021), standing.AHEAD),
        ((0.979, 0.979, 0.979), standing.BEHIND),
        ((0.981, 0.981, 0.981), standing.LEVEL),
        ((0.9, 1.0, 1.1), standing.NOT_DECIDED),
    ],
)
def test_words(ratios: tuple[float, ...], word: str) -> None:
    assert standing.of([math.log(ratio) for ratio in ratios]).word == word


def test_few_rounds_decide_nothing() -> None:
    assert stands(runs(1.5, rounds=2, own=0.0)).text == "not decided (pairs: 2)"
    noisy = stands(runs(1.02, rounds=4, own=COMMON))
    assert noisy.word == standing.NOT_DECIDED
    assert noisy.text == f"not decided ({noisy.interval.low:.3f} .. {noisy.interval.high:.3f})"


def test_an_end_that_is_not_one_does_not_read_as_one() -> None:
    assert standing.Standing(standing.BEHIND, statistics.Interval(0.95, 0.9, 0.99996, 5)).text == "behind (0.900 .. 0.99996)"
    assert standing.Standing(standing.AHEAD, statistics.Interval(20.0, 9.5, 123.4, 5)).text == "ahead (9.500 .. 123)"


def test_no_run_is_left_out() -> None:
    """One pair of fifteen in which ours was ten times as slow: it counts with its full weight, and nothing is decided."""
    made = runs(1.05, common=0.0, own=0.001)
    assert stands(made).word == standing.AHEAD
    wild = [dataclasses.replace(run, value=run.value / 10) if run.ours and run.round == 7 else run for run in made]
    found = stands(wild)
    assert found.interval.ratio == pytest.approx(1.05 * 0.1 ** (1 / 15), rel=1e-3)
    assert (found.interval.pairs, found.word) == (15, standing.NOT_DECIDED)
    noisy = [dataclasses.replace(run, marks="noisy stolen unverified") for run in wild]
    assert stands(noisy) == found


def test_cpu_time_judges_the_rows_that_say_so() -> None:
    made = by_cpu(runs(1.02))
    assert stands(made).word == standing.AHEAD
    assert stands(made).interval.ratio == pytest.approx(stands(runs(1.02)).interval.ratio, rel=1e-6)
    by_figure = [dataclasses.replace(run, judged_by="figure") for run in made]
    assert stands(by_figure).word == standing.NOT_DECIDED
    (line,) = summary.lines(made)
    assert line.judged_by == BY_CPU
    assert line.cells["hz4"].value == pytest.approx(numpy.median([run.value for run in made if run.ours]))


def test_the_best_peer_is_the_one_with_the_least_cpu_time() -> None:
    made = [
        make_run(ROW, 0, "wasteful", value=120.0, cpu_seconds=2.0, judged_by=BY_CPU),
        make_run(ROW, 0, "thrifty", value=100.0, cpu_seconds=1.0, judged_by=BY_CPU),
        make_run(ROW, 0, "hz4", True, value=110.0, cpu_seconds=1.25, judged_by=BY_CPU),
    ]
    (line,) = summary.lines(made)
    assert line.best_peer.allocator == "thrifty"
    assert line.ratio_to_best("hz4") == pytest.approx(0.8)
    assert line.standing_to_best("thrifty") is None


def test_compare_judges_by_the_same_times() -> None:
    gate = judge.load_gate("any")
    (row,) = judge.compare_rows(by_cpu(runs(1.1)), "jemalloc", "hz4", gate)
    assert (row.judged_by, row.standing.word) == (BY_CPU, standing.AHEAD)
    assert row.interval.low <= 1.1 <= row.interval.high
    assert judge.verdict([row], "jemalloc", "hz4", gate).word == judge.GO
    (flat,) = judge.compare_rows(by_cpu(runs(1.0)), "jemalloc", "hz4", gate)
    assert flat.standing.word == standing.LEVEL
    assert judge.verdict([flat], "jemalloc", "hz4", gate).word == judge.UNDECIDED
    mixed = by_cpu(runs(1.1))
    mixed[0] = dataclasses.replace(mixed[0], judged_by="figure")
    with pytest.raises(ValueError, match="row python-json: CPU time judges some of its runs, and their figure the others"):
        judge.compare_rows(mixed, "jemalloc", "hz4", gate)


@pytest.mark.parametrize("cpu", [0.0, math.nan, -1.0])
def test_a_run_without_cpu_time_fails_where_it_judges(cpu: float) -> None:
    made = by_cpu(runs(1.1))
    made[1] = dataclasses.replace(made[1], cpu_seconds=cpu)
    gate = judge.load_gate("any")
    found = judge.verdict(judge.compare_rows(made, "jemalloc", "hz4", gate), "jemalloc", "hz4", gate)
    assert found.word == judge.NO_GO
    assert found.reasons == (f"hz4 failed in 1 of its runs of python-json: its CPU time is {cpu:g}, which is no speed",)


@pytest.mark.parametrize("pairs", [3, 5, 11])
def test_equals_are_called_different_in_five_percent(pairs: int) -> None:
    """Noise of a run: Student's t with 3 degrees of freedom, and 3 % of the runs 30 % slower. The limit would fail a
    correct interval with a probability below 1 %; an interval of 80 % fails it."""
    noise = numpy.random.default_rng(pairs)

    def sides() -> numpy.ndarray:
        return 0.02 * noise.standard_t(3, (300, pairs)) + 0.26 * (noise.random((300, pairs)) < 0.03)

    rows = (sides() - sides()).tolist()
    limit = scipy.stats.binom.isf(0.01, len(rows), 1 - statistics.PAIRS_CONFIDENCE)
    assert sum(not statistics.of_pairs(row).contains_one for row in rows) <= limit
    narrow = [statistics._interval([row], 0.8, 0.0, statistics.MIN_PAIRS) for row in rows]
    assert sum(not found.contains_one for found in narrow) > limit


def test_the_interval_is_that_of_students_t() -> None:
    values = numpy.random.default_rng(5).normal(0.03, 0.02, 40)
    found = statistics.of_pairs(values.tolist())
    expected = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert math.log(found.ratio) == pytest.approx(values.mean())
    assert math.log(found.high / found.low) == pytest.approx(expected.high - expected.low, rel=0.08)
    assert statistics.of_pairs(values.tolist()) == found
