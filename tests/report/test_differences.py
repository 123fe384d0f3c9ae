"""Differences and pairs of transactions in sentences."""

from __future__ import annotations

import pytest

from endive.analysis.cohort import Pairs
from endive.analysis.contrasts import (
    Difference,
    least_rate_width,
    least_share_width,
    paired_difference,
    seeds_to_tell,
    with_least_width,
)
from endive.report.differences import pairs_in_words, signed_amount, verdict


@pytest.mark.parametrize(
    ("metric", "difference", "half_width", "ratio", "sentence"),
    [
        ("throughput_per_s", 12.14, 0.83, 1.34, "B commits 12.1 ± 0.83 more transactions per second (+34%)"),
        ("throughput_per_s", -2.0, 0.5, 0.8, "B commits 2 ± 0.5 fewer transactions per second (-20%)"),
        ("success_rate", -0.0512, 0.011, 0.95, "success rate is 5.12 ± 1.1 percentage points lower in B"),
        ("time_to_commit_p99_ms", -1234.0, 99.0, 0.6, "time to commit p99 is 1.23 ± 0.099 s shorter in B (-40%)"),
        ("commit_latency_p99_ms", 5.0, 1.0, 1.5, "commit latency p99 of the committed is 5 ± 1 ms longer in B (+50%)"),
        ("retries_per_txn", 0.5, 0.1, 1.5, "B retries 0.5 ± 0.1 times more per transaction (+50%)"),
        ("overhead", 0.02, 0.01, 1.1, "overhead is 2 ± 1 percentage points higher in B"),
        ("manifest_list_reads_per_txn", 3.0, 1.0, None, "manifest list reads is 3 ± 1 higher in B"),
    ],
)
def test_sentences(metric: str, difference: float, half_width: float, ratio: float | None, sentence: str) -> None:
    assert verdict(metric, Difference(1.0, 1.0 + difference, difference, half_width, ratio, 0.1, 5, 5, paired=True)) == sentence


@pytest.mark.parametrize(
    ("metric", "difference", "half_width", "told"),
    [
        ("success_rate", -1.11e-16, 0.42, "0 ± 42 pp"),
        ("success_rate", 0.0833, 0.42, "+8.33 ± 42 pp"),
        ("throughput_per_s", -1.62e-5, 1.2e-6, "\N{MINUS SIGN}0.0000162 ± 0.0000012"),
        ("throughput_per_s", 2.5e-5, None, "+0.000025"),
    ],
)
def test_in_short_no_difference_is_a_power_of_ten(metric: str, difference: float, half_width: float | None, told: str) -> None:
    found = Difference(1.0, 1.0 + difference, difference, half_width, None, 0.1, 5, 5, paired=True)
    assert signed_amount(metric, found) == told


def test_what_cannot_be_told_is_said_with_the_seeds_that_it_takes() -> None:
    found = Difference(10.0, 10.5, 0.5, 0.9, 1.05, 0.1, 5, 5, paired=True)
    seeds = seeds_to_tell(found)
    expected = f"no difference can be told: the interval contains 0; about {seeds} seeds would tell a difference of 0.5"
    assert verdict("throughput_per_s", found) == expected
    one = Difference(10.0, 10.5, 0.5, None, 1.05, None, 1, 1, paired=True)
    assert verdict("throughput_per_s", one).endswith("with one seed, which is too few to tell")


def test_seeds_that_agree_are_not_called_equal() -> None:
    """They were said to be equal, 0 ± 0."""
    equal = paired_difference([1.0] * 3, [1.0] * 3)
    assert verdict("time_to_commit_p50_ms", equal) == "no difference in any of 3 seeds"
    share = with_least_width(equal, least_share_width(3000))
    assert verdict("success_rate", share) == "no difference in any of 3 seeds; one of 0.128 percentage points may be unseen"
    rate = with_least_width(equal, least_rate_width(600.0))
    assert verdict("throughput_per_s", rate) == "no difference in any of 3 seeds; one of 0.0064 may be unseen"
    constant = paired_difference([10.0] * 3, [12.0] * 3)
    assert verdict("time_to_commit_p50_ms", constant) == "time to commit p50 is 2 ms longer in B (+20%), in each of 3 seeds"
    two = paired_difference([10.0] * 2, [12.0] * 2)
    assert verdict("time_to_commit_p50_ms", two).endswith("with 2 seeds, which are too few to tell")


def test_pairs() -> None:
    found = Pairs(pairs=1040, both=1000, faster_b=720, slower_b=270, only_a=31, only_b=4, neither=3, unfinished=2)
    assert pairs_in_words({"ingest": found}) == [
        "Transaction by transaction: of 1,000 that both committed, 720 were faster in B and 270 slower, 10 took as long; 31 "
        "committed only in A and 4 only in B, 3 in neither, 2 were unfinished in one or both."
    ]
    told = pairs_in_words({"ingest": Pairs(), "clients": None})
    assert told[0] == "No transaction entered in the window of both A and B."
    assert told[1].startswith("Transactions of clients cannot be paired")
    assert pairs_in_words({}) == []
