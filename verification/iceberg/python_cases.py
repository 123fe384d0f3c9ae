"""Cases of the first mode for PyIceberg, as data, and how one is run.

An operation is staged on a table as it was loaded; commits of others land before each of its commits but the last, so that those
lose. What is staged counts to the first attempt, as PyIceberg does this work then.
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
"""The first of the partitions of which each deleting commit of others takes one."""
FAST_RETRIES = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
MERGING = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "5"}
SNAPSHOT_ISOLATION = {"write.delete.isolation-level": "snapshot", "write.update.isolation-level": "snapshot"}


@dataclass(frozen=True)
class PythonCase:
    """An operation, the table that it finds, and what others commit meanwhile."""

    operation: str
    intervening: str = "append"
    commits: tuple[int, ...] = ()
    """Commits of others before its first commit, before its second, and so on; one more wins."""
    late: bool = False
    """Whether others commit as late as just before the swap, so that PyIceberg's check of the metadata finds nothing."""
    own_manifests: int = 2
    """Manifests with one data file each of the operation's partition."""
    other_manifests: int = 1
    """Manifests with one data file each of another partition."""
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """What is staged on a partition, and the properties of the table that it takes."""

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
