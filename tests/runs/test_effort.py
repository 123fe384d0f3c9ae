from __future__ import annotations

from typing import Any

import pytest

from endive.config import Document
from endive.runs.effort import Effort, estimate_effort, preparation_seconds
from endive.simulation.expected import ExpectedWork


def document(**sections: Any) -> Document:
    base = {
        "simulation": {"duration_ms": 60_000, "seed": 1},
        "storage": {"provider": "s3"},
        "workload": {"writers": {"rate": 1.0, "operation": "fast_append"}},
    }
    return Document.model_validate(base | sections)


def test_cpu_time_is_that_of_model_engine_and_rows() -> None:
    work = ExpectedWork(transactions=1e6, engine_s=3.0, reference_s=400.0, setup_s=2.0)
    nothing = Effort(ExpectedWork(), 1, 0.0).cpu_seconds
    assert 6.0 < Effort(work, 1, 1.0).cpu_seconds - nothing < 10.0
    assert Effort(work, 2, 1.0).cpu_seconds - Effort(work, 1, 1.0).cpu_seconds == pytest.approx(nothing)


def test_efforts_add_up() -> None:
    one = estimate_effort(document())
    three = one + one + one
    assert three.runs == 3
    assert three.transactions == pytest.approx(180.0, rel=0.02)
    assert three.cpu_seconds == pytest.approx(3.0 * one.cpu_seconds)
    assert three.disk_bytes == pytest.approx(3.0 * one.disk_bytes)
    assert Effort().cpu_seconds == 0.0


def test_tables_and_classes_take_time_to_prepare() -> None:
    tables = preparation_seconds(document(catalog={"num_tables": 100_000}))
    classes = preparation_seconds(document(workload={f"c{k}": {"rate": 0.001} for k in range(100)}))
    assert 1.0 < tables < preparation_seconds(document(catalog={"num_tables": 1_000_000})) / 5.0
    assert classes > 10.0 * preparation_seconds(document())
