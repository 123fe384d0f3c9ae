"""Estimates of metrics over seeds, with intervals: means by Student's t, shares by Wilson's interval and the design effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from endive.analysis import Floats, Ints
from endive.analysis.percentiles import PERCENTS

CONFIDENCE = 0.95
_FEWEST_PER_SEED = 10
"""Successes and failures in each seed, on average, from which on the variance between seeds is taken as it is."""
FEWEST_SEEDS = 3
"""With fewer seeds than this an interval says little, and outputs flag it."""


@dataclass(frozen=True)
class Estimate:
    """A mean over the ``n`` seeds that have the metric, and the ends of its interval; infinite where one seed alone cannot tell.

    A percentile that is no number is a ``bound``, of which ``mean`` and ``low`` are the lower end, or ``never``: infinite.
    """

    mean: float
    low: float
    high: float
    n: int
    kind: Literal["number", "bound", "never"] = "number"
    unfinished: float = 0.0
    """By how much a share is higher if all of the unfinished commit, and lower if none does."""

    @property
    def half_width(self) -> float | None:
        """The distance from the mean to the farther end; None if that is not finite."""
        width = max(self.high - self.mean, self.mean - self.low)
        return width if math.isfinite(width) else None


@cache
def z_quantile(confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


@cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t distribution."""
    from scipy import special  # takes long to load, and a single run has no need of it

    return float(special.stdtrit(freedom, 0.5 + confidence / 2.0))


def half_widths(deviations: Floats, counts: Ints) -> Floats:
    """Return half widths by Student's t from sample standard deviations; NaN where there are fewer than two seeds."""
    from scipy import special

    enough = counts >= 2
    safe = np.where(enough, counts, 2)
    widths = special.stdtrit(safe - 1, 0.5 + CONFIDENCE / 2.0) * deviations / np.sqrt(safe)
    return np.where(enough, widths, np.nan)


def mean_estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Estimate a mean over seeds, with its interval by Student's t. Raises ValueError if there are no values."""
    if not values:
        raise ValueError("the mean of no values")
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, n)
    width = t_quantile(n - 1, confidence) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - width, mean + width, n)


def share_estimate(successes: Sequence[float], trials: Sequence[int], confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the share of successes in trials, given by seed: Wilson's interval, widened by the design effect.

    Seeds without trials are not counted. Commits of a window may be more than its entries; that is a share of 1. Raises ValueError
    if there are no trials at all.
    """
    pairs = [(each, of) for each, of in zip(successes, trials, strict=True) if of > 0]
    if not pairs:
        raise ValueError("a share of nothing")
    good, whole = (np.array(column, np.float64)[:, np.newaxis] for column in zip(*pairs, strict=True))
    share, low, high = (float(column[0]) for column in shares(good, whole, confidence))
    return Estimate(share, low, high, len(pairs))


def shares(successes: Floats, trials: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
    """Estimate many shares at once, a column each, with seeds as rows: share and both ends; NaN without trials."""
    whole = trials.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(1.0, successes.sum(axis=0) / whole)
        return share, *_wilson(share, _effective_trials(successes, trials, confidence), confidence)


def success_estimate(
    committed: Sequence[int], unfinished: Sequence[int], entered: Sequence[int], confidence: float = CONFIDENCE
) -> Estimate:
    """Estimate success over seeds: from the lower end if all in flight abort to the upper end if all of them commit."""
    all_commit = [each + more for each, more in zip(committed, unfinished, strict=True)]
    least, most = share_estimate(committed, entered, confidence), share_estimate(all_commit, entered, confidence)
    return Estimate((least.mean + most.mean) / 2.0, least.low, most.high, least.n, unfinished=(most.mean - least.mean) / 2.0)


def successes(committed: Floats, unfinished: Floats, entered: Floats) -> tuple[Floats, Floats, Floats]:
    """Estimate success of many groups at once, a column each, with seeds as rows, as ``success_estimate`` does."""
    least, low, _ = shares(committed, entered)
    most, _, high = shares(committed + unfinished, entered)
    return (least + most) / 2.0, low, high


def _wilson(share: Floats, trials: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return Return Wilson's intervals of shares of so many trials, which need not be whole numbers."""
    z2 = z_quantile(confidence) ** 2
    middle = (share + z2 / (2.0 * trials)) / (1.0 + z2 / trials)
    width = np.sqrt(z2 * (share * (1.0 - share) / trials + z2 / (4.0 * trials**2))) / (1.0 + z2 / trials)
    low = np.where(share <= 0.0, 0.0, np.maximum(0.0, middle - width))
    return low, np.where(share >= 1.0, 1.0, np.minimum(1.0, middle + width))


def _effective_trials(successes: Floats, trials: Floats, confidence: float) -> Floats:
    """Return the number of independent trials with the same information as these, which are correlated within seeds.

    Seeds are rows. The design effect is the variance of the share between seeds over the binomial one; it is estimated from few
    seeds, for which (z / t)^2 makes up (Korn and Graubard, 1998). Where each seed has some successes and some failures, trials may
    also tell more than independent ones would: a pointer that is always busy commits nearly the same number in every run. Where
    there are too few to know that, they count as many as there are, at most.
    """
    seeds, whole = (trials > 0.0).sum(axis=0), trials.sum(axis=0)
    if len(trials) < 2:
        return np.asarray(whole)
    share = np.minimum(1.0, successes.sum(axis=0) / whole)
    binomial = share * (1.0 - share) / whole
    freedom = np.maximum(seeds - 1, 1)
    between = seeds / freedom * np.sum((successes - share * trials) ** 2, axis=0) / whole**2
    from scipy import special

    known = (z_quantile(confidence) / special.stdtrit(freedom, 0.5 + confidence / 2.0)) ** 2
    told = np.where(between > 0.0, whole * binomial / np.where(between > 0.0, between, 1.0) * known, np.inf)
    rarer = np.minimum(successes.sum(axis=0), whole - successes.sum(axis=0))
    believed = np.isfinite(told) & (rarer >= _FEWEST_PER_SEED * seeds)
    estimated = (seeds >= 2) & (binomial > 0.0)
    return np.asarray(np.where(estimated, np.where(believed, told, np.minimum(whole, told)), whole))


Row = Mapping[str, Any]
"""The metrics of one run, class and operation, by name."""


def at_least(percentile: str) -> str:
    """Return the name of the lower bound of a percentile: ``x_p99_at_least_ms`` for ``x_p99_ms``."""
    return f"{percentile.removesuffix('_ms')}_at_least_ms"


def at_most(percentile: str) -> str:
    """Return the name of the upper bound of a percentile."""
    return f"{percentile.removesuffix('_ms')}_at_most_ms"


def estimate_metric(rows: Sequence[Row], metric: str, confidence: float = CONFIDENCE) -> Estimate | None:
    """Estimate a metric over the runs of a configuration; None if none of them has it."""
    present = [row for row in rows if row.get("transactions")]
    if metric in _ESTIMATES:
        return _ESTIMATES[metric](present, confidence) if present else None
    if any(at_least(metric) in row for row in rows):
        return _percentile(rows, metric, confidence)
    values = [float(row[metric]) for row in rows if row.get(metric) is not None]
    return mean_estimate(values, confidence) if values else None


def _success(rows: Sequence[Row], confidence: float) -> Estimate:
    committed, unfinished, entered = ([row[name] for row in rows] for name in ("committed", "in_flight", "transactions"))
    return success_estimate(committed, unfinished, entered, confidence)


def _share(*counted: str) -> Callable[[Sequence[Row], float], Estimate]:
    """Return an estimator of the share of these counts in all transactions."""

    def estimate(rows: Sequence[Row], confidence: float) -> Estimate:
        counts = [sum(row[name] for name in counted) for row in rows]
        return share_estimate(counts, [row["transactions"] for row in rows], confidence)

    return estimate


_ESTIMATES = {
    "success_rate": _success,
    "success_low": _share("committed"),
    "success_high": _share("committed", "in_flight"),
    "throughput_ratio": _share("commits_in_window"),
}
SHARES = tuple(_ESTIMATES)
"""Metrics that are counts of transactions over counts of transactions."""


def _percentile(rows: Sequence[Row], metric: str, confidence: float) -> Estimate | None:
    """Estimate a percentile: by Student's t if every run has a number, otherwise from the bounds of the runs."""
    known = [row for row in rows if row.get(metric) is not None or row.get(at_least(metric)) is not None]
    if not known:
        return None
    values = [row[metric] for row in known if row.get(metric) is not None]
    if len(values) == len(known):
        return mean_estimate([float(value) for value in values], confidence)
    lows = [_either(row, at_least(metric), metric) for row in known]
    highs = [_either(row, at_most(metric), metric) for row in known]
    if all(low == math.inf for low in lows):
        return Estimate(math.inf, math.inf, math.inf, len(known), "never")
    low = max([min(lows), *_lower_percentiles(rows, metric, confidence)])
    return Estimate(low, low, max(highs), len(known), "bound")


def _lower_percentiles(rows: Sequence[Row], metric: str, confidence: float) -> Iterator[float]:
    """Yield the estimates of lower percentiles: in every seed a percentile is at least these, and so is its mean."""
    name, _, percent = metric.removesuffix("_ms").rpartition("_p")
    for lower in PERCENTS:
        if percent.isdigit() and lower < int(percent):
            found = _percentile(rows, f"{name}_p{lower}_ms", confidence)
            if found is not None and found.kind != "never":
                yield found.mean


def _either(row: Row, name: str, other: str) -> float:
    value = row.get(name)
    return float(row[other] if value is None else value)
