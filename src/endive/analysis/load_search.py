"""Search for the lowest load at which a condition is met, by bracketing and bisection with several seeds at each load.

The verdict at a load is *holds* if the condition holds for every value in the interval of the metric, *fails* if it holds for no
value, and *open* otherwise or if there is no measurement. The search doubles or halves the load until the verdict changes. Then it
bisects the range around the crossing, and adds seeds at the loads that determine the load interval, until this interval has the
requested width. ``crossing`` computes the crossing from all measurements, on a logarithmic scale of the metric. If the verdict at
neither of the two loads next to the crossing is open, the interval includes both loads. If the curve crosses the threshold several
times, the search finds the first crossing, unless doubling the load skips it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from endive.analysis.conditions import Condition, Verdict, kind_of
from endive.analysis.crossings import Bound, Crossing, crossing, to_log, to_log_odds
from endive.analysis.estimates import Estimate

Evaluate = Callable[[float, int], Estimate | None]
"""Function that estimates a metric at a load with a number of seeds; None if there is no measurement."""


BRACKET_SEEDS = 3
"""Number of seeds at a load that only brackets the crossing. A load next to the crossing gets more seeds."""


@dataclass(frozen=True)
class Search:
    """Range and precision of a search.

    Attributes:
        start: First load.
        lowest: Lowest load.
        highest: Highest load.
        tolerance: Requested relative width of the interval.
        seeds: Initial number of seeds per load.
        max_seeds: Maximum number of seeds per load.
        whole: Whether to restrict the search to integers.
    """

    start: float
    lowest: float
    highest: float
    tolerance: float = 0.05
    seeds: int = 5
    max_seeds: int = 40
    whole: bool = False

    @property
    def digits(self) -> int:
        """Number of significant digits of a load."""
        return 3 if self.tolerance >= 0.02 else 5


@dataclass(frozen=True)
class Point:
    """Estimate and verdict at a load."""

    load: float
    seeds: int
    estimate: Estimate | None
    verdict: Verdict


@dataclass(frozen=True)
class Frontier:
    """Result of a search. ``load`` is None unless ``bound`` is ``crossed``. ``low`` or ``high`` is None if the interval has no such
    end.
    """

    bound: Bound
    load: float | None
    low: float | None
    high: float | None
    narrow: bool
    """True if the interval has the requested width."""
    points: tuple[Point, ...]


def find_frontier(
    evaluate: Evaluate, condition: Condition, search: Search, report: Callable[[Point], None] | None = None
) -> Frontier:
    """Search for the lowest load at which a condition is met.

    Args:
        evaluate: Function that estimates the metric of the condition at a load.
        condition: Condition to search for.
        search: Range and precision.
        report: Function that is called with each point when it is measured, and again when seeds are added.
    """
    return _Searcher(evaluate, condition, search, report or (lambda point: None)).run()


class _Searcher:
    def __init__(self, evaluate: Evaluate, condition: Condition, search: Search, report: Callable[[Point], None]) -> None:
        self._evaluate = evaluate
        self._condition = condition
        self._search = search
        self._report = report
        self._points: dict[float, Point] = {}

    def run(self) -> Frontier:
        bound = self._bracket()
        found = self._find_crossing()
        while bound == "crossed" and not self._is_narrow(found) and self._step(found):
            found = self._find_crossing()
        return self._answer(bound, found)

    def _measure(self, load: float, seeds: int) -> Point:
        found = self._evaluate(load, seeds)
        verdict: Verdict = "open" if found is None else self._condition.verdict(found.low, found.high)
        point = Point(load, seeds, found, verdict)
        self._points[load] = point
        self._report(point)
        return point

    def _measure_until_decided(self, load: float) -> Point:
        """Add seeds at a load until the verdict is no longer open."""
        point = self._measure(load, self._search.seeds)
        while point.verdict == "open" and point.seeds < self._search.max_seeds:
            point = self._add_seeds(point)
        return point

    def _add_seeds(self, point: Point) -> Point:
        more = 2 * point.seeds if point.seeds >= self._search.seeds else self._search.seeds
        return self._measure(point.load, min(more, self._search.max_seeds))

    def _bracket(self) -> Bound:
        """Double the load until the mean of a few seeds meets the condition, or halve it until the mean does not."""
        search = self._search
        few = min(search.seeds, BRACKET_SEEDS)
        up = self._measure(search.start, few).verdict != "holds"
        load, wanted = search.start, "holds" if up else "fails"
        end = search.highest if up else search.lowest
        while load != end:
            load = self._toward(end, 2.0 * load if up else load / 2.0, up)
            found = self._judge_mean(self._measure(load, few)) if load != end else self._measure_until_decided(load).verdict
            if found == wanted:
                return "crossed"
        if self._points[load].verdict == "open":
            return "crossed"
        return "above" if up else "at_or_below"

    def _judge_mean(self, point: Point) -> Verdict:
        """Return the verdict on the mean at a load, or on the interval if only a bound is known."""
        found = point.estimate
        return point.verdict if found is None or found.kind != "number" else self._condition.verdict(found.mean, found.mean)

    def _toward(self, end: float, load: float, up: bool) -> float:
        """Return the rounded load, or the bound ``end`` of the search if the load reaches it."""
        tidy = self._tidy(load)
        return end if (tidy >= end if up else tidy <= end) else tidy

    def _find_crossing(self) -> Crossing | None:
        """Find the crossing of the curve through all measurements; None if there are no measurements."""
        scale = to_log_odds if kind_of(self._condition.metric) == "share" else to_log
        measured = [(point.load, scale(point.estimate)) for point in self._points.values() if point.estimate is not None]
        value = self._condition.value
        threshold = scale(Estimate(value, value, value, 0)).low
        found = crossing(measured, threshold, falling=self._condition.sign in ("<", "<="))
        if found is None:
            return None
        found = self._extend_to_decided(found)
        return replace(found, low=self._whole(found.low, math.floor), high=self._whole(found.high, math.ceil))

    def _extend_to_decided(self, found: Crossing) -> Crossing:
        """Extend the interval to both loads next to the crossing, unless the verdict at one of them is open.

        A monotone curve of any shape crosses the threshold between two such loads.
        """
        if found.before is None or found.after is None or found.low is None or found.high is None:
            return found
        if "open" in (self._points[found.before].verdict, self._points[found.after].verdict):
            return found
        return replace(found, low=min(found.low, found.before), high=max(found.high, found.after))

    def _is_narrow(self, found: Crossing | None) -> bool:
        if found is None or found.low is None or found.high is None:
            return False
        next_to = [self._points[load] for load in (found.before, found.after) if load is not None]
        enough = all(point.seeds >= self._search.seeds for point in next_to)
        return enough and found.high / found.low <= 1.0 + self._search.tolerance

    def _step(self, found: Crossing | None) -> bool:
        """Measure another load, or add seeds at a load; return False if there is nothing left to do.

        First, loads are measured around the crossing until adjacent loads are close enough, or outside of the measured range if all
        loads are on one side of the crossing. Then seeds are added at the loads that determine the interval. Finally, if the
        interval has no lower or upper end, a load outside of the measured range is measured.
        """
        at = self._between(found)
        if at is None and found is not None and found.bound != "crossed":
            at = self._beyond(found)
        if at is None:
            point = self._fewest_seeds(found)
            if point is not None:
                self._add_seeds(point)
                return True
            at = self._beyond(found)
        if at is not None:
            self._measure(at, self._search.seeds)
        return at is not None

    def _between(self, found: Crossing | None) -> float | None:
        """Return a load between two adjacent loads at the crossing that are too far apart; None if there are none."""
        if found is None or found.before is None:
            return None
        beyond = (load for load in self._points if load > found.before)
        after = min(beyond, default=math.inf) if found.after is None else found.after
        close = (1.0 + self._search.tolerance) * (1.0 + 1e-9)
        for lower, upper in pairwise(sorted(load for load in self._points if found.before <= load <= after)):
            middle = self._tidy(math.sqrt(lower * upper))
            if upper / lower > close and lower < middle < upper:
                return middle
        return None

    def _beyond(self, found: Crossing | None) -> float | None:
        """Return a load outside of the measured range, where the interval has no end; None if no load is left."""
        least, greatest = self._points[min(self._points)], self._points[max(self._points)]
        search = self._search
        if (found is None or found.low is None) and least.load > search.lowest and least.verdict != "fails":
            return self._toward(search.lowest, least.load / 2.0, up=False)
        if found is not None and found.high is None and greatest.load < search.highest and greatest.verdict != "holds":
            return self._toward(search.highest, 2.0 * greatest.load, up=True)
        return None

    def _fewest_seeds(self, found: Crossing | None) -> Point | None:
        """Return the point with the fewest seeds among those inside the interval and the nearest one on each side."""
        if found is None:
            return None
        low = max((load for load in self._points if found.low is not None and load <= found.low), default=0.0)
        high = min((load for load in self._points if found.high is not None and load >= found.high), default=math.inf)
        inner = [point for point in self._points.values() if low <= point.load <= high and point.estimate is not None]
        able = [point for point in inner if point.seeds < self._search.max_seeds]
        return min(able, key=lambda point: (point.seeds, abs(math.log(point.load / found.load))), default=None)

    def _tidy(self, load: float) -> float:
        """Round a load to its significant digits, within the range of the search."""
        rounded = float(round(load)) if self._search.whole else float(f"{load:.{self._search.digits}g}")
        return min(max(rounded, self._search.lowest), self._search.highest)

    def _answer(self, bound: Bound, found: Crossing | None) -> Frontier:
        points = tuple(self._points[load] for load in sorted(self._points))
        if bound == "above":
            return Frontier(bound, None, points[-1].load, None, False, points)
        if bound == "at_or_below":
            return Frontier(bound, None, None, points[0].load, False, points)
        if found is None:
            return Frontier(bound, None, None, None, False, points)
        load = found.load if found.bound == "crossed" else found.high if found.bound == "above" else found.low
        return Frontier(bound, self._whole(load, math.ceil), found.low, found.high, self._is_narrow(found), points)

    def _whole(self, load: float | None, rounded: Callable[[float], int]) -> float | None:
        """Round a load to a whole number if the search is restricted to whole numbers."""
        return load if load is None or not self._search.whole else float(rounded(round(load, 9)))
