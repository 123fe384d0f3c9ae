"""Run a configuration on the compiled engine: convert it to arrays, run the kernel, and pass its rows to the sink."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.catalog import CatalogCounters
from endive.catalog.service_queue import SERVICE_UNAVAILABLE
from endive.catalog.snapshots import METADATA_TOO_LARGE
from endive.simulation.columns import BATCH_ROWS, COLUMNS, RESULT_SCHEMA, Column, Progress, Sink
from endive.simulation.compiled import run_state
from endive.simulation.compiled.kernel_cache import load_kernel
from endive.simulation.compiled.lower import OPERATION_ORDER, features_of, lower
from endive.simulation.compiled.run_state import with_more_ages, with_more_handovers, with_more_slots, with_room_in_history
from endive.simulation.config import SimulationConfig
from endive.simulation.summary import RunCounters
from endive.steps import REQUEST_FAILED
from endive.transaction import ManifestListCounters
from endive.transaction.policy import CLIENT_CRASH, COMMIT_STATE_UNKNOWN
from endive.transaction.types import COMMIT_TIMEOUT, COUNTERS, MAX_RETRIES_EXCEEDED, OPERATION_TIMEOUT, TIMES, VALIDATION_EXCEPTION
from endive.workload import HandOverCounters, SlotCounters

_STATUS = {run_state.COMMITTED: "committed", run_state.ABORTED: "aborted", run_state.IN_FLIGHT: "in_flight"}
_REASONS = (
    MAX_RETRIES_EXCEEDED,
    COMMIT_TIMEOUT,
    VALIDATION_EXCEPTION,
    SERVICE_UNAVAILABLE,
    METADATA_TOO_LARGE,
    CLIENT_CRASH,
    COMMIT_STATE_UNKNOWN,
    REQUEST_FAILED,
    OPERATION_TIMEOUT,
)


class _Finished(NamedTuple):
    """Rows that the kernel wrote: words of ``run_state.ROW``, the tables that each transaction wrote, and class names."""

    words: run_state.Ints
    tables: run_state.Ints
    class_names: Sequence[str]

    def __call__(self, name: str, index: int = 0) -> npt.NDArray[Any]:
        """Return the values of a field for all rows, or of one element of an array field."""
        dtype, offset = run_state.ROW.fields[name][:2]  # type: ignore[index]
        values: npt.NDArray[Any] = self.words[offset // 8 + index].view(dtype.base)
        return values


_COMPUTED: Mapping[str, Callable[[_Finished], pa.Array]] = {
    "t_submit": lambda done: _plain(done("submit_ms")),
    "t_commit_start": lambda done: _plain(done("entered_ms")),
    "n_retries": lambda done: _plain(done("retries")),
    "t_commit": lambda done: _plain(np.where(done("status") == run_state.COMMITTED, done("now_ms"), -1.0)),
    "total_latency": lambda done: _plain(done("now_ms") - done("submit_ms")),
    "status": lambda done: _named(done("status"), [_STATUS.get(code, "") for code in range(len(_STATUS) + 2)]),
    "operation_type": lambda done: _named(done("operation"), [each.operation_type for each in OPERATION_ORDER]),
    "abort_reason": lambda done: _named(done("reason"), _REASONS),
    "workload_class": lambda done: _named(done("cls"), done.class_names),
    "batch_size": lambda done: _plain(np.maximum(done("batch_size"), 1)),
    "duplicates": lambda done: _plain(np.maximum(done("installs") - 1, 0)),
    "orphaned_files": lambda done: _plain(_orphaned(done)),
    "table_metadata_bytes": lambda done: _plain(_state(done, "table_metadata_bytes")),
    "table_manifests": lambda done: _plain(_state(done, "table_manifests")),
    "table_snapshots": lambda done: _plain(_state(done, "table_snapshots")),
    "tables_written": lambda done: _lists(done("written"), done.tables),
}
"""Functions that compute the columns that are not fields of the rows of the kernel."""


def to_batch(words: run_state.Ints, tables: run_state.Ints, class_names: Sequence[str]) -> pa.RecordBatch:
    """Return an Arrow batch of rows with the tables in ``tables``. The batch does not refer to the memory of ``words``."""
    done = _Finished(words, tables, class_names)
    return pa.RecordBatch.from_arrays([_array(column, done) for column in COLUMNS], schema=RESULT_SCHEMA)


def _array(column: Column, done: _Finished) -> pa.Array:
    if column.attribute in TIMES:
        return _plain(done("times", TIMES.index(column.attribute)))
    if column.attribute in COUNTERS:
        return _plain(done("counts", COUNTERS.index(column.attribute)))
    return _COMPUTED[column.name](done) if column.name in _COMPUTED else _plain(done(column.attribute))


def _state(done: _Finished, name: str) -> npt.NDArray[np.int64]:
    """Return a column with the state of the table after the commit.

    The value is -1 if the transaction did not commit or the catalog does not track files.
    """
    known = (done("status") == run_state.COMMITTED) & (done("table_snapshots") > 0)
    return np.where(known, done(name), -1)


def _orphaned(done: _Finished) -> npt.NDArray[np.int64]:
    """Return the number of orphaned files of each transaction, as ``arithmetic.costs.orphaned_files`` defines them."""
    written = done("counts", run_state.METADATA_WRITE) + done("counts", run_state.LIST_WRITE) + done("counts", run_state.FILE_WRITE)
    reasons = (run_state.CRASH, run_state.STATE_UNKNOWN, run_state.FAILED, run_state.CANCELLED)
    unclean = np.isin(done("reason"), reasons) & (done("installs") == 0)
    return np.where(unclean, np.maximum(written - done("counts", run_state.FILE_DELETE), 0), 0)


def _plain(values: npt.NDArray[np.generic]) -> pa.Array:
    """Return a copy of 8-byte numbers. Most columns are constant, and equal constant columns share one array.

    The copy is in the memory of Arrow's pool. In NumPy's memory, long-lived small objects would fragment the heap, which would then
    grow with the length of the run.
    """
    words = values.view(np.int64)
    first = words[0]
    if (words == first).all():
        return _repeat_number(values.dtype.str, int(first), len(words))
    return pa.array(values).copy_to(pa.default_cpu_memory_manager())


@lru_cache(maxsize=16)
def _repeat_number(kind: str, word: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, word).view(kind))


@lru_cache(maxsize=16)
def _repeat_text(text: str | None, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def _named(codes: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Return the name of each code. The name of a negative code is null."""
    first, last = int(codes.min()), int(codes.max())
    if first == last:  # the case for most columns
        return _repeat_text(None if first < 0 else names[first], len(codes))
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0) if first < 0 else pa.array(codes))


def _lists(lengths: npt.NDArray[np.int64], values: run_state.Ints) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    used = np.arange(values.shape[1]) < lengths[:, None]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[used]))


_EVENTS_AT_ONCE = 1_000_000
"""Maximum number of events per kernel call. Between calls, the engine reports progress and handles Ctrl-C."""


class CompiledEngine:
    """Run of a configuration on the compiled engine."""

    def __init__(self, config: SimulationConfig, sink: Sink, progress: Progress | None = None) -> None:
        self._config = config
        self._world = lower(config)
        self._kernel = load_kernel(features_of(config))
        self._names = [cls.name for cls in config.workload.config.workload_classes]
        self._sink = sink
        self._progress = progress

    def run(self) -> RunCounters:
        """Run to the end, and return the counters of the catalog, the committers and the writers."""
        run = self._world.run[0]
        self._kernel.begin(self._world.run)
        outcome = -1
        while outcome != run_state.FINISHED:
            outcome = self._kernel.advance(self._world.run, _EVENTS_AT_ONCE)
            if outcome == run_state.ROWS_FULL:
                self._flush()
            elif outcome == run_state.HISTORY_FULL:
                self._world = with_room_in_history(self._world)
            elif outcome == run_state.SLOTS_FULL:
                self._world = with_more_slots(self._world, 2 * len(self._world.txns))
            elif outcome == run_state.AGES_FULL:
                self._world = with_more_ages(self._world)
            elif outcome == run_state.HANDOVERS_FULL:
                self._world = with_more_handovers(self._world)
            if self._progress is not None:
                self._progress(float(run["now_ms"]))
        self._add_in_flight()
        self._flush()
        return self._counters()

    def _flush(self) -> None:
        """Pass the rows to the sink."""
        run = self._world.run[0]
        rows = int(run["rows_used"])
        if rows:
            self._sink(to_batch(self._world.rows[:, :rows], self._world.row_tables[:rows], self._names))
        run["rows_used"] = 0

    def _add_in_flight(self) -> None:
        """Add a row for each transaction in flight at the end of the run, in order of transaction id."""
        world, end_ms = self._world, self._config.duration_ms
        live = np.flatnonzero(world.txns["txn_id"] >= 0)
        live = live[np.argsort(world.txns["txn_id"][live])]
        txns = world.txns[live]
        committing = txns["status"] == run_state.COMMITTING
        txns["commit_latency_ms"][committing] += end_ms - txns["commit_started_ms"][committing]
        txns["now_ms"] = end_ms
        txns["status"] = run_state.IN_FLIGHT
        words = txns.view(np.int64).reshape(len(txns), run_state.TXN.itemsize // 8)[:, : len(world.rows)].T
        tables = world.touched["table"][live]
        run, position = world.run[0], 0
        while position < len(txns):
            row = int(run["rows_used"])
            count = min(BATCH_ROWS - row, len(txns) - position)
            self._world.rows[:, row : row + count] = words[:, position : position + count]
            self._world.row_tables[row : row + count] = tables[position : position + count]
            run["rows_used"] += count
            position += count
            if run["rows_used"] == BATCH_ROWS:
                self._flush()

    def _counters(self) -> RunCounters:
        kinds = (CatalogCounters, ManifestListCounters, HandOverCounters, SlotCounters)
        names = [field.name for kind in kinds for field in dataclasses.fields(kind)]
        return RunCounters({name: self._world.run[0][name].item() for name in names})
