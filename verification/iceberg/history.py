"""Simulate an operation with concurrent commits at given times, and count its accesses by attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from endive.catalog import InstantCatalog
from endive.conflict_detector import PartitionOverlapConflictDetector
from endive.randomness import Stream
from endive.storage import create_provider
from endive.table import TableChange, TableModel, pyiceberg_traits_of
from endive.transaction import CommitPolicy, Transaction, TransactionResult
from endive.transaction.types import TraceEvent

PARTITIONS = 10


@dataclass(frozen=True)
class Charged:
    """Accesses in the simulation: before the first attempt, at each attempt, and after the success."""

    start: dict[str, int]
    attempts: list[dict[str, int]]
    after: dict[str, int]
    result: TransactionResult


def play(
    txn: Transaction,
    path: str,
    model: TableModel,
    others: Transaction | Sequence[Transaction],
    commits: Sequence[int],
    late: bool = False,
) -> Charged:
    """Run an operation with concurrent commits before its first attempt and before the swap of each attempt.

    PyIceberg does not refresh before its first attempt, but checks the table before it swaps: concurrent commits precede each check
    or, with ``late``, are between check and swap.
    """
    catalog = InstantCatalog(1, (PARTITIONS,), table_model=model)
    waiting = list(commits)
    in_turn = cycle([others] if isinstance(others, Transaction) else others)
    phases: list[Counter[str]] = [Counter()]

    def others_commit() -> None:
        for _ in range(waiting.pop(0) if waiting else 0):
            other = next(in_turn)
            version = catalog.tables[0].version + 1
            partitions = other.partitions_written
            snapshots = pyiceberg_traits_of(other.operation_type, other.settings) if path == "pyiceberg" else (other.get_traits(),)
            changes = tuple(TableChange(traits, None if partitions is None else partitions[0]) for traits in snapshots)
            for _ in catalog.commit(catalog.seq, {0: version}, partitions_written=partitions, changes={0: changes}):
                pass

    def watch(event: TraceEvent) -> None:
        if event.event == "io":
            phases[-1][event.kind] += event.count
        elif event.event == "catalog_read":
            phases[-1]["catalog_reads"] += 1
        elif event.event == "runtime":
            phases.append(Counter())
            if path != "pyiceberg":
                others_commit()
        elif event.event == "attempt":
            phases[-1]["catalog_swaps"] += 1
            if path != "pyiceberg" or late:
                others_commit()
        elif event.event == "check" and not late:
            others_commit()
        elif event.event in ("commit", "commit_failed", "check_failed"):
            phases.append(Counter())

    policy = CommitPolicy(commit_path=path)
    steps = txn.execute(
        catalog,
        create_provider("instant", Stream(0)),
        PartitionOverlapConflictDetector(),
        max_retries=4,
        policy=policy,
        trace=watch,
    )
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: TransactionResult = stop.value
            break
    start, *attempts = [{kind: count for kind, count in sorted(phase.items()) if count} for phase in phases]
    return Charged(start, attempts[:-1], attempts[-1], result)
