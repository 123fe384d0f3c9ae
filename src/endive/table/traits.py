"""What an operation of Iceberg does to a table, and what it looks at in snapshots that came between, as numbers.

Both engines read ``Traits``, which are plain integers. A kind of snapshot is a bit, so that a set of kinds is a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

APPEND, OVERWRITE, DELETE, REPLACE = 1, 2, 4, 8
"""Kinds of snapshots: what Iceberg calls the operation of a snapshot."""
EQUALITY = 16
"""A mark beside the kind: the snapshot deletes rows by equality, not by position."""

Isolation = Literal["none", "snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """How an operation is used, as far as its costs depend on it.

    ``isolation`` of None is what the engines use for the operation. ``manifests_hit`` data manifests hold files that it removes;
    ``manifests_missed`` are looked into in vain. ``retain_snapshots`` is what an expiry leaves.
    """

    isolation: Isolation | None = None
    by: Literal["files", "filter"] = "files"
    deletes: Literal["position", "equality", "vectors"] = "position"
    manifests_hit: int = 1
    manifests_missed: int = 0
    retain_snapshots: int = 1


@dataclass(frozen=True, slots=True)
class Traits:
    """An operation on Iceberg's commit path; every number is 0 unless said otherwise."""

    kind: int
    """The kind of snapshot that it makes."""
    validates: int = 0
    """Kinds whose manifest lists validation reads, newest first."""
    reads_added: int = 0
    """Kinds whose new data manifests validation reads, in search of added files."""
    reads_removed: int = 0
    """Kinds whose new data manifests validation reads, in search of removed files."""
    reads_deletes: int = 0
    """Kinds whose new delete manifests validation reads."""
    reads_vectors: int = 0
    """Kinds whose new delete manifests validation reads in search of deletion vectors, whatever their partitions."""
    prunes: int = 0
    """1: validation reads only manifests whose range of partitions has one that it writes."""
    conflicts: int = 0
    """Kinds that can be a real conflict, where partitions overlap."""
    exempt_marks: int = 0
    """Marks that make a snapshot no conflict."""
    data: int = 0
    """New data manifests that it writes."""
    deletes: int = 0
    """New delete manifests that it writes."""
    hits: int = 0
    """Data manifests that hold files it removes: read, and written without them. ``ALL_MANIFESTS``: all."""
    reads_per_hit: int = 1
    misses: int = 0
    """Data manifests that it looks into in vain."""
    matches_new: int = 0
    """1: manifests that came between are looked into as well, and are hits where partitions overlap."""
    filters_deletes: int = 0
    """1: it reads every delete manifest of the table once."""
    merges: int = 0
    """1: it merges manifests when there are enough of them."""
    list_after: int = 0
    """1: it reads the manifest list again after the commit."""
    retain: int = 0
    """Snapshots that are left when it is committed; 0 leaves all."""
    passes: int = 1
    """How often validation goes through removed files and through deletes."""
    lists_each: int = 0
    """1: each pass reads the manifest lists anew."""
    keeps_nothing: int = 0
    """1: nothing that an attempt found or wrote is kept for the next one."""
