"""Fairness among writers: how evenly commits are shared, who never commits, and how long anybody waits for one.

Functions take arrays of one class, a value for each transaction, in any order. ``fairness_metrics`` puts classes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from endive.analysis import Flags, Floats, Ints

FAIRNESS = ("jain_index", "writers_without_commit", "longest_losing_streak", "most_attempts")
"""Metrics of a run."""


@dataclass(frozen=True)
class Fairness:
    """How evenly the writers of a class fare."""

    writers: int
    jain_index: float
    """1 where all commit equally often, 1 / writers where one alone does."""
    share_without_commit: float
    longest_losing_streak: int
    """Transactions that one writer submitted in a row without a commit."""


def jain_index(counts: Ints | Floats) -> float:
    """Compute Jain's index of so many values: (sum x)^2 / (n sum x^2); 1 where there are none, or all are 0."""
    values = np.asarray(counts, np.float64)
    squares = float((values * values).sum())
    return 1.0 if squares == 0.0 else float(values.sum()) ** 2 / (len(values) * squares)


def longest_losing_streak(writers: Ints, ended_ms: Floats, committed: Flags) -> int:
    """Find the longest run of transactions of one writer, in the order in which they ended, none of which committed."""
    longest = 0
    order = np.lexsort((ended_ms, writers))
    streak, before = 0, -1
    for writer, success in zip(writers[order], committed[order], strict=True):
        streak = 0 if success else (streak + 1 if writer == before else 1)
        before = writer
        longest = max(longest, streak)
    return longest


def measure_fairness(writers: Ints, ended_ms: Floats, committed: Flags, total: int) -> Fairness:
    """Measure how evenly ``total`` writers fare, those that submitted nothing included, from transactions that have ended.

    ``writers`` has the number of each transaction's writer, from 0. Raises ValueError if one is negative or not below ``total``.
    """
    if len(writers) and not 0 <= int(writers.min()) <= int(writers.max()) < total:
        raise ValueError(f"writers are numbered from 0 to {total - 1}, not {int(writers.min())} to {int(writers.max())}")
    commits = np.bincount(writers[committed], minlength=total).astype(np.int64)
    streak = longest_losing_streak(writers, ended_ms, committed)
    return Fairness(total, jain_index(commits), float((commits == 0).mean()), streak)


@dataclass(frozen=True)
class WritersRows:
    """The cohort of one class and operation: whose each transaction is, and what became of it.

    ``total`` is how many writers of the class submitted such an operation at any time of the run, by their highest number; 0 where
    all is nobody's (-1).
    """

    workload_class: str
    total: int = 0
    writers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ended_ms: Floats = field(default_factory=lambda: np.zeros(0))
    committed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    retries: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def fairness_metrics(parts: Sequence[WritersRows]) -> Mapping[str, float | None]:
    """Measure fairness over the cohorts of some classes and operations.

    Classes have writers of their own; Jain's index is of one class, since classes do not share their commits evenly by intent. What
    has no writers has no such numbers, but for the most attempts.
    """
    most = max((int(part.retries.max(initial=-1)) for part in parts), default=-1) + 1
    found: dict[str, float | None] = dict.fromkeys(FAIRNESS)
    found["most_attempts"] = float(most) if most else None
    owned = [part for part in parts if part.total]
    names = sorted({part.workload_class for part in owned})
    each = [_of_class([part for part in owned if part.workload_class == name]) for name in names]
    if each:
        writers = sum(one.writers for one in each)
        found["jain_index"] = each[0].jain_index if len(each) == 1 else None
        found["writers_without_commit"] = sum(one.share_without_commit * one.writers for one in each) / writers
        found["longest_losing_streak"] = float(max(one.longest_losing_streak for one in each))
    return found


def _of_class(parts: Sequence[WritersRows]) -> Fairness:
    """Put the operations of a class together."""
    names = ("writers", "ended_ms", "committed")
    writers, ended_ms, committed = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return measure_fairness(writers, ended_ms, committed, max(part.total for part in parts))
