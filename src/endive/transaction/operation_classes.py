"""Operations, with the cost of their retries and whether they can conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from endive.arithmetic.costs import manifests_to_merge
from endive.table import OPERATION_FACTS
from endive.transaction.interface import Transaction
from endive.transaction.types import ConflictCost


class FastAppendTransaction(Transaction):
    """Append of files in a new manifest. It never conflicts, so a retry costs no more than an attempt."""

    operation_type: ClassVar[str] = "fast_append"

    def can_have_real_conflict(self) -> bool:
        """Return False, because an append never conflicts."""
        return False

    def should_abort_on_real_conflict(self) -> bool:
        """Return False, because an append never conflicts."""
        return False

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return no additional cost."""
        return ConflictCost()


class MergeAppendTransaction(FastAppendTransaction):
    """Append that merges manifests. A retry also merges the manifests of concurrent commits."""

    operation_type: ClassVar[str] = "merge_append"

    def __init__(self, *args: Any, manifests_per_concurrent_commit: float = 1.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.manifests_per_concurrent_commit = manifests_per_concurrent_commit

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the cost of rewriting the manifests of concurrent commits."""
        manifests = manifests_to_merge(n_snapshots_behind, self.manifests_per_concurrent_commit)
        return ConflictCost(manifest_file_reads=manifests, manifest_file_writes=manifests)


class ReadOnlyTransaction(FastAppendTransaction):
    """Read of a snapshot without a commit."""

    operation_type: ClassVar[str] = "read_only"


class OverwriteTransaction(Transaction):
    """Replacement of files, validated according to its isolation level.

    On the simplified commit path, validation reads the manifest list of each concurrent snapshot. On Iceberg's commit paths, it
    reads only those of some kinds of snapshots (``endive.table.traits``).
    """

    operation_type: ClassVar[str] = "overwrite"

    def can_have_real_conflict(self) -> bool:
        """Return whether the operation checks for conflicts."""
        return self.get_traits().conflicts != 0

    def should_abort_on_real_conflict(self) -> bool:
        """Return True, because Iceberg raises a ValidationException, which it does not retry."""
        return True

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the cost of reading one historical manifest list per concurrent snapshot, if the operation validates."""
        return ConflictCost(historical_ml_reads=n_snapshots_behind if self.can_have_real_conflict() else 0)


class ValidatedOverwriteTransaction(OverwriteTransaction):
    """Overwrite that always validates: it reads the manifest list of each concurrent snapshot (the I/O convoy)."""

    operation_type: ClassVar[str] = "validated_overwrite"

    def can_have_real_conflict(self) -> bool:
        """Return True, because another writer may have changed the same rows."""
        return True


class RowDeltaTransaction(OverwriteTransaction):
    """Addition of data files and delete files (merge-on-read)."""

    operation_type: ClassVar[str] = "row_delta"


class RewriteFilesTransaction(OverwriteTransaction):
    """Compaction. New delete files for the rewritten data files are conflicts, appends are not."""

    operation_type: ClassVar[str] = "rewrite_files"


class ReplacePartitionsTransaction(OverwriteTransaction):
    """Replacement of all files of the written partitions (dynamic overwrite)."""

    operation_type: ClassVar[str] = "replace_partitions"


class DeleteTransaction(OverwriteTransaction):
    """Removal of whole data files."""

    operation_type: ClassVar[str] = "delete"


class ExpireSnapshotsTransaction(OverwriteTransaction):
    """Expiry of old snapshots. The commit adds no snapshot."""

    operation_type: ClassVar[str] = "expire_snapshots"

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """Return no cost, because the operation writes no manifests."""
        return ConflictCost()


_TRANSACTIONS: tuple[type[Transaction], ...] = (
    FastAppendTransaction,
    MergeAppendTransaction,
    ValidatedOverwriteTransaction,
    ReadOnlyTransaction,
    OverwriteTransaction,
    RowDeltaTransaction,
    RewriteFilesTransaction,
    ReplacePartitionsTransaction,
    DeleteTransaction,
    ExpireSnapshotsTransaction,
)
OPERATIONS: Mapping[str, type[Transaction]] = {cls.operation_type: cls for cls in _TRANSACTIONS}
assert list(OPERATIONS) == [facts.name for facts in OPERATION_FACTS]
