"""The load at which a condition begins to hold: bracketing and bisection, with replications.

A load *fails* if the condition holds for no part of the metric's interval, *holds* if it does for all of it, and is *open*
otherwise, as it is where nothing could be measured. The interval of the answer reaches from the largest load that fails to the
smallest that holds. Loads are looked at from outside this interval inwards, so none that fails lies above one that holds; a curve
that crosses its threshold several times has its first crossing found, as far as doubling the load does not leap over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from endive.analysis.crossings import Bound, crossing
from endive.analysis.estimates import Estimate
from endive.analysis.thresholds import Condition, Verdict

CONFIDENCE = 0.98
"""Of the intervals by which loads are judged. Several loads near the threshold are judged, each up to four times as seeds are
added, and any error is one of the answer: judged by 98 % intervals, 95 % of the answers hold the truth (a test counts them)."""

Evaluate = Callable[[float, int], Estimate | None]
"""A metric at a load over so many seeds; None if nothing could be measured."""


@dataclass(frozen=True)
class Search:
    """Where to look and how closely: loads from ``lowest`` to ``highest``, beginning at ``start``.

    ``tolerance`` is the relative width of the interval that is asked for; ``whole`` keeps to whole numbers.
    """

    start: float
    lowest: float
    highest: float
    tolerance: float = 0.05
    seeds: int = 5
    max_seeds: int = 40
    whole: bool = False


@dataclass(frozen=True)
class Point:
    """What was found at a load."""

    load: float
    seeds: int
    estimate: Estimate | None
    verdict: Verdict


@dataclass(frozen=True)
class Frontier:
    """The answer. ``load`` is None unless the condition was ``crossed``; an end of the interval is None where it is open."""

    bound: Bound
    load: float | None
    low: float | None
    high: float | None
    narrow: bool
    """Whether the interval is as narrow as was asked for."""
    points: tuple[Point, ...]


def find_frontier(
    evaluate: Evaluate, condition: Condition, search: Search, report: Callable[[Point], None] | None = None
) -> Frontier:
    """Search. ``report`` is told of each point as it is found, and again when it gets more seeds."""
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
        if bound != "crossed":
            return self._answer(bound)
        while not self._narrow() and self._step():
            pass
        return self._answer("crossed")

    def _look(self, load: float, seeds: int) -> Point:
        found = self._evaluate(load, seeds)
        verdict: Verdict = "open" if found is None else self._condition.verdict(found.low, found.high)
        point = Point(load, seeds, found, verdict)
        self._points[load] = point
        self._report(point)
        return point

    def _look_hard(self, load: float) -> Point:
        """With more seeds until the verdict is clear."""
        point = self._look(load, self._search.seeds)
        while point.verdict == "open" and point.seeds < self._search.max_seeds:
            point = self._more(point)
        return point

    def _more(self, point: Point) -> Point:
        return self._look(point.load, min(2 * point.seeds, self._search.max_seeds))

    def _bracket(self) -> Bound:
        """Double the load until the condition holds, or halve it until it fails."""
        search = self._search
        up = self._look(search.start, search.seeds).verdict != "holds"
        load, wanted = search.start, "holds" if up else "fails"
        end = search.highest if up else search.lowest
        while load != end:
            load = self._toward(end, 2.0 * load if up else load / 2.0, up)
            point = self._look(load, search.seeds) if load != end else self._look_hard(load)
            if point.verdict == wanted:
                return "crossed"
        if self._points[load].verdict == "open":
            return "crossed"
        return "above" if up else "at_or_below"

    def _toward(self, end: float, load: float, up: bool) -> float:
        """The next load on the way to an end: that end itself, however many digits it has, once the load is there."""
        tidy = self._tidy(load)
        return end if (tidy >= end if up else tidy <= end) else tidy

    def _ends(self) -> tuple[float | None, float | None]:
        """The largest load that fails and the smallest that holds."""
        fails = [load for load, point in self._points.items() if point.verdict == "fails"]
        holds = [load for load, point in self._points.items() if point.verdict == "holds"]
        return max(fails, default=None), min(holds, default=None)

    def _narrow(self) -> bool:
        low, high = self._ends()
        return low is not None and high is not None and high / low <= 1.0 + self._search.tolerance

    def _step(self) -> bool:
        """Look at one more load, or more closely at one that is open; false if there is nothing left to do.

        A load that is open even with all seeds stays inside the interval. The gaps on its sides are halved until each is half the
        tolerance (as ratios), so that one such load is no reason to give up.
        """
        low, high = self._ends()
        inner = [p for p in self._points.values() if (low is None or p.load > low) and (high is None or p.load < high)]
        undecided = [point for point in inner if point.seeds < self._search.max_seeds and point.estimate is not None]
        if undecided:
            self._more(min(undecided, key=lambda point: (point.seeds, point.load)))
            return True
        loads = sorted(point.load for point in inner)
        least = min(self._points)
        if low is None and least > self._search.lowest:
            self._look(self._tidy(least / 2.0), self._search.seeds)
            return True
        known = [*([] if low is None else [low]), *loads, *([] if high is None else [high])]
        gaps = [(upper / lower, lower, upper) for lower, upper in pairwise(known) if {low, high} & {lower, upper}]
        wide = [gap for gap in gaps if self._halvable(*gap[1:])]
        if wide:
            _, lower, upper = max(wide)
            self._look(self._tidy(math.sqrt(lower * upper)), self._search.seeds)
        return bool(wide)

    def _halvable(self, lower: float, upper: float) -> bool:
        middle = self._tidy(math.sqrt(lower * upper))
        return lower < middle < upper and upper / lower > math.sqrt(1.0 + self._search.tolerance) * (1.0 + 1e-9)

    def _tidy(self, load: float) -> float:
        """A load with few digits, as people would choose it, between the bounds."""
        digits = 3 if self._search.tolerance >= 0.02 else 5
        rounded = float(round(load)) if self._search.whole else float(f"{load:.{digits}g}")
        return min(max(rounded, self._search.lowest), self._search.highest)

    def _answer(self, bound: Bound) -> Frontier:
        points = tuple(self._points[load] for load in sorted(self._points))
        low, high = self._ends()
        return Frontier(bound, self._crossing(low, high) if bound == "crossed" else None, low, high, self._narrow(), points)

    def _crossing(self, low: float | None, high: float | None) -> float | None:
        """Where the means cross the threshold, between the ends of the answer; of whole numbers the first beyond it."""
        measured = [(point.load, point.estimate) for point in self._points.values() if point.estimate is not None]
        found = crossing(measured, self._condition.value, falling=self._condition.sign in ("<", "<="))
        if found is None or found.bound == "above":
            return high
        load = min(max(found.load, low or 0.0), high or math.inf)
        return float(math.ceil(load - 1e-9)) if self._search.whole else load
