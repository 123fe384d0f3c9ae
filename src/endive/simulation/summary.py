"""Summarize a run while it is streamed: counts and sums by class and operation, without storing rows.

The summary covers the whole run. Rates and percentiles need a measurement window and all rows: ``endive.analysis`` computes them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from endive.catalog import CatalogCounters
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS
from endive.transaction import ManifestListCounters
from endive.workload import HandOverCounters, SlotCounters

_SUMS = (*COUNT_COLUMNS, *IO_COLUMNS, *TIME_COLUMNS)


@dataclass(frozen=True)
class RunCounters:
    """Counters of the catalog, the manifest lists, the committers and the writers of a run."""

    counts: dict[str, int | float]

    @classmethod
    def collect(
        cls,
        catalog: CatalogCounters,
        lists: ManifestListCounters,
        handovers: HandOverCounters | None = None,
        slots: SlotCounters | None = None,
    ) -> RunCounters:
        """Return all counters by name."""
        kinds = (catalog, lists, handovers or HandOverCounters(), slots or SlotCounters())
        return cls({name: count for each in kinds for name, count in dataclasses.asdict(each).items()})


def counts_of(rows: pa.RecordBatch, column: str) -> Counter[str]:
    """Count the values of a text column, ignoring nulls."""
    pairs = pc.value_counts(pc.drop_null(rows.column(column))).to_pylist()
    return Counter({pair["values"]: pair["counts"] for pair in pairs})


@dataclass
class GroupSummary:
    """Summary of the transactions of one class and operation."""

    committed: int = 0
    aborted: int = 0
    in_flight: int = 0
    abort_reasons: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows to the summary."""
        statuses = counts_of(rows, "status")
        self.committed += statuses["committed"]
        self.aborted += statuses["aborted"]
        self.in_flight += statuses["in_flight"]
        self.abort_reasons.update(counts_of(rows, "abort_reason"))
        for name in _SUMS:
            self.sums[name] += pc.sum(rows.column(name)).as_py() or 0

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain numbers."""
        return {
            "transactions": self.committed + self.aborted + self.in_flight,
            "committed": self.committed,
            "aborted": self.aborted,
            "in_flight": self.in_flight,
            "abort_reasons": dict(sorted(self.abort_reasons.items())),
            **{name: self.sums[name] for name in _SUMS},
        }

    def merge(self, other: GroupSummary) -> None:
        """Add the counts of another summary."""
        self.committed += other.committed
        self.aborted += other.aborted
        self.in_flight += other.in_flight
        self.abort_reasons.update(other.abort_reasons)
        for name in _SUMS:
            self.sums[name] += other.sums[name]


class Summary:
    """Sink for result rows that keeps their summary by class and operation."""

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
        """Return plain numbers of the whole run, of each class and operation, and the counters of the catalog."""
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
    """Return the utilization of a catalog service as means over the run and over its requests; empty without a service."""
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
    """Return the rows of each class and operation."""
    for cls, of_class in _split_by(batch, "workload_class"):
        for operation, rows in _split_by(of_class, "operation_type"):
            yield (cls, operation), rows


def _split_by(batch: pa.RecordBatch, column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    names = pc.unique(batch.column(column)).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(batch.column(column), name))
