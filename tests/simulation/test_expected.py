"""Estimates of effort, against runs: nothing is timed, so they are the same every time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig
from endive.simulation.expected import ExpectedWork, expected_work

BASE: dict[str, Any] = {
    "simulation": {"duration_ms": 600_000, "seed": 1},
    "storage": {"provider": "s3", "profile": "2025-06"},
    "transaction": {"retry": 10, "runtime": {"mean": 10_000, "sigma": 0.5}},
}


def built(**sections: Any) -> SimulationConfig:
    return build_simulation_config(Document.model_validate(BASE | sections))


def counted(config: SimulationConfig) -> ExpectedWork:
    found = ExpectedWork(0.0, 0.0, 0.0)

    def count(batch: pa.RecordBatch) -> None:
        nonlocal found
        files = [name for name in batch.schema.names if name.endswith(("_reads", "_writes", "_appends", "_deletes"))]
        accesses = sum(pc.sum(batch.column(name)).as_py() for name in files)
        found = found + ExpectedWork(batch.num_rows, pc.sum(batch.column("event_count")).as_py(), accesses)

    counters = Simulation(config).stream(count).counts
    return replace(found, steps=found.steps + counters["append_physical_failure"])


APPENDS = {"operation": "fast_append"}
CASES: dict[str, dict[str, Any]] = {
    "idle": {"workload": {"writers": {"rate": 0.2, **APPENDS}}},
    "at the knee": {"workload": {"writers": {"rate": 3.0, **APPENDS}}},
    "three times the knee": {"workload": {"writers": {"rate": 9.0, **APPENDS}}},
    "closed": {"workload": {"writers": {"closed": {"clients": 4}, **APPENDS}}},
    "a log past saturation": {
        "storage": {"provider": "azure", "profile": "2025-06"},
        "catalog": {"type": "append"},
        "workload": {"writers": {"rate": 4.0, **APPENDS}},
    },
    "a log that conflicts fill": {
        "simulation": {"duration_ms": 120_000, "seed": 1},
        "storage": {"provider": "s3x", "profile": "2025-06"},
        "catalog": {"type": "append"},
        "workload": {"writers": {"rate": 16.0, **APPENDS}},
    },
    "merges on many tables": {
        "catalog": {"num_tables": 200, "num_groups": 1},
        "workload": {"writers": {"rate": 3.0, "operation": "merge_append"}},
    },
    "jobs longer than the run": {
        "transaction": {"retry": 10, "runtime": {"mean": 600_000, "sigma": 1.0}},
        "workload": {"writers": {"rate": 3.0, **APPENDS}},
    },
    "validation beside appends": {
        "storage": {"provider": "s3x", "profile": "2025-06"},
        "workload": {
            "writers": {"rate": 4.0, **APPENDS},
            "overwrites": {"periodic": {"interval_ms": 60_000}, "operation": "validated_overwrite"},
        },
    },
}


@pytest.mark.parametrize("name", CASES)
def test_transactions_and_steps_are_within_a_factor_of_two(name: str) -> None:
    config = built(**CASES[name])
    expected, real = expected_work(config), counted(config)
    assert real.transactions / 1.3 < expected.transactions < real.transactions * 1.3
    assert real.steps / 2.0 < expected.steps < real.steps * 2.0


def test_an_estimate_is_the_same_every_time() -> None:
    config = built(**CASES["at the knee"])
    assert expected_work(config) == expected_work(config)


def test_more_load_is_more_work_than_in_proportion() -> None:
    little, much = (expected_work(built(workload={"writers": {"rate": rate, **APPENDS}})) for rate in (1.0, 8.0))
    assert much.transactions == pytest.approx(8.0 * little.transactions)
    assert much.steps > 16.0 * little.steps


def test_picks_of_partitions_are_part_of_the_work() -> None:
    def picks(partitions: int) -> float:
        catalog = {"partitions": {"num_partitions": 500}}
        workload = {"writers": {"rate": 1.0, "partitions_per_txn": partitions, **APPENDS}}
        found = expected_work(built(catalog=catalog, workload=workload))
        return found.picks / found.transactions

    assert picks(1) == 0.0
    assert 200.0 < picks(100) < picks(200) / 2.0
    assert picks(2_000) == picks(500)
