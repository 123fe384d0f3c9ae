"""Where a system stops carrying its load.

What flows in: a curve, that is for each load the success rate and the share of the offered load that was committed, with half
widths over seeds. What flows out: the first load at which one of the two falls below its threshold, interpolated between loads,
with the interval of loads for which the data leave that open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LEAST_SUCCESS = 0.99
LEAST_THROUGHPUT = 0.95
"""Of the offered load."""

Bound = Literal["crossed", "at_or_below", "above"]
Reason = Literal["success", "throughput"]


@dataclass(frozen=True)
class LoadPoint:
    """What was measured at one load; None where there is nothing to measure (no seed but one, nothing finished)."""

    load: float
    success: float | None
    throughput_ratio: float | None
    success_half_width: float | None = None
    throughput_half_width: float | None = None


@dataclass(frozen=True)
class Saturation:
    """The load at which a curve saturates.

    ``crossed``: between two loads that were measured. ``at_or_below``: already at the lowest. ``above``: not even at the highest,
    and ``load`` is that. ``low`` and ``high`` are None where the interval is open, or where there is one seed only.
    """

    load: float
    low: float | None
    high: float | None
    bound: Bound
    reason: Reason | None


def saturation(curve: Sequence[LoadPoint]) -> Saturation:
    """The saturation of a curve. Its interval holds the loads at which the intervals of the measures reach their thresholds."""
    if not curve:
        raise ValueError("a curve without points")
    points = sorted(curve, key=lambda point: point.load)
    load, bound, reason = _first(points, 0.0)
    few = any(p.success_half_width is None and p.throughput_half_width is None for p in points)
    if few:
        return Saturation(load, None, None, bound, reason)
    low, low_bound, _ = _first(points, -1.0)
    high, high_bound, _ = _first(points, 1.0)
    return Saturation(
        load,
        None if low_bound == "at_or_below" else low,
        None if high_bound == "above" else high,
        bound,
        reason,
    )


def _first(points: Sequence[LoadPoint], side: float) -> tuple[float, Bound, Reason | None]:
    """The first crossing of either measure, moved by ``side`` times its half width."""

    def moved(value: float | None, half_width: float | None) -> float | None:
        return None if value is None else value + side * (half_width or 0.0)

    loads = [point.load for point in points]
    success = [moved(point.success, point.success_half_width) for point in points]
    ratio = [moved(point.throughput_ratio, point.throughput_half_width) for point in points]
    crossings: list[tuple[float, Bound, Reason | None]] = []
    for values, threshold, reason in ((success, LEAST_SUCCESS, "success"), (ratio, LEAST_THROUGHPUT, "throughput")):
        found = crossing(loads, values, threshold)
        if found is not None:
            bound: Bound = "at_or_below" if found[1] else "crossed"
            crossings.append((found[0], bound, reason))  # type: ignore[arg-type]
    return min(crossings, key=lambda found: found[0], default=(loads[-1], "above", None))


def crossing(loads: Sequence[float], values: Sequence[float | None], threshold: float) -> tuple[float, bool] | None:
    """Where values first fall below a threshold, and whether that is at the first load already; None if they do not.

    Loads at which there is no value are passed over.
    """
    measured = [(load, value) for load, value in zip(loads, values, strict=True) if value is not None]
    for index, (load, value) in enumerate(measured):
        if value >= threshold:
            continue
        if index == 0:
            return load, True
        before, above = measured[index - 1]
        return before + (load - before) * (above - threshold) / (above - value), False
    return None
