"""What runs on executors: simulate the runs of a task and report one row for each.

Results go to files from here; they never pass through Spark. A run that fails is a row with its error, so the others of the task go
on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

SPECS = pa.schema(
    [("task", pa.int32()), ("seed", pa.int64()), ("root", pa.string()), ("experiment", pa.string()), ("document", pa.string())]
)
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
    from endive.config.parts import allow_code
    from endive.config.schema import Document
    from endive.runs.outcome import run_planned

    allow_code()  # whoever sent the work was asked
    for batch in batches:
        for row in batch.to_pylist():
            document = Document.model_validate(json.loads(row["document"]))
            outcome = run_planned(document, row["seed"], Path(row["root"]), row["experiment"])
            yield pa.RecordBatch.from_pylist([asdict(outcome)], schema=_OUTCOME)
