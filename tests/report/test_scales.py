"""Axes: everything that is drawn lies inside, and nothing hides the rest."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from endive.report.figure import Axis, Figure, Reference, Scale, Threshold, choose_scale, find_domain, place_ticks, shares_y


def figure(y: list[float], scale: Scale = "linear", *, percent: bool = False, **more: Any) -> Figure:
    data = pd.DataFrame({"x": [float(k + 1) for k in range(len(y))], "y": y, **more.pop("columns", {})})
    return Figure("f", "F", "F.", more.pop("kind", "line"), data, Axis("x", "x (s)"), Axis("y", "y (ms)", scale, percent), **more)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1.0, 2.0, 3.0], "linear"),
        ([1.0, 1.5, 2.0, 900.0], "log"),
        ([0.0, 1.0, 1.5, 2.0, 900.0], "symlog"),
        ([math.nan, 1.0, 2.0], "linear"),
        ([], "linear"),
        ([1.0, 900.0], "linear"),
    ],
)
def test_one_value_that_would_hide_the_others_makes_the_axis_logarithmic(values: list[float], scale: str) -> None:
    assert choose_scale(values) == scale


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_axes_include_values_intervals_curves_and_thresholds(scale: Scale) -> None:
    columns = {"low": [1.0, 2.0, math.nan], "high": [40.0, math.nan, 6.0]}
    theory = Reference("theory", pd.DataFrame({"x": [0.5, 9.0], "y": [3.0, 70.0]}))
    made = figure([3.0, 4.0, 5.0], scale, columns=columns, low="low", high="high", references=(theory,))
    low, high = find_domain(made, "y", made.data)
    assert low <= 1.0
    assert high >= 70.0
    assert find_domain(made, "x", made.data)[1] >= 9.0
    marked = figure([3.0, 4.0, 5.0], scale, thresholds=(Threshold(90.0, "limit", low=80.0, high=99.0),))
    assert find_domain(marked, "y", marked.data)[1] >= 99.0


def test_an_interval_that_reaches_to_zero_does_not_stretch_a_logarithmic_axis() -> None:
    made = figure([100.0, 200.0], "log", columns={"low": [0.0, 150.0], "high": [300.0, 250.0]}, low="low", high="high")
    low, high = find_domain(made, "y", made.data)
    assert 10.0 <= low <= 100.0
    assert high >= 300.0


def test_the_axis_of_shares_near_one_does_not_start_at_zero() -> None:
    near = figure([0.99, 0.995, 1.0], percent=True)
    assert find_domain(near, "y", near.data)[0] > 0.98
    far = figure([0.2, 0.995, 1.0], percent=True)
    assert find_domain(far, "y", far.data) == (0.0, 1.04)
    bars = figure([0.99, 1.0], percent=True, kind="bars")
    assert find_domain(bars, "y", bars.data) == (0.0, 1.0)


def test_panels_that_cannot_be_compared_have_axes_of_their_own() -> None:
    alike = figure([1.0, 2.0], columns={"panel": ["a", "b"]}, facet="panel")
    unlike = figure([1.0, 200.0], columns={"panel": ["a", "b"]}, facet="panel")
    assert shares_y(alike)
    assert not shares_y(unlike)
    assert shares_y(figure([1.0, 200.0], "log", columns={"panel": ["a", "b"]}, facet="panel"))


def test_bars_of_parts_reach_as_far_as_their_sum_and_its_interval() -> None:
    data = pd.DataFrame({"x": ["a", "a", "b"], "part": ["p", "q", "p"], "y": [3.0, 4.0, 2.0], "high": [3.5, 6.0, math.nan]})
    made = Figure(
        "s", "S", "S.", "stacked", data, Axis("x", "x", "category"), Axis("y", "y (ms)"), part="part", low="y", high="high"
    )
    assert find_domain(made, "y", data) == (0.0, 9.0)


def test_ticks_are_at_measured_or_round_numbers() -> None:
    axis = Axis("x", "load (1/s)", "log")
    assert place_ticks(axis, (0.9, 26.0), [1.0, 2.0, 24.0]) == [1.0, 2.0, 24.0]
    assert place_ticks(axis, (0.9, 60.0), [float(k) for k in range(1, 60)]) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    assert place_ticks(axis, (0.9, 5e5)) == [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]
    assert place_ticks(Axis("x", "load (1/s)"), (0.0, 5.0)) is None
    assert place_ticks(Axis("x", "retries", "symlog"), (0.0, 150.0)) == [0.0, 0.1, 1.0, 10.0, 100.0]


@pytest.mark.parametrize(
    ("scale", "span", "expected"),
    [
        ("log", (12_000.0, 250_000.0), [15_000.0, 30_000.0, 60_000.0, 120_000.0, 240_000.0]),
        ("linear", (0.0, 250_000.0), [0.0, 60_000.0, 120_000.0, 180_000.0, 240_000.0]),
        ("linear", (0.0, 1_530.0), [0.0, 500.0, 1_000.0, 1_500.0]),
        ("log", (80.0, 900.0), [100.0, 200.0, 500.0]),
    ],
)
def test_durations_have_ticks_at_round_durations(scale: Scale, span: tuple[float, float], expected: list[float]) -> None:
    assert place_ticks(Axis("y", "p99 time to commit (ms)", scale), span) == expected
