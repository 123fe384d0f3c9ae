"""The windows of a dataset: scenarios that are compared share theirs."""

from __future__ import annotations

from endive.analysis.warmup import Window
from endive.runs.dataset import Experiment
from endive.runs.parameters import SCENARIO_COLUMN, Value
from endive.studies.windows import one_for_all_scenarios

DURATION_MS = 600_000.0


def experiment(name: str, parameters: dict[str, Value], duration_ms: float = DURATION_MS) -> Experiment:
    return Experiment("study", name, "code", duration_ms, parameters)


def window(start_ms: float) -> Window:
    return Window(DURATION_MS, start_ms, DURATION_MS, "mser5")


def starts(own: dict[str, float], experiments: dict[str, Experiment]) -> dict[str, float]:
    found = one_for_all_scenarios({name: window(start) for name, start in own.items()}, experiments)
    return {name: each.start_ms for name, each in found.items()}


def test_scenarios_at_the_same_load_are_measured_in_the_same_window() -> None:
    experiments = {
        f"{name}-{load}": experiment(name, {SCENARIO_COLUMN: name, "param_retry": retry, "param_load": load})
        for name, retry in (("today", 4), ("more", 20))
        for load in (1, 9)
    }
    own = {"today-1": 10.0, "more-1": 20.0, "today-9": 300.0, "more-9": 50.0}
    assert starts(own, experiments) == {"today-1": 20.0, "more-1": 20.0, "today-9": 300.0, "more-9": 300.0}


def test_what_is_no_scenario_keeps_its_own() -> None:
    experiments = {"a": experiment("a", {"param_retry": 4}), "b": experiment("b", {"param_retry": 20})}
    assert starts({"a": 10.0, "b": 20.0}, experiments) == {"a": 10.0, "b": 20.0}


def test_runs_of_another_length_keep_their_own() -> None:
    half_ms = DURATION_MS / 2.0
    experiments = {
        "long": experiment("long", {SCENARIO_COLUMN: "long"}),
        "short": experiment("short", {SCENARIO_COLUMN: "short"}, half_ms),
    }
    own = {"long": window(20.0), "short": Window(half_ms, 10.0, half_ms, "mser5")}
    assert one_for_all_scenarios(own, experiments) == own
