"""The one way in which a curve crosses a threshold."""

from __future__ import annotations

import math

import pytest

from endive.analysis.crossings import Crossing, crossing
from endive.analysis.estimates import Estimate, mean_estimate


def points(*values: tuple[float, float], width: float = 0.0) -> list[tuple[float, Estimate]]:
    return [(load, Estimate(value, value - width, value + width, 5)) for load, value in values]


def test_it_lies_on_a_line_over_the_logarithm_of_the_load() -> None:
    found = crossing(points((1.0, 1.0), (4.0, 0.9)), 0.95, falling=True)
    assert found is not None
    assert found.load == pytest.approx(2.0)
    assert found.bound == "crossed"


def test_its_interval_is_where_the_ends_of_intervals_cross() -> None:
    found = crossing(points((1.0, 0.97), (100.0, 0.93), width=0.025), 0.95, falling=True)
    assert found is not None
    assert found.load == pytest.approx(10.0)
    assert (found.low, found.high) == (None, None)
    wider = crossing(points((0.01, 1.0), (1.0, 0.97), (100.0, 0.93), (1e4, 0.9), width=0.025), 0.95, falling=True)
    assert wider is not None
    assert (wider.before, wider.after) == (1.0, 100.0)
    assert wider.low == pytest.approx(0.01 * 100.0 ** (5.0 / 6.0))
    assert wider.high == pytest.approx(100.0 * 100.0 ** (1.0 / 6.0))


def test_loads_with_few_data_do_not_undo_what_others_tell() -> None:
    """Nothing aborts at low loads, but so few have entered there that their intervals reach far below the threshold."""
    few = [(0.1, Estimate(1.0, 0.4, 1.0, 5)), (0.2, Estimate(1.0, 0.6, 1.0, 5))]
    found = crossing([*few, *points((10.0, 0.98), (20.0, 0.95), (40.0, 0.8), width=0.02)], 0.95, falling=True)
    assert found is not None
    assert found.low is not None
    assert found.low > 5.0


def test_nothing_is_known_between_two_loads_that_are_decided() -> None:
    found = crossing(points((1.0, 1.0), (100.0, 0.9), width=0.01), 0.95, falling=True)
    assert found is not None
    assert (found.low, found.high) == (1.0, 100.0)
    assert found.load == pytest.approx(10.0)
    noisy = crossing(points((1.0, 1.0), (100.0, 0.9), width=0.025), 0.95, falling=True)
    assert noisy is not None
    assert noisy.low == pytest.approx(100.0**0.25)
    assert noisy.high == pytest.approx(100.0**0.75)


def test_its_interval_has_a_width_even_without_any_noise() -> None:
    for values in [((1.0, 1.0), (2.0, 0.9)), ((1.0, 0.95), (2.0, 0.9)), ((1.0, 1.0), (2.0, 0.95), (3.0, 0.9))]:
        found = crossing(points(*values), 0.95, falling=True)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.load <= found.high
        assert found.low < found.high


def test_means_that_go_up_and_down_still_cross_once() -> None:
    found = crossing(points((10.0, 0.99), (40.0, 0.94), (80.0, 0.97), (160.0, 0.80)), 0.95, falling=True)
    assert found is not None
    assert 80.0 < found.load < 160.0  # the two in the middle are made 0.955


def test_points_that_are_put_together_count_by_the_inverse_square_of_their_widths() -> None:
    """The second point tells sixteen times less than the third, whatever the unit of both."""
    for unit in (1e-3, 1.0, 1e3):
        values = ((10.0, 99.0, 0.1), (40.0, 94.0, 0.2), (80.0, 97.0, 0.05), (160.0, 80.0, 0.1))
        scaled = [(load, Estimate(unit * mean, unit * (mean - width), unit * (mean + width), 5)) for load, mean, width in values]
        found = crossing(scaled, unit * 95.0, falling=True)
        together = (94.0 + 16.0 * 97.0) / 17.0
        assert found is not None
        assert found.load == pytest.approx(80.0 * 2.0 ** ((together - 95.0) / (together - 80.0)))


def test_the_answer_lies_in_its_interval_where_a_point_that_tells_little_is_surely_beyond() -> None:
    noisy = [(2.0, Estimate(0.90, 0.86, 0.94, 5))]
    found = crossing([*points((1.0, 1.0), (4.0, 0.97), (8.0, 0.96), (16.0, 0.8), width=0.001), *noisy], 0.95, falling=True)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 2.0 < 8.0 < found.load <= found.high


def test_a_point_of_which_only_a_lower_bound_is_known_counts_next_to_nothing_where_points_are_put_together() -> None:
    bound = (2.0, Estimate(250.0, 250.0, math.inf, 5, "bound"))
    found = crossing([*points((1.0, 100.0), (4.0, 240.0), (8.0, 300.0), width=10.0), bound], 270.0, falling=False)
    assert found is not None
    assert (found.before, found.after) == (4.0, 8.0)
    assert found.load == pytest.approx(4.0 * 2.0**0.5)


def test_a_single_seed_tells_where_but_not_how_surely() -> None:
    found = crossing([(1.0, mean_estimate([100.0])), (4.0, mean_estimate([300.0]))], 200.0, falling=False)
    assert found is not None
    assert found == Crossing(found.load, None, None, "crossed", 1.0, 4.0)
    assert found.load == pytest.approx(2.0)


def test_means_that_surely_go_up_and_down_leave_all_between_them_open() -> None:
    found = crossing(points((10.0, 0.99), (40.0, 0.90), (80.0, 0.97), (160.0, 0.80), width=0.001), 0.95, falling=True)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 40.0
    assert found.high >= 80.0


def test_a_metric_that_rises_crosses_as_well_even_to_never() -> None:
    rising = crossing(points((1.0, 100.0), (4.0, 300.0)), 200.0, falling=False)
    assert rising is not None
    assert rising.load == pytest.approx(2.0)
    never = [(1.0, Estimate(100.0, 90.0, 110.0, 5)), (2.0, Estimate(math.inf, math.inf, math.inf, 5, "never"))]
    found = crossing(never, 200.0, falling=False)
    assert found is not None
    assert 1.0 <= found.load <= 2.0


def test_what_lies_outside_of_the_curve_is_reported_to() -> None:
    above = crossing(points((1.0, 1.0), (2.0, 1.0)), 0.95, falling=True)
    below = crossing(points((1.0, 0.5), (2.0, 0.4)), 0.95, falling=True)
    assert above is not None
    assert below is not None
    assert (above.load, above.bound, above.high) == (2.0, "above", None)
    assert (above.before, above.after) == (2.0, None)
    assert (below.load, below.bound, below.low) == (1.0, "at_or_below", None)
    assert (below.before, below.after) == (None, 1.0)
    assert crossing([], 0.95, falling=True) is None
