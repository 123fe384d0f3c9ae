"""Convert results to Arrow rows, in the schema that all engines write and all readers expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, get_type_hints

import pyarrow as pa

from endive.simulation.columns import COLUMNS, Kind
from endive.transaction import TraceEvent, TransactionResult, TransactionStatus

BATCH_ROWS = 65_536
"""Number of rows per batch. Batches become row groups, so byte-identical files need the same number."""

_ARROW: dict[Kind, pa.DataType] = {
    "id": pa.int64(),
    "ms": pa.float64(),
    "count": pa.int64(),
    "state": pa.int64(),
    "text": pa.string(),
    "tables": pa.list_(pa.int64()),
}
RESULT_SCHEMA = pa.schema([(column.name, _ARROW[column.kind]) for column in COLUMNS])

_TRACED = {float: pa.float64(), int: pa.int64(), str: pa.string()}
TRACE_SCHEMA = pa.schema([(name, _TRACED[kind]) for name, kind in get_type_hints(TraceEvent).items()])


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the encodings and the compression of Parquet files of rows.

    Times in milliseconds rarely repeat: a dictionary would cost time and space, and byte-stream splitting compresses them better.
    Transaction ids increase. All other values repeat. Compared with Parquet's defaults and zstd, files take 24 to 29% less space
    and 55% less CPU time to write. zstd instead of lz4 would save 7 to 9% of the space and cost 24 to 32% more time.
    """
    split = {field.name: "BYTE_STREAM_SPLIT" for field in schema if pa.types.is_floating(field.type)}
    encodings = {**split, **({"txn_id": "DELTA_BINARY_PACKED"} if "txn_id" in schema.names else {})}
    others = [field for field in schema if field.name not in encodings]
    repeated = [f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name for field in others]
    return {"compression": "lz4", "use_dictionary": repeated, "column_encoding": encodings}


Sink = Callable[[pa.RecordBatch], None]
Progress = Callable[[float], None]
"""Callback that periodically receives the clock of the run in milliseconds."""
T = TypeVar("T")


def results_to_batch(results: Sequence[TransactionResult]) -> pa.RecordBatch:
    """Return rows for results."""
    columns = []
    for column in COLUMNS:
        values = [getattr(result, column.attribute) for result in results]
        if column.name == "status":
            values = [status.name.lower() for status in values]
        columns.append(pa.array(values, _ARROW[column.kind]))
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)


def batch_to_results(batch: pa.RecordBatch) -> list[TransactionResult]:
    """Return results for rows."""
    columns = {column.attribute: batch.column(column.name).to_pylist() for column in COLUMNS}
    columns["status"] = [TransactionStatus[status.upper()] for status in columns["status"]]
    columns["tables_written"] = [tuple(tables) for tables in columns["tables_written"]]
    columns["abort_time_ms"] = [
        submit + latency if status is TransactionStatus.ABORTED else -1.0
        for submit, latency, status in zip(columns["submit_time_ms"], columns["total_latency_ms"], columns["status"], strict=True)
    ]
    return [TransactionResult(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def trace_to_batch(events: Sequence[TraceEvent]) -> pa.RecordBatch:
    """Return rows for trace events."""
    columns = [pa.array([getattr(event, field.name) for event in events], field.type) for field in TRACE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=TRACE_SCHEMA)


class RowBuffer(Generic[T]):
    """Buffer that forwards items in full batches, so that at most one batch is in memory."""

    def __init__(self, to_batch: Callable[[Sequence[T]], pa.RecordBatch], sink: Sink) -> None:
        self._to_batch = to_batch
        self._sink = sink
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """Add one item."""
        self._items.append(item)
        if len(self._items) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Forward the remaining items."""
        if self._items:
            items, self._items = self._items, []
            self._sink(self._to_batch(items))
