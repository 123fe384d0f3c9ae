"""What is off is seen to be off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from verification.iceberg import golden, rows
from verification.iceberg.counts import Counts
from verification.iceberg.java_cases import JavaCase
from verification.iceberg.rows import counts_row, victim_row, writers_row
from verification.iceberg.simulated import Predicted
from verification.iceberg.victims import VictimCase, VictimResult
from verification.iceberg.writers import WritersCase, WritersResult

APPEND = JavaCase("fast_append")
PREDICTED = Predicted(attempts_per_commit=2.0, attempts_per_operation=1.9, success=0.9, commits_per_second=1.0)
RESULT = WritersResult(operations=100, commits=90, attempts=180, commits_in_time=40, seconds=40.0)


def measured() -> Counts:
    document = golden.load(golden.JAVA)[golden.case_name(APPEND)]
    kinds = document["attempts"]
    attempts = [{kind: counts[i] for kind, counts in kinds.items() if counts[i]} for i in range(3)]
    return Counts(document["start"], attempts, document["after"])


def test_counts_that_are_equal_are_within() -> None:
    assert counts_row(APPEND, measured()).within


def test_one_read_more_is_off() -> None:
    counts = measured()
    attempts = [*counts.attempts[:2], counts.attempts[2] | {"manifest_list_reads": 2}]
    row = counts_row(APPEND, replace(counts, attempts=attempts))
    assert row.difference == {"attempts.manifest_list_reads": [[1, 1, 2], [1, 1, 1]]}
    assert row.unexplained()


def test_a_failure_that_the_simulator_does_not_see_is_off() -> None:
    row = counts_row(APPEND, replace(measured(), error="ValidationException: found"))
    assert row.difference == {"error": ["ValidationException", None]}
    assert row.unexplained()


@pytest.mark.parametrize(
    ("attempts", "success", "within"), [(2.29, 0.99, True), (1.71, 0.81, True), (2.31, 0.9, False), (2.0, 0.79, False)]
)
def test_bars_of_writers(attempts: float, success: float, within: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    predicted = replace(PREDICTED, attempts_per_commit=attempts, success=success)
    monkeypatch.setattr(rows, "predict_writers", lambda case, database=None: predicted)
    assert writers_row(WritersCase("java", "fast_append", 2), RESULT).within == within


@pytest.mark.parametrize(("success", "within"), [(0.5, True), (0.7, True), (0.8, False), (0.2, False)])
def test_the_tolerance_of_victims_follows_from_their_repetitions(
    success: float, within: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "predict_victim", lambda case: replace(PREDICTED, success=success))
    row = victim_row(VictimCase("rewrite_files", 1.0), VictimResult(commits=12, repetitions=24, attempts=30))
    assert row.measured["success_interval"] == pytest.approx([0.291, 0.709], abs=2e-3)
    assert row.within == within
