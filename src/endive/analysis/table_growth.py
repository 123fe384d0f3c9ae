"""Measure the state of tables in a window: its mean at commits, and its growth.

State grows if the Mann-Kendall test over twelve equal parts of the window is significant (99%) and a fitted line rises by at least
10% of the mean. A sawtooth with several periods does not grow. The growth is the slope of the fitted line, or 0 if the state does
not grow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints
from endive.analysis.cohort import TimeCounts, time_places
from endive.simulation.columns import STATE_COLUMNS

GROWTH = {name: f"{name}_per_day" for name in STATE_COLUMNS}
"""Metrics of growth by column of table state."""
TABLE_STATE = (*STATE_COLUMNS, *GROWTH.values())
"""Metrics of the state of tables."""
LIMIT_REACHED = "metadata_limit_reached_ms"
"""Metric: time of the first commit after which metadata.json exceeds its size limit."""
DAY_MS = 86_400_000.0
_PARTS = 12
_FEWEST_PARTS = 6
_SIGNIFICANT = 2.326
"""Quantile of the standard normal distribution for a one-sided test at 99%."""
_LEAST_RISE = 0.1
"""Minimum rise over the window that counts as growth, as a fraction of the mean."""


class TableStates:
    """State of tables right after the commits of each group, by part of a window. Commits without a state are omitted."""

    def __init__(self, groups: int, start_ms: float, end_ms: float) -> None:
        edges = np.linspace(start_ms, end_ms, _PARTS + 1)
        self._commits = TimeCounts(groups, edges)
        self._sums = {name: TimeCounts(groups, edges) for name in STATE_COLUMNS}
        self._length_ms = end_ms - start_ms

    def add(self, groups: Ints, times_ms: Floats, columns: Mapping[str, npt.NDArray[Any]], chosen: Flags) -> None:
        """Add the commits that ``chosen`` flags, with their times and states."""
        known = chosen & (columns[STATE_COLUMNS[0]] >= 0)
        if not known.any():
            return
        own, places = groups[known], time_places(times_ms[known], self._commits.edges_ms)
        self._commits.add(own, places)
        for name, sums in self._sums.items():
            sums.add(own, places, columns[name][known])

    def measure(self, members: Sequence[int]) -> dict[str, float | None]:
        """Return the mean and the growth per day of each column of state in some groups; None if no state is known."""
        commits = self._commits.bins[list(members)].sum(axis=0)
        found: dict[str, float | None] = {}
        for name, growth in GROWTH.items():
            sums = self._sums[name].bins[list(members)].sum(axis=0)
            found[name] = float(sums.sum() / commits.sum()) if commits.any() else None
            found[growth] = growth_of_parts(commits, sums, self._length_ms) * DAY_MS if commits.any() else None
        return found

    def grow(self) -> bool:
        """Return whether a column of state grows, over all groups together."""
        found = self.measure(range(len(self._commits.bins)))
        return any((found[growth] or 0.0) > 0.0 for growth in GROWTH.values())


def day_of_limit(row: Mapping[str, Any], limit_bytes: float) -> float:
    """Return the day, from the start of the run, on which metadata.json reaches its limit; infinite if it does not.

    If no commit of the run exceeded the limit, the day is computed from linear growth.

    Args:
        row: Metrics of a run or an experiment. The mean size is taken as the size in the middle of the window.
        limit_bytes: Size in bytes.
    """
    reached_ms = row.get(LIMIT_REACHED)
    if reached_ms is not None and reached_ms > 0.0:
        return float(reached_ms / DAY_MS)
    mean, growth = row.get("table_metadata_bytes"), row.get(GROWTH["table_metadata_bytes"])
    if not mean or not growth or not growth > 0.0:
        return math.inf
    middle_days = (row["warmup_ms"] + row["window_ms"] / 2.0) / DAY_MS
    return float(max(0.0, middle_days + (limit_bytes - mean) / growth))


def growth_of_parts(counts: Floats, sums: Floats, length_ms: float) -> float:
    """Return the growth of a quantity per ms, from the number and sum of its values in equal parts of a window; 0 if it does not
    grow.
    """
    filled = np.flatnonzero(counts)
    if len(filled) < _FEWEST_PARTS:
        return 0.0
    means = sums[filled] / counts[filled]
    if not _rises(means):
        return 0.0
    slope = float(np.polyfit(filled, means, 1)[0])  # growth per part
    rise = slope * _PARTS
    return rise / length_ms if rise >= _LEAST_RISE * float(means.mean()) else 0.0


def _rises(values: Floats) -> bool:
    """Return whether a series has a rising trend according to the Mann-Kendall test."""
    n = len(values)
    score = sum(float(np.sign(values[i + 1 :] - values[i]).sum()) for i in range(n - 1))
    return score - 1.0 > _SIGNIFICANT * math.sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
