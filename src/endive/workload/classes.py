"""Define workload classes, table groups, and the selection of tables and partitions.

A table group is a set of tables that share one commit pointer or one log of the catalog. Tables and partitions are selected by
weighted sampling without replacement, with one uniform random number for each selected item.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from endive.arithmetic.costs import insert_pick, pick, written_count
from endive.arithmetic.draws import derive
from endive.randomness import Purpose, RandomSource, Stream, run_key
from endive.storage import LatencyDistribution
from endive.table import OperationSettings
from endive.transaction import CommitPolicy, ConflictDetector, FastAppendTransaction, Transaction
from endive.workload.arrivals import Arrivals
from endive.workload.committer import CommitterSettings

GroupSizes = Literal["uniform", "longtail"]
_LONG_TAIL_ALPHA = 1.0


def assign_groups(num_tables: int, num_groups: int, sizes: GroupSizes, seed: int) -> tuple[int, ...]:
    """Assign each table to a table group. ``seed`` determines the tables of each group.

    If ``sizes`` is ``uniform``, the sizes of two groups differ by at most one table. If it is ``longtail``, the sizes are
    proportional to 1/rank, but at least 1.
    """
    if not 1 <= num_groups <= num_tables:
        raise ValueError(f"num_groups is {num_groups}, but must be from 1 to {num_tables}, the number of tables")
    if num_groups == num_tables:
        return tuple(range(num_tables))
    tables = list(range(num_tables))
    Stream(derive(run_key(seed), Purpose.GROUPS)).shuffle(tables)
    groups = [0] * num_tables
    position = 0
    for group, size in enumerate(group_sizes(num_tables, num_groups, sizes)):
        for table in tables[position : position + size]:
            groups[table] = group
        position += size
    return tuple(groups)


def group_sizes(num_tables: int, num_groups: int, sizes: GroupSizes) -> list[int]:
    """Return the number of tables in each table group, in descending order."""
    weights = [1.0 if sizes == "uniform" else 1.0 / rank**_LONG_TAIL_ALPHA for rank in range(1, num_groups + 1)]
    spare = num_tables - num_groups
    total = sum(weights)
    exact = [spare * weight / total for weight in weights]
    result = [1 + int(share) for share in exact]
    by_remainder = sorted(range(num_groups), key=lambda g: (int(exact[g]) - exact[g], g))
    for group in by_remainder[: num_tables - sum(result)]:
        result[group] += 1
    return result


Selection = tuple[frozenset[int], frozenset[int]]
"""Selected items, and those of them that the transaction writes."""


@cache
def zipf_cumulative(total: int, alpha: float) -> tuple[float, ...]:
    """Return the cumulative weights of a Zipf distribution: the sum of 1/k^alpha for k from 1 to i, for i from 0 to ``total``.

    An alpha of 0 gives the uniform distribution.
    """
    sums = [0.0]
    for k in range(1, total + 1):
        sums.append(sums[-1] + 1.0 / float(k) ** alpha)
    return tuple(sums)


def check_alpha(alpha: float) -> None:
    """Check the exponent of a Zipf distribution.

    Raises:
        ValueError: If the exponent is negative or not finite.
    """
    if not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}, but must be a finite number of at least 0")


class TableSelector(ABC):
    """Rule that selects the tables of a transaction. Subclass it for a custom access pattern."""

    @abstractmethod
    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """Return the tables that a transaction reads and the tables that it writes, as numbers below ``total_tables``."""


class PartitionSelector(ABC):
    """Rule that selects the partitions of a transaction. Subclass it for a custom access pattern."""

    @abstractmethod
    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """Return the partitions that a transaction reads and those that it writes, as numbers below ``total_partitions``."""


class WeightedSelector:
    """Zipf selection without replacement: item k (from 1) has weight 1/k^alpha. The transaction writes the items that are selected
    first.
    """

    def __init__(self, alpha: float = 1.5, write_fraction: float = 1.0) -> None:
        if not 0.0 < write_fraction <= 1.0:
            raise ValueError(f"write_fraction is {write_fraction}, but must be in (0, 1]")
        check_alpha(alpha)
        self.alpha = alpha
        self.write_fraction = write_fraction

    def pick_some(self, n: int, total: int, rng: RandomSource) -> Selection:
        """Return ``n`` of ``total`` items, and the subset that the transaction writes.

        If ``n`` exceeds ``total``, the method returns all items.
        """
        picks = self.picks(n, total, rng)
        return frozenset(picks), frozenset(picks[: written_count(len(picks), self.write_fraction)])

    def picks(self, n: int, total: int, rng: RandomSource) -> list[int]:
        """Return ``n`` of ``total`` items in the order of their selection.

        If ``n`` exceeds ``total``, the method returns all items.
        """
        cumulative = zipf_cumulative(total, self.alpha)
        count = min(n, total)
        chosen, before = [0] * count, [0.0] * count
        picks: list[int] = []
        for number in range(count):
            item = pick(cumulative, total, chosen, before, number, rng.random_sample())
            insert_pick(cumulative, chosen, before, number, item)
            picks.append(item)
        return picks


class ZipfTableSelector(WeightedSelector, TableSelector):
    """Zipf selection of tables: table k has weight 1/k^alpha."""

    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """Return the tables that a transaction reads and the tables that it writes."""
        return self.pick_some(n_tables, total_tables, rng)


class UniformTableSelector(ZipfTableSelector):
    """Uniform selection of tables."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)


class ZipfPartitionSelector(WeightedSelector, PartitionSelector):
    """Zipf selection of partitions: partition k has weight 1/k^alpha."""

    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """Return the partitions that a transaction reads and the partitions that it writes."""
        return self.pick_some(n_partitions, total_partitions, rng)


class UniformPartitionSelector(ZipfPartitionSelector):
    """Uniform selection of partitions."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)


DEFAULT_CLASS = "default"
ALL_CLASSES = "all"
"""Name of the totals over all classes. A workload class cannot have this name."""


@dataclass(frozen=True)
class ZipfCount:
    """Zipf distribution of the number of tables: the number k has weight 1/k^alpha.

    Raises:
        ValueError: If alpha is negative or not finite.
    """

    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)


@dataclass(frozen=True)
class WorkloadClass:
    """Workload class: transactions with the same arrivals, operations and settings.

    ``operations`` maps operations to weights. ``tables`` and ``partition_range`` (first, end) restrict the tables and partitions of
    the class. If they are None, the class has no restriction. ``partitions_per_txn`` is the mean number of partitions that a
    transaction writes in each table. If it is None, transactions do not track partitions, and any two commits to the same table
    overlap. ``max_retries``, ``policy`` and ``conflict_detector`` default to the settings of the run.
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
    """Settings that determine the costs of the operations."""
    start_ms: float = 0.0
    """Start of the class in ms. The times of its arrivals are relative to this start."""
    end_ms: float = math.inf
    """Time after which the class submits no transactions, in ms."""
    committer: CommitterSettings | None = None
    """Settings of the committer to which writers hand off file batches, or None if the writers commit their files themselves."""

    def __post_init__(self) -> None:
        if self.name == ALL_CLASSES:
            raise ValueError(f"the class name {ALL_CLASSES!r} is reserved for the totals of all classes")
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
