"""Collect the results of a run in memory, as counts and sums for each class and operation, or as rows.

``Summary`` and ``Statistics`` cover the whole run. Rates and percentiles need a measurement window, so ``endive.analysis`` computes
them from the rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.catalog import CatalogCounters
from endive.simulation.columns import (
    BY_ATTRIBUTE,
    COUNT_COLUMNS,
    IO_COLUMNS,
    RESULT_SCHEMA,
    TIME_COLUMNS,
    batch_to_results,
    is_constant_text,
    results_to_batch,
)
from endive.transaction import ManifestListCounters, TransactionResult
from endive.transaction.types import VALIDATION_EXCEPTION
from endive.workload import HandOverCounters, SlotCounters

if TYPE_CHECKING:
    import pandas as pd

_SUMS = (*COUNT_COLUMNS, *IO_COLUMNS, *TIME_COLUMNS)


@dataclass(frozen=True)
class RunCounters:
    """Counters of the catalog, the manifest lists, the committers and the periodic writers of a run."""

    counts: dict[str, int | float]

    @classmethod
    def collect(
        cls,
        catalog: CatalogCounters,
        lists: ManifestListCounters,
        handovers: HandOverCounters | None = None,
        slots: SlotCounters | None = None,
    ) -> RunCounters:
        """Return the counters of all components, by name."""
        kinds = (catalog, lists, handovers or HandOverCounters(), slots or SlotCounters())
        return cls({name: count for each in kinds for name, count in dataclasses.asdict(each).items()})


def counts_of(rows: pa.RecordBatch, column: str) -> Counter[str]:
    """Count the values of a text column, ignoring nulls."""
    values = rows.column(column)
    if len(values) and is_constant_text(values):
        return Counter({values[0].as_py(): len(values)} if values[0].is_valid else {})
    pairs = pc.value_counts(pc.drop_null(values)).to_pylist()
    return Counter({pair["values"]: pair["counts"] for pair in pairs})


@dataclass
class GroupSummary:
    """Counts and sums of the transactions of one class and operation."""

    committed: int = 0
    aborted: int = 0
    in_flight: int = 0
    abort_reasons: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows to the counts and sums."""
        statuses = counts_of(rows, "status")
        self.committed += statuses["committed"]
        self.aborted += statuses["aborted"]
        self.in_flight += statuses["in_flight"]
        self.abort_reasons.update(counts_of(rows, "abort_reason"))
        for name in _SUMS:
            self.sums[name] += pc.sum(rows.column(name)).as_py() or 0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and sums by name."""
        return {
            "transactions": self.committed + self.aborted + self.in_flight,
            "committed": self.committed,
            "aborted": self.aborted,
            "in_flight": self.in_flight,
            "abort_reasons": dict(sorted(self.abort_reasons.items())),
            **{name: self.sums[name] for name in _SUMS},
        }

    def merge(self, other: GroupSummary) -> None:
        """Add the counts and sums of another class or operation."""
        self.committed += other.committed
        self.aborted += other.aborted
        self.in_flight += other.in_flight
        self.abort_reasons.update(other.abort_reasons)
        for name in _SUMS:
            self.sums[name] += other.sums[name]


class Summary:
    """Sink for result rows that counts the transactions of each class and operation. It does not keep the rows."""

    def __init__(self, duration_ms: float) -> None:
        self.duration_ms = duration_ms
        self.groups: dict[tuple[str, str], GroupSummary] = {}

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        for key, rows in _split(batch):
            self.groups.setdefault(key, GroupSummary()).add(rows)

    @property
    def total(self) -> GroupSummary:
        """Summary of all classes and operations."""
        total = GroupSummary()
        for key in sorted(self.groups):
            total.merge(self.groups[key])
        return total

    def to_dict(self, counters: RunCounters) -> dict[str, Any]:
        """Return the counts and sums of the run and of each class and operation, and the counters of the catalog."""
        return {
            "duration_ms": self.duration_ms,
            "total": self.total.to_dict(),
            "by_class_and_operation": [
                {"workload_class": cls, "operation_type": operation, **self.groups[cls, operation].to_dict()}
                for cls, operation in sorted(self.groups)
            ],
            "counters": counters.counts,
            **_service(counters.counts, self.duration_ms),
        }


def _service(counts: Mapping[str, int | float], duration_ms: float) -> dict[str, Any]:
    """Return the mean load of a catalog service: busy workers, queue length, and wait per request; empty without a service."""
    requests = counts.get("service_requests", 0)
    if not requests:
        return {}
    return {
        "service": {
            "busy_workers": counts["service_busy_ms"] / duration_ms,
            "queue_length": counts["service_waited_ms"] / duration_ms,
            "wait_ms": counts["service_waited_ms"] / requests,
        }
    }


def _split(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """Yield the rows of each class and operation."""
    for cls, of_class in _split_by(batch, "workload_class"):
        for operation, rows in _split_by(of_class, "operation_type"):
            yield (cls, operation), rows


def _split_by(batch: pa.RecordBatch, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    values = batch.column(column)
    if len(values) and is_constant_text(values):
        yield values[0].as_py(), batch
        return
    for name in pc.unique(values).to_pylist():
        yield name, batch.filter(pc.equal(values, name))


class _MadeWhenAsked:
    """Attribute of ``Statistics`` with the list of results, which is created from the Arrow batches when it is read."""

    @overload
    def __get__(self, owner: None, kind: type) -> tuple[()]: ...
    @overload
    def __get__(self, owner: Statistics, kind: type) -> list[TransactionResult]: ...
    def __get__(self, owner: Statistics | None, kind: type) -> tuple[()] | list[TransactionResult]:
        if owner is None:
            return ()  # the default of the dataclass field
        for batch in owner._batches[owner._converted :]:
            owner._results += batch_to_results(batch)
        owner._converted = len(owner._batches)
        return owner._results

    def __set__(self, owner: Statistics, results: Sequence[TransactionResult]) -> None:
        owner._batches = [results_to_batch(results)] if results else []
        owner._results, owner._converted = [], 0


@dataclass
class Statistics:
    """Sink that keeps all rows as Arrow batches and counts them.

    ``transactions`` contains the rows as objects; reading it takes about 30 µs per row. ``record_transaction`` adds a result.

    >>> statistics = Statistics()
    >>> statistics.committed
    0
    """

    transactions: _MadeWhenAsked = _MadeWhenAsked()
    committed: int = 0
    aborted: int = 0
    in_flight: int = 0
    total_retries: int = 0
    validation_exceptions: int = 0
    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0
    counters: RunCounters = field(default_factory=lambda: RunCounters({}))
    _batches: list[pa.RecordBatch] = field(init=False, repr=False, compare=False)
    _results: list[TransactionResult] = field(init=False, repr=False, compare=False)
    _converted: int = field(init=False, repr=False, compare=False)
    """Number of batches whose rows are already in ``_results``."""

    def __repr__(self) -> str:
        """Return the numbers of committed, aborted and in-flight transactions."""
        counts = f"{self.committed:,} committed, {self.aborted:,} aborted, {self.in_flight:,} in flight"
        return f"Statistics({self.total:,} transactions: {counts})"

    @property
    def total(self) -> int:
        """Number of transactions in the rows."""
        return self.committed + self.aborted + self.in_flight

    @property
    def success_rate(self) -> float:
        """Fraction of the ended transactions that committed; NaN if no transaction has ended."""
        ended = self.committed + self.aborted
        return self.committed / ended if ended else math.nan

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch to the kept rows and to the counts."""
        self._batches.append(batch)
        statuses = counts_of(batch, "status")
        self.committed += statuses["committed"]
        self.aborted += statuses["aborted"]
        self.in_flight += statuses["in_flight"]
        self.validation_exceptions += counts_of(batch, "abort_reason")[VALIDATION_EXCEPTION]
        for counter in fields(self):
            if counter.name in BY_ATTRIBUTE:
                rows = batch.column(BY_ATTRIBUTE[counter.name].name)
                setattr(self, counter.name, getattr(self, counter.name) + (pc.sum(rows).as_py() or 0))

    def record_transaction(self, result: TransactionResult) -> None:
        """Add the result of one transaction."""
        self(results_to_batch([result]))

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.Table.from_batches(self._batches, schema=RESULT_SCHEMA)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def export_parquet(self, path: str | Path) -> None:
        """Write the rows to a file atomically."""
        from endive.output_files import whole_file

        with whole_file(Path(path)) as temporary:
            pq.write_table(self.to_table().combine_chunks(), temporary)
