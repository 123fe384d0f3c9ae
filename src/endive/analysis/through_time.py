"""A run through time: what happened in equal parts of it, warm-up included.

Transactions are counted in the part in which they entered, commits also in that in which they committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis.arrays import Flags, Floats, Ints
from endive.analysis.cohort import Transactions, committing

TIME_BINS = 60
"""Equal parts of a run's duration."""
COUNTED = ("entered", "committed", "unfinished", "commits", "retries", "committing")
"""Numbers that are added up over classes and operations; ``committing`` is the mean number of transactions that were."""
MEDIAN = "time_to_commit_p50_ms"
OVER_TIME = tuple(f"{name}_over_time" for name in (*COUNTED, MEDIAN))
"""Lists that a row of a run carries."""
_FEWEST = 10
"""A median of fewer transactions is not told."""


def _zeros() -> Floats:
    return np.zeros(TIME_BINS)


@dataclass
class ThroughTime:
    """Some transactions of a run by part of it. ``part`` and ``waits`` are of those that entered; never is infinite."""

    counts: dict[str, Floats]
    entered: Flags
    part: Ints
    waits: Floats
    finished: Flags

    def add_retries(self, retries: Ints) -> None:
        """Count retries, given for all transactions, in the parts in which those entered."""
        self.counts["retries"] = _sums(self.part, retries[self.entered])


def through_time(rows: Transactions, duration_ms: float) -> ThroughTime:
    """Look at some transactions of a run of ``duration_ms`` by part of it."""
    edges = np.linspace(0.0, duration_ms, TIME_BINS + 1)
    entered = rows.entered & (rows.entry_ms <= duration_ms)
    part = _part_of(rows.entry_ms[entered], edges)
    committed, aborted = rows.committed[entered], rows.aborted[entered]
    waits = np.where(aborted, np.inf, (rows.end_ms - rows.entry_ms)[entered])
    counts = {
        "entered": _sums(part),
        "committed": _sums(part[committed]),
        "unfinished": _sums(part[~committed & ~aborted]),
        "commits": _sums(_part_of(rows.end_ms[rows.committed & (rows.end_ms <= duration_ms)], edges)),
        "retries": _zeros(),
        "committing": committing(rows, edges),
    }
    return ThroughTime(counts, entered, part, waits, committed | aborted)


def over_time_columns(parts: Sequence[ThroughTime]) -> dict[str, Any]:
    """Put the transactions of several classes or operations together: a list for each name of ``OVER_TIME``."""
    found: dict[str, Any] = {f"{name}_over_time": sum((each.counts[name] for each in parts), _zeros()) for name in COUNTED}
    joined = [np.concatenate([np.zeros(0), *(getattr(each, name) for each in parts)]) for name in ("part", "waits", "finished")]
    return {**found, f"{MEDIAN}_over_time": medians(joined[0].astype(np.int64), joined[1], joined[2].astype(np.bool_))}


def medians(part: Ints, waits: Floats, finished: Flags) -> Floats:
    """Return the median wait of each part; NaN where it is never reached, not known yet, or of too few.

    The unfinished wait longer than was seen: where that could make a difference, the median is not known.
    """
    least = _medians(part, waits)
    most = _medians(part, np.where(finished, waits, np.inf))
    return np.where((least == most) & np.isfinite(least), least, np.nan)


def _medians(part: Ints, waits: Floats) -> Floats:
    counts = np.bincount(part, minlength=TIME_BINS)
    ordered = np.concatenate((waits[np.lexsort((waits, part))], [np.nan]))
    middle = np.cumsum(counts) - counts + (counts + 1) // 2 - 1
    return np.where(counts >= _FEWEST, ordered[np.where(counts > 0, middle, -1)], np.nan)


def _part_of(moments_ms: Floats, edges_ms: Floats) -> Ints:
    """The part of the run in which each moment lies; its end belongs to the last."""
    return np.minimum(np.searchsorted(edges_ms, moments_ms, side="right") - 1, TIME_BINS - 1)


def _sums(part: Ints, weights: npt.NDArray[Any] | None = None) -> Floats:
    return np.bincount(part, weights=weights, minlength=TIME_BINS).astype(np.float64)
