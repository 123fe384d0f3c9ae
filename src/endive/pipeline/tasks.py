"""What runs on executors: simulate the runs of a task and report one row for each.

What flows in: rows of (task, seed, root, hash of the experiment, document as JSON). What flows out: rows of what came of each.
Results go to files from here; they never pass through Spark. A run that fails is a row with its error, so the others of the task
go on.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

SPEC_SCHEMA = "task long, seed long, root string, experiment string, document string"
OUTCOME_SCHEMA = "experiment string, seed long, state string, rows long, seconds double, error string"
_OUTCOME = pa.schema(
    [
        ("experiment", pa.string()),
        ("seed", pa.int64()),
        ("state", pa.string()),
        ("rows", pa.int64()),
        ("seconds", pa.float64()),
        ("error", pa.string()),
    ]
)


def simulate_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run what the rows ask for, one after the other."""
    for batch in batches:
        for row in batch.to_pylist():
            outcome = run_one(row["document"], row["seed"], Path(row["root"]), row["experiment"])
            yield pa.RecordBatch.from_pylist([outcome], schema=_OUTCOME)


def run_one(document_json: str, seed: int, root: Path, experiment: str) -> dict[str, Any]:
    """One run, unless it is there already: another task or another sweep may have been quicker.

    ``experiment`` is the hash that the driver gave it; an executor with other code would write other results elsewhere.
    """
    from endive.config import Document
    from endive.runs.execute import run_experiment
    from endive.runs.identity import code_version, compute_experiment_hash
    from endive.runs.layout import experiment_directory, run_directory
    from endive.runs.stored import StoredRun

    started = time.perf_counter()
    document = Document.model_validate(json.loads(document_json))
    outcome: dict[str, Any] = {"experiment": experiment, "seed": seed, "rows": 0, "error": None}
    if compute_experiment_hash(document) != experiment:
        error = f"the executor has other code ({code_version()}) than the driver; --ship-code sends it along"
        return {**outcome, "state": "failed", "seconds": 0.0, "error": error}
    stored = StoredRun(run_directory(experiment_directory(document, root), seed))
    if stored.problem() is None:
        return {**outcome, "state": "found", "rows": stored.provenance["rows"], "seconds": 0.0}
    try:
        finished = run_experiment(document, root=root, seed=seed)
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        return {**outcome, "state": "failed", "seconds": time.perf_counter() - started, "error": text}
    return {**outcome, "state": "done", "rows": finished.rows, "seconds": time.perf_counter() - started}
