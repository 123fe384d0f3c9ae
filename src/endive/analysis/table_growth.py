"""Measure the state of tables in a window: its mean at commits, and whether it still grows.

State grows if Mann and Kendall's test over twelve equal parts of the window is significant (99%) and a straight line rises by at
least 10% of the mean; a saw-tooth of several teeth does not. The growth is the slope of that line, otherwise 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from endive.analysis import Floats
from endive.simulation.columns import STATE_COLUMNS

GROWTH = {name: f"{name}_per_day" for name in STATE_COLUMNS}
"""Metrics of growth, by column of state."""
TABLE_STATE = (*STATE_COLUMNS, *GROWTH.values())
"""Metrics of the state of tables."""
DAY_MS = 86_400_000.0
_PARTS = 12
_FEWEST_PARTS = 6
_SIGNIFICANT = 2.326
"""Standard normal quantile of a one-sided test at 99%."""
_LEAST_RISE = 0.1
"""Smallest rise over the window, as a share of the mean, that counts as growth."""


@dataclass(frozen=True)
class StateRows:
    """State of tables right after commits, with the times of the commits; rows without state are left out."""

    times_ms: Floats
    values: Mapping[str, Floats]

    @classmethod
    def of_commits(cls, times_ms: Floats, columns: Mapping[str, Floats]) -> StateRows:
        """Select the commits whose state is known."""
        known = np.asarray(columns[STATE_COLUMNS[0]]) >= 0
        return cls(times_ms[known], {name: np.asarray(values)[known].astype(np.float64) for name, values in columns.items()})


def measure_state(rows: Sequence[StateRows], start_ms: float, end_ms: float) -> dict[str, float | None]:
    """Return mean and growth per day of each column of state in a window; None if no state is known."""
    times = np.concatenate([np.zeros(0), *(each.times_ms for each in rows)])
    found: dict[str, float | None] = {}
    for name, growth in GROWTH.items():
        values = np.concatenate([np.zeros(0), *(each.values[name] for each in rows)])
        found[name] = float(values.mean()) if len(values) else None
        found[growth] = growth_per_ms(times, values, start_ms, end_ms) * DAY_MS if len(values) else None
    return found


def growth_per_ms(times_ms: Floats, values: Floats, start_ms: float, end_ms: float) -> float:
    """Return the growth of a quantity in a window, from its means in equal parts; 0 if it does not grow."""
    part = np.clip(((times_ms - start_ms) / (end_ms - start_ms) * _PARTS).astype(np.int64), 0, _PARTS - 1)
    counts = np.bincount(part, minlength=_PARTS)
    filled = np.flatnonzero(counts)
    if len(filled) < _FEWEST_PARTS:
        return 0.0
    means = np.bincount(part, weights=values, minlength=_PARTS)[filled] / counts[filled]
    if not _rises(means):
        return 0.0
    slope = float(np.polyfit(filled, means, 1)[0])  # per part
    rise = slope * _PARTS
    return rise / (end_ms - start_ms) if rise >= _LEAST_RISE * float(means.mean()) else 0.0


def _rises(values: Floats) -> bool:
    """Return whether a series has a rising trend, by Mann and Kendall's test."""
    n = len(values)
    score = sum(float(np.sign(values[i + 1 :] - values[i]).sum()) for i in range(n - 1))
    return score - 1.0 > _SIGNIFICANT * math.sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
