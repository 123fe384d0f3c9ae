from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.arithmetic.draws import (
    EXPONENTIAL,
    FIXED,
    LOGNORMAL,
    MASK,
    NORMAL,
    QUANTILES,
    UNIFORM,
    derive,
    exact_normal_quantile,
    keyed_uniform,
    largest_uniform,
    mix64,
    normal_quantile,
    quantile,
)
from endive.randomness import name_key, run_key

SMALLEST = 2.0**-53
"""Minimum uniform random number of a stream; the maximum is 1 minus this."""

keys = st.integers(0, MASK)
uniforms = st.integers(0, 2**52 - 1).map(lambda k: (k + 0.5) * 2.0**-52)


def uniforms_across_scales() -> list[float]:
    """Return powers of two, edges and middles of table cells, and other points, on both sides of one half."""
    lower = [2.0**-k for k in range(1, 54)]
    lower += [2.0 ** -(k + 1) * (1.0 + cell / 128.0) for k in range(1, 53) for cell in (1, 63, 127)]
    lower += [2.0 ** -(k + 1) * (1.0 + (cell + 0.5) / 128.0) for k in range(1, 53) for cell in (0, 64, 127)]
    lower += np.geomspace(SMALLEST, 0.4999, 1000).tolist()
    return lower + [1.0 - p for p in lower]


ACROSS_SCALES = uniforms_across_scales()


class TestKeyedDraws:
    def test_mix64_is_the_finalizer_of_splitmix64(self) -> None:
        golden = 0x9E3779B97F4A7C15
        outputs = [mix64((n * golden) & MASK) for n in (1, 2, 3)]
        assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]

    def test_a_uniform_is_made_of_the_upper_52_bits(self) -> None:
        assert keyed_uniform(0, 1) == ((0xE220A8397B1DCDAF >> 12) + 0.5) * 2.0**-52

    @settings(max_examples=300)
    @given(keys, st.integers(0, 2**40))
    def test_uniforms_are_in_the_open_unit_interval(self, key: int, index: int) -> None:
        assert SMALLEST <= keyed_uniform(key, index) <= 1.0 - SMALLEST

    def test_the_extreme_hashes_stay_inside_the_open_interval(self) -> None:
        zero_key = 0  # the finalizer maps 0 to 0
        assert keyed_uniform(zero_key, 0) == SMALLEST
        ones_key = unmix(MASK)
        assert mix64(ones_key) == MASK
        assert keyed_uniform(ones_key, 0) == 1.0 - SMALLEST < 1.0

    @settings(max_examples=100)
    @given(keys, st.integers(0, 1000), st.integers(1, 40))
    def test_the_largest_uniform_is_that_of_the_single_draws(self, key: int, index: int, count: int) -> None:
        assert largest_uniform(key, index, count) == max(keyed_uniform(key, index + i) for i in range(count))

    def test_a_name_gives_the_same_word_in_every_process(self) -> None:
        assert name_key("default") == 0xA2B3A61B7BB098FE
        assert name_key("default") != name_key("Default")

    @settings(max_examples=200)
    @given(keys, st.integers(0, 10_000), st.integers(0, 10_000))
    def test_words_below_one_key_give_different_keys(self, key: int, one: int, other: int) -> None:
        assert (derive(key, one) == derive(key, other)) == (one == other)

    def test_seeds_and_their_negatives_give_different_runs(self) -> None:
        assert len({run_key(seed) for seed in range(-500, 500)}) == 1000


def unmix(z: int) -> int:
    """Invert ``mix64``."""

    def unshift(value: int, by: int) -> int:
        result = value
        for _ in range(64 // by):
            result = value ^ (result >> by)
        return result

    z = unshift(z, 31)
    z = (z * pow(0x94D049BB133111EB, -1, 2**64)) & MASK
    z = unshift(z, 27)
    z = (z * pow(0xBF58476D1CE4E5B9, -1, 2**64)) & MASK
    return unshift(z, 30)


class TestNormalQuantile:
    @pytest.mark.parametrize("sign", ["below", "above"])
    def test_the_exact_quantile_agrees_with_scipy_to_1e_14(self, sign: str) -> None:
        us = [u for u in ACROSS_SCALES if (u < 0.5) == (sign == "below") and u != 0.5]
        ours = np.array([exact_normal_quantile(u) for u in us])
        np.testing.assert_allclose(ours, stats.norm.ppf(us), rtol=1e-14, atol=0.0)

    def test_the_exact_quantile_of_one_half_is_zero(self) -> None:
        assert exact_normal_quantile(0.5) == 0.0

    def test_the_exact_quantile_reaches_far_beyond_the_table(self) -> None:
        us = [1e-300, 1e-100, 1e-30, 1e-16]
        np.testing.assert_allclose([exact_normal_quantile(u) for u in us], stats.norm.ppf(us), rtol=1e-14)

    def test_the_table_agrees_with_the_exact_quantile_to_1e_9(self) -> None:
        ours = np.array([normal_quantile(u, QUANTILES) for u in ACROSS_SCALES])
        exact = np.array([exact_normal_quantile(u) for u in ACROSS_SCALES])
        np.testing.assert_allclose(ours, exact, rtol=0.0, atol=1e-9)

    @settings(max_examples=500)
    @given(uniforms)
    def test_the_table_agrees_with_scipy_anywhere(self, u: float) -> None:
        assert abs(normal_quantile(u, QUANTILES) - stats.norm.ppf(u)) < 1e-9

    def test_powers_of_two_are_nodes_of_the_table(self) -> None:
        for power in range(2, 54):
            assert normal_quantile(2.0**-power, QUANTILES) == exact_normal_quantile(2.0**-power)

    def test_one_half_is_exactly_zero(self) -> None:
        assert normal_quantile(0.5, QUANTILES) == 0.0

    @pytest.mark.parametrize("u", [SMALLEST, 1.0 - SMALLEST, 3 * SMALLEST, 1.0 - 3 * SMALLEST])
    def test_the_outermost_uniforms_of_a_stream_are_in_the_table(self, u: float) -> None:
        assert normal_quantile(u, QUANTILES) == pytest.approx(stats.norm.ppf(u), abs=1e-9)

    @settings(max_examples=500)
    @given(uniforms)
    def test_it_is_antisymmetric_about_one_half(self, u: float) -> None:
        assert normal_quantile(1.0 - u, QUANTILES) == -normal_quantile(u, QUANTILES)

    def test_the_uniform_zero_is_in_the_lower_tail(self) -> None:
        assert normal_quantile(0.0, QUANTILES) < -8.0


KINDS: list[tuple[int, float, float, Callable[[float], float]]] = [
    (UNIFORM, 3.0, 11.0, stats.uniform(3.0, 8.0).ppf),
    (UNIFORM, 4.0, 4.0, lambda _: 4.0),
    (EXPONENTIAL, 25.0, 0.0, stats.expon(scale=25.0).ppf),
    (NORMAL, 100.0, 15.0, stats.norm(100.0, 15.0).ppf),
    (NORMAL, -2.0, 0.5, stats.norm(-2.0, 0.5).ppf),
    (LOGNORMAL, math.log(61.0), 0.14, stats.lognorm(0.14, scale=61.0).ppf),
    (LOGNORMAL, math.log(4500.0), 1.0, stats.lognorm(1.0, scale=4500.0).ppf),
    (FIXED, 12.5, 0.0, lambda _: 12.5),
]


class TestQuantile:
    @pytest.mark.parametrize(("kind", "a", "b", "expected"), KINDS)
    def test_each_kind_agrees_with_scipy(self, kind: int, a: float, b: float, expected: Callable[[float], float]) -> None:
        for u in ACROSS_SCALES[::7]:
            assert quantile(kind, a, b, -math.inf, u) == pytest.approx(expected(u), rel=1e-9, abs=1e-8)

    @pytest.mark.parametrize(("kind", "a", "b"), [case[:3] for case in KINDS])
    def test_nothing_falls_below_the_floor_and_nothing_above_it_moves(self, kind: int, a: float, b: float) -> None:
        free = [quantile(kind, a, b, -math.inf, u) for u in ACROSS_SCALES[::11]]
        floor = float(np.median(free))
        floored = [quantile(kind, a, b, floor, u) for u in ACROSS_SCALES[::11]]
        assert floored == [max(value, floor) for value in free]

    @pytest.mark.parametrize(("kind", "a", "b"), [case[:3] for case in KINDS])
    def test_it_grows_with_the_uniform(self, kind: int, a: float, b: float) -> None:
        values = [quantile(kind, a, b, -math.inf, u) for u in sorted(set(ACROSS_SCALES))]
        assert all(low <= high for low, high in pairwise(values))
        assert (values[0] < values[-1]) == (kind != FIXED and a != b)

    @settings(max_examples=500)
    @given(st.sampled_from(KINDS), uniforms, uniforms)
    def test_a_larger_uniform_never_gives_a_smaller_value(
        self, case: tuple[int, float, float, Callable[[float], float]], one: float, other: float
    ) -> None:
        kind, a, b, _ = case
        low, high = (quantile(kind, a, b, 0.0, u) for u in sorted((one, other)))
        assert low <= high * (1.0 + 1e-14)

    def test_it_grows_across_the_edges_of_the_cells_up_to_rounding(self) -> None:
        for power in range(2, 53):
            for cell in (0, 1, 64, 127):
                edge = 2.0**-power * (1.0 + cell / 128.0)
                below = normal_quantile(math.nextafter(edge, 0.0), QUANTILES)
                assert below <= normal_quantile(edge, QUANTILES) + 1e-14
