"""Predict the cases of all modes with the simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from endive.table import OperationSettings, TableModel
from endive.transaction import (
    DeleteTransaction,
    ExpireSnapshotsTransaction,
    FastAppendTransaction,
    MergeAppendTransaction,
    OverwriteTransaction,
    ReplacePartitionsTransaction,
    RewriteFilesTransaction,
    RowDeltaTransaction,
    Transaction,
)
from verification.iceberg.history import Charged, play
from verification.iceberg.java_cases import PLACES, JavaCase
from verification.iceberg.java_operations import ELSEWHERE, OWN, REMOVING
from verification.iceberg.python_cases import PythonCase

Kind = tuple[type[Transaction], dict[str, Any]]

OPERATIONS: Mapping[str, Kind] = {
    "fast_append": (FastAppendTransaction, {}),
    "merge_append": (MergeAppendTransaction, {}),
    "overwrite_by_filter": (OverwriteTransaction, {"by": "filter", "isolation": "none"}),
    "overwrite_by_filter_snapshot": (OverwriteTransaction, {"by": "filter", "isolation": "snapshot"}),
    "overwrite_by_filter_serializable": (OverwriteTransaction, {"by": "filter", "isolation": "serializable"}),
    "overwrite_snapshot": (OverwriteTransaction, {"isolation": "snapshot"}),
    "overwrite_serializable": (OverwriteTransaction, {"isolation": "serializable"}),
    "row_delta_snapshot": (RowDeltaTransaction, {"isolation": "snapshot"}),
    "row_delta_serializable": (RowDeltaTransaction, {"isolation": "serializable"}),
    "deletion_vectors_snapshot": (RowDeltaTransaction, {"isolation": "snapshot", "deletes": "vectors"}),
    "deletion_vectors_serializable": (RowDeltaTransaction, {"isolation": "serializable", "deletes": "vectors"}),
    "upsert": (RowDeltaTransaction, {"isolation": "none", "deletes": "equality"}),
    "rewrite_files": (RewriteFilesTransaction, {}),
    "rewrite_files_new_sequence": (RewriteFilesTransaction, {}),
    "replace_partitions": (ReplacePartitionsTransaction, {}),
    "replace_partitions_snapshot": (ReplacePartitionsTransaction, {"isolation": "snapshot"}),
    "replace_partitions_serializable": (ReplacePartitionsTransaction, {"isolation": "serializable"}),
    "delete_by_filter": (DeleteTransaction, {}),
    "delete": (DeleteTransaction, {"isolation": "serializable"}),
    "delete_snapshot": (DeleteTransaction, {"isolation": "snapshot"}),
    "expire_snapshots": (ExpireSnapshotsTransaction, {"max_snapshot_age_ms": -math.inf, "min_snapshots_to_keep": 2}),
    "expire_snapshots_keeping_files": (ExpireSnapshotsTransaction, {"max_snapshot_age_ms": -math.inf, "min_snapshots_to_keep": 2}),
}
OTHERS: Mapping[str, Kind] = {
    "append": (FastAppendTransaction, {}),
    "append_own": (FastAppendTransaction, {}),
    "overwrite": (OverwriteTransaction, {"isolation": "none"}),
    "equality_delete": (RowDeltaTransaction, {"isolation": "none", "deletes": "vectors"}),
    "delete_file": (DeleteTransaction, {}),
    "delete": (DeleteTransaction, {}),
    "upsert": (RowDeltaTransaction, {"isolation": "none", "deletes": "equality"}),
    "replace": (RewriteFilesTransaction, {}),
}
"""Intervening operations. The simulator treats equality deletes without data as deletion vectors."""


def predict_counts(case: JavaCase | PythonCase) -> Charged:
    """Return the simulated accesses of a case."""
    place = PLACES[case.place] if isinstance(case, JavaCase) else (OWN,) if case.intervening == "append_own" else (ELSEWHERE,)
    return play(
        _transaction(OPERATIONS[case.operation], (OWN,), case.own_manifests),
        "iceberg" if isinstance(case, JavaCase) else "pyiceberg",
        _table(case),
        _transaction(OTHERS[case.intervening], place, 1),
        case.commits,
        late=isinstance(case, PythonCase) and case.late,
    )


def _transaction(kind: Kind, partitions: tuple[int, ...], hit: int) -> Transaction:
    operation, settings = kind
    written = {0: frozenset(partitions)}
    return operation(0, 0.0, 1.0, frozenset(written), written, settings=OperationSettings(manifests_hit=hit, **settings))


def _table(case: JavaCase | PythonCase) -> TableModel:
    manifests = case.own_manifests + case.other_manifests
    properties = dict(case.properties)
    deletes, snapshots = 0, 100
    if isinstance(case, JavaCase):
        manifests += case.intervening in REMOVING
        deletes = case.delete_manifests
        if case.operation.startswith("expire"):
            snapshots = 1 + case.prior_commits
    elif case.operation == "merge_append":
        properties.setdefault("commit.manifest.min-count-to-merge", "5")
    return TableModel(
        manifests=manifests,
        delete_manifests=deletes,
        snapshots=snapshots,
        min_count_to_merge=int(properties.get("commit.manifest.min-count-to-merge", 100)),
        target_bytes=int(properties.get("commit.manifest.target-size-bytes", 8 * 1024 * 1024)),
    )


def left_out(case: JavaCase | PythonCase) -> str | None:
    """Return the reason why the simulator does not model a case, if any."""
    if isinstance(case, PythonCase):
        if case.operation == "merge_append" and case.intervening in ("overwrite", "delete"):
            return "others merge and drop manifests too; the simulator's overwrites and deletes by PyIceberg never merge"
        return None
    if not case.scanned:
        return "files that are named without a scan; engines scan"
    if case.intervening == "equality_delete" and case.other_manifests == 0:
        return "deletes that apply to no data any more are dropped"
    if case.operation == "rewrite_files" and case.intervening == "equality_delete" and case.place == "own":
        return "deletes by equality without rows; the simulator takes them for deletes by position, which conflict"
    if case.operation == "rewrite_files_new_sequence" and case.intervening == "upsert" and case.place == "own":
        return "compaction that gives its files a new sequence number; the simulator's keeps the old one, as Spark does"
    if case.operation == "expire_snapshots_keeping_files":
        return "expiry that leaves all files where they are"
    if case.operation == "expire_snapshots" and case.intervening != "append":
        return "after the expiry of other snapshots than appends, the manifests that are looked through depend on what they removed"
    if case.delete_manifests == 9 and case.operation in ("upsert", "row_delta_serializable"):
        return "the new delete manifest that is merged away is not deleted"
    return None
