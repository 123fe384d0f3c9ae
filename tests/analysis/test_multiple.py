"""Many alternatives against a baseline, against scipy, and by how often equal ones are told apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from endive.analysis.multiple import against_baseline, best_of, confidence_of_each

SEEDS = 10
EQUAL = 20
TRIALS = 1_000


def _drawn(generator: np.random.Generator, shifts: list[float]) -> dict[str, list[float]]:
    """Alternatives that share some noise by seed, as runs with common random numbers do."""
    common = generator.normal(100.0, 10.0, SEEDS)
    return {str(place): (common + shift + generator.normal(0.0, 2.0, SEEDS)).tolist() for place, shift in enumerate(shifts)}


def test_one_alternative_has_the_interval_of_student() -> None:
    a, b = [10.0, 12.0, 11.0, 13.0, 9.0], [13.1, 15.0, 14.2, 15.9, 12.0]
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    found = against_baseline(a, {"b": b})["b"]
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)


def test_many_alternatives_share_the_doubt() -> None:
    a, b = [10.0, 12.0, 11.0, 13.0, 9.0], [13.1, 15.0, 14.2, 15.9, 12.0]
    expected = stats.ttest_rel(b, a).confidence_interval(1.0 - 0.05 / 20)
    for found in against_baseline(a, dict.fromkeys(map(str, range(20)), b)).values():
        assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert confidence_of_each(1) == confidence_of_each(0) == pytest.approx(0.95)


def test_equal_alternatives_are_told_apart_in_one_trial_of_twenty_at_most() -> None:
    generator = np.random.default_rng(20)
    alarms = alone = 0
    for _ in range(TRIALS):
        drawn = _drawn(generator, [0.0] * (EQUAL + 1))
        baseline = drawn.pop("0")
        alarms += any(each.told for each in against_baseline(baseline, drawn).values())
        alone += any(each.told for each in (against_baseline(baseline, {"b": b})["b"] for b in drawn.values()))
    assert alarms / TRIALS <= 0.05
    assert alone / TRIALS >= 0.3, "without the correction, equal alternatives would be told apart often"


def test_a_planted_difference_is_found_among_equal_alternatives() -> None:
    """Of 8 with a noise of 2.8 between pairs: 9 standard errors."""
    generator = np.random.default_rng(21)
    found = 0
    for _ in range(200):
        drawn = _drawn(generator, [0.0, 8.0, *[0.0] * (EQUAL - 1)])
        told = {name for name, each in against_baseline(drawn.pop("0"), drawn).items() if each.told and each.difference > 0.0}
        found += told == {"1"}
    assert found / 200 >= 0.9


def test_a_least_width_holds_for_each() -> None:
    found = against_baseline([1.0, 1.0, 1.0], {"b": [0.999, 0.999, 0.999]}, least_width=0.01)["b"]
    assert (found.half_width, found.told) == (0.01, False)


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


def test_no_clear_best_among_equals() -> None:
    generator = np.random.default_rng(4)
    clear = sum(best_of(_drawn(generator, [0.0] * 8), "success_rate").clear for _ in range(200))
    assert clear / 200 <= 0.05


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="b: 2 finite values"):
        against_baseline([1.0, 2.0], {"b": [1.0]})
    with pytest.raises(ValueError, match="b: 2 finite values"):
        best_of({"a": [1.0, 2.0], "b": [1.0, math.inf]}, "success_rate")
    with pytest.raises(ValueError, match="neither more nor less"):
        best_of({"a": [1.0]}, "overhead")
    with pytest.raises(ValueError, match="no alternatives"):
        best_of({}, "success_rate")
    assert best_of({"a": [1.0]}, "success_rate").clear
