"""Order statistics from counts and several passes are those of the sorted values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.analysis import Floats, Ints
from endive.analysis.order_statistics import CountedValues, KeptValues, Members, Values

CHUNK = 97


def pass_over(store: Values, sets: Ints, values: Floats) -> None:
    for start in range(0, len(values), CHUNK):
        store.add(sets[start : start + CHUNK], values[start : start + CHUNK])
    store.finish_pass()


def ranks_of(store: Values, sets: Ints, values: Floats, asked: list[tuple[Members, int]]) -> tuple[list[tuple[float, int]], int]:
    """Ask for ranks until all are found; return values, lowest equal ranks, and the number of passes."""
    for passes in range(1, 10):
        pass_over(store, sets, values)
        found = [(store.union(members).at(rank), store.union(members).first_equal(rank)) for members, rank in asked]
        if not store.needs_pass():
            return found, passes
    raise AssertionError("the passes do not end")


def asked_of(sets: Ints, number: int) -> list[tuple[Members, int]]:
    unions: list[Members] = [(each,) for each in range(number)] + [tuple(range(number))]
    sizes = np.bincount(sets, minlength=number)
    return [
        (members, rank)
        for members in unions
        for rank in sorted({0, int(sizes[list(members)].sum()) // 2, int(sizes[list(members)].sum()) - 1})
        if 0 <= rank < sizes[list(members)].sum()
    ]


CASES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "spread": lambda rng, n: rng.lognormal(5.0, 2.0, n),
    "one value": lambda rng, n: np.full(n, 61.0),
    "values a few ulps apart": lambda rng, n: 61.0 + rng.integers(0, 40, n) * np.spacing(61.0),
    "zeros and tiny": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.exponential(1e-9, n)),
    "beyond the range": lambda rng, n: rng.choice([-1.0, -1e-300, 1e30, np.inf], n),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("most_collected", [0, 50, 10_000])
def test_counting_and_keeping_agree(case: str, most_collected: int) -> None:
    rng = np.random.default_rng(1)
    values = CASES[case](rng, 1_500)
    sets = rng.integers(0, 4, len(values))
    sets[sets == 2] = 3  # an empty set
    asked = asked_of(sets, 4)
    kept, passes = ranks_of(KeptValues(4), sets, values, asked)
    assert passes == 1
    counted, passes = ranks_of(CountedValues(4, most_collected=most_collected), sets, values, asked)
    assert counted == kept
    assert passes == 2 if most_collected == 10_000 else 2 <= passes <= 8


def test_a_common_value_takes_at_most_two_further_passes() -> None:
    """A latency that all or many transactions share is found without narrowing its bin to one value."""
    sets, one = np.zeros(1_500, np.int64), np.full(1_500, 61.0)
    asked: list[tuple[Members, int]] = [((0,), 700)]
    assert ranks_of(CountedValues(1, most_collected=100), sets, one, asked) == ([(61.0, 0)], 2)
    mixed = np.where(np.arange(1_500) % 2, 61.0, np.linspace(60.99, 61.01, 1_500))
    earlier = int(np.sum(mixed < 61.0))
    asked = [((0,), earlier + 300)]
    assert ranks_of(CountedValues(1, most_collected=100), sets, mixed, asked) == ([(61.0, earlier)], 3)


@settings(max_examples=30)
@given(st.lists(st.floats(0.0, 1e9), min_size=1, max_size=200), st.lists(st.floats(0.0, 1e9), max_size=20), st.integers(0, 60))
def test_any_values_and_limits(numbers: list[float], limits: list[float], most_collected: int) -> None:
    values, bounds = np.array(numbers), np.sort(np.array(limits, np.float64))
    sets = np.zeros(len(values), np.int64)
    asked: list[tuple[Members, int]] = [((0,), rank) for rank in range(len(values))]
    kept, counted = KeptValues(1), CountedValues(1, bounds, most_collected)
    assert ranks_of(counted, sets, values, asked)[0] == ranks_of(kept, sets, values, asked)[0]
    assert counted.union((0,)).up_to(bounds).tolist() == kept.union((0,)).up_to(bounds).tolist()
    assert len(counted.union((0,))) == len(kept.union((0,))) == len(values)
