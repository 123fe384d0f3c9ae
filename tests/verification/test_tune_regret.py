"""The advice of ``endive tune`` against an exhaustive search."""

from __future__ import annotations

import json
from pathlib import Path

from endive.analysis.halving import Plan
from verification.tune_regret import LIMIT, RESULTS, SETS, System, measure_regret

SMALL = System(
    "aligned writers",
    '\n[workload.fleet]\nwriters = 5\nevery = "10s"\nphase = "aligned"\noperation = "fast_append"\n',
    "p50(fleet)",
    ("success(fleet) >= 90%",),
    vary=("workload.fleet.retry=1,2,4,8",),
)


def test_the_advice_on_a_small_system_is_the_best_of_its_grid(tmp_path: Path) -> None:
    short = {"simulation.duration_ms": 120_000, "simulation.engine": "reference"}
    found = measure_regret(SMALL, tmp_path, Plan((1, 2), final_seeds=2, refined=6), range(100, 102), range(200, 202), 2, short)
    assert found["grid"] == 8
    assert "workload.fleet.phase = staggered" in found["advice"]
    assert found["regret"] <= LIMIT
    assert found["advice_cost"] < found["today_cost"]


def test_the_recorded_regret_of_known_systems_is_at_most_the_limit() -> None:
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))
    for label, systems in SETS.items():
        assert [each["name"] for each in recorded[label]] == [each.name for each in systems]
        assert len(systems) == 10
        assert all(each["tried"] < each["grid"] for each in recorded[label]), "a search that tries all is no search"
    assert all(each["agrees"] and each["regret"] <= recorded["limit"] <= LIMIT for each in recorded["development"])


def test_the_recorded_regret_of_held_out_systems_is_as_it_came() -> None:
    """Two of them have no setting that meets the conditions, and get no advice."""
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))["held out"]
    regrets = {each["name"]: each["regret"] for each in recorded if each["best"] is not None}
    assert len(regrets) == 8
    assert max(regrets.values()) <= LIMIT
    assert all(each["agrees"] for each in recorded)
    assert sum(each["advice"] is None for each in recorded) == 2
