"""Metrics are what they were: raise METRICS_VERSION where they change on purpose, and write the golden file anew.

``python -m tests.studies.test_golden_metrics`` writes ``golden_metrics.json`` from fixed rows that no engine has made.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from endive.analysis.warmup import Window
from endive.simulation import RESULT_SCHEMA
from endive.simulation.columns import COLUMNS, TIME_COLUMNS
from endive.studies.measure import RunFile, measure_file
from endive.version import METRICS_VERSION

GOLDEN = Path(__file__).with_name("golden_metrics.json")
ROWS = 3_000
DURATION_MS = 600_000.0


def fixed_rows() -> pa.Table:
    """Rows of two classes and two operations with all outcomes, from a fixed seed."""
    random = np.random.default_rng(20_261_118)
    status = random.choice(["committed", "aborted", "in_flight"], ROWS, p=[0.9, 0.07, 0.03])
    submit = np.sort(random.uniform(0.0, DURATION_MS, ROWS))
    columns: dict[str, Any] = {
        "txn_id": np.arange(ROWS),
        "t_submit": submit,
        **{name: random.exponential(200.0, ROWS) for name in TIME_COLUMNS},
        "status": status,
        "operation_type": random.choice(["fast_append", "rewrite_files"], ROWS, p=[0.8, 0.2]),
        "workload_class": random.choice(["ingest", "upkeep"], ROWS),
        "abort_reason": [
            str(reason) if each == "aborted" else None
            for each, reason in zip(status, random.choice(["max_retries_exceeded", "validation_exception"], ROWS), strict=True)
        ],
        "tables_written": [[0]] * ROWS,
        "client": random.integers(0, 7, ROWS),
        "batch_size": np.ones(ROWS, np.int64),
        "batch_wait_ms": np.zeros(ROWS),
        "batch_longest_wait_ms": np.zeros(ROWS),
    }
    total = sum(columns[name] for name in TIME_COLUMNS)
    columns["total_latency"] = total
    columns["commit_latency"] = total - columns["t_runtime"]
    columns["t_commit_start"] = submit + columns["t_runtime"]
    columns["t_commit"] = np.where(status == "committed", submit + total, -1.0)
    for column in COLUMNS:
        if column.name not in columns:
            columns[column.name] = random.integers(0, 4, ROWS)
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in RESULT_SCHEMA})


def measured(folder: Path) -> dict[str, str]:
    """Return the hash of the metrics of each group."""
    path = folder / "results.parquet"
    pq.write_table(fixed_rows(), path)
    window = Window(DURATION_MS, 60_000.0, 590_000.0, "given")
    return {
        f"{row['workload_class']} {row['operation_type']}": hashlib.sha256(json.dumps(_plain(row)).encode()).hexdigest()
        for row in measure_file("golden", RunFile(0, path), window)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in sorted(value.items())}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return f"{value:.9g}" if isinstance(value, float) else value


def test_metrics_change_only_with_their_version(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert golden["metrics_version"] == METRICS_VERSION
    assert measured(tmp_path) == golden["groups"]


def main() -> None:
    """Write the golden file; refuse to where metrics have changed and the version has not."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        groups = measured(Path(folder))
    before = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"metrics_version": 0, "groups": {}}
    if groups != before["groups"] and before["metrics_version"] == METRICS_VERSION:
        raise SystemExit("metrics have changed; raise METRICS_VERSION in endive/version.py first")
    GOLDEN.write_text(json.dumps({"metrics_version": METRICS_VERSION, "groups": groups}, indent=1) + "\n")


if __name__ == "__main__":
    main()
