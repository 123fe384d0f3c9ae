"""What is said of windows, percentiles and success."""

from __future__ import annotations

import math

import pytest

from endive.analysis.warmup import Window
from endive.formatting import format_percent_range
from endive.report.phrases import describe_short_run, describe_window, explain_ranges, format_bounded


@pytest.mark.parametrize(
    ("window", "answer"),
    [
        (
            Window(3_600_000.0, 690_000.0, 3_600_000.0, "runtimes"),
            "The first 11.5 min of 1 h are excluded as warm-up.",
        ),
        (
            Window(600_000.0, 60_000.0, 590_000.0, "given"),
            "The first 1 min and the last 10 s of 10 min are excluded as requested.",
        ),
        (
            Window(600_000.0, 0.0, 600_000.0, "schedule"),
            "The whole run of 10 min is measured, because its load follows a schedule.",
        ),
        (Window(600_000.0, 0.0, 600_000.0, "runtimes"), "The whole run of 10 min is measured."),
        (
            Window(600_000.0, 300_000.0, 600_000.0, "runtimes", False, 1_378_000.0),
            "The first 5 min of 10 min are excluded",
        ),
    ],
)
def test_windows(window: Window, answer: str) -> None:
    assert describe_window(window).startswith(answer)


def test_a_run_that_is_too_short_is_reported_how_long_it_should_be() -> None:
    short = Window(600_000.0, 300_000.0, 600_000.0, "runtimes", False, 1_378_000.0)
    assert "at least 23 min" in (describe_short_run(short) or "")
    assert describe_short_run(Window(600_000.0, 1.0, 600_000.0, "runtimes")) is None


@pytest.mark.parametrize(
    ("value", "least", "answer"),
    [(1200.0, 1100.0, "1.2 s"), (None, 12_000.0, "> 12 s"), (None, math.inf, "aborted"), (None, None, "-")],
)
def test_percentiles(value: float | None, least: float | None, answer: str) -> None:
    row = {"time_to_commit_p99_ms": value, "time_to_commit_p99_at_least_ms": least}
    assert format_bounded(row, "time_to_commit_p99_ms") == answer


def test_retries_of_many_in_flight_are_a_lower_bound() -> None:
    assert format_bounded({"retries_per_txn": None, "retries_per_txn_at_least": 5 / 3}, "retries_per_txn") == "≥ 1.67"
    assert format_bounded({"retries_per_txn": 0.5, "retries_per_txn_at_least": 0.49}, "retries_per_txn") == "0.5"


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(1.0, 1.0, "100%"), (0.1, 1.0, "10–100%"), (0.9741, 0.9742, "97.4%"), (None, None, "-"), (0.333, 0.667, "33.3–66.7%")],
)
def test_success(low: float | None, high: float | None, answer: str) -> None:
    assert format_percent_range(low, high) == answer


def test_ranges_of_success_are_explained_where_there_is_one() -> None:
    assert explain_ranges(["90%", "> 5 s", "ingest", "1–2 s"]) is None
    answer = explain_ranges(["today", format_percent_range(0.9, 0.99)])
    assert answer is not None
    assert "in flight at the end of the run" in answer
    assert "not a confidence interval" in answer
