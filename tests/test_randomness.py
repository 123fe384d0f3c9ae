from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.arithmetic.draws import (
    MASK,
    derive,
    keyed_uniform,
)
from endive.randomness import Purpose, Stream, class_key, run_key, transaction_streams
from tests.arithmetic.test_draws import unmix

SMALLEST = 2.0**-53
"""Minimum uniform random number of a stream; the maximum is 1 minus this."""

keys = st.integers(0, MASK)
uniforms = st.integers(0, 2**52 - 1).map(lambda k: (k + 0.5) * 2.0**-52)


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

    @settings(max_examples=200)
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
        key_of_the_largest = unmix(MASK)
        for n in [*range(1, 1000), 2**31 - 1, 2**31, 2**52 - 1]:
            assert Stream(key_of_the_largest).randint(n) == n - 1

    def test_choice_has_the_given_probabilities(self) -> None:
        stream = Stream(run_key(8))
        drawn = [stream.choice([10, 20, 30], p=[0.2, 0.5, 0.3]) for _ in range(10_000)]
        observed = [drawn.count(value) for value in (10, 20, 30)]
        assert stats.chisquare(observed, [2000, 5000, 3000]).pvalue > 1e-4

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
    """Return the first draw for the purpose, for each of the first transactions of a class."""
    return [transaction_streams(key, client, ordinal).stream(purpose).random_sample() for ordinal in range(count)]


class TestIndependence:
    """Pairs of draws are distributed over the cells of a grid like independent uniform random numbers."""

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

    @pytest.mark.parametrize("lag", [1, 8, 64])
    def test_successive_draws_of_one_stream(self, lag: int) -> None:
        stream = transaction_streams(class_key(42, "default"), 0, 0).stream(Purpose.STORAGE)
        draws = [stream.random_sample() for _ in range(self.DRAWS + lag)]
        self.assert_independent(draws[:-lag], draws[lag:])
