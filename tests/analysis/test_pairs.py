"""The same transactions in A and in B."""

from __future__ import annotations

import numpy as np

from endive.analysis.cohort import Transactions
from endive.analysis.pairs import Pairs, Submitted, pair_class, pair_run
from endive.analysis.windows import Window

WINDOW = Window(100.0, 0.0, 100.0, "given")


def submitted(moments: list[float], waits: list[float], outcomes: str) -> Submitted:
    """Outcomes: c committed, a aborted, u unfinished."""
    entry = np.array(moments) + 1.0
    kinds = np.array(list(outcomes))
    return Submitted(np.array(moments), Transactions(entry, entry + np.array(waits), kinds == "c", kinds == "a"))


A = submitted([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [5.0, 5.0, 5.0, 5.0, 5.0, 5.0], "ccccau")


def test_what_became_of_each_on_both_sides() -> None:
    b = submitted([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [4.0, 6.0, 5.0, 5.0, 5.0, 5.0], "cccacc")
    found = pair_class(A, b, WINDOW)
    assert found == Pairs(pairs=6, both=3, faster_b=1, slower_b=1, only_a=1, only_b=1, neither=0, unfinished=1)
    assert found is not None
    assert (found + found).both == 6


def test_rows_may_come_in_any_order() -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    shuffled = Submitted.in_order(order, A.submit_ms[order], A.transactions.take(order))
    assert pair_class(shuffled, A, WINDOW) == pair_class(A, A, WINDOW)


def test_what_is_not_submitted_at_the_same_moments_does_not_pair() -> None:
    closed = submitted([1.0, 2.5, 3.0], [1.0, 1.0, 1.0], "ccc")
    assert pair_class(A, closed, WINDOW) is None
    assert pair_run({"a": A, "x": A}, {"a": closed, "y": A}, WINDOW) == {"a": None}


def test_pairs_entered_in_the_window_on_both_sides() -> None:
    found = pair_class(A, A, Window(100.0, 4.0, 6.0, "given"))
    assert found is not None
    assert (found.pairs, found.both, found.neither) == (3, 2, 1)
