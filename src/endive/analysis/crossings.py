"""Where a curve over the load crosses a threshold: isotonic regression, then a line over the logarithm of the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from endive.analysis.estimates import Estimate

Bound = Literal["crossed", "at_or_below", "above"]


@dataclass(frozen=True)
class Crossing:
    """Where a curve crosses a threshold. ``low`` and ``high`` are None where the interval is open.

    ``crossed``: between two loads. ``at_or_below``: already at the lowest, which ``load`` is. ``above``: not even at the highest,
    which ``load`` is.
    """

    load: float
    low: float | None
    high: float | None
    bound: Bound


def crossing(points: Sequence[tuple[float, Estimate]], threshold: float, *, falling: bool) -> Crossing | None:
    """The crossing of a curve, given by load; None of no points.

    ``falling`` looks for where the curve gets below the threshold, otherwise above it. The interval reaches from where the ends of
    the points' intervals that cross first do so to where the others do. A mean that is infinite (never) counts as the largest of
    all.
    """
    if not points:
        return None
    ordered = sorted(points, key=lambda point: point[0])
    loads, weights = [load for load, _ in ordered], [each.n for _, each in ordered]
    means, lows, highs = ([getattr(each, name) for _, each in ordered] for name in ("mean", "low", "high"))
    load, bound = _first(loads, means, weights, threshold, falling)
    if any(each.n < 2 and not math.isfinite(each.low) and math.isfinite(each.mean) for _, each in ordered):
        return Crossing(load, None, None, bound)
    early, late = (lows, highs) if falling else (highs, lows)
    low, low_bound = _first(loads, early, weights, threshold, falling)
    high, high_bound = _first(loads, late, weights, threshold, falling)
    return Crossing(load, None if low_bound == "at_or_below" else low, None if high_bound == "above" else high, bound)


def _first(
    loads: Sequence[float], values: Sequence[float], weights: Sequence[float], threshold: float, falling: bool
) -> tuple[float, Bound]:
    """Where values, made monotone, first lie beyond the threshold."""
    from scipy.optimize import isotonic_regression  # takes long to load

    sign = -1.0 if falling else 1.0
    finite = [_finite(sign * (value - threshold)) for value in values]
    beyond = [float(each) for each in isotonic_regression(finite, weights=list(weights), increasing=True).x]
    for place, value in enumerate(beyond):
        if value <= 0.0:
            continue
        if place == 0:
            return loads[0], "at_or_below"
        below, before = loads[place - 1], beyond[place - 1]
        part = before / (before - value)
        return _between(below, loads[place], part), "crossed"
    return loads[-1], "above"


def _between(below: float, above: float, part: float) -> float:
    """A load so far on the way from one to the other, over their logarithms; from 0 along the load itself."""
    return below * (above / below) ** part if below > 0.0 else below + (above - below) * part


def _finite(value: float) -> float:
    return min(max(value, -1e300), 1e300)
