"""Conflict detectors: is an overlap of writes a real conflict of data, or can both changes stand?"""

from __future__ import annotations

import numpy as np

from endive.catalog import CatalogSnapshot
from endive.randomness import RandomSource
from endive.transaction import ConflictDetector, Transaction

__all__ = ["ConflictDetector", "PartitionOverlapConflictDetector", "ProbabilisticConflictDetector"]


class ProbabilisticConflictDetector(ConflictDetector):
    """Says that an overlap is real with a fixed probability, for operations whose data can conflict at all."""

    def __init__(self, real_conflict_probability: float, rng: RandomSource | None = None) -> None:
        if not 0.0 <= real_conflict_probability <= 1.0:
            raise ValueError(f"real_conflict_probability is {real_conflict_probability}, but must lie in [0, 1]")
        self.real_conflict_probability = real_conflict_probability
        self._rng: RandomSource = np.random.RandomState(0) if rng is None else rng

    def bind(self, rng: RandomSource) -> ProbabilisticConflictDetector:
        """The same detector drawing from ``rng``."""
        return ProbabilisticConflictDetector(self.real_conflict_probability, rng)

    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """One draw, if the operation can conflict."""
        return txn.can_have_real_conflict() and self._rng.random_sample() < self.real_conflict_probability


class PartitionOverlapConflictDetector(ConflictDetector):
    """Says that every overlap is real: whoever wrote to the same partition wrote to the same data."""

    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Whether a written partition has changed, if the operation can conflict."""
        return txn.can_have_real_conflict() and txn.has_write_overlap(start_snapshot, current_snapshot)
