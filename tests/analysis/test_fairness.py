"""Fairness among writers: bounds, known values, and runs of which the answer is clear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis import Flags, Floats, Ints
from endive.analysis.writer_metrics import LosingStreaks, fairness_of_commits, jain_index


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=50))
def test_jains_index_is_between_one_writer_and_all(counts: list[int]) -> None:
    index = jain_index(np.array(counts))
    assert 1 / len(counts) - 1e-9 <= index <= 1 + 1e-9


def test_jains_index_of_known_shares() -> None:
    assert jain_index(np.array([5, 5, 5, 5])) == 1.0
    assert jain_index(np.array([7, 0, 0, 0])) == 0.25
    assert jain_index(np.array([1, 2, 3])) == pytest.approx(36 / 42)
    assert jain_index(np.array([0, 0])) == 1.0


def longest_losing_streak(writers: Ints, ended_ms: Floats, committed: Flags) -> int:
    streaks = LosingStreaks(1)
    streaks.add(np.zeros(len(writers), np.int64), writers, ended_ms, committed)
    return int(streaks.longest[0])


def test_streaks_are_of_one_writer_and_end_with_a_commit() -> None:
    writers = np.array([0, 1, 0, 1, 0, 0, 1])
    ended = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    committed = np.array([False, False, False, True, True, False, False])
    assert longest_losing_streak(writers, ended, committed) == 2
    assert longest_losing_streak(writers[::-1], ended[::-1], committed[::-1]) == 2
    assert longest_losing_streak(writers[:0], ended[:0], committed[:0]) == 0


def test_a_writer_that_submits_nothing_counts_as_one_that_never_commits() -> None:
    fairness = fairness_of_commits(np.array([2, 0, 0, 0]), 2)
    assert (fairness.writers, fairness.jain_index, fairness.share_without_commit) == (4, 0.25, 0.75)
    none = fairness_of_commits(np.array([0, 0]), 0)
    assert (none.jain_index, none.share_without_commit) == (1.0, 1.0)
