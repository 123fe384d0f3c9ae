"""Compute percentiles of times, some of which are infinite (aborted) or censored (in flight at the end of the run)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from endive.analysis import Flags, Floats

PERCENTS = (50, 95, 99)
BOUND_CONFIDENCE = 0.95
_PER_TAIL = 5.0


@dataclass(frozen=True)
class Bounded:
    """Number of a cohort with transactions in flight: ``value`` if it can be estimated, and its bounds.

    A percentile in ms is infinite if it falls on aborted transactions. ``at_least`` is None if there is no bound.
    """

    value: float | None
    at_least: float | None
    at_most: float | None


NOTHING = Bounded(None, None, None)


def fewest(share: float) -> int:
    """Return the smallest number of values of a percentile: 5 / (1 - q)."""
    return math.ceil(_PER_TAIL / (1.0 - share) - 1e-9)


def times_to_commit(waited_ms: Floats, committed: Flags, aborted: Flags, shares: Sequence[float]) -> list[Bounded]:
    """Return percentiles of the time to commit over a cohort.

    Args:
        waited_ms: Time from the start of each commit to its end, or to the end of the run.
        committed: Flags of the committed transactions.
        aborted: Flags of the aborted transactions.
        shares: Percentiles as shares.
    """
    n = len(waited_ms)
    if n == 0:
        return [NOTHING for _ in shares]
    unfinished = ~(committed | aborted)
    least = np.sort(np.where(aborted, np.inf, waited_ms))
    most = np.sort(np.where(committed, waited_ms, np.inf))
    curve = _kaplan_meier(waited_ms, committed, aborted)
    found = []
    for share in shares:
        if n < fewest(share):
            found.append(_bound(least, share))
            continue
        place = order_place(n, share)
        low, high = float(least[place]), float(most[place])
        estimable = int(unfinished.sum()) <= n * (1.0 - share) / 2.0
        found.append(Bounded(_quantile(curve, share) if estimable else None, low, high))
    return found


def plain_percentiles(values: Floats, shares: Sequence[float]) -> list[Bounded]:
    """Return percentiles of uncensored values, interpolated linearly between order statistics, as ``numpy.quantile`` does."""
    ordered = np.sort(values)
    found = []
    for share in shares:
        if len(ordered) < fewest(share):
            found.append(_bound(ordered, share))
        else:
            value = float(quantiles(ordered, [share])[0])
            found.append(Bounded(value, value, value))
    return found


def quantiles(in_order: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of sorted values as ``numpy.quantile`` does, without sorting again."""
    place = np.asarray(shares) * (len(in_order) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(in_order) - 1)
    return np.asarray(in_order[below] + (in_order[above] - in_order[below]) * (place - below))


def order_place(n: int, share: float) -> int:
    """Return the index of the order statistic that is the quantile."""
    return min(max(math.ceil(share * n - 1e-9), 1), n) - 1


def _bound(in_order: Floats, share: float) -> Bounded:
    """Bound a quantile of few values: the greatest order statistic that it reaches with 95% confidence."""
    n = len(in_order)
    term, tail = share**n, 0.0  # P(Binomial(n, share) = k) and P(>= k), for k = n, n - 1, ...
    for k in range(n, 0, -1):
        tail += term
        if tail >= BOUND_CONFIDENCE:
            return Bounded(None, float(in_order[k - 1]), math.inf)
        term *= k / (n - k + 1) * (1.0 - share) / share
    return NOTHING


def _kaplan_meier(waited_ms: Floats, committed: Flags, aborted: Flags) -> tuple[Floats, Floats]:
    """Return the times of commits in order and the survival after each; aborted transactions stay at risk."""
    ends = np.where(aborted, np.inf, waited_ms)
    # of equal times, commits precede censored transactions, as is usual
    order = np.lexsort((~committed, ends))
    at_risk = len(ends) - np.arange(len(ends))
    happened = committed[order]
    survival = np.cumprod(np.where(happened, 1.0 - 1.0 / at_risk, 1.0))
    return np.asarray(ends[order][happened]), np.asarray(survival[happened])


def _quantile(curve: tuple[Floats, Floats], share: float) -> float | None:
    """Return the first time by which this share has committed; None if there is none."""
    times, survival = curve
    place = int(np.searchsorted(-survival, share - 1.0 - 1e-12))
    return float(times[place]) if place < len(times) else None
