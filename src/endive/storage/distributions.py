"""Distributions of latencies, inter-arrival times and runtimes, all in milliseconds.

A distribution is immutable. ``sample(rng)`` converts one uniform of ``rng``, a keyed ``Stream`` or an ``np.random.RandomState``,
to one value. The compiled engine reads built-in distributions through ``parameters``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from statistics import fmean

from endive.arithmetic.costs import sized_median_ms
from endive.arithmetic.draws import EXPONENTIAL, FIXED, LOGNORMAL, NORMAL, UNIFORM, quantile
from endive.randomness import RandomSource

Parameters = tuple[int, float, float, float]
"""Kind, a, b and floor: the arguments of ``endive.arithmetic.draws.quantile``."""


class LatencyDistribution(ABC):
    """Latency distribution. Subclass it for a custom distribution."""

    @abstractmethod
    def sample(self, rng: RandomSource) -> float:
        """Draw a latency in milliseconds."""


class QuantileDistribution(LatencyDistribution):
    """Built-in distribution, sampled by inversion: one uniform per value."""

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """Arguments of ``quantile`` before the uniform."""

    def at(self, u: float) -> float:
        """Return the value at the uniform ``u``."""
        return quantile(*self.parameters, u)

    def mean_of_quantiles_ms(self, points: int) -> float:
        """Return the approximate mean in milliseconds, with the floor applied, from ``points`` equally likely values."""
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
        """``FIXED`` and the latency."""
        return FIXED, self.latency_ms, 0.0, 0.0


@dataclass(frozen=True)
class UniformLatency(QuantileDistribution):
    """Uniform latency between two bounds."""

    low_ms: float
    high_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """``UNIFORM`` and the bounds."""
        return UNIFORM, self.low_ms, self.high_ms, self.min_latency_ms


@dataclass(frozen=True)
class ExponentialLatency(QuantileDistribution):
    """Exponential distribution with mean ``scale_ms``, such as the inter-arrival times of a Poisson process."""

    scale_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """``EXPONENTIAL`` and the mean."""
        return EXPONENTIAL, self.scale_ms, 0.0, self.min_latency_ms


@dataclass(frozen=True)
class NormalLatency(QuantileDistribution):
    """Normal latency; values below the floor are raised to it."""

    mean_ms: float
    stddev_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """``NORMAL``, the mean and the standard deviation."""
        return NORMAL, self.mean_ms, self.stddev_ms, self.min_latency_ms


@dataclass(frozen=True)
class LognormalLatency(QuantileDistribution):
    """Lognormal latency with a floor. ``mu`` is the logarithm of the median; a larger ``sigma`` has a heavier tail."""

    mu: float
    sigma: float
    min_latency_ms: float = 1.0

    @classmethod
    def from_median(cls, median_ms: float, sigma: float, min_latency_ms: float = 1.0) -> LognormalLatency:
        """Return the lognormal with this median."""
        return cls(math.log(median_ms), sigma, min_latency_ms)

    @classmethod
    def from_mean(cls, mean_ms: float, sigma: float, min_latency_ms: float = 1.0) -> LognormalLatency:
        """Return the lognormal with this mean (before the floor): mu = ln(mean) - sigma^2 / 2."""
        return cls(math.log(mean_ms) - sigma * sigma / 2.0, sigma, min_latency_ms)

    @property
    def parameters(self) -> Parameters:
        """``LOGNORMAL``, mu and sigma."""
        return LOGNORMAL, self.mu, self.sigma, self.min_latency_ms


@dataclass(frozen=True)
class SizeBasedLatency(QuantileDistribution):
    """Lognormal latency with a median that grows with object size: base + rate x MiB (Durner et al., VLDB 2023)."""

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
        """Median for the object size, before the floor."""
        return sized_median_ms(self.base_latency_ms, self.latency_per_mib_ms, self.size_bytes)

    @property
    def parameters(self) -> Parameters:
        """``LOGNORMAL``, the logarithm of the median for the size, and sigma; ``FIXED`` and the median if sigma is 0."""
        if self.sigma == 0.0:
            return FIXED, self.median_ms, 0.0, self.min_latency_ms
        return LOGNORMAL, math.log(self.median_ms), self.sigma, self.min_latency_ms
