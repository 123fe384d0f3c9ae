"""Review the snapshots since the start of an operation, and compute the file accesses of its next attempt.

``record`` is any object with the fields of ``endive.table.SnapshotRecord``. ``table`` has the fields of ``TableFiles``, ``traits``
has the fields of ``Traits``, and ``handle`` has the fields of ``endive.transaction.iceberg.Handle``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from endive.arithmetic.manifests import hits_of


class Review(NamedTuple):
    """Counts from a review of the snapshots that were committed since the start of an operation."""

    lists: int
    """Number of manifest lists that validation reads."""
    manifests: int
    """Number of manifests that validation reads."""
    conflicting: int
    """Number of snapshots since the last attempt that may be real conflicts."""
    hits: int
    """Number of new data manifests in the written partitions since the last attempt."""
    misses: int
    """Number of other new data manifests since the last attempt that the client must read."""
    deletes: int
    """Number of new delete manifests since the last attempt."""
    delete_hits: int
    """Number of new delete manifests in the written partitions since the last attempt."""


def nothing_found() -> Review:
    """Return the review of no snapshots."""
    return Review(0, 0, 0, 0, 0, 0, 0)


def reads_history(traits: Any) -> bool:
    """Return whether an operation depends on the snapshots that were committed since its start."""
    return bool(traits.validates or traits.matches_new or traits.filters_deletes or traits.keeps_nothing)


def is_start_expired(table: Any, start: int) -> bool:
    """Return whether an expiry has removed the snapshot from which the operation started.

    ``start`` is the number of snapshots committed before that start.
    """
    return bool(table.length - start >= table.snapshots)


def review_record(found: Review, record: Any, traits: Any, in_range: bool, overlaps: bool, is_new: bool) -> Review:
    """Add a snapshot to the review of newer snapshots.

    Args:
        found: Review of the newer snapshots.
        record: Snapshot.
        traits: Traits of the operation.
        in_range: Whether the partition range of the snapshot includes a partition that the operation writes.
        overlaps: Whether the snapshot may have written to one of these partitions. Only relevant if ``is_new`` or if attempts reuse
            nothing.
        is_new: Whether the snapshot was committed since the last attempt.
    """
    kind = record.kind
    added = 1 if kind & traits.reads_added else 0
    removed = traits.passes if kind & traits.reads_removed else 0
    marked = traits.passes if kind & traits.reads_deletes else 0
    lists = found.lists
    if traits.lists_each:
        lists += added + removed + marked
    elif kind & traits.validates:
        lists += 1
    manifests = found.manifests
    if in_range or not traits.prunes:
        manifests += record.data * (added + removed) + record.deletes * marked
    if kind & traits.reads_vectors:
        manifests += record.deletes
    conflicting, hits, misses = found.conflicting, found.hits, found.misses
    deletes, delete_hits = found.deletes, found.delete_hits
    if is_new or traits.keeps_nothing:
        deletes += record.deletes
        if overlaps:
            hits += record.data
            delete_hits += record.deletes
            if is_new and kind & traits.conflicts and not kind & traits.exempt_marks:
                conflicting += 1
        elif in_range:
            misses += record.data
    return Review(lists, manifests, conflicting, hits, misses, deletes, delete_hits)


def without_own(found: Review, own: int) -> Review:
    """Return the review without conflicts with earlier commits of the same job.

    The ``own`` earlier commits replaced other files, so they do not conflict.
    """
    return Review(
        found.lists, found.manifests, max(found.conflicting - own, 0), found.hits, found.misses, found.deletes, found.delete_hits
    )


class Filtered(NamedTuple):
    """Numbers of manifests that an attempt filters.

    The attempt rewrites the manifests that match, and only reads the others. The numbers are separate for data manifests and delete
    manifests.
    """

    hits: int
    misses: int
    deletes: int
    delete_hits: int


def manifests_to_filter(table: Any, handle: Any, traits: Any, found: Review) -> Filtered:
    """Return the numbers of manifests that an attempt filters.

    The first attempt filters all relevant manifests. Later attempts filter only new manifests.
    """
    hits = 0 if handle.prepared else hits_of(table, traits)
    if handle.prepared and traits.hits and table.merges != handle.merges:
        hits = 1  # the matching manifests of the previous attempt have been merged into another manifest
    misses = 0 if handle.prepared else traits.misses
    deletes = found.deletes if handle.prepared else table.deletes
    if traits.matches_new:
        return Filtered(hits + found.hits, misses + found.misses, deletes, found.delete_hits)
    return Filtered(hits, misses, deletes, 0)


def files_of_lost_attempts(handle: Any) -> int:
    """Return the number of files that the client deletes after a commit: files of failed attempts, and merged manifests."""
    return int(handle.lost + handle.made * handle.merged)


def files_made(handle: Any, traits: Any) -> int:
    """Return the number of files that an operation has written. An operation that aborts deletes these files."""
    return int(handle.lost + 1 + handle.merged + handle.made + traits.deletes if handle.made_list else 0)
