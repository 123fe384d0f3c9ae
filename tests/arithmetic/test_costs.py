from __future__ import annotations

from bisect import bisect_right, insort
from itertools import accumulate, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.arithmetic.backoff import backoff_ms
from endive.arithmetic.costs import (
    failed_answer_ms,
    fractional_count,
    insert_pick,
    lower_bound,
    manifests_to_merge,
    moment_of_effect_ms,
    pick,
    whole_count,
)
from endive.randomness import Stream, run_key
from endive.storage import FixedLatency, NormalLatency, UniformLatency
from endive.transaction.policy import Backoff, ManifestCount

unit = st.floats(0.0, 1.0, exclude_max=True)
latencies = st.floats(0.0, 1e6)
weights = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)


def cumulative(masses: list[float]) -> list[float]:
    return [0.0, *accumulate(masses)]


def uniform_grid(n: int) -> list[float]:
    return [(k + 0.5) / n for k in range(n)]


class TestBackoff:
    @pytest.mark.parametrize(("retry", "expected_ms"), [(1, 10.0), (2, 20.0), (3, 40.0), (9, 2560.0), (10, 5000.0), (50, 5000.0)])
    def test_it_doubles_from_the_base_up_to_the_maximum(self, retry: int, expected_ms: float) -> None:
        assert backoff_ms(retry, 10.0, 2.0, 5000.0, 0.0, 0.3) == expected_ms

    @pytest.mark.parametrize(("u", "expected_ms"), [(0.0, 36.0), (0.25, 38.0), (0.5, 40.0), (0.75, 42.0), (1.0, 44.0)])
    def test_jitter_moves_it_evenly_to_both_sides(self, u: float, expected_ms: float) -> None:
        assert backoff_ms(3, 10.0, 2.0, 5000.0, 0.1, u) == pytest.approx(expected_ms, rel=1e-15)

    def test_jitter_applies_after_the_maximum(self) -> None:
        assert backoff_ms(20, 10.0, 2.0, 5000.0, 0.5, 1.0) == 7500.0

    def test_a_multiplier_of_one_is_a_constant_backoff(self) -> None:
        assert {backoff_ms(retry, 25.0, 1.0, 5000.0, 0.0, 0.5) for retry in range(1, 30)} == {25.0}

    @settings(max_examples=300)
    @given(st.integers(1, 100), st.floats(0.1, 1e4), st.floats(1.0, 10.0), st.floats(0.1, 1e5), st.floats(0.0, 1.0), unit)
    def test_backoff_is_within_the_jitter_of_the_capped_value(
        self, retry: int, base_ms: float, multiplier: float, max_ms: float, jitter: float, u: float
    ) -> None:
        capped = min(base_ms * multiplier ** (retry - 1), max_ms)
        wait = backoff_ms(retry, base_ms, multiplier, max_ms, jitter, u)
        assert capped * (1.0 - jitter) * (1.0 - 1e-12) <= wait <= capped * (1.0 + jitter) * (1.0 + 1e-12)

    def test_the_defaults_of_the_policy_are_off_and_ten_doubling_to_five_thousand(self) -> None:
        assert Backoff() == Backoff(enabled=False, base_ms=10.0, multiplier=2.0, max_ms=5000.0, jitter=0.1)

    def test_a_very_late_retry_still_waits_the_maximum(self) -> None:
        assert backoff_ms(1100, 10.0, 2.0, 5000.0, 0.0, 0.5) == 5000.0


class TestCounts:
    @pytest.mark.parametrize("mean", [0.0, 0.25, 1.0, 1.5, 2.125, 7.0, 9.875])
    def test_a_fractional_count_has_its_mean_and_is_one_of_the_two_nearest(self, mean: float) -> None:
        counts = [fractional_count(mean, u) for u in uniform_grid(1000)]
        assert np.mean(counts) == pytest.approx(mean, abs=1e-12)
        assert set(counts) <= {int(mean), int(mean) + 1}

    @settings(max_examples=200)
    @given(st.floats(0.0, 50.0))
    def test_a_fractional_count_has_any_mean(self, mean: float) -> None:
        counts = [fractional_count(mean, u) for u in uniform_grid(200)]
        assert np.mean(counts) == pytest.approx(mean, abs=1.0 / 200)

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(-5.0, 1), (0.4, 1), (1.4999, 1), (1.5, 2), (2.5, 3), (3.49, 3), (9.6, 10), (10.5, 10), (1e9, 10)],
    )
    def test_a_whole_count_rounds_and_is_clamped(self, value: float, expected: int) -> None:
        assert whole_count(value, 1, 10) == expected

    @settings(max_examples=200)
    @given(st.floats(-1e6, 1e6), st.integers(0, 20), st.integers(0, 20))
    def test_a_whole_count_is_the_nearest_within_bounds(self, value: float, low: int, extra: int) -> None:
        count = whole_count(value, low, low + extra)
        assert low <= count <= low + extra
        nearest = min(max(value, low), low + extra)
        assert abs(count - nearest) <= 0.5

    def test_merged_manifests_of_a_real_conflict_follow_their_distribution_within_bounds(self) -> None:
        stream = Stream(run_key(1))
        uniform = [ManifestCount(UniformLatency(0.5, 4.5), 1, 10).sample(stream) for _ in range(4000)]
        assert stats.chisquare([uniform.count(k) for k in (1, 2, 3, 4)]).pvalue > 1e-4
        assert set(uniform) == {1, 2, 3, 4}
        wide = {ManifestCount(NormalLatency(5.0, 20.0), 2, 7).sample(stream) for _ in range(500)}
        assert wide == {2, 3, 4, 5, 6, 7}
        assert ManifestCount(FixedLatency(3.0), 1, 10).sample(stream) == 3

    @pytest.mark.parametrize(
        ("behind", "per_commit", "expected"), [(0, 1.5, 0), (1, 1.5, 1), (2, 1.5, 3), (3, 1.5, 4), (5, 0.1, 0), (4, 2.0, 8)]
    )
    def test_manifests_to_merge_are_whole(self, behind: int, per_commit: float, expected: int) -> None:
        assert manifests_to_merge(behind, per_commit) == expected


class TestMoments:
    @pytest.mark.parametrize(("linearization", "expected_ms"), [(0.0, 0.0), (0.5, 30.0), (1.0, 60.0)])
    def test_the_moment_of_effect_is_a_share_of_the_success_latency(self, linearization: float, expected_ms: float) -> None:
        assert moment_of_effect_ms(60.0, linearization) == expected_ms

    @pytest.mark.parametrize(
        ("effect_ms", "failed_ms", "expected_ms"), [(60.0, 75.0, 75.0), (60.0, 40.0, 60.0), (60.0, 60.0, 60.0), (0.0, 5.0, 5.0)]
    )
    def test_a_failure_answers_at_its_own_latency_but_not_before_the_effect(
        self, effect_ms: float, failed_ms: float, expected_ms: float
    ) -> None:
        assert failed_answer_ms(effect_ms, failed_ms) == expected_ms

    @settings(max_examples=100)
    @given(latencies, latencies)
    def test_a_failure_answers_at_the_later_of_both_moments(self, effect_ms: float, failed_ms: float) -> None:
        assert failed_answer_ms(effect_ms, failed_ms) == max(effect_ms, failed_ms)


class TestLowerBound:
    @pytest.mark.parametrize(
        ("x", "expected"), [(0.0, 0), (0.99, 0), (1.0, 1), (2.5, 1), (3.0, 2), (5.999, 2), (6.0, 2), (99.0, 2)]
    )
    def test_it_finds_the_item_that_covers_x_and_stays_in_range(self, x: float, expected: int) -> None:
        assert lower_bound([0.0, 1.0, 3.0, 6.0], 3, x) == expected

    @settings(max_examples=300)
    @given(weights, st.floats(-1.0, 1.2))
    def test_it_agrees_with_bisection(self, masses: list[float], share: float) -> None:
        sums = cumulative(masses)
        x = share * sums[-1]
        assert lower_bound(sums, len(masses), x) == min(bisect_right(sums[1:], x), len(masses) - 1)

    def test_only_the_first_n_items_count(self) -> None:
        assert lower_bound([0.0, 1.0, 2.0, 3.0, 4.0], 2, 3.5) == 1


def pick_free(sums: list[float], n: int, chosen: list[int], n_chosen: int, u: float) -> int:
    """Pick with the earlier picks inserted one by one, in any order."""
    ordered, before = [0] * n_chosen, [0.0] * n_chosen
    for number, item in enumerate(reversed(chosen[:n_chosen])):
        insert_pick(sums, ordered, before, number, item)
    assert ordered == chosen[:n_chosen]
    return pick(sums, n, ordered, before, n_chosen, u)


def pick_by_scan(sums: list[float], n: int, chosen: list[int], u: float) -> int:
    """Step past every chosen item in turn."""
    x = u * (sums[n] - sum(sums[c + 1] - sums[c] for c in chosen))
    for c in chosen:
        if x >= sums[c]:
            x += sums[c + 1] - sums[c]
    return bisect_right(sums, x, 1, n) - 1


class TestPick:
    @settings(max_examples=500)
    @given(st.data(), weights, unit)
    def test_it_never_takes_a_chosen_item_and_stays_in_range(self, data: st.DataObject, masses: list[float], u: float) -> None:
        n = len(masses)
        chosen = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1)))
        item = pick_free(cumulative(masses), n, chosen, len(chosen), u)
        assert 0 <= item < n
        assert item not in chosen

    @pytest.mark.parametrize("u", [2.0**-53, 0.5, 1.0 - 2.0**-53])
    @pytest.mark.parametrize("n", [2, 3, 10, 100])
    @pytest.mark.parametrize("alpha", [0.0, 0.9, 1.5, 3.0])
    def test_all_items_can_be_picked_one_after_the_other(self, u: float, n: int, alpha: float) -> None:
        sums = cumulative([1.0 / k**alpha for k in range(1, n + 1)])
        chosen: list[int] = []
        for _ in range(n):
            insort(chosen, pick_free(sums, n, chosen, len(chosen), u))
        assert chosen == list(range(n))

    def test_the_first_n_chosen_are_left_out_and_no_more(self) -> None:
        sums = cumulative([1.0, 1.0, 1.0])
        assert {pick_free(sums, 3, [1, 2], 1, u) for u in uniform_grid(30)} == {0, 2}

    @pytest.mark.parametrize("chosen", [[], [0], [1], [3], [0, 1], [1, 3], [0, 2, 3]])
    @pytest.mark.parametrize("masses", [[4.0, 2.0, 1.0, 1.0], [4.0, 2.0, 0.1, 0.1], [0.1, 0.1, 1.0, 5.0]])
    def test_each_free_item_covers_its_share_of_the_uniform(self, masses: list[float], chosen: list[int]) -> None:
        grid = uniform_grid(8400)
        picks = [pick_free(cumulative(masses), 4, chosen, len(chosen), u) for u in grid]
        left = sum(weight for item, weight in enumerate(masses) if item not in chosen)
        for item, weight in enumerate(masses):
            share = 0.0 if item in chosen else weight / left
            assert picks.count(item) == pytest.approx(len(grid) * share, abs=1.0)

    def test_the_pick_grows_with_the_uniform(self) -> None:
        picks = [pick_free(cumulative([3.0, 1.0, 2.0, 5.0]), 4, [1], 1, u) for u in uniform_grid(500)]
        assert picks == sorted(picks)

    def test_successive_picks_have_the_probabilities_of_sampling_without_replacement(self) -> None:
        masses = [4.0, 2.0, 1.0, 1.0]
        total = sum(masses)
        expected = {
            (i, j, k): masses[i] / total * masses[j] / (total - masses[i]) * masses[k] / (total - masses[i] - masses[j])
            for i, j, k in permutations(range(4), 3)
        }
        n, sums, stream = 24_000, cumulative(masses), Stream(run_key(21))
        observed = dict.fromkeys(expected, 0)
        for _ in range(n):
            chosen: list[int] = []
            order: list[int] = []
            for _ in range(3):
                item = pick_free(sums, 4, chosen, len(chosen), stream.random_sample())
                insort(chosen, item)
                order.append(item)
            observed[order[0], order[1], order[2]] += 1
        frequencies = [n * probability for probability in expected.values()]
        assert stats.chisquare(list(observed.values()), frequencies).pvalue > 1e-4

    def test_equal_weights_make_every_subset_equally_likely(self) -> None:
        sums, stream = cumulative([1.0] * 5), Stream(run_key(22))
        counts: dict[tuple[int, ...], int] = {}
        for _ in range(10_000):
            chosen: list[int] = []
            for _ in range(3):
                insort(chosen, pick_free(sums, 5, chosen, len(chosen), stream.random_sample()))
            counts[tuple(chosen)] = counts.get(tuple(chosen), 0) + 1
        assert len(counts) == 10
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4

    @pytest.mark.parametrize("alpha", [0.0, 1.5])
    def test_a_pick_equals_a_scan_over_all_items(self, alpha: float) -> None:
        sums, stream = cumulative([1.0 / k**alpha for k in range(1, 301)]), Stream(run_key(23))
        chosen, before = [0] * 200, [0.0] * 200
        for number in range(200):
            u = stream.random_sample()
            item = pick(sums, 300, chosen, before, number, u)
            assert item == pick_by_scan(sums, 300, chosen[:number], u)
            insert_pick(sums, chosen, before, number, item)
