"""What runs on executors for metrics: measure the parts that a task describes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from endive.pipeline.ddl import ddl
from endive.pipeline.jobs import specs_of
from endive.studies.measure import SERIES_SCHEMA, TASK_SCHEMA, measured_batch, series_batch

TASK_DDL = ddl(TASK_SCHEMA)
SERIES_DDL = ddl(SERIES_SCHEMA)


def measure_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The metrics of the runs in the parts that the rows describe."""
    for spec in specs_of(batches):
        yield measured_batch(spec)


def series_of_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many transactions were committing over time in the parts that the rows describe."""
    for spec in specs_of(batches):
        yield series_batch(spec)
