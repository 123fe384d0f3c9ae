"""Differences over seeds, against arithmetic by hand and by scipy, and the sentences about them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from endive.analysis.paired import Difference, better, paired_difference, seeds_to_tell, unpaired_difference, verdict

A = [10.0, 12.0, 11.0, 13.0, 9.0]
B = [13.1, 15.0, 14.2, 15.9, 12.0]


def test_paired_differences_have_the_interval_of_student() -> None:
    found = paired_difference(A, B)
    expected = stats.ttest_rel(B, A).confidence_interval(0.95)
    assert found.difference == pytest.approx(3.04)
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert (found.n_a, found.n_b, found.paired, found.told) == (5, 5, True, True)


def test_unpaired_differences_have_the_interval_of_welch() -> None:
    found = unpaired_difference(A, B[:4])
    expected = stats.ttest_ind(B[:4], A, equal_var=False).confidence_interval(0.95)
    assert found.half_width == pytest.approx((expected.high - expected.low) / 2.0)
    assert not found.paired
    assert found.half_width is not None
    paired = paired_difference(A, B).half_width
    assert paired is not None
    assert found.half_width > 5.0 * paired


def test_the_interval_of_the_ratio_holds_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    hits = 0
    for _ in range(500):
        a = generator.normal(100.0, 10.0, 8)
        b = 1.3 * a + generator.normal(0.0, 2.0, 8)
        found = paired_difference(a.tolist(), b.tolist())
        assert found.ratio is not None
        assert found.ratio_half_width is not None
        hits += abs(found.ratio - 1.3) <= found.ratio_half_width
    assert 0.93 <= hits / 500 <= 0.97


def test_one_seed_has_no_interval() -> None:
    for found in (paired_difference([1.0], [2.0]), unpaired_difference([1.0], [2.0, 3.0])):
        assert found.half_width is found.ratio_half_width is None
        assert not found.told


def test_nothing_has_no_ratio_to_it() -> None:
    found = paired_difference([0.0, 0.0], [1.0, 2.0])
    assert found.ratio is found.ratio_half_width is None


def test_values_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="as many values"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="needs values"):
        unpaired_difference([], [1.0])


def test_the_seeds_that_it_takes_tell_the_difference() -> None:
    """Repeating the same spread so often makes the interval just clear of 0."""
    a = [0.0, 0.0, 0.0, 0.0]
    b = [1.2, -0.8, 1.0, -0.6]
    found = paired_difference(a, b)
    assert not found.told
    seeds = seeds_to_tell(found)
    assert seeds is not None

    def told(n: int) -> bool:
        spread = np.std(b, ddof=1)
        return bool(abs(np.mean(b)) > stats.t.ppf(0.975, n - 1) * spread / np.sqrt(n))

    assert told(seeds + 1)
    assert not told(seeds - 2)


def test_no_number_of_seeds_tells_what_is_equal() -> None:
    assert seeds_to_tell(paired_difference([1.0, 1.0], [1.0, 1.0])) is None
    assert seeds_to_tell(Difference(1.0, 1.0, 1e-9, 1.0, 1.0, 1.0, 5, 5, paired=True)) is None


@pytest.mark.parametrize(
    ("metric", "difference", "half_width", "ratio", "sentence"),
    [
        ("throughput_per_s", 12.14, 0.83, 1.34, "B commits 12.1 +- 0.83 more transactions per second (+34 %)"),
        ("throughput_per_s", -2.0, 0.5, 0.8, "B commits 2 +- 0.5 fewer transactions per second (-20 %)"),
        ("success_rate", -0.0512, 0.011, 0.95, "success rate is 5.12 +- 1.1 percentage points lower in B"),
        ("commit_latency_p99_ms", -1234.0, 99.0, 0.6, "commit latency p99 is 1.23 +- 0.099 s shorter in B (-40 %)"),
        ("retries_per_txn", 0.5, 0.1, 1.5, "B retries 0.5 +- 0.1 times more per transaction (+50 %)"),
        ("overhead", 0.02, 0.01, 1.1, "overhead is 2 +- 1 percentage points higher in B"),
        ("manifest_list_reads_per_txn", 3.0, 1.0, None, "manifest list reads is 3 +- 1 higher in B"),
        ("throughput_per_s", 0.0, 0.0, 1.0, "A and B are equal"),
    ],
)
def test_sentences(metric: str, difference: float, half_width: float, ratio: float | None, sentence: str) -> None:
    assert verdict(metric, Difference(1.0, 1.0 + difference, difference, half_width, ratio, 0.1, 5, 5, paired=True)) == sentence


def test_what_cannot_be_told_is_said_with_the_seeds_that_it_takes() -> None:
    found = Difference(10.0, 10.5, 0.5, 0.9, 1.05, 0.1, 5, 5, paired=True)
    seeds = seeds_to_tell(found)
    expected = f"no difference can be told: the interval contains 0; about {seeds} seeds would tell a difference of 0.5"
    assert verdict("throughput_per_s", found) == expected
    one = Difference(10.0, 10.5, 0.5, None, 1.05, None, 1, 1, paired=True)
    assert verdict("throughput_per_s", one).endswith("with one seed, which is too few to tell")


@pytest.mark.parametrize(
    ("metric", "difference", "expected"),
    [("throughput_per_s", 2.0, True), ("success_rate", -2.0, False), ("overhead", -2.0, True), ("offered_per_s", 2.0, None)],
)
def test_which_is_better(metric: str, difference: float, expected: bool | None) -> None:
    assert better(metric, Difference(5.0, 5.0 + difference, difference, 1.0, 1.0, 0.1, 5, 5, paired=True)) is expected
    assert better(metric, Difference(5.0, 5.0 + difference, difference, 3.0, 1.0, 0.1, 5, 5, paired=True)) is None
