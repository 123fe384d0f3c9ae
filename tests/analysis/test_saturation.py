"""Saturation of curves that were made so that it is known, and of backlogs that grow or only wander."""

from __future__ import annotations

import numpy as np
import pytest

from endive.analysis.estimates import Estimate, share_estimate
from endive.analysis.saturation import Backlog, LoadPoint, Saturation, backlog_grows, saturation


def near(value: float, width: float = 0.001) -> Estimate:
    return Estimate(value, value - width, min(1.0, value + width), 5)


def curve(*points: tuple[float, float, float], width: float = 0.001) -> list[LoadPoint]:
    return [LoadPoint(load, near(success, width), near(ratio, width), entered=1000) for load, success, ratio in points]


def test_between_two_loads_it_is_interpolated_over_their_logarithms() -> None:
    found = saturation(curve((1, 1.0, 1.0), (2, 1.0, 1.0), (8, 1.0, 0.9)))
    assert found.load == pytest.approx(4.0)
    assert (found.bound, found.reason) == ("crossed", "throughput")
    assert found.low is not None
    assert found.high is not None
    assert found.low < 4.0 < found.high


def test_the_measure_that_fails_first_counts() -> None:
    found = saturation(curve((1, 1.0, 1.0), (16, 0.96, 0.9)))
    assert found.load == pytest.approx(2.0)
    assert found.reason == "success"


def test_the_order_of_points_is_of_no_account() -> None:
    points = curve((4, 1.0, 0.9), (1, 1.0, 1.0), (2, 1.0, 1.0))
    assert saturation(points) == saturation(points[::-1])


def test_at_the_threshold_nothing_is_saturated() -> None:
    assert saturation(curve((1, 0.99, 0.95), (2, 0.99, 0.95))).bound == "above"


@pytest.mark.parametrize(
    ("points", "load", "bound"),
    [
        (((1, 1.0, 1.0), (2, 1.0, 1.0)), 2, "above"),
        (((1, 0.5, 1.0), (2, 0.4, 1.0)), 1, "at_or_below"),
        (((1, 1.0, 1.0),), 1, "above"),
    ],
)
def test_loads_outside_of_the_curve_are_reported(points: tuple[tuple[float, float, float], ...], load: float, bound: str) -> None:
    found = saturation(curve(*points))
    assert (found.load, found.bound) == (load, bound)


def test_what_is_in_doubt_is_not_saturated() -> None:
    assert saturation(curve((1, 1.0, 0.94), (2, 1.0, 0.94), width=0.02)).bound == "above"
    few = LoadPoint(1.0, near(1.0), share_estimate([0], [3]), entered=3)
    assert few.reason is None  # three that are still committing say nothing of throughput
    assert LoadPoint(1.0, near(1.0), share_estimate([28], [30]), entered=30).reason is None


def test_failures_saturate_however_few_entered() -> None:
    """Three that are committing say nothing of throughput; fifteen of which ten failed say something of success."""
    few = [LoadPoint(load, share_estimate([k], [15]), None, entered=15) for load, k in ((1.0, 15), (2.0, 5))]
    found = saturation(few)
    assert (found.bound, found.reason) == ("crossed", "success")


def test_reasons_of_a_point() -> None:
    assert LoadPoint(1.0, near(0.9), near(1.0), entered=100).reason == "success"
    assert LoadPoint(1.0, near(1.0), near(0.9), entered=100).reason == "throughput"
    assert LoadPoint(1.0, near(1.0), near(1.0), grows=True, entered=100).reason == "backlog"
    assert LoadPoint(1.0, None, None).reason is None


def test_a_growing_backlog_saturates_where_nothing_fails() -> None:
    points = [LoadPoint(1.0, near(1.0), near(1.0)), LoadPoint(4.0, near(1.0), near(0.99), grows=True, entered=500)]
    assert saturation(points) == Saturation(2.0, 1.0, 4.0, "crossed", "backlog")
    assert saturation(points[1:]) == Saturation(4.0, None, 4.0, "at_or_below", "backlog")


def rising(parts: int) -> Backlog:
    return Backlog(tuple(10.0 * part for part in range(parts)), (10.0,) * parts)


def test_three_parts_are_the_fewest_that_show_growth() -> None:
    assert backlog_grows([rising(3)] * 3)
    assert not backlog_grows([rising(2)] * 3)


def test_one_run_grows_if_chance_would_order_its_parts_so_in_one_of_a_hundred_cases() -> None:
    """Five parts are in order in one of 120 cases, four in one of 24."""
    assert backlog_grows([rising(5)])
    assert not backlog_grows([rising(4)])


def test_a_curve_has_points() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        saturation([])


def backlog(committing: list[float], entered: float = 1000.0) -> Backlog:
    return Backlog(tuple(committing), (entered / len(committing),) * len(committing))


GROWING = [5.0 + 4.0 * part for part in range(12)]


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_a_backlog_that_grows_is_found_from_one_seed_or_several(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    runs = [backlog((np.array(GROWING) + generator.normal(0.0, 1.0, 12)).tolist()) for _ in range(seeds)]
    assert backlog_grows(runs)


def test_a_backlog_that_wanders_or_is_small_does_not_grow() -> None:
    assert not backlog_grows([])
    assert not backlog_grows([backlog([0.01 * value for value in GROWING])])  # an idle system has less than one at a time
    assert not backlog_grows([backlog(GROWING, entered=1e6)])  # 32 of a million
    assert not backlog_grows([backlog([100.0 + 0.5 * part for part in range(12)])])  # by a few percent of what is there
    generator = np.random.default_rng(3)
    steady = [[backlog(generator.gamma(4.0, 5.0, 12).tolist()) for _ in range(3)] for _ in range(300)]
    assert sum(backlog_grows(runs) for runs in steady) <= 3


def test_entries_that_are_still_rising_are_no_backlog() -> None:
    """The run is too short for its runtimes: entries rise by half over the window, and what is committing with them."""
    rising = [20.0 + part for part in range(12)]
    assert not backlog_grows([Backlog(tuple(rising), tuple(10.0 * value for value in rising))] * 3)
