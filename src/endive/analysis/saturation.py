"""Find the load at which a system saturates.

A point of a curve is saturated if success is below 99%, if throughput is below 95% of the offered load, or if the number of
committing transactions grows during the window. A criterion counts only if it is statistically significant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from endive.analysis.crossings import Bound, crossing
from endive.analysis.estimates import FEWEST_SEEDS, Estimate, t_quantile

LEAST_SUCCESS = 0.99
LEAST_THROUGHPUT = 0.95
"""Minimum throughput of a system that is not saturated, as a fraction of the offered load."""
FEWEST_ENTRIES = 20
"""Minimum size of the cohort for the throughput criterion. In smaller cohorts, transactions in flight at the end dominate."""
BACKLOG_PARTS = 12
"""Number of equal parts of the window in which the number of committing transactions is averaged."""
_LEAST_GROWTH, _LEAST_GROWTH_SHARE, _LEAST_GROWTH_RATIO = 3.0, 0.02, 0.25
_GROWTH_CONFIDENCE = 0.98
"""Two-sided confidence level, which is 99% for growth in one direction."""

Reason = Literal["success", "throughput", "backlog"]


@dataclass(frozen=True)
class Backlog:
    """Numbers of committing transactions and of commit starts in equal parts of the window of one run."""

    committing: tuple[float, ...]
    entered: tuple[float, ...]

    @property
    def first(self) -> float:
        """Mean number of committing transactions in the first third, scaled to the offered load of the last third."""
        third = max(1, len(self.committing) // 3)
        early, late = sum(self.entered[:third]), sum(self.entered[-third:])
        return float(np.mean(self.committing[:third])) * (late / early if early and late else 1.0)

    @property
    def growth(self) -> float:
        """Mean number of committing transactions in the last third minus ``first``."""
        third = max(1, len(self.committing) // 3)
        return float(np.mean(self.committing[-third:])) - self.first


def backlog_grows(runs: Sequence[Backlog]) -> bool:
    """Return whether the number of committing transactions grows during the window, significantly and by a relevant amount."""
    runs = [run for run in runs if len(run.committing) >= 3]
    if not runs:
        return False
    growth = [run.growth for run in runs]
    mean, entered = float(np.mean(growth)), float(np.mean([sum(run.entered) for run in runs]))
    first = float(np.mean([run.first for run in runs]))
    if mean < max(_LEAST_GROWTH, _LEAST_GROWTH_SHARE * entered, _LEAST_GROWTH_RATIO * first):
        return False
    if len(runs) >= FEWEST_SEEDS:
        error = float(np.std(growth, ddof=1)) / math.sqrt(len(runs))
        return mean > t_quantile(len(runs) - 1, _GROWTH_CONFIDENCE) * error
    from scipy import stats  # slow to import, and rarely needed

    series = np.sum([run.committing for run in runs], axis=0)
    tau = stats.kendalltau(np.arange(len(series)), series, alternative="greater")
    return bool(tau.pvalue < (1.0 - _GROWTH_CONFIDENCE) / 2.0)


@dataclass(frozen=True)
class LoadPoint:
    """Measurements at one load. A metric without a value is None.

    Attributes:
        load: Load.
        success: Estimate of ``success_high``, which counts transactions in flight as committed.
        throughput_ratio: Estimate of throughput divided by offered load.
        grows: True if the backlog grows.
        entered: Size of the cohort over all seeds.
    """

    load: float
    success: Estimate | None
    throughput_ratio: Estimate | None
    grows: bool = False
    entered: int = 0

    @property
    def reason(self) -> Reason | None:
        """Criterion by which the point is saturated; None if it is not saturated."""
        if self.success is not None and self.success.high < LEAST_SUCCESS:
            return "success"
        ratio = self.throughput_ratio
        if ratio is not None and ratio.high < LEAST_THROUGHPUT and self.entered >= FEWEST_ENTRIES:
            return "throughput"
        return "backlog" if self.grows else None


@dataclass(frozen=True)
class Saturation:
    """Load at which a curve saturates.

    Attributes:
        load: Load of saturation; the highest load if ``bound`` is ``above``.
        low: Lower end of the interval; None if the interval has no lower end, or with a single seed.
        high: Upper end of the interval; None if the interval has no upper end, or with a single seed.
        bound: ``crossed`` between two measured loads, ``at_or_below`` the lowest, or ``above`` the highest load.
        reason: Criterion of saturation.
    """

    load: float
    low: float | None
    high: float | None
    bound: Bound
    reason: Reason | None


def saturation(curve: Sequence[LoadPoint]) -> Saturation:
    """Find the saturation point of a curve: the lowest load at which one of the three criteria is met.

    A criterion counts only if it is significant at some load. The interval is computed as in ``endive frontier``, but its upper end
    is the first load at which the criterion is significant.

    Raises:
        ValueError: If the curve has no points.
    """
    if not curve:
        raise ValueError("a curve needs at least one point")
    points = sorted(curve, key=lambda point: point.load)
    found = [each for each in (_by_share(points, "success"), _by_share(points, "throughput"), _by_backlog(points)) if each]
    return min(found, key=lambda each: each.load, default=Saturation(points[-1].load, points[-1].load, None, "above", None))


def _by_share(points: Sequence[LoadPoint], reason: Literal["success", "throughput"]) -> Saturation | None:
    threshold = LEAST_SUCCESS if reason == "success" else LEAST_THROUGHPUT
    measured: list[tuple[float, Estimate, bool]] = []
    for point in points:
        value = point.success if reason == "success" else point.throughput_ratio
        if value is not None:
            enough = reason == "success" or point.entered >= FEWEST_ENTRIES
            measured.append((point.load, value, enough and value.high < threshold))
    sure = next((place for place, (_, _, below) in enumerate(measured) if below), None)
    if sure is None:
        return None
    found = crossing([(load, value) for load, value, _ in measured], threshold, falling=True)
    last = measured[sure][0]
    if found is None or sure == 0:
        return Saturation(last, None, last, "at_or_below", reason)
    return Saturation(min(found.load, last), found.low, last if found.high is None else min(found.high, last), "crossed", reason)


def _by_backlog(points: Sequence[LoadPoint]) -> Saturation | None:
    """Locate saturation between the last load without a growing backlog and the first load with one."""
    place = next((place for place, point in enumerate(points) if point.grows), None)
    if place is None:
        return None
    load = points[place].load
    if place == 0:
        return Saturation(load, None, load, "at_or_below", "backlog")
    before = points[place - 1].load
    return Saturation(math.sqrt(before * load) if before > 0.0 else load, before, load, "crossed", "backlog")
