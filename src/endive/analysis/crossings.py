"""Find the load at which a curve crosses a threshold, by isotonic regression and interpolation on the logarithm of the load.

The means of the points, the lower ends of their intervals and the upper ends form three curves. The two outer curves cross the
threshold at the ends of the load interval. The load interval has 95% coverage, because at the load where the true curve crosses, a
95% interval excludes the threshold in 5 of 100 studies. The curve is assumed to be monotone, so the end of an interval at one load
also bounds the values at loads farther from the crossing. If the verdicts at the loads on both sides of the crossing are certain
and the load interval is narrower than a quarter of the distance between these loads, it would reflect the interpolation rather than
the data. It is then widened to both loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from endive.analysis.estimates import Estimate, z_quantile

Bound = Literal["crossed", "at_or_below", "above"]
_NEVER = 1e300
"""Finite value that replaces an infinite one. Next to such a value, the crossing is assumed halfway instead of interpolated."""
_LEAST = 1e-12
"""Value that replaces 0 before a logarithm is taken."""
_LEAST_PART = 0.25
"""Minimum width of the load interval, as a fraction of the distance between the loads around it on a logarithmic scale."""
_WIDEST = 1e4
"""Maximum ratio between interval widths in the computation of weights; limits intervals of infinite or zero width."""


@dataclass(frozen=True)
class Crossing:
    """Load at which a curve crosses a threshold, with its interval.

    Attributes:
        load: Load of the crossing.
        low: Lower end of the interval; None if the interval has no lower end.
        high: Upper end of the interval; None if the interval has no upper end.
        bound: ``crossed`` between the loads ``before`` and ``after``; ``at_or_below`` the lowest load, which is ``load`` and
            ``after``; or ``above`` the highest load, which is ``load`` and ``before``.
        before: Highest measured load below the crossing.
        after: Lowest measured load above the crossing.
    """

    load: float
    low: float | None
    high: float | None
    bound: Bound
    before: float | None = None
    after: float | None = None


def crossing(points: Sequence[tuple[float, Estimate]], threshold: float, *, falling: bool) -> Crossing | None:
    """Find the load at which a curve crosses a threshold; None if the curve has no points.

    Args:
        points: Loads and the estimates at these loads, in any order. An infinite mean (aborted) is greater than any other value.
        threshold: Value to cross.
        falling: True to find the load at which the curve falls below the threshold, False to find the load at which it rises above
            the threshold.
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
    low, high = min(low, high, load), max(low, high, load)  # a curve that is not monotone can reverse the order
    decided = bound == "crossed" and early[place - 1] <= 0.0 < late[place]
    if decided and before is not None and after is not None and _is_narrow(low, high, before, after):
        low, high = min(low, before), max(high, after)
    ends = (None if low_bound == "at_or_below" else low, None if high_bound == "above" else high)
    return Crossing(load, *ends, bound, before, after)


def to_log(estimate: Estimate) -> Estimate:
    """Return the natural logarithm of an estimate, for metrics that grow by factors with the load, such as times and rates."""
    return _transform(estimate, lambda value: math.log(max(value, _LEAST)))


def to_log_odds(estimate: Estimate) -> Estimate:
    """Return the logarithm of the odds of a proportion, p / (1 - p).

    Between two loads, the log odds of a success rate are nearly linear in the logarithm of the load. The success rate itself is not
    linear: it stays near 1 and then falls. For a mean of 0 or 1, half a success or half a failure is added, given the number of
    trials that its Wilson interval implies.
    """
    half = 0.5 / z_quantile() ** 2
    mean = min(max(estimate.mean, half * estimate.high), 1.0 - half * (1.0 - estimate.low))
    return _transform(replace(estimate, mean=mean), lambda value: math.log(max(value, _LEAST) / max(1.0 - value, _LEAST)))


def _transform(estimate: Estimate, scale: Callable[[float], float]) -> Estimate:
    return replace(estimate, mean=scale(estimate.mean), low=scale(estimate.low), high=scale(estimate.high))


def _is_narrow(low: float, high: float, before: float, after: float) -> bool:
    """Return whether an interval is narrow compared with the distance between two loads."""
    return before <= 0.0 or high / low < (after / before) ** _LEAST_PART


def _beyond(values: Sequence[float], threshold: float, falling: bool) -> list[float]:
    """Return how far values exceed the threshold, or how far they are below it if the curve is ``falling``."""
    sign = -1.0 if falling else 1.0
    return [min(max(sign * (value - threshold), -_NEVER), _NEVER) for value in values]


def _weights(estimates: Sequence[Estimate]) -> list[float]:
    """Return the inverse square of the width of each interval."""
    widths = [each.high - each.low if each.high > each.low else 0.0 for each in estimates]
    widest = max((width for width in widths if 0.0 < width < math.inf), default=1.0)
    return [max(min(width, _WIDEST * widest) / widest, 1.0 / _WIDEST) ** -2 for width in widths]


def _monotone(beyond: Sequence[float], weights: Sequence[float]) -> list[float]:
    from scipy.optimize import isotonic_regression  # slow to import

    return [float(each) for each in isotonic_regression(list(beyond), weights=list(weights), increasing=True).x]


def _first(loads: Sequence[float], beyond: Sequence[float]) -> tuple[float, Bound, int]:
    """Find the load at which a rising curve first exceeds 0, and the index of the first measured load above it."""
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
    """Interpolate between two loads on a logarithmic scale, or linearly if the lower load is 0."""
    return below * (above / below) ** part if below > 0.0 else below + (above - below) * part
