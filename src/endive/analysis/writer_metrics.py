"""Measure freshness of data and fairness among writers.

Freshness is the age of the oldest data of a commit when the data becomes visible, for classes with writers or a committer. Age is
measured from the time at which collection of the data starts (column ``t_data_start``). Percentiles are taken over data instead of
commits: the weight of a commit is the time from the start of the collection to its submission. Data of an aborted transaction is
part of the next commit of the same writer.

Fairness consists of the distribution of commits over writers, the fraction of writers without a commit, and losing streaks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from endive.analysis import Flags, Floats, Ints
from endive.analysis.order_statistics import SortedValues
from endive.analysis.percentiles import NOTHING, Bounded, bound_of_few, fewest

if TYPE_CHECKING:
    from endive.analysis.cohort import Transactions
    from endive.analysis.warmup import Window


from collections.abc import Mapping

FRESHNESS = "freshness"
DATA_START = "t_data_start"
WITHOUT_DATA = frozenset({"rewrite_files", "expire_snapshots", "read_only"})
"""Operations that do not make new data visible."""


@dataclass(frozen=True)
class _Last:
    """Last transaction of a writer."""

    group: int
    committed: bool
    start_ms: float
    submit_ms: float
    end_ms: float


class DataAges:
    """Ages of committed data by group, and of data that is not visible at the end of the run.

    Args:
        classes: Number of the workload class of each group.
        has_data: Whether the commits of each group make data visible.
        window: Window of the cohort.
    """

    def __init__(self, classes: Ints, has_data: Flags, window: Window) -> None:
        self._classes = classes
        self._has_data = has_data
        self._window = window
        self._groups: list[Ints] = []
        self._ages: list[Floats] = []
        self._spans: list[Floats] = []
        self._last: dict[tuple[int, int], _Last] = {}

    def add(
        self, groups: Ints, transactions: Transactions, starts_ms: Floats, submits_ms: Floats, clients: Ints, done: Flags
    ) -> None:
        """Add rows in order. ``done`` flags the commits of the cohort."""
        if starts_ms.strides == (0,) and len(starts_ms) and starts_ms[0] < 0.0:
            return
        owned = (starts_ms >= 0.0) & self._has_data[groups]
        chosen = owned & done
        self._groups.append(groups[chosen])
        self._ages.append((transactions.end_ms - starts_ms)[chosen])
        self._spans.append((submits_ms - starts_ms)[chosen])
        places = np.flatnonzero(owned)[::-1]
        keys = np.stack((self._classes[groups[places]], clients[places]))
        _, firsts = np.unique(keys, axis=1, return_index=True)
        for place in places[firsts].tolist():
            key = (int(self._classes[groups[place]]), int(clients[place]))
            self._last[key] = _Last(
                int(groups[place]),
                bool(transactions.committed[place]),
                float(starts_ms[place]),
                float(submits_ms[place]),
                float(transactions.end_ms[place]),
            )

    def percentiles(self, members: Sequence[int], shares: Sequence[float]) -> list[Bounded]:
        """Return percentiles of the age of data. For data that is not visible at the end of the run, the age is a lower bound."""
        groups = np.concatenate([np.zeros(0, np.int64), *self._groups])
        own = np.isin(groups, members)
        ages, spans = (np.concatenate([np.zeros(0), *each])[own] for each in (self._ages, self._spans))
        window = self._window
        pending = [
            each
            for each in self._last.values()
            if each.group in members and not each.committed and window.start_ms <= each.submit_ms <= window.end_ms
        ]
        waiting_ages = np.array([each.end_ms - each.start_ms for each in pending])
        waiting_spans = np.array([each.submit_ms - each.start_ms for each in pending])
        return weighted_percentiles(ages, spans, waiting_ages, waiting_spans, shares)


def weighted_percentiles(
    ages_ms: Floats, weights: Floats, waiting_ms: Floats, waiting_weights: Floats, shares: Sequence[float]
) -> list[Bounded]:
    """Return percentiles of weighted ages, some of which are known only as lower bounds.

    A percentile is the smallest age for which data up to this age has the given fraction of the total weight. It is known if the
    weight of waiting data is at most half of the weight above it.

    Args:
        ages_ms: Ages of visible data.
        weights: Weights of these ages.
        waiting_ms: Ages so far of data that is not visible.
        waiting_weights: Weights of these ages.
        shares: Percentiles as fractions, in ascending order.
    """
    ages, all_weights = np.concatenate((ages_ms, waiting_ms)), np.concatenate((weights, waiting_weights))
    highest = np.concatenate((ages_ms, np.full(len(waiting_ms), np.inf)))
    weighty = all_weights > 0.0
    ages, highest, all_weights = ages[weighty], highest[weighty], all_weights[weighty]
    if not len(ages):
        return [NOTHING for _ in shares]
    waiting = float(waiting_weights.sum() / all_weights.sum())
    found: list[Bounded] = []
    for share in shares:
        low, high = _weighted_quantile(ages, all_weights, share), _weighted_quantile(highest, all_weights, share)
        bounded = Bounded(high if waiting <= (1.0 - share) / 2.0 else None, low, high)
        if len(ages) < fewest(share):
            lower = max((each.at_least for each in found if each.at_least is not None), default=None)
            bounded = _raise_bound(bound_of_few(len(ages), SortedValues(np.sort(ages)).at, share), lower)
        found.append(bounded)
    return found


def _raise_bound(bounded: Bounded, lower: float | None) -> Bounded:
    """Raise the lower bound of a percentile to that of a lower percentile. Percentiles are weighted by the amount of data."""
    if lower is None or (bounded.at_least is not None and bounded.at_least >= lower):
        return bounded
    return Bounded(bounded.value, lower, math.inf)


def _weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    place = int(np.searchsorted(cumulative, share * cumulative[-1] * (1.0 - 1e-12)))
    return float(values[order][min(place, len(values) - 1)])


FAIRNESS = ("jain_index", "writers_without_commit", "longest_losing_streak", "most_attempts")
"""Names of the metrics."""


@dataclass(frozen=True)
class Fairness:
    """Fairness among the writers of a class.

    Attributes:
        writers: Number of writers.
        jain_index: 1 if all writers commit equally often, ``1 / writers`` if only one commits.
        share_without_commit: Fraction of writers without a commit.
        longest_losing_streak: Maximum number of consecutive transactions of one writer, in order of end time, that did not commit.
    """

    writers: int
    jain_index: float
    share_without_commit: float
    longest_losing_streak: int


def jain_index(counts: Ints | Floats) -> float:
    """Compute Jain's index, ``(sum x)^2 / (n sum x^2)``; 1 if there are no values or all are 0."""
    values = np.asarray(counts, np.float64)
    squares = float((values * values).sum())
    return 1.0 if squares == 0.0 else float(values.sum()) ** 2 / (len(values) * squares)


class LosingStreaks:
    """Longest losing streak of each group: consecutive transactions of one writer, in order of end time, that did not commit.

    Chunks must be in order of end time. Within a chunk, transactions can be in any order.
    """

    def __init__(self, groups: int) -> None:
        self.longest = np.zeros(groups, np.int64)
        self._current = np.zeros((groups, 1), np.int64)

    def add(self, groups: Ints, writers: Ints, ended_ms: Floats, committed: Flags) -> None:
        """Add transactions."""
        if not len(writers):
            return
        most = int(writers.max()) + 1
        if most > self._current.shape[1]:
            more = np.zeros((len(self._current), most - self._current.shape[1]), np.int64)
            self._current = np.concatenate((self._current, more), axis=1)
        keys = groups * self._current.shape[1] + writers
        order = np.lexsort((ended_ms, keys))
        keys, done = keys[order], committed[order]
        places = np.arange(len(keys))
        new = np.concatenate(([True], keys[1:] != keys[:-1]))
        first = np.maximum.accumulate(np.where(new, places, 0))
        commit = np.maximum.accumulate(np.where(done, places, -1))
        current = self._current.reshape(-1)
        lost = places - np.maximum(commit, first - 1) + np.where(commit < first, current[keys], 0)
        np.maximum.at(self.longest, groups[order], lost)
        last = np.concatenate((new[1:], [True]))
        current[keys[last]] = lost[last]


def fairness_of_commits(commits: Ints, streak: int) -> Fairness:
    """Measure fairness from the number of commits of each writer and the longest losing streak."""
    return Fairness(len(commits), jain_index(commits), float((commits == 0).mean()), streak)


def fairness_metrics(classes: Sequence[Fairness], most_retries: int | None) -> Mapping[str, float | None]:
    """Return the fairness metrics of several workload classes.

    Jain's index is None for several classes, because their rates differ by design. All metrics except ``most_attempts`` are None if
    no class has writers.

    Args:
        classes: Fairness of each class that has writers.
        most_retries: Maximum number of retries of a transaction; None without transactions.
    """
    found: dict[str, float | None] = dict.fromkeys(FAIRNESS)
    found["most_attempts"] = None if most_retries is None else float(most_retries + 1)
    if classes:
        writers = sum(one.writers for one in classes)
        found["jain_index"] = classes[0].jain_index if len(classes) == 1 else None
        found["writers_without_commit"] = sum(one.share_without_commit * one.writers for one in classes) / writers
        found["longest_losing_streak"] = float(max(one.longest_losing_streak for one in classes))
    return found
