"""Intervals over seeds that do not shrink to a point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from endive.analysis.estimates import estimate, share_estimate


def test_a_mean_has_the_interval_of_student() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.n) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3.0), rel=1e-6)  # t(2) at 97.5 %
    assert estimate([1.0, 2.0, 3.0], 0.98).high > found.high


def test_one_seed_says_nothing() -> None:
    found = estimate([5.0])
    assert (found.mean, found.low, found.high) == (5.0, -math.inf, math.inf)


def test_seeds_that_all_succeed_leave_room_for_failures() -> None:
    """60 of 60: Wilson's lower end is n / (n + z^2)."""
    found = share_estimate([1.0] * 5, 60, 60)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(60.0 / (60.0 + 1.959964**2), rel=1e-6)


def test_seeds_that_all_fail_leave_room_for_successes() -> None:
    found = share_estimate([0.0] * 5, 0, 60)
    assert (found.mean, found.low) == (0.0, 0.0)
    assert 0.0 < found.high < 0.1


def test_many_transactions_of_runs_that_differ_have_the_spread_of_runs() -> None:
    values = [0.90, 0.95, 0.97, 0.99]
    found = share_estimate(values, 381_000, 400_000)
    plain = estimate(values)
    assert found.low == pytest.approx(plain.low)
    assert found.high == 1.0 < plain.high


def test_the_interval_of_a_share_holds_it_as_often_as_it_says() -> None:
    """A rare class: 12 transactions a run, 5 runs."""
    for share in (0.99, 0.95, 0.5):
        counts = np.random.default_rng(1).binomial(12, share, (400, 5))
        found = [share_estimate((row / 12.0).tolist(), int(row.sum()), 60) for row in counts]
        assert np.mean([each.low <= share <= each.high for each in found]) >= 0.95


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="share of nothing"):
        share_estimate([], 0, 0)
