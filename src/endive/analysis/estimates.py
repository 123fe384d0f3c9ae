"""A metric over seeds, with both ends of its interval.

What flows in: a value for each seed and, for shares of transactions, what they are shares of. What flows out: the mean over seeds
and an interval that does not shrink to a point when all seeds agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from endive.analysis.intervals import CONFIDENCE, mean_interval


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` seeds and the ends of its interval, which are infinite where one seed alone cannot tell."""

    mean: float
    low: float
    high: float
    n: int


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """A mean over seeds with its interval by Student's t. Raises ValueError if there are no values."""
    interval = mean_interval(values, confidence)
    width = math.inf if interval.half_width is None else interval.half_width
    return Estimate(interval.mean, interval.mean - width, interval.mean + width, interval.n)


def share_estimate(values: Sequence[float], successes: int, trials: int, confidence: float = CONFIDENCE) -> Estimate:
    """The mean over seeds of a share, such as the rate of success; ``successes`` of ``trials`` are those of all seeds together.

    Student's t takes the spread between seeds for the whole uncertainty. Of a rare class each seed may have a handful of
    transactions, all of them committed: then there is no spread, and t claims to know the share exactly. Wilson's interval of the
    pooled counts knows how few they are, but takes transactions for independent, which those of one run are not. Each end is that
    of the wider of the two: Wilson's where seeds agree, Student's where transactions are many and runs differ.
    """
    if trials <= 0:
        raise ValueError("a share of nothing")
    wilson = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    mean = mean_interval(values, confidence)
    if mean.half_width is None:
        return Estimate(mean.mean, float(wilson.low), float(wilson.high), mean.n)
    low = max(0.0, min(mean.mean - mean.half_width, float(wilson.low)))
    high = min(1.0, max(mean.mean + mean.half_width, float(wilson.high)))
    return Estimate(mean.mean, low, high, mean.n)
