"""Measure fairness among writers: distribution of commits, writers without a commit, and losing streaks.

Functions take arrays with one value per transaction of a class, in any order. ``fairness_metrics`` combines classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from endive.analysis import Flags, Floats, Ints

FAIRNESS = ("jain_index", "writers_without_commit", "longest_losing_streak", "most_attempts")
"""Names of the metrics."""


@dataclass(frozen=True)
class Fairness:
    """Fairness among the writers of a class.

    Attributes:
        writers: Number of writers.
        jain_index: 1 if all writers commit equally often, ``1 / writers`` if only one commits.
        share_without_commit: Fraction of writers without a commit.
        longest_losing_streak: Maximum number of consecutive transactions of one writer, ordered by end time, that did not commit.
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
    """Longest losing streak of each group: consecutive transactions of one writer, ordered by end time, that did not commit.

    Chunks of transactions are ordered by end time; within a chunk, transactions may be in any order.
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
    """Combine the fairness of some classes.

    Writers are numbered within their class. Jain's index is None for several classes, because their rates differ by design. All
    metrics except ``most_attempts`` are None if no class has writers.

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
