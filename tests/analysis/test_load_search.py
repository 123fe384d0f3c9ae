"""The search for a frontier, on curves whose answer is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from endive.analysis.conditions import Condition
from endive.analysis.estimates import CONFIDENCE, Estimate, mean_estimate, share_estimate
from endive.analysis.load_search import BRACKET_SEEDS, Frontier, Point, Search, find_frontier

BELOW_95 = Condition("success < 95%", "success_rate", "<", 0.95)
ABOVE_2S = Condition("p99 > 2s", "time_to_commit_p99_ms", ">", 2000.0)


def falling(load: float, middle: float = 64.0, steepness: float = 3.0) -> float:
    """A curve that is 0.95 at ``middle``."""
    return 1.0 / (1.0 + math.pow(load / middle, steepness) / 19.0)


class Noisy:
    """A curve seen through noise, which differs from load to load."""

    def __init__(self, curve: Callable[[float], float], noise: float) -> None:
        self.curve, self.noise = curve, noise
        self.seen: list[tuple[float, int]] = []
        self.runs: set[tuple[float, int]] = set()

    def __call__(self, load: float, seeds: int) -> Estimate:
        self.seen.append((load, seeds))
        self.runs |= {(load, seed) for seed in range(seeds)}
        errors = np.random.default_rng(int(load * 1000) % 2**32).normal(0.0, self.noise, 1000)[:seeds]
        return mean_estimate([self.curve(load) + error for error in errors], CONFIDENCE)


def exact(curve: Callable[[float], float]) -> Callable[[float, int], Estimate]:
    return lambda load, seeds: Estimate(curve(load), curve(load), curve(load), seeds)


@pytest.mark.parametrize("start", [10.0, 64.0, 500.0])
def test_a_curve_without_noise_is_found_to_the_tolerance(start: float) -> None:
    found = find_frontier(exact(falling), BELOW_95, Search(start, 1.0, 1000.0, tolerance=0.01))
    assert (found.bound, found.narrow) == ("crossed", True)
    assert found.low is not None
    assert found.high is not None
    assert found.load is not None
    assert found.low <= 64.0 <= found.high <= found.low * 1.01
    assert found.load == pytest.approx(64.0, rel=0.005)


def test_a_start_that_turns_out_to_hold_is_searched_below() -> None:
    """With few seeds the start looks open, so that the search goes up first."""

    def evaluate(load: float, seeds: int) -> Estimate:
        doubt = 0.2 if load == 100.0 and seeds == 5 else 0.0
        return Estimate(falling(load), falling(load) - doubt, falling(load) + doubt, seeds)

    found = find_frontier(evaluate, BELOW_95, Search(100.0, 1.0, 1000.0, tolerance=0.1))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 64.0 <= found.high <= found.low * 1.1


def test_a_metric_that_rises_is_found_as_well() -> None:
    found = find_frontier(exact(lambda load: 10.0 * load**2), ABOVE_2S, Search(1.0, 1.0, 100.0, tolerance=0.02))
    assert found.load == pytest.approx(math.sqrt(200.0), rel=0.02)


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.05])
def test_noise_makes_the_interval_wider_or_costs_seeds(noise: float) -> None:
    curve = Noisy(falling, noise)
    found = find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.1))
    assert found.bound == "crossed"
    assert found.low is not None
    assert found.high is not None
    assert found.load is not None
    assert found.low <= 64.0 <= found.high
    assert found.low <= found.load <= found.high
    assert found.narrow == (found.high / found.low <= 1.1)
    assert max(seeds for _, seeds in curve.seen) > 5


def test_more_seeds_make_it_narrower() -> None:
    errors = np.random.default_rng(0).normal(0.0, 0.1, 40)

    def evaluate(load: float, seeds: int) -> Estimate:
        return mean_estimate([falling(load) + error for error in errors[:seeds]])

    def width(max_seeds: int) -> float:
        found = find_frontier(evaluate, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.01, max_seeds=max_seeds))
        assert found.low is not None
        assert found.high is not None
        assert not found.narrow
        return found.high / found.low

    assert width(40) < width(5)


def test_seeds_are_added_where_the_interval_straddles_and_nowhere_else() -> None:
    curve = Noisy(falling, 0.02)
    find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.1))
    assert {seeds for load, seeds in curve.seen if not 40.0 <= load <= 100.0} == {BRACKET_SEEDS}


def test_loads_next_to_the_crossing_have_the_requested_number_of_seeds() -> None:
    """The loads 40 and 80 bracket the crossing, and are close enough."""
    found = find_frontier(exact(lambda load: falling(load, steepness=12.0)), BELOW_95, Search(10.0, 10.0, 500.0, tolerance=1.0))
    assert (found.low, found.high, found.narrow) == (40.0, 80.0, True)
    assert [point.seeds for point in found.points] == [BRACKET_SEEDS, BRACKET_SEEDS, 5, 5]


def test_a_load_far_beyond_the_crossing_gets_few_seeds() -> None:
    """All loads on the way to the crossing had as many seeds as the loads next to it."""
    curve = Noisy(falling, 0.01)
    find_frontier(curve, BELOW_95, Search(1000.0, 1.0, 1000.0, tolerance=0.3))
    assert {seeds for load, seeds in curve.seen if load > 200.0} == {BRACKET_SEEDS}


def test_a_cliff_is_somewhere_between_the_loads_on_both_sides_of_it() -> None:
    """A line through 100 % and 20 % would put it at a place that nobody has seen, and with hardly any doubt."""
    curve = Noisy(lambda load: 1.0 if load < 70.0 else 0.2, 0.001)
    found = find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.3))
    loads = sorted(point.load for point in found.points)
    assert found.low == max(load for load in loads if load < 70.0)
    assert found.high == min(load for load in loads if load > 70.0)


@pytest.mark.parametrize("steepness", [3.0, 12.0])
def test_the_interval_contains_the_crossing_of_a_curve_that_bends(steepness: float) -> None:
    """A straight line from 99% to 50% crosses 95% far below the load at which the curve does."""
    held = 0
    for study in range(60):
        draws = np.random.default_rng(study)
        counts: dict[float, list[int]] = {}

        def estimate(load: float, seeds: int, draws: np.random.Generator = draws, counts: Any = counts) -> Estimate:
            drawn = counts.setdefault(load, [])
            drawn += draws.binomial(47, falling(load, steepness=steepness), seeds - len(drawn)).tolist()
            return share_estimate(drawn, [47] * seeds)

        found = find_frontier(estimate, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.3))
        held += found.low is not None and found.high is not None and found.low <= 64.0 <= found.high
    assert held >= 0.93 * 60


def test_a_condition_that_never_holds_is_above_the_range() -> None:
    curve = Noisy(lambda load: 0.999, 0.001)
    found = find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0))
    assert (found.bound, found.load, found.low, found.high) == ("above", None, 500.0, None)
    assert [load for load, _ in curve.seen] == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 500.0]


def test_a_condition_that_holds_at_the_lowest_load_is_at_or_below_it() -> None:
    found = find_frontier(exact(lambda load: 0.5), BELOW_95, Search(10.0, 10.0, 500.0))
    assert (found.bound, found.load, found.low, found.high) == ("at_or_below", None, None, 10.0)
    assert len(found.points) == 1


def test_without_a_lowest_load_it_goes_down() -> None:
    found = find_frontier(exact(lambda load: falling(load, middle=3.0)), BELOW_95, Search(100.0, 0.1, 1000.0, tolerance=0.02))
    assert found.load == pytest.approx(3.0, rel=0.02)


def test_a_start_that_is_open_is_searched_on_both_sides() -> None:
    found = find_frontier(Noisy(falling, 0.02), BELOW_95, Search(64.0, 1.0, 1000.0, tolerance=0.1))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 64.0 <= found.high
    assert found.points[0].load < 64.0 < found.points[-1].load


def test_an_open_lowest_load_leaves_the_interval_open() -> None:
    def always(load: float, seeds: int) -> Estimate:
        return Estimate(0.95, 0.9, 1.0, seeds)

    found = find_frontier(always, BELOW_95, Search(10.0, 10.0, 40.0, seeds=5, max_seeds=20))
    assert (found.low, found.high, found.narrow) == (None, None, False)
    assert {point.seeds for point in found.points} == {20}


def test_the_first_of_several_crossings_is_found() -> None:
    def curve(load: float) -> float:
        return 0.9 if 35.0 < load < 45.0 else falling(load, middle=150.0)

    found = find_frontier(exact(curve), BELOW_95, Search(10.0, 10.0, 1000.0, tolerance=0.05))
    assert found.load == pytest.approx(35.0, rel=0.05)


def coverage(noise: float, common: float) -> float:
    """The share of searches whose interval holds the truth; ``common`` is the part of the noise that a seed has at every load."""

    def search(number: int) -> bool:
        shared = np.random.default_rng(number).normal(0.0, noise, 40)

        def curve(load: float, seeds: int) -> Estimate:
            own = np.random.default_rng([number, int(load * 1000)]).normal(0.0, noise, 40)
            values = falling(load) + math.sqrt(common) * shared + math.sqrt(1.0 - common) * own
            return mean_estimate(values[:seeds].tolist(), CONFIDENCE)

        found = find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0))
        assert found.low != found.high
        return (found.low or 0.0) <= 64.0 <= (found.high or math.inf)

    return float(np.mean([search(number) for number in range(300)]))


@pytest.mark.parametrize(("common", "most"), [(0.9, 0.975), (0.0, 0.995)])
def test_the_interval_holds_the_truth_as_often_as_it_says(common: float, most: float) -> None:
    """Loads that have the same seeds are off together, as in runs; where each is off by itself, their mean is surer than each."""
    assert 0.93 <= coverage(noise=0.03, common=common) <= most


def test_where_nothing_could_be_measured_nothing_is_reported_to_hold() -> None:
    def curve(load: float, seeds: int) -> Estimate | None:
        return None if load > 100.0 else Estimate(1.0, 0.99, 1.0, seeds)

    found = find_frontier(curve, BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.05))
    assert found.high is found.load is None
    assert found.low is not None
    assert 95.0 < found.low <= 100.0
    assert {point.verdict for point in found.points if point.load > 100.0} == {"open"}


def test_nothing_measured_anywhere_comes_to_an_end() -> None:
    found = find_frontier(lambda load, seeds: None, BELOW_95, Search(10.0, 10.0, 500.0))
    assert (found.load, found.low, found.high) == (None, None, None)


@pytest.mark.parametrize(("start", "highest"), [(10_000.0, 10_240_000.0), (7.0, 7168.0), (3.3, 1234.567)])
def test_a_condition_that_never_holds_comes_to_an_end_whatever_digits_the_highest_load_has(start: float, highest: float) -> None:
    """The highest load was rounded to three digits and then never reached."""
    seen: list[float] = []

    def curve(load: float, seeds: int) -> Estimate:
        seen.append(load)
        assert len(seen) < 50
        return Estimate(1.0, 0.99, 1.0, seeds)

    found = find_frontier(curve, BELOW_95, Search(start, start, highest))
    assert (found.bound, seen[-1]) == ("above", highest)


def test_a_percentile_that_is_never_holds() -> None:
    def curve(load: float, seeds: int) -> Estimate:
        never = load > 30.0
        return Estimate(math.inf, math.inf, math.inf, seeds, "never") if never else Estimate(100.0, 90.0, 110.0, seeds)

    found = find_frontier(curve, ABOVE_2S, Search(10.0, 10.0, 500.0, tolerance=0.05))
    assert found.high is not None
    assert 30.0 < found.high <= 32.0


def test_whole_numbers_stay_whole() -> None:
    found = find_frontier(exact(lambda load: falling(load, middle=6.5)), BELOW_95, Search(1.0, 1.0, 100.0, whole=True))
    assert (found.low, found.high) == (6.0, 7.0)
    assert all(point.load.is_integer() for point in found.points)


def test_each_point_is_reported() -> None:
    data: list[Point] = []
    found: Frontier = find_frontier(Noisy(falling, 0.02), BELOW_95, Search(10.0, 10.0, 500.0, tolerance=0.2), data.append)
    assert {point.load for point in data} == {point.load for point in found.points}
    assert set(found.points) <= set(data)
