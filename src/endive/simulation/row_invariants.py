"""Check the invariants of result rows, which hold for every configuration and engine.

``RowInvariants`` checks batches in the order in which the engine wrote them, and keeps running totals. ``endive experiments
verify`` and the fuzzers therefore check runs of any length with the same code. These checks can detect mistakes that both engines
share, which a comparison of the engines cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from endive.simulation.columns import COLUMNS, COUNT_COLUMNS, IO_COLUMNS, STATE_COLUMNS, TIME_COLUMNS
from endive.transaction import OPERATIONS, TransactionStatus

_SLACK_MS = 1e-6
_RELATIVE = 1e-9
_STATUSES = frozenset(status.name.lower() for status in TransactionStatus)
_SUMS = (*COUNT_COLUMNS, *IO_COLUMNS)
_MASK = 2**64 - 1
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class RowError(ValueError):
    """Raised if a row violates an invariant of the model."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of the table ids and times in the rows of a run.

    Attributes:
        num_tables: Number of tables, or None if unknown.
        end_ms: Time after which no transaction ends.
    """

    num_tables: int | None = None
    end_ms: float = np.inf


_NO_LIMITS = RunLimits()


class RowInvariants:
    """Checker of the rows of one run.

    Args:
        classes: Workload classes of the run, or None to accept any class.
        closed_classes: Classes in which a client submits its next transaction only after the previous one has ended.
        limits: Limits of the table ids and the times.
    """

    def __init__(
        self,
        classes: frozenset[str] | None = None,
        closed_classes: frozenset[str] = frozenset(),
        limits: RunLimits = _NO_LIMITS,
    ) -> None:
        self._classes = classes
        self._closed_classes = closed_classes
        self._limits = limits
        self._client_end_ms: dict[tuple[str, int], float] = {}
        self._end_ms = -np.inf
        self._rows = 0
        self._sum_of_ids = 0
        self._sum_of_squares = 0
        self.statuses: Counter[str] = Counter()
        """Number of rows by status."""
        self.sums: Counter[str] = Counter()
        """Sums of the count columns."""

    def check(self, batch: pa.RecordBatch) -> None:
        """Check the next rows of the run.

        Raises:
            RowError: If a row violates an invariant; the message names the transaction and the columns.
        """
        self._check_texts(batch)
        columns = {each.name: np.asarray(batch.column(each.name)) for each in COLUMNS if each.kind not in ("text", "tables")}
        status = np.asarray(batch.column("status").to_pylist())
        committed, aborted, in_flight = (status == name for name in ("committed", "aborted", "in_flight"))
        has_reason = ~np.asarray(batch.column("abort_reason").is_null())
        total, submit = columns["total_latency"], columns["t_submit"]
        parts = sum((columns[name] for name in TIME_COLUMNS), np.zeros(len(total)))
        slack = _SLACK_MS + _RELATIVE * np.abs(submit + total)
        numbers = columns["txn_id"]
        for column in COLUMNS:
            if column.kind == "ms":
                self._require(columns[column.name] >= -1.0, numbers, f"{column.name} is negative or not a number")
                self._require(np.isfinite(columns[column.name]), numbers, f"{column.name} is not finite")
            elif column.kind == "count":
                self._require(columns[column.name] >= 0, numbers, f"{column.name} is negative")
        for name in TIME_COLUMNS:
            self._require(columns[name] >= 0.0, numbers, f"{name} is negative")
        self._require(np.abs(parts - total) <= slack, numbers, "the time components do not add up to total_latency", ~in_flight)
        self._require(parts <= total + slack, numbers, "the time components exceed total_latency", in_flight)
        self._require(columns["commit_latency"] <= total + slack, numbers, "commit_latency exceeds total_latency")
        commit = columns["t_commit"]
        self._require(np.abs(commit - submit - total) <= slack, numbers, "t_commit is not t_submit + total_latency", committed)
        self._require(commit == -1.0, numbers, "t_commit is set, but the transaction did not commit", ~committed)
        start = columns["t_commit_start"]
        self._require((start == -1.0) | (start >= submit - slack), numbers, "t_commit_start is before t_submit")
        self._require(
            (start == -1.0) | (start <= submit + total + slack), numbers, "t_commit_start is after the end of the transaction"
        )
        self._require(
            has_reason == aborted,
            numbers,
            "abort_reason is set although the transaction did not abort, or missing although it aborted",
        )
        installs, unknown = columns["installs"], columns["unknown_outcomes"]
        self._require((installs == 0) | (unknown > 0), numbers, "the transaction aborted, but its commit took effect", aborted)
        self._require(columns["duplicates"] == np.maximum(installs - 1, 0), numbers, "duplicates is not installs beyond the first")
        self._check_counts(batch, columns, status)
        tracked = columns["table_snapshots"] != -1
        for name in STATE_COLUMNS:
            self._require((columns[name] != -1) == tracked, numbers, f"{name} is set without {STATE_COLUMNS[-1]}, or missing")
            self._require(columns[name] >= -1, numbers, f"{name} is negative")
        self._require(columns["table_snapshots"] != 0, numbers, "table_snapshots is 0, but a table retains its current snapshot")
        self._require(~tracked, numbers, "table_snapshots is set, but the transaction did not commit", ~committed)
        self._require((start != -1.0) | (columns["commit_latency"] == 0.0), numbers, "commit_latency is set before t_commit_start")
        self._require(
            np.abs(start + columns["commit_latency"] - submit - total) <= slack,
            numbers,
            "t_commit_start + commit_latency is not the end of the transaction",
            (start != -1.0) & (columns["n_restarts"] == 0),
        )
        self._check_limits(batch, submit + total, numbers)
        self._check_order(np.where(in_flight, np.inf, submit + total), numbers)
        self._check_clients(batch, submit, submit + total)
        self._add_ids(numbers)
        self.statuses.update(status.tolist())
        self.sums.update({name: int(columns[name].sum()) for name in _SUMS})

    def check_complete(self) -> None:
        """Check that transactions 0, 1, 2 and so on have exactly one row each.

        Raises:
            RowError: If a transaction is missing, or has more than one row.
        """
        n = self._rows
        expected = (n * (n - 1) // 2) & _MASK, ((n - 1) * n * (2 * n - 1) // 6) & _MASK
        if (self._sum_of_ids, self._sum_of_squares) != expected:
            raise RowError(
                f"the {n:,} rows do not belong to transactions 0 to {n - 1:,}: some transactions have no row or two rows"
            )

    def check_summary(self, total: Mapping[str, Any]) -> None:
        """Check the counts of all rows against the summary of the run.

        Raises:
            RowError: If a count differs.
        """
        counts = {name: self.statuses[name] for name in ("committed", "aborted", "in_flight")}
        found = {"transactions": sum(counts.values()), **counts, **self.sums}
        for name, value in found.items():
            if total.get(name) != value:
                raise RowError(f"{name} is {value:,} in the rows, but {total.get(name)} in the summary")

    def _check_counts(self, batch: pa.RecordBatch, columns: Mapping[str, npt.NDArray[Any]], status: npt.NDArray[Any]) -> None:
        """Check that counts are consistent with each other and with the status."""
        numbers, installs = columns["txn_id"], columns["installs"]
        writes = np.asarray(pc.list_value_length(batch.column("tables_written"))) > 0
        committed = status == "committed"
        unknown, retries = columns["unknown_outcomes"] > 0, columns["n_retries"] > 0
        self._require(installs > 0, numbers, "the transaction committed, but its commit did not take effect", committed & writes)
        self._require(installs == 0, numbers, "the transaction wrote no table, but installs is not 0", ~writes)
        self._require((installs <= 1) | unknown, numbers, "the commit took effect twice, but no response was lost")
        self._require(columns["n_restarts"] <= columns["real_conflicts"], numbers, "n_restarts exceeds real_conflicts")
        self._require((columns["t_backoff"] == 0.0) | retries | unknown, numbers, "t_backoff is not 0, but n_retries is 0")
        self._require(
            columns["orphaned_files"] == 0,
            numbers,
            "orphaned_files is not 0, but the transaction did not abort",
            status != "aborted",
        )

    def _check_limits(self, batch: pa.RecordBatch, ends_ms: Floats, numbers: npt.NDArray[Any]) -> None:
        """Check that times are within the run, and that the tables exist."""
        limits = self._limits
        slack = _SLACK_MS + _RELATIVE * np.abs(ends_ms)
        self._require(ends_ms <= limits.end_ms + slack, numbers, "the transaction ends after the end of the run")
        tables = pc.list_flatten(batch.column("tables_written"))
        if limits.num_tables is not None and len(tables):
            least, most = pc.min_max(tables).values()
            if not 0 <= least.as_py() <= most.as_py() < limits.num_tables:
                raise RowError(
                    f"tables_written contains the id of a table that does not exist (the run has {limits.num_tables:,} tables)"
                )

    def _check_clients(self, batch: pa.RecordBatch, submit: Floats, ends_ms: Floats) -> None:
        """Check that each client of a closed loop submits a transaction only after its previous transaction has ended."""
        if not self._closed_classes:
            return
        names, clients = batch.column("workload_class").to_pylist(), batch.column("client").to_pylist()
        for place, client in enumerate(zip(names, clients, strict=True)):
            if client[0] in self._closed_classes:
                previous = self._client_end_ms.get(client, 0.0)
                if submit[place] < previous - _SLACK_MS - _RELATIVE * previous:
                    number = batch.column("txn_id")[place].as_py()
                    raise RowError(f"transaction {number} was submitted before the previous transaction of its client ended")
                self._client_end_ms[client] = float(ends_ms[place])

    def _add_ids(self, numbers: npt.NDArray[Any]) -> None:
        if not np.issubdtype(numbers.dtype, np.integer):
            raise RowError("txn_id is missing in some rows")
        ids = numbers.astype(np.uint64)
        self._rows += len(ids)
        self._sum_of_ids = (self._sum_of_ids + int(ids.sum())) & _MASK
        self._sum_of_squares = (self._sum_of_squares + int((ids * ids).sum())) & _MASK

    def _check_texts(self, batch: pa.RecordBatch) -> None:
        for name, allowed in (("status", _STATUSES), ("operation_type", frozenset(OPERATIONS)), ("workload_class", self._classes)):
            found = set(batch.column(name).unique().to_pylist())
            unknown = found - allowed if allowed is not None else found & {None}
            if unknown:
                raise RowError(f"{name} contains {str(sorted(map(str, unknown))[0])[:60]!a}, which is not in the configuration")

    def _check_order(self, ends_ms: Floats, numbers: npt.NDArray[Any]) -> None:
        """Check that rows are in the order in which their transactions end, followed by the transactions in flight."""
        previous = np.concatenate(([self._end_ms], ends_ms[:-1]))
        slack = np.where(np.isfinite(previous), _SLACK_MS + _RELATIVE * np.abs(previous), 0.0)
        self._require(ends_ms >= previous - slack, numbers, "the row is out of order")
        if len(ends_ms):
            self._end_ms = float(np.max(ends_ms))

    @staticmethod
    def _require(satisfied: Flags, numbers: npt.NDArray[Any], problem: str, where: Flags | None = None) -> None:
        wrong = ~satisfied if where is None else ~satisfied & where
        if wrong.any():
            raise RowError(f"transaction {numbers[int(np.argmax(wrong))]}: {problem}")
