"""Traits of Iceberg operations: their effects on a table, and the concurrent snapshots that they validate.

Both engines use ``Traits``, whose fields are numbers. Each kind of snapshot is a bit, so a set of kinds is a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

APPEND, OVERWRITE, DELETE, REPLACE = 1, 2, 4, 8
"""Kinds of snapshots (the ``operation`` of a snapshot summary in Iceberg)."""
EQUALITY = 16
"""Flag of a snapshot that deletes rows by equality, not by position."""

Isolation = Literal["none", "snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """Settings that determine the costs of an operation.

    If ``isolation`` is None, the default of the operation applies. ``manifests_hit`` data manifests contain files that the
    operation removes; ``manifests_missed`` are read but contain none. An expiry retains the snapshots of the last
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
    """Maximum number of failed commits of a ``rewrite_files`` job; None for no limit."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits of an operation on Iceberg's commit path."""

    kind: int
    """Kind of the new snapshot."""
    validates: int = 0
    """Kinds of snapshots whose manifest lists validation reads, newest first."""
    reads_added: int = 0
    """Kinds of snapshots whose new data manifests validation checks for added files."""
    reads_removed: int = 0
    """Kinds of snapshots whose new data manifests validation checks for removed files."""
    reads_deletes: int = 0
    """Kinds of snapshots whose new delete manifests validation reads."""
    reads_vectors: int = 0
    """Kinds of snapshots whose new delete manifests validation checks for deletion vectors, in all partitions."""
    prunes: int = 0
    """1 if validation skips manifests whose partition range contains none of the written partitions."""
    conflicts: int = 0
    """Kinds of snapshots that can be real conflicts if partitions overlap."""
    table_conflicts: int = 0
    """Kinds of snapshots that are conflicts regardless of overlap. Declarative protocols only."""
    partition_conflicts: int = 0
    """Kinds of snapshots that are conflicts if partitions overlap. Declarative protocols only."""
    exempt_marks: int = 0
    """Flags that exempt a snapshot from being a conflict."""
    data: int = 0
    """Number of new data manifests."""
    deletes: int = 0
    """Number of new delete manifests."""
    hits: int = 0
    """Number of data manifests that contain removed files and are rewritten; ``ALL_MANIFESTS`` for all."""
    reads_per_hit: int = 1
    misses: int = 0
    """Number of data manifests that are read but contain no removed files."""
    matches_new: int = 0
    """1 if concurrently added manifests are also read, and rewritten if partitions overlap."""
    filters_deletes: int = 0
    """1 if every delete manifest of the table is read once."""
    merges: int = 0
    """1 if manifests are merged at ``min_count_to_merge``."""
    list_after: int = 0
    """1 if the manifest list is read again after the commit."""
    min_snapshots: int = 0
    """Number of snapshots that an expiry retains at any age."""
    max_age_ms: float = 0.0
    """Age up to which an expiry retains all snapshots."""
    passes: int = 1
    """Number of passes of validation over removed files and over deletes."""
    lists_each: int = 0
    """1 if each pass reads the manifest lists again."""
    keeps_nothing: int = 0
    """1 if a retry does not reuse what the previous attempt read or wrote."""
