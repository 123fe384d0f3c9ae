"""The operations: what each costs to try again, and whether its data can conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from endive.arithmetic.costs import manifests_to_merge
from endive.table import OPERATION_FACTS
from endive.transaction.base import Transaction
from endive.transaction.types import ConflictCost


class FastAppendTransaction(Transaction):
    """Adds files in a new manifest. It relies on nothing, so it never conflicts and a retry costs no more than an attempt."""

    operation_type: ClassVar[str] = "fast_append"

    def can_have_real_conflict(self) -> bool:
        """Return False: appended files conflict with nothing."""
        return False

    def should_abort_on_real_conflict(self) -> bool:
        """There is none."""
        return False

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Nothing on top."""
        return ConflictCost()


class MergeAppendTransaction(FastAppendTransaction):
    """Adds files and merges manifests: what others have added meanwhile has to be merged again."""

    operation_type: ClassVar[str] = "merge_append"

    def __init__(self, *args: Any, manifests_per_concurrent_commit: float = 1.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.manifests_per_concurrent_commit = manifests_per_concurrent_commit

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Read and write again the manifests of the commits between."""
        manifests = manifests_to_merge(n_snapshots_behind, self.manifests_per_concurrent_commit)
        return ConflictCost(manifest_file_reads=manifests, manifest_file_writes=manifests)


class ReadOnlyTransaction(FastAppendTransaction):
    """Reads a snapshot, works, and is done: there is nothing to commit, so nothing can conflict."""

    operation_type: ClassVar[str] = "read_only"


class OverwriteTransaction(Transaction):
    """Replaces files; how far it validates that nobody touched them is a matter of its isolation.

    On the path ``endive`` validation reads the manifest list of each snapshot that came between, whatever its kind; on Iceberg's
    own paths it reads by kind (``endive.table.traits``).
    """

    operation_type: ClassVar[str] = "overwrite"

    def can_have_real_conflict(self) -> bool:
        """Return whether it looks for conflicts at all."""
        return self.get_traits().conflicts != 0

    def should_abort_on_real_conflict(self) -> bool:
        """Iceberg raises a ValidationException, which it does not retry."""
        return True

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """One historical manifest list for each snapshot that came between, if it validates."""
        return ConflictCost(historical_ml_reads=n_snapshots_behind if self.can_have_real_conflict() else 0)


class ValidatedOverwriteTransaction(OverwriteTransaction):
    """An overwrite that always validates: it reads the manifest list of each snapshot that came between (the I/O convoy)."""

    operation_type: ClassVar[str] = "validated_overwrite"

    def can_have_real_conflict(self) -> bool:
        """Another writer may have changed the same rows."""
        return True


class RowDeltaTransaction(OverwriteTransaction):
    """Adds rows, and files that mark rows of others as deleted (merge-on-read)."""

    operation_type: ClassVar[str] = "row_delta"


class RewriteFilesTransaction(OverwriteTransaction):
    """Puts the same rows into other files: compaction. New deletes on its files are conflicts, appends are not."""

    operation_type: ClassVar[str] = "rewrite_files"


class ReplacePartitionsTransaction(OverwriteTransaction):
    """Replaces all that is in the partitions that it writes."""

    operation_type: ClassVar[str] = "replace_partitions"


class DeleteTransaction(OverwriteTransaction):
    """Removes whole files, and adds none."""

    operation_type: ClassVar[str] = "delete"


class ExpireSnapshotsTransaction(OverwriteTransaction):
    """Forgets old snapshots: a commit that makes no snapshot of its own."""

    operation_type: ClassVar[str] = "expire_snapshots"

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """No manifests."""
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
