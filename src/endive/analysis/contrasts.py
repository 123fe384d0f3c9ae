"""Differences and ratios between configurations over seeds, with 95% intervals.

Under common random numbers a seed gives A and B the same arrivals, runtimes and latencies, so their difference for that seed has
much less noise than either value: Student's t of these differences is the interval. Seeds that do not pair are compared by Welch's
interval. Where several alternatives are compared, the error of 5% is shared equally among the comparisons (Bonferroni), so that all
intervals hold together with 95% confidence. Dunnett's narrower intervals require alternatives that vary equally and independently
given the baseline, which runs with common random numbers do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from endive.analysis import Floats
from endive.analysis.estimates import CONFIDENCE, FEWEST_SEEDS, t_quantile, z_quantile
from endive.analysis.metric import more_is_better

MOST_SEEDS = 100_000
"""More seeds than this are not asked for: then there is no difference that anybody would notice."""


@dataclass(frozen=True)
class Difference:
    """B - A and B / A, with half widths; these are None where the seeds do not tell them, the ratio where A is 0."""

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
    """Whether the difference is the same in every seed, so that its spread says nothing."""
    unfinished: float = 0.0
    """How much of the half width the unfinished leave open, which more seeds do not narrow."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant (95%): the interval does not reach 0, or it is the same in three seeds or more."""
        if self.half_width is not None:
            return abs(self.difference) > self.half_width
        return self.constant and self.difference != 0.0 and min(self.n_a, self.n_b) >= FEWEST_SEEDS


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """Compare values of the same seeds, in the same order. Raises ValueError if there are none.

    The ratio is that of the means; its interval is that of b - ratio x a, which is 0 on average, over the mean of a.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    n = len(first)
    if n == 0 or n != len(second):
        raise ValueError("pairs need as many values of A as of B, and at least one")

    def half_width(ratio: float) -> float:
        return t_quantile(n - 1, confidence) * float(np.std(second - ratio * first, ddof=1)) / math.sqrt(n)

    same = bool(np.all(second - first == second[0] - first[0]))
    return _difference(first, second, half_width, same=same, paired=True)


def unpaired_difference(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """Compare values of unrelated seeds by Welch's interval."""
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
    """Compute difference and ratio of means. ``half_width`` is that of b - ratio x a; ``same``: seeds do not differ."""
    mean_a, mean_b = float(first.mean()), float(second.mean())
    ratio = mean_b / mean_a if mean_a > 0.0 else None
    enough = min(len(first), len(second)) >= 2
    known = enough and not same
    width = half_width(1.0) if known else None
    ratio_width = half_width(ratio) / mean_a if known and ratio is not None else None
    sizes = len(first), len(second)
    return Difference(mean_a, mean_b, mean_b - mean_a, width, ratio, ratio_width, *sizes, paired, constant=enough and same)


def with_least_width(found: Difference, least: float, unfinished: float = 0.0) -> Difference:
    """Return a difference of counts or shares whose half width is at least ``least``, however much the seeds agree.

    ``unfinished`` is the part of it that is open because transactions did not end. Differences of a single seed stay without an
    interval.
    """
    if min(found.n_a, found.n_b) < 2:
        return found
    width = max(found.half_width or 0.0, least)
    ratio_width = None if found.ratio is None or found.a <= 0.0 else max(found.ratio_half_width or 0.0, least / found.a)
    return replace(found, half_width=width, ratio_half_width=ratio_width, unfinished=unfinished)


def least_share_width(transactions: float, confidence: float = CONFIDENCE) -> float:
    """Return by how much shares of so many transactions may differ unseen: Wilson's upper end for 0 of them."""
    z2 = z_quantile(confidence) ** 2
    return z2 / (transactions + z2)


def least_rate_width(seconds: float, confidence: float = CONFIDENCE) -> float:
    """Return the least half width of a difference of rates that were counted for so many seconds."""
    return z_quantile(confidence) ** 2 / seconds


def estimate_seeds_needed(found: Difference) -> int | None:
    """Estimate how many seeds would make a difference of this size significant; None if no number would."""
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
    """Return whether B is better than A; None if the difference is not significant, or neither direction is better."""
    more = more_is_better(metric)
    return None if more is None or not found.is_significant else (found.difference > 0.0) == more


def confidence_of_each(comparisons: int) -> float:
    """Return the confidence that each of so many intervals needs, so that all of them hold together with 95 %."""
    return 1.0 - (1.0 - CONFIDENCE) / max(1, comparisons)


def against_baseline(
    baseline: Sequence[float], alternatives: Mapping[str, Sequence[float]], *, least_width: float = 0.0
) -> dict[str, Difference]:
    """Compare each alternative with the baseline seed by seed; the 95 % intervals hold together.

    ``least_width`` is the half width below which no difference is told, however much the seeds agree (``least_share_width`` of
    shares, ``least_rate_width`` of rates, both with the confidence of ``confidence_of_each``). Raises ValueError if a value is not
    finite, or there are not as many as of the baseline.
    """
    _check(baseline, alternatives)
    confidence = confidence_of_each(len(alternatives))
    return {name: _floored(paired_difference(baseline, values, confidence), least_width) for name, values in alternatives.items()}


@dataclass(frozen=True)
class Best:
    """The leader of some alternatives, and its lead over each other one: value of the leader less that of the other."""

    name: str
    leads: Mapping[str, Difference]
    clear: bool
    """Whether the leader is better than every other one beyond doubt."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The others that may be as good as the leader."""
        return tuple(name for name, lead in self.leads.items() if not lead.is_significant)


def best_of(alternatives: Mapping[str, Sequence[float]], metric: str, *, least_width: float = 0.0) -> Best:
    """Find the best of alternatives by their means over the same seeds, and whether it is significantly better than all others.

    The intervals of its leads hold together with 95 % confidence (multiple comparisons with the best). Of equal means the first
    leads. ``metric`` says whether more or less is better. Raises ValueError if neither is, if a value is not finite, or if there
    are no alternatives or not as many values of each.
    """
    more = more_is_better(metric)
    if more is None:
        raise ValueError(f"neither more nor less of {metric} is better")
    if not alternatives:
        raise ValueError("the best of no alternatives")
    _check(next(iter(alternatives.values())), alternatives)
    sign = 1.0 if more else -1.0
    leader = max(alternatives, key=lambda name: sign * math.fsum(alternatives[name]))
    others = {name: values for name, values in alternatives.items() if name != leader}
    confidence = confidence_of_each(len(others))
    leads = {
        name: _floored(paired_difference(values, alternatives[leader], confidence), least_width) for name, values in others.items()
    }
    return Best(leader, leads, all(lead.is_significant for lead in leads.values()))


def _floored(found: Difference, least_width: float) -> Difference:
    return with_least_width(found, least_width) if least_width > 0.0 else found


def _check(baseline: Sequence[float], alternatives: Mapping[str, Sequence[float]]) -> None:
    for name, values in (("the baseline", baseline), *alternatives.items()):
        if len(values) != len(baseline) or not all(map(math.isfinite, values)):
            raise ValueError(f"{name}: {len(baseline)} finite values are needed, one for each seed")
