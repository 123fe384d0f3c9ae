"""The operations: what each costs to try again, and whether its data can conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from endive.costs import manifests_to_merge
from endive.transaction.base import Transaction
from endive.transaction.types import ConflictCost


class FastAppendTransaction(Transaction):
    """Adds files in a new manifest. It relies on nothing, so it never conflicts and a retry costs no more than an attempt."""

    operation_type: ClassVar[str] = "fast_append"

    def can_have_real_conflict(self) -> bool:
        """Appended files conflict with nothing."""
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
        """The manifests of the commits that came between are read and written again."""
        manifests = manifests_to_merge(n_snapshots_behind, self.manifests_per_concurrent_commit)
        return ConflictCost(manifest_file_reads=manifests, manifest_file_writes=manifests)


class ValidatedOverwriteTransaction(Transaction):
    """Replaces files, and validates that nobody touched them: it reads the manifest list of each snapshot that came between."""

    operation_type: ClassVar[str] = "validated_overwrite"

    def can_have_real_conflict(self) -> bool:
        """Another writer may have changed the same rows."""
        return True

    def should_abort_on_real_conflict(self) -> bool:
        """Iceberg raises a ValidationException, which it does not retry."""
        return True

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """One historical manifest list for each snapshot that came between: the I/O convoy."""
        return ConflictCost(historical_ml_reads=n_snapshots_behind)


class ReadOnlyTransaction(Transaction):
    """Reads a snapshot, works, and is done: there is nothing to commit."""

    operation_type: ClassVar[str] = "read_only"

    def can_have_real_conflict(self) -> bool:
        """A reader keeps its snapshot."""
        return False

    def should_abort_on_real_conflict(self) -> bool:
        """There is none."""
        return False

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Nothing."""
        return ConflictCost()


OPERATIONS: Mapping[str, type[Transaction]] = {
    cls.operation_type: cls
    for cls in (FastAppendTransaction, MergeAppendTransaction, ValidatedOverwriteTransaction, ReadOnlyTransaction)
}
