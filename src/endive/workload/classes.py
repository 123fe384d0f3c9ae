"""Workload classes: their arrivals, operations, tables and commit settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from endive.storage import LatencyDistribution
from endive.table import OperationSettings
from endive.transaction import CommitPolicy, ConflictDetector, FastAppendTransaction, Transaction
from endive.workload import selectors
from endive.workload.arrivals import Arrivals
from endive.workload.committer import CommitterSettings

DEFAULT_CLASS = "default"
ALL_CLASSES = "all"
"""Reserved name of the totals over all classes."""


@dataclass(frozen=True)
class ZipfCount:
    """Zipf-distributed number of tables: k has weight 1/k^alpha. Raises ValueError if alpha is negative or not finite."""

    alpha: float

    def __post_init__(self) -> None:
        selectors.check_alpha(self.alpha)


@dataclass(frozen=True)
class WorkloadClass:
    """Stream of similar transactions.

    ``operations`` maps operations to weights. ``tables`` and ``partition_range`` (first, end) restrict the class; None for no
    restriction. If ``partitions_per_txn`` is None, partitions are not tracked and any change of the table overlaps; a fractional
    number is a mean. ``max_retries``, ``policy`` and ``conflict_detector`` default to the settings of the run.
    """

    name: str
    arrivals: Arrivals
    runtime: LatencyDistribution
    operations: Mapping[type[Transaction], float] = field(default_factory=lambda: {FastAppendTransaction: 1.0})
    tables_per_txn: int | ZipfCount = 1
    table_selector: selectors.TableSelector = field(default_factory=selectors.UniformTableSelector)
    tables: tuple[int, ...] | None = None
    partitions_per_txn: float | None = None
    partition_selector: selectors.PartitionSelector = field(default_factory=selectors.UniformPartitionSelector)
    partition_range: tuple[int, int] | None = None
    manifests_per_concurrent_commit: float = 1.5
    max_retries: int | None = None
    policy: CommitPolicy | None = None
    conflict_detector: ConflictDetector | None = None
    settings: OperationSettings | None = None
    """Settings that determine the costs of the operations."""
    start_ms: float = 0.0
    """Start of the class; times of its arrivals are relative to it."""
    end_ms: float = math.inf
    """End of submissions."""
    committer: CommitterSettings | None = None
    """Committer of the writers' file batches, or None if writers commit themselves."""

    def __post_init__(self) -> None:
        if self.name == ALL_CLASSES:
            raise ValueError(f"the class name {ALL_CLASSES!r} is reserved for totals over all classes")
        weights = list(self.operations.values())
        if not weights or not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"class {self.name!r}: weights of operations must not be negative, and at least one must be above 0")

    @property
    def most_uncommitted(self) -> int:
        """Maximum number of uncommitted file batches of a writer; 0 for no limit."""
        given = None if self.committer is None else self.committer.max_in_flight
        return given or (1 if self.arrivals.waits else 0)

    @property
    def is_steady(self) -> bool:
        """True if the load of the class does not change during a run."""
        return self.arrivals.is_steady and self.start_ms == 0.0 and self.end_ms == math.inf
