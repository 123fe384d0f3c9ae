"""The window that is measured: MSER-5 against its definition, stationary entries, windows of one and of several configurations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.analysis.warmup import (
    TIME_BINS,
    LoadPattern,
    Truncation,
    Window,
    common_window,
    entry_warmup_ms,
    find_window,
    given_window,
    load_pattern,
    mser,
    mser5,
)
from endive.randomness import RandomSource
from endive.storage import ExponentialLatency, FixedLatency, LatencyDistribution, LognormalLatency
from endive.workload import ClosedArrivals, OpenArrivals, PeriodicArrivals, WorkloadClass, WriterArrivals

VALUES = st.lists(st.floats(0.0, 1e6), min_size=50, max_size=200)


def naive(values: list[float]) -> tuple[int, bool]:
    """The definition, step by step."""
    batches = [sum(values[i : i + 5]) / 5 for i in range(0, len(values) - len(values) % 5, 5)]
    errors = []
    for dropped in range(len(batches) - math.ceil(len(batches) / 4) + 1):
        left = batches[dropped:]
        mean = sum(left) / len(left)
        errors.append(sum((x - mean) ** 2 for x in left) / len(left) ** 2)
    half = len(batches) // 2
    best, anywhere = (int(np.argmin(some)) for some in (errors[: half + 1], errors))
    best, anywhere = (cut if errors[cut] < 0.8 * errors[0] else 0 for cut in (best, anywhere))
    return 5 * best, anywhere <= half


def test_a_hand_made_series_is_cut_where_it_settles() -> None:
    ramp, steady = [100.0] * 20, [10.0, 12.0, 8.0, 11.0, 9.0] * 16
    assert mser5(np.array(ramp + steady)) == Truncation(20, 20, settled=True)


def test_a_steady_series_is_not_cut() -> None:
    assert mser5(np.full(100, 7.0)) == Truncation(0, 0, settled=True)


def test_the_error_of_each_truncation_by_hand() -> None:
    # 4, 2, 2: all: mean 8/3, squares 8/3, /9; then nothing varies
    assert mser(np.array([4.0, 2.0, 2.0])) == pytest.approx([8 / 27, 0.0, 0.0])


def test_a_series_that_never_settles_is_cut_at_half_at_most_and_reports_it() -> None:
    found = mser5(np.arange(200.0) ** 2)
    assert found.observations <= 100
    assert not found.settled


def test_a_short_series_is_not_cut_and_reports_it() -> None:
    assert mser5(np.array([1000.0] * 5 + [1.0] * 44)) == Truncation(0, 0, settled=False)
    assert mser5(np.zeros(0)) == Truncation(0, 0, settled=False)


def test_a_few_quiet_batches_at_the_end_are_no_sign_of_a_change() -> None:
    """One writer that commits for a tenth of the time, at random: in the last 25 of 300 parts it happens not to."""
    series = (np.random.default_rng(1).random(300) < 0.1).astype(np.float64)
    series[275:] = 0.0
    assert mser5(series) == Truncation(0, 0, settled=True)
    regular = (np.arange(300.0) % 5.515 < 0.5).astype(np.float64)
    assert mser5(regular).settled


def test_what_does_not_fill_a_batch_is_left_out() -> None:
    series = [50.0] * 10 + [1.0, 2.0, 3.0, 2.0, 1.0] * 20
    assert mser5(np.array([*series, 1e9, 1e9])) == mser5(np.array(series))


@given(VALUES)
def test_it_is_the_definition(values: list[float]) -> None:
    found = mser5(np.array(values))
    cut, settled = naive(values)
    if (found.observations, found.settled) != (cut, settled):  # two truncations may be equally good but for rounding
        batches = np.array(values[: len(values) // 5 * 5]).reshape(-1, 5).mean(axis=1)
        errors = mser(batches)
        assert errors[found.observations // 5] == pytest.approx(errors[cut // 5], rel=1e-6, abs=1e-9 * max(values) ** 2 + 1e-12)


def test_noise_is_hardly_ever_cut() -> None:
    series = np.random.default_rng(5).poisson(20.0, (200, 300)).astype(np.float64)
    assert sum(mser5(each).observations > 0 for each in series) <= 10


DEFAULT = LognormalLatency.from_mean(180_000.0, 1.5)
STEADY = np.random.default_rng(1).poisson(20.0, 300).astype(np.float64)


class OwnLatency(LatencyDistribution):
    """A distribution of the user's own, without quantiles."""

    def sample(self, rng: RandomSource) -> float:
        return 1.0


def open_class(rate: float, runtime: FixedLatency | LognormalLatency, name: str = "a") -> WorkloadClass:
    return WorkloadClass(name, OpenArrivals(ExponentialLatency(1000.0 / rate)), runtime)


def test_entries_are_stationary_when_95_percent_of_runtimes_are_over() -> None:
    """180 s x exp(-1.5^2 / 2 + 1.645 x 1.5)"""
    expected = 180_000.0 * math.exp(-1.125 + 1.5 * 1.644854)
    assert entry_warmup_ms([open_class(1.0, DEFAULT)]) == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx(689_000, rel=0.001)


def test_classes_count_by_their_rates() -> None:
    """Nine of ten enter at once: it takes until half of the others have, which is their median."""
    quick, slow = open_class(9.0, FixedLatency(0.0)), open_class(1.0, LognormalLatency.from_median(60_000.0, 1.0), "b")
    assert entry_warmup_ms([quick, slow]) == pytest.approx(60_000.0, rel=0.01)
    assert entry_warmup_ms([quick]) == pytest.approx(0.0, abs=1e-6)
    assert entry_warmup_ms([]) == 0.0
    assert entry_warmup_ms([open_class(1.0, FixedLatency(5.0))]) == pytest.approx(5.0)


def test_a_class_that_begins_late_by_plan_makes_the_run_be_measured_whole() -> None:
    late = WorkloadClass("late", PeriodicArrivals(1000.0, phase_ms=300_000.0), FixedLatency(1.0))
    in_phase = WorkloadClass("p", PeriodicArrivals(1000.0, phase_ms=500.0), FixedLatency(1.0))
    assert entry_warmup_ms([open_class(1.0, DEFAULT), late]) is None
    assert entry_warmup_ms([in_phase]) == pytest.approx(1.0)
    assert find_window(600_000.0, 0.0, LoadPattern(None), STEADY) == Window(600_000.0, 0.0, 600_000.0, "schedule")


def test_clients_count_by_how_often_they_come_around() -> None:
    closed = WorkloadClass("c", ClosedArrivals(4, FixedLatency(1000.0)), FixedLatency(3000.0))
    assert entry_warmup_ms([closed]) == pytest.approx(3000.0)
    quick = WorkloadClass(
        "c", ClosedArrivals(18, OwnLatency()), FixedLatency(2.0)
    )  # nine commits in a ms, if thinking takes no time
    slow = open_class(1000.0, LognormalLatency.from_median(60_000.0, 1.0))
    assert entry_warmup_ms([quick, slow]) == pytest.approx(60_000.0, rel=1e-3)


def test_clients_and_arrivals_without_a_pause_have_a_rate() -> None:
    """Clients that take no time count as one commit in each millisecond; arrivals that take none have no rate."""
    slow = open_class(1000.0, LognormalLatency.from_median(60_000.0, 1.0))
    at_once = WorkloadClass("c", ClosedArrivals(9, FixedLatency(0.0)), FixedLatency(0.0))
    assert entry_warmup_ms([at_once, slow]) == pytest.approx(60_000.0, rel=1e-3)
    endless = WorkloadClass("o", OpenArrivals(FixedLatency(0.0)), FixedLatency(0.0))
    alone = entry_warmup_ms([slow])
    assert entry_warmup_ms([endless, slow]) == alone


def test_periodic_classes_count_by_their_interval() -> None:
    """Nine in a millisecond beside one: until half of the others have entered."""
    often = WorkloadClass("p", PeriodicArrivals(1.0 / 9.0), FixedLatency(0.0))
    slow = open_class(1000.0, LognormalLatency.from_median(60_000.0, 1.0))
    assert entry_warmup_ms([often, slow]) == pytest.approx(60_000.0, rel=1e-3)


def test_the_runtimes_alone_decide_where_nothing_else_changes() -> None:
    found = find_window(3_600_000.0, 0.0, LoadPattern(689_000.0), STEADY)
    assert (found.start_ms, found.chosen_by, found.settled, found.needed_ms) == (689_000.0, "runtimes", True, None)


def test_what_is_committing_may_settle_later_than_entries_do() -> None:
    series = STEADY.copy()
    series[60:120] += 200.0
    found = find_window(300_000.0, 0.0, LoadPattern(50_000.0), series)
    assert found == Window(300_000.0, 120_000.0, 300_000.0, "mser5")


def test_a_run_that_is_too_short_says_how_long_it_should_be() -> None:
    found = find_window(600_000.0, 0.0, LoadPattern(689_000.0), STEADY)
    assert found == Window(600_000.0, 300_000.0, 600_000.0, "runtimes", settled=False, needed_ms=1_378_000.0)


def test_what_settles_slowly_needs_a_longer_run() -> None:
    slowly = 1000.0 * (1.0 - np.exp(-np.arange(300.0) / 120.0))
    found = find_window(600_000.0, 0.0, LoadPattern(10_000.0), slowly)
    assert (found.chosen_by, found.settled, found.is_drifting, found.end_ms) == ("mser5", False, False, 600_000.0)
    assert found.start_ms == pytest.approx(300_000.0, abs=11_000.0)
    assert found.needed_ms == pytest.approx(2.0 * 0.75 * 600_000.0, rel=0.01)  # all but the last quarter is cut at most


def test_what_grows_to_the_end_has_no_steady_state() -> None:
    found = find_window(600_000.0, 0.0, LoadPattern(10_000.0), np.arange(300.0))
    assert (found.settled, found.is_drifting, found.needed_ms) == (False, True, None)
    short = find_window(600_000.0, 0.0, LoadPattern(689_000.0), STEADY)
    assert common_window([found, short]).is_drifting


MINUTE_MS = 60_000.0
ALIGNED = WorkloadClass("jobs", WriterArrivals(40, 15 * MINUTE_MS, "aligned"), FixedLatency(5_000.0))


def test_periodic_submissions_have_periods_and_spread_ones_have_none() -> None:
    hourly = WorkloadClass("hourly", PeriodicArrivals(60 * MINUTE_MS), FixedLatency(5_000.0))
    spread = WorkloadClass("spread", WriterArrivals(40, 7 * MINUTE_MS, "random"), FixedLatency(5_000.0))
    pattern = load_pattern([ALIGNED, hourly, spread, open_class(1.0, FixedLatency(5_000.0))])
    assert pattern.entry_warmup_ms == pytest.approx(5_000.0)
    assert pattern.periods_ms == (15 * MINUTE_MS, 60 * MINUTE_MS)


def test_the_common_period_is_the_least_common_multiple_that_fits() -> None:
    pattern = LoadPattern(0.0, (4.0, 6.0, 1000.0))
    assert pattern.common_period_ms(500.0) == 12.0
    assert pattern.common_period_ms(50.0) == 6.0
    assert pattern.common_period_ms(3.0) is None


def test_a_window_of_bursts_has_whole_periods() -> None:
    """160 submissions an hour: a window that began 5 s after the first burst had 156.9."""
    found = find_window(4 * 60 * MINUTE_MS, 0.0, load_pattern([ALIGNED]), STEADY)
    assert (found.start_ms, found.end_ms) == (15 * MINUTE_MS, 240 * MINUTE_MS)
    cut = find_window(4 * 60 * MINUTE_MS, MINUTE_MS, load_pattern([ALIGNED]), STEADY)
    assert (cut.start_ms, cut.end_ms) == (15 * MINUTE_MS, 225 * MINUTE_MS)


def test_a_period_of_more_than_half_of_a_run_changes_nothing() -> None:
    found = find_window(20 * MINUTE_MS, 0.0, load_pattern([ALIGNED]), STEADY)
    assert found.start_ms == pytest.approx(5_000.0)
    assert found.time_bins == TIME_BINS


@pytest.mark.parametrize(("periods", "bins"), [(4, 60), (48, 48), (96, 48), (61, 61), (4_380, 60), (7, 63), (10.5, TIME_BINS)])
def test_time_bins_do_not_alias_with_the_period(periods: float, bins: int) -> None:
    """Sixty bins of 12 minutes against bursts every 15 minutes showed no commits in every fifth bin."""
    found = find_window(periods * 15 * MINUTE_MS, 0.0, load_pattern([ALIGNED]), STEADY)
    assert found.time_bins == bins


def test_a_cooldown_is_no_part_of_it() -> None:
    found = find_window(600_000.0, 100_000.0, LoadPattern(10_000.0), STEADY)
    assert (found.start_ms, found.end_ms, found.length_ms) == (10_000.0, 500_000.0, 490_000.0)
    assert given_window(100.0, 20.0, 10.0) == Window(100.0, 20.0, 90.0, "given")
    with pytest.raises(ValueError, match="exceed the run"):
        given_window(100.0, 60.0, 40.0)


def test_both_sides_of_a_comparison_have_one_window() -> None:
    a, b = find_window(600_000.0, 0.0, LoadPattern(10_000.0), STEADY), find_window(500_000.0, 0.0, LoadPattern(50_000.0), STEADY)
    assert common_window([a, b]) == Window(500_000.0, 50_000.0, 500_000.0, "runtimes")
    with pytest.raises(ValueError, match="warm-up ends"):
        common_window([given_window(100.0, 90.0), given_window(50.0, 0.0)])
