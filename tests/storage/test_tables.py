"""Distributions that are drawn from a table: right against scipy, the same shape at every size, parsed from a profile."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from endive.storage import (
    EmpiricalLatency,
    GammaLatency,
    MixtureLatency,
    QuantileDistribution,
    ShiftedLognormalLatency,
    load_profile,
)
from endive.storage.profiles import ProfileError, parse_distribution

PROBABILITIES = (1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-12)


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 5.0, 50.0, 1e5])
def test_a_gamma_has_the_quantiles_of_scipy(shape: float) -> None:
    made = GammaLatency(40.0, shape)
    for p in PROBABILITIES:
        assert made.at(p) == pytest.approx(stats.gamma.ppf(p, shape, scale=40.0 / shape), rel=1e-3, abs=1e-290)


@pytest.mark.parametrize("sigma", [0.0, 0.2, 1.0, 2.5])
def test_a_shifted_lognormal_has_the_quantiles_of_scipy(sigma: float) -> None:
    made = ShiftedLognormalLatency(12.0, 8.0, sigma)
    for p in PROBABILITIES:
        assert made.at(p) == pytest.approx(12.0 + 8.0 * math.exp(sigma * stats.norm.ppf(p)), rel=1e-4)


@pytest.mark.parametrize("second", [(100.0, 0.4, 0.1), (12.0, 1.5, 0.5), (3.0, 0.2, 0.01)])
def test_a_mixture_has_the_quantiles_of_its_distribution_function(second: tuple[float, float, float]) -> None:
    median, sigma, share = second
    made = MixtureLatency(10.0, 0.3, median, sigma, share)

    def tail(log_ms: float, sign: float) -> float:
        first = (1.0 - share) * stats.norm.cdf(sign * (log_ms - math.log(10.0)) / 0.3)
        return float(first + share * stats.norm.cdf(sign * (log_ms - math.log(median)) / sigma))

    for p in PROBABILITIES:
        sign = 1.0 if p < 0.5 else -1.0  # the smaller tail: between two modes the quantile is steep, and its probability is not
        assert tail(math.log(made.at(p)), sign) == pytest.approx(min(p, 1.0 - p), rel=5e-3)


def test_an_empirical_distribution_goes_through_its_points_and_on_as_a_lognormal() -> None:
    made = EmpiricalLatency((0.1, 0.5, 0.99), (10.0, 20.0, 80.0))
    for p, value in zip(made.probabilities, made.quantiles_ms, strict=True):
        assert made.at(p) == pytest.approx(value, rel=2e-3)
    slope = math.log(80.0 / 20.0) / stats.norm.ppf(0.99)
    assert made.at(0.9999) == pytest.approx(20.0 * math.exp(slope * stats.norm.ppf(0.9999)), rel=1e-3)


@pytest.mark.parametrize(
    "distribution",
    [
        GammaLatency(40.0, 0.3),
        ShiftedLognormalLatency(12.0, 8.0, 1.0),
        MixtureLatency(10.0, 0.0, 100.0, 0.4, 0.1),
        EmpiricalLatency((0.1, 0.5, 0.9), (10.0, 10.0, 30.0)),
    ],
)
def test_quantiles_never_fall(distribution: QuantileDistribution) -> None:
    values = [distribution.at(u) for u in np.linspace(1e-9, 1 - 1e-9, 5_000)]
    assert all(b >= a for a, b in pairwise(values))


def test_a_size_scales_the_whole_distribution() -> None:
    small = GammaLatency(40.0, 3.0, latency_per_mib_ms=10.0)
    large = small.with_size(4 * 2**20)
    factor = (small.base_latency_ms + 40.0) / small.base_latency_ms
    for p in (0.01, 0.5, 0.999):
        assert large.at(p) == pytest.approx(factor * small.at(p), rel=1e-12)


def test_the_floor_holds() -> None:
    assert GammaLatency(1.0, 0.5, min_latency_ms=2.0).at(0.01) == 2.0


def test_a_profile_may_use_every_shape() -> None:
    profile = load_profile(Path(__file__).parent / "calibrated.toml")
    assert profile.reads["*"] == ShiftedLognormalLatency(1.0, 2.0, 0.8, latency_per_mib_ms=40.0, min_latency_ms=0.5)
    assert profile.reads["manifest_list"] == GammaLatency(4.0, 0.7, min_latency_ms=0.5)
    assert profile.writes["manifest_file"] == MixtureLatency(2.0, 0.2, 30.0, 0.5, 0.1, latency_per_mib_ms=10.0, min_latency_ms=0.5)
    assert profile.cas == EmpiricalLatency((0.01, 0.5, 0.9, 0.99), (2.0, 4.0, 9.0, 40.0), min_latency_ms=0.5)


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"shift_ms": 5.0, "median_ms": 5.0, "sigma": 1.0}, "shift_ms is 5.0"),
        ({"mean_ms": 5.0, "shape": 0.0}, "shape is 0.0"),
        ({"mean_ms": 0.0, "shape": 1.0}, "mean_ms is 0.0"),
        ({"median_ms": 5.0, "sigma": 1.0, "second_median_ms": 5.0, "second_sigma": 99.0, "second_share": 0.1}, "second_sigma"),
        ({"median_ms": 5.0, "sigma": 1.0, "second_median_ms": 5.0, "second_sigma": 1.0, "second_share": 1.1}, "second_share"),
        ({"probabilities": [0.5], "quantiles_ms": [1.0]}, "at least two"),
        ({"probabilities": [0.1, 0.5], "quantiles_ms": [1.0]}, "at least two"),
        ({"probabilities": [0.1, 0.5, 0.6], "quantiles_ms": [1.0, 2.0]}, "3 probabilities"),
        ({"probabilities": [0.1, 1.0], "quantiles_ms": [1.0, 2.0]}, "below 1"),
        ({"probabilities": [0.1, 0.5], "quantiles_ms": [2.0, 1.0]}, "not decrease"),
        ({"probabilities": [0.1, "x"], "quantiles_ms": [2.0, 3.0]}, "'x'"),
        ({"mean_ms": 5.0, "stddev_ms": 1.0, "per_mib_ms": 1.0}, "must have the keys"),
    ],
)
def test_a_wrong_shape_is_refused_by_key(table: dict[str, object], hint: str) -> None:
    with pytest.raises(ProfileError, match=hint):
        parse_distribution(table, 0.0, "store.toml: read")
