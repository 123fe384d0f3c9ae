"""Differences and pairs of transactions in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from endive.analysis.cohort import Pairs
from endive.analysis.conditions import Subject
from endive.analysis.contrasts import (
    Difference,
    estimate_seeds_needed,
    least_rate_width,
    least_share_width,
    paired_difference,
    with_least_width,
)
from endive.analysis.run_metrics import empty_metrics
from endive.analysis.warmup import Window
from endive.report.comparison import Side, compare_sides, group_runs
from endive.report.verdicts import describe_difference, describe_pairs, explain_aborts, format_signed_change


@pytest.mark.parametrize(
    ("metric", "difference", "half_width", "ratio", "sentence"),
    [
        ("throughput_per_s", 12.14, 0.83, 1.34, "throughput 12.1 ± 0.8/s higher in B (+34%)"),
        ("throughput_per_s", -2.0, 0.5, 0.8, "throughput 2.0 ± 0.5/s lower in B (-20%)"),
        ("success_rate", -0.0512, 0.011, 0.95, "success 5.1 ± 1.1 pp lower in B"),
        ("time_to_commit_p99_ms", -1234.0, 99.0, 0.6, "p99 time to commit 1.23 ± 0.10 s shorter in B (-40%)"),
        ("commit_latency_p99_ms", 5.0, 1.0, 1.5, "p99 commit latency of committed transactions 5.0 ± 1.0 ms longer in B (+50%)"),
        ("retries_per_txn", 0.5, 0.1, 1.5, "retries per transaction 0.50 ± 0.10 higher in B (+50%)"),
        ("overhead", 0.02, 0.01, 1.1, "commit overhead 2.0 ± 1.0 pp higher in B"),
        ("manifest_list_reads_per_txn", 3.0, 1.0, None, "manifest list reads 3.0 ± 1.0 higher in B"),
    ],
)
def test_sentences(metric: str, difference: float, half_width: float, ratio: float | None, sentence: str) -> None:
    assert (
        describe_difference(metric, Difference(1.0, 1.0 + difference, difference, half_width, ratio, 0.1, 5, 5, paired=True))
        == sentence
    )


@pytest.mark.parametrize(
    ("metric", "difference", "half_width", "answer"),
    [
        ("success_rate", -1.11e-16, 0.42, "0 ± 42 pp"),
        ("success_rate", 0.0833, 0.42, "+8 ± 42 pp"),
        ("throughput_per_s", -1.62e-5, 1.2e-6, "−0.0000162 ± 0.0000012/s"),
        ("throughput_per_s", 2.5e-5, None, "+0.000025/s"),
    ],
)
def test_in_short_no_difference_is_a_power_of_ten(metric: str, difference: float, half_width: float | None, answer: str) -> None:
    found = Difference(1.0, 1.0 + difference, difference, half_width, None, 0.1, 5, 5, paired=True)
    assert format_signed_change(metric, found) == answer


def test_an_insignificant_difference_is_reported_with_the_seeds_needed() -> None:
    found = Difference(10.0, 10.5, 0.5, 0.9, 1.05, 0.1, 5, 5, paired=True)
    seeds = estimate_seeds_needed(found)
    expected = f"no significant difference; about {seeds} seeds are needed to detect a difference of 0.5/s"
    assert describe_difference("throughput_per_s", found) == expected
    one = Difference(10.0, 10.5, 0.5, None, 1.05, None, 1, 1, paired=True)
    assert describe_difference("throughput_per_s", one).endswith("(one seed: no interval)")


def test_seeds_that_agree_are_not_called_equal() -> None:
    """They were said to be equal, 0 ± 0."""
    equal = paired_difference([1.0] * 3, [1.0] * 3)
    assert describe_difference("time_to_commit_p50_ms", equal) == "identical in all 3 seeds"
    share = with_least_width(equal, least_share_width(3000))
    assert (
        describe_difference("success_rate", share)
        == "identical in all 3 seeds; the 95% interval includes differences of up to 0.128 pp"
    )
    rate = with_least_width(equal, least_rate_width(600.0))
    assert (
        describe_difference("throughput_per_s", rate)
        == "identical in all 3 seeds; the 95% interval includes differences of up to 0.0064/s"
    )
    constant = paired_difference([10.0] * 3, [12.0] * 3)
    assert describe_difference("time_to_commit_p50_ms", constant) == "p50 time to commit 2 ms longer in B (+20%) in each of 3 seeds"
    two = paired_difference([10.0] * 2, [12.0] * 2)
    assert describe_difference("time_to_commit_p50_ms", two).endswith("(2 seeds: too few for an interval)")


def test_pairs() -> None:
    found = Pairs(pairs=1040, both=1000, faster_b=720, slower_b=270, only_a=31, only_b=4, neither=3, unfinished=2)
    assert describe_pairs({"ingest": found}) == [
        "1,000 transactions commit in both A and B: 720 are faster in B, 270 are slower in B and 10 are equally fast. "
        "31 commit only in A, 4 commit only in B, 3 commit in neither and 2 are in flight at the end of a run."
    ]
    answer = describe_pairs({"ingest": Pairs(), "clients": None})
    assert answer[0] == "No transaction started committing in the measurement window of both A and B."
    assert answer[1].startswith("Transactions of clients cannot be paired")
    assert describe_pairs({}) == []


def test_a_side_that_fails_names_its_abort_reasons() -> None:
    """A scenario at 0% was shown without a reason."""
    reasons = {"aborted_max_retries_exceeded": 9, "aborted_commit_timeout": 0, "aborted_validation_exception": 27}
    row = {"seed": 0, "workload_class": "all", "operation_type": "all", "transactions": 40, "aborted": 36, **reasons}
    failing = Side("b.toml", "B", group_runs([row]), "1")
    passing = Side("a.toml", "A", group_runs([{**row, "aborted": 0}]), "1")
    assert explain_aborts([passing, failing]) == [
        "B: 90% of transactions abort (reasons: 25% max retries exceeded, 75% validation exception)."
    ]


def _side(name: str, success: float, in_flight: int) -> Side:
    """A side of three seeds with this success, plus a small noise, and this number of transactions in flight of 1,000."""
    window = Window(600_000.0, 100_000.0, 600_000.0, "runtimes", True, None)
    rows = []
    for seed in range(3):
        committed = round(1000 * success) + seed
        row = {"seed": seed, "workload_class": "all", "operation_type": "all", "transactions": 1000, "in_flight": in_flight}
        row |= {"committed": committed, "aborted": 1000 - committed - in_flight}
        times: dict[str, Any] = {"warmup_ms": 100_000.0, "window_ms": 500_000.0, "duration_ms": 600_000.0}
        times |= {"warmup_by": "runtimes", "warmup_settled": True, "needed_ms": None}
        rows.append({**empty_metrics(window), **times, **row, "success_rate": (committed + in_flight / 2.0) / 1000.0})
    return Side(f"{name}.toml", name, group_runs(rows), "1")


@pytest.mark.parametrize(("in_flight", "clear"), [(0, True), (120, False)])
def test_transactions_in_flight_leave_the_best_open(in_flight: int, clear: bool) -> None:
    """Half of the alternatives did not differ significantly, and the best was "significantly better than all others"."""
    sides = [_side("a", 0.85, in_flight), _side("b", 0.80, in_flight), _side("c", 0.40, in_flight)]
    (ranking,) = compare_sides(sides, [Subject("success_rate", "all")]).rankings
    assert ranking.best is not None
    assert (ranking.best.name, ranking.best.clear) == ("a", clear)
    assert ranking.best.rivals == (() if clear else ("b",))
