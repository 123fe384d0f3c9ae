"""State of tables that still grows in a window is measured, not averaged away."""

from __future__ import annotations

import numpy as np
import pytest

from endive.analysis import Floats
from endive.analysis.table_growth import DAY_MS, GROWTH, TableStates, day_of_limit
from endive.analysis.warmup import SERIES_BINS, LoadPattern, find_window
from endive.simulation.columns import STATE_COLUMNS

YEAR_MS = 365 * DAY_MS


def states(times_ms: Floats, values: Floats, end_ms: float) -> TableStates:
    found = TableStates(1, 0.0, end_ms)
    found.add(np.zeros(len(times_ms), np.int64), times_ms, dict.fromkeys(STATE_COLUMNS, values), np.ones(len(times_ms), np.bool_))
    return found


def growth_per_ms(times_ms: Floats, values: Floats, end_ms: float) -> float:
    growth = states(times_ms, values, end_ms).measure([0])[GROWTH["table_manifests"]]
    assert growth is not None
    return growth / DAY_MS


def test_linear_growth_is_found_with_its_slope() -> None:
    times = np.linspace(0.0, 10 * DAY_MS, 1000)
    assert growth_per_ms(times, 5.0 + 32e6 * times / DAY_MS, 10 * DAY_MS) * DAY_MS == pytest.approx(32e6, rel=0.01)


@pytest.mark.parametrize("period", [0.02, 0.3])
def test_a_saw_tooth_does_not_grow(period: float) -> None:
    times = np.linspace(0.0, 1.0, 5000)
    assert growth_per_ms(times, 1.0 + 98.0 * (times / period % 1.0), 1.0) == 0.0


def test_noise_and_slight_drift_do_not_count() -> None:
    random = np.random.default_rng(1)
    times = np.linspace(0.0, 1.0, 5000)
    assert growth_per_ms(times, random.normal(100.0, 30.0, 5000), 1.0) == 0.0
    assert growth_per_ms(times, 100.0 + 3.0 * times, 1.0) == 0.0
    assert growth_per_ms(times, 100.0 - 50.0 * times, 1.0) == 0.0


def test_commits_without_a_state_do_not_count() -> None:
    found = states(np.array([1.0, 2.0, 3.0]), np.array([-1.0, 10.0, 20.0]), 4.0).measure([0])
    assert (found["table_manifests"], found["table_manifests_per_day"]) == (15.0, 0.0)
    assert states(np.array([1.0]), np.array([-1.0]), 4.0).measure([0])["table_manifests"] is None


def test_a_year_of_growing_metadata_is_measured_whole_and_has_no_steady_state() -> None:
    """Commits become slower with metadata.json; half of the year was cut, and a run of 46 million seconds recommended."""
    committing = np.linspace(0.0, 1.0, SERIES_BINS) ** 0.4
    cut = find_window(YEAR_MS, 0.0, LoadPattern(600_000.0), committing)
    assert not cut.settled
    assert cut.needed_ms is not None
    assert cut.start_ms > 0.4 * YEAR_MS
    found = find_window(YEAR_MS, 0.0, LoadPattern(600_000.0), committing, lambda: True)
    assert (found.start_ms, found.end_ms, found.needed_ms, found.chosen_by) == (600_000.0, YEAR_MS, None, "growth")
    assert found.is_drifting


def test_a_run_that_settles_is_cut_as_ever_though_its_tables_grow() -> None:
    steady = np.ones(SERIES_BINS)
    assert find_window(YEAR_MS, 0.0, LoadPattern(0.0), steady, lambda: True) == find_window(YEAR_MS, 0.0, LoadPattern(0.0), steady)


def test_the_day_of_a_limit_follows_from_the_growth() -> None:
    """1 MB in the middle of a window from day 0 to day 2, and 0.5 MB a day: 20 MB after 38 more days."""
    row = {"table_metadata_bytes": 1e6, "table_metadata_bytes_per_day": 0.5e6, "warmup_ms": 0.0, "window_ms": 2 * DAY_MS}
    assert day_of_limit(row, 20e6) == pytest.approx(39.0)
    assert day_of_limit({**row, "table_metadata_bytes_per_day": 0.0}, 20e6) == np.inf
    assert day_of_limit({**row, "table_metadata_bytes": None}, 20e6) == np.inf
