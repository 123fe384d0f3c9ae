"""Is B other than A, and by how much: differences and ratios over seeds, with 95 % intervals.

What flows in: the values of a metric for the seeds of A and of B. What flows out: a ``Difference``, and a sentence about it. Under
common random numbers a seed gives A and B the same arrivals, runtimes and latencies, so that their difference for that seed has
much less noise than either; Student's t of those differences is the interval. Seeds that do not pair go by Welch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from endive.analysis.intervals import CONFIDENCE
from endive.analysis.thresholds import kind_of

MOST_SEEDS = 100_000
"""More seeds than this are not asked for: then there is no difference that anybody would notice."""


@dataclass(frozen=True)
class Difference:
    """B - A and B / A, with half widths; these are None where there are too few seeds, the ratio where A is 0."""

    a: float
    b: float
    difference: float
    half_width: float | None
    ratio: float | None
    ratio_half_width: float | None
    n_a: int
    n_b: int
    paired: bool

    @property
    def told(self) -> bool:
        """Whether the interval leaves no doubt that there is a difference."""
        return self.half_width is not None and abs(self.difference) > self.half_width


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The difference of values of the same seeds, in the same order. Raises ValueError if there are none.

    The ratio is that of the means; its interval is that of b - ratio x a, which is 0 on average, over the mean of a.
    """
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    n = len(first)
    if n == 0 or n != len(second):
        raise ValueError("pairs need as many values of A as of B, and at least one")
    mean_a, mean_b = float(first.mean()), float(second.mean())
    width, ratio, ratio_width = None, None, None
    if n >= 2:
        width = _t(n - 1) * float(np.std(second - first, ddof=1)) / math.sqrt(n)
    if mean_a > 0.0:
        ratio = mean_b / mean_a
        if n >= 2:
            ratio_width = _t(n - 1) * float(np.std(second - ratio * first, ddof=1)) / math.sqrt(n) / mean_a
    return Difference(mean_a, mean_b, mean_b - mean_a, width, ratio, ratio_width, n, n, paired=True)


def unpaired_difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The difference of values of seeds that have nothing to do with each other: Welch's interval."""
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not len(first) or not len(second):
        raise ValueError("a difference needs values of A and of B")
    mean_a, mean_b = float(first.mean()), float(second.mean())
    ratio = mean_b / mean_a if mean_a > 0.0 else None
    width, ratio_width = None, None
    if min(len(first), len(second)) >= 2:
        square_a, square_b = float(first.var(ddof=1)) / len(first), float(second.var(ddof=1)) / len(second)
        width = _welch(square_a, len(first), square_b, len(second))
        if ratio is not None:
            ratio_width = _welch(ratio**2 * square_a, len(first), square_b, len(second)) / mean_a
    return Difference(mean_a, mean_b, mean_b - mean_a, width, ratio, ratio_width, len(first), len(second), paired=False)


def _t(freedom: float) -> float:
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, freedom))


def _welch(square_a: float, n_a: int, square_b: float, n_b: int) -> float:
    """Half width from squared standard errors."""
    both = square_a + square_b
    if both == 0.0:
        return 0.0
    return _t(both**2 / (square_a**2 / (n_a - 1) + square_b**2 / (n_b - 1))) * math.sqrt(both)


def seeds_to_tell(found: Difference) -> int | None:
    """About how many seeds would tell a difference as large as the one that was seen; None if that cannot be said."""
    n = min(found.n_a, found.n_b)
    if found.half_width is None or found.difference == 0.0:
        return None
    spread = found.half_width * math.sqrt(n) / _t(n - 1)
    wanted = max(2.0, (spread / abs(found.difference)) ** 2)
    for _ in range(20):
        wanted = max(2.0, (_t(max(1.0, wanted - 1.0)) * spread / abs(found.difference)) ** 2)
    return None if wanted > MOST_SEEDS else math.ceil(wanted)


_MORE_IS_BETTER = {"throughput_per_s": True, "throughput_ratio": True, "success_rate": True, "offered_per_s": None}


def better(metric: str, found: Difference) -> bool | None:
    """Whether B is better than A; None if that cannot be told, or is no matter of better or worse."""
    more = _MORE_IS_BETTER.get(metric, False)
    return None if more is None or not found.told else (found.difference > 0.0) == more


def verdict(metric: str, found: Difference) -> str:
    """The difference in a sentence."""
    if found.half_width is None:
        return f"{_change(metric, found)} with one seed, which is too few to tell"
    if found.told:
        return _change(metric, found)
    if found.difference == 0.0 and found.half_width == 0.0:
        return "A and B are equal"
    seeds = seeds_to_tell(found)
    size = amount(metric, replace(found, half_width=None))
    needed = "" if seeds is None else f"; about {seeds:,} seeds would tell a difference of {size}"
    return f"no difference can be told: the interval contains 0{needed}"


def _change(metric: str, found: Difference) -> str:
    more = found.difference >= 0.0
    size = amount(metric, found)
    share = "" if found.ratio is None or kind_of(metric) == "share" else f" ({100.0 * (found.ratio - 1.0):+.3g} %)"
    if metric == "throughput_per_s":
        return f"B commits {size} {'more' if more else 'fewer'} transactions per second{share}"
    if metric == "retries_per_txn":
        return f"B retries {size} times {'more' if more else 'less'} per transaction{share}"
    name = metric.removesuffix("_ms").removesuffix("_per_txn").removesuffix("_per_s").replace("_", " ")
    if kind_of(metric) == "time":
        return f"{name} is {size} {'longer' if more else 'shorter'} in B{share}"
    return f"{name} is {size} {'higher' if more else 'lower'} in B{share}"


def amount(metric: str, found: Difference) -> str:
    """The size of a difference with its half width, in one unit."""
    kind, size, width = kind_of(metric), abs(found.difference), found.half_width
    unit, factor = {"share": (" percentage points", 100.0), "time": (" ms", 1.0), "rate": ("", 1.0), "number": ("", 1.0)}[kind]
    if kind == "time" and size >= 1000.0:
        unit, factor = " s", 0.001
    return f"{_number(size * factor, 3)}{'' if width is None else f' +- {_number(width * factor, 2)}'}{unit}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if value < 10.0 ** (digits - 0.5) else f"{value:,.0f}"
