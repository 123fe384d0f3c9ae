"""Means over seeds and how far to trust them: Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

CONFIDENCE = 0.95
FEWEST_SEEDS = 3
"""With fewer seeds than this an interval says little, and tables flag it."""


@dataclass(frozen=True)
class Interval:
    """A mean over ``n`` seeds and the half width of its confidence interval, which one seed alone does not have."""

    mean: float
    half_width: float | None
    n: int


def half_widths(
    deviations: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], confidence: float = CONFIDENCE
) -> npt.NDArray[np.float64]:
    """Half widths from sample standard deviations; NaN where there are fewer than two seeds."""
    enough = counts >= 2
    safe = np.where(enough, counts, 2)
    widths = stats.t.ppf(0.5 + confidence / 2.0, safe - 1) * deviations / np.sqrt(safe)
    return np.where(enough, widths, np.nan)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The interval of a mean. Raises ValueError if there are no values."""
    if not values:
        raise ValueError("the mean of no values")
    n = len(values)
    if n < 2:
        return Interval(float(values[0]), None, n)
    width = half_widths(np.array([np.std(values, ddof=1)]), np.array([n]), confidence)
    return Interval(float(np.mean(values)), float(width[0]), n)
