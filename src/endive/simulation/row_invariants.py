"""Invariants of result rows: what every row of every run satisfies, whatever the configuration and the engine.

``RowInvariants`` checks batches in the order in which they were written and keeps running totals, so that ``endive experiments
verify`` and the fuzzers check runs of any length with the same code. Equality of the two engines cannot find a mistake that both
share; these checks can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.simulation.columns import COLUMNS, COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS
from endive.transaction import OPERATIONS, TransactionStatus

_SLACK_MS = 1e-6
_RELATIVE = 1e-9
_STATUSES = frozenset(status.name.lower() for status in TransactionStatus)
_SUMS = (*COUNT_COLUMNS, *IO_COLUMNS)
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class RowError(ValueError):
    """A row that the model cannot write."""


class RowInvariants:
    """Checks the rows of one run.

    Args:
        classes: Workload classes of the run; None to accept any.
    """

    def __init__(self, classes: frozenset[str] | None = None) -> None:
        self._classes = classes
        self._end_ms = -np.inf
        self.statuses: Counter[str] = Counter()
        """Number of rows by status."""
        self.sums: Counter[str] = Counter()
        """Sums of the count columns."""

    def check(self, batch: pa.RecordBatch) -> None:
        """Check the next rows of the run.

        Raises:
            RowError: A row violates an invariant; the message names the transaction and the columns.
        """
        self._check_texts(batch)
        columns = {each.name: np.asarray(batch.column(each.name)) for each in COLUMNS if each.kind in ("ms", "count", "id")}
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
        self._require((start == -1.0) | (start <= submit + total + slack), numbers, "t_commit_start is after the end")
        self._require(has_reason == aborted, numbers, "abort_reason is set for a transaction that is not aborted, or missing")
        installs, unknown = columns["installs"], columns["unknown_outcomes"]
        self._require((installs == 0) | (unknown > 0), numbers, "it is aborted, but its commit took effect", aborted)
        self._require(columns["duplicates"] == np.maximum(installs - 1, 0), numbers, "duplicates is not installs beyond the first")
        self._check_order(np.where(in_flight, np.inf, submit + total), numbers)
        self.statuses.update(status.tolist())
        self.sums.update({name: int(columns[name].sum()) for name in _SUMS})

    def check_summary(self, total: Mapping[str, Any]) -> None:
        """Check the counts of all rows against the summary of the run.

        Raises:
            RowError: A count differs.
        """
        counts = {name: self.statuses[name] for name in ("committed", "aborted", "in_flight")}
        found = {"transactions": sum(counts.values()), **counts, **self.sums}
        for name, value in found.items():
            if total.get(name) != value:
                raise RowError(f"{name} is {value:,} in the rows, but {total.get(name)} in the summary")

    def _check_texts(self, batch: pa.RecordBatch) -> None:
        for name, allowed in (("status", _STATUSES), ("operation_type", frozenset(OPERATIONS)), ("workload_class", self._classes)):
            found = set(batch.column(name).unique().to_pylist())
            unknown = found - allowed if allowed is not None else found & {None}
            if unknown:
                raise RowError(f"{name} is {str(sorted(map(str, unknown))[0])[:60]!a}, which the configuration does not have")

    def _check_order(self, ends_ms: Floats, numbers: npt.NDArray[Any]) -> None:
        """Rows are written in the order in which transactions end; those in flight come last."""
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
