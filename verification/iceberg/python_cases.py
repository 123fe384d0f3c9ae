"""Cases of the first mode for PyIceberg, as data, and their execution.

An operation is staged on a loaded table. Concurrent commits precede each of its commits except the last, so that these commits
fail. Staging counts as part of the first attempt, because PyIceberg does this work then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Transaction

from verification.iceberg.accesses import Accesses
from verification.iceberg.counts import Counts
from verification.iceberg.python import NAME, CountingCatalog, append_manifests, make_table, rows

OWN = 5
ELSEWHERE = 9
DELETED_BY_OTHERS = 20
"""First of the partitions that concurrent deletes remove, one per commit."""
FAST_RETRIES = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "5"}
SNAPSHOT_ISOLATION = {"write.delete.isolation-level": "snapshot", "write.update.isolation-level": "snapshot"}


@dataclass(frozen=True)
class PythonCase:
    """Operation, its initial table, and the concurrent commits."""

    operation: str
    intervening: str = "append"
    commits: tuple[int, ...] = ()
    """Numbers of concurrent commits before its first commit, its second commit, and so on; one more commit succeeds."""
    late: bool = False
    """True if concurrent commits are just before the swap, so that PyIceberg's check of the metadata finds no change."""
    own_manifests: int = 2
    """Number of manifests with one data file of the operation's partition."""
    other_manifests: int = 1
    """Number of manifests with one data file of another partition."""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """Operation to stage on a partition, and the table properties that it needs."""

    stage: Callable[[Transaction, int], None]
    properties: dict[str, str] = field(default_factory=dict)


def _append(transaction: Transaction, partition: int) -> None:
    transaction.append(rows(partition))


def _overwrite(transaction: Transaction, partition: int) -> None:
    transaction.overwrite(rows(partition), overwrite_filter=f"p = {partition}")


def _delete(transaction: Transaction, partition: int) -> None:
    transaction.delete(f"p = {partition}")


OPERATIONS: Mapping[str, Operation] = {
    "fast_append": Operation(_append),
    "merge_append": Operation(_append, MERGING),
    "overwrite_serializable": Operation(_overwrite),
    "overwrite_snapshot": Operation(_overwrite, SNAPSHOT_ISOLATION),
    "delete": Operation(_delete),
    "delete_snapshot": Operation(_delete, SNAPSHOT_ISOLATION),
}


INTERVENING: Mapping[str, Callable[[Transaction, int], None]] = {
    "append": lambda transaction, _: append_manifests(transaction, [ELSEWHERE]),
    "append_own": lambda transaction, _: append_manifests(transaction, [OWN]),
    "overwrite": lambda transaction, _: _overwrite(transaction, ELSEWHERE),
    "delete": lambda transaction, number: _delete(transaction, DELETED_BY_OTHERS + number),
}


def _cases() -> Iterator[PythonCase]:
    for name in OPERATIONS:
        others = 8 if name == "merge_append" else 1
        for commits in ((), (1,), (3,), (5,), (3, 5), (1, 3, 5)):
            yield PythonCase(name, commits=commits, other_manifests=others)
        yield PythonCase(name, commits=(1,), late=True, other_manifests=others)
        for kind in ("append_own", "overwrite", "delete"):
            yield PythonCase(name, kind, commits=(3,), other_manifests=others)
    yield PythonCase("fast_append", commits=(1, 1, 1, 1, 1))


CASES = tuple(_cases())


def _prepare(folder: Path, case: PythonCase) -> None:
    make_table(CountingCatalog(folder), {**FAST_RETRIES, **OPERATIONS[case.operation].properties, **case.properties})
    deleted = range(DELETED_BY_OTHERS, DELETED_BY_OTHERS + sum(case.commits)) if case.intervening == "delete" else ()
    partitions = [OWN] * case.own_manifests + [ELSEWHERE] * case.other_manifests + list(deleted)
    with CountingCatalog(folder).opened() as catalog, catalog.load_table(NAME).transaction() as transaction:
        append_manifests(transaction, partitions)


def measure(folder: Path, case: PythonCase) -> Counts:
    """Run a case once, in an empty folder."""
    _prepare(folder, case)
    accesses = Accesses()
    waiting = list(case.commits)
    numbers = itertools.count()

    def others_commit() -> None:
        with CountingCatalog(folder).opened() as catalog:
            for _ in range(waiting.pop(0) if waiting else 0):
                with catalog.load_table(NAME).transaction() as transaction:
                    INTERVENING[case.intervening](transaction, next(numbers))

    moment: dict[str, Any] = {"before_swap" if case.late else "before_commit": others_commit}
    error = None
    with CountingCatalog(folder, accesses, **moment).opened() as catalog:
        transaction = catalog.load_table(NAME).transaction()
        accesses.next_phase()
        OPERATIONS[case.operation].stage(transaction, OWN)
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as raised:
            error = f"{type(raised).__name__}: {raised}"
    return Counts.of(accesses, error)
