"""Raising: finished records of transactions become rows of the same schema that the reference engine writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.simulation.compiled import layout
from endive.simulation.compiled.lower import OPERATION_ORDER
from endive.simulation.rows import RESULT_SCHEMA
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION

_STATUS = {layout.COMMITTED: "committed", layout.ABORTED: "aborted", layout.IN_FLIGHT: "in_flight"}
_REASONS = (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT, VALIDATION_EXCEPTION)


def to_batch(txns: layout.Array, tables: layout.Ints, class_names: Sequence[str]) -> pa.RecordBatch:
    """Rows for records; ``tables`` holds the written tables of each."""
    status, times, counts = txns["status"], txns["times"], txns["counts"]
    columns: dict[str, pa.Array] = {
        "txn_id": _plain(txns["txn_id"]),
        "t_submit": _plain(txns["submit_ms"]),
        "t_runtime": _plain(times[:, layout.RUNTIME]),
        "t_commit": _plain(np.where(status == layout.COMMITTED, txns["now_ms"], -1.0)),
        "commit_latency": _plain(txns["commit_latency_ms"]),
        "total_latency": _plain(txns["now_ms"] - txns["submit_ms"]),
        "n_retries": _plain(txns["retries"]),
        "status": _named(status, [_STATUS.get(code, "") for code in range(len(_STATUS) + 2)]),
        "operation_type": _named(txns["operation"], [operation.operation_type for operation in OPERATION_ORDER]),
        "abort_reason": _named(txns["reason"], _REASONS),
        "manifest_list_reads": _plain(counts[:, layout.LIST_READ]),
        "manifest_list_writes": _plain(counts[:, layout.LIST_WRITE]),
        "manifest_file_reads": _plain(counts[:, layout.FILE_READ]),
        "manifest_file_writes": _plain(counts[:, layout.FILE_WRITE]),
        "catalog_read_ms": _plain(times[:, layout.CATALOG_READ]),
        "per_attempt_io_ms": _plain(times[:, layout.PER_ATTEMPT_IO]),
        "conflict_io_ms": _plain(times[:, layout.CONFLICT_IO]),
        "catalog_commit_ms": _plain(times[:, layout.CATALOG_COMMIT]),
        "workload_class": _named(txns["cls"], class_names),
        "tables_written": _lists(txns["written"], tables),
        "t_backoff": _plain(times[:, layout.BACKOFF]),
        "metadata_reads": _plain(counts[:, layout.METADATA_READ]),
        "metadata_writes": _plain(counts[:, layout.METADATA_WRITE]),
        "manifest_list_appends": _plain(counts[:, layout.LIST_APPENDS]),
        "file_deletes": _plain(counts[:, layout.FILE_DELETE]),
        "n_restarts": _plain(txns["restarts"]),
        "false_conflicts": _plain(txns["false_conflicts"]),
        "real_conflicts": _plain(txns["real_conflicts"]),
        "event_count": _plain(txns["event_count"]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RESULT_SCHEMA.names], schema=RESULT_SCHEMA)


def _plain(values: npt.NDArray[np.generic]) -> pa.Array:
    return pa.array(np.ascontiguousarray(values))


def _named(codes: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Names for codes; negative codes are null."""
    indices = pa.array(np.maximum(codes, 0), mask=codes < 0)
    return pa.array(names, pa.string()).take(indices)


def _lists(lengths: npt.NDArray[np.int64], values: layout.Ints) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    used = np.arange(values.shape[1]) < lengths[:, None]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[used]))
