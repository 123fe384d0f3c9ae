"""Durations as text: the same as so many milliseconds, wherever a key is a time."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.config import compute_experiment_hash, json_schema
from endive.config.load import parse_assignment
from endive.config.values import UNITS_MS, duration_ms, plain_value
from tests.config import checked, problems


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("250ms", 250.0), ("90s", 90_000.0), ("4min", 240_000.0), ("1h", 3_600_000.0), ("1.5h", 5_400_000.0), ("2d", 172_800_000.0)],
)
def test_durations_are_converted_to_milliseconds(text: str, expected_ms: float) -> None:
    assert duration_ms(text) == expected_ms


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS_MS)))
def test_every_unit_is_read_back(count: int, unit: str) -> None:
    assert duration_ms(f"{count}{unit}") == count * UNITS_MS[unit]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("90 s", '"90s"'),
        ("90 sec", '"90s"'),
        ("4m", '"4min"'),
        ("4 Minutes", '"4min"'),
        ("1 hour", '"1h"'),
        ("90", '"90ms"'),
        ("1_000 ms", '"1000ms"'),
    ],
)
def test_an_error_names_the_nearest_form(text: str, nearest: str) -> None:
    with pytest.raises(ValueError, match="must be a number of milliseconds or a duration") as caught:
        duration_ms(text)
    assert f"did you mean {nearest}?" in str(caught.value)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1s 2ms", "s", "1e3", "nan"])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("key", "text", "value_ms"),
    [
        ("simulation.duration_ms", "4min", 240_000),
        ("transaction.total_timeout_ms", "30min", 1_800_000),
        ("transaction.runtime.mean", "3min", 180_000),
        ("transaction.inter_arrival.scale", "250ms", 250),
        ("storage.min_latency_ms", "5ms", 5),
        ("storage.T_CAS", {"mean": "4ms", "stddev": "1ms"}, {"mean": 4, "stddev": 1}),
        ("transaction.retry_backoff", {"enabled": True, "base_ms": "1s"}, {"enabled": True, "base_ms": 1_000}),
    ],
)
def test_a_file_may_contain_durations_or_milliseconds(key: str, text: Any, value_ms: Any) -> None:
    text_document, number_document = checked(overrides={key: text}), checked(overrides={key: value_ms})
    assert text_document == number_document
    assert compute_experiment_hash(text_document) == compute_experiment_hash(number_document)


def test_an_assignment_of_the_command_line_may_be_a_duration() -> None:
    key, value = parse_assignment("simulation.duration_ms=90s")
    assert checked(overrides={key: value}).simulation.duration_ms == 90_000.0


def test_a_file_with_a_wrong_duration_names_its_key() -> None:
    found = problems(overrides={"transaction.total_timeout_ms": "5 mins"})
    assert 'did you mean "5min"?' in found["transaction.total_timeout_ms"]


def test_bounds_hold_for_durations() -> None:
    assert "greater than 0" in problems(overrides={"simulation.duration_ms": "0s"})["simulation.duration_ms"]


def test_plain_values_are_for_times_only() -> None:
    assert plain_value("simulation.duration_ms", "90s") == 90_000.0
    assert plain_value("experiment.label", "90s") == "90s"
    assert plain_value("simulation.duration_ms", "90 s") == "90 s"


def test_the_json_schema_accepts_durations() -> None:
    number, text = json_schema()["$defs"]["SimulationSection"]["properties"]["duration_ms"]["anyOf"]
    assert number["type"] == "number"
    assert re.search(text["pattern"], "90s")
    assert not re.search(text["pattern"], "90 s")
