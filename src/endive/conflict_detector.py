"""Define conflict detectors, which determine whether overlapping writes are a real conflict."""

from __future__ import annotations

import numpy as np

from endive.catalog import CatalogSnapshot, TableMetadata
from endive.randomness import RandomSource
from endive.transaction import ConflictDetector, Transaction

__all__ = ["ConflictDetector", "PartitionOverlapConflictDetector", "ProbabilisticConflictDetector"]


class ProbabilisticConflictDetector(ConflictDetector):
    """Detector that treats an overlap as a real conflict with a fixed probability, unless the operation never conflicts."""

    def __init__(self, real_conflict_probability: float, rng: RandomSource | None = None) -> None:
        if not 0.0 <= real_conflict_probability <= 1.0:
            raise ValueError(f"real_conflict_probability is {real_conflict_probability}, but must be in [0, 1]")
        self.real_conflict_probability = real_conflict_probability
        self._rng: RandomSource = np.random.RandomState(0) if rng is None else rng

    def bind(self, rng: RandomSource) -> ProbabilisticConflictDetector:
        """Return the detector with the random stream of one transaction."""
        return ProbabilisticConflictDetector(self.real_conflict_probability, rng)

    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return True with the configured probability, and False if the operation never conflicts."""
        return txn.can_have_real_conflict() and self.changes_same_files(txn, current_snapshot, start_snapshot)

    def changes_same_files(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return True with the configured probability, for any operation."""
        return self._rng.random_sample() < self.real_conflict_probability


class PartitionOverlapConflictDetector(ConflictDetector):
    """Detector that treats every change to the same partition as a real conflict."""

    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether a partition that the transaction writes has changed since the start of its job.

        Return False if the operation never conflicts. If the transaction does not track partitions, check all partitions of each
        table that it writes.
        """
        return txn.can_have_real_conflict() and self.changes_same_files(txn, current_snapshot, start_snapshot)

    def changes_same_files(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether a partition that the transaction writes has changed since the start of its job."""
        return any(
            self._has_changed(txn, start_snapshot.get_table(table_id), current_snapshot.get_table(table_id))
            for table_id in txn.tables_written
        )

    def _has_changed(self, txn: Transaction, before: TableMetadata, now: TableMetadata) -> bool:
        if txn.partitions_written is None:
            return before.version != now.version or before.partition_versions != now.partition_versions
        written = txn.partitions_written.get(now.table_id, ())
        return any(before.partition_versions[partition] != now.partition_versions[partition] for partition in written)
