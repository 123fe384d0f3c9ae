"""Samples of known distributions, each with its true quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

Floats = npt.NDArray[np.float64]
N = 1000


@dataclass(frozen=True)
class Known:
    """Sample, optional object sizes, and the true quantile function of an object of size 0."""

    name: str
    latencies_ms: Floats
    sizes_bytes: Floats | None
    quantile: Callable[[float], float]


def lognormal(rng: np.random.Generator, median: float) -> Known:
    sigma = rng.uniform(0.1, 0.6)
    made = median * np.exp(sigma * rng.standard_normal(N))
    return Known("lognormal", made, None, lambda p: median * math.exp(sigma * stats.norm.ppf(p)))


def with_a_floor(rng: np.random.Generator, median: float) -> Known:
    sigma = rng.uniform(0.3, 0.8)
    made = median * (1.0 + np.exp(sigma * rng.standard_normal(N)))
    return Known("with a floor", made, None, lambda p: median * (1.0 + math.exp(sigma * stats.norm.ppf(p))))


def gamma(rng: np.random.Generator, median: float) -> Known:
    shape = rng.uniform(1.0, 20.0)
    return Known(
        "gamma", rng.gamma(shape, median / shape, N), None, lambda p: float(stats.gamma.ppf(p, shape, scale=median / shape))
    )


def two_modes(rng: np.random.Generator, median: float) -> Known:
    share, sigma, ratio = rng.uniform(0.05, 0.3), rng.uniform(0.1, 0.3), rng.uniform(3.0, 10.0)
    slow = rng.random(N) < share
    made = np.where(slow, ratio * np.exp(0.3 * rng.standard_normal(N)), np.exp(sigma * rng.standard_normal(N)))

    def below(y: float) -> float:
        return float((1.0 - share) * stats.norm.cdf(y / sigma) + share * stats.norm.cdf((y - math.log(ratio)) / 0.3))

    return Known(
        "two modes", median * made, None, lambda p: median * math.exp(optimize.brentq(lambda y: below(y) - p, -10.0, 20.0))
    )


def heavy_tail(rng: np.random.Generator, median: float) -> Known:
    """Return a sample whose logarithm has Student's t with six degrees of freedom, a tail that no family has."""
    made = median * np.exp(0.2 * rng.standard_t(6, N))
    return Known("heavy tail", made, None, lambda p: median * math.exp(0.2 * stats.t.ppf(p, 6)))


def by_size(rng: np.random.Generator, median: float) -> Known:
    sigma, growth = rng.uniform(0.1, 0.5), rng.uniform(0.05, 1.0)
    sizes = rng.choice([1e3, 1e5, 1e6, 8e6], N)
    made = median * (1.0 + growth * sizes / 2**20) * np.exp(sigma * rng.standard_normal(N))
    return Known("by size", made, sizes, lambda p: median * math.exp(sigma * stats.norm.ppf(p)))


MAKERS = (lognormal, with_a_floor, gamma, two_modes, heavy_tail, by_size)


def known(seed: int) -> Known:
    """Return one of the known samples, by its seed."""
    rng = np.random.default_rng([2026, seed])
    return MAKERS[seed % len(MAKERS)](rng, float(np.exp(rng.uniform(1.0, 5.0))))
