"""Simulate modes two and three with the same writers, latencies and retries as the real clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.simulation.compiled.engine import CompiledEngine
from verification.iceberg.postgres import Database
from verification.iceberg.victims import VictimCase
from verification.iceberg.writers import WritersCase

WRITERS_SEEDS = range(40)
VICTIM_SEEDS = range(200)
_LATENCIES = ("T_METADATA_ROOT", "T_TABLE_METADATA", "T_MANIFEST_LIST", "T_MANIFEST_FILE")
_POOL = 64
_NEVER_MERGE = 1_000_000_000

OPERATIONS: dict[str, dict[str, Any]] = {
    "fast_append": {"operation": "fast_append"},
    "merge_append": {"operation": "merge_append"},
    "overwrite_serializable": {"operation": "overwrite", "isolation": "serializable"},
    "rewrite_files": {"operation": "rewrite_files"},
    "replace_partitions": {"operation": "replace_partitions"},
}
PATHS = {"java": "iceberg", "pyiceberg": "pyiceberg"}


@dataclass(frozen=True)
class Predicted:
    """Predicted results."""

    attempts_per_commit: float
    attempts_per_operation: float
    success: float
    commits_per_second: float


def predict_writers(case: WritersCase, database: Database | None = None) -> Predicted:
    """Simulate writers in a closed loop, each on a separate partition; the catalog is in the object store or a database."""
    low, high = case.runtime_ms
    own = {
        **OPERATIONS[case.operation],
        "closed": {"clients": 1},
        "runtime": {"distribution": "uniform", "min": low, "max": high},
    }
    document = _document(case.access_ms, case.duration_ms, PATHS[case.client], max(case.writers, 2))
    document["table"] = {"manifests": case.writers, "snapshots": 1, "min_count_to_merge": _NEVER_MERGE}
    if case.keeps_handle:
        document["transaction"]["table_handle"] = "kept"
    if database is not None:
        document["catalog"] |= database.keys()
    document["workload"] = {f"writer-{i}": own | {"partition_range": [i, i + 1]} for i in range(case.writers)}
    rows = pa.concat_tables([_run(document, seed) for seed in WRITERS_SEEDS])
    return _predicted(rows, case.duration_ms, len(WRITERS_SEEDS))


def predict_victim(case: VictimCase) -> Predicted:
    """Simulate one long operation with concurrent appends, many times."""
    settle_ms = 1_000.0
    duration_ms = settle_ms + 20.0 * case.runtime_ms
    document = _document(case.access_ms, duration_ms, "iceberg", 2)
    document["table"] = {"manifests": 1 + case.manifests(), "snapshots": 1}
    document["workload"] = {
        "appends": {
            "operation": "fast_append",
            "rate": case.appends_per_second,
            "runtime": {"distribution": "fixed", "value": 0.0},
            "partition_range": [1, 2],
        },
        "victim": {
            **OPERATIONS[case.operation],
            "periodic": {"interval_ms": 1e12, "phase_ms": settle_ms},
            "runtime": {"distribution": "fixed", "value": case.runtime_ms},
            "partition_range": [0, 1],
        },
    }
    rows = pa.concat_tables([_run(document, seed) for seed in VICTIM_SEEDS])
    return _predicted(rows.filter(pc.equal(rows["workload_class"], "victim")), duration_ms, len(VICTIM_SEEDS))


def _document(access_ms: float, duration_ms: float, path: str, partitions: int) -> dict[str, Any]:
    latency = {"mean": access_ms, "stddev": 0.0}
    return {
        "simulation": {"duration_ms": duration_ms, "drain": True},
        "storage": {
            "max_parallel": _POOL,
            "T_CAS": latency,
            **{key: {"read": latency, "write": latency} for key in _LATENCIES},
        },
        "catalog": {"partitions": {"num_partitions": partitions}},
        "transaction": {"commit_path": path, "retry_policy": "iceberg", "partitions_per_txn": 1},
    }


def _run(document: dict[str, Any], seed: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    config = build_simulation_config(check_document(document, "verification"), seed_override=seed)
    CompiledEngine(config, batches.append).run()
    return pa.Table.from_batches(batches)


def _predicted(rows: pa.Table, duration_ms: float, runs: int) -> Predicted:
    commits = rows.filter(pc.equal(rows["status"], "committed"))
    attempts = pc.sum(rows["n_retries"]).as_py() + rows.num_rows
    in_time = pc.sum(pc.less(commits["t_commit"], duration_ms)).as_py() or 0
    return Predicted(
        attempts / commits.num_rows if commits.num_rows else float("inf"),
        attempts / rows.num_rows,
        commits.num_rows / rows.num_rows,
        1000.0 * in_time / (duration_ms * runs),
    )
