"""Intervals over seeds against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from endive.analysis.intervals import half_widths, mean_interval


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_interval_is_that_of_scipy(values: list[float]) -> None:
    found = mean_interval(values)
    assert found.half_width is not None
    assert found.n == len(values)
    assert found.mean == pytest.approx(float(np.mean(values)))
    spread = stats.sem(values)
    if spread > 1e-9 * (abs(found.mean) + 1e-300):
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=spread)
        assert found.half_width == pytest.approx((high - low) / 2, rel=1e-6, abs=1e-12)


def test_by_hand() -> None:
    # 1, 2, 3: deviation 1, t(0.975, 2) = 4.3027
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.half_width == pytest.approx(4.302653 / 3**0.5, rel=1e-6)


def test_one_seed_has_no_interval() -> None:
    assert mean_interval([5.0]).half_width is None
    assert np.isnan(half_widths(np.array([0.0]), np.array([1]))).all()


def test_no_seed_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
