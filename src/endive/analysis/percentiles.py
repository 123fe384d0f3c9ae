"""Compute percentiles of times, some of which are infinite (aborted) or censored (in flight at the end of the run)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from endive.analysis import Floats, Ints
from endive.analysis.order_statistics import Ordered

PERCENTS = (50, 95, 99)
BOUND_CONFIDENCE = 0.95
_PER_TAIL = 5.0


@dataclass(frozen=True)
class Bounded:
    """Metric of a cohort with transactions in flight: ``value``, or None if it cannot be estimated, and bounds.

    A percentile in ms is infinite if it falls on aborted transactions. ``at_least`` is None if there is no bound.
    """

    value: float | None
    at_least: float | None
    at_most: float | None


NOTHING = Bounded(None, None, None)


def fewest(share: float) -> int:
    """Return the minimum number of values for an estimate of percentile q: 5 / (1 - q)."""
    return math.ceil(_PER_TAIL / (1.0 - share) - 1e-9)


@dataclass(frozen=True)
class CommitTimes:
    """Times to commit of some transactions.

    Attributes:
        committed: Times of committed transactions.
        in_flight: Elapsed times of transactions in flight at the end of the run, in ascending order.
        aborted: Number of aborted transactions.
    """

    committed: Ordered
    in_flight: Floats
    aborted: int

    def __len__(self) -> int:
        """Return the number of transactions."""
        return len(self.committed) + len(self.in_flight) + self.aborted

    def percentiles(self, shares: Sequence[float]) -> list[Bounded]:
        """Return percentiles.

        The time of an aborted transaction is infinite. The time of a transaction in flight exceeds its time so far.
        """
        return [self._percentile(share) for share in shares]

    def _percentile(self, share: float) -> Bounded:
        n = len(self)
        if n < fewest(share):
            return bound_of_few(n, self.least, share)
        place = order_place(n, share)
        rank = self._committed_by(share) if len(self.in_flight) <= n * (1.0 - share) / 2.0 else None
        return Bounded(None if rank is None else self.committed.at(rank), self.least(place), self.most(place))

    def least(self, place: int) -> float:
        """Return an order statistic under the assumption that transactions in flight commit immediately."""
        places = np.arange(len(self.in_flight)) + self._committed_before
        earlier = int(np.searchsorted(places, place))
        if earlier < len(places) and places[earlier] == place:
            return float(self.in_flight[earlier])
        return self.most(place - earlier)

    def most(self, place: int) -> float:
        """Return an order statistic under the assumption that transactions in flight never commit."""
        return self.committed.at(place) if place < len(self.committed) else math.inf

    def median(self) -> float:
        """Return the lower median; NaN if it is infinite or depends on transactions in flight."""
        place = (len(self) + 1) // 2 - 1
        if place >= len(self.committed):
            return math.nan
        value = self.committed.at(place)
        sooner = int(np.searchsorted(self.in_flight, value))
        return value if self.committed.first_equal(place) + sooner <= place else math.nan

    @cached_property
    def _committed_before(self) -> Ints:
        """For each transaction in flight, the number of transactions with a time to commit up to its time so far."""
        return self.committed.up_to(self.in_flight)

    def _committed_by(self, share: float) -> int | None:
        """Return the rank of the time by which a fraction ``share`` has committed, by the Kaplan-Meier estimate, or None.

        Aborted transactions remain at risk. If times are equal, commits precede transactions in flight. Between the times of two
        transactions in flight, each commit reduces the survival function by the same amount.
        """
        starts = np.concatenate(([0], self._committed_before))
        commits = np.diff(np.concatenate((starts, [len(self.committed)])))
        at_risk = len(self) - starts - np.arange(len(starts))
        factors = np.divide(at_risk - commits, at_risk, out=np.ones(len(starts)), where=at_risk > 0)
        after = np.cumprod(factors)
        limit = 1.0 - share + 1e-12
        stretch = int(np.searchsorted(-after, -limit))
        if stretch == len(after):
            return None
        before = float(after[stretch - 1]) if stretch else 1.0
        needed = math.ceil(float(at_risk[stretch]) * (1.0 - limit / before))
        return int(starts[stretch]) + min(max(needed, 1), int(commits[stretch])) - 1


def plain_percentiles(values: Ordered, shares: Sequence[float]) -> list[Bounded]:
    """Return percentiles of uncensored values, interpolated linearly between order statistics, as ``numpy.quantile`` does."""
    found = []
    for share in shares:
        if len(values) < fewest(share):
            found.append(bound_of_few(len(values), values.at, share))
        else:
            value = quantile(values, share)
            found.append(Bounded(value, value, value))
    return found


def quantile(values: Ordered, share: float) -> float:
    """Return a quantile as ``numpy.quantile`` does."""
    place = share * (len(values) - 1)
    rank = math.floor(place)
    below, above = values.at(rank), values.at(min(rank + 1, len(values) - 1))
    return below + (above - below) * (place - rank)


def order_place(n: int, share: float) -> int:
    """Return the index of a quantile among ``n`` sorted values."""
    return min(max(math.ceil(share * n - 1e-9), 1), n) - 1


def bound_of_few(n: int, at: Callable[[int], float], share: float) -> Bounded:
    """Return a lower bound for a quantile of few values: the greatest order statistic that it reaches with 95% confidence."""
    term, tail = share**n, 0.0  # P(Binomial(n, share) = k) and P(>= k), for k = n, n - 1, ...
    for k in range(n, 0, -1):
        tail += term
        if tail >= BOUND_CONFIDENCE:
            return Bounded(None, at(k - 1), math.inf)
        term *= k / (n - k + 1) * (1.0 - share) / share
    return NOTHING
