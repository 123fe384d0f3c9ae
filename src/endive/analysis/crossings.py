"""Where a curve over the load crosses a threshold: isotonic regression, then a line over the logarithm of the load.

The means of the points and both ends of their intervals are three curves, and the crossings of the ends are the interval of the
answer: at the load at which the true curve crosses, the threshold lies outside of a 95 % interval in 5 of 100 studies. The curve is
taken to be monotone, so what is sure at a load is sure at all loads on its side of the threshold. Where noise is small next to the
distance of the loads, this would tell more than was seen: if the loads on both sides of the crossing are decided, and the interval
is less than a quarter of the way from one to the other, it is all between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from endive.analysis.estimates import Estimate

Bound = Literal["crossed", "at_or_below", "above"]
_NEVER = 1e300
"""Beyond every number: no line leads there, and a crossing is put half way."""
_LEAST_PART = 0.25
"""Of the way between two loads, as logarithms: an interval that is narrower tells of the line that is drawn between them."""
_WIDEST = 1e4
"""How much wider than the others an interval counts that has no end, and how much narrower one without a width."""


@dataclass(frozen=True)
class Crossing:
    """Where a curve crosses a threshold. ``low`` and ``high`` are None where the interval is open.

    ``crossed``: between two loads, ``before`` and ``after``. ``at_or_below``: already at the lowest, which ``load`` and ``after``
    are. ``above``: not even at the highest, which ``load`` and ``before`` are.
    """

    load: float
    low: float | None
    high: float | None
    bound: Bound
    before: float | None = None
    after: float | None = None


def crossing(points: Sequence[tuple[float, Estimate]], threshold: float, *, falling: bool) -> Crossing | None:
    """Find where a curve over the load crosses a threshold; None if it has no points.

    ``falling`` looks for where the curve gets below the threshold, otherwise above it. The interval reaches from where the ends of
    the points' intervals that cross first do so to where the others do, and from load to load where the line between them would
    decide and not noise. A mean that is infinite (never) counts as the
    largest of all.
    """
    if not points:
        return None
    ordered = sorted(points, key=lambda point: point[0])
    loads, weights = [load for load, _ in ordered], _weights([each for _, each in ordered])
    means, lows, highs = ([getattr(each, name) for _, each in ordered] for name in ("mean", "low", "high"))
    load, bound, place = _first(loads, _monotone(_beyond(means, threshold, falling), weights))
    before, after = loads[place - 1] if place > 0 else None, loads[place] if place < len(loads) else None
    if any(each.n < 2 and not math.isfinite(each.low) and math.isfinite(each.mean) for _, each in ordered):
        return Crossing(load, None, None, bound, before, after)
    early, late = (_beyond(ends, threshold, falling) for ends in ((lows, highs) if falling else (highs, lows)))
    low, low_bound, _ = _first(loads, list(accumulate(reversed(early), min))[::-1])
    high, high_bound, _ = _first(loads, list(accumulate(late, max)))
    low, high = min(low, high, load), max(low, high, load)  # the other way round where points surely rise and fall
    decided = bound == "crossed" and early[place - 1] <= 0.0 < late[place]
    if decided and before is not None and after is not None and _is_narrow(low, high, before, after):
        low, high = min(low, before), max(high, after)
    ends = (None if low_bound == "at_or_below" else low, None if high_bound == "above" else high)
    return Crossing(load, *ends, bound, before, after)


def _is_narrow(low: float, high: float, before: float, after: float) -> bool:
    """Return whether an interval is a small part of the distance between two loads."""
    return before <= 0.0 or high / low < (after / before) ** _LEAST_PART


def _beyond(values: Sequence[float], threshold: float, falling: bool) -> list[float]:
    """Return how far values lie beyond the threshold: below it if the curve is ``falling``."""
    sign = -1.0 if falling else 1.0
    return [min(max(sign * (value - threshold), -_NEVER), _NEVER) for value in values]


def _weights(estimates: Sequence[Estimate]) -> list[float]:
    """Weight each point by the inverse square of the width of its interval."""
    widths = [each.high - each.low if each.high > each.low else 0.0 for each in estimates]
    widest = max((width for width in widths if 0.0 < width < math.inf), default=1.0)
    return [max(min(width, _WIDEST * widest) / widest, 1.0 / _WIDEST) ** -2 for width in widths]


def _monotone(beyond: Sequence[float], weights: Sequence[float]) -> list[float]:
    from scipy.optimize import isotonic_regression  # takes long to load

    return [float(each) for each in isotonic_regression(list(beyond), weights=list(weights), increasing=True).x]


def _first(loads: Sequence[float], beyond: Sequence[float]) -> tuple[float, Bound, int]:
    """Find where a rising curve first exceeds the threshold, and the index of the first load that does."""
    for place, value in enumerate(beyond):
        if value <= 0.0:
            continue
        if place == 0:
            return loads[0], "at_or_below", 0
        before = beyond[place - 1]
        part = before / (before - value) if value < _NEVER else 0.5
        return _between(loads[place - 1], loads[place], part), "crossed", place
    return loads[-1], "above", len(loads)


def _between(below: float, above: float, part: float) -> float:
    """Interpolate between two loads over their logarithms; linearly if the lower one is 0."""
    return below * (above / below) ** part if below > 0.0 else below + (above - below) * part
