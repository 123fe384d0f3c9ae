"""From sections that describe distributions to the distributions."""

from __future__ import annotations

from endive.config.values import Distribution
from endive.storage import (
    ExponentialLatency,
    FixedLatency,
    LognormalLatency,
    NormalLatency,
    QuantileDistribution,
    UniformLatency,
)


def distribution(section: Distribution, default: str) -> QuantileDistribution:
    """The distribution that a section describes; ``default`` is its kind where it names none."""
    kind = section.distribution or default
    floor = section.min or 0.0
    if kind == "lognormal":
        sigma = 0.0 if section.sigma is None else section.sigma
        if section.median is not None:
            return LognormalLatency.from_median(section.median, sigma, floor)
        return LognormalLatency.from_mean(section.mean or 0.0, sigma, floor)
    if kind == "exponential":
        return ExponentialLatency(section.scale or section.mean or 0.0, floor)
    if kind == "normal":
        return NormalLatency(section.mean or 0.0, section.stddev or 0.0, floor)
    if kind == "uniform":
        return UniformLatency(floor, section.max or 0.0)
    return FixedLatency((section.mean or 0.0) if section.value is None else section.value)
