"""Determine the number of seeds for a requested precision.

The first few seeds suffice if all intervals are at most half as wide as requested. Otherwise, a pilot estimates the variance of
each metric, as in Stein's two-stage procedure. The variance determines how many seeds reduce the 95% interval to the requested half
width. If the interval from all these seeds is still too wide, because the pilot underestimated the variance, the rule is applied
again to all seeds. Intervals are computed as in a study with a fixed number of seeds: Student's t or Wilson's interval from all
seeds.

A rule that stops as soon as an interval is narrow favors intervals that are narrow by chance. The size of the pilot limits this
effect: for normally distributed values and any requested precision, 92.7% to 95% of the intervals contain the true value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from endive.analysis.conditions import Subject
from endive.analysis.estimates import Estimate, Row, estimate_metric, t_quantile
from endive.analysis.metric import get_metric
from endive.config import ConfigError, Problem
from endive.config.study import PILOT_SEEDS, Precision

DEFAULT_SUBJECTS = (Subject("success_rate"), Subject("time_to_commit_p95_ms"))
"""Metrics to which a precision applies by default."""
_ROUNDS = 20
"""Maximum number of rounds; each adds at least one seed, and two rounds usually suffice."""


@dataclass(frozen=True)
class Width:
    """Half width of the interval of a metric, and the requested half width.

    Attributes:
        name: Name of the metric, with class and operation.
        half_width: Half width; None if the metric has no interval, even with more seeds.
        wanted: Requested half width.
        fixed: Component of the half width that more seeds do not reduce, because it is due to transactions in flight at the end of
            the run.
        mean: Value of the metric; infinite if transactions abort.
    """

    name: str
    half_width: float | None
    wanted: float
    fixed: float = 0.0
    mean: float = 0.0

    @property
    def is_narrow(self) -> bool:
        """True if the half width is at most the requested one."""
        return self.half_width is not None and self.half_width <= self.wanted

    @property
    def is_clearly_narrow(self) -> bool:
        """True if the interval is at most half as wide as requested, so that it is unlikely to be narrow by chance."""
        return self.half_width is not None and self.half_width - self.fixed <= (self.wanted - self.fixed) / 2.0

    @property
    def is_improvable(self) -> bool:
        """True if more seeds can reduce the half width to the requested one."""
        return self.half_width is not None and self.fixed < self.wanted


def is_share(metric: str) -> bool:
    """Return whether the precision of a metric is given in percentage points."""
    return get_metric(metric).unit == "share"


def choose_subjects(asked: Sequence[Subject], precision: Precision, source: str) -> tuple[Subject, ...]:
    """Return the metrics to which the precision applies: the requested metrics, by default success and p95.

    Raises:
        ConfigError: If a precision in percentage points is requested for a metric that is not a proportion.
    """
    if not asked:
        return tuple(each for each in DEFAULT_SUBJECTS if is_share(each.metric) or not precision.shares_only)
    for subject in asked:
        if precision.shares_only and not is_share(subject.metric):
            message = f"{precision} applies to proportions, and {subject} is not a proportion; set a relative precision such as 1%"
            raise ConfigError(source, [Problem("", message)])
    return tuple(dict.fromkeys(asked))


def measure_width(name: str, metric: str, found: Estimate | None, precision: Precision) -> Width:
    """Return the width of an estimate. If a percentile falls on aborted transactions in every seed, no seeds are needed."""
    if found is None or found.kind == "bound":
        return Width(name, None, 0.0)
    if found.kind == "never":
        return Width(name, 0.0, 0.0, mean=math.inf)
    return Width(name, found.half_width, precision.width_of(found.mean, is_share=is_share(metric)), found.unfinished, found.mean)


def measure_widths(select: Callable[[str, str], Sequence[Row]], subjects: Sequence[Subject], precision: Precision) -> list[Width]:
    """Return the widths of the intervals of some metrics across the runs of a configuration.

    Args:
        select: Function that returns the rows of metrics of all runs for a class and operation.
        subjects: Metrics to estimate.
        precision: Requested precision.
    """
    found = ((each, estimate_metric(select(each.workload_class, each.operation), each.metric)) for each in subjects)
    return [measure_width(str(each), each.metric, estimate, precision) for each, estimate in found]


def count_seeds(widths: Sequence[Width], seeds: int, most: int) -> int:
    """Return the number of seeds with which all intervals are expected to be as narrow as requested.

    The result is at most ``most``. It is ``seeds`` if the intervals are already narrow or more seeds do not help. If ``seeds`` is
    below the size of a pilot, it suffices only if all intervals are clearly narrow; otherwise, the result is the size of the pilot.
    """
    if seeds < PILOT_SEEDS:
        is_decided = all(width.is_clearly_narrow for width in widths)
        return seeds if is_decided else max(seeds, min(PILOT_SEEDS, most))
    return predict_seeds(widths, seeds, most)


def predict_seeds(widths: Sequence[Width], seeds: int, most: int) -> int:
    """Return the smallest number of seeds that makes all intervals narrow, except those that more seeds do not improve.

    The result is between ``seeds`` and ``most``. The half width is assumed to decrease with the number of seeds like that of a
    Student's t interval with constant variance.
    """
    wide = [width for width in widths if not width.is_narrow and width.is_improvable]
    return max((_count_for(width, seeds, most) for width in wide), default=seeds)


def _count_for(width: Width, seeds: int, most: int) -> int:
    assert width.half_width is not None
    spread = (width.half_width - width.fixed) * math.sqrt(seeds) / t_quantile(seeds - 1)
    few, enough = seeds, most
    while enough - few > 1:
        middle = (few + enough) // 2
        reached = t_quantile(middle - 1) * spread / math.sqrt(middle) <= width.wanted - width.fixed
        few, enough = (few, middle) if reached else (middle, enough)
    return max(enough, seeds)


@dataclass(frozen=True)
class Reached:
    """Number of seeds with which ``add_seeds`` stopped, and the widths of the intervals."""

    seeds: int
    widths: tuple[Width, ...]

    @property
    def wide(self) -> tuple[Width, ...]:
        """Intervals that are wider than requested."""
        return tuple(width for width in self.widths if not width.is_narrow)


def add_seeds(measure: Callable[[int], Sequence[Width]], precision: Precision, first: int | None = None) -> Reached:
    """Add seeds until the intervals are as narrow as requested, more seeds do not help, or the maximum is reached.

    Args:
        measure: Function that returns the widths of all intervals for a number of seeds.
        precision: Requested precision.
        first: Initial number of seeds; by default, ``precision.first_seeds``.
    """
    seeds = first or precision.first_seeds
    widths = tuple(measure(seeds))
    for _ in range(_ROUNDS):
        more = count_seeds(widths, seeds, precision.most_seeds)
        if more <= seeds:
            break
        seeds = more
        widths = tuple(measure(seeds))
    return Reached(seeds, widths)
