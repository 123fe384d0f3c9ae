"""Utilization of a catalog service: rate x service time / workers, up to 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endive.analysis.table_growth import DAY_MS
from endive.config.load import check_document
from endive.report.phrases import describe_limit
from endive.runs.execute import prepare_run, run_experiment
from endive.studies.measure import MetricsOptions, RunFile, measure_file, measure_one


def total(folder: Path, rate: float, workers: int = 4) -> Any:
    """Appends to many tables, so that none loses a race: three loads of 5 ms and a commit of 10 ms each."""

    def fixed(value: float) -> dict[str, Any]:
        return {"distribution": "fixed", "value": value}

    tree = {
        "simulation": {"duration_ms": 60_000.0, "engine": "reference"},
        "storage": {"provider": "instant"},
        "catalog": {
            "type": "service",
            "num_tables": 5_000,
            "workers": workers,
            "writes_metadata": False,
            "network": fixed(1.0),
            "load": fixed(5.0),
            "commit": fixed(10.0),
        },
        "transaction": {"commit_path": "iceberg", "runtime": fixed(10.0)},
        "workload": {"ingest": {"rate": rate, "operation": "fast_append"}},
    }
    document = check_document(tree, "test", folder, {})
    run = run_experiment(document, root=folder, seed=1)
    classes = prepare_run(document, seed=1).simulation.config.workload.config.workload_classes
    file = RunFile(1, run.files.results)
    measured = measure_one(file, document, classes, MetricsOptions(5_000.0, 0.0))
    row = measured.select("all", "all")
    stored = {(each["workload_class"], each["operation_type"]): each for each in measure_file("", file, measured.window)}
    assert stored["all", "all"]["catalog_utilization"] == row["catalog_utilization"]
    assert stored["ingest", "all"]["catalog_utilization"] is None
    return row


def test_utilization_is_rate_times_service_time_over_workers(tmp_path: Path) -> None:
    row = total(tmp_path, rate=40.0)
    assert row["success_rate"] > 0.99
    assert row["catalog_utilization"] == pytest.approx(row["throughput_per_s"] * 0.025 / 4, rel=0.02)
    assert row["catalog_utilization"] == pytest.approx(0.25, rel=0.05)


def test_a_service_saturates_at_workers_over_service_time(tmp_path: Path) -> None:
    row = total(tmp_path, rate=60.0, workers=1)
    assert row["catalog_utilization"] == pytest.approx(1.0, abs=0.005)
    assert row["throughput_per_s"] < 1 / 0.025


def test_the_day_of_a_limit_is_that_of_the_run_that_reached_it(tmp_path: Path) -> None:
    """1,100 bytes every 30 minutes reach 500 kB after 455 commits, 9.5 days. All later commits abort."""
    tree = {
        "simulation": {"duration_ms": 60 * DAY_MS, "engine": "reference"},
        "storage": {"provider": "instant"},
        "catalog": {"type": "service", "metadata_limit_bytes": 500_000},
        "table": {"start": "empty"},
        "transaction": {"commit_path": "iceberg", "runtime": {"distribution": "fixed", "value": 0.0}},
        "workload": {"a": {"periodic": {"interval_ms": 1_800_000.0}, "operation": "fast_append"}},
    }
    document = check_document(tree, "test", tmp_path, {})
    run = run_experiment(document, root=tmp_path, seed=1)
    classes = prepare_run(document, seed=1).simulation.config.workload.config.workload_classes
    for warmup_ms in (0.0, 20 * DAY_MS):
        measured = measure_one(RunFile(1, run.files.results), document, classes, MetricsOptions(warmup_ms, 0.0))
        sentence = describe_limit(measured.select("all", "all"), 500_000)
        assert sentence == "metadata.json reaches the limit of 500 kB on day 10. Expire snapshots earlier."
    assert measured.select("a", "all")["metadata_limit_reached_ms"] is None
