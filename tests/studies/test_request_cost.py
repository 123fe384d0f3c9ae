"""Requests and money of a thousand commits, against calculations by hand and against what a trace counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from endive.config.load import check_document
from endive.runs.execute import prepare_run, run_experiment
from endive.storage.prices import Prices, StorePrices, list_prices
from endive.studies.measure import MetricsOptions, RunFile, measure_file, measure_one
from endive.studies.request_cost import (
    Basis,
    basis_of,
    basis_of_document,
    cost_metrics,
    cost_of,
    requests_of,
    rows_by_class,
)

ROW: dict[str, Any] = {
    "workload_class": "ingest",
    "operation_type": "all",
    "transactions": 120,
    "committed": 100,
    "n_retries": 30,
    "metadata_reads": 5,
    "metadata_writes": 7,
    "manifest_list_reads": 150,
    "manifest_list_writes": 140,
    "manifest_file_reads": 11,
    "manifest_file_writes": 120,
    "manifest_list_appends": 3,
    "file_deletes": 50,
    "orphaned_files": 4,
    "throughput_per_s": 2.0,
}
PRICES = Prices("EUR", {"s3": StorePrices(get=0.4, put=5.0, list=5.0, delete=1.0), "own": StorePrices(1.0, 1.0, 1.0, 1.0)}, 2.0)


def basis(path: str = "endive", **changes: Any) -> Basis:
    given: dict[str, Any] = {"store": "s3", "catalog": "s3", "service": False, "server_writes": False, "paths": {"ingest": path}}
    return Basis(**{**given, **changes})


def test_requests_by_hand() -> None:
    assert requests_of([ROW], basis()) == {
        "store_reads": 166,  # 5 + 150 + 11
        "store_writes": 270,  # 7 + 140 + 120 + 3
        "store_deletes": 50,
        "server_writes": 0,
        "catalog_reads": 150,  # one at the start, one for each retry
        "catalog_commits": 150,  # one for each attempt
    }


def test_a_thousand_commits_by_hand() -> None:
    """Ten times the requests above, since a hundred have committed; 1,000 reads cost 0.4, writes 5, deletes 1."""
    cost = cost_of([ROW], basis(), PRICES)
    assert cost is not None
    assert cost.total_requests == 7_860
    assert cost.money == pytest.approx(
        {
            "store_reads": 0.664,
            "store_writes": 13.5,
            "store_deletes": 0.5,
            "server_writes": 0.0,
            "catalog_reads": 0.6,
            "catalog_commits": 7.5,
        }
    )
    assert cost.total_money == pytest.approx(22.764)
    assert (cost.currency, cost.orphaned_files) == ("EUR", 40.0)


def test_classes_are_added_up() -> None:
    both = [ROW, {**ROW, "workload_class": "merge", "committed": 0}]
    cost, alone = cost_of(both, basis(), PRICES), cost_of([ROW], basis(), PRICES)
    assert cost is not None
    assert alone is not None
    assert cost.total_requests == pytest.approx(2 * alone.total_requests)


@pytest.mark.parametrize(
    ("changes", "money"),
    [
        ({"store": "unknown"}, False),
        ({"catalog": "unknown"}, True),
        ({"catalog": None}, True),  # an ideal catalog is nobody's product
        ({"catalog": None, "service": True}, True),
        ({"store": "own-1a2b3c"}, True),
    ],
)
def test_what_has_no_price_is_not_guessed(changes: dict[str, Any], money: bool) -> None:
    cost = cost_of([ROW], basis(**changes), PRICES)
    assert cost is not None
    assert (cost.total_money is not None) is money
    assert cost.total_requests == 7_860


def test_a_catalog_without_a_price_leaves_the_cost_of_the_store_and_is_named() -> None:
    cost = cost_of([ROW], basis(catalog=None, service=True), Prices("EUR", PRICES.stores))
    assert cost is not None
    assert cost.total_money == pytest.approx(0.664 + 13.5 + 0.5)
    assert cost.unpriced == ("catalog_reads", "catalog_commits")
    complete = cost_of([ROW], basis(), PRICES)
    assert complete is not None
    assert complete.unpriced == ()


def test_the_server_pays_for_the_metadata_that_it_writes() -> None:
    """One PUT of metadata.json per commit: 1,000 of them cost 5."""
    cost = cost_of([ROW], basis(catalog=None, service=True, server_writes=True), PRICES)
    assert cost is not None
    assert cost.requests["server_writes"] == 1_000
    assert cost.money is not None
    assert cost.money["server_writes"] == pytest.approx(5.0)


def test_a_month_has_730_hours_of_the_simulated_throughput() -> None:
    """2 commits a second are 5,256,000 in a month; 1,000 of them cost 22.764."""
    cost = cost_of([ROW], basis(), PRICES)
    assert cost is not None
    assert cost.money_per_month == pytest.approx(5_256 * 22.764)
    assert cost_metrics([ROW], basis(), PRICES) == {
        "cost_per_1000_commits": pytest.approx(22.764),
        "cost_per_month": pytest.approx(5_256 * 22.764),
    }
    assert set(cost_metrics([{**ROW, "committed": 0}], basis(), PRICES).values()) == {None}


def test_metrics_of_a_run_have_the_cost_that_is_printed(tmp_path: Path) -> None:
    tree = {
        "simulation": {"duration_ms": 20_000, "engine": "reference"},
        "storage": {"provider": "s3"},
        "catalog": {"type": "service"},
        "transaction": {"commit_path": "iceberg", "runtime": {"mean": 300, "sigma": 0.5}},
        "workload": {
            "a": {"rate": 2.0, "operation": "fast_append"},
            "b": {"rate": 1.0, "operation_types": {"merge_append": 1.0, "fast_append": 1.0}},
        },
    }
    document = check_document(tree, "test", tmp_path, {})
    run = run_experiment(document, root=tmp_path, seed=1)
    classes = prepare_run(document, seed=1).simulation.config.workload.config.workload_classes
    measured = measure_one(RunFile(1, run.files.results), document, classes, MetricsOptions(0.0, 0.0))
    cost = cost_of(rows_by_class(measured.rows), basis_of_document(document), list_prices())
    assert cost is not None
    total = measured.select("all", "all")
    assert (total["cost_per_1000_commits"], total["cost_per_month"]) == (cost.total_money, cost.money_per_month)
    months = [measured.select(name, "all")["cost_per_month"] for name in ("a", "b")]
    committed = [measured.select(name, "all") for name in ("a", "b")]
    assert [row["committed"] == row["commits_in_window"] for row in committed] == [True, True]
    assert sum(months) == pytest.approx(total["cost_per_month"])
    assert total["catalog_utilization"] is None  # no limit of workers
    stored = measure_file("x", RunFile(1, run.files.results), measured.window)
    assert [row["cost_per_month"] for row in stored] == [row["cost_per_month"] for row in measured.rows]


def test_a_service_is_paid_by_the_request() -> None:
    cost = cost_of([ROW], basis(catalog=None, service=True), PRICES)
    assert cost is not None
    assert cost.money is not None
    assert cost.money["catalog_reads"] == cost.money["catalog_commits"] == pytest.approx(3.0)


@pytest.mark.parametrize("handle", ["loaded", "kept"])
@pytest.mark.parametrize("path", ["endive", "iceberg", "pyiceberg"])
@pytest.mark.parametrize("catalog", ["cas", "service"])
def test_reads_of_the_catalog_are_those_of_the_trace(path: str, catalog: str, handle: str, tmp_path: Path) -> None:
    """All reads and attempts of a run in which every transaction has ended. A writer loads its table handle once if it keeps it."""
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 120_000, "engine": "reference"},
        "storage": {"provider": "s3"},
        "catalog": {"type": catalog},
        "transaction": {"commit_path": path, "runtime": {"mean": 300, "sigma": 0.5}},
        "workload": {"ingest": {"rate": 4.0, "operation": "fast_append", "end_ms": 15_000.0}},
    }
    if path != "endive":
        tree["transaction"]["table_handle"] = handle
    document = check_document(tree, "test", tmp_path, {})
    run = run_experiment(document, root=tmp_path, seed=1, trace=True)
    classes = prepare_run(document, seed=1).simulation.config.workload.config.workload_classes
    measured = measure_one(RunFile(1, run.files.results), document, classes, MetricsOptions(0.0, 0.0))
    rows = rows_by_class(measured.rows)
    assert rows[0]["n_retries"] > 0
    found = requests_of(rows, basis_of_document(document))
    assert "in_flight" not in pq.read_table(run.files.results).column("status").to_pylist()
    steps = pq.read_table(run.files.trace).column("event").to_pylist()
    first_loads = handle == "kept" and catalog == "service" and path != "endive"
    assert found["catalog_reads"] == steps.count("catalog_read") - first_loads
    assert found["catalog_commits"] >= steps.count("attempt")
    assert path == "pyiceberg" or found["catalog_commits"] == steps.count("attempt")


def test_the_basis_of_a_configuration_and_of_its_parameters_are_the_same(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 1_000},
        "storage": {"provider": "s3"},
        "catalog": {"provider": "s3x"},
        "workload": {
            "a": {"rate": 1.0, "operation": "fast_append", "commit_path": "iceberg"},
            "b": {"rate": 1.0, "operation": "fast_append"},
        },
    }
    flat = {
        "param_storage_provider": "s3",
        "param_catalog_provider": "s3x",
        "param_transaction_commit_path": "endive",
        "param_workload_a_commit_path": "iceberg",
    }
    service = {**tree, "catalog": {"type": "service"}, "transaction": {"commit_path": "iceberg"}}
    service["workload"] = {"a": {**tree["workload"]["a"], "table_handle": "kept"}, "b": tree["workload"]["b"]}
    flat_service = {
        "param_storage_provider": "s3",
        "param_catalog_type": "service",
        "param_transaction_commit_path": "iceberg",
        "param_workload_a_table_handle": "kept",
    }
    found = basis_of_document(check_document(service, "test", tmp_path, {}))
    assert found.kept_handles == {"a"}
    assert basis_of(flat_service, ["a", "b"]) == found
    assert basis_of(flat, ["a", "b"]) == basis_of_document(check_document(tree, "test", tmp_path, {}))
