"""Measure fairness among writers: distribution of commits, writers without a commit, and losing streaks.

Functions take arrays of one class with one value per transaction, in any order. ``fairness_metrics`` combines classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
        share_without_commit: Share of the writers without a commit.
        longest_losing_streak: Largest number of consecutive transactions of one writer without a commit.
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


def longest_losing_streak(writers: Ints, ended_ms: Floats, committed: Flags) -> int:
    """Count the transactions of the longest losing streak: consecutive transactions of a writer, by their end, without a commit."""
    longest = 0
    order = np.lexsort((ended_ms, writers))
    streak, before = 0, -1
    for writer, success in zip(writers[order], committed[order], strict=True):
        streak = 0 if success else (streak + 1 if writer == before else 1)
        before = writer
        longest = max(longest, streak)
    return longest


def measure_fairness(writers: Ints, ended_ms: Floats, committed: Flags, total: int) -> Fairness:
    """Measure fairness among ``total`` writers, including those that submitted nothing.

    Args:
        writers: Number of the writer of each transaction, from 0.
        ended_ms: Time at which each transaction ended.
        committed: Flags of the committed transactions.
        total: Number of writers.

    Raises:
        ValueError: The number of a writer is negative or not below ``total``.
    """
    if len(writers) and not 0 <= int(writers.min()) <= int(writers.max()) < total:
        raise ValueError(f"writers are numbered from 0 to {total - 1}, not {int(writers.min())} to {int(writers.max())}")
    commits = np.bincount(writers[committed], minlength=total).astype(np.int64)
    streak = longest_losing_streak(writers, ended_ms, committed)
    return Fairness(total, jain_index(commits), float((commits == 0).mean()), streak)


@dataclass(frozen=True)
class WritersRows:
    """Cohort of one class and operation, with the writer and the outcome of each transaction.

    ``total`` is the number of writers: the highest number of a writer that submitted such an operation during the run, plus 1. It
    is 0 if transactions have no writer (-1).
    """

    workload_class: str
    total: int = 0
    writers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ended_ms: Floats = field(default_factory=lambda: np.zeros(0))
    committed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    retries: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def fairness_metrics(parts: Sequence[WritersRows]) -> Mapping[str, float | None]:
    """Measure fairness over the cohorts of some classes and operations.

    Each class numbers its own writers. Jain's index is None for several classes, because classes differ in their rates by design.
    All metrics except ``most_attempts`` are None if no class has writers.
    """
    most = max((int(part.retries.max(initial=-1)) for part in parts), default=-1) + 1
    found: dict[str, float | None] = dict.fromkeys(FAIRNESS)
    found["most_attempts"] = float(most) if most else None
    owned = [part for part in parts if part.total]
    names = sorted({part.workload_class for part in owned})
    each = [_measure_class([part for part in owned if part.workload_class == name]) for name in names]
    if each:
        writers = sum(one.writers for one in each)
        found["jain_index"] = each[0].jain_index if len(each) == 1 else None
        found["writers_without_commit"] = sum(one.share_without_commit * one.writers for one in each) / writers
        found["longest_losing_streak"] = float(max(one.longest_losing_streak for one in each))
    return found


def _measure_class(parts: Sequence[WritersRows]) -> Fairness:
    """Measure fairness over all operations of a class."""
    names = ("writers", "ended_ms", "committed")
    writers, ended_ms, committed = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return measure_fairness(writers, ended_ms, committed, max(part.total for part in parts))
