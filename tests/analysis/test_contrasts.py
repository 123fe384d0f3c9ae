"""Differences over seeds, of two and of several configurations, against arithmetic by hand and by scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from endive.analysis.contrasts import (
    Difference,
    RunCounts,
    best_of,
    better,
    confidence_of_each,
    estimate_seeds_needed,
    least_rate_width,
    least_share_width,
    paired_difference,
    unpaired_difference,
    widen_difference,
    with_least_width,
)

A = [10.0, 12.0, 11.0, 13.0, 9.0]
B = [13.1, 15.0, 14.2, 15.9, 12.0]


def test_paired_differences_have_the_interval_of_student() -> None:
    found = paired_difference(A, B)
    expected = stats.ttest_rel(B, A).confidence_interval(0.95)
    assert found.difference == pytest.approx(3.04)
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert (found.n_a, found.n_b, found.paired, found.is_significant) == (5, 5, True, True)


def test_unpaired_differences_have_the_interval_of_welch() -> None:
    found = unpaired_difference(A, B[:4])
    expected = stats.ttest_ind(B[:4], A, equal_var=False).confidence_interval(0.95)
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert not found.paired
    assert found.half_width is not None
    paired = paired_difference(A, B).half_width
    assert paired is not None
    assert found.half_width > 5.0 * paired


def test_the_interval_of_the_ratio_holds_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    hits = 0
    for _ in range(500):
        a = generator.normal(100.0, 10.0, 8)
        b = 1.3 * a + generator.normal(0.0, 2.0, 8)
        found = paired_difference(a.tolist(), b.tolist())
        assert found.ratio is not None
        assert found.ratio_half_width is not None
        hits += abs(found.ratio - 1.3) <= found.ratio_half_width
    assert 0.93 <= hits / 500 <= 0.97


def test_one_seed_has_no_interval() -> None:
    for found in (paired_difference([1.0], [2.0]), unpaired_difference([1.0], [2.0, 3.0])):
        assert found.half_width is found.ratio_half_width is None
        assert not found.is_significant


def test_values_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="same number of values"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="needs values"):
        unpaired_difference([], [1.0])


def test_the_seeds_that_it_takes_tell_the_difference() -> None:
    """Repeating the same spread so often makes the interval just clear of 0."""
    a = [0.0, 0.0, 0.0, 0.0]
    b = [1.2, -0.8, 1.0, -0.6]
    found = paired_difference(a, b)
    assert not found.is_significant
    seeds = estimate_seeds_needed(found)
    assert seeds is not None

    def answer(n: int) -> bool:
        spread = np.std(b, ddof=1)
        return bool(abs(np.mean(b)) > stats.t.ppf(0.975, n - 1) * spread / np.sqrt(n))

    assert answer(seeds + 1)
    assert not answer(seeds - 2)


@pytest.mark.parametrize("seeds", [2, 3, 4, 10])
@pytest.mark.parametrize("size", [0.05, 0.3, 0.8, 0.999])
def test_the_seeds_that_it_takes_are_more_than_those_that_did_not_tell(seeds: int, size: float) -> None:
    """The quantile of Student falls with the seeds: fixed-point iteration went to and fro, and said 2 where 3 had not answer."""
    found = Difference(1.0, 1.0 + size, size, 1.0, None, None, seeds, seeds, paired=True)
    needed = estimate_seeds_needed(found)
    assert needed is not None
    spread = np.sqrt(seeds) / stats.t.ppf(0.975, seeds - 1)
    assert stats.t.ppf(0.975, needed - 1) * spread / np.sqrt(needed) < size
    assert needed > seeds
    assert needed == seeds + 1 or stats.t.ppf(0.975, needed - 2) * spread / np.sqrt(needed - 1) >= size


def test_no_number_of_seeds_tells_what_the_unfinished_leave_open() -> None:
    found = Difference(0.6, 0.5, -0.1, 0.5, None, None, 3, 3, paired=True)
    assert estimate_seeds_needed(found) is not None
    assert estimate_seeds_needed(with_least_width(found, 0.9, unfinished=0.4)) is None


def test_no_number_of_seeds_tells_what_is_equal() -> None:
    assert estimate_seeds_needed(paired_difference([1.0, 1.0], [1.0, 1.0])) is None
    assert estimate_seeds_needed(Difference(1.0, 1.0, 1e-9, 1.0, 1.0, 1.0, 5, 5, paired=True)) is None


@pytest.mark.parametrize(
    ("metric", "difference", "expected"),
    [
        ("throughput_per_s", 2.0, True),
        ("success_rate", -2.0, False),
        ("overhead", -2.0, None),
        ("time_to_commit_p99_ms", -2.0, True),
        ("offered_per_s", 2.0, None),
    ],
)
def test_which_is_better(metric: str, difference: float, expected: bool | None) -> None:
    assert better(metric, Difference(5.0, 5.0 + difference, difference, 1.0, 1.0, 0.1, 5, 5, paired=True)) is expected
    assert better(metric, Difference(5.0, 5.0 + difference, difference, 3.0, 1.0, 0.1, 5, 5, paired=True)) is None


def test_seeds_that_agree_do_not_make_an_interval_of_width_0() -> None:
    equal = paired_difference([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert (equal.half_width, equal.constant, equal.is_significant) == (None, True, False)
    share = with_least_width(equal, least_share_width(3000))
    assert share.half_width == pytest.approx(1.959964**2 / (3000 + 1.959964**2))
    assert share.is_significant is False
    assert least_rate_width(600.0) == pytest.approx(1.959964**2 / 600.0)


def test_the_same_difference_in_every_seed_is_one() -> None:
    """Fixed latencies: 2 ms in each of three seeds."""
    found = paired_difference([10.0, 10.0, 10.0], [12.0, 12.0, 12.0])
    assert (found.half_width, found.is_significant) == (None, True)
    assert not paired_difference([10.0, 10.0], [12.0, 12.0]).is_significant
    assert unpaired_difference([10.0, 10.0, 10.0], [12.0, 12.0, 12.0]).is_significant


def test_a_least_width_never_narrows() -> None:
    found = paired_difference(A, B)
    assert with_least_width(found, 0.001) == found
    assert with_least_width(paired_difference([1.0], [2.0]), 5.0).half_width is None


SEEDS = 10
EQUAL = 20
TRIALS = 1_000


def _drawn(generator: np.random.Generator, shifts: list[float]) -> dict[str, list[float]]:
    """Alternatives that share some noise by seed, as runs with common random numbers do."""
    common = generator.normal(100.0, 10.0, SEEDS)
    return {str(place): (common + shift + generator.normal(0.0, 2.0, SEEDS)).tolist() for place, shift in enumerate(shifts)}


def _compare_all(drawn: dict[str, list[float]]) -> dict[str, Difference]:
    """Compare all alternatives with alternative 0, with simultaneous intervals."""
    confidence = confidence_of_each(len(drawn) - 1)
    return {name: paired_difference(drawn["0"], values, confidence) for name, values in drawn.items() if name != "0"}


def test_intervals_of_many_alternatives_are_wider() -> None:
    a, b = [10.0, 12.0, 11.0, 13.0, 9.0], [13.1, 15.0, 14.2, 15.9, 12.0]
    expected = stats.ttest_rel(b, a).confidence_interval(1.0 - 0.05 / 20)
    found = paired_difference(a, b, confidence_of_each(20))
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert confidence_of_each(1) == confidence_of_each(0) == pytest.approx(0.95)


def test_equal_alternatives_are_reported_apart_in_one_trial_of_twenty_at_most() -> None:
    generator = np.random.default_rng(20)
    alarms = alone = 0
    for _ in range(TRIALS):
        drawn = _drawn(generator, [0.0] * (EQUAL + 1))
        alarms += any(each.is_significant for each in _compare_all(drawn).values())
        alone += any(paired_difference(drawn["0"], drawn[name]).is_significant for name in drawn if name != "0")
    assert alarms / TRIALS <= 0.05
    assert alone / TRIALS >= 0.3, "without the correction, equal alternatives would be reported apart often"


def test_a_planted_difference_is_found_among_equal_alternatives() -> None:
    """Of 8 with a noise of 2.8 between pairs: 9 standard errors."""
    generator = np.random.default_rng(21)
    found = 0
    for _ in range(200):
        drawn = _drawn(generator, [0.0, 8.0, *[0.0] * (EQUAL - 1)])
        answer = {name for name, each in _compare_all(drawn).items() if each.is_significant and each.difference > 0.0}
        found += answer == {"1"}
    assert found / 200 >= 0.9


def test_a_difference_of_few_transactions_has_a_wide_interval() -> None:
    counts = RunCounts(3000, 0, 600.0)
    found = widen_difference(paired_difference([1.0] * 3, [0.999] * 3), "success_rate", counts, counts)
    assert found.half_width == pytest.approx(1.959964**2 / (3000 + 1.959964**2))
    assert found.is_significant is False
    rate = widen_difference(paired_difference([1.0] * 3, [1.001] * 3), "throughput_per_s", counts, counts)
    assert rate.half_width == pytest.approx(1.959964**2 / 600.0)


def test_a_difference_of_success_covers_the_outcomes_of_transactions_in_flight() -> None:
    a, b = RunCounts(1000, 50, 600.0), RunCounts(1000, 100, 600.0)
    difference = paired_difference([0.85, 0.851, 0.849], [0.80, 0.80, 0.80])
    found = widen_difference(difference, "success_rate", a, b)
    assert difference.half_width is not None
    assert found.half_width == pytest.approx(difference.half_width + 0.025 + 0.05)
    assert widen_difference(difference, "time_to_commit_p95_ms", a, b) == difference
    assert widen_difference(difference, "time_to_commit_p95_ms", a, b, least_width=0.01).half_width == 0.01


def test_the_best_is_clear_only_if_it_beats_all_others() -> None:
    generator = np.random.default_rng(3)
    drawn = _drawn(generator, [0.0, 30.0, 10.0])
    best = best_of(drawn, "throughput_per_s")
    assert (best.name, best.clear, best.rivals) == ("1", True, ())
    assert best.leads["2"].difference == pytest.approx(np.mean(drawn["1"]) - np.mean(drawn["2"]))
    least = best_of(drawn, "time_to_commit_p95_ms")
    assert (least.name, least.clear) == ("0", True)
    assert least.leads["1"].difference < 0.0
    tie = best_of({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0], "c": [0.1, 1.2, 2.0]}, "success_rate")
    assert (tie.name, tie.clear, tie.rivals) == ("a", False, ("b",))


def test_the_leads_of_the_best_have_the_intervals_of_the_comparison() -> None:
    values = {"a": [3.0, 3.1], "b": [1.0, 1.2], "c": [2.0, 2.1]}
    asked = []

    def compare(a: str, b: str, confidence: float) -> Difference:
        asked.append((a, b, confidence))
        return with_least_width(paired_difference(values[a], values[b], confidence), 1.5)

    best = best_of(values, "throughput_per_s", compare)
    assert asked == [("b", "a", confidence_of_each(2)), ("c", "a", confidence_of_each(2))]
    assert (best.name, best.rivals) == ("a", ("c",))


def test_no_clear_best_among_equals() -> None:
    generator = np.random.default_rng(4)
    clear = sum(best_of(_drawn(generator, [0.0] * 8), "success_rate").clear for _ in range(200))
    assert clear / 200 <= 0.05


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="b: 2 finite values"):
        best_of({"a": [1.0, 2.0], "b": [1.0]}, "success_rate")
    with pytest.raises(ValueError, match="b: 2 finite values"):
        best_of({"a": [1.0, 2.0], "b": [1.0, math.inf]}, "success_rate")
    with pytest.raises(ValueError, match="neither more nor less"):
        best_of({"a": [1.0]}, "overhead")
    with pytest.raises(ValueError, match="no alternatives"):
        best_of({}, "success_rate")
    assert best_of({"a": [1.0]}, "success_rate").clear
