"""Workload classes: who writes what, how often, and how it commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from endive.storage import LatencyDistribution
from endive.table import OperationSettings
from endive.transaction import CommitPolicy, ConflictDetector, FastAppendTransaction, Transaction
from endive.workload.selectors import (
    PartitionSelector,
    TableSelector,
    UniformPartitionSelector,
    UniformTableSelector,
)

DEFAULT_CLASS = "default"


@dataclass(frozen=True)
class OpenArrivals:
    """Transactions come whatever happens to the earlier ones; the first comes after the first interval."""

    inter_arrival: LatencyDistribution


@dataclass(frozen=True)
class PeriodicArrivals:
    """One transaction at phase, phase + interval, phase + 2 x interval, ..."""

    interval_ms: float
    phase_ms: float = 0.0


@dataclass(frozen=True)
class ClosedArrivals:
    """Clients that each think, submit, wait for the end of their transaction, and think again."""

    clients: int
    think_time: LatencyDistribution


Arrivals = OpenArrivals | PeriodicArrivals | ClosedArrivals


@dataclass(frozen=True)
class ZipfCount:
    """A number of tables from 1 up, where k has weight 1/k^alpha."""

    alpha: float


@dataclass(frozen=True)
class WorkloadClass:
    """A stream of transactions that are alike.

    ``operations`` gives each operation its weight. ``tables`` and ``partition_range`` (first, one past the last) confine the
    class; None leaves it free. ``partitions_per_txn`` of None does not track partitions: any change of the table overlaps; a
    fraction is a mean. ``max_retries``, ``policy`` and ``conflict_detector`` of None are those of the run.
    """

    name: str
    arrivals: Arrivals
    runtime: LatencyDistribution
    operations: Mapping[type[Transaction], float] = field(default_factory=lambda: {FastAppendTransaction: 1.0})
    tables_per_txn: int | ZipfCount = 1
    table_selector: TableSelector = field(default_factory=UniformTableSelector)
    tables: tuple[int, ...] | None = None
    partitions_per_txn: float | None = None
    partition_selector: PartitionSelector = field(default_factory=UniformPartitionSelector)
    partition_range: tuple[int, int] | None = None
    manifests_per_concurrent_commit: float = 1.5
    max_retries: int | None = None
    policy: CommitPolicy | None = None
    conflict_detector: ConflictDetector | None = None
    settings: OperationSettings | None = None
    """How its operations are used, where their costs depend on it."""

    def __post_init__(self) -> None:
        if not self.operations or sum(self.operations.values()) <= 0.0:
            raise ValueError(f"class {self.name!r}: at least one operation needs a weight above 0")
