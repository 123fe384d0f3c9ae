"""Intervals over seeds that do not shrink to a point."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from endive.analysis.estimates import Estimate, estimate_metric, half_widths, mean_estimate, share_estimate, success_estimate


def test_a_mean_has_the_interval_of_student() -> None:
    found = mean_estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.n) == (2.0, 3)
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3.0), rel=1e-6)  # t(2) at 97.5 %
    assert mean_estimate([1.0, 2.0, 3.0], 0.98).high > found.high
    assert half_widths(np.array([1.0, 1.0]), np.array([3, 1]))[0] == pytest.approx(4.302653 / math.sqrt(3.0))
    assert np.isnan(half_widths(np.array([1.0]), np.array([1]))[0])


def test_one_seed_says_nothing_of_a_mean() -> None:
    found = mean_estimate([5.0])
    assert (found.mean, found.low, found.high, found.half_width) == (5.0, -math.inf, math.inf, None)
    with pytest.raises(ValueError, match="at least one value"):
        mean_estimate([])


def test_seeds_that_all_succeed_leave_room_for_failures() -> None:
    """30 of 30: Wilson's lower end is n / (n + z^2)."""
    found = share_estimate([10, 10, 10], [10, 10, 10])
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(30.0 / (30.0 + 1.959964**2), rel=1e-6)
    assert found.low == pytest.approx(0.886, abs=0.001)


def test_seeds_that_all_fail_leave_room_for_successes() -> None:
    found = share_estimate([0] * 5, [12] * 5)
    assert (found.mean, found.low) == (0.0, 0.0)
    assert 0.0 < found.high < 0.1


def test_runs_that_differ_widen_a_share_as_the_page_on_statistics_works_out() -> None:
    found = share_estimate([90, 80, 100], [100, 100, 100])
    assert found.mean == pytest.approx(0.9)
    assert found.low == pytest.approx(0.49, abs=0.01)
    assert found.high == pytest.approx(0.99, abs=0.01)


def test_runs_that_agree_are_not_taken_for_more_than_they_are() -> None:
    """Equal shares in all seeds: as wide as if the transactions were independent, and no narrower."""
    agreed = share_estimate([90, 90, 90], [100, 100, 100])
    single = share_estimate([270], [300])
    assert (agreed.low, agreed.high) == (single.low, single.high)


def test_seeds_without_transactions_are_not_counted() -> None:
    assert share_estimate([5, 0, 5], [10, 0, 10]).n == 2
    with pytest.raises(ValueError, match="at least one trial"):
        share_estimate([0], [0])


def test_success_is_a_range_where_something_is_unfinished() -> None:
    found = success_estimate([1], [9], [10])
    assert found.mean == pytest.approx(0.55)
    assert found.low < 0.1
    assert found.high == 1.0


@pytest.mark.parametrize("share", [0.99, 0.95, 0.5])
@pytest.mark.parametrize("spread", [0.0, 0.03])
def test_the_interval_of_a_share_holds_it_as_often_as_it_says(share: float, spread: float) -> None:
    """200 transactions a run, 5 runs, whose own shares differ."""
    generator = np.random.default_rng(1)
    own = np.clip(share + spread * (1.0 - share) * generator.uniform(-17.0, 17.0, (600, 5)), 0.0, 1.0)
    counts = generator.binomial(200, own)
    found = [share_estimate(row.tolist(), [200] * 5) for row in counts]
    truth = float(own.mean())
    assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.93


def row(**values: object) -> dict[str, object]:
    return {"transactions": 10, "committed": 8, "in_flight": 1, "commits_in_window": 9, **values}


def test_metrics_over_seeds_leave_out_what_is_not_there() -> None:
    rows = [row(x=1.0), row(x=None), row(x=3.0)]
    assert estimate_metric(rows, "x") == replace(mean_estimate([1.0, 3.0]), low=0.0)
    assert estimate_metric([row(x=None)], "x") is None
    nothing = {"transactions": 0, "committed": 0, "in_flight": 0, "commits_in_window": 0}
    found = estimate_metric([row(), nothing], "success_rate")
    assert found is not None
    assert found.mean == pytest.approx(0.85)
    assert found.n == 1
    assert estimate_metric([nothing], "success_rate") is None
    ratio = estimate_metric([row(), row(commits_in_window=12)], "throughput_ratio")
    assert ratio is not None
    assert (ratio.mean, ratio.high) == (1.0, 1.0)


def test_both_ends_of_success_are_shares_of_their_own() -> None:
    rows = [row(), row(transactions=30, committed=15, in_flight=6)]
    assert estimate_metric(rows, "success_low") == share_estimate([8, 15], [10, 30])
    assert estimate_metric(rows, "success_high") == share_estimate([9, 21], [10, 30])
    assert estimate_metric(rows, "success_rate") == success_estimate([8, 15], [1, 6], [10, 30])
    assert estimate_metric(rows, "success_high", 0.5) == share_estimate([9, 21], [10, 30], 0.5)


def percentile(value: float | None, least: float | None, most: float | None) -> dict[str, object]:
    return row(t_p99_ms=value, t_p99_at_least_ms=least, t_p99_at_most_ms=most)


def test_a_bound_is_not_lower_than_a_lower_percentile() -> None:
    """Two seeds, p50 of 20 and 5 ms; their p95 is known to be above 22 and 7 ms: on average, not below 12.5 ms."""
    rows = [
        {
            "time_to_commit_p50_ms": median,
            **{f"time_to_commit_p{p}_ms": None for p in (95, 99)},
            **{f"time_to_commit_p{p}_at_least_ms": median + 2.0 for p in (50, 95)},
            **{f"time_to_commit_p{p}_at_most_ms": math.inf for p in (50, 95, 99)},
            "time_to_commit_p99_at_least_ms": None,
        }
        for median in (20.0, 5.0)
    ]
    rows[0]["time_to_commit_p99_at_least_ms"] = 9.0
    assert estimate_metric(rows, "time_to_commit_p95_ms") == Estimate(12.5, 12.5, math.inf, 2, "bound")
    assert estimate_metric(rows, "time_to_commit_p99_ms") == Estimate(12.5, 12.5, math.inf, 1, "bound")


def test_percentiles_over_seeds_are_numbers_bounds_or_never() -> None:
    numbers = [percentile(5.0, 5.0, 6.0), percentile(7.0, 7.0, 7.0)]
    assert estimate_metric(numbers, "t_p99_ms") == replace(mean_estimate([5.0, 7.0]), low=0.0)
    mixed = [*numbers, percentile(None, 3.0, math.inf)]
    assert estimate_metric(mixed, "t_p99_ms") == Estimate(3.0, 3.0, math.inf, 3, "bound")
    never = [percentile(None, math.inf, math.inf)] * 2
    assert estimate_metric(never, "t_p99_ms") == Estimate(math.inf, math.inf, math.inf, 2, "never")
    assert estimate_metric([*never, *numbers], "t_p99_ms") == Estimate(5.0, 5.0, math.inf, 4, "bound")
    assert estimate_metric([percentile(None, None, None)], "t_p99_ms") is None
    unbounded = [percentile(5.0, None, None), percentile(None, 7.0, math.inf)]  # a number without bounds is its own
    assert estimate_metric(unbounded, "t_p99_ms") == Estimate(5.0, 5.0, math.inf, 2, "bound")


def test_no_interval_of_a_metric_ends_below_zero() -> None:
    """Retries of 0, 0 and 0.003 per transaction: Student's interval would reach from -0.0033."""
    rows = [{"retries_per_txn": value} for value in (0.0, 0.0, 0.003)]
    found = estimate_metric(rows, "retries_per_txn")
    assert found is not None
    assert found.mean == pytest.approx(0.001)
    assert found.low == 0.0
    assert found.half_width == pytest.approx(mean_estimate([0.0, 0.0, 0.003]).half_width)
    alone = estimate_metric(rows[:1], "retries_per_txn")
    assert alone is not None
    assert alone.low == -math.inf
