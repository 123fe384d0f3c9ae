"""Workload classes: who writes what, how often, and how it commits."""

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
"""What totals over all classes are called; no class may have this name."""


@dataclass(frozen=True)
class ZipfCount:
    """A number of tables from 1 up, where k has weight 1/k^alpha. Raises ValueError for an alpha that is negative or no number."""

    alpha: float

    def __post_init__(self) -> None:
        selectors.check_alpha(self.alpha)


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
    """How its operations are used, where their costs depend on it."""
    start_ms: float = 0.0
    """When it begins: what its arrivals say counts from here."""
    end_ms: float = math.inf
    """From when on nothing more is submitted."""
    committer: CommitterSettings | None = None
    """Who commits what its writers hand over; None: they commit themselves."""

    def __post_init__(self) -> None:
        if self.name == ALL_CLASSES:
            raise ValueError(f"a class cannot be called {ALL_CLASSES!r}: that is what totals over all classes are called")
        weights = list(self.operations.values())
        if not weights or not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"class {self.name!r}: at least one operation needs a weight above 0, and none may be negative")

    @property
    def most_uncommitted(self) -> int:
        """How many hand-overs of one writer may be uncommitted; 0: any number."""
        given = None if self.committer is None else self.committer.max_in_flight
        return given or (1 if self.arrivals.waits else 0)

    @property
    def is_steady(self) -> bool:
        """Whether it goes on in the same way from the start of a run to its end."""
        return self.arrivals.is_steady and self.start_ms == 0.0 and self.end_ms == math.inf
