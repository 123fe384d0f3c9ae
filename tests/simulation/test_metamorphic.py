"""Changes of a configuration whose effect on the rows is known: none, or exactly a factor."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

from endive.simulation.columns import TIME_COLUMNS
from tests.simulation.runs import ENGINES, Engine, frame_of

TIMES = ["t_submit", "commit_latency", "total_latency", *TIME_COLUMNS]


def two_classes() -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 4_000.0, "seed": 11},
        "storage": {"provider": "azurex", "max_parallel": 2},
        "catalog": {"num_tables": 2, "partitions": {"num_partitions": 4}},
        "transaction": {"retry": 5, "partitions_per_txn": 2, "real_conflict_probability": 0.2},
        "workload": {
            "ingest": {"rate": 10.0, "operation": "fast_append", "runtime": {"mean": 200.0, "sigma": 1.0}, "tables": [0, 1]},
            "merge": {"rate": 2.0, "operation": "validated_overwrite", "runtime": {"mean": 500.0, "sigma": 0.5}, "tables": [0]},
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_without_traffic_change_no_row(engine: Engine) -> None:
    tree = two_classes()
    wider = copy.deepcopy(tree)
    wider["catalog"]["num_tables"] = 50
    pd.testing.assert_frame_equal(frame_of(engine, tree), frame_of(engine, wider))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_classes_in_the_file_changes_no_row(engine: Engine) -> None:
    tree = two_classes()
    turned = {**tree, "workload": dict(reversed(tree["workload"].items()))}
    assert list(turned["workload"]) != list(tree["workload"])
    pd.testing.assert_frame_equal(frame_of(engine, tree), frame_of(engine, turned))


@pytest.mark.parametrize("engine", ENGINES)
def test_another_class_changes_no_arrival_and_no_runtime(engine: Engine) -> None:
    tree = two_classes()
    alone = {**tree, "workload": {"ingest": tree["workload"]["ingest"]}}
    both, one = frame_of(engine, tree), frame_of(engine, alone)
    mine = both[both["workload_class"] == "ingest"].sort_values("txn_id")
    assert list(mine["t_submit"]) == list(one.sort_values("txn_id")["t_submit"])
    assert len(one) > 20


@pytest.mark.parametrize("engine", ENGINES)
def test_two_configurations_under_one_seed_see_the_same_arrivals_and_runtimes(engine: Engine) -> None:
    """Common random numbers: what is compared differs in nothing but what was changed."""
    tree = two_classes()
    tree["simulation"]["drain"] = True
    slower = copy.deepcopy(tree)
    slower["storage"]["provider"] = "azure"
    slower["transaction"]["retry"] = 9
    fast, slow = (frame_of(engine, each).sort_values("txn_id").reset_index(drop=True) for each in (tree, slower))
    for column in ("t_submit", "operation_type", "workload_class"):
        assert list(fast[column]) == list(slow[column])
    unrestarted = (fast["n_restarts"] == 0) & (slow["n_restarts"] == 0)
    assert list(fast["t_runtime"][unrestarted]) == list(slow["t_runtime"][unrestarted])
    assert not fast["total_latency"].equals(slow["total_latency"])


def scaled(factor: float) -> dict[str, Any]:
    def latency(mean: float) -> dict[str, float]:
        return {"mean": mean * factor, "stddev": mean * factor / 4}

    return {
        "simulation": {"duration_ms": 3_000.0 * factor, "seed": 5},
        "storage": {
            "min_latency_ms": 1.0 * factor,
            "T_CAS": latency(20.0),
            "T_APPEND": latency(15.0),
            **{
                key: {"read": latency(8.0), "write": latency(12.0)}
                for key in ("T_METADATA_ROOT", "T_MANIFEST_LIST", "T_MANIFEST_FILE")
            },
        },
        "catalog": {"num_tables": 2, "table_metadata_inlined": False},
        "transaction": {
            "retry": 5,
            "runtime": {"mean": 200.0 * factor, "sigma": 1.0},
            "inter_arrival": {"scale": 40.0 * factor},
            "real_conflict_probability": 0.3,
            "manifest_list_mode": "append",
            "retry_backoff": {"enabled": True, "base_ms": 10.0 * factor, "max_ms": 100.0 * factor},
            "total_timeout_ms": 2_000.0 * factor,
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_all_times_doubled_double_all_latencies(engine: Engine) -> None:
    once, twice = frame_of(engine, scaled(1.0)), frame_of(engine, scaled(2.0))
    assert len(once) > 50
    np.testing.assert_allclose(twice[TIMES], 2.0 * once[TIMES], rtol=1e-9)
    rest = [column for column in once.columns if column not in (*TIMES, "t_commit", "t_commit_start")]
    pd.testing.assert_frame_equal(once[rest], twice[rest])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_gives_the_same_rows_again_and_another_seed_gives_others(engine: Engine) -> None:
    tree = two_classes()
    first = frame_of(engine, tree)
    pd.testing.assert_frame_equal(first, frame_of(engine, tree))
    tree["simulation"]["seed"] = 12
    assert not first["t_submit"].equals(frame_of(engine, tree)["t_submit"])
