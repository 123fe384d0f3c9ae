"""Tables of a configuration start in their steady state, at the rates of its classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from endive.catalog import StoredCatalog
from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.runs.identity import compute_experiment_hash
from endive.simulation.reference import ReferenceEngine
from endive.table import TableFiles
from tests.simulation.runs import config_of, table_of

APPENDS: dict[str, Any] = {"rate": 1.0, "operation": "merge_append"}


def document(table: dict[str, Any] | None = None, tables: int = 1, **classes: dict[str, Any]) -> Any:
    tree = {
        "simulation": {"duration_ms": "10min", "seed": 1},
        "catalog": {"type": "service", "num_tables": tables},
        "storage": {"provider": "s3"},
        "transaction": {"commit_path": "iceberg", "runtime": {"distribution": "fixed", "value": 100.0}},
        "workload": classes or {"ingest": APPENDS},
    }
    return check_document(tree if table is None else {**tree, "table": table}, "test")


def start(*args: Any, seed: int = 1, **kwargs: Any) -> tuple[TableFiles, ...]:
    catalog = build_simulation_config(document(*args, **kwargs), seed_override=seed).catalog
    assert isinstance(catalog, StoredCatalog)
    return tuple(table.files for table in catalog.fresh().tables if table.files is not None)


def test_tables_start_at_independent_uniform_points_of_the_saw_tooth() -> None:
    counts = np.array([files.data for files in start(tables=2000)])
    assert (counts.min(), counts.max()) == (1, 99)
    assert counts.mean() == pytest.approx(50.0, abs=4 * 28.6 / np.sqrt(2000))
    assert start(tables=3) == start(tables=3)
    assert start(tables=3)[0] == start(tables=1)[0]
    assert start(tables=3, seed=2) != start(tables=3)


def test_empty_and_given_numbers_are_as_given() -> None:
    assert start({"start": "empty"})[0].data == 1
    assert start({"manifests": 70})[0].data == 70


def test_an_empty_table_has_the_numbers_of_an_empty_table() -> None:
    written_out = {"start": "empty", "manifests": 1, "delete_manifests": 0, "snapshots": 1}
    assert compute_experiment_hash(document({"start": "empty"})) == compute_experiment_hash(document(written_out))
    assert compute_experiment_hash(document({"start": "steady"})) == compute_experiment_hash(document())
    assert compute_experiment_hash(document({"start": "empty"})) != compute_experiment_hash(document())


def test_snapshots_are_those_of_the_retention() -> None:
    expiry = {"periodic": {"interval_ms": "1h"}, "operation": "expire_snapshots", "max_snapshot_age_ms": "10h"}
    files = start(ingest=APPENDS | {"rate": 0.1}, expiry=expiry)[0]
    assert 3600 <= files.snapshots <= 4000  # ten hours, and less than one since the last expiry
    assert files.initial_interval_ms == pytest.approx(10_000.0, rel=0.01)


def test_rates_are_those_of_each_table() -> None:
    """A table with a tenth of the load has a tenth of the snapshots."""
    expiry = {"periodic": {"interval_ms": "1s"}, "operation": "expire_snapshots", "max_snapshot_age_ms": "10h", "tables": [0]}
    often = APPENDS | {"rate": 0.5, "tables": [0]}
    seldom = APPENDS | {"rate": 0.05, "tables": [1]}
    first, second = start(tables=2, often=often, seldom=seldom, a=expiry, b=expiry | {"tables": [1]})
    assert first.snapshots == pytest.approx(18_000, rel=0.01)
    assert second.snapshots == pytest.approx(1_800, rel=0.01)


def test_a_class_that_starts_later_does_not_count() -> None:
    expiry = {"rate": 0.01, "operation": "expire_snapshots", "max_snapshot_age_ms": "1h"}
    assert start(ingest=APPENDS, expiry=expiry)[0].snapshots > 3000
    assert start(ingest=APPENDS, expiry=expiry | {"start_ms": "5min"})[0].snapshots == 1


def test_a_rate_that_cannot_be_committed_does_not_count() -> None:
    """A thousand appends a second would retain 432 million snapshots; writing metadata.json takes too long for that."""
    expiry = {"periodic": {"interval_ms": "1h"}, "operation": "expire_snapshots"}
    files = start(ingest={"rate": 1000.0, "operation": "fast_append"}, expiry=expiry)[0]
    write_ms = 60.0 + 20.0 * files.metadata_size / 2**20
    assert files.initial_interval_ms == pytest.approx(write_ms, rel=0.3)
    assert files.snapshots < 2_000_000


@pytest.mark.parametrize("duration_ms", [5_000.0, 20_000.0])
def test_the_share_of_merges_does_not_depend_on_the_length_of_the_run(duration_ms: float) -> None:
    """Every ninth commit finds ten manifests. From empty tables, none would merge in the first nine commits of each."""
    tree = {
        "simulation": {"duration_ms": duration_ms, "seed": 3},
        "catalog": {"type": "instant", "num_tables": 400, "num_groups": 400},
        "storage": {"provider": "instant"},
        "transaction": {"commit_path": "iceberg", "runtime": {"distribution": "fixed", "value": 10.0}},
        "table": {"min_count_to_merge": 10},
        "workload": {"ingest": {"rate": 100.0, "operation": "merge_append"}},
    }
    rows, _ = table_of(ReferenceEngine, config_of(tree))
    merged = [row["manifest_file_reads"] > 0 for row in rows.to_pylist() if row["status"] == "committed"]
    assert len(merged) == pytest.approx(duration_ms / 10.0, rel=0.15)
    assert np.mean(merged) == pytest.approx(1 / 9, abs=4 * np.sqrt(1 / 9 * 8 / 9 / len(merged)))
