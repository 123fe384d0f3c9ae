"""Fit a latency distribution to the measurements of an operation.

Families of distributions are fitted by maximum likelihood to three quarters of a sample and compared on the rest by AIC: the
log-likelihood of the held-out values, scaled to the whole sample, minus the number of parameters. The best family is then fitted to
the whole sample. If it does not reproduce the quantiles of the sample, the quantiles themselves are used (``empirical``). Outliers
are not removed, because tails determine commit times. Samples contain positive numbers of milliseconds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from endive.analysis import Flags, Floats
from endive.calibrate.measurements import Sample
from endive.formatting import format_count

_LEAST_SIGMA = 1e-3
_LOG_2PI = math.log(2.0 * math.pi)
_MOST_FOR_EM = 20_000


class Family(ABC):
    """Base class of fitted latency distributions."""

    name: str

    @abstractmethod
    def quantile(self, p: Floats) -> Floats:
        """Return the latencies at probabilities, in ms."""

    @abstractmethod
    def keys(self) -> dict[str, Any]:
        """Return the keys of this distribution in a latency profile."""


def _log_normal_density(y: Floats, mu: float, sigma: float) -> Floats:
    z = (y - mu) / sigma
    return -0.5 * (z * z + _LOG_2PI) - math.log(sigma)


@dataclass(frozen=True)
class Lognormal(Family):
    """Lognormal distribution."""

    mu: float
    sigma: float
    name = "lognormal"
    parameters = 2

    @classmethod
    def fitted(cls, x: Floats) -> Lognormal:
        """Fit the mean and the standard deviation of the logarithm."""
        y = np.log(x)
        return cls(float(y.mean()), max(float(y.std()), _LEAST_SIGMA))

    def log_likelihood(self, x: Floats) -> float:
        """Return the sum of the log-densities of the sample."""
        y = np.log(x)
        return float((_log_normal_density(y, self.mu, self.sigma) - y).sum())

    def quantile(self, p: Floats) -> Floats:
        """Return exp(mu + sigma z), where z is the quantile of the standard normal distribution."""
        return np.asarray(np.exp(self.mu + self.sigma * special.ndtri(p)))

    def keys(self) -> dict[str, float]:
        """Return median_ms and sigma."""
        return {"median_ms": math.exp(self.mu), "sigma": self.sigma}


@dataclass(frozen=True)
class ShiftedLognormal(Family):
    """Lognormal distribution above a minimum latency."""

    shift: float
    above: Lognormal
    name = "shifted lognormal"
    parameters = 3

    @classmethod
    def fitted(cls, x: Floats) -> ShiftedLognormal:
        """Fit the shift by maximum likelihood, at a distance below the smallest value, at which the likelihood is unbounded."""
        least, median = float(x.min()), float(np.median(x))
        highest = max(least - 0.01 * (median - least), 0.0)

        def at(shift: float) -> ShiftedLognormal:
            return cls(shift, Lognormal.fitted(x - shift))

        if highest <= 0.0 or median <= least:
            return at(0.0)
        shifts = np.linspace(0.0, highest, 33)
        best = int(np.argmax([at(float(shift)).log_likelihood(x) for shift in shifts]))
        low, high = shifts[max(best - 1, 0)], shifts[min(best + 1, len(shifts) - 1)]
        found = optimize.minimize_scalar(lambda s: -at(float(s)).log_likelihood(x), bounds=(low, high), method="bounded")
        return at(float(found.x))

    def log_likelihood(self, x: Floats) -> float:
        """Return the sum of the log-densities of the sample."""
        above = x - self.shift
        if float(x.min()) <= self.shift:
            above = np.maximum(above, 1e-6 * math.exp(self.above.mu))  # gives held-out values below the shift a very low density
        return self.above.log_likelihood(above)

    def quantile(self, p: Floats) -> Floats:
        """Return the shift plus the quantile of the lognormal distribution."""
        return np.asarray(self.shift + self.above.quantile(p))

    def keys(self) -> dict[str, float]:
        """Return shift_ms, median_ms and sigma."""
        return {"shift_ms": self.shift, "median_ms": self.shift + math.exp(self.above.mu), "sigma": self.above.sigma}


_LEAST_SHAPE = 0.05
_WIDEST_GAP = 90.0
"""Value of ln k - digamma(k) above which the shape k is far below its minimum. At k = 0.01, the value is 96."""


@dataclass(frozen=True)
class Gamma(Family):
    """Gamma distribution, given by mean and shape."""

    mean: float
    shape: float
    name = "gamma"
    parameters = 2

    @classmethod
    def fitted(cls, x: Floats) -> Gamma:
        """Fit the shape k by maximum likelihood: ln k - digamma(k) = ln(mean) - mean(ln)."""
        mean = float(x.mean())
        gap = max(math.log(mean) - float(np.log(x).mean()), 1e-9)
        if gap < 1e-5:
            return cls(mean, min(0.5 / gap, 1e5))
        if gap > _WIDEST_GAP:
            return cls(mean, _LEAST_SHAPE)
        root = optimize.brentq(lambda k: math.log(k) - float(special.digamma(k)) - gap, 1e-2, 1e6)
        return cls(mean, min(max(float(root), _LEAST_SHAPE), 1e5))

    def log_likelihood(self, x: Floats) -> float:
        """Return the sum of the log-densities of the sample."""
        k, scale = self.shape, self.mean / self.shape
        return float(((k - 1.0) * np.log(x) - x / scale).sum() - len(x) * (k * math.log(scale) + math.lgamma(k)))

    def quantile(self, p: Floats) -> Floats:
        """Return the inverse of the incomplete gamma function."""
        return np.asarray(special.gammaincinv(self.shape, p) * (self.mean / self.shape))

    def keys(self) -> dict[str, float]:
        """Return mean_ms and shape."""
        return {"mean_ms": self.mean, "shape": self.shape}


@dataclass(frozen=True)
class Mixture(Family):
    """Mixture of two lognormal distributions, of which the second has the smaller weight."""

    mu: float
    sigma: float
    second_mu: float
    second_sigma: float
    share: float
    name = "mixture of two lognormals"
    parameters = 5

    @classmethod
    def fitted(cls, x: Floats) -> Mixture:
        """Fit by expectation maximization from several starting points, and return the result with the highest likelihood."""
        y = np.sort(np.log(x))
        if len(y) > _MOST_FOR_EM:
            y = y[:: len(y) // _MOST_FOR_EM + 1]
        runs = [_expectation_maximization(y, split) for split in (0.3, 0.6, 0.85, 0.95, 0.98) if split * len(y) < len(y) - 3]
        mu, sigma, second_mu, second_sigma, share, _ = max(runs, key=lambda run: run[-1])
        if share > 0.5:
            return cls(second_mu, second_sigma, mu, sigma, 1.0 - share)
        return cls(mu, sigma, second_mu, second_sigma, share)

    def log_likelihood(self, x: Floats) -> float:
        """Return the sum of the log-densities of the sample."""
        y = np.log(x)
        first = math.log1p(-self.share) + _log_normal_density(y, self.mu, self.sigma)
        second = math.log(max(self.share, 1e-300)) + _log_normal_density(y, self.second_mu, self.second_sigma)
        return float((np.logaddexp(first, second) - y).sum())

    def quantile(self, p: Floats) -> Floats:
        """Find the quantile by bisection between the quantiles of the two lognormal distributions."""
        z = special.ndtri(np.asarray(p, np.float64))
        one, two = self.mu + self.sigma * z, self.second_mu + self.second_sigma * z
        low, high = np.minimum(one, two), np.maximum(one, two)
        for _ in range(60):
            y = (low + high) / 2.0
            below = (1.0 - self.share) * special.ndtr((y - self.mu) / self.sigma)
            below = below + self.share * special.ndtr((y - self.second_mu) / self.second_sigma)
            low, high = np.where(below < p, y, low), np.where(below < p, high, y)
        return np.asarray(np.exp((low + high) / 2.0))

    def keys(self) -> dict[str, float]:
        """Return median_ms and sigma of both distributions, and the weight of the second."""
        return {
            "median_ms": math.exp(self.mu),
            "sigma": self.sigma,
            "second_median_ms": math.exp(self.second_mu),
            "second_sigma": self.second_sigma,
            "second_share": self.share,
        }


def _expectation_maximization(y: Floats, split: float) -> tuple[float, float, float, float, float, float]:
    """Fit a mixture of two normal distributions, and return its parameters and log-likelihood.

    The iteration starts with the two parts of the sample below and above the quantile ``split``.
    """
    least = max(0.02 * float(y.std()), _LEAST_SIGMA)
    cut = max(int(split * len(y)), 2)
    m1, s1 = float(y[:cut].mean()), max(float(y[:cut].std()), least)
    m2, s2 = float(y[cut:].mean()), max(float(y[cut:].std()), least)
    share, before = 1.0 - split, -math.inf
    for _ in range(300):
        first = math.log1p(-share) + _log_normal_density(y, m1, s1)
        second = math.log(share) + _log_normal_density(y, m2, s2)
        total = np.logaddexp(first, second)
        now = float(total.sum())
        if now - before < 1e-6 * len(y):
            break
        before = now
        weight = np.exp(second - total)
        share = min(max(float(weight.mean()), 1e-4), 1.0 - 1e-4)
        m2 = float((weight * y).sum() / weight.sum())
        s2 = max(math.sqrt(float((weight * (y - m2) ** 2).sum() / weight.sum())), least)
        rest = 1.0 - weight
        m1 = float((rest * y).sum() / rest.sum())
        s1 = max(math.sqrt(float((rest * (y - m1) ** 2).sum() / rest.sum())), least)
    return m1, s1, m2, s2, share, before


_FAMILIES = (Lognormal, ShiftedLognormal, Gamma, Mixture)


LEAST = 20
"""Minimum sample size for choosing a family. Smaller samples are assumed to be lognormal."""
_MIB = 2.0**20
_CHECKED = np.array([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
_GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)


@dataclass(frozen=True)
class Empirical(Family):
    """Measured quantiles, with a lognormal tail that is fitted to the slowest 5% of the sample."""

    probabilities: tuple[float, ...]
    quantiles_ms: tuple[float, ...]
    name = "empirical"

    @classmethod
    def fitted(cls, x: Floats) -> Empirical:
        """Compute all quantiles for which the sample is large enough."""
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

    def quantile(self, p: Floats) -> Floats:
        """Interpolate between the measured quantiles, and extrapolate beyond them, on a lognormal scale."""
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

    Attributes:
        sample: Measured latencies.
        family: Distribution for an object of size 0.
        growth_per_mib: Increase of the median per MiB, as a fraction of the median; 0 if the latency does not depend on the size.
        scores: AIC of each candidate on held-out values; lower is better.
        warnings: Reasons why the fit is uncertain.
    """

    sample: Sample
    family: Family
    growth_per_mib: float
    scores: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def at_no_size(self) -> Floats:
        """Latencies of the sample, scaled to objects of size 0, in ms."""
        return _remove_size_effect(self.sample, self.growth_per_mib)

    @property
    def per_mib_ms(self) -> float:
        """Increase of the median latency per MiB, in ms."""
        return self.growth_per_mib * float(self.family.quantile(np.array([0.5]))[0])

    def keys(self) -> dict[str, Any]:
        """Return the keys of the fitted distribution in a latency profile."""
        keys = self.family.keys()
        if self.growth_per_mib <= 0.0:
            return keys
        if isinstance(self.family, Lognormal):
            return {"base_ms": keys["median_ms"], "per_mib_ms": self.per_mib_ms, "sigma": keys["sigma"]}
        return {**keys, "per_mib_ms": self.per_mib_ms}


def fit_sample(sample: Sample) -> Fit:
    """Choose the distribution that fits the latencies of an operation best, and fit its parameters."""
    x = sample.latencies_ms
    warnings = list(_warnings(sample))
    if len(x) < LEAST or float(x.max()) == float(x.min()):
        return Fit(sample, Lognormal.fitted(x), 0.0, {}, tuple(warnings))
    growth, sized = _growth(sample)
    held = _choose_held_out(len(x))
    scores: dict[str, float] = {}
    candidates: list[tuple[float, type[Lognormal | ShiftedLognormal | Gamma | Mixture], float]] = []
    for with_size in (False, True) if sized else (False,):
        rate = growth if with_size else 0.0
        plain = _remove_size_effect(sample, rate)
        factor = np.log(x / plain)
        for family in _FAMILIES:
            made = family.fitted(plain[~held])
            likelihood = made.log_likelihood(plain[held]) - float(factor[held].sum())
            aic = 2.0 * (made.parameters + with_size) - 2.0 * likelihood * len(x) / float(held.sum())
            scores[f"{family.name}{' by size' if with_size else ''}"] = aic
            candidates.append((aic, family, rate))
    _, chosen, rate = min(candidates, key=lambda candidate: candidate[0])
    plain = _remove_size_effect(sample, rate)
    fitted: Family = chosen.fitted(plain)
    missed = _find_missed_percentiles(fitted, plain)
    if missed:
        warnings.append(
            f"no distribution family fits (the closest is {fitted.name}, which deviates at {missed}), "
            f"so the profile contains the measured quantiles"
        )
        fitted = Empirical.fitted(plain)
    return Fit(sample, fitted, rate, scores, tuple(warnings))


def quantile_interval(x: Floats, p: float) -> tuple[float, float] | None:
    """Return the 95% confidence interval of a quantile, from order statistics; None for too small a sample."""
    n = len(x)
    if n * min(p, 1.0 - p) < 5.0:
        return None
    low, high = float(stats.binom.ppf(0.025, n, p)), float(stats.binom.ppf(0.975, n, p))
    ordered = np.sort(x)
    return float(ordered[max(int(low) - 1, 0)]), float(ordered[min(int(high), n - 1)])


def _choose_held_out(n: int) -> Flags:
    """Return flags of the quarter of a sample that is held out. The random choice is the same in every call."""
    held = np.zeros(n, np.bool_)
    held[np.random.default_rng(13).permutation(n)[: max(n // 4, 1)]] = True
    return held


def _remove_size_effect(sample: Sample, growth: float) -> Floats:
    if sample.sizes_bytes is None or growth <= 0.0:
        return sample.latencies_ms
    return sample.latencies_ms / (1.0 + growth * sample.sizes_bytes / _MIB)


def _growth(sample: Sample) -> tuple[float, bool]:
    """Return the increase of the median per MiB, as a fraction of the median, and whether the sizes differ enough to fit it."""
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


def _find_missed_percentiles(family: Family, x: Floats) -> str:
    """Return the percentiles at which the distribution is more than 3% (p99: 10%) outside of the confidence interval."""
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
        found.append(f"only {format_count(n, 'value')}: the profile assumes a lognormal distribution, whose spread is uncertain")
    if n * 0.01 < 5.0:
        found.append(f"the p99 is uncertain with {format_count(n, 'value')}; measure at least 500")
    if n >= 2 * LEAST:
        halves = float(np.median(x[: n // 2])), float(np.median(x[n // 2 :]))
        test = stats.mannwhitneyu(x[: n // 2], x[n // 2 :])
        if test.pvalue < 1e-4 and max(halves) > 1.2 * min(halves):
            found.append(
                f"the latencies drift: the median is {halves[0]:.3g} ms in the first half of the measurement "
                f"and {halves[1]:.3g} ms in the second half"
            )
    return found
