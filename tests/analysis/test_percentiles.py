"""Percentiles of times to commit, some of which are never and some not over yet."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis import Flags, Floats
from endive.analysis.order_statistics import SortedValues
from endive.analysis.percentiles import NOTHING, Bounded, CommitTimes, fewest, plain_percentiles


def in_order(values: Sequence[float] | Floats) -> SortedValues:
    return SortedValues(np.sort(np.asarray(values)))


def cohort(committed: list[float], aborted: int = 0, unfinished: list[float] | None = None) -> CommitTimes:
    return CommitTimes(in_order(committed), np.sort(np.array(unfinished or [])), aborted)


def test_the_example_of_the_page_on_statistics() -> None:
    [p50] = cohort([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], aborted=3, unfinished=[2.5]).percentiles([0.5])
    assert p50 == Bounded(5.0, 4.0, 5.0)


def test_aborted_ones_never_commit() -> None:
    many = [float(k) for k in range(1, 701)]
    p50, p95, p99 = cohort(many, aborted=300).percentiles([0.5, 0.95, 0.99])
    assert p50.value == 500.0
    assert p95.at_least == math.inf
    assert p99 == Bounded(None, math.inf, math.inf)


def test_giving_up_early_is_not_quicker() -> None:
    """Survivorship: A waits until all commit, B gives up on the slow half."""
    a = cohort([float(k) for k in range(1, 1001)]).percentiles([0.5, 0.95])
    b = cohort([float(k) for k in range(1, 501)], aborted=500).percentiles([0.5, 0.95])
    assert (a[0].value, b[0].value) == (500.0, 500.0)
    assert a[1].value == 950.0
    assert b[1].at_least == math.inf


def test_many_unfinished_make_a_lower_bound() -> None:
    done = [float(k) for k in range(1, 401)]
    [p50] = cohort(done, unfinished=[200.5] * 600).percentiles([0.5])
    assert p50.value is None
    assert p50.at_least == 200.5
    assert p50.at_most == math.inf


def test_few_unfinished_leave_a_number_between_the_bounds() -> None:
    done = [float(k) for k in range(1, 999)]
    [p99] = cohort(done, unfinished=[0.5, 500.0]).percentiles([0.99])
    assert p99.value is not None
    assert p99.at_least is not None
    assert p99.at_most is not None
    assert p99.at_least <= p99.value <= p99.at_most < math.inf


@pytest.mark.parametrize(("share", "least"), [(0.5, 10), (0.95, 100), (0.99, 500)])
def test_a_percentile_of_few_is_only_a_bound(share: float, least: int) -> None:
    assert fewest(share) == least
    values = [float(k) for k in range(1, least + 1)]
    assert cohort(values).percentiles([share])[0].value is not None
    few = cohort(values[:-1]).percentiles([share])[0]
    assert few.value is None
    assert few == plain_percentiles(in_order(values[:-1]), [share])[0]


def test_the_bound_of_a_dozen() -> None:
    """P(Binomial(12, 0.99) >= 11) = 99.4 %, and >= 12 only 88.6 %: the p99 is at least the eleventh value."""
    [found] = plain_percentiles(in_order([float(k) for k in range(1, 13)]), [0.99])
    assert found == Bounded(None, 11.0, math.inf)
    assert plain_percentiles(in_order([1.0]), [0.5]) == [NOTHING]
    assert plain_percentiles(in_order([1.0]), [0.95]) == [Bounded(None, 1.0, math.inf)]  # one value exceeds it in 5 % of cases


def test_the_bound_of_a_median() -> None:
    """P(Binomial(9, 1/2) >= 2) = 98 %, and >= 3 only 91 %: the median is at least the second value."""
    [found] = plain_percentiles(in_order([float(k) for k in range(1, 10)]), [0.5])
    assert found == Bounded(None, 2.0, math.inf)


def test_nothing_has_no_percentiles() -> None:
    assert cohort([]).percentiles([0.5]) == [NOTHING]


def test_the_bound_holds_as_often_as_it_says() -> None:
    draws = np.random.default_rng(1).exponential(1.0, (500, 60))
    truth = -math.log(0.01)
    found = [plain_percentiles(in_order(row), [0.99])[0].at_least for row in draws]
    assert np.mean([each is not None and each <= truth for each in found]) >= 0.95


@given(st.lists(st.floats(0.0, 1e6), min_size=10, max_size=60), st.integers(0, 40))
def test_without_unfinished_ones_it_is_the_order_statistic(values: list[float], aborted: int) -> None:
    [p50] = cohort(values, aborted).percentiles([0.5])
    place = math.ceil((len(values) + aborted) / 2) - 1
    expected = sorted(values)[place] if place < len(values) else None
    assert p50.value == expected


@given(st.lists(st.floats(0.0, 1e6), min_size=10, max_size=60))
def test_plain_percentiles_are_those_of_numpy(values: list[float]) -> None:
    [p50] = plain_percentiles(in_order(values), [0.5])
    assert p50.value == pytest.approx(float(np.quantile(values, 0.5)))


def sorted_survival(waited: Floats, committed: Flags, aborted: Flags, share: float) -> float | None:
    """Multiply the Kaplan-Meier estimate commit by commit."""
    ends = np.where(aborted, np.inf, waited)
    survival = 1.0
    for rank, place in enumerate(np.lexsort((~committed, ends))):
        if committed[place]:
            survival *= 1.0 - 1.0 / (len(ends) - rank)
            if survival <= 1.0 - share + 1e-12:
                return float(ends[place])
    return None


@given(st.lists(st.integers(0, 30), min_size=30, max_size=80), st.integers(0, 10), st.lists(st.integers(0, 30), max_size=7))
def test_the_estimate_is_that_of_kaplan_and_meier(done: list[int], aborted: int, late: list[int]) -> None:
    [p50] = cohort([float(each) for each in done], aborted, [float(each) for each in late]).percentiles([0.5])
    waited = np.array([*done, *[1.0] * aborted, *late], np.float64)
    kinds = np.repeat([0, 1, 2], [len(done), aborted, len(late)])
    committed, gone = kinds == 0, kinds == 1
    assert p50.value == sorted_survival(waited, committed, gone, 0.5)
    assert p50.at_least == np.sort(np.where(gone, np.inf, waited))[(len(waited) + 1) // 2 - 1]
    assert p50.at_most == np.sort(np.where(committed, waited, np.inf))[(len(waited) + 1) // 2 - 1]
