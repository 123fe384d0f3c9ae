from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.arithmetic.draws import keyed_uniform
from endive.randomness import RandomSource, Stream, run_key
from endive.storage import (
    ExponentialLatency,
    FixedLatency,
    LatencyDistribution,
    LognormalLatency,
    NormalLatency,
    QuantileDistribution,
    SizeBasedLatency,
    UniformLatency,
)

MIB = 1024 * 1024

EXAMPLES: list[QuantileDistribution] = [
    FixedLatency(7.0),
    UniformLatency(10.0, 30.0),
    ExponentialLatency(50.0),
    NormalLatency(100.0, 40.0),
    LognormalLatency.from_median(61.0, 0.14, 43.0),
    LognormalLatency.from_mean(10_000.0, 1.5),
    SizeBasedLatency(30.0, 20.0, 0.3, 43.0, 8192),
]

FLOORED: list[QuantileDistribution] = [
    UniformLatency(10.0, 30.0, min_latency_ms=15.0),
    ExponentialLatency(20.0, min_latency_ms=15.0),
    NormalLatency(20.0, 20.0, min_latency_ms=15.0),
    LognormalLatency.from_median(20.0, 0.6, min_latency_ms=15.0),
    LognormalLatency.from_mean(20.0, 0.6, min_latency_ms=15.0),
    SizeBasedLatency(20.0, 10.0, 0.6, min_latency_ms=15.0),
]


def named(distribution: QuantileDistribution) -> str:
    return type(distribution).__name__


def mean_ms(distribution: QuantileDistribution, points: int = 20_000) -> float:
    """The mean by the midpoint rule over the quantile function."""
    return sum(distribution.at((k + 0.5) / points) for k in range(points)) / points


@pytest.mark.parametrize("distribution", EXAMPLES, ids=named)
class TestEveryDistribution:
    def test_a_sample_from_a_stream_is_the_value_at_its_next_uniform(self, distribution: QuantileDistribution) -> None:
        key = run_key(3)
        stream = Stream(key)
        assert [distribution.sample(stream) for _ in range(50)] == [distribution.at(keyed_uniform(key, i)) for i in range(50)]
        assert stream.draws == 50

    def test_a_sample_from_random_state_is_the_value_at_its_next_uniform(self, distribution: QuantileDistribution) -> None:
        rng, same = np.random.RandomState(3), np.random.RandomState(3)
        assert [distribution.sample(rng) for _ in range(50)] == [distribution.at(same.random_sample()) for _ in range(50)]
        assert rng.random_sample() == same.random_sample()

    def test_a_sample_is_a_plain_float(self, distribution: QuantileDistribution) -> None:
        assert type(distribution.sample(np.random.RandomState(1))) is float
        assert type(distribution.sample(Stream(1))) is float

    @settings(max_examples=100)
    @given(one=st.floats(2.0**-53, 1.0 - 2.0**-53), other=st.floats(2.0**-53, 1.0 - 2.0**-53))
    def test_it_grows_with_the_uniform(self, distribution: QuantileDistribution, one: float, other: float) -> None:
        low, high = (distribution.at(u) for u in sorted((one, other)))
        assert low <= high * (1.0 + 1e-14)


@pytest.mark.parametrize("distribution", FLOORED, ids=named)
def test_values_below_the_floor_are_raised_to_the_floor(distribution: QuantileDistribution) -> None:
    free = dataclasses.replace(distribution, min_latency_ms=0.0)  # type: ignore[type-var]
    grid = [(k + 0.5) / 1000 for k in range(1000)]
    values = [distribution.at(u) for u in grid]
    assert values == [max(15.0, free.at(u)) for u in grid]
    assert 0 < values.count(15.0) < 1000


def test_a_normal_is_never_negative_by_default() -> None:
    assert NormalLatency(1.0, 10.0).at(0.01) == 0.0


def test_a_lognormal_has_a_floor_of_one_millisecond_by_default() -> None:
    assert LognormalLatency(math.log(0.5), 0.1).at(0.5) == 1.0
    assert LognormalLatency.from_median(0.5, 0.1).at(0.5) == 1.0
    assert LognormalLatency.from_mean(0.5, 0.1).at(0.5) == 1.0
    assert SizeBasedLatency(0.5, 0.1, 0.1).at(0.5) == 1.0


class TestParametrisation:
    def test_fixed_is_always_the_same(self) -> None:
        assert {FixedLatency(7.0).sample(Stream(seed)) for seed in range(20)} == {7.0}

    def test_uniform_is_spread_evenly_between_its_bounds(self) -> None:
        assert [UniformLatency(10.0, 30.0).at(u) for u in (0.25, 0.5, 0.75)] == [15.0, 20.0, 25.0]

    def test_exponential_has_its_scale_as_mean(self) -> None:
        assert mean_ms(ExponentialLatency(50.0)) == pytest.approx(50.0, rel=1e-3)
        assert ExponentialLatency(50.0).at(1.0 - math.exp(-1.0)) == pytest.approx(50.0, rel=1e-12)

    def test_normal_has_its_mean_and_standard_deviation(self) -> None:
        distribution = NormalLatency(100.0, 10.0)
        assert distribution.at(0.5) == 100.0
        assert distribution.at(stats.norm.cdf(1.0)) == pytest.approx(110.0, abs=1e-6)
        assert mean_ms(distribution) == pytest.approx(100.0, rel=1e-9)

    @pytest.mark.parametrize("sigma", [0.0, 0.14, 1.0])
    def test_lognormal_from_median_has_that_median_and_sigma(self, sigma: float) -> None:
        distribution = LognormalLatency.from_median(61.0, sigma, 0.0)
        assert distribution.at(0.5) == pytest.approx(61.0, rel=1e-15)
        assert distribution.mu == math.log(61.0)
        assert math.log(distribution.at(stats.norm.cdf(1.0)) / 61.0) == pytest.approx(sigma, abs=1e-8)

    @pytest.mark.parametrize("sigma", [0.0, 0.14, 1.0, 1.5])
    def test_lognormal_from_mean_has_that_mean(self, sigma: float) -> None:
        distribution = LognormalLatency.from_mean(10_000.0, sigma, 0.0)
        assert distribution.mu == pytest.approx(math.log(10_000.0) - sigma**2 / 2.0, rel=1e-15)
        assert mean_ms(distribution, 100_000) == pytest.approx(10_000.0, rel=5e-3)
        assert distribution.at(0.5) == pytest.approx(10_000.0 * math.exp(-(sigma**2) / 2.0), rel=1e-12)


class TestSizeBased:
    model = SizeBasedLatency(30.0, 20.0, 0.3, 1.0)

    @pytest.mark.parametrize(("size_bytes", "median_ms"), [(0, 30.0), (MIB // 2, 40.0), (MIB, 50.0), (10 * MIB, 230.0)])
    def test_the_median_grows_with_the_size(self, size_bytes: int, median_ms: float) -> None:
        sized = self.model.with_size(size_bytes)
        assert sized.median_ms == pytest.approx(median_ms)
        assert sized.at(0.5) == pytest.approx(median_ms, rel=1e-14)

    def test_the_spread_is_the_same_at_every_size(self) -> None:
        u = stats.norm.cdf(1.0)
        ratios = [sized.at(u) / sized.at(0.5) for sized in (self.model, self.model.with_size(5 * MIB))]
        assert ratios == pytest.approx([math.exp(0.3)] * 2, rel=1e-8)

    def test_another_size_leaves_the_original_and_the_other_parameters_alone(self) -> None:
        sized = self.model.with_size(MIB)
        assert self.model.size_bytes == 0
        assert sized == SizeBasedLatency(30.0, 20.0, 0.3, 1.0, MIB)


def test_a_distribution_of_the_users_own_needs_only_sample() -> None:
    class Coin(LatencyDistribution):
        def sample(self, rng: RandomSource) -> float:
            return 1.0 if rng.random_sample() < 0.5 else 2.0

    assert {Coin().sample(Stream(seed)) for seed in range(40)} == {1.0, 2.0}


def test_a_latency_by_size_without_spread_is_exact() -> None:
    latency = SizeBasedLatency(30.0, 20.0, 0.0).with_size(3 * 1024 * 1024)
    assert latency.sample(np.random.RandomState(1)) == 30.0 + 20.0 * 3
