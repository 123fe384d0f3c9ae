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
from endive.randomness import Purpose, Stream, class_key, name_key, run_key, transaction_streams

SMALLEST = 2.0**-53
"""The smallest uniform that a stream gives; the largest is 1 minus this."""

keys = st.integers(0, MASK)
uniforms = st.integers(0, 2**52 - 1).map(lambda k: (k + 0.5) * 2.0**-52)


def uniforms_across_scales() -> list[float]:
    """Powers of two, edges and middles of the table's cells, and points that are none of these, on both sides of one half."""
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

    @settings(derandomize=True, deadline=None, max_examples=300)
    @given(keys, st.integers(0, 2**40))
    def test_uniforms_lie_in_the_open_unit_interval(self, key: int, index: int) -> None:
        assert SMALLEST <= keyed_uniform(key, index) <= 1.0 - SMALLEST

    def test_the_extreme_hashes_stay_inside_the_open_interval(self) -> None:
        zero_key = 0  # the finalizer maps 0 to 0
        assert keyed_uniform(zero_key, 0) == SMALLEST
        ones_key = _unmix(MASK)
        assert mix64(ones_key) == MASK
        assert keyed_uniform(ones_key, 0) == 1.0 - SMALLEST < 1.0

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(keys, st.integers(0, 1000), st.integers(1, 40))
    def test_the_largest_uniform_is_that_of_the_single_draws(self, key: int, index: int, count: int) -> None:
        assert largest_uniform(key, index, count) == max(keyed_uniform(key, index + i) for i in range(count))

    def test_a_name_gives_the_same_word_in_every_process(self) -> None:
        assert name_key("default") == 0xA2B3A61B7BB098FE
        assert name_key("default") != name_key("Default")

    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(keys, st.integers(0, 10_000), st.integers(0, 10_000))
    def test_words_below_one_key_give_different_keys(self, key: int, one: int, other: int) -> None:
        assert (derive(key, one) == derive(key, other)) == (one == other)

    def test_seeds_and_their_negatives_give_different_runs(self) -> None:
        assert len({run_key(seed) for seed in range(-500, 500)}) == 1000


def _unmix(z: int) -> int:
    """The inverse of ``mix64``."""

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


class TestStream:
    def test_draws_from_blocks_equal_single_draws(self) -> None:
        key = derive(run_key(7), Purpose.STORAGE)
        stream = Stream(key)
        assert [stream.random_sample() for _ in range(500)] == [keyed_uniform(key, i) for i in range(500)]
        assert stream.draws == 500

    @pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 63, 64, 65, 130])
    def test_largest_sample_equals_the_largest_single_draw_at_every_offset(self, count: int) -> None:
        key = derive(run_key(11), Purpose.CATALOG)
        single = [keyed_uniform(key, i) for i in range(300)]
        for offset in range(150):
            stream = Stream(key)
            for _ in range(offset):
                stream.random_sample()
            assert stream.largest_sample(count) == max(single[offset : offset + count])
            assert stream.draws == offset + count
            assert stream.random_sample() == single[offset + count]

    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(keys, st.lists(st.integers(0, 80), max_size=40))
    def test_any_mixture_of_single_and_largest_draws_walks_the_same_stream(self, key: int, counts: list[int]) -> None:
        stream, index = Stream(key), 0
        for count in counts:  # 0 stands for a single draw
            expected = max(keyed_uniform(key, index + i) for i in range(max(count, 1)))
            assert (stream.largest_sample(count) if count else stream.random_sample()) == expected
            index += max(count, 1)
        assert stream.draws == index

    def test_the_order_in_which_streams_are_used_makes_no_difference(self) -> None:
        key = class_key(3, "ingest")
        purposes = list(Purpose)
        one = transaction_streams(key, 0, 5)
        by_purpose = {purpose: [one.stream(purpose).random_sample() for _ in range(20)] for purpose in purposes}
        other = transaction_streams(key, 0, 5)
        interleaved: dict[Purpose, list[float]] = {purpose: [] for purpose in purposes}
        for _ in range(20):
            for purpose in reversed(purposes):
                interleaved[purpose].append(other.stream(purpose).random_sample())
        assert interleaved == by_purpose

    def test_an_aliased_name_draws_the_next_uniform(self) -> None:
        key = run_key(1)
        stream = Stream(key)
        drawn = [stream.random_sample(), stream.random(), stream.rand()]
        assert drawn == [keyed_uniform(key, i) for i in range(3)]

    @pytest.mark.parametrize(
        ("method", "arguments", "expected"),
        [
            ("random_sample", {}, stats.uniform.ppf),
            ("random", {}, stats.uniform.ppf),
            ("rand", {}, stats.uniform.ppf),
            ("uniform", {}, stats.uniform.ppf),
            ("uniform", {"low": 3.0, "high": 5.0}, stats.uniform(3.0, 2.0).ppf),
            ("standard_normal", {}, stats.norm.ppf),
            ("normal", {}, stats.norm.ppf),
            ("normal", {"loc": 4.0, "scale": 2.5}, stats.norm(4.0, 2.5).ppf),
            ("lognormal", {}, stats.lognorm(1.0).ppf),
            ("lognormal", {"mean": 2.0, "sigma": 0.4}, stats.lognorm(0.4, scale=math.exp(2.0)).ppf),
            ("exponential", {}, stats.expon.ppf),
            ("exponential", {"scale": 30.0}, stats.expon(scale=30.0).ppf),
        ],
    )
    def test_methods_named_as_those_of_random_state_are_quantiles_of_one_uniform(
        self, method: str, arguments: dict[str, float], expected: Callable[[float], float]
    ) -> None:
        key = run_key(5)
        stream = Stream(key)
        for index in range(100):
            value = getattr(stream, method)(**arguments)
            assert value == pytest.approx(expected(keyed_uniform(key, index)), rel=1e-8, abs=1e-9)
            assert stream.draws == index + 1
        assert isinstance(getattr(np.random.RandomState(0), method)(**arguments), float)

    @pytest.mark.parametrize(("arguments", "possible"), [((5,), range(5)), ((2, 6), range(2, 6)), ((-3, 3), range(-3, 3))])
    def test_randint_is_uniform_over_the_range_of_random_state(self, arguments: tuple[int, ...], possible: range) -> None:
        stream, numpy_source = Stream(run_key(6)), np.random.RandomState(6)
        drawn = [stream.randint(*arguments) for _ in range(6000)]
        assert set(drawn) == set(possible) == {int(numpy_source.randint(*arguments)) for _ in range(1000)}
        assert stats.chisquare([drawn.count(value) for value in possible]).pvalue > 1e-4

    def test_randint_at_the_largest_uniform_stays_below_the_end(self) -> None:
        key_of_the_largest = _unmix(MASK)
        for n in [*range(1, 1000), 2**31 - 1, 2**31, 2**52 - 1]:
            assert Stream(key_of_the_largest).randint(n) == n - 1

    def test_choice_has_the_given_probabilities(self) -> None:
        stream = Stream(run_key(8))
        drawn = [stream.choice([10, 20, 30], p=[0.2, 0.5, 0.3]) for _ in range(10_000)]
        observed = [drawn.count(value) for value in (10, 20, 30)]
        assert stats.chisquare(observed, [2000, 5000, 3000]).pvalue > 1e-4

    def test_choice_without_probabilities_is_uniform_over_a_range_or_a_list(self) -> None:
        stream = Stream(run_key(9))
        of_range = [stream.choice(4) for _ in range(4000)]
        of_list = [stream.choice([7, 8]) for _ in range(4000)]
        assert stats.chisquare([of_range.count(value) for value in range(4)]).pvalue > 1e-4
        assert stats.chisquare([of_list.count(value) for value in (7, 8)]).pvalue > 1e-4

    def test_choice_falls_to_the_last_item_when_probabilities_sum_to_less_than_one(self) -> None:
        stream = Stream(run_key(10))
        assert {stream.choice([1, 2], p=[0.0, 1e-12]) for _ in range(50)} == {2}

    def test_shuffle_makes_every_permutation_equally_often(self) -> None:
        stream = Stream(run_key(12))
        counts: dict[tuple[int, ...], int] = {}
        for _ in range(6000):
            items = [1, 2, 3]
            stream.shuffle(items)
            counts[tuple(items)] = counts.get(tuple(items), 0) + 1
        assert len(counts) == 6
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def first_draws(key: int, count: int, client: int = 0, purpose: Purpose = Purpose.RUNTIME) -> list[float]:
    """The first draw for the purpose of each of the first transactions of a class."""
    return [transaction_streams(key, client, ordinal).stream(purpose).random_sample() for ordinal in range(count)]


class TestIndependence:
    """Pairs of draws fall evenly into the cells of a grid, as they would for independent uniforms."""

    GRID = 8
    DRAWS = 6400

    def assert_independent(self, one: list[float], other: list[float]) -> None:
        counts, _, _ = np.histogram2d(one, other, bins=self.GRID, range=[[0.0, 1.0], [0.0, 1.0]])
        assert stats.chisquare(counts.ravel()).pvalue > 1e-4
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.0 / math.sqrt(len(one))

    @pytest.mark.parametrize("other", [purpose for purpose in Purpose if purpose is not Purpose.RUNTIME])
    def test_streams_of_different_purposes(self, other: Purpose) -> None:
        key = class_key(42, "default")
        self.assert_independent(first_draws(key, self.DRAWS), first_draws(key, self.DRAWS, purpose=other))

    @pytest.mark.parametrize(("one", "other"), [("a", "b"), ("ingest", "ingest2"), ("", "default")])
    def test_streams_of_different_classes(self, one: str, other: str) -> None:
        self.assert_independent(first_draws(class_key(42, one), self.DRAWS), first_draws(class_key(42, other), self.DRAWS))

    @pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (42, 43), (1, -1), (0, 2**32)])
    def test_streams_of_different_seeds(self, one: int, other: int) -> None:
        self.assert_independent(first_draws(class_key(one, "a"), self.DRAWS), first_draws(class_key(other, "a"), self.DRAWS))

    @pytest.mark.parametrize("lag", [1, 2, 64])
    def test_streams_of_successive_transactions(self, lag: int) -> None:
        draws = first_draws(class_key(42, "default"), self.DRAWS + lag)
        self.assert_independent(draws[:-lag], draws[lag:])

    def test_streams_of_different_clients(self) -> None:
        key = class_key(42, "closed")
        self.assert_independent(first_draws(key, self.DRAWS, client=0), first_draws(key, self.DRAWS, client=1))

    def test_no_two_transactions_of_any_clients_share_a_stream(self) -> None:
        key = class_key(42, "closed")
        draws = [draw for client in range(40) for draw in first_draws(key, 40, client=client)]
        assert len(set(draws)) == 40 * 40

    @pytest.mark.parametrize("lag", [1, 8, 64])
    def test_successive_draws_of_one_stream(self, lag: int) -> None:
        stream = transaction_streams(class_key(42, "default"), 0, 0).stream(Purpose.STORAGE)
        draws = [stream.random_sample() for _ in range(self.DRAWS + lag)]
        self.assert_independent(draws[:-lag], draws[lag:])


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

    @settings(derandomize=True, deadline=None, max_examples=500)
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

    @settings(derandomize=True, deadline=None, max_examples=500)
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

    @settings(derandomize=True, deadline=None, max_examples=500)
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
