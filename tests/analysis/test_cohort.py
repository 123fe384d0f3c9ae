"""Cohorts, success, the number of committing transactions, and pairs, on the example of the page on statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis.cohort import (
    Pairs,
    Submitted,
    Transactions,
    bound_retries,
    committing,
    expected_retries,
    pair_class,
    pair_run,
    success_range,
    time_places,
)
from endive.analysis.percentiles import Bounded
from endive.analysis.warmup import Window

WINDOW = Window(100.0, 20.0, 100.0, "given")


def example() -> Transactions:
    """Made for each test, so that a change of the code is seen wherever it is made."""
    return Transactions.of_rows(
        #                        a     b     c     d     e
        t_commit_start=np.array([15.0, 30.0, 50.0, 90.0, -1.0]),
        t_submit=np.array([1.0, 10.0, 20.0, 30.0, 60.0]),
        total_latency=np.array([20.0, 22.0, 38.0, 70.0, 40.0]),
        t_commit=np.array([21.0, 32.0, -1.0, -1.0, -1.0]),
        committed=np.array([True, True, False, False, False]),
        aborted=np.array([False, False, True, False, False]),
    )


def test_the_cohort_is_what_entered_in_the_window() -> None:
    assert example().cohort(WINDOW).tolist() == [False, True, True, True, False]
    assert example().committed_in(WINDOW).sum() == 2
    assert example().end_ms.tolist() == [21.0, 32.0, 58.0, 100.0, 100.0]


def test_success_is_a_range() -> None:
    inside, rows = example().cohort(WINDOW), example()
    assert [int((inside & flags).sum()) for flags in (inside, rows.committed, rows.aborted)] == [3, 1, 1]
    assert success_range(committed=1, unfinished=1, entered=3) == pytest.approx((1 / 3, 0.5, 2 / 3))


def test_one_committed_and_nine_in_flight_are_not_all() -> None:
    assert success_range(committed=1, unfinished=9, entered=10) == (0.1, 0.55, 1.0)


def test_of_nothing_there_is_no_success() -> None:
    assert not example().cohort(Window(100.0, 95.0, 100.0, "given")).any()
    assert success_range(committed=0, unfinished=0, entered=0) == (None, None, None)


def test_the_number_committing_is_an_average_over_time() -> None:
    assert committing(example(), np.array([0.0, 20.0, 40.0, 60.0, 80.0, 100.0])).tolist() == pytest.approx(
        [5 / 20, (1 + 2) / 20, 8 / 20, 0.0, 10 / 20]
    )


def test_moments_on_edges_are_counted_once() -> None:
    edges = np.array([0.0, 20.0, 60.0, 100.0])
    assert time_places(np.array([-1.0, 0.0, 19.0, 20.0, 60.0, 99.0, 100.0, 101.0]), edges).tolist() == [0, 1, 1, 2, 3, 3, 3, 4]


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 50.0)), max_size=30))
def test_littles_law_is_an_identity(visits: list[tuple[float, float]]) -> None:
    """The mean number times the length of the run is the sum of the times spent."""
    entry = np.array([enter for enter, _ in visits])
    end = np.minimum(entry + np.array([stay for _, stay in visits]), 100.0)
    rows = Transactions(entry, end, np.ones(len(entry), bool), np.zeros(len(entry), bool))
    parts = committing(rows, np.linspace(0.0, 100.0, 11))
    assert parts.sum() * 10.0 == pytest.approx(float((end - entry).sum()), abs=1e-6)


def test_a_reader_enters_when_it_is_done_and_a_writer_at_the_very_start_where_it_began() -> None:
    rows = Transactions.of_rows(
        t_commit_start=np.array([-1.0, 0.0]),
        t_submit=np.array([3.0, 0.0]),
        total_latency=np.array([4.0, 6.0]),
        t_commit=np.array([7.0, 6.0]),
        committed=np.array([True, True]),
        aborted=np.array([False, False]),
    )
    assert rows.entry_ms.tolist() == [7.0, 0.0]


def retries_of(finished: list[int], in_flight: list[int]) -> float:
    flags = [True] * len(finished) + [False] * len(in_flight)
    return expected_retries(np.array(finished + in_flight, np.int64), np.array(flags, np.bool_))


def test_retries_of_finished_transactions_are_summed() -> None:
    assert retries_of([0, 0, 1, 3], []) == 4.0


def test_retries_that_the_unfinished_may_still_need_are_estimated() -> None:
    """Of five, two need none; of the three that need one or more, one needs no second; and who needs a third gets one."""
    assert retries_of([0, 0, 1, 3], [2]) == pytest.approx(5 * (3 / 5 + 3 / 5 * 2 / 3 + 3 / 5 * 2 / 3))


def test_retries_of_nothing_but_unfinished_transactions_are_the_most_so_far() -> None:
    assert retries_of([], [0, 2]) == 4.0


def bounded_retries(finished: list[int], in_flight: list[int]) -> Bounded:
    so_far, entered = sum(finished) + sum(in_flight), len(finished) + len(in_flight)
    return bound_retries(retries_of(finished, in_flight), so_far, len(in_flight), entered)


def test_three_in_flight_say_nothing_but_the_retries_they_have() -> None:
    """0, 0 and 5 retries so far: at least 5/3, and no estimate (5.0 by Kaplan-Meier) is better than that."""
    assert bounded_retries([], [0, 0, 5]) == Bounded(None, 5 / 3, math.inf)


@pytest.mark.parametrize("in_flight", [[0, 0, 0], [5, 5, 5], [2]])
def test_nothing_but_transactions_in_flight_has_no_value(in_flight: list[int]) -> None:
    """Equal retries so far leave nothing to estimate, but none of them has ended."""
    assert bounded_retries([], in_flight) == Bounded(None, sum(in_flight) / len(in_flight), math.inf)


def test_more_in_flight_than_ended_have_no_value() -> None:
    assert bounded_retries([0] * 4, [0] * 5) == Bounded(None, 0.0, math.inf)
    assert bounded_retries([0] * 5, [0] * 5) == Bounded(0.0, 0.0, math.inf)


def test_few_in_flight_leave_a_number_with_bounds() -> None:
    found = bounded_retries([1] * 99, [1])
    assert (found.value, found.at_least, found.at_most) == (1.0, 1.0, math.inf)
    assert bounded_retries([0, 0, 1, 3], []) == Bounded(1.0, 1.0, 1.0)
    assert bounded_retries([], []) == Bounded(None, None, None)


@given(st.lists(st.integers(0, 20), min_size=1), st.lists(st.integers(0, 20)))
def test_expected_retries_are_not_below_those_so_far(finished: list[int], in_flight: list[int]) -> None:
    assert retries_of(finished, in_flight) >= (sum(finished) + sum(in_flight)) * (1 - 1e-12)


def test_retries_of_a_cut_run_are_those_of_a_long_one() -> None:
    """Clients that retry 9 times on average: what is in flight when a run is cut needs more, and has fewer so far."""
    rng = np.random.default_rng(1)
    so_far, estimated = [], []
    for _ in range(200):
        needed = rng.geometric(0.1, size=(12, 40)) - 1
        ends = np.cumsum(needed + 1, axis=1)
        cut = 200
        begun = (ends - needed - 1) < cut
        finished = ends <= cut
        seen = np.where(finished, needed, cut - (ends - needed - 1) - 1)[begun]
        so_far.append(seen.mean())
        estimated.append(expected_retries(seen.astype(np.int64), finished[begun]) / len(seen))
    assert np.mean(so_far) < 8.8
    assert np.mean(estimated) == pytest.approx(9.0, abs=0.15)


WHOLE_RUN = Window(100.0, 0.0, 100.0, "given")


def submitted(moments: list[float], waits: list[float], outcomes: str) -> Submitted:
    """Outcomes: c committed, a aborted, u unfinished."""
    entry = np.array(moments) + 1.0
    kinds = np.array(list(outcomes))
    return Submitted(np.array(moments), Transactions(entry, entry + np.array(waits), kinds == "c", kinds == "a"))


A = submitted([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [5.0, 5.0, 5.0, 5.0, 5.0, 5.0], "ccccau")


def test_what_became_of_each_on_both_sides() -> None:
    b = submitted([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [4.0, 6.0, 5.0, 5.0, 5.0, 5.0], "cccacc")
    found = pair_class(A, b, WHOLE_RUN)
    assert found == Pairs(pairs=6, both=3, faster_b=1, slower_b=1, only_a=1, only_b=1, neither=0, unfinished=1)
    assert found is not None
    assert (found + found).both == 6


def test_rows_may_come_in_any_order() -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    shuffled = Submitted.in_order(order, A.submit_ms[order], A.transactions.take(order))
    assert pair_class(shuffled, A, WHOLE_RUN) == pair_class(A, A, WHOLE_RUN)


def test_what_is_not_submitted_at_the_same_moments_does_not_pair() -> None:
    closed = submitted([1.0, 2.5, 3.0], [1.0, 1.0, 1.0], "ccc")
    assert pair_class(A, closed, WHOLE_RUN) is None
    assert pair_run({"a": A, "x": A}, {"a": closed, "y": A}, WHOLE_RUN) == {"a": None}


def test_pairs_entered_in_the_window_on_both_sides() -> None:
    found = pair_class(A, A, Window(100.0, 4.0, 6.5, "given"))
    assert found is not None
    assert (found.pairs, found.both, found.neither) == (3, 2, 1)
