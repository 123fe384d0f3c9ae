"""Fairness among writers: how evenly commits are shared, who never commits, and how long anybody waits for one.

All functions take arrays of one class, a value for each transaction, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fairness:
    """How evenly the writers of a class fare."""

    writers: int
    jain_index: float
    """1 where all commit equally often, 1 / writers where one alone does."""
    share_without_commit: float
    longest_losing_streak: int
    """Transactions that one writer submitted in a row without a commit."""
    most_attempts: int
    """Attempts of the transaction that needed most."""


def jain_index(counts: Ints | Floats) -> float:
    """Compute Jain's index of so many values: (sum x)^2 / (n sum x^2); 1 where there are none, or all are 0."""
    values = np.asarray(counts, np.float64)
    squares = float((values * values).sum())
    return 1.0 if squares == 0.0 else float(values.sum()) ** 2 / (len(values) * squares)


def commits_per_writer(writers: Ints, committed: Bools, total: int) -> Ints:
    """Count the commits of each of ``total`` writers; those that submitted nothing have none."""
    return np.bincount(writers[committed], minlength=total).astype(np.int64)


def longest_losing_streak(writers: Ints, ended_ms: Floats, committed: Bools) -> int:
    """Find the longest run of transactions of one writer, in the order in which they ended, none of which committed."""
    longest = 0
    order = np.lexsort((ended_ms, writers))
    streak, before = 0, -1
    for writer, success in zip(writers[order], committed[order], strict=True):
        streak = 0 if success else (streak + 1 if writer == before else 1)
        before = writer
        longest = max(longest, streak)
    return longest


def measure_fairness(writers: Ints, ended_ms: Floats, committed: Bools, retries: Ints, total: int) -> Fairness:
    """Measure how evenly ``total`` writers fare, from transactions that have ended.

    Args:
        writers: The number of each transaction's writer, from 0.
        ended_ms: When each ended.
        committed: Whether each committed.
        retries: Attempts of each after the first.
        total: How many writers there are, those that submitted nothing included.

    Raises:
        ValueError: A number of a writer is negative or not below ``total``.

    """
    if len(writers) and not 0 <= int(writers.min()) <= int(writers.max()) < total:
        raise ValueError(f"writers are numbered from 0 to {total - 1}, not {int(writers.min())} to {int(writers.max())}")
    commits = commits_per_writer(writers, committed, total)
    return Fairness(
        writers=total,
        jain_index=jain_index(commits),
        share_without_commit=float((commits == 0).mean()),
        longest_losing_streak=longest_losing_streak(writers, ended_ms, committed),
        most_attempts=int(retries.max(initial=-1)) + 1,
    )
