from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from endive.analysis.theory import Attempts, predict_commits


def exponential(mean_ms: float, n: int = 20_000) -> np.ndarray:
    """A sample whose empirical distribution is the exponential one: its quantiles at the middles of n equal parts."""
    return -mean_ms * np.log1p(-(np.arange(n) + 0.5) / n)


def test_an_idle_pointer_commits_all_that_arrives_at_the_first_attempt() -> None:
    windows = exponential(100.0)
    found = predict_commits(0.001, Attempts(windows, windows), max_retries=4)
    assert found.throughput_per_s == pytest.approx(0.001, rel=1e-3)
    assert found.success == pytest.approx(1.0)
    assert found.attempts_per_transaction == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("rate", [0.5, 5.0, 50.0])
def test_without_retries_throughput_is_one_over_the_mean_time_between_commits(rate: float) -> None:
    """With exponential windows of mean m: P(T > t) = exp(-rate * (t - m * (1 - exp(-t / m))))."""
    mean_s = 0.1

    def survival(t: float) -> float:
        return math.exp(-rate * (t - mean_s * -math.expm1(-t / mean_s)))

    between_s, _ = integrate.quad(survival, 0.0, math.inf)
    windows = exponential(1000.0 * mean_s)
    found = predict_commits(rate, Attempts(windows, windows), max_retries=0)
    assert found.throughput_per_s == pytest.approx(1.0 / between_s, rel=2e-3)
    assert found.success == pytest.approx(1.0 / (rate * between_s), rel=2e-3)
    assert found.attempts_per_transaction == 1.0


def test_fixed_windows_without_retries() -> None:
    """After a commit, the first attempt to read commits one window later: 1 / throughput = 1 / rate + window."""
    windows = np.full(100, 200.0)
    found = predict_commits(10.0, Attempts(windows, windows), max_retries=0)
    assert found.throughput_per_s == pytest.approx(1.0 / (0.1 + 0.2), rel=2e-3)


@pytest.mark.parametrize("rate", [1.0, 5.0, 20.0])
def test_commits_are_the_transactions_that_succeed(rate: float) -> None:
    windows = exponential(100.0)
    found = predict_commits(rate, Attempts(windows + 1_000.0, windows), max_retries=6)
    assert found.throughput_per_s == pytest.approx(rate * found.success, rel=1e-3)


def test_attempts_that_find_the_table_unmoved_have_windows_of_their_own() -> None:
    windows = exponential(100.0)
    work = np.full(100, 10.0)
    slow_if_moved = Attempts(windows + 5_000.0, windows, unmoved_ms=windows, work_ms=work)
    idle = predict_commits(0.01, slow_if_moved, max_retries=4)
    assert idle.attempts_per_transaction == pytest.approx(1.0, abs=0.01)
    never_unmoved = predict_commits(0.01, Attempts(windows + 5_000.0, windows), max_retries=4)
    assert never_unmoved.attempts_per_transaction > 1.04


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    windows = exponential(100.0)
    with pytest.raises(ValueError, match="greater than 0"):
        predict_commits(rate, Attempts(windows, windows), max_retries=1)
