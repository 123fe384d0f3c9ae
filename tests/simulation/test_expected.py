"""Estimates of work, against complete runs. The CPU time of a unit of work is constant here, so nothing is timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from endive.config import Document, build_simulation_config
from endive.simulation import SimulationConfig, expected
from endive.simulation.compiled import kernel_cache
from endive.simulation.expected import ExpectedWork, expected_work
from endive.simulation.pilot import COMPILED, REFERENCE, Pilot, PilotEngine, run_pilots

BASE: dict[str, Any] = {
    "simulation": {"duration_ms": 3_600_000, "seed": 1},
    "storage": {"provider": "s3", "profile": "2025-06"},
    "transaction": {"retry": 10, "runtime": {"mean": 10_000, "sigma": 0.5}},
}
UNIT_S = 1e-6


def built(**sections: Any) -> SimulationConfig:
    return build_simulation_config(Document.model_validate(BASE | sections), seed_override=1)


@pytest.fixture
def pilots(monkeypatch: pytest.MonkeyPatch) -> list[Pilot]:
    """All pilot runs of the test, with a constant time for each unit of work."""
    done: list[Pilot] = []

    def run(config: SimulationConfig, on: PilotEngine) -> list[Pilot]:
        found = run_pilots(config, on)
        for pilot in found:
            pilot.setup_s, pilot.cpu_s = 0.0, UNIT_S * pilot.units + on.empty_s
        done.extend(found)
        return found

    monkeypatch.setattr(expected, "run_pilots", run)
    return done


def measure_run(config: SimulationConfig, pilots: list[Pilot]) -> tuple[int, float]:
    """Return the number of transactions and the work of a complete run."""
    everything = PilotEngine(COMPILED.engine, 1e18, 1e18, 0.0)
    run = run_pilots(config, everything)[-1]
    assert run.duration_ms == config.duration_ms
    return run.by_class.total(), run.units


APPENDS = {"operation": "fast_append"}
LOG = {"type": "append", "log_entry_size": 100, "compaction_threshold": 2_000}
CASES: dict[str, dict[str, Any]] = {
    "idle": {"workload": {"writers": {"rate": 0.2, **APPENDS}}},
    "at the knee": {"workload": {"writers": {"rate": 3.0, **APPENDS}}},
    "three times the knee": {"workload": {"writers": {"rate": 9.0, **APPENDS}}},
    "closed": {"workload": {"writers": {"closed": {"clients": 4}, **APPENDS}}},
    "many clients with long jobs": {
        "transaction": {"retry": 10, "runtime": {"mean": 600_000, "sigma": 1.0}},
        "workload": {"writers": {"closed": {"clients": 5_000}, **APPENDS}},
    },
    "a sealed log in a closed loop": {
        "storage": {"provider": "azure", "profile": "2025-06"},
        "catalog": LOG,
        "workload": {"writers": {"closed": {"clients": 30}, **APPENDS}},
    },
    "a log past saturation": {
        "simulation": {"duration_ms": 1_200_000, "seed": 1},
        "storage": {"provider": "azure", "profile": "2025-06"},
        "catalog": {"type": "append"},
        "workload": {"writers": {"rate": 4.0, **APPENDS}},
    },
    "a log slightly past saturation": {
        "simulation": {"duration_ms": 10_000_000, "seed": 1},
        "storage": {"provider": "azure", "profile": "2025-06"},
        "catalog": {"type": "append"},
        "workload": {"writers": {"rate": 0.9, **APPENDS}},
    },
    "a store with a write limit": {
        "storage": {"provider": "gcp"},
        "transaction": {"commit_path": "endive", "retry": 10, "runtime": {"mean": 60, "sigma": 1.0}},
        "workload": {"writers": {"rate": 20.0, "operation": "validated_overwrite"}},
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
        "simulation": {"duration_ms": 600_000, "seed": 1},
        "transaction": {"retry": 10, "runtime": {"mean": 600_000, "sigma": 1.0}},
        "workload": {"writers": {"rate": 30.0, **APPENDS}},
    },
    "validation beside appends": {
        "storage": {"provider": "s3x", "profile": "2025-06"},
        "workload": {
            "writers": {"rate": 4.0, **APPENDS},
            "overwrites": {"periodic": {"interval_ms": 60_000}, "operation": "validated_overwrite"},
        },
    },
    "a load that rises and falls": {
        "workload": {
            "day": {
                "schedule": [{"from": "0s", "rate": 0.5}, {"from": "20min", "rate": 8.0}, {"from": "40min", "rate": 1.0}],
                **APPENDS,
            }
        },
    },
    "a class that starts late": {"workload": {"late": {"rate": 5.0, "start_ms": 2_700_000, **APPENDS}}},
    "many partitions": {
        "catalog": {"partitions": {"num_partitions": 500}},
        "workload": {"writers": {"rate": 1.0, "partitions_per_txn": 300, **APPENDS}},
    },
}


@pytest.mark.parametrize("name", CASES)
def test_transactions_and_work_are_within_a_factor_of_two(name: str, pilots: list[Pilot]) -> None:
    config = built(**CASES[name])
    found = expected_work(config, compiles=True)
    transactions, units = measure_run(config, pilots)
    assert transactions / 1.3 < found.transactions < transactions * 1.3
    assert UNIT_S * units / 2.0 < found.engine_s < UNIT_S * units * 2.0


def test_a_short_run_is_its_own_pilot_run(pilots: list[Pilot]) -> None:
    expected_work(built(**CASES["idle"]), compiles=True)
    assert pilots[-1].duration_ms == BASE["simulation"]["duration_ms"]


@pytest.mark.parametrize("name", CASES)
def test_pilot_runs_of_long_runs_end_early(name: str, pilots: list[Pilot]) -> None:
    config = built(**{**CASES[name], "simulation": {"duration_ms": 1e13, "seed": 1}})
    assert expected_work(config, compiles=True).engine_s > 10.0
    assert sum(pilot.units for pilot in pilots) < 8.0 * COMPILED.most_units


def test_more_load_is_more_work_than_in_proportion(pilots: list[Pilot]) -> None:
    little, much = (expected_work(built(workload={"writers": {"rate": rate, **APPENDS}}), compiles=True) for rate in (1.0, 8.0))
    assert much.transactions == pytest.approx(8.0 * little.transactions)
    assert much.engine_s > 14.0 * little.engine_s


def test_an_estimate_does_not_wait_for_a_kernel_unless_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    config = built(**CASES["at the knee"])
    engines: list[PilotEngine] = []

    def run(config: SimulationConfig, on: PilotEngine) -> list[Pilot]:
        engines.append(on)
        return run_pilots(config, on)

    monkeypatch.setattr(expected, "run_pilots", run)
    monkeypatch.setattr(kernel_cache, "is_cached", lambda features: False)
    quick, precise = expected_work(config), expected_work(config, compiles=True)
    assert engines == [REFERENCE, COMPILED]
    assert quick.transactions == pytest.approx(precise.transactions)


def test_many_selections_per_transaction_wait_for_a_kernel(pilots: list[Pilot], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "is_cached", lambda features: False)
    catalog = {"partitions": {"num_partitions": 5_000}}
    config = built(catalog=catalog, workload={"writers": {"rate": 1.0, "partitions_per_txn": 5_000, **APPENDS}})
    expected_work(config)
    assert all(pilot.cpu_s > UNIT_S * pilot.units for pilot in pilots)


def test_a_run_on_the_reference_engine_costs_its_time(pilots: list[Pilot]) -> None:
    config = built(**{**CASES["idle"], "simulation": {"duration_ms": 60_000, "seed": 1, "engine": "reference"}})
    found = expected_work(config, compiles=True)
    assert found.engine_s == found.reference_s


def test_a_run_without_duration_is_no_work() -> None:
    assert expected_work(replace(built(**CASES["idle"]), duration_ms=0.0)) == ExpectedWork()
