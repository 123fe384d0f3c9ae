"""Compare configurations across seeds: differences and ratios with 95% intervals.

With common random numbers, A and B have the same arrivals, runtimes and latencies for the same seed. The difference between A and B
for one seed then varies much less than either value, so the interval is a Student's t interval of these differences. If seeds
cannot be paired, the interval is Welch's. Comparisons with several alternatives use Bonferroni's correction: the error probability
of 5% is divided by the number of comparisons, so that all intervals hold simultaneously with 95% confidence. Dunnett's intervals
would be narrower, but they assume equal variances and independence given the baseline, which common random numbers violate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from endive.analysis import Floats
from endive.analysis.estimates import CONFIDENCE, FEWEST_SEEDS, SHARES, t_quantile, z_quantile
from endive.analysis.metric import more_is_better

MOST_SEEDS = 100_000
"""Maximum recommended number of seeds. A difference that needs more seeds is too small to be relevant."""


@dataclass(frozen=True)
class Difference:
    """Difference B - A and ratio B / A with half widths.

    A half width is None if the seeds do not determine it. The ratio is None if A is 0.
    """

    a: float
    b: float
    difference: float
    half_width: float | None
    ratio: float | None
    ratio_half_width: float | None
    n_a: int
    n_b: int
    paired: bool
    constant: bool = False
    """True if the difference is the same for every seed, so that its variance cannot be estimated."""
    unfinished: float = 0.0
    """Component of the half width that is due to transactions in flight at the end of the run, which more seeds do not reduce."""

    @property
    def is_significant(self) -> bool:
        """True if the difference is significant (95%): its interval excludes 0, or three or more seeds have the same difference."""
        if self.half_width is not None:
            return abs(self.difference) > self.half_width
        return self.constant and self.difference != 0.0 and min(self.n_a, self.n_b) >= FEWEST_SEEDS


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """Compare the values of A and B for the same seeds, in the same order.

    The ratio is the ratio of the means. The half width of the ratio is the half width of ``b - ratio * a``, which has mean 0,
    divided by the mean of ``a``.

    Raises:
        ValueError: If there are no values, or the numbers of values of A and B differ.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    n = len(first)
    if n == 0 or n != len(second):
        raise ValueError("pairs need the same number of values of A and B, and at least one")

    def half_width(ratio: float) -> float:
        return t_quantile(n - 1, confidence) * float(np.std(second - ratio * first, ddof=1)) / math.sqrt(n)

    same = bool(np.all(second - first == second[0] - first[0]))
    return _difference(first, second, half_width, same=same, paired=True)


def unpaired_difference(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """Compare the values of A and B for unrelated seeds by Welch's interval."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not len(first) or not len(second):
        raise ValueError("a difference needs values of A and of B")

    def half_width(ratio: float) -> float:
        square_a, square_b = ratio**2 * (float(first.var(ddof=1)) / len(first)), float(second.var(ddof=1)) / len(second)
        both = square_a + square_b
        freedom = both**2 / (square_a**2 / (len(first) - 1) + square_b**2 / (len(second) - 1))
        return t_quantile(freedom, confidence) * math.sqrt(both)

    same = bool(np.all(first == first[0]) and np.all(second == second[0]))
    return _difference(first, second, half_width, same=same, paired=False)


def _difference(first: Floats, second: Floats, half_width: Callable[[float], float], *, same: bool, paired: bool) -> Difference:
    """Compute the difference and the ratio of two means.

    Args:
        first: Values of A.
        second: Values of B.
        half_width: Function that returns the half width of ``b - ratio * a`` for a ratio.
        same: True if all seeds have the same difference.
        paired: True if the values are paired by seed.
    """
    mean_a, mean_b = float(first.mean()), float(second.mean())
    ratio = mean_b / mean_a if mean_a > 0.0 else None
    enough = min(len(first), len(second)) >= 2
    known = enough and not same
    width = half_width(1.0) if known else None
    ratio_width = half_width(ratio) / mean_a if known and ratio is not None else None
    sizes = len(first), len(second)
    return Difference(mean_a, mean_b, mean_b - mean_a, width, ratio, ratio_width, *sizes, paired, constant=enough and same)


def with_least_width(found: Difference, least: float, unfinished: float = 0.0) -> Difference:
    """Widen a difference of counts or proportions to a half width of at least ``least``, even if all seeds agree.

    ``unfinished`` is the component of the half width that is due to transactions in flight at the end of the run. A difference of a
    single seed has no interval and is returned unchanged.
    """
    if min(found.n_a, found.n_b) < 2:
        return found
    width = max(found.half_width or 0.0, least)
    ratio_width = None if found.ratio is None or found.a <= 0.0 else max(found.ratio_half_width or 0.0, least / found.a)
    return replace(found, half_width=width, ratio_half_width=ratio_width, unfinished=unfinished)


def least_share_width(transactions: float, confidence: float = CONFIDENCE) -> float:
    """Return the minimum half width for a proportion of ``transactions``: the upper end of the Wilson interval of proportion 0."""
    z2 = z_quantile(confidence) ** 2
    return z2 / (transactions + z2)


def least_rate_width(seconds: float, confidence: float = CONFIDENCE) -> float:
    """Return the minimum half width for a rate that was measured for ``seconds``."""
    return z_quantile(confidence) ** 2 / seconds


@dataclass(frozen=True)
class RunCounts:
    """Numbers of transactions that started committing and that were in flight at the end, and the measured time, over some runs."""

    transactions: int
    in_flight: int
    seconds: float

    @property
    def half_success_range(self) -> float:
        """Half of the range of the success rate, which extends from no commit to a commit of every transaction in flight."""
        return self.in_flight / max(1.0, float(self.transactions)) / 2.0


def widen_difference(
    found: Difference, metric: str, a: RunCounts, b: RunCounts, confidence: float = CONFIDENCE, *, least_width: float = 0.0
) -> Difference:
    """Widen the interval of a difference by the uncertainty that the variance between seeds does not show.

    Proportions and rates have a minimum half width, because a small difference cannot be measured with few transactions or in a
    short time. The interval of a difference of success rates also covers every outcome of the transactions in flight.

    Args:
        found: Difference of the metric between A and B.
        metric: Name of the metric.
        a: Counts of the runs of A.
        b: Counts of the runs of B.
        confidence: Confidence level of the interval of the difference.
        least_width: Minimum half width for any metric.
    """
    least, unfinished = least_width, 0.0
    if metric in SHARES:
        least = max(least, least_share_width(min(a.transactions, b.transactions), confidence))
    elif metric.endswith("_per_s"):
        least = max(least, least_rate_width(min(a.seconds, b.seconds), confidence))
    if metric == "success_rate":
        unfinished = a.half_success_range + b.half_success_range
        least = max(least, (found.half_width or 0.0) + unfinished)
    return with_least_width(found, least, unfinished) if least > 0.0 else found


def estimate_seeds_needed(found: Difference) -> int | None:
    """Estimate the number of seeds that makes a difference of this size significant; None if no number of seeds does."""
    n, size = min(found.n_a, found.n_b), abs(found.difference) - found.unfinished
    if found.half_width is None or size <= 0.0:
        return None
    spread = (found.half_width - found.unfinished) * math.sqrt(n) / t_quantile(n - 1)
    few, enough = n, MOST_SEEDS + 1
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if t_quantile(middle - 1) * spread / math.sqrt(middle) < size else (middle, enough)
    return None if enough > MOST_SEEDS else enough


def better(metric: str, found: Difference) -> bool | None:
    """Return whether B is better than A; None if the difference is not significant, or the metric has no direction."""
    more = more_is_better(metric)
    return None if more is None or not found.is_significant else (found.difference > 0.0) == more


def confidence_of_each(comparisons: int) -> float:
    """Return the per-interval confidence level for 95% simultaneous confidence (Bonferroni)."""
    return 1.0 - (1.0 - CONFIDENCE) / max(1, comparisons)


Compare = Callable[[str, str, float], Difference]
"""Function of the names of two alternatives and a confidence level that returns the second value minus the first."""


@dataclass(frozen=True)
class Best:
    """Best of several alternatives, and its lead over each other alternative: the value of the best minus the other value."""

    name: str
    leads: Mapping[str, Difference]
    clear: bool
    """True if the best is significantly better (95%) than every other alternative."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """Alternatives that are not significantly worse than the best."""
        return tuple(name for name, lead in self.leads.items() if not lead.is_significant)


def best_of(alternatives: Mapping[str, Sequence[float]], metric: str, compare: Compare | None = None) -> Best:
    """Find the alternative with the best mean across the same seeds, and compare it with the others.

    The leads have simultaneous 95% intervals (multiple comparisons with the best). If means are equal, the first alternative is the
    best. ``metric`` determines whether higher or lower values are better.

    Args:
        alternatives: Values of each alternative for the same seeds.
        metric: Name of the metric.
        compare: Function that compares two alternatives; by default, the paired difference of their values.

    Raises:
        ValueError: If the metric has no direction, a value is not finite, there are no alternatives, or the alternatives have
            different numbers of values.
    """
    more = more_is_better(metric)
    if more is None:
        raise ValueError(f"neither more nor less of {metric} is better")
    if not alternatives:
        raise ValueError("there are no alternatives")
    seeds = len(next(iter(alternatives.values())))
    for name, values in alternatives.items():
        if len(values) != seeds or not all(map(math.isfinite, values)):
            raise ValueError(f"{name}: {seeds} finite values are needed, one for each seed")
    sign = 1.0 if more else -1.0
    leader = max(alternatives, key=lambda name: sign * math.fsum(alternatives[name]))
    others = [name for name in alternatives if name != leader]
    confidence = confidence_of_each(len(others))
    compare = compare or (lambda a, b, level: paired_difference(alternatives[a], alternatives[b], level))
    leads = {name: compare(name, leader, confidence) for name in others}
    return Best(leader, leads, all(lead.is_significant for lead in leads.values()))
