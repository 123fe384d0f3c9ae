"""Estimate metrics across seeds, with Student's t intervals for means and Wilson intervals for proportions (with design effect)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from endive.analysis import Floats, Ints
from endive.analysis.percentiles import PERCENTS
from endive.formatting import finite

CONFIDENCE = 0.95
_FEWEST_PER_SEED = 10
"""Minimum mean number of successes and of failures per seed. With fewer, a variance below the binomial variance is rejected."""
FEWEST_SEEDS = 3
"""Minimum number of seeds for a reliable interval. The output flags intervals from fewer seeds."""


@dataclass(frozen=True)
class Estimate:
    """Mean over the ``n`` seeds that have a value of the metric, and its interval, whose ends are infinite for a single seed.

    If only a lower bound of a percentile or of the retries is known, the kind of the estimate is ``bound``, and ``mean`` and
    ``low`` are the bound. If a percentile is infinite in every seed, the kind is ``never``.
    """

    mean: float
    low: float
    high: float
    n: int
    kind: Literal["number", "bound", "never"] = "number"
    unfinished: float = 0.0
    """Half the width of the range of a proportion that is due to transactions in flight at the end of the run."""

    @property
    def half_width(self) -> float | None:
        """Distance from the mean to the farther end of the interval; None if it is not finite."""
        width = max(self.high - self.mean, self.mean - self.low)
        return width if math.isfinite(width) else None

    def as_data(self) -> dict[str, Any]:
        """Return the fields for JSON, with None for numbers that are not finite."""
        return {name: value if isinstance(value, str) else finite(value) for name, value in asdict(self).items()}


@cache
def z_quantile(confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


@cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t distribution."""
    from scipy import special  # slow to import, and not needed for a single run

    return float(special.stdtrit(freedom, 0.5 + confidence / 2.0))


def half_widths(deviations: Floats, counts: Ints) -> Floats:
    """Return half widths of Student's t intervals from sample standard deviations; NaN for fewer than two seeds."""
    from scipy import special

    enough = counts >= 2
    safe = np.where(enough, counts, 2)
    widths = special.stdtrit(safe - 1, 0.5 + CONFIDENCE / 2.0) * deviations / np.sqrt(safe)
    return np.where(enough, widths, np.nan)


def mean_estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Estimate a mean across seeds with a Student's t interval. Raises ValueError if there are no values."""
    if not values:
        raise ValueError("a mean needs at least one value")
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, n)
    width = t_quantile(n - 1, confidence) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - width, mean + width, n)


def share_estimate(successes: Sequence[float], trials: Sequence[int], confidence: float = CONFIDENCE) -> Estimate:
    """Estimate a proportion of successes, given by seed, with a Wilson interval widened by the design effect.

    Seeds without trials are ignored. If there are more successes than trials, because more transactions commit in a window than
    start committing, the proportion is 1.

    Raises:
        ValueError: If there are no trials.
    """
    pairs = [(count, total) for count, total in zip(successes, trials, strict=True) if total > 0]
    if not pairs:
        raise ValueError("a share needs at least one trial")
    good, whole = (np.array(column, np.float64)[:, np.newaxis] for column in zip(*pairs, strict=True))
    share, low, high = (float(column[0]) for column in shares(good, whole, confidence))
    return Estimate(share, low, high, len(pairs))


def shares(successes: Floats, trials: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
    """Estimate proportions and both ends of their intervals. Each column of the input is a proportion, and each row a seed.

    The results of a column without trials are NaN.
    """
    whole = trials.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(1.0, successes.sum(axis=0) / whole)
        return share, *_wilson(share, _effective_trials(successes, trials, confidence), confidence)


def success_estimate(
    committed: Sequence[int], unfinished: Sequence[int], entered: Sequence[int], confidence: float = CONFIDENCE
) -> Estimate:
    """Estimate the success rate across seeds.

    The lower end of the interval assumes that all transactions in flight abort, and the upper end that all of them commit.
    """
    all_commit = [each + more for each, more in zip(committed, unfinished, strict=True)]
    least, most = share_estimate(committed, entered, confidence), share_estimate(all_commit, entered, confidence)
    return Estimate((least.mean + most.mean) / 2.0, least.low, most.high, least.n, unfinished=(most.mean - least.mean) / 2.0)


def successes(committed: Floats, unfinished: Floats, entered: Floats) -> tuple[Floats, Floats, Floats]:
    """Estimate success rates as ``success_estimate`` does. Each column of the input is a group, and each row a seed."""
    least, low, _ = shares(committed, entered)
    most, _, high = shares(committed + unfinished, entered)
    return (least + most) / 2.0, low, high


def _wilson(share: Floats, trials: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return Wilson intervals of proportions. The number of trials does not have to be an integer."""
    z2 = z_quantile(confidence) ** 2
    middle = (share + z2 / (2.0 * trials)) / (1.0 + z2 / trials)
    width = np.sqrt(z2 * (share * (1.0 - share) / trials + z2 / (4.0 * trials**2))) / (1.0 + z2 / trials)
    low = np.where(share <= 0.0, 0.0, np.maximum(0.0, middle - width))
    return low, np.where(share >= 1.0, 1.0, np.minimum(1.0, middle + width))


def _effective_trials(successes: Floats, trials: Floats, confidence: float) -> Floats:
    """Return the number of independent trials that have the variance of the given trials, which are correlated within seeds.

    Seeds are rows. The design effect is the variance of the proportion between seeds divided by the binomial variance. The factor
    ``(z / t)^2`` corrects for its estimation from few seeds (Korn and Graubard, 1998). The variance between seeds can be below the
    binomial variance, because a commit pointer that is always busy makes nearly the same number of commits in every run. The
    effective number of trials then exceeds the actual number, but only if the seeds have enough successes and failures.
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
    effective = np.where(between > 0.0, whole * binomial / np.where(between > 0.0, between, 1.0) * known, np.inf)
    rarer = np.minimum(successes.sum(axis=0), whole - successes.sum(axis=0))
    reliable = np.isfinite(effective) & (rarer >= _FEWEST_PER_SEED * seeds)
    estimated = (seeds >= 2) & (binomial > 0.0)
    return np.asarray(np.where(estimated, np.where(reliable, effective, np.minimum(whole, effective)), whole))


Row = Mapping[str, Any]
"""Metrics of one run, class and operation, by name."""


def at_least(metric: str) -> str:
    """Return the name of the lower bound of a metric: ``x_p99_at_least_ms`` for ``x_p99_ms``."""
    return _before_unit(metric, "at_least")


def at_most(metric: str) -> str:
    """Return the name of the upper bound of a metric."""
    return _before_unit(metric, "at_most")


def _before_unit(metric: str, word: str) -> str:
    name = metric.removesuffix("_ms")
    return f"{name}_{word}{metric.removeprefix(name)}"


def estimate_metric(rows: Sequence[Row], metric: str, confidence: float = CONFIDENCE) -> Estimate | None:
    """Estimate a metric over the runs of a configuration; return None if no run has a value."""
    present = [row for row in rows if row.get("transactions")]
    if metric in _ESTIMATES:
        return _ESTIMATES[metric](present, confidence) if present else None
    if any(at_least(metric) in row for row in rows):
        return _estimate_bounded(rows, metric, confidence)
    values = [float(row[metric]) for row in rows if row.get(metric) is not None]
    return _mean_of_metric(values, confidence) if values else None


def _mean_of_metric(values: Sequence[float], confidence: float) -> Estimate:
    """Estimate the mean of a metric. The lower end of its interval is at least 0, because no metric is negative."""
    found = mean_estimate(values, confidence)
    return replace(found, low=max(0.0, found.low)) if math.isfinite(found.low) else found


def _success(rows: Sequence[Row], confidence: float) -> Estimate:
    committed, unfinished, entered = ([row[name] for row in rows] for name in ("committed", "in_flight", "transactions"))
    return success_estimate(committed, unfinished, entered, confidence)


def _share(*counted: str) -> Callable[[Sequence[Row], float], Estimate]:
    """Return a function that estimates the sum of these counts as a proportion of the cohort."""

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
"""Metrics that are the ratio of two numbers of transactions."""


def _estimate_bounded(rows: Sequence[Row], metric: str, confidence: float) -> Estimate | None:
    """Estimate a metric that can have bounds: from the values if every run has one, otherwise from the bounds of the runs."""
    known = [row for row in rows if row.get(metric) is not None or row.get(at_least(metric)) is not None]
    if not known:
        return None
    values = [row[metric] for row in known if row.get(metric) is not None]
    if len(values) == len(known):
        return _mean_of_metric([float(value) for value in values], confidence)
    lows = [_either(row, at_least(metric), metric) for row in known]
    highs = [_either(row, at_most(metric), metric) for row in known]
    if all(low == math.inf for low in lows):
        return Estimate(math.inf, math.inf, math.inf, len(known), "never")
    low = max([min(lows), *_lower_percentiles(rows, metric, confidence)])
    return Estimate(low, low, max(highs), len(known), "bound")


def _lower_percentiles(rows: Sequence[Row], metric: str, confidence: float) -> Iterator[float]:
    """Yield estimates of the lower percentiles of the same quantity, which are lower bounds of a percentile."""
    name, _, percent = metric.removesuffix("_ms").rpartition("_p")
    for lower in PERCENTS:
        if percent.isdigit() and lower < int(percent):
            found = _estimate_bounded(rows, f"{name}_p{lower}_ms", confidence)
            if found is not None and found.kind != "never":
                yield found.mean


def _either(row: Row, name: str, other: str) -> float:
    value = row.get(name)
    return float(row[other] if value is None else value)
