"""What a run amounts to: counts, rates, percentiles and where the time went, without keeping its rows.

What flows in: batches of result rows, in any number. What flows out: a plain dictionary (``summary.json``). It holds a histogram
of latencies for each class and operation, never the latencies themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from endive.catalog import CatalogCounters
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS
from endive.transaction import ManifestListCounters

_SUMS = (*COUNT_COLUMNS, *IO_COLUMNS, *TIME_COLUMNS)
PERCENTILES = (50, 95, 99)

_BINS_PER_DOUBLING = 512
_LOWEST_MS = 2.0**-10
_BINS = 60 * _BINS_PER_DOUBLING


@dataclass(frozen=True)
class RunCounters:
    """What happened at the catalog and at the manifest lists of a run."""

    counts: dict[str, int | float]

    @classmethod
    def of(cls, catalog: CatalogCounters, lists: ManifestListCounters) -> RunCounters:
        """All counters by name."""
        return cls({**dataclasses.asdict(catalog), **dataclasses.asdict(lists)})


class LatencyHistogram:
    """Latencies in bins that are narrower than 0.14 % of their value, from a microsecond up."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS, np.int64)

    def add(self, values_ms: npt.NDArray[np.float64]) -> None:
        """Count these values."""
        exponent = np.log2(np.maximum(values_ms, _LOWEST_MS) / _LOWEST_MS)
        bins = np.minimum((exponent * _BINS_PER_DOUBLING).astype(np.int64), _BINS - 1)
        np.add.at(self._counts, bins, 1)

    def percentile_ms(self, percent: float) -> float | None:
        """The value below which so many percent lie (the middle of its bin); None if there are no values."""
        total = int(self._counts.sum())
        if total == 0:
            return None
        rank = max(1, int(np.ceil(total * percent / 100.0)))
        index = int(np.searchsorted(np.cumsum(self._counts), rank))
        if index == 0:
            return 0.0  # a microsecond or less, such as the commit of a reader
        return float(_LOWEST_MS * 2.0 ** ((index + 0.5) / _BINS_PER_DOUBLING))


@dataclass
class GroupSummary:
    """The transactions of one class and operation."""

    committed: int = 0
    aborted: int = 0
    in_flight: int = 0
    committed_in_time: int = 0
    abort_reasons: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    commit_latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    total_latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    def add(self, rows: pa.RecordBatch, duration_ms: float) -> None:
        """Count these rows."""
        status = rows.column("status")
        committed = pc.equal(status, "committed")
        self.committed += pc.sum(committed).as_py() or 0
        self.aborted += pc.sum(pc.equal(status, "aborted")).as_py() or 0
        self.in_flight += pc.sum(pc.equal(status, "in_flight")).as_py() or 0
        for pair in pc.value_counts(pc.drop_null(rows.column("abort_reason"))).to_pylist():
            self.abort_reasons[pair["values"]] = self.abort_reasons.get(pair["values"], 0) + pair["counts"]
        for name in _SUMS:
            self.sums[name] += pc.sum(rows.column(name)).as_py() or 0
        done = rows.filter(committed)
        self.committed_in_time += pc.sum(pc.less_equal(done.column("t_commit"), duration_ms)).as_py() or 0
        self.commit_latency.add(done.column("commit_latency").to_numpy(zero_copy_only=False))
        self.total_latency.add(done.column("total_latency").to_numpy(zero_copy_only=False))

    def to_dict(self, duration_ms: float) -> dict[str, Any]:
        """Plain numbers."""
        finished = self.committed + self.aborted
        transactions = finished + self.in_flight
        return {
            "transactions": transactions,
            "committed": self.committed,
            "aborted": self.aborted,
            "in_flight": self.in_flight,
            "abort_reasons": dict(sorted(self.abort_reasons.items())),
            "success_rate": self.committed / finished if finished else None,
            "throughput_per_s": self.committed_in_time / (duration_ms / 1000.0),
            "retries_per_transaction": self.sums["n_retries"] / transactions if transactions else None,
            "commit_latency_ms": {f"p{p}": self.commit_latency.percentile_ms(p) for p in PERCENTILES},
            "total_latency_ms": {f"p{p}": self.total_latency.percentile_ms(p) for p in PERCENTILES},
            **{name: self.sums[name] for name in _SUMS},
        }

    def merge(self, other: GroupSummary) -> None:
        """Count what the other has counted, too."""
        self.committed += other.committed
        self.aborted += other.aborted
        self.in_flight += other.in_flight
        self.committed_in_time += other.committed_in_time
        for reason, count in other.abort_reasons.items():
            self.abort_reasons[reason] = self.abort_reasons.get(reason, 0) + count
        for name in _SUMS:
            self.sums[name] += other.sums[name]
        self.commit_latency._counts += other.commit_latency._counts
        self.total_latency._counts += other.total_latency._counts


class Summary:
    """A sink for result rows that remembers their summary by class and operation."""

    def __init__(self, duration_ms: float) -> None:
        self.duration_ms = duration_ms
        self.groups: dict[tuple[str, str], GroupSummary] = {}

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch."""
        for key, rows in _split(batch):
            self.groups.setdefault(key, GroupSummary()).add(rows, self.duration_ms)

    @property
    def total(self) -> GroupSummary:
        """All classes and operations together."""
        total = GroupSummary()
        for key in sorted(self.groups):
            total.merge(self.groups[key])
        return total

    def to_dict(self, counters: RunCounters) -> dict[str, Any]:
        """Plain numbers: of the whole run, of each class and operation, and the counters of the catalog."""
        return {
            "duration_ms": self.duration_ms,
            "total": self.total.to_dict(self.duration_ms),
            "by_class_and_operation": [
                {"workload_class": cls, "operation_type": operation, **self.groups[cls, operation].to_dict(self.duration_ms)}
                for cls, operation in sorted(self.groups)
            ],
            "counters": counters.counts,
        }


def _split(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """The rows of each class and operation."""
    for cls in pc.unique(batch.column("workload_class")).to_pylist():
        of_class = batch.filter(pc.equal(batch.column("workload_class"), cls))
        for operation in pc.unique(of_class.column("operation_type")).to_pylist():
            yield (cls, operation), of_class.filter(pc.equal(of_class.column("operation_type"), operation))
