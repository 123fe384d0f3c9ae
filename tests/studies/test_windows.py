"""Experiments that are compared are measured in one window."""

from __future__ import annotations

from endive.runs.identity import SCENARIO_COLUMN, Value
from endive.runs.stored import Experiment
from endive.studies.tables import compared_experiments

DURATION_MS = 600_000.0


def experiment(name: str, parameters: dict[str, Value], duration_ms: float = DURATION_MS) -> Experiment:
    return Experiment("study", name, "code", duration_ms, parameters)


def test_scenarios_at_the_same_load_are_compared() -> None:
    experiments = {
        f"{name}-{load}": experiment(name, {SCENARIO_COLUMN: name, "param_retry": retry, "param_load": load})
        for name, retry in (("today", 4), ("more", 20))
        for load in (1, 9)
    }
    assert compared_experiments(experiments) == [["today-1", "more-1"], ["today-9", "more-9"]]


def test_experiments_without_scenarios_have_their_own_window() -> None:
    experiments = {"a": experiment("a", {"param_retry": 4}), "b": experiment("b", {"param_retry": 20})}
    assert compared_experiments(experiments) == [["a"], ["b"]]


def test_scenarios_of_different_lengths_have_their_own_windows() -> None:
    experiments = {
        "long": experiment("long", {SCENARIO_COLUMN: "long"}),
        "short": experiment("short", {SCENARIO_COLUMN: "short"}, DURATION_MS / 2.0),
    }
    assert compared_experiments(experiments) == [["long"], ["short"]]
