"""Requests and money of a thousand commits, against calculations by hand and against what a trace counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from endive.analysis.request_cost import KINDS, Basis, basis_of, basis_of_document, cost_of, requests_of, rows_by_class
from endive.config.load import check_document
from endive.runs.execute import prepare_run, run_experiment
from endive.storage.prices import Prices, StorePrices, list_prices
from endive.studies.measure import MetricsOptions, RunFile, measure_one

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
        "catalog_reads": 150,  # one at the start, one for each retry
        "catalog_commits": 150,  # one for each attempt
    }


def test_a_thousand_commits_by_hand() -> None:
    """Ten times the requests above, since a hundred have committed; 1,000 reads cost 0.4, writes 5, deletes 1."""
    cost = cost_of([ROW], basis(), PRICES)
    assert cost is not None
    assert cost.total_requests == 7_860
    assert cost.money == pytest.approx(
        {"store_reads": 0.664, "store_writes": 13.5, "store_deletes": 0.5, "catalog_reads": 0.6, "catalog_commits": 7.5}
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
        ({"catalog": "unknown"}, False),
        ({"catalog": None}, False),  # an ideal catalog is nobody's product
        ({"catalog": None, "service": True}, True),
        ({"store": "own-1a2b3c"}, True),
    ],
)
def test_what_has_no_price_is_not_guessed(changes: dict[str, Any], money: bool) -> None:
    cost = cost_of([ROW], basis(**changes), PRICES)
    assert cost is not None
    assert (cost.total_money is not None) is money
    assert cost.total_requests == 7_860


def test_where_nothing_commits_there_is_no_cost_of_a_commit() -> None:
    assert cost_of([{**ROW, "committed": 0}], basis(), PRICES) is None


def test_a_service_is_paid_by_the_request() -> None:
    cost = cost_of([ROW], basis(catalog=None, service=True), PRICES)
    assert cost is not None
    assert cost.money is not None
    assert cost.money["catalog_reads"] == cost.money["catalog_commits"] == pytest.approx(3.0)


@pytest.mark.parametrize("path", ["endive", "iceberg", "pyiceberg"])
@pytest.mark.parametrize("catalog", ["cas", "service"])
def test_reads_of_the_catalog_are_those_of_the_trace(path: str, catalog: str, tmp_path: Path) -> None:
    """All reads and attempts of the transactions that began to commit before the end, in a run that is drained."""
    tree = {
        "simulation": {"duration_ms": 15_000, "engine": "reference", "drain": True},
        "storage": {"provider": "s3"},
        "catalog": {"type": catalog},
        "transaction": {"commit_path": path, "runtime": {"mean": 300, "sigma": 0.5}},
        "workload": {"ingest": {"rate": 4.0, "operation": "fast_append"}},
    }
    document = check_document(tree, "test", tmp_path, {})
    run = run_experiment(document, root=tmp_path, seed=1, trace=True)
    classes = prepare_run(document, seed=1).simulation.config.workload.config.workload_classes
    measured = measure_one(RunFile(1, run.files.results), document, classes, MetricsOptions(0.0, 0.0))
    rows = rows_by_class(measured.rows)
    assert rows[0]["n_retries"] > 0
    found = requests_of(rows, basis_of_document(document))
    ended = pq.read_table(run.files.results).to_pandas()
    cohort = set(ended[(ended.t_commit_start >= 0.0) & (ended.t_commit_start <= 15_000.0)].txn_id)
    trace = pq.read_table(run.files.trace).to_pandas()
    steps = trace[trace.txn_id.isin(cohort)].event.to_list()
    assert found["catalog_reads"] == steps.count("catalog_read")
    assert found["catalog_commits"] >= steps.count("attempt")
    assert path == "pyiceberg" or found["catalog_commits"] == steps.count("attempt")


def test_the_basis_of_a_configuration_and_of_its_parameters_are_the_same(tmp_path: Path) -> None:
    tree = {
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
    assert basis_of(flat, ["a", "b"]) == basis_of_document(check_document(tree, "test", tmp_path, {}))


def test_list_prices_say_where_they_come_from() -> None:
    assert {"s3", "s3x", "gcp"} <= set(list_prices().stores)
    for store in list_prices().stores.values():
        assert store.source.startswith("https://")
        assert store.date
        assert store.region
        assert store.get < store.put
    assert len(KINDS) == 5
