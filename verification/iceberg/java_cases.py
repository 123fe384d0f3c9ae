"""Cases of the first mode for Iceberg Java, as data, and their execution.

An operation starts on a separate handle. Concurrent commits precede its first attempt and the swap of each attempt except the last,
so that these attempts fail. The accesses of each attempt and after the success are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from verification.iceberg.accesses import Accesses
from verification.iceberg.counts import Counts
from verification.iceberg.java import JavaTable
from verification.iceberg.java_operations import AROUND, ELSEWHERE, INTERVENING, OPERATIONS, OWN, REMOVING, Prepared

FAST_RETRIES = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2"}
PLACES = {"elsewhere": (ELSEWHERE,), "own": (OWN,), "around": AROUND}
COMMITS = (4, 3, 5)
"""Numbers of concurrent commits before the first attempt, its swap, and the swap of the second attempt: 4, 7 and 12 in total."""


@dataclass(frozen=True)
class JavaCase:
    """Operation, its initial table, and the concurrent commits."""

    operation: str
    intervening: str = "append"
    place: str = "elsewhere"
    commits: tuple[int, ...] = COMMITS
    own_manifests: int = 2
    """Number of manifests with one data file of the operation's partition; the operation removes these files."""
    other_manifests: int = 1
    """Number of manifests with one data file of another partition."""
    delete_manifests: int = 0
    """Number of manifests with one equality delete file of another partition."""
    prior_commits: int = 0
    """Number of earlier commits of the intervening kind, each with a snapshot."""
    scanned: bool = True
    """True if the removed files come from a scan, as in query engines, and therefore reference their manifests."""
    format_version: int = 2
    properties: dict[str, str] = field(default_factory=dict)


def _version(operation: str) -> int:
    return 3 if operation.startswith("deletion_vectors") else 2


SNAPSHOT_OPERATIONS = tuple(name for name in OPERATIONS if not name.startswith("expire"))
REMOVING_OPERATIONS = ("overwrite_serializable", "rewrite_files", "overwrite_by_filter", "replace_partitions", "delete_by_filter")
MERGES = "commit.manifest.min-count-to-merge"
TARGET_SIZE = "commit.manifest.target-size-bytes"


def _cases() -> Iterator[JavaCase]:
    for name in SNAPSHOT_OPERATIONS:
        version = _version(name)
        yield JavaCase(name, commits=(0,), format_version=version)
        for kind in INTERVENING:
            yield JavaCase(name, kind, format_version=version)
        for kind in ("append", "equality_delete", "upsert"):
            yield JavaCase(name, kind, "own", format_version=version)
            yield JavaCase(name, kind, "around", format_version=version)
        yield JavaCase(name, other_manifests=148, format_version=version)
    for name in REMOVING_OPERATIONS:
        yield JavaCase(name, commits=(0,), delete_manifests=3)
        yield JavaCase(name, commits=(0,), other_manifests=96)
        yield JavaCase(name, commits=(0,), other_manifests=97)
    for name in ("overwrite_serializable", "rewrite_files"):
        yield JavaCase(name, scanned=False)
        yield JavaCase(name, place="around", scanned=False)
        yield JavaCase(name, "equality_delete", scanned=False)
        yield JavaCase(name, "equality_delete", other_manifests=0)
    for manifests in (84, 85, 88, 90, 91, 92, 93):
        yield JavaCase("merge_append", other_manifests=manifests)
    for manifests in (96, 97):
        yield JavaCase("merge_append", commits=(0,), other_manifests=manifests)
    for manifests in (18, 148):
        yield JavaCase("merge_append", other_manifests=manifests, properties={TARGET_SIZE: "100000"})
    yield JavaCase("merge_append", other_manifests=18, properties={MERGES: "5"})
    for name in ("upsert", "row_delta_serializable", "rewrite_files", "merge_append"):
        for manifests in (8, 9):
            yield JavaCase(name, commits=(0,), delete_manifests=manifests, properties={MERGES: "10"})
    for kind in ("append", "overwrite", "upsert"):
        yield JavaCase("expire_snapshots", kind, prior_commits=10)
        yield JavaCase("expire_snapshots", kind, commits=(0,), prior_commits=10)
    yield JavaCase("expire_snapshots_keeping_files", prior_commits=10)


CASES = tuple(_cases())


def prepare(gateway: Any, case: JavaCase) -> tuple[Prepared, Callable[[], None]]:
    """Return the table of a case, and a function that makes a concurrent commit."""
    table = JavaTable(gateway, {**FAST_RETRIES, **case.properties}, case.format_version)
    members = [[OWN]] * case.own_manifests + [[ELSEWHERE]] * case.other_manifests
    victims = table.add_manifests(members)[: case.own_manifests]
    for _ in range(case.delete_manifests):
        INTERVENING["equality_delete"](table, (ELSEWHERE,), None)
    victims = table.scanned(OWN) if case.scanned else victims
    removed = iter(_removable(table, case))

    def others_commit() -> None:
        INTERVENING[case.intervening](table, PLACES[case.place], next(removed))

    for _ in range(case.prior_commits):
        others_commit()
    return Prepared(table, victims), others_commit


def _removable(table: JavaTable, case: JavaCase) -> list[Any]:
    """Return one file per concurrent commit to remove, all in one manifest that never becomes empty."""
    commits = case.prior_commits + sum(case.commits)
    return table.add_manifests([[ELSEWHERE] * (1 + commits)]) if case.intervening in REMOVING else [None] * commits


def measure(gateway: Any, case: JavaCase) -> Counts:
    """Run a case once."""
    from py4j.protocol import Py4JJavaError

    prepared, other_commits = prepare(gateway, case)
    accesses = Accesses()
    waiting = list(case.commits)

    def others_commit() -> None:
        for _ in range(waiting.pop(0) if waiting else 0):
            other_commits()

    handle = prepared.table.handle(accesses, before_swap=others_commit)
    operation = OPERATIONS[case.operation](prepared, handle)
    accesses.next_phase()
    others_commit()
    error = None
    try:
        operation.commit()
    except Py4JJavaError as raised:
        error = f"{raised.java_exception.getClass().getSimpleName()}: {raised.java_exception.getMessage()}"
    return Counts.of(accesses, error)
