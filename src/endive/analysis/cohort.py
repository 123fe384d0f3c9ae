"""Select the transactions that started committing in a window, count transactions by time, and pair two configurations.

Counters accumulate the rows of a run chunk by chunk, by group and time bin. A pair is the same transaction in two configurations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints
from endive.analysis.percentiles import NOTHING, Bounded
from endive.analysis.warmup import Window


def time_places(moments_ms: Floats, edges_ms: Floats) -> Ints:
    """Return the time bin of each time, counted from 1; 0 for a time before all bins, the number of edges for a later time.

    A time on an edge belongs to the bin after the edge. A time on the last edge belongs to the last bin.
    """
    if not len(moments_ms):
        return np.zeros(0, np.int64)
    least, most = np.searchsorted(edges_ms, (moments_ms.min(), moments_ms.max()), side="right").tolist()
    if least == most < len(edges_ms):  # rows are in chronological order, so a chunk often lies within one bin
        return np.broadcast_to(np.int64(least), len(moments_ms))
    if most - least > _FEW:
        places = least + np.searchsorted(edges_ms[least:most], moments_ms, side="right")
    else:
        places = np.full(len(moments_ms), least)
        for edge_ms in edges_ms[least:most]:
            places += moments_ms >= edge_ms
    return np.asarray(places - (moments_ms == edges_ms[-1]) if most == len(edges_ms) else places)


_FEW = 8
"""Maximum number of sets for which one sum per set is faster than ``numpy.bincount``, whose additions to a set are sequential."""


def count_by(groups: Ints, number: int, chosen: Flags | None = None, weights: npt.NDArray[np.generic] | None = None) -> Floats:
    """Count the chosen rows of each group, or sum their weights. Without ``chosen``, all rows count."""
    if weights is not None and weights.strides == (0,):
        return count_by(groups, number, chosen) * float(weights[0]) if len(weights) else np.zeros(number)
    if chosen is not None and not chosen.all():
        weights = chosen if weights is None else np.where(chosen, weights, 0)
    if number > _FEW:
        return np.bincount(groups, weights=weights, minlength=number).astype(np.float64)
    if number == 1:
        return np.array([float(len(groups) if weights is None else weights.sum())])
    members = (groups == group for group in range(number))
    return np.array([float(np.count_nonzero(own) if weights is None else np.where(own, weights, 0).sum()) for own in members])


def take_chosen(chosen: Flags, *columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Return the chosen rows of columns, or the columns themselves if all rows are chosen."""
    return columns if chosen.all() else tuple(column[chosen] for column in columns)


class TimeCounts:
    """Counter of rows, or sum of their weights, by group and time bin."""

    def __init__(self, groups: int, edges_ms: Floats) -> None:
        self.edges_ms = edges_ms
        self._groups = groups
        self._table = np.zeros((groups, len(edges_ms) + 1))

    def add(self, groups: Ints, places: Ints, weights: npt.NDArray[np.generic] | None = None) -> None:
        """Add rows. ``places`` are their time bins as returned by ``time_places``."""
        if not len(places):
            return
        first, last = int(places.min()), int(places.max())
        if last - first < _FEW:
            for place in range(first, last + 1):
                self._table[:, place] += count_by(groups, self._groups, None if first == last else places == place, weights)
        else:
            keys = places if self._groups == 1 else groups * self._table.shape[1] + places
            self._table += np.bincount(keys, weights=weights, minlength=self._table.size).reshape(self._table.shape)

    @property
    def bins(self) -> Floats:
        """Number of rows of each group in each time bin."""
        return self._table[:, 1:-1]

    @property
    def earlier(self) -> Floats:
        """Number of rows of each group before each time bin."""
        return np.cumsum(self._table[:, :-2], axis=1)


class CommittingCounts:
    """Mean number of committing transactions by group and time bin.

    A transaction counts from the time at which it starts committing to its end. A start adds the rest of its bin and all later
    bins. An end subtracts the rest of its bin and all later bins.
    """

    def __init__(self, groups: int, edges_ms: Floats) -> None:
        self.edges_ms = edges_ms
        self.starts, self._ends = TimeCounts(groups, edges_ms), TimeCounts(groups, edges_ms)
        self._rest = TimeCounts(groups, edges_ms)
        self._limits = np.concatenate((edges_ms, [0.0]))

    def add(self, groups: Ints, entry_ms: Floats, end_ms: Floats) -> Ints:
        """Add transactions, and return the time bin in which each transaction started committing."""
        for sign, moments, counts in ((1.0, entry_ms, self.starts), (-1.0, end_ms, self._ends)):
            places = time_places(moments, self.edges_ms)
            counts.add(groups, places)
            self._rest.add(groups, places, sign * (self._limits[places] - moments))
            if sign > 0.0:
                entered = places
        return entered

    @property
    def mean(self) -> Floats:
        """Mean number of committing transactions of each group in each time bin."""
        widths = np.diff(self.edges_ms)
        whole = (self.starts.earlier - self._ends.earlier) * widths
        return np.asarray(np.maximum(whole + self._rest.bins, 0.0) / widths)


class NumberCounts:
    """Counter of rows by group and by the value of a column of non-negative integers."""

    def __init__(self, groups: int) -> None:
        self.table = np.zeros((groups, 1), np.int64)

    def add(self, groups: Ints, numbers: Ints) -> None:
        """Add rows."""
        if not len(numbers):
            return
        rows, columns = self.table.shape
        most = int(numbers.max()) + 1
        if most > columns:
            columns = max(most, 2 * columns)
            self.table = np.concatenate((self.table, np.zeros((rows, columns - self.table.shape[1]), np.int64)), axis=1)
        if numbers.strides == (0,):
            self.table[:, numbers[0]] += count_by(groups, rows).astype(np.int64)
            return
        self.table += np.bincount(groups * columns + numbers, minlength=self.table.size).reshape(self.table.shape)


_MOST_ESTIMATED = 0.05
"""Maximum fraction of the estimated retries that transactions in flight may account for."""


@dataclass(frozen=True)
class Transactions:
    """Transactions of one run as columns; times are in ms.

    ``entry_ms`` is the time at which a transaction started committing, or negative if it did not start. ``end_ms`` is the time at
    which it committed or aborted, or the end of the run for a transaction in flight.
    """

    entry_ms: Floats
    end_ms: Floats
    committed: Flags
    aborted: Flags

    @classmethod
    def of_rows(
        cls, t_commit_start: Floats, t_submit: Floats, total_latency: Floats, t_commit: Floats, committed: Flags, aborted: Flags
    ) -> Transactions:
        """Create transactions from columns of results.

        For a transaction in flight, ``total_latency`` is the time from its submission to the end of the run. A read-only
        transaction has no ``t_commit_start``; its end is used instead.
        """
        entry = np.where(committed & (t_commit_start < 0.0), t_commit, t_commit_start)
        return cls(entry, np.where(committed, t_commit, t_submit + total_latency), committed, aborted)

    @classmethod
    def of_commits(cls, t_commit_start: Floats, t_commit: Floats) -> Transactions:
        """Create transactions from columns of results in which every transaction committed."""
        entry = np.where(t_commit_start < 0.0, t_commit, t_commit_start)
        return cls(entry, t_commit, np.ones(len(entry), np.bool_), np.zeros(len(entry), np.bool_))

    @classmethod
    def join(cls, parts: Sequence[Transactions]) -> Transactions:
        """Concatenate sets of transactions."""
        entry, end = (np.concatenate([np.zeros(0), *(getattr(each, name) for each in parts)]) for name in ("entry_ms", "end_ms"))
        none = np.zeros(0, np.bool_)
        committed, aborted = (np.concatenate([none, *(getattr(each, name) for each in parts)]) for name in ("committed", "aborted"))
        return cls(entry, end, committed, aborted)

    def take(self, places: Ints) -> Transactions:
        """Return the transactions at these indices."""
        return Transactions(self.entry_ms[places], self.end_ms[places], self.committed[places], self.aborted[places])

    def until(self, end_ms: float) -> Transactions:
        """Return the transactions in their state at ``end_ms``, as without ``drain``: transactions that end later are in flight.

        After the end of arrivals, contention decreases, so later outcomes are not representative of the system under load.
        """
        late = self.end_ms > end_ms
        if not late.any():
            return self
        entry = np.where(self.entry_ms > end_ms, -1.0, self.entry_ms)
        return Transactions(entry, np.minimum(self.end_ms, end_ms), self.committed & ~late, self.aborted & ~late)

    @property
    def entered(self) -> Flags:
        """Flags of the transactions that started committing before the end of the run."""
        return np.asarray(self.entry_ms >= 0.0)

    def cohort(self, window: Window) -> Flags:
        """Flag the transactions that started committing in the window.

        The end of the window is included only if it is the end of the run.
        """
        return np.asarray(_is_inside(self.entry_ms, window) & self.entered)

    def committed_in(self, window: Window) -> Flags:
        """Flag the transactions that committed in the window."""
        return np.asarray(self.committed & _is_inside(self.end_ms, window))


def _is_inside(moments_ms: Floats, window: Window) -> Flags:
    before_end = moments_ms <= window.end_ms if window.end_ms >= window.duration_ms else moments_ms < window.end_ms
    return np.asarray((moments_ms >= window.start_ms) & before_end)


def success_range(committed: int, unfinished: int, entered: int) -> tuple[float, float, float] | tuple[None, None, None]:
    """Return the success rate if all transactions in flight abort, the midpoint, and the success rate if all of them commit.

    All three are None for an empty cohort.
    """
    if not entered:
        return None, None, None
    return committed / entered, (committed + unfinished / 2.0) / entered, (committed + unfinished) / entered


def expected_retries(retries: Ints, finished: Flags) -> float:
    """Estimate the total retries of some transactions, including future retries of transactions in flight."""
    most = int(retries.max(initial=0)) + 1
    return expected_retries_of_counts(*(np.bincount(retries[chosen], minlength=most) for chosen in (finished, ~finished)))


def expected_retries_of_counts(ended: Ints, unfinished: Ints) -> float:
    """Estimate the total retries from the numbers of ended and of unfinished transactions with 0, 1, 2, ... retries.

    A transaction in flight needs at least the retries that it has made so far. The Kaplan-Meier estimate of the fraction that needs
    more than ``k`` retries therefore counts it as at risk up to that number. The plain sum of retries would be too low, because
    transactions that need many retries are in flight more often than others.
    """
    whole = ended + unfinished
    if not unfinished.any():
        return float((whole * np.arange(len(whole))).sum())
    last = int(np.flatnonzero(whole)[-1]) + 1
    ended, unfinished, whole = ended[:last], unfinished[:last], whole[:last]
    at_risk = whole[::-1].cumsum()[::-1] - unfinished
    more = np.cumprod(1.0 - np.divide(ended, at_risk, out=np.zeros(len(ended)), where=at_risk > 0))
    return float(more[:-1].sum()) * int(whole.sum())


def bound_retries(expected: float, so_far: float, unfinished: int, entered: int) -> Bounded:
    """Return the retries per transaction of a cohort and their bounds.

    The value is the Kaplan-Meier estimate. It is None if too few transactions have ended: if transactions in flight account for
    more than 5% of the estimate, or if more transactions are in flight than have ended. The lower bound counts only the retries
    made so far.

    Args:
        expected: Estimated total retries; see ``expected_retries``.
        so_far: Total retries until the end of the run.
        unfinished: Number of transactions in flight at the end of the run.
        entered: Number of transactions in the cohort.
    """
    if not entered:
        return NOTHING
    is_known = expected - so_far <= _MOST_ESTIMATED * expected and unfinished <= entered - unfinished
    value = expected / entered if is_known else None
    return Bounded(value, so_far / entered, math.inf if unfinished else so_far / entered)


def committing(transactions: Transactions, edges_ms: Floats) -> Floats:
    """Return the mean number of committing transactions in each time bin."""
    counts = CommittingCounts(1, edges_ms)
    entered = transactions.entered
    counts.add(np.zeros(int(entered.sum()), np.int64), transactions.entry_ms[entered], transactions.end_ms[entered])
    return np.asarray(counts.mean[0])


@dataclass(frozen=True)
class Submitted:
    """Transactions of one class of one run in the order of their submission, and the submission times."""

    submit_ms: Floats
    transactions: Transactions

    @classmethod
    def in_order(cls, txn_id: Ints, submit_ms: Floats, transactions: Transactions) -> Submitted:
        """Sort rows, which may be in any order, by submission."""
        order = np.argsort(txn_id, kind="stable")
        return cls(submit_ms[order], transactions.take(order))


@dataclass(frozen=True)
class Pairs:
    """Numbers of pairs. Both transactions of a pair started committing in the window.

    ``faster_b`` and ``slower_b`` count the pairs that committed in both A and B, with different times to commit. ``unfinished``
    counts the pairs with a transaction in flight at the end of the run.
    """

    pairs: int = 0
    both: int = 0
    faster_b: int = 0
    slower_b: int = 0
    only_a: int = 0
    only_b: int = 0
    neither: int = 0
    unfinished: int = 0

    def __add__(self, other: Pairs) -> Pairs:
        """Add two counts."""
        return Pairs(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


def pair_run(a: Mapping[str, Submitted], b: Mapping[str, Submitted], window: Window) -> dict[str, Pairs | None]:
    """Count the pairs of two runs with the same seed, by class; None for a class that cannot be paired."""
    return {name: pair_class(a[name], b[name], window) for name in sorted(set(a) & set(b))}


def pair_class(a: Submitted, b: Submitted, window: Window) -> Pairs | None:
    """Count the pairs of one class; None if the submission times of A and B differ.

    A closed loop cannot be paired, because the submission time of a transaction depends on the end of the previous one.
    """
    n = min(len(a.submit_ms), len(b.submit_ms))
    if not np.array_equal(a.submit_ms[:n], b.submit_ms[:n]):
        return None
    first, second = a.transactions.take(np.arange(n)), b.transactions.take(np.arange(n))
    return _count(first, second, first.cohort(window) & second.cohort(window))


def _count(a: Transactions, b: Transactions, inside: Flags) -> Pairs:
    both = inside & a.committed & b.committed
    gain = ((b.end_ms - b.entry_ms) - (a.end_ms - a.entry_ms))[both]
    same = np.abs(gain) <= 1e-9 * np.maximum((a.end_ms - a.entry_ms)[both], 1.0)
    return Pairs(
        pairs=int(inside.sum()),
        both=int(both.sum()),
        faster_b=int(np.sum((gain < 0.0) & ~same)),
        slower_b=int(np.sum((gain > 0.0) & ~same)),
        only_a=int(np.sum(inside & a.committed & b.aborted)),
        only_b=int(np.sum(inside & b.committed & a.aborted)),
        neither=int(np.sum(inside & a.aborted & b.aborted)),
        unfinished=int(np.sum(inside & ~((a.committed | a.aborted) & (b.committed | b.aborted)))),
    )
