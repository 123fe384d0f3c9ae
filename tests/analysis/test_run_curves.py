"""A run through time: every transaction is counted once, in the part it belongs to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from endive.analysis.cohort import Transactions
from endive.analysis.estimates import share_estimate, shares, success_estimate, successes
from endive.analysis.run_curves import COUNTED, MEDIAN, OVER_TIME, medians, over_time_columns, through_time
from endive.analysis.warmup import TIME_BINS

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


def test_every_transaction_is_counted_in_its_part() -> None:
    rows, retries = transactions(2_000, 1)
    found = through_time(rows, DURATION_MS)
    found.add_retries(retries)
    for part in range(TIME_BINS):
        inside = (rows.entry_ms >= part * WIDTH_MS) & (rows.entry_ms < (part + 1) * WIDTH_MS)
        assert found.counts["entered"][part] == inside.sum()
        assert found.counts["committed"][part] == (inside & rows.committed).sum()
        assert found.counts["unfinished"][part] == (inside & ~rows.committed & ~rows.aborted).sum()
        assert found.counts["retries"][part] == retries[inside].sum()
        ended = (rows.end_ms >= part * WIDTH_MS) & ((rows.end_ms < (part + 1) * WIDTH_MS) | (part == TIME_BINS - 1))
        assert found.counts["commits"][part] == (ended & rows.committed).sum()
    assert found.counts["entered"].sum() == rows.entered.sum()


def test_classes_add_up() -> None:
    rows, retries = transactions(1_500, 2)
    halves = [np.arange(0, 1_500, 2), np.arange(1, 1_500, 2)]
    whole = through_time(rows, DURATION_MS)
    whole.add_retries(retries)
    parts = []
    for places in halves:
        part = through_time(rows.take(places), DURATION_MS)
        part.add_retries(retries[places])
        parts.append(part)
    one, together = over_time_columns([whole]), over_time_columns(parts)
    assert set(one) == set(OVER_TIME)
    for name in OVER_TIME:
        np.testing.assert_allclose(together[name], one[name], rtol=1e-9)


def test_the_median_counts_aborts_as_never_and_is_silent_where_it_is_not_known() -> None:
    part = np.repeat([0, 1, 2, 3], [11, 11, 11, 5])
    waits = np.concatenate([np.arange(11.0), np.full(6, np.inf), np.arange(5.0), np.arange(11.0), np.arange(5.0)])
    finished = np.ones(len(part), np.bool_)
    finished[22 + 3] = False  # of the third part one is unfinished, seen for less than the median
    found = medians(part, waits, finished)
    assert found[0] == 5.0
    assert all(math.isnan(found[place]) for place in (1, 2, 3, 4))  # never, not known yet, too few, nobody


def test_nobody() -> None:
    found = over_time_columns([])
    assert all(not found[f"{name}_over_time"].any() for name in COUNTED)
    assert np.isnan(found[f"{MEDIAN}_over_time"]).all()


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
