"""The transactions of a run that entered in a window: how many there are, what became of them, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from endive.analysis.arrays import Flags, Floats, Ints
from endive.analysis.windows import Window


@dataclass(frozen=True)
class Transactions:
    """Transactions of one run, by column; times in ms.

    ``end_ms`` is when a transaction committed or aborted; of an unfinished one it is the end of the run, when it was last seen.
    """

    entry_ms: Floats
    end_ms: Floats
    committed: Flags
    aborted: Flags

    @classmethod
    def of_rows(
        cls, t_commit_start: Floats, t_submit: Floats, total_latency: Floats, t_commit: Floats, committed: Flags, aborted: Flags
    ) -> Transactions:
        """From columns of results. The unfinished were last seen ``total_latency`` after their submission, as the aborted were.

        A reader has nothing to commit and no ``t_commit_start``: it enters in the moment in which it is done.
        """
        entry = np.where(committed & (t_commit_start < 0.0), t_commit, t_commit_start)
        return cls(entry, np.where(committed, t_commit, t_submit + total_latency), committed, aborted)

    def take(self, places: Ints) -> Transactions:
        """Those at these places."""
        return Transactions(self.entry_ms[places], self.end_ms[places], self.committed[places], self.aborted[places])

    @property
    def entered(self) -> Flags:
        """Whether each began to commit before the run ended."""
        return np.asarray(self.entry_ms >= 0.0)

    def cohort(self, window: Window) -> Flags:
        """Whether each entered in the window, both ends included."""
        return np.asarray((self.entry_ms >= window.start_ms) & (self.entry_ms <= window.end_ms) & self.entered)

    def committed_in(self, window: Window) -> Flags:
        """Whether each committed in the window, both ends included."""
        return np.asarray(self.committed & (self.end_ms >= window.start_ms) & (self.end_ms <= window.end_ms))


def success_range(committed: int, unfinished: int, entered: int) -> tuple[float, float, float] | tuple[None, None, None]:
    """The share that commits if all of the unfinished fail, the middle, and if all of them commit; None of nothing."""
    if not entered:
        return None, None, None
    return committed / entered, (committed + unfinished / 2.0) / entered, (committed + unfinished) / entered


def committing(transactions: Transactions, edges_ms: Floats) -> Floats:
    """The mean number of committing transactions between each two edges.

    A transaction counts from its entry to its end. The integral up to t is the sum of ``t - entry`` over entries before t, less the
    same of ends: sums of sorted values give it at all edges.
    """
    entered = transactions.entered
    inside = _integral(transactions.entry_ms[entered], edges_ms) - _integral(transactions.end_ms[entered], edges_ms)
    return np.asarray(np.maximum(np.diff(inside), 0.0) / np.diff(edges_ms))


def _integral(moments_ms: Floats, edges_ms: Floats) -> Floats:
    """For each edge t the sum of t - m over the moments m before it."""
    ordered = np.sort(moments_ms)
    before = np.searchsorted(ordered, edges_ms)
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    return np.asarray(before * edges_ms - sums[before])


def entries(transactions: Transactions, edges_ms: Floats) -> Ints:
    """The number of entries between each two edges."""
    counts, _ = np.histogram(transactions.entry_ms[transactions.entered], bins=edges_ms)
    return np.asarray(counts, np.int64)
