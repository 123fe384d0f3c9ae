"""Choose, fit and check the latency distribution of an operation.

Families are fitted to three quarters of a sample and compared on the rest by AIC: the log-likelihood of the held-out part, scaled
to the whole, minus the number of parameters. The best family is fitted to the whole sample. If it misses the quantiles of the
sample, the quantiles themselves are used (``empirical``). Outliers are not removed, because tails determine commit times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from endive.analysis import Flags, Floats
from endive.calibrate.families import FAMILIES, Family, Lognormal
from endive.calibrate.measurements import Sample

LEAST = 20
"""Minimum sample size for choosing the family; a lognormal is assumed for smaller samples."""
_MIB = 2.0**20
_CHECKED = np.array([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
_GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)


@dataclass(frozen=True)
class Empirical(Family):
    """Quantiles of the sample, with a lognormal tail as steep as the slowest 5% of the sample."""

    probabilities: tuple[float, ...]
    quantiles_ms: tuple[float, ...]
    name = "empirical"
    parameters = 0

    @classmethod
    def fitted(cls, x: Floats) -> Empirical:
        """Compute the quantiles that the sample supports."""
        n = len(x)
        inner = [p for p in _GRID if 2.0 / n <= p <= 1.0 - 2.0 / n] or [0.25, 0.5, 0.75]
        values = list(np.quantile(x, inner))
        top = np.sort(x)[-max(n // 20, 3) :]
        scores = special.ndtri((np.arange(n - len(top), n) + 0.5) / n)
        slope = max(float(np.polyfit(scores, np.log(top), 1)[0]), 0.0)
        last = float(special.ndtri(inner[-1]))
        values.append(values[-1] * math.exp(0.5 * slope))
        probabilities = [*inner, float(special.ndtr(last + 0.5))]
        return cls(tuple(probabilities), tuple(float(value) for value in np.maximum.accumulate(values)))

    def log_likelihood(self, x: Floats) -> float:
        """Raise an error, because quantiles have no density."""
        return -math.inf

    def quantile(self, p: Floats) -> Floats:
        """Interpolate the logarithm over normal scores, and extrapolate beyond the ends."""
        scores, logs, z = special.ndtri(self.probabilities), np.log(self.quantiles_ms), special.ndtri(np.asarray(p, np.float64))
        inner = np.interp(z, scores, logs)
        above = logs[-1] + (logs[-1] - logs[-2]) / (scores[-1] - scores[-2]) * (z - scores[-1])
        below = logs[0] + (logs[1] - logs[0]) / (scores[1] - scores[0]) * (z - scores[0])
        return np.asarray(np.exp(np.where(z > scores[-1], above, np.where(z < scores[0], below, inner))))

    def keys(self) -> dict[str, Any]:
        """Return probabilities and quantiles_ms."""
        return {
            "probabilities": [float(f"{p:.8g}") for p in self.probabilities],
            "quantiles_ms": [float(f"{value:.6g}") for value in self.quantiles_ms],
        }


@dataclass(frozen=True)
class Fit:
    """Fitted latency distribution of an operation.

    ``family`` is the distribution for an object of size 0. ``growth_per_mib`` is the fraction of the median that each MiB adds, 0
    without a size term. ``scores`` are the held-out AICs of the candidates; lower is better. ``warnings`` lists uncertainties.
    """

    sample: Sample
    family: Family
    growth_per_mib: float
    scores: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def at_no_size(self) -> Floats:
        """Sample without the effect of sizes."""
        return _unsized(self.sample, self.growth_per_mib)

    @property
    def per_mib_ms(self) -> float:
        """Increase of the median per MiB."""
        return self.growth_per_mib * float(self.family.quantile(np.array([0.5]))[0])

    def keys(self) -> dict[str, Any]:
        """Return the keys of a profile for this distribution."""
        keys = self.family.keys()
        if self.growth_per_mib <= 0.0:
            return keys
        if isinstance(self.family, Lognormal):
            return {"base_ms": keys["median_ms"], "per_mib_ms": self.per_mib_ms, "sigma": keys["sigma"]}
        return {**keys, "per_mib_ms": self.per_mib_ms}


def fit_sample(sample: Sample) -> Fit:
    """Choose and fit a distribution."""
    x = sample.latencies_ms
    warnings = list(_warnings(sample))
    if len(x) < LEAST or float(x.max()) == float(x.min()):
        return Fit(sample, Lognormal.fitted(x), 0.0, {}, tuple(warnings))
    growth, sized = _growth(sample)
    held = _held_out(len(x))
    scores: dict[str, float] = {}
    candidates: list[tuple[float, type[Family], float]] = []
    for with_size in (False, True) if sized else (False,):
        rate = growth if with_size else 0.0
        plain = _unsized(sample, rate)
        factor = np.log(x / plain)
        for family in FAMILIES:
            made = family.fitted(plain[~held])
            likelihood = made.log_likelihood(plain[held]) - float(factor[held].sum())
            aic = 2.0 * (made.parameters + with_size) - 2.0 * likelihood * len(x) / float(held.sum())
            scores[f"{family.name}{' by size' if with_size else ''}"] = aic
            candidates.append((aic, family, rate))
    _, chosen, rate = min(candidates, key=lambda candidate: candidate[0])
    plain = _unsized(sample, rate)
    fitted: Family = chosen.fitted(plain)  # type: ignore[attr-defined]
    missed = _missed(fitted, plain)
    if missed:
        warnings.append(
            f"no distribution family fits ({fitted.name} is the closest, but deviates at {missed}), "
            f"so the measured quantiles are used"
        )
        fitted = Empirical.fitted(plain)
    return Fit(sample, fitted, rate, scores, tuple(warnings))


def quantile_interval(x: Floats, p: float) -> tuple[float, float] | None:
    """Return a 95% interval of a quantile from order statistics; None if too few values lie beyond it."""
    n = len(x)
    if n * min(p, 1.0 - p) < 5.0:
        return None
    low, high = float(stats.binom.ppf(0.025, n, p)), float(stats.binom.ppf(0.975, n, p))
    ordered = np.sort(x)
    return float(ordered[max(int(low) - 1, 0)]), float(ordered[min(int(high), n - 1)])


def _held_out(n: int) -> Flags:
    """Return the indices of the held-out quarter, which is spread over the sample and the same in every call."""
    held = np.zeros(n, np.bool_)
    held[np.random.default_rng(13).permutation(n)[: max(n // 4, 1)]] = True
    return held


def _unsized(sample: Sample, growth: float) -> Floats:
    if sample.sizes_bytes is None or growth <= 0.0:
        return sample.latencies_ms
    return sample.latencies_ms / (1.0 + growth * sample.sizes_bytes / _MIB)


def _growth(sample: Sample) -> tuple[float, bool]:
    """Fit the fraction of the median that each MiB adds, and return whether sizes differ enough for this fit."""
    sizes = sample.sizes_bytes
    if sizes is None or float(sizes.max()) <= 1.5 * float(sizes.min()) + 1024.0:
        return 0.0, False
    mib, y = sizes / _MIB, np.log(sample.latencies_ms)

    def spread(log_growth: float) -> float:
        return float(np.var(y - np.log1p(math.exp(log_growth) * mib)))

    grid = np.linspace(math.log(1e-4), math.log(1e4), 60)
    nearest = float(grid[int(np.argmin([spread(float(each)) for each in grid]))])
    found = optimize.minimize_scalar(spread, bounds=(nearest - 0.5, nearest + 0.5), method="bounded")
    return math.exp(float(found.x)), True


def _missed(family: Family, x: Floats) -> str:
    """Return the quantiles at which the family deviates significantly and by a relevant amount."""
    missed = []
    for p, value in zip(_CHECKED, family.quantile(_CHECKED), strict=True):
        interval = quantile_interval(x, float(p))
        if interval is None:
            continue
        slack = 0.10 if p >= 0.99 else 0.03
        low, high = interval
        if value < low * (1.0 - slack) or value > high * (1.0 + slack):
            missed.append(f"p{100 * p:g}")
    return ", ".join(missed)


def _warnings(sample: Sample) -> list[str]:
    x, n = sample.latencies_ms, len(sample.latencies_ms)
    found = []
    if n < LEAST:
        found.append(f"only {n} values: a lognormal is assumed, and its spread is a guess")
    if n * 0.01 < 5.0:
        found.append(f"{n} values are too few for a p99; use at least 500")
    if n >= 2 * LEAST:
        halves = float(np.median(x[: n // 2])), float(np.median(x[n // 2 :]))
        test = stats.mannwhitneyu(x[: n // 2], x[n // 2 :])
        if test.pvalue < 1e-4 and max(halves) > 1.2 * min(halves):
            found.append(
                f"the latencies drift: the medians of the two halves of the measurement are {halves[0]:.3g} and {halves[1]:.3g} ms"
            )
    return found
