"""Raising: finished records of transactions become rows of the same schema that the reference engine writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.catalog.server import SERVICE_UNAVAILABLE
from endive.catalog.types import METADATA_TOO_LARGE
from endive.simulation.columns import COLUMNS, Column
from endive.simulation.compiled import layout
from endive.simulation.compiled.lower import OPERATION_ORDER
from endive.simulation.rows import RESULT_SCHEMA
from endive.transaction.accesses import COUNTERS, TIMES
from endive.transaction.failures import CLIENT_CRASH, COMMIT_STATE_UNKNOWN
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION

_STATUS = {layout.COMMITTED: "committed", layout.ABORTED: "aborted", layout.IN_FLIGHT: "in_flight"}
_REASONS = (
    MAX_RETRIES_EXCEEDED,
    COMMIT_TIMEOUT,
    VALIDATION_EXCEPTION,
    SERVICE_UNAVAILABLE,
    METADATA_TOO_LARGE,
    CLIENT_CRASH,
    COMMIT_STATE_UNKNOWN,
)


class _Finished(NamedTuple):
    """Rows as the kernel writes them, word by word of ``layout.ROW``, the tables that each has written, and names of classes."""

    words: layout.Ints
    tables: layout.Ints
    class_names: Sequence[str]

    def __call__(self, name: str, index: int = 0) -> npt.NDArray[Any]:
        """Return the values of a field (of an item of it)."""
        dtype, offset = layout.ROW.fields[name][:2]  # type: ignore[index]
        values: npt.NDArray[Any] = self.words[offset // 8 + index].view(dtype.base)
        return values


_COMPUTED: Mapping[str, Callable[[_Finished], pa.Array]] = {
    "t_submit": lambda done: _plain(done("submit_ms")),
    "t_commit_start": lambda done: _plain(done("entered_ms")),
    "n_retries": lambda done: _plain(done("retries")),
    "t_commit": lambda done: _plain(np.where(done("status") == layout.COMMITTED, done("now_ms"), -1.0)),
    "total_latency": lambda done: _plain(done("now_ms") - done("submit_ms")),
    "status": lambda done: _named(done("status"), [_STATUS.get(code, "") for code in range(len(_STATUS) + 2)]),
    "operation_type": lambda done: _named(done("operation"), [each.operation_type for each in OPERATION_ORDER]),
    "abort_reason": lambda done: _named(done("reason"), _REASONS),
    "workload_class": lambda done: _named(done("cls"), done.class_names),
    "batch_size": lambda done: _plain(np.maximum(done("batch_size"), 1)),
    "duplicates": lambda done: _plain(np.maximum(done("installs") - 1, 0)),
    "orphaned_files": lambda done: _plain(_orphaned(done)),
    "tables_written": lambda done: _lists(done("written"), done.tables),
}
"""Columns that are not in a record as they are, or not by their name."""


def to_batch(words: layout.Ints, tables: layout.Ints, class_names: Sequence[str]) -> pa.RecordBatch:
    """Make a batch of rows; ``tables`` holds the written tables of each. It keeps ``words``, which must not change any more."""
    done = _Finished(words, tables, class_names)
    return pa.RecordBatch.from_arrays([_array(column, done) for column in COLUMNS], schema=RESULT_SCHEMA)


def _array(column: Column, done: _Finished) -> pa.Array:
    if column.attribute in TIMES:
        return _plain(done("times", TIMES.index(column.attribute)))
    if column.attribute in COUNTERS:
        return _plain(done("counts", COUNTERS.index(column.attribute)))
    return _COMPUTED[column.name](done) if column.name in _COMPUTED else _plain(done(column.attribute))


def _orphaned(done: _Finished) -> npt.NDArray[np.int64]:
    """Files that nobody will delete; see ``arithmetic.costs.orphaned_files``."""
    written = done("counts", layout.METADATA_WRITE) + done("counts", layout.LIST_WRITE) + done("counts", layout.FILE_WRITE)
    unclean = np.isin(done("reason"), (layout.CRASH, layout.STATE_UNKNOWN)) & (done("installs") == 0)
    return np.where(unclean, written - done("counts", layout.FILE_DELETE), 0)


def _plain(values: npt.NDArray[np.generic]) -> pa.Array:
    return pa.array(values)


def _named(codes: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Names for codes; negative codes are null."""
    first, last = int(codes.min()), int(codes.max())
    if first == last:  # as it is in most batches, for most columns
        return pa.nulls(len(codes), pa.string()) if first < 0 else pa.repeat(pa.scalar(names[first], pa.string()), len(codes))
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0) if first < 0 else pa.array(codes))


def _lists(lengths: npt.NDArray[np.int64], values: layout.Ints) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    used = np.arange(values.shape[1]) < lengths[:, None]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[used]))
