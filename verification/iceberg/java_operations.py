"""Operations of Iceberg Java: measured ones, and intervening ones.

The measured operation writes to the partition OWN. Intervening operations write to ELSEWHERE, to OWN, or to partitions on both
sides of OWN, so that the bounds in a manifest list do not exclude OWN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verification.iceberg.java import JavaTable

OWN = 5
ELSEWHERE = 9
AROUND = (1, 9)
END_OF_TIME_MS = 2**62
RETAINED = 2


@dataclass(frozen=True)
class Prepared:
    """Table, partition of an operation, and the files that it removes."""

    table: JavaTable
    victims: list[Any]
    partition: int = OWN

    def filter(self) -> Any:
        """Filter on rows of the operation's partition."""
        return self.table.gateway.jvm.org.apache.iceberg.expressions.Expressions.equal("p", self.partition)

    def start(self, handle: Any) -> int:
        """Return the snapshot that the operation has read."""
        return int(handle.currentSnapshot().snapshotId())


Build = Callable[[Prepared, Any], Any]


def _fast_append(on: Prepared, handle: Any) -> Any:
    return handle.newFastAppend().appendFile(on.table.data_file(on.partition))


def _merge_append(on: Prepared, handle: Any) -> Any:
    return handle.newAppend().appendFile(on.table.data_file(on.partition))


def _overwrite_by_filter(on: Prepared, handle: Any) -> Any:
    return handle.newOverwrite().overwriteByRowFilter(on.filter()).addFile(on.table.data_file(on.partition))


def _by_filter_snapshot(on: Prepared, handle: Any) -> Any:
    overwrite = _overwrite_by_filter(on, handle).validateFromSnapshot(on.start(handle))
    return overwrite.conflictDetectionFilter(on.filter()).validateNoConflictingDeletes()


def _by_filter_serializable(on: Prepared, handle: Any) -> Any:
    return _by_filter_snapshot(on, handle).validateNoConflictingData()


def _overwrite_snapshot(on: Prepared, handle: Any) -> Any:
    overwrite = handle.newOverwrite().addFile(on.table.data_file(on.partition)).validateFromSnapshot(on.start(handle))
    for file in on.victims:
        overwrite = overwrite.deleteFile(file)
    return overwrite.conflictDetectionFilter(on.filter()).validateNoConflictingDeletes()


def _overwrite_serializable(on: Prepared, handle: Any) -> Any:
    return _overwrite_snapshot(on, handle).validateNoConflictingData()


def _row_delta(on: Prepared, handle: Any) -> Any:
    """Commit as Spark's UPDATE or MERGE: position deletes and new rows."""
    delta = handle.newRowDelta().addRows(on.table.data_file(on.partition)).addDeletes(on.table.position_deletes(on.partition))
    return _validated_delta(on, handle, delta)


def _validated_delta(on: Prepared, handle: Any, delta: Any) -> Any:
    delta = delta.conflictDetectionFilter(on.filter()).validateFromSnapshot(on.start(handle))
    delta = delta.validateDataFilesExist([file.location() for file in on.victims])
    return delta.validateDeletedFiles().validateNoConflictingDeleteFiles()


def _row_delta_serializable(on: Prepared, handle: Any) -> Any:
    return _row_delta(on, handle).validateNoConflictingDataFiles()


def _deletion_vectors(on: Prepared, handle: Any) -> Any:
    delta = handle.newRowDelta()
    for file in on.victims:
        delta = delta.addDeletes(on.table.deletion_vector(on.partition, file))
    return _validated_delta(on, handle, delta)


def _deletion_vectors_serializable(on: Prepared, handle: Any) -> Any:
    return _deletion_vectors(on, handle).validateNoConflictingDataFiles()


def _upsert(on: Prepared, handle: Any) -> Any:
    """Commit as Flink's upsert: equality deletes and new rows, without validation."""
    return handle.newRowDelta().addRows(on.table.data_file(on.partition)).addDeletes(on.table.equality_deletes(on.partition))


def _rewrite_files(on: Prepared, handle: Any) -> Any:
    """Commit as Spark's rewrite_data_files: new files keep the initial sequence number, so equality deletes do not conflict."""
    rewrite = handle.newRewrite().validateFromSnapshot(on.start(handle)).addFile(on.table.data_file(on.partition))
    for file in on.victims:
        rewrite = rewrite.deleteFile(file)
    return rewrite.dataSequenceNumber(handle.currentSnapshot().sequenceNumber())


def _rewrite_files_new_sequence(on: Prepared, handle: Any) -> Any:
    rewrite = handle.newRewrite().validateFromSnapshot(on.start(handle)).addFile(on.table.data_file(on.partition))
    for file in on.victims:
        rewrite = rewrite.deleteFile(file)
    return rewrite


def _replace_partitions(on: Prepared, handle: Any) -> Any:
    return handle.newReplacePartitions().addFile(on.table.data_file(on.partition))


def _replace_partitions_snapshot(on: Prepared, handle: Any) -> Any:
    return _replace_partitions(on, handle).validateFromSnapshot(on.start(handle)).validateNoConflictingDeletes()


def _replace_partitions_serializable(on: Prepared, handle: Any) -> Any:
    return _replace_partitions_snapshot(on, handle).validateNoConflictingData()


def _delete_by_filter(on: Prepared, handle: Any) -> Any:
    return handle.newDelete().deleteFromRowFilter(on.filter())


def _expire_snapshots(_on: Prepared, handle: Any) -> Any:
    """Expire all snapshots except the last two, and delete files that only they need."""
    return handle.expireSnapshots().expireOlderThan(END_OF_TIME_MS).retainLast(RETAINED)


def _expire_snapshots_keeping_files(on: Prepared, handle: Any) -> Any:
    """Commit as Spark's expire_snapshots, which deletes files in a separate job."""
    return _expire_snapshots(on, handle).cleanExpiredFiles(False)


OPERATIONS: Mapping[str, Build] = {
    "fast_append": _fast_append,
    "merge_append": _merge_append,
    "overwrite_by_filter": _overwrite_by_filter,
    "overwrite_by_filter_snapshot": _by_filter_snapshot,
    "overwrite_by_filter_serializable": _by_filter_serializable,
    "overwrite_snapshot": _overwrite_snapshot,
    "overwrite_serializable": _overwrite_serializable,
    "row_delta_snapshot": _row_delta,
    "row_delta_serializable": _row_delta_serializable,
    "deletion_vectors_snapshot": _deletion_vectors,
    "deletion_vectors_serializable": _deletion_vectors_serializable,
    "upsert": _upsert,
    "rewrite_files": _rewrite_files,
    "rewrite_files_new_sequence": _rewrite_files_new_sequence,
    "replace_partitions": _replace_partitions,
    "replace_partitions_snapshot": _replace_partitions_snapshot,
    "replace_partitions_serializable": _replace_partitions_serializable,
    "delete_by_filter": _delete_by_filter,
    "expire_snapshots": _expire_snapshots,
    "expire_snapshots_keeping_files": _expire_snapshots_keeping_files,
}


def append(table: JavaTable, partitions: tuple[int, ...], _removed: Any) -> None:
    """Commit a new data file in each of the partitions."""
    operation = table.handle().newFastAppend()
    for partition in partitions:
        operation = operation.appendFile(table.data_file(partition))
    operation.commit()


def overwrite(table: JavaTable, partitions: tuple[int, ...], removed: Any) -> None:
    """Commit the removal of a data file and a new data file in each of the partitions."""
    operation = table.handle().newOverwrite().deleteFile(removed)
    for partition in partitions:
        operation = operation.addFile(table.data_file(partition))
    operation.commit()


def equality_delete(table: JavaTable, partitions: tuple[int, ...], _removed: Any) -> None:
    """Commit equality deletes only; the snapshot is a `delete`."""
    operation = table.handle().newRowDelta()
    for partition in partitions:
        operation = operation.addDeletes(table.equality_deletes(partition))
    operation.commit()


def delete_file(table: JavaTable, _partitions: tuple[int, ...], removed: Any) -> None:
    """Commit the removal of a data file; the snapshot is a `delete`."""
    table.handle().newDelete().deleteFile(removed).commit()


def upsert(table: JavaTable, partitions: tuple[int, ...], _removed: Any) -> None:
    """Commit rows and equality deletes; the snapshot is an `overwrite`."""
    operation = table.handle().newRowDelta()
    for partition in partitions:
        operation = operation.addRows(table.data_file(partition)).addDeletes(table.equality_deletes(partition))
    operation.commit()


def replace(table: JavaTable, partitions: tuple[int, ...], removed: Any) -> None:
    """Commit a compaction of one data file; the snapshot is a `replace`."""
    operation = table.handle().newRewrite().deleteFile(removed)
    for partition in partitions:
        operation = operation.addFile(table.data_file(partition))
    operation.commit()


INTERVENING: Mapping[str, Callable[[JavaTable, tuple[int, ...], Any], None]] = {
    "append": append,
    "overwrite": overwrite,
    "equality_delete": equality_delete,
    "delete_file": delete_file,
    "upsert": upsert,
    "replace": replace,
}
REMOVING = frozenset({"overwrite", "delete_file", "replace"})
"""Intervening operations that need a file to remove."""
