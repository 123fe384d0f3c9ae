"""Compare estimated with measured CPU time of random valid configurations, and find the maximum cost of an event.

The sample of the seed below was not used to adjust the estimates. ``ENDIVE_SAMPLE`` selects another sample.
"""

from __future__ import annotations

import math
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, cpu_seconds
from endive.config import Document, build_simulation_config
from endive.config.errors import ConfigError
from endive.config.load import check_document
from endive.runs.effort import estimate_effort
from endive.runs.execute import run_experiment
from endive.simulation.compiled.kernel_cache import load_kernel
from endive.simulation.compiled.lower import features_of

CONFIGURATIONS = 200
_SEED = int(os.environ.get("ENDIVE_SAMPLE", "20261119"))
_FLOOR_S = 0.02
"""CPU time below which all times count as equal, because sweeps and limits are not planned by milliseconds."""
_REPEATED_S = 1.0
"""CPU time up to which a run is measured twice."""
_LEAST_S, _MOST_S = 0.03, 3.0
"""Range of the estimated CPU time of runs. Durations are changed to reach a random time in this range."""
_MOST_CHANGE = 1_000.0
"""Maximum factor of the change of a duration."""
Tree = dict[str, Any]


def measure_estimates(shorter: float) -> Row:
    """Return the ratios of measured and estimated CPU time of all configurations, and the worst ones."""
    rng = np.random.RandomState(_SEED)
    rows: list[Row] = []
    while len(rows) < CONFIGURATIONS / shorter:
        tree, cpu_s = _random_tree(rng), math.exp(rng.uniform(math.log(_LEAST_S), math.log(_MOST_S)))
        try:
            document = _change_duration(tree, cpu_s)
        except ConfigError:
            continue
        rows.append(_measure(tree, document))
    errors = np.array([_error(row["cpu_s"], row["estimated_cpu_s"]) for row in rows])
    costliest = sorted(rows, key=lambda row: -row["us_per_event"])
    return {
        "case": f"{len(rows)} random configurations",
        "seed": _SEED,
        "floor_s": _FLOOR_S,
        "within_3": float(np.mean(errors <= 3.0)),
        "median_error": float(np.median(errors)),
        "largest_error": float(errors.max()),
        "mean_estimation_s": float(np.mean([row["estimation_s"] for row in rows])),
        "us_per_event": costliest[0]["us_per_event"],
        "costliest": costliest[:5],
        "worst": [rows[i] for i in np.argsort(errors)[-5:][::-1]],
        "rows": [{key: value for key, value in row.items() if key != "document"} for row in rows],
    }


def _error(measured_s: float, estimated_s: float) -> float:
    """Return the factor between two CPU times. Times below the floor count as the floor."""
    ratio = max(measured_s, _FLOOR_S) / max(estimated_s, _FLOOR_S)
    return max(ratio, 1.0 / ratio)


def _change_duration(tree: Tree, cpu_s: float) -> Document:
    """Change the duration of a configuration so that a run takes about ``cpu_s``. Compile its kernel first.

    Raises:
        ConfigError: If the configuration is not valid.
    """
    document = check_document(tree, "random")
    load_kernel(features_of(build_simulation_config(document, seed_override=0)))
    change = min(max(cpu_s / estimate_effort(document).cpu_seconds, 1.0 / _MOST_CHANGE), _MOST_CHANGE)
    tree["simulation"]["duration_ms"] *= change
    return check_document(tree, "random")


def _measure(tree: Tree, document: Document) -> Row:
    """Measure a run and its estimate."""
    estimation_s, effort = cpu_seconds(partial(estimate_effort, document))
    with tempfile.TemporaryDirectory(prefix="endive-estimates-") as folder:
        cpu_s, finished = cpu_seconds(partial(run_experiment, document, root=Path(folder, "1"), seed=1))
        if cpu_s < _REPEATED_S:
            cpu_s = min(cpu_s, cpu_seconds(partial(run_experiment, document, root=Path(folder, "2"), seed=1))[0])
    total = finished.summary["total"]
    return {
        "document": tree,
        "transactions": total["transactions"],
        "estimated_transactions": effort.transactions,
        "cpu_s": cpu_s,
        "estimated_cpu_s": effort.cpu_seconds,
        "estimation_s": estimation_s,
        "ratio": cpu_s / effort.cpu_seconds,
        "us_per_event": cpu_s / max(total["event_count"], 10_000) * 1e6,
    }


def _random_tree(rng: np.random.RandomState) -> Tree:
    """Return a random configuration of a few simulated minutes; some are invalid."""
    path = rng.choice(["endive", "iceberg", "pyiceberg", "delta-rs", "lance"], p=[0.3, 0.3, 0.3, 0.05, 0.05])
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
    tree: Tree = {
        "simulation": {"duration_ms": float(10 ** rng.uniform(4.5, 6.5)), "engine": "compiled"},
        "experiment": {"label": "estimate"},
        "storage": {
            "provider": str(rng.choice(["s3x", "azure", "instant"] if kind == "append" else ["s3", "s3x", "gcp", "instant"]))
        },
        "catalog": catalog,
        "transaction": transaction,
        "workload": workload,
    }
    if rng.rand() < 0.15:
        tree["failures"] = {"request_error": 0.02, "lost_answer": 0.05, "client_crash": 0.01}
    return tree


def _random_class(rng: np.random.RandomState, operations: list[str]) -> Tree:
    operation = {"operation": str(rng.choice(operations))}
    kind = rng.choice(["rate", "closed", "writers", "schedule", "committer", "periodic"], p=[0.3, 0.25, 0.25, 0.1, 0.05, 0.05])
    if kind == "closed":
        return {**operation, "closed": {"clients": int(10 ** rng.uniform(0.0, 2.0))}}
    if kind == "writers":
        return {**operation, "writers": int(10 ** rng.uniform(0.0, 2.0)), "every_ms": float(10 ** rng.uniform(2.0, 5.0))}
    if kind == "schedule":
        steps = [{"from": 60_000.0 * step, "rate": float(10 ** rng.uniform(-1.0, 2.0))} for step in range(4)]
        return {**operation, "schedule": steps}
    if kind == "committer":
        writers = {"writers": int(10 ** rng.uniform(0.0, 2.0)), "every_ms": float(10 ** rng.uniform(2.0, 5.0))}
        return {**operation, **writers, "committer": {"interval_ms": float(10 ** rng.uniform(2.0, 5.0))}}
    if kind == "periodic":
        return {**operation, "periodic": {"interval_ms": float(10 ** rng.uniform(3.0, 5.0))}}
    return {**operation, "rate": float(10 ** rng.uniform(-1.0, 2.0))}
