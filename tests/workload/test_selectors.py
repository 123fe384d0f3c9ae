from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.arithmetic.costs import written_count
from endive.randomness import Stream, run_key
from endive.workload import (
    PartitionSelector,
    TableSelector,
    UniformPartitionSelector,
    UniformTableSelector,
    ZipfCount,
    ZipfPartitionSelector,
    ZipfTableSelector,
)
from endive.workload.classes import zipf_cumulative

Selector = TableSelector | PartitionSelector
UNIFORM: list[type[UniformTableSelector] | type[UniformPartitionSelector]] = [UniformTableSelector, UniformPartitionSelector]
ZIPF: list[type[ZipfTableSelector] | type[ZipfPartitionSelector]] = [ZipfTableSelector, ZipfPartitionSelector]


def zipf_probabilities(n: int, alpha: float) -> list[float]:
    weights = [1.0 / k**alpha for k in range(1, n + 1)]
    return [weight / sum(weights) for weight in weights]


def single_picks(selector: Selector, total: int, n: int, seed: int = 1) -> list[int]:
    """Count the selections of each item if one item is selected at a time."""
    rng = Stream(run_key(seed))
    counts = [0] * total
    for _ in range(n):
        (item,) = selector.select(1, total, rng)[0]
        counts[item] += 1
    return counts


class TestZipf:
    @pytest.mark.parametrize("selector_class", ZIPF)
    @pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.5])
    def test_item_k_has_a_probability_in_proportion_to_1_over_k_to_the_alpha(
        self, selector_class: type[ZipfTableSelector] | type[ZipfPartitionSelector], alpha: float
    ) -> None:
        n, total = 10_000, 12
        expected = [n * probability for probability in zipf_probabilities(total, alpha)]
        assert stats.chisquare(single_picks(selector_class(alpha), total, n), expected).pvalue > 1e-4

    @pytest.mark.parametrize("selector_class", ZIPF)
    def test_alpha_is_one_and_a_half_by_default(
        self, selector_class: type[ZipfTableSelector] | type[ZipfPartitionSelector]
    ) -> None:
        assert selector_class().alpha == 1.5
        assert selector_class().write_fraction == 1.0

    def test_later_picks_are_weighted_among_the_remaining_items(self) -> None:
        n, p = 10_000, zipf_probabilities(4, 1.2)
        expected = {(i, j): p[i] * p[j] / (1.0 - p[i]) for i, j in permutations(range(4), 2)}
        selector, rng = ZipfTableSelector(1.2, write_fraction=0.5), Stream(run_key(2))
        observed = dict.fromkeys(expected, 0)
        for _ in range(n):
            read, written = selector.select(2, 4, rng)
            (first,), (second,) = written, read - written
            observed[first, second] += 1
        assert stats.chisquare(list(observed.values()), [n * probability for probability in expected.values()]).pvalue > 1e-4

    def test_the_sums_of_the_weights(self) -> None:
        assert zipf_cumulative(3, 1.0) == pytest.approx((0.0, 1.0, 1.5, 1.5 + 1.0 / 3.0))
        assert zipf_cumulative(4, 0.0) == (0.0, 1.0, 2.0, 3.0, 4.0)


class TestUniform:
    @pytest.mark.parametrize("selector_class", UNIFORM)
    def test_every_item_is_equally_likely(
        self, selector_class: type[UniformTableSelector] | type[UniformPartitionSelector]
    ) -> None:
        assert stats.chisquare(single_picks(selector_class(), 10, 10_000)).pvalue > 1e-4

    @pytest.mark.parametrize("selector_class", UNIFORM)
    def test_every_subset_is_equally_likely(
        self, selector_class: type[UniformTableSelector] | type[UniformPartitionSelector]
    ) -> None:
        rng, counts = Stream(run_key(3)), dict[frozenset[int], int]()
        for _ in range(6000):
            read, _ = selector_class().select(2, 4, rng)
            counts[read] = counts.get(read, 0) + 1
        assert len(counts) == 6
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4


SELECTORS: list[Selector] = [
    UniformTableSelector(),
    UniformTableSelector(0.3),
    ZipfTableSelector(2.0),
    ZipfTableSelector(0.8, 0.5),
    UniformPartitionSelector(0.7),
    ZipfPartitionSelector(3.0, 0.1),
]


class TestAnySelector:
    @settings(max_examples=300)
    @given(st.sampled_from(SELECTORS), st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32))
    def test_picks_are_distinct_and_written_items_are_read(self, selector: Selector, n: int, total: int, seed: int) -> None:
        read, written = selector.select(n, total, Stream(run_key(seed)))
        assert len(read) == min(n, total)
        assert read <= set(range(total))
        assert written <= read
        assert len(written) >= 1

    @pytest.mark.parametrize("selector", SELECTORS)
    def test_one_uniform_makes_one_pick(self, selector: Selector) -> None:
        rng = Stream(run_key(4))
        selector.select(5, 8, rng)
        assert rng.draws == 5

    @pytest.mark.parametrize("selector", SELECTORS)
    def test_a_larger_number_keeps_the_earlier_picks(self, selector: Selector) -> None:
        smaller, larger = (selector.select(n, 20, Stream(run_key(6)))[0] for n in (3, 7))
        assert smaller < larger


class TestWriteFraction:
    @pytest.mark.parametrize(
        ("n", "fraction", "expected"),
        [(1, 1.0, 1), (4, 1.0, 4), (4, 0.5, 2), (5, 0.5, 3), (4, 0.1, 1), (1, 0.1, 1), (10, 0.34, 3), (10, 0.35, 4)],
    )
    def test_the_number_of_written_items_is_rounded_and_at_least_one(self, n: int, fraction: float, expected: int) -> None:
        assert written_count(n, fraction) == expected
        read, written = ZipfTableSelector(1.0, fraction).select(n, 20, Stream(run_key(7)))
        assert (len(read), len(written)) == (n, expected)

    @pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, float("nan")])
    @pytest.mark.parametrize("selector_class", ZIPF)
    def test_invalid_fractions_are_rejected(
        self, selector_class: type[ZipfTableSelector] | type[ZipfPartitionSelector], fraction: float
    ) -> None:
        with pytest.raises(ValueError, match="write_fraction"):
            selector_class(1.0, fraction)


@pytest.mark.parametrize("selector", [UniformTableSelector(), ZipfTableSelector()])
def test_tables_are_selected_by_the_names_of_the_interface(selector: TableSelector) -> None:
    read, written = selector.select(n_tables=2, total_tables=5, rng=np.random.RandomState(1))
    assert written <= read <= frozenset(range(5))


@pytest.mark.parametrize("selector", [UniformPartitionSelector(), ZipfPartitionSelector()])
def test_partitions_are_selected_by_the_names_of_the_interface(selector: PartitionSelector) -> None:
    read, written = selector.select(n_partitions=2, total_partitions=5, rng=np.random.RandomState(1))
    assert written <= read <= frozenset(range(5))


@pytest.mark.parametrize("alpha", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [ZipfTableSelector, ZipfPartitionSelector, ZipfCount])
def test_invalid_exponents_are_rejected(make: Callable[[float], object], alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        make(alpha)
