"""Costs of operations on Iceberg's commit path by attempt, after 4, 7 and 12 concurrent commits.

The operation writes partition 5 of a table with three manifests, two of which contain files that it removes. Concurrent commits
write elsewhere (partition 9), around it (1 and 9, so that the partition range of a manifest includes 5), or to the same partition.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from endive.table import OperationSettings, TableModel
from endive.transaction import OPERATIONS, CommitPolicy, Transaction
from verification.iceberg.history import Charged, play

ELSEWHERE, AROUND, OWN = {9}, {1, 9}, {5}
COMMITS = (4, 3, 5)
LISTS, READS, WRITES = "manifest_list_reads", "manifest_file_reads", "manifest_file_writes"


def operation(name: str, partitions: set[int], **settings: Any) -> Transaction:
    written = {0: frozenset(partitions)}
    return OPERATIONS[name](0, 0.0, 1.0, frozenset(written), written, settings=OperationSettings(**settings))


def attempts(charged: Charged, kind: str) -> list[int]:
    return [attempt.get(kind, 0) for attempt in charged.attempts]


APPEND = operation("fast_append", ELSEWHERE)
DELETES = operation("row_delta", ELSEWHERE, isolation="none", deletes="vectors")
OVERWRITE = operation("overwrite", ELSEWHERE, isolation="none")
REPLACE = operation("rewrite_files", ELSEWHERE)

GOLDEN: list[tuple[str, dict[str, Any], Transaction, list[int], list[int], list[int]]] = [
    # operation, settings, what others commit; lists read, manifests read, manifests written at attempts 1, 2, 3
    ("fast_append", {}, APPEND, [1, 1, 1], [0, 0, 0], [1, 0, 0]),
    ("merge_append", {}, APPEND, [1, 1, 1], [0, 0, 0], [1, 0, 0]),
    ("overwrite", {"by": "filter", "isolation": "none"}, APPEND, [1, 1, 1], [4, 0, 0], [3, 0, 0]),
    ("overwrite", {"by": "filter", "isolation": "none", "manifests_missed": 1}, APPEND, [1, 1, 1], [5, 0, 0], [3, 0, 0]),
    ("overwrite", {"isolation": "snapshot"}, APPEND, [1, 1, 1], [2, 0, 0], [3, 0, 0]),
    ("overwrite", {"isolation": "snapshot"}, OVERWRITE, [4, 7, 12], [2, 0, 0], [3, 0, 0]),
    ("overwrite", {"isolation": "snapshot"}, REPLACE, [1, 1, 1], [2, 0, 0], [3, 0, 0]),
    ("overwrite", {"by": "filter", "isolation": "snapshot"}, REPLACE, [4, 7, 12], [4, 0, 0], [3, 0, 0]),
    ("overwrite", {}, APPEND, [4, 7, 12], [2, 0, 0], [3, 0, 0]),
    ("overwrite", {}, operation("fast_append", AROUND), [4, 7, 12], [6, 7, 12], [3, 0, 0]),
    ("validated_overwrite", {}, APPEND, [4, 7, 12], [2, 0, 0], [3, 0, 0]),
    ("row_delta", {"isolation": "snapshot"}, APPEND, [1, 1, 1], [0, 0, 0], [2, 0, 0]),
    ("row_delta", {"isolation": "snapshot"}, REPLACE, [4, 7, 12], [0, 0, 0], [2, 0, 0]),
    ("row_delta", {}, APPEND, [4, 7, 12], [0, 0, 0], [2, 0, 0]),
    ("row_delta", {"deletes": "vectors"}, APPEND, [4, 7, 12], [0, 0, 0], [1, 0, 0]),
    ("row_delta", {"deletes": "equality", "isolation": "none"}, APPEND, [1, 1, 1], [0, 0, 0], [2, 0, 0]),
    ("rewrite_files", {}, APPEND, [1, 1, 1], [2, 0, 0], [3, 0, 0]),
    ("rewrite_files", {}, OVERWRITE, [4, 7, 12], [2, 0, 0], [3, 0, 0]),
    ("rewrite_files", {}, DELETES, [4, 7, 12], [10, 10, 17], [3, 0, 0]),
    ("replace_partitions", {}, APPEND, [1, 1, 1], [4, 0, 0], [3, 0, 0]),
    ("replace_partitions", {"isolation": "serializable"}, APPEND, [4, 7, 12], [8, 7, 12], [3, 0, 0]),
    ("delete", {}, APPEND, [1, 1, 1], [4, 0, 0], [2, 0, 0]),
]


@pytest.mark.parametrize(("name", "settings", "others", "lists", "reads", "writes"), GOLDEN)
def test_counts_of_each_attempt(
    name: str, settings: dict[str, Any], others: Transaction, lists: list[int], reads: list[int], writes: list[int]
) -> None:
    txn = operation(name, OWN, manifests_hit=2, **settings)
    charged = play(txn, "iceberg", TableModel(manifests=3, snapshots=5), others, COMMITS)
    assert attempts(charged, LISTS) == lists
    assert attempts(charged, READS) == reads
    assert attempts(charged, WRITES) == writes
    for kind in ("catalog_reads", "catalog_swaps", "metadata_reads", "metadata_writes", "manifest_list_writes"):
        assert attempts(charged, kind) == [1, 1, 1], kind
    after = {"catalog_reads": 1, "metadata_reads": 1, "manifest_list_reads": 1, "file_deletes": 2}
    if name == "fast_append":
        del after["manifest_list_reads"]
    assert charged.after == after


def test_without_contention_the_pointer_has_not_moved() -> None:
    charged = play(operation("fast_append", OWN), "iceberg", TableModel(), APPEND, ())
    assert charged.start == {"catalog_reads": 1, "metadata_reads": 1}
    assert len(charged.attempts) == 1
    assert attempts(charged, "metadata_reads") == [0]
    assert attempts(charged, LISTS) == [1]


@pytest.mark.parametrize(
    ("name", "prior", "reads", "writes"),
    [
        ("merge_append", 150, [155, 158, 163], [2, 1, 1]),
        ("merge_append", 95, [100, 103, 108], [2, 1, 1]),
        ("merge_append", 92, [0, 100, 105], [1, 1, 1]),
        ("merge_append", 86, [0, 0, 0], [1, 0, 0]),
        ("overwrite", 150, [157, 158, 163], [4, 1, 1]),
        ("rewrite_files", 150, [157, 158, 163], [4, 1, 1]),
        ("row_delta", 150, [155, 158, 163], [3, 1, 1]),
        ("fast_append", 150, [0, 0, 0], [1, 0, 0]),
    ],
)
def test_manifests_are_merged_from_a_hundred_on_and_again_on_each_retry(
    name: str, prior: int, reads: list[int], writes: list[int]
) -> None:
    txn = operation(name, OWN, manifests_hit=2)
    charged = play(txn, "iceberg", TableModel(manifests=prior, snapshots=5), APPEND, COMMITS)
    assert attempts(charged, READS) == reads
    assert attempts(charged, WRITES) == writes


def test_an_operation_that_removes_files_reads_every_delete_manifest_once() -> None:
    model = TableModel(manifests=3, delete_manifests=6, snapshots=5)
    assert attempts(play(operation("overwrite", OWN, manifests_hit=2), "iceberg", model, DELETES, COMMITS), READS) == [12, 3, 5]
    assert attempts(play(operation("merge_append", OWN), "iceberg", model, DELETES, COMMITS), READS) == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "settings", "others", "real"),
    [
        ("overwrite", {}, "fast_append", True),
        ("overwrite", {"isolation": "snapshot"}, "fast_append", False),
        ("overwrite", {"isolation": "none"}, "row_delta", False),
        ("row_delta", {}, "fast_append", True),
        ("rewrite_files", {}, "fast_append", False),
        ("rewrite_files", {}, "row_delta", True),
        ("replace_partitions", {}, "fast_append", False),
        ("replace_partitions", {"isolation": "serializable"}, "fast_append", True),
        ("merge_append", {}, "overwrite", False),
    ],
)
def test_a_real_conflict_depends_on_both_operations(name: str, settings: dict[str, Any], others: str, real: bool) -> None:
    model = TableModel(manifests=3, snapshots=5)
    result = play(operation(name, OWN, **settings), "iceberg", model, operation(others, OWN), COMMITS).result
    assert (result.abort_reason == "validation_exception") is real
    assert (result.real_conflicts > 0) is real
    elsewhere = play(operation(name, OWN, **settings), "iceberg", model, operation(others, ELSEWHERE), COMMITS).result
    assert elsewhere.abort_reason is None


def test_deletes_by_equality_do_not_conflict_with_compaction() -> None:
    upserts = operation("row_delta", OWN, isolation="none", deletes="equality")
    assert play(operation("rewrite_files", OWN), "iceberg", TableModel(snapshots=5), upserts, COMMITS).result.abort_reason is None


def test_history_that_was_expired_cannot_be_validated() -> None:
    model = TableModel(manifests=3, snapshots=5)

    def reason(name: str, retained: int) -> str | None:
        expiry = operation("expire_snapshots", ELSEWHERE, max_snapshot_age_ms=-math.inf, min_snapshots_to_keep=retained)
        return play(operation(name, OWN), "iceberg", model, [APPEND, APPEND, expiry], (3,)).result.abort_reason

    assert reason("overwrite", 2) == "validation_exception"
    assert reason("overwrite", 3) is None  # the snapshot that it started from is the third
    assert reason("merge_append", 1) is None


def test_a_table_that_did_not_move_costs_nothing_again() -> None:
    """Another table of the group changes: the retry reads the catalog and commits."""
    from endive.catalog import InstantCatalog
    from endive.conflict_detector import ProbabilisticConflictDetector
    from endive.randomness import Stream
    from endive.storage import create_provider
    from endive.table import TableChange
    from endive.transaction import FastAppendTransaction

    catalog = InstantCatalog(2, (1, 1), table_model=TableModel())
    txn = FastAppendTransaction(0, 0.0, 1.0, frozenset({0}))
    policy = CommitPolicy(commit_path="iceberg")
    disturbed: list[bool] = []

    def watch(event: Any) -> None:
        if event.event == "attempt" and not disturbed:
            disturbed.append(True)
            changes = {1: (TableChange(txn.get_traits()),)}
            for _ in catalog.commit(catalog.seq, {1: 1}, changes=changes):
                pass

    steps = txn.execute(
        catalog, create_provider("instant", Stream(0)), ProbabilisticConflictDetector(0.0), policy=policy, trace=watch
    )
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result = stop.value
            break
    assert result.total_retries == 1
    assert (result.manifest_list_reads, result.manifest_list_writes, result.manifest_file_writes) == (1, 1, 1)
    assert (result.metadata_reads, result.metadata_writes, result.file_deletes) == (2, 1, 0)


@pytest.mark.parametrize("path", ["iceberg", "pyiceberg"])
def test_each_commit_writes_metadata_unless_the_server_does(path: str) -> None:
    policy = CommitPolicy(commit_path=path, table_metadata_inlined=True)
    assert policy.handles_metadata(server_writes=False)
    assert not policy.handles_metadata(server_writes=True)
    assert not CommitPolicy(commit_path="endive").handles_metadata(server_writes=False)
