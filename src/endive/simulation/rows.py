"""Results as Arrow rows: the schema that every engine writes and every reader relies on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import pyarrow as pa

from endive.transaction import TraceEvent, TransactionResult, TransactionStatus

BATCH_ROWS = 65_536
"""Rows of a batch; batches become row groups, so this number is part of what makes files equal byte by byte."""

# column, type, attribute of TransactionResult
_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("txn_id", pa.int64(), "txn_id"),
    ("t_submit", pa.float64(), "submit_time_ms"),
    ("t_runtime", pa.float64(), "runtime_ms"),
    ("t_commit", pa.float64(), "commit_time_ms"),
    ("commit_latency", pa.float64(), "commit_latency_ms"),
    ("total_latency", pa.float64(), "total_latency_ms"),
    ("n_retries", pa.int64(), "total_retries"),
    ("status", pa.string(), "status"),
    ("operation_type", pa.string(), "operation_type"),
    ("abort_reason", pa.string(), "abort_reason"),
    ("manifest_list_reads", pa.int64(), "manifest_list_reads"),
    ("manifest_list_writes", pa.int64(), "manifest_list_writes"),
    ("manifest_file_reads", pa.int64(), "manifest_file_reads"),
    ("manifest_file_writes", pa.int64(), "manifest_file_writes"),
    ("catalog_read_ms", pa.float64(), "catalog_read_ms"),
    ("per_attempt_io_ms", pa.float64(), "per_attempt_io_ms"),
    ("conflict_io_ms", pa.float64(), "conflict_io_ms"),
    ("catalog_commit_ms", pa.float64(), "catalog_commit_ms"),
    ("workload_class", pa.string(), "workload_class"),
    ("tables_written", pa.list_(pa.int64()), "tables_written"),
    ("t_backoff", pa.float64(), "backoff_ms"),
    ("metadata_reads", pa.int64(), "metadata_reads"),
    ("metadata_writes", pa.int64(), "metadata_writes"),
    ("manifest_list_appends", pa.int64(), "manifest_list_appends"),
    ("file_deletes", pa.int64(), "file_deletes"),
    ("n_restarts", pa.int64(), "restarts"),
    ("false_conflicts", pa.int64(), "false_conflicts"),
    ("real_conflicts", pa.int64(), "real_conflicts"),
    ("event_count", pa.int64(), "event_count"),
)
RESULT_SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])

TRACE_SCHEMA = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("txn_id", pa.int64()),
        ("event", pa.string()),
        ("kind", pa.string()),
        ("count", pa.int64()),
        ("duration_ms", pa.float64()),
        ("attempt", pa.int64()),
    ]
)

Sink = Callable[[pa.RecordBatch], None]
Progress = Callable[[float], None]
"""Told now and then how far the clock of the run has come, in milliseconds."""
T = TypeVar("T")


def results_to_batch(results: Sequence[TransactionResult]) -> pa.RecordBatch:
    """Rows for results."""
    columns = []
    for name, kind, attribute in _COLUMNS:
        values = [getattr(result, attribute) for result in results]
        if name == "status":
            values = [status.name.lower() for status in values]
        columns.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)


def batch_to_results(batch: pa.RecordBatch) -> list[TransactionResult]:
    """Results for rows."""
    columns = {attribute: batch.column(name).to_pylist() for name, _, attribute in _COLUMNS}
    columns["status"] = [TransactionStatus[status.upper()] for status in columns["status"]]
    columns["tables_written"] = [tuple(tables) for tables in columns["tables_written"]]
    columns["abort_time_ms"] = [
        submit + latency if status is TransactionStatus.ABORTED else -1.0
        for submit, latency, status in zip(columns["submit_time_ms"], columns["total_latency_ms"], columns["status"], strict=True)
    ]
    return [TransactionResult(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def trace_to_batch(events: Sequence[TraceEvent]) -> pa.RecordBatch:
    """Rows for trace events."""
    columns = [pa.array([getattr(event, field.name) for event in events], field.type) for field in TRACE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=TRACE_SCHEMA)


class RowBuffer(Generic[T]):
    """Collects items and hands them on as whole batches, so that no more than one batch is ever held."""

    def __init__(self, to_batch: Callable[[Sequence[T]], pa.RecordBatch], sink: Sink) -> None:
        self._to_batch = to_batch
        self._sink = sink
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """One more item."""
        self._items.append(item)
        if len(self._items) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Hand on what is left."""
        if self._items:
            items, self._items = self._items, []
            self._sink(self._to_batch(items))
