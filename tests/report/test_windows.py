"""What is said of windows, percentiles and success."""

from __future__ import annotations

import math

import pytest

from endive.analysis.warmup import Window
from endive.report.windows import percentile_in_words, ranges_in_words, success_in_words, window_in_words, window_warning


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (
            Window(3_600_000.0, 690_000.0, 3_600_000.0, "runtimes"),
            "The first 690 s of 3,600 s are cut (until 95 % of the entry rate",
        ),
        (Window(600_000.0, 60_000.0, 590_000.0, "given"), "The first 60 s and the last 10 s of 600 s are cut (as asked for)."),
        (Window(600_000.0, 0.0, 600_000.0, "schedule"), "The run of 600 s is measured whole: its load changes by plan."),
        (Window(600_000.0, 0.0, 600_000.0, "runtimes"), "Nothing of 600 s is cut."),
        (Window(600_000.0, 300_000.0, 600_000.0, "runtimes", False, 1_378_000.0), "The first 300 s of 600 s are cut (half of it)."),
    ],
)
def test_windows(window: Window, told: str) -> None:
    assert window_in_words(window).startswith(told)


def test_a_run_that_is_too_short_is_told_how_long_it_should_be() -> None:
    short = Window(600_000.0, 300_000.0, 600_000.0, "runtimes", False, 1_378_000.0)
    assert "it should last 1,378 s" in (window_warning(short) or "")
    assert window_warning(Window(600_000.0, 1.0, 600_000.0, "runtimes")) is None


@pytest.mark.parametrize(
    ("value", "least", "told"),
    [(1200.0, 1100.0, "1.2 s"), (None, 12_000.0, "> 12 s"), (None, math.inf, "never"), (None, None, "-")],
)
def test_percentiles(value: float | None, least: float | None, told: str) -> None:
    assert percentile_in_words({"x_p99_ms": value, "x_p99_at_least_ms": least}, "x_p99_ms") == told


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(1.0, 1.0, "100 %"), (0.1, 1.0, "10 to 100 %"), (0.9991, 0.9992, "99.9 %"), (None, None, "-"), (0.333, 0.667, "33 to 67 %")],
)
def test_success(low: float | None, high: float | None, told: str) -> None:
    assert success_in_words(low, high) == told


def test_ranges_of_success_are_explained_where_there_is_one() -> None:
    assert ranges_in_words(["90 %", "> 5 s", "ingest", "1 to 2 s"]) is None
    told = ranges_in_words(["today", success_in_words(0.9, 0.99)])
    assert told is not None
    assert "the unfinished" in told
    assert "no interval" in told
