"""Traits of Iceberg operations: their effects on a table, and the concurrent snapshots that they validate.

Both engines read ``Traits``, whose fields are numbers. A kind of snapshot is a bit, so a set of kinds is a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

APPEND, OVERWRITE, DELETE, REPLACE = 1, 2, 4, 8
"""Kinds of snapshots (the ``operation`` of a snapshot summary in Iceberg)."""
EQUALITY = 16
"""Flag of a kind of snapshot: rows are deleted by equality, not by position."""

Isolation = Literal["none", "snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """Settings of an operation that its costs depend on.

    If ``isolation`` is None, the default of the operation applies. ``manifests_hit`` data manifests contain files that it removes;
    ``manifests_missed`` are read but contain none. An expiry retains the snapshots of the last
    ``max_snapshot_age_ms``, and at least ``min_snapshots_to_keep`` (Iceberg's ``history.expire.*``).
    """

    isolation: Isolation | None = None
    by: Literal["files", "filter"] = "files"
    deletes: Literal["position", "equality", "vectors"] = "position"
    manifests_hit: int = 1
    manifests_missed: int = 0
    max_snapshot_age_ms: float = 5 * 86_400_000.0
    min_snapshots_to_keep: int = 1
    commits_per_job: int = 1
    """Number of commits of a ``rewrite_files`` job (partial progress)."""
    max_failed_commits: int | None = None
    """Number of failed commits after which such a job ends with the next failure; None for no limit."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits of an operation on Iceberg's commit path."""

    kind: int
    """Kind of the new snapshot."""
    validates: int = 0
    """Kinds of snapshots that validation reads the manifest lists of, newest first."""
    reads_added: int = 0
    """Kinds of snapshots that validation checks for added files in new data manifests."""
    reads_removed: int = 0
    """Kinds of snapshots that validation checks for removed files in new data manifests."""
    reads_deletes: int = 0
    """Kinds of snapshots that validation reads the new delete manifests of."""
    reads_vectors: int = 0
    """Kinds of snapshots that validation checks for deletion vectors in new delete manifests, in all partitions."""
    prunes: int = 0
    """1: validation skips manifests with a partition range that contains none of the written partitions."""
    conflicts: int = 0
    """Kinds of snapshots that can be a real conflict if partitions overlap."""
    exempt_marks: int = 0
    """Flags that exempt a snapshot from being a conflict."""
    data: int = 0
    """Number of new data manifests."""
    deletes: int = 0
    """Number of new delete manifests."""
    hits: int = 0
    """Number of data manifests that contain removed files and are rewritten. ``ALL_MANIFESTS``: all."""
    reads_per_hit: int = 1
    misses: int = 0
    """Number of data manifests that are read but contain no removed file."""
    matches_new: int = 0
    """1: concurrently added manifests are read too, and rewritten if partitions overlap."""
    filters_deletes: int = 0
    """1: every delete manifest of the table is read once."""
    merges: int = 0
    """1: manifests are merged at ``min_count_to_merge``."""
    list_after: int = 0
    """1: the manifest list is read again after the commit."""
    min_snapshots: int = 0
    """Expiry: number of snapshots that are retained at any age."""
    max_age_ms: float = 0.0
    """Expiry: age up to which all snapshots are retained."""
    passes: int = 1
    """Number of passes of validation over removed files and over deletes."""
    lists_each: int = 0
    """1: each pass reads the manifest lists again."""
    keeps_nothing: int = 0
    """1: a retry reuses nothing that the previous attempt read or wrote."""
