"""Distributions of latencies, inter-arrival times and runtimes, all in milliseconds.

A distribution is a frozen value. ``sample(rng)`` makes one value of one uniform of ``rng``, which may be a keyed ``Stream`` or a
plain ``np.random.RandomState``. Built-in distributions say with ``parameters`` what they are made of; that is how the compiled
engine reads them.
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
"""Kind, a, b, floor, as ``endive.arithmetic.draws.quantile`` takes them."""


class LatencyDistribution(ABC):
    """Anything that can be asked for a latency; subclass it for a distribution of your own."""

    @abstractmethod
    def sample(self, rng: RandomSource) -> float:
        """Draw a latency in milliseconds."""


class QuantileDistribution(LatencyDistribution):
    """A built-in distribution: one uniform makes one value, by the inverse of its distribution function."""

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """What ``quantile`` needs to make a value of a uniform."""

    def at(self, u: float) -> float:
        """Return the value at the uniform ``u``."""
        return quantile(*self.parameters, u)

    def mean_of_quantiles_ms(self, points: int) -> float:
        """Return about the mean, after the floor, in milliseconds: that of so many equally likely values."""
        return fmean(self.at((point + 0.5) / points) for point in range(points))

    def sample(self, rng: RandomSource) -> float:
        """Draw a latency in milliseconds."""
        return self.at(rng.random_sample())


@dataclass(frozen=True)
class FixedLatency(QuantileDistribution):
    """Always the same latency."""

    latency_ms: float

    @property
    def parameters(self) -> Parameters:
        """FIXED, the latency."""
        return FIXED, self.latency_ms, 0.0, 0.0


@dataclass(frozen=True)
class UniformLatency(QuantileDistribution):
    """Uniform between two bounds."""

    low_ms: float
    high_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """UNIFORM, low, high."""
        return UNIFORM, self.low_ms, self.high_ms, self.min_latency_ms


@dataclass(frozen=True)
class ExponentialLatency(QuantileDistribution):
    """Exponential with mean ``scale_ms``: the inter-arrival times of a Poisson process."""

    scale_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """EXPONENTIAL, mean."""
        return EXPONENTIAL, self.scale_ms, 0.0, self.min_latency_ms


@dataclass(frozen=True)
class NormalLatency(QuantileDistribution):
    """Normal, cut at a floor: what falls below it is the floor."""

    mean_ms: float
    stddev_ms: float
    min_latency_ms: float = 0.0

    @property
    def parameters(self) -> Parameters:
        """NORMAL, mean, standard deviation."""
        return NORMAL, self.mean_ms, self.stddev_ms, self.min_latency_ms


@dataclass(frozen=True)
class LognormalLatency(QuantileDistribution):
    """Lognormal with a floor; ``mu`` is the logarithm of the median, ``sigma`` says how heavy the tail is."""

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
        """LOGNORMAL, mu, sigma."""
        return LOGNORMAL, self.mu, self.sigma, self.min_latency_ms


@dataclass(frozen=True)
class SizeBasedLatency(QuantileDistribution):
    """Lognormal around a median that grows with the size of the object: base + rate x MiB (Durner et al., VLDB 2023)."""

    base_latency_ms: float
    latency_per_mib_ms: float
    sigma: float
    min_latency_ms: float = 1.0
    size_bytes: int = 0

    def with_size(self, size_bytes: int) -> SizeBasedLatency:
        """Return the same model for an object of this size."""
        return replace(self, size_bytes=size_bytes)

    @property
    def median_ms(self) -> float:
        """The median for the object's size, before the floor."""
        return sized_median_ms(self.base_latency_ms, self.latency_per_mib_ms, self.size_bytes)

    @property
    def parameters(self) -> Parameters:
        """LOGNORMAL, ln(median for the size), sigma; FIXED, median for the size, where sigma is 0."""
        if self.sigma == 0.0:
            return FIXED, self.median_ms, 0.0, self.min_latency_ms
        return LOGNORMAL, math.log(self.median_ms), self.sigma, self.min_latency_ms
