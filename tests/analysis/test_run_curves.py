"""A run through time: every transaction is counted once, in the part it belongs to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from endive.analysis import Ints
from endive.analysis.cohort import Transactions
from endive.analysis.estimates import share_estimate, shares, success_estimate, successes
from endive.analysis.order_statistics import SortedValues
from endive.analysis.percentiles import CommitTimes
from endive.analysis.run_curves import MEDIAN, OVER_TIME, OverTime
from endive.analysis.warmup import TIME_BINS
from endive.simulation.columns import STATE_COLUMNS

DURATION_MS = 6_000.0
WIDTH_MS = DURATION_MS / TIME_BINS


def transactions(count: int, seed: int) -> tuple[Transactions, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rng = np.random.default_rng(seed)
    entry = np.where(rng.random(count) < 0.05, -1.0, rng.uniform(0.0, DURATION_MS, count))
    end = np.where(entry < 0.0, DURATION_MS, entry + rng.exponential(200.0, count))
    unfinished = (end > DURATION_MS) | (entry < 0.0)
    committed = ~unfinished & (rng.random(count) < 0.7)
    rows = Transactions(entry, np.minimum(end, DURATION_MS), committed, ~unfinished & ~committed)
    return rows, rng.integers(0, 4, count)


def over_time(rows: Transactions, retries: Ints, groups: Ints | None = None) -> OverTime:
    found = OverTime(1 if groups is None else int(groups.max()) + 1, DURATION_MS)
    own = np.zeros(len(retries), np.int64) if groups is None else groups
    for chunk in np.array_split(np.arange(len(retries)), 7):
        state = {name: np.full(len(chunk), -1) for name in STATE_COLUMNS}
        found.add(own[chunk], rows.take(chunk), {"n_retries": retries[chunk], **state})
    return found


def test_every_transaction_is_counted_in_its_part() -> None:
    rows, retries = transactions(2_000, 1)
    found = over_time(rows, retries).columns([0], lambda *_: math.nan)
    for part in range(TIME_BINS):
        inside = (rows.entry_ms >= part * WIDTH_MS) & (rows.entry_ms < (part + 1) * WIDTH_MS)
        assert found["entered_over_time"][part] == inside.sum()
        assert found["committed_over_time"][part] == (inside & rows.committed).sum()
        assert found["unfinished_over_time"][part] == (inside & ~rows.committed & ~rows.aborted).sum()
        assert found["retries_over_time"][part] == retries[inside].sum()
        ended = (rows.end_ms >= part * WIDTH_MS) & ((rows.end_ms < (part + 1) * WIDTH_MS) | (part == TIME_BINS - 1))
        assert found["commits_over_time"][part] == (ended & rows.committed).sum()
    assert found["entered_over_time"].sum() == rows.entered.sum()


def test_classes_add_up() -> None:
    rows, retries = transactions(1_500, 2)
    one = over_time(rows, retries).columns([0], lambda *_: 1.0)
    together = over_time(rows, retries, np.arange(1_500) % 2).columns([0, 1], lambda *_: 1.0)
    assert set(one) == set(OVER_TIME)
    for name in OVER_TIME:
        np.testing.assert_allclose(together[name], one[name], rtol=1e-9)


def median(committed: list[float], in_flight: list[float], aborted: int) -> float:
    return CommitTimes(SortedValues(np.array(committed)), np.array(in_flight), aborted).median()


def test_the_median_counts_aborts_as_never_and_is_silent_where_it_is_not_known() -> None:
    times = [float(k) for k in range(11)]
    assert median(times, [], 0) == 5.0
    assert math.isnan(median(times[:5], [], 6))  # it does not commit
    assert math.isnan(median(times[:3] + times[4:], [3.0], 0))  # one in flight has waited for less than the median
    assert median(times[:7] + times[8:], [7.0], 0) == 5.0


def test_too_few_have_no_median() -> None:
    rows, retries = transactions(300, 3)
    found = over_time(rows, retries).columns([0], lambda _, entered: float(entered))
    entered = found["entered_over_time"]
    np.testing.assert_array_equal(found[f"{MEDIAN}_over_time"], np.where(entered >= 10, entered, np.nan))


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_many_shares_at_once_are_each_as_one_alone(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    entered = rng.integers(0, 30, (seeds, 40)).astype(np.float64)
    committed = np.floor(entered * rng.random((seeds, 40)) * rng.integers(0, 2, 40))
    unfinished = np.floor((entered - committed) * rng.random((seeds, 40)))
    share, low, high = shares(committed, entered)
    success, least, most = successes(committed, unfinished, entered)
    for place in range(40):
        if not entered[:, place].sum():
            assert np.isnan(share[place])
            continue
        alone = share_estimate(committed[:, place].tolist(), entered[:, place].astype(int).tolist())
        assert (share[place], low[place], high[place]) == pytest.approx((alone.mean, alone.low, alone.high), abs=1e-12)
        columns = [column[:, place].astype(int).tolist() for column in (committed, unfinished, entered)]
        both = success_estimate(*columns)
        assert (success[place], least[place], most[place]) == pytest.approx((both.mean, both.low, both.high), abs=1e-12)
