"""MSER-5 against its definition and against series whose warm-up is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis.warmup import Truncation, mser, mser5

VALUES = st.lists(st.floats(0.0, 1e6), min_size=50, max_size=200)


def naive(values: list[float]) -> tuple[int, bool]:
    """The definition, step by step."""
    batches = [sum(values[i : i + 5]) / 5 for i in range(0, len(values) - len(values) % 5, 5)]
    errors = []
    for dropped in range(len(batches) - math.ceil(len(batches) / 4) + 1):
        left = batches[dropped:]
        mean = sum(left) / len(left)
        errors.append(sum((x - mean) ** 2 for x in left) / len(left) ** 2)
    half = len(batches) // 2
    best, anywhere = (int(np.argmin(some)) for some in (errors[: half + 1], errors))
    best, anywhere = (cut if errors[cut] < 0.8 * errors[0] else 0 for cut in (best, anywhere))
    return 5 * best, anywhere <= half


def test_a_hand_made_series_is_cut_where_it_settles() -> None:
    ramp, steady = [100.0] * 20, [10.0, 12.0, 8.0, 11.0, 9.0] * 16
    assert mser5(np.array(ramp + steady)) == Truncation(20, 20, settled=True)


def test_a_steady_series_is_not_cut() -> None:
    assert mser5(np.full(100, 7.0)) == Truncation(0, 0, settled=True)


def test_the_error_of_each_truncation_by_hand() -> None:
    # 4, 2, 2: all: mean 8/3, squares 8/3, /9; then nothing varies
    assert mser(np.array([4.0, 2.0, 2.0])) == pytest.approx([8 / 27, 0.0, 0.0])


def test_a_series_that_never_settles_is_cut_at_half_at_most_and_says_so() -> None:
    found = mser5(np.arange(200.0) ** 2)
    assert found.observations <= 100
    assert not found.settled


def test_a_short_series_is_not_cut_and_says_so() -> None:
    assert mser5(np.array([1000.0] * 5 + [1.0] * 44)) == Truncation(0, 0, settled=False)
    assert mser5(np.zeros(0)) == Truncation(0, 0, settled=False)


def test_a_few_quiet_batches_at_the_end_are_no_sign_of_a_change() -> None:
    """One writer that commits for a tenth of the time, at random: in the last 25 of 300 parts it happens not to."""
    series = (np.random.default_rng(1).random(300) < 0.1).astype(np.float64)
    series[275:] = 0.0
    assert mser5(series) == Truncation(0, 0, settled=True)
    regular = (np.arange(300.0) % 5.515 < 0.5).astype(np.float64)
    assert mser5(regular).settled


def test_what_does_not_fill_a_batch_is_left_out() -> None:
    series = [50.0] * 10 + [1.0, 2.0, 3.0, 2.0, 1.0] * 20
    assert mser5(np.array([*series, 1e9, 1e9])) == mser5(np.array(series))


@given(VALUES)
def test_it_is_the_definition(values: list[float]) -> None:
    found = mser5(np.array(values))
    cut, settled = naive(values)
    if (found.observations, found.settled) != (cut, settled):  # two truncations may be equally good but for rounding
        batches = np.array(values[: len(values) // 5 * 5]).reshape(-1, 5).mean(axis=1)
        errors = mser(batches)
        assert errors[found.observations // 5] == pytest.approx(errors[cut // 5], rel=1e-6, abs=1e-9 * max(values) ** 2 + 1e-12)


def test_noise_is_hardly_ever_cut() -> None:
    series = np.random.default_rng(5).poisson(20.0, (200, 300)).astype(np.float64)
    assert sum(mser5(each).observations > 0 for each in series) <= 10
