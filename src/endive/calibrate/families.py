"""Fit families of latency distributions to a sample by maximum likelihood.

A fitted family provides its log-likelihood, its quantiles and its keys in a latency profile. Samples are in milliseconds, above 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from endive.analysis import Floats

_LEAST_SIGMA = 1e-3
_LOG_2PI = math.log(2.0 * math.pi)
_MOST_FOR_EM = 20_000


class Family(ABC):
    """A fitted distribution with its parameters."""

    name: str
    parameters: int
    """Number of fitted parameters."""

    @abstractmethod
    def log_likelihood(self, x: Floats) -> float:
        """Return the log-likelihood of a sample; minus infinity if the sample is impossible."""

    @abstractmethod
    def quantile(self, p: Floats) -> Floats:
        """Return the quantiles at probabilities."""

    @abstractmethod
    def keys(self) -> dict[str, Any]:
        """Return the keys of this distribution in a latency profile."""


def _log_normal_density(y: Floats, mu: float, sigma: float) -> Floats:
    """Return the log-density of ln x for a normal ln x, without the factor 1/x."""
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
        """Fit by the moments of the logarithm."""
        y = np.log(x)
        return cls(float(y.mean()), max(float(y.std()), _LEAST_SIGMA))

    def log_likelihood(self, x: Floats) -> float:
        """Return the sum of the log-densities of the sample."""
        y = np.log(x)
        return float((_log_normal_density(y, self.mu, self.sigma) - y).sum())

    def quantile(self, p: Floats) -> Floats:
        """Return exp(mu + sigma z)."""
        return np.asarray(np.exp(self.mu + self.sigma * special.ndtri(p)))

    def keys(self) -> dict[str, float]:
        """Return median_ms and sigma."""
        return {"median_ms": math.exp(self.mu), "sigma": self.sigma}


@dataclass(frozen=True)
class ShiftedLognormal(Family):
    """Lognormal distribution shifted by a minimum latency."""

    shift: float
    mu: float
    sigma: float
    name = "shifted lognormal"
    parameters = 3

    @classmethod
    def fitted(cls, x: Floats) -> ShiftedLognormal:
        """Search the shift at a distance below the smallest value, because the likelihood is unbounded at that value."""
        least, median = float(x.min()), float(np.median(x))
        highest = max(least - 0.01 * (median - least), 0.0)

        def at(shift: float) -> ShiftedLognormal:
            inner = Lognormal.fitted(x - shift)
            return cls(shift, inner.mu, inner.sigma)

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
            above = np.maximum(above, 1e-6 * math.exp(self.mu))  # a held-out value below the shift is nearly impossible
        return Lognormal(self.mu, self.sigma).log_likelihood(above)

    def quantile(self, p: Floats) -> Floats:
        """Return shift + exp(mu + sigma z)."""
        return np.asarray(self.shift + np.exp(self.mu + self.sigma * special.ndtri(p)))

    def keys(self) -> dict[str, float]:
        """Return shift_ms, median_ms and sigma."""
        return {"shift_ms": self.shift, "median_ms": self.shift + math.exp(self.mu), "sigma": self.sigma}


_LEAST_SHAPE = 0.05
_WIDEST_GAP = 90.0
"""Value of ln k - digamma(k) above which the shape is far below the minimum; the value is 96 at k = 0.01."""


@dataclass(frozen=True)
class Gamma(Family):
    """Gamma distribution, by mean and shape."""

    mean: float
    shape: float
    name = "gamma"
    parameters = 2

    @classmethod
    def fitted(cls, x: Floats) -> Gamma:
        """Solve ln k - digamma(k) = ln(mean) - mean(ln)."""
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
    """Mixture of two lognormals; the second has the smaller weight."""

    mu: float
    sigma: float
    second_mu: float
    second_sigma: float
    share: float
    name = "mixture of two lognormals"
    parameters = 5

    @classmethod
    def fitted(cls, x: Floats) -> Mixture:
        """Fit by expectation maximization from several starts, and return the likeliest result."""
        y = np.sort(np.log(x))
        if len(y) > _MOST_FOR_EM:
            y = y[:: len(y) // _MOST_FOR_EM + 1]
        runs = [_expectation_maximisation(y, split) for split in (0.3, 0.6, 0.85, 0.95, 0.98) if split * len(y) < len(y) - 3]
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
        """Bisect between the quantiles of the two lognormals."""
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
        """Return median_ms and sigma of both lognormals, and the weight of the second."""
        return {
            "median_ms": math.exp(self.mu),
            "sigma": self.sigma,
            "second_median_ms": math.exp(self.second_mu),
            "second_sigma": self.second_sigma,
            "second_share": self.share,
        }


def _expectation_maximisation(y: Floats, split: float) -> tuple[float, float, float, float, float, float]:
    """Fit a mixture of two normals, starting with the sample split at a quantile; return its parameters and log-likelihood."""
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


FAMILIES = (Lognormal, ShiftedLognormal, Gamma, Mixture)
