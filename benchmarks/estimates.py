"""Compare estimated with measured CPU time of random valid configurations, and find the maximum cost of an event."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, cpu_seconds
from endive.config import Document
from endive.config.errors import ConfigError
from endive.config.load import check_document
from endive.runs.effort import estimate_effort, measure_speed
from endive.runs.execute import run_experiment

CONFIGURATIONS = 200
_SEED = 20_261_118
_MOST_S = 10.0
"""Maximum estimated CPU time; longer runs are shortened, so that all runs together take some minutes."""
Tree = dict[str, Any]


def measure_estimates(shorter: float) -> Row:
    """Return the ratios of measured and estimated CPU time of all configurations, and the worst ones."""
    measure_speed()
    rng = np.random.RandomState(_SEED)
    rows: list[Row] = []
    while len(rows) < CONFIGURATIONS / shorter:
        tree = _random_tree(rng)
        try:
            document = check_document(tree, "random")
        except ConfigError:
            continue
        rows.append(_measure(tree, document))
    errors = [max(row["ratio"], 1.0 / row["ratio"]) for row in rows]
    costliest = max(rows, key=lambda row: row["us_per_event"])
    return {
        "case": f"{len(rows)} random configurations",
        "within_3": sum(error <= 3.0 for error in errors) / len(errors),
        "median_error": float(np.median(errors)),
        "largest_error": max(errors),
        "us_per_event": costliest["us_per_event"],
        "costliest": costliest,
        "worst": [rows[i] for i in np.argsort(errors)[-5:][::-1]],
        "rows": [{key: value for key, value in row.items() if key != "document"} for row in rows],
    }


def _measure(tree: Tree, document: Document) -> Row:
    estimated_s = estimate_effort(document).cpu_seconds
    if estimated_s > _MOST_S:
        tree["simulation"]["duration_ms"] *= _MOST_S / estimated_s
        document = check_document(tree, "random")
        estimated_s = estimate_effort(document).cpu_seconds
    with tempfile.TemporaryDirectory(prefix="endive-estimates-") as folder:
        runs = [cpu_seconds(partial(run_experiment, document, root=Path(folder, str(at)), seed=1)) for at in range(2)]
    cpu_s = min(seconds for seconds, _ in runs)
    total = runs[0][1].summary["total"]
    return {
        "document": tree,
        "transactions": total["transactions"],
        "cpu_s": cpu_s,
        "estimated_cpu_s": estimated_s,
        "ratio": cpu_s / estimated_s,
        "us_per_event": cpu_s / max(total["event_count"], 10_000) * 1e6,
    }


def _random_tree(rng: np.random.RandomState) -> Tree:
    """Return a random configuration of a few simulated minutes; some are invalid."""
    path = rng.choice(["endive", "iceberg", "pyiceberg"])
    kind = rng.choice(["cas", "append", "service"], p=[0.5, 0.2, 0.3])
    tables = int(10 ** rng.uniform(0.0, 4.0))
    catalog: Tree = {"type": str(kind), "num_tables": tables}
    if rng.rand() < 0.5:
        catalog["num_groups"] = int(rng.choice([1, max(1, tables // 2), tables]))
    if rng.rand() < 0.4:
        catalog["partitions"] = {"num_partitions": int(10 ** rng.uniform(0.3, 4.0))}
    if kind == "service" and rng.rand() < 0.5:
        catalog["workers"] = int(rng.choice([2, 8, 32]))
    transaction: Tree = {
        "commit_path": str(path),
        "retry": int(rng.choice([0, 4, 10, 50])),
        "runtime": {"distribution": "lognormal", "mean": float(10 ** rng.uniform(1.0, 5.0)), "sigma": 1.0},
    }
    if rng.rand() < 0.4:
        transaction["tables_per_txn"] = int(min(tables, 10 ** rng.uniform(0.0, 3.0)))
        transaction["table_selection"] = {"write_fraction": float(rng.choice([1.0, 0.1]))}
    if "partitions" in catalog:
        transaction["partitions_per_txn"] = int(10 ** rng.uniform(0.0, 3.0))
    if rng.rand() < 0.5:
        transaction["retry_backoff"] = {"enabled": True, "base_ms": 100.0}
    if path == "endive" and kind != "service" and rng.rand() < 0.2:
        transaction["manifest_list_mode"] = "append"
    operations = ["fast_append", "merge_append", "overwrite" if path == "pyiceberg" else "validated_overwrite", "delete"]
    workload = {f"w{i}": _random_class(rng, operations) for i in range(int(rng.choice([1, 2, 5, 50], p=[0.5, 0.3, 0.15, 0.05])))}
    return {
        "simulation": {"duration_ms": float(10 ** rng.uniform(4.5, 6.5)), "engine": "compiled"},
        "experiment": {"label": "estimate"},
        "storage": {
            "provider": str(rng.choice(["s3x", "azure", "instant"] if kind == "append" else ["s3", "s3x", "gcp", "instant"]))
        },
        "catalog": catalog,
        "transaction": transaction,
        "workload": workload,
    }


def _random_class(rng: np.random.RandomState, operations: list[str]) -> Tree:
    operation = {"operation": str(rng.choice(operations))}
    kind = rng.choice(["rate", "closed", "writers"])
    if kind == "closed":
        return {**operation, "closed": {"clients": int(10 ** rng.uniform(0.0, 2.0))}}
    if kind == "writers":
        return {**operation, "writers": int(10 ** rng.uniform(0.0, 2.0)), "every_ms": float(10 ** rng.uniform(2.0, 5.0))}
    return {**operation, "rate": float(10 ** rng.uniform(-1.0, 2.0))}
