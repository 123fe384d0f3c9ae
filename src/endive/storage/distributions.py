"""Define distributions of latencies, inter-arrival times and runtimes, all in milliseconds.

A distribution is immutable. ``sample(rng)`` draws one uniform random number and converts it to a value. ``rng`` is a ``Stream`` or
an ``np.random.RandomState``. The compiled engine reads built-in distributions through ``parameters``.

Shifted lognormal, gamma, mixture and empirical distributions are sampled from a table of quantiles. The table contains the
logarithms of the quantiles at ``TABLE_CELLS + 1`` evenly spaced standard normal scores, relative to the median. Both engines
interpolate linearly between them. Lognormal segments are exact. Gamma and shifted distributions have a relative error of at most
1e-3 (``tests/storage/test_tables.py`` compares them with scipy). The object size changes the median and thereby scales the whole
distribution, as in ``SizeBasedLatency``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Self

from endive.arithmetic.costs import sized_median_ms
from endive.arithmetic.draws import (
    EXPONENTIAL,
    FIXED,
    LOGNORMAL,
    NORMAL,
    SCORE_LIMIT,
    TABLE,
    TABLE_CELLS,
    UNIFORM,
    exact_normal_quantile,
    keep_table,
    quantile,
)
from endive.randomness import RandomSource

Parameters = tuple[int, float, float, float]
"""Arguments kind, a, b and floor of ``endive.arithmetic.draws.quantile``."""


class LatencyDistribution(ABC):
    """Distribution of latencies. Subclass it for a custom distribution."""

    @abstractmethod
    def sample(self, rng: RandomSource) -> float:
        """Draw a latency in milliseconds."""


class QuantileDistribution(LatencyDistribution):
    """Built-in distribution. A value is the quantile of a uniform random number."""

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``, except the uniform random number."""

    def at(self, u: float) -> float:
        """Return the quantile ``u`` of the distribution, in ms."""
        return quantile(*self.parameters, u)

    def mean_of_quantiles_ms(self, points: int) -> float:
        """Return the mean of ``points`` evenly spaced quantiles, in ms.

        The result approximates the mean of the distribution, including the effect of its floor.
        """
        return fmean(self.at((point + 0.5) / points) for point in range(points))

    def sample(self, rng: RandomSource) -> float:
        """Draw a latency in milliseconds."""
        return self.at(rng.random_sample())


@dataclass(frozen=True)
class FixedLatency(QuantileDistribution):
    """Constant latency."""

    latency_ms: float

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``FIXED`` and the latency."""
        return FIXED, self.latency_ms, 0.0, 0.0


@dataclass(frozen=True)
class UniformLatency(QuantileDistribution):
    """Uniform distribution between two bounds."""

    low_ms: float
    high_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``UNIFORM``, the bounds and the floor."""
        return UNIFORM, self.low_ms, self.high_ms, self.min_latency_ms


@dataclass(frozen=True)
class ExponentialLatency(QuantileDistribution):
    """Exponential distribution with mean ``scale_ms``, such as the inter-arrival times of a Poisson process."""

    scale_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``EXPONENTIAL``, the mean and the floor."""
        return EXPONENTIAL, self.scale_ms, 0.0, self.min_latency_ms


@dataclass(frozen=True)
class NormalLatency(QuantileDistribution):
    """Normal distribution. A value below the floor is replaced by the floor."""

    mean_ms: float
    stddev_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``NORMAL``, the mean, the standard deviation and the floor."""
        return NORMAL, self.mean_ms, self.stddev_ms, self.min_latency_ms


@dataclass(frozen=True)
class LognormalLatency(QuantileDistribution):
    """Lognormal distribution with a floor.

    ``mu`` is the logarithm of the median. A larger ``sigma`` gives a heavier tail.
    """

    mu: float
    sigma: float
    min_latency_ms: float = 1.0

    @classmethod
    def from_median(cls, median_ms: float, sigma: float, min_latency_ms: float = 1.0) -> LognormalLatency:
        """Return the lognormal distribution with this median."""
        return cls(math.log(median_ms), sigma, min_latency_ms)

    @classmethod
    def from_mean(cls, mean_ms: float, sigma: float, min_latency_ms: float = 1.0) -> LognormalLatency:
        """Return the lognormal distribution with this mean before the floor: mu = ln(mean) - sigma^2 / 2."""
        return cls(math.log(mean_ms) - sigma * sigma / 2.0, sigma, min_latency_ms)

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``LOGNORMAL``, mu, sigma and the floor."""
        return LOGNORMAL, self.mu, self.sigma, self.min_latency_ms


@dataclass(frozen=True)
class SizeBasedLatency(QuantileDistribution):
    """Lognormal distribution whose median grows with the object size: base + rate x MiB (Durner et al., VLDB 2023)."""

    base_latency_ms: float
    latency_per_mib_ms: float
    sigma: float
    min_latency_ms: float = 1.0
    size_bytes: int = 0

    def with_size(self, size_bytes: int) -> SizeBasedLatency:
        """Return the distribution for an object of this size."""
        return replace(self, size_bytes=size_bytes)

    @property
    def median_ms(self) -> float:
        """Median latency for the object size, before the floor."""
        return sized_median_ms(self.base_latency_ms, self.latency_per_mib_ms, self.size_bytes)

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``LOGNORMAL``, the logarithm of the median for the size, sigma and the floor.

        If sigma is 0, the arguments are ``FIXED``, the median and the floor.
        """
        if self.sigma == 0.0:
            return FIXED, self.median_ms, 0.0, self.min_latency_ms
        return LOGNORMAL, math.log(self.median_ms), self.sigma, self.min_latency_ms


_STEP = 2.0 * SCORE_LIMIT / TABLE_CELLS
_MIDDLE = TABLE_CELLS // 2
_SCORES = tuple((i - _MIDDLE) * _STEP for i in range(TABLE_CELLS + 1))


@dataclass(frozen=True, kw_only=True)
class TableLatency(QuantileDistribution):
    """Base class of distributions that are sampled from a table of quantiles."""

    latency_per_mib_ms: float = 0.0
    min_latency_ms: float = 0.0
    size_bytes: int = 0

    @abstractmethod
    def log_quantiles(self) -> list[float]:
        """Return the logarithm of the quantile in ms at each score of the table, for an object of size 0."""

    def with_size(self, size_bytes: int) -> Self:
        """Return the distribution for an object of this size."""
        return replace(self, size_bytes=size_bytes)

    @property
    def base_latency_ms(self) -> float:
        """Median latency for an object of size 0, before the floor."""
        return math.exp(_store_table(self._shape())[1])

    @property
    def median_ms(self) -> float:
        """Median latency for the object size, before the floor."""
        return sized_median_ms(self.base_latency_ms, self.latency_per_mib_ms, self.size_bytes)

    @property
    def parameters(self) -> Parameters:
        """Arguments of ``quantile``: ``TABLE``, the logarithm of the median for the size, the offset of the table and the floor."""
        offset, _ = _store_table(self._shape())
        return TABLE, math.log(self.median_ms), float(offset), self.min_latency_ms

    def _shape(self) -> Self:
        """Return the distribution for size 0 and without a floor, because the table does not depend on them."""
        return replace(self, latency_per_mib_ms=0.0, min_latency_ms=0.0, size_bytes=0)


@cache
def _store_table(shape: TableLatency) -> tuple[int, float]:
    """Store the table of quantiles of a distribution.

    Returns:
        The offset of the table, and the logarithm of the median.
    """
    logs = shape.log_quantiles()
    return keep_table([value - logs[_MIDDLE] for value in logs]), logs[_MIDDLE]


@dataclass(frozen=True)
class ShiftedLognormalLatency(TableLatency):
    """Sum of ``shift_ms`` and a lognormal distribution with median ``median_above_ms``."""

    shift_ms: float
    median_above_ms: float
    sigma: float

    def log_quantiles(self) -> list[float]:
        """Return ln(shift + median exp(sigma z)) for each score z."""
        return [math.log(self.shift_ms + self.median_above_ms * math.exp(self.sigma * z)) for z in _SCORES]


@dataclass(frozen=True)
class GammaLatency(TableLatency):
    """Gamma distribution with mean ``mean_ms``.

    A larger ``shape`` gives a narrower distribution. A shape of 1 is the exponential distribution.
    """

    mean_ms: float
    shape: float

    def log_quantiles(self) -> list[float]:
        """Return the logarithm of the quantile at each score z, which solves P(shape, x) = Phi(z).

        The equation is solved from the middle outwards, in the smaller of the two tails.
        """
        k, scale = self.shape, math.log(self.mean_ms / self.shape)
        middle = _log_gamma_root(k, math.log(max(k - 1.0 / 3.0, k * 2.0 ** (-1.0 / k), 1e-300)), 0.0)
        below, above = [middle], [middle]
        for i in range(1, _MIDDLE + 1):
            below.append(_log_gamma_root(k, below[-1], -i * _STEP))
            above.append(_log_gamma_root(k, above[-1], i * _STEP))
        return [scale + y for y in (*reversed(below), *above[1:])]


@dataclass(frozen=True)
class MixtureLatency(TableLatency):
    """Mixture of two lognormal distributions. ``second_share`` is the weight of the second distribution."""

    first_median_ms: float
    first_sigma: float
    second_median_ms: float
    second_sigma: float
    second_share: float

    def log_quantiles(self) -> list[float]:
        """Return the logarithm of the quantile at each score, by bisection between the quantiles of the two lognormals."""
        return [self._log_quantile(z) for z in _SCORES]

    def _log_quantile(self, z: float) -> float:
        m1, m2 = math.log(self.first_median_ms), math.log(self.second_median_ms)
        low, high = sorted((m1 + self.first_sigma * z, m2 + self.second_sigma * z))
        sign = 1.0 if z > 0.0 else -1.0
        target = _tail(abs(z))
        for _ in range(60):
            y = (low + high) / 2.0
            tail = (1.0 - self.second_share) * _tail(sign * _score(y, m1, self.first_sigma))
            tail += self.second_share * _tail(sign * _score(y, m2, self.second_sigma))
            if (tail > target) == (sign > 0.0):
                low = y
            else:
                high = y
        return (low + high) / 2.0


@dataclass(frozen=True)
class EmpiricalLatency(TableLatency):
    """Distribution with measured quantiles ``quantiles_ms`` at ``probabilities``, both in increasing order.

    Between two quantiles, the logarithm of the latency is linear in the normal score. The first and the last segment are
    extrapolated, so the tails are lognormal.
    """

    probabilities: tuple[float, ...]
    quantiles_ms: tuple[float, ...]

    def log_quantiles(self) -> list[float]:
        """Return the logarithm of the quantile at each score, interpolated between the measured quantiles."""
        scores = [exact_normal_quantile(p) for p in self.probabilities]
        logs = [math.log(value) for value in self.quantiles_ms]
        values, segment = [], 0
        for z in _SCORES:
            while segment < len(scores) - 2 and z > scores[segment + 1]:
                segment += 1
            slope = (logs[segment + 1] - logs[segment]) / (scores[segment + 1] - scores[segment])
            values.append(logs[segment] + slope * (z - scores[segment]))
        return values


def _tail(z: float) -> float:
    """Return the probability that a standard normal variable exceeds ``z``."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _score(y: float, mu: float, sigma: float) -> float:
    return (y - mu) / sigma if sigma > 0.0 else math.copysign(math.inf, y - mu)


def _log_gamma_root(k: float, start: float, z: float) -> float:
    """Return the logarithm of the gamma quantile at a normal score.

    Newton's method solves for the logarithm of the tail, which is concave.
    """
    target, lower, y = math.log(_tail(abs(z))), z <= 0.0, start
    for _ in range(100):
        tail = _log_lower(k, y) if lower else _log_upper(k, y)
        slope = math.exp(k * y - math.exp(y) - math.lgamma(k) - tail)
        step = (target - tail) / slope
        y += step if lower else -step
        if abs(step) < 1e-12 * max(abs(y), 1.0):
            break
    return y


def _log_lower(k: float, y: float) -> float:
    """Return ln P(k, e^y), computed by a series."""
    x = math.exp(y)
    term = total = 1.0
    n = k
    while term > 1e-17 * total:
        n += 1.0
        term *= x / n
        total += term
    return k * y - x - math.lgamma(k + 1.0) + math.log(total)


def _log_upper(k: float, y: float) -> float:
    """Return ln Q(k, e^y), computed by the series of P or by a continued fraction."""
    x = math.exp(y)
    if x < k + 1.0:
        return math.log1p(-math.exp(_log_lower(k, y)))
    b = x + 1.0 - k
    c, d = 1e300, 1.0 / b
    h = d
    for i in range(1, 10_000):
        an = -i * (i - k)
        b += 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        h *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return k * y - x - math.lgamma(k) + math.log(h)
