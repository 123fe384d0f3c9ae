"""Saturation of curves that were made so that it is known."""

from __future__ import annotations

import pytest

from endive.analysis.saturation import LoadPoint, crossing, saturation


def curve(*points: tuple[float, float, float], half_width: float | None = None) -> list[LoadPoint]:
    return [LoadPoint(load, success, ratio, half_width, half_width) for load, success, ratio in points]


def test_between_two_loads_it_is_interpolated() -> None:
    found = saturation(curve((1, 1.0, 1.0), (2, 1.0, 1.0), (4, 1.0, 0.9)))
    assert found.load == pytest.approx(3.0)
    assert (found.bound, found.reason) == ("crossed", "throughput")


def test_the_measure_that_fails_first_counts() -> None:
    found = saturation(curve((1, 1.0, 1.0), (2, 0.98, 0.9)))
    assert found.load == pytest.approx(1.5)
    found = saturation(curve((1, 1.0, 1.0), (2, 0.96, 0.9)))
    assert found.load == pytest.approx(1.25)
    assert found.reason == "success"


def test_the_order_of_points_is_of_no_account() -> None:
    points = curve((4, 1.0, 0.9), (1, 1.0, 1.0), (2, 1.0, 1.0))
    assert saturation(points) == saturation(points[::-1])


def test_the_first_crossing_counts_even_if_the_curve_comes_back() -> None:
    found = saturation(curve((1, 1.0, 1.0), (2, 1.0, 0.9), (3, 1.0, 1.0), (4, 1.0, 0.5)))
    assert found.load == pytest.approx(1.5)


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
def test_what_lies_outside_of_the_curve_is_said_to(points: tuple[tuple[float, float, float], ...], load: float, bound: str) -> None:
    found = saturation(curve(*points))
    assert (found.load, found.bound) == (load, bound)


def test_the_interval_is_where_the_intervals_of_measures_cross() -> None:
    found = saturation(curve((0, 1.0, 1.0), (10, 1.0, 0.9), (20, 1.0, 0.8), half_width=0.005))
    # success stays within its half width: 1.0 - 0.005 > 0.99; throughput 1 - load / 100 crosses 0.95 at 5, and 0.5 to either side
    assert found.load == pytest.approx(5.0)
    assert found.low == pytest.approx(4.5)
    assert found.high == pytest.approx(5.5)


def test_an_interval_may_be_open() -> None:
    wide = saturation(curve((1, 1.0, 1.0), (2, 1.0, 0.94), half_width=0.02))
    assert (wide.low, wide.high) == (None, None)  # success of 1.0 +- 0.02 may be below 0.99 from the start
    upward = saturation(curve((1, 1.0, 1.0), (2, 1.0, 0.945), half_width=0.009))
    assert upward.low is not None
    assert upward.high is None  # 0.945 + 0.009 is not below 0.95


def test_one_seed_has_no_interval() -> None:
    found = saturation(curve((1, 1.0, 1.0), (2, 1.0, 0.9)))
    assert (found.low, found.high) == (None, None)


def test_loads_without_a_value_are_passed_over() -> None:
    assert crossing([1, 2, 3], [1.0, None, 0.0], 0.5) == (2.0, False)
    assert crossing([1, 2], [None, None], 0.5) is None


def test_a_curve_has_points() -> None:
    with pytest.raises(ValueError, match="without points"):
        saturation([])
