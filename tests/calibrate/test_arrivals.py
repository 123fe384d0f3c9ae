"""Intervals of jobs are found in the times of their commits, and none where commits come at random."""

from __future__ import annotations

import numpy as np
import pytest

from endive.calibrate.arrival_fit import Process, recognize_arrivals

END_MS = 3_600_000.0


def recognised(times_ms: list[float] | np.ndarray, end_ms: float = END_MS) -> Process:
    return recognize_arrivals(np.sort(np.asarray(times_ms, np.float64)), 0.0, 0.0, end_ms)


def interval_of(process: Process) -> float | None:
    found: float | None = process.keys.get("periodic", {}).get("interval_ms")
    return found


def test_a_commit_that_was_retried_hides_no_interval() -> None:
    """Eight commits of a job every 8 s that failed from then on; one took 2.1 s longer, about a quarter of the interval."""
    late = [0.0, 80.0, 62.0, 112.0, 178.0, 103.0, 2107.0, 23.0]
    found = recognised([1_615.0 + 8_000.0 * slot + extra for slot, extra in enumerate(late)], end_ms=200_000.0)
    assert interval_of(found) == 8_000.0
    assert found.missed == pytest.approx(16 / 24, abs=0.05)


@pytest.mark.parametrize("interval_s", [2.0, 7.0, 8.0, 15.0, 45.0, 60.0, 90.0, 240.0, 300.0])
@pytest.mark.parametrize("failing", [0.0, 0.3, 0.6])
def test_the_interval_of_a_job_that_fails_and_is_late(interval_s: float, failing: float) -> None:
    """A job commits up to a tenth of its interval late, every fifth time up to half of it, and fails by chance."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        interval = 1_000.0 * interval_s
        slots = np.arange(60)[rng.random(60) >= failing]
        late = interval * np.where(rng.random(len(slots)) < 0.2, rng.uniform(0.1, 0.5, len(slots)), rng.uniform(0, 0.1, len(slots)))
        process = recognised(0.3 * interval + slots * interval + late, 60 * interval)
        found.append(interval_of(process) == pytest.approx(interval, rel=0.002))
    assert sum(found) >= 9


def test_commits_at_random_have_no_interval() -> None:
    rng = np.random.default_rng(3)
    found = [interval_of(recognised(np.cumsum(rng.exponential(END_MS / count, count)))) for count in (8, 20, 60, 200) * 25]
    assert sum(each is not None for each in found) <= 2


@pytest.mark.parametrize("variation", [0.5, 0.3])
def test_commits_in_gaps_that_are_alike_have_no_interval(variation: float) -> None:
    """As those of a writer that waits for its commit and for some time more: slots do not hold, each gap begins anew."""
    rng = np.random.default_rng(4)
    shape = 1.0 / variation**2
    gaps = [rng.gamma(shape, END_MS / count / shape, count) for count in (8, 20, 60, 200) * 10]
    assert [interval_of(recognised(np.cumsum(each))) for each in gaps] == [None] * 40
