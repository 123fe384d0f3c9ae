"""The rule that determines the number of seeds: on values with a known variance, at its bounds, and its coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from endive.analysis.conditions import Subject
from endive.analysis.estimates import Estimate, mean_estimate
from endive.analysis.replication_rule import Width, add_seeds, choose_subjects, count_seeds, measure_width, measure_widths
from endive.config import ConfigError
from endive.config.study import Precision

P95 = "time_to_commit_p95_ms"


def alternate(spread: float, mean: float = 100.0) -> Callable[[int], list[Width]]:
    """Return widths of values that alternate around a mean, whose standard deviation is almost ``spread``."""

    def measure(seeds: int) -> list[Width]:
        values = [mean + (spread if seed % 2 else -spread) for seed in range(seeds)]
        return [measure_width("p95", P95, mean_estimate(values), Precision(0.01))]

    return measure


def test_a_narrow_pilot_is_enough() -> None:
    found = add_seeds(alternate(0.5), Precision(0.01))
    assert (found.seeds, found.wide) == (8, ())


def test_the_first_seeds_are_enough_only_if_every_interval_is_clearly_narrow() -> None:
    found = add_seeds(alternate(0.25), Precision(0.01))
    assert (found.seeds, found.wide) == (4, ())
    assert [width.is_clearly_narrow for spread in (0.25, 0.3) for width in alternate(spread)(4)] == [True, False]
    assert count_seeds([], 4, 100) == count_seeds([Width("a", 0.5, 1.0)], 4, 100) == 4
    for wide in (Width("b", 0.51, 1.0), Width("success", 0.04, 0.03, fixed=0.03), Width("bound", None, 0.0)):
        assert count_seeds([Width("a", 0.1, 1.0), wide], 4, 100) == 8
    assert count_seeds([Width("a", 0.8, 1.0)], 4, 6) == 6
    assert count_seeds([Width("a", 0.8, 1.0)], 4, 4) == 4


def test_seeds_follow_from_the_variance() -> None:
    """By hand: the smallest n with t(n - 1) s / sqrt(n) <= 1, where s is the standard deviation of the pilot."""
    for spread, seeds in ((1.0, 8), (2.0, 21), (4.0, 73)):
        deviation = spread * math.sqrt(8 / 7)
        assert t(seeds - 1) * deviation / math.sqrt(seeds) <= 1.0
        assert seeds == 8 or t(seeds - 2) * deviation / math.sqrt(seeds - 1) > 1.0
        found = add_seeds(alternate(spread), Precision(0.01))
        assert (found.seeds, found.wide) == (seeds, ())


def t(freedom: int) -> float:
    return float(stats.t.ppf(0.975, freedom))


def test_the_number_of_seeds_is_bounded_and_what_was_reached_is_known() -> None:
    found = add_seeds(alternate(50.0), Precision(0.01, most_seeds=20))
    assert found.seeds == 20
    (wide,) = found.wide
    assert wide.half_width == pytest.approx(24.0, rel=0.02)
    assert wide.wanted == pytest.approx(1.0)


def test_the_widest_interval_decides() -> None:
    widths = [Width("a", 0.5, 1.0), Width("b", 2.0, 1.0), Width("c", 3.0, 1.0)]
    assert count_seeds(widths, 8, 1000) == count_seeds(widths[2:], 8, 1000) > count_seeds(widths[:2], 8, 1000) > 8


def test_what_more_seeds_do_not_reduce_does_not_count() -> None:
    in_flight = Width("success", half_width=0.05, wanted=0.01, fixed=0.04)
    assert not in_flight.is_improvable
    assert count_seeds([in_flight, Width("bound", None, 0.0)], 8, 100) == 8
    partly = Width("success", half_width=0.05, wanted=0.04, fixed=0.03)
    assert count_seeds([partly], 8, 100) == count_seeds([Width("success", 0.02, 0.01)], 8, 100)


def test_bounds_have_no_interval_and_aborts_are_decided() -> None:
    precision = Precision(0.01)
    assert measure_width("p95", P95, None, precision).half_width is None
    assert not measure_width("p95", P95, Estimate(12.0, 12.0, math.inf, 5, "bound"), precision).is_improvable
    assert measure_width("p95", P95, Estimate(math.inf, math.inf, math.inf, 5, "never"), precision).is_narrow


def test_shares_are_judged_in_points_and_others_relative_to_their_mean() -> None:
    precision = Precision(0.01)
    share = measure_width("success", "success_rate", Estimate(0.5, 0.492, 0.508, 5, unfinished=0.002), precision)
    assert (share.wanted, share.fixed, share.is_narrow) == (0.01, 0.002, True)
    assert measure_width("p95", P95, Estimate(300.0, 290.0, 310.0, 5), precision).wanted == pytest.approx(3.0)


def test_subjects_are_those_asked_for_or_success_and_p95() -> None:
    assert [each.metric for each in choose_subjects([], Precision(0.01), "x")] == ["success_rate", P95]
    assert [each.metric for each in choose_subjects([], Precision(0.01, shares_only=True), "x")] == ["success_rate"]
    asked = (Subject("throughput_per_s", "ingest"),)
    assert choose_subjects([*asked, *asked], Precision(0.01), "x") == asked
    with pytest.raises(ConfigError, match=r"0\.5pp applies to proportions, and throughput_per_s\(ingest\) is not a proportion"):
        choose_subjects(asked, Precision(0.005, shares_only=True), "--precision")


def test_widths_are_those_of_the_estimates_over_runs() -> None:
    rows = [{"transactions": 10, "throughput_per_s": value} for value in (9.0, 10.0, 11.0)]

    def select(workload_class: str, operation: str) -> Sequence[dict[str, float]]:
        return rows if (workload_class, operation) == ("ingest", "all") else []

    subjects = (Subject("throughput_per_s", "ingest"), Subject("throughput_per_s", "other"))
    first, second = measure_widths(select, subjects, Precision(0.05))
    assert first.half_width == mean_estimate([9.0, 10.0, 11.0]).half_width
    assert (first.name, second.half_width) == ("throughput_per_s(ingest)", None)


@pytest.mark.parametrize("value", [0.3, 0.6, 1.2, 2.5])
def test_intervals_hold_when_the_rule_determines_the_number_of_seeds(value: float) -> None:
    held = []
    for study in range(1500):
        draws = (1.0 + np.random.default_rng([study, 11]).normal(size=100)).tolist()

        def measure(seeds: int, draws: list[float] = draws) -> list[Width]:
            found = mean_estimate(draws[:seeds])
            return [Width("x", found.half_width, value, mean=found.mean)]

        reached = add_seeds(measure, Precision(0.01))
        found = mean_estimate(draws[: reached.seeds])
        held.append(found.low <= 1.0 <= found.high)
    assert 0.92 <= np.mean(held) <= 0.975
