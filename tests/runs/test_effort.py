from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.cache_directory import CACHE_VARIABLE
from endive.config import Document
from endive.runs import effort as speed
from endive.runs.effort import USUAL, Effort, Speed, estimate_effort, is_measured, measure_for, measure_speed, speed_of_this_machine
from endive.simulation.expected import ExpectedWork


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    speed_of_this_machine.cache_clear()
    return tmp_path / "cache"


def document(rate: float) -> Document:
    return Document.model_validate(
        {
            "simulation": {"duration_ms": 3_600_000, "seed": 1},
            "storage": {"provider": "s3"},
            "transaction": {"retry": 10},
            "workload": {"writers": {"rate": rate, "operation": "fast_append"}},
        }
    )


def test_cpu_time_is_that_of_runs_transactions_and_steps() -> None:
    speed = Speed(run_s=1.0, transaction_s=0.1, step_s=0.01)
    assert speed.cpu_seconds(ExpectedWork(transactions=10, steps=30, accesses=20), runs=2) == pytest.approx(2.0 + 1.0 + 0.5)


def test_efforts_add_up() -> None:
    one = estimate_effort(document(1.0))
    three = one + one + one
    assert three.runs == 3
    assert three.cpu_seconds == pytest.approx(3.0 * one.cpu_seconds)
    assert three.disk_bytes == pytest.approx(3.0 * one.disk_bytes)
    assert Effort().cpu_seconds == 0.0


def test_overload_costs_more_than_its_transactions() -> None:
    idle, overloaded = estimate_effort(document(0.5)), estimate_effort(document(20.0))
    assert overloaded.transactions == pytest.approx(40.0 * idle.transactions)
    assert overloaded.work.steps > 150.0 * idle.work.steps


@pytest.mark.parametrize("text", ["", "[]", '{"run_s": 1}', '{"run_s": -1, "transaction_s": 1e-6, "step_s": 1e-7}', "\x00"])
def test_a_damaged_record_of_the_speed_is_done_without(cache: Path, text: str) -> None:
    path = speed._file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert speed_of_this_machine() == USUAL


def test_a_small_study_is_estimated_without_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.runs.effort.measure_speed", lambda: pytest.fail("measured"))
    measure_for(estimate_effort(document(0.1)))


def test_the_measured_speed_is_stored(cache: Path) -> None:
    found = measure_speed()
    assert is_measured()
    assert speed_of_this_machine() == found
    assert json.loads(speed._file().read_text())["run_s"] == found.run_s
    assert 0.0 < found.step_s < found.transaction_s < found.run_s


@pytest.mark.parametrize(
    "changes", [{"catalog": {"num_tables": 100_000}}, {"workload": {f"c{k}": {"rate": 0.001} for k in range(50)}}]
)
def test_tables_and_classes_count(changes: dict[str, Any]) -> None:
    base = {"simulation": {"duration_ms": 1_000.0}, "storage": {"provider": "s3x"}, "workload": {"one": {"rate": 0.05}}}
    few, many = (estimate_effort(Document.model_validate(tree)) for tree in (base, {**base, **changes}))
    assert many.cpu_seconds - few.cpu_seconds > 0.3
    assert (many + few).cpu_seconds == pytest.approx(many.cpu_seconds + few.cpu_seconds)
