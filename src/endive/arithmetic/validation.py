"""Review the snapshots committed since the start of an operation, and compute which files its next attempt accesses.

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
    """Number of snapshots since the last attempt that may conflict with the operation."""
    hits: int
    """Number of data manifests that were added to the written partitions since the last attempt."""
    misses: int
    """Number of other data manifests added since the last attempt that the client must read."""
    deletes: int
    """Number of delete manifests added since the last attempt."""
    delete_hits: int
    """Number of delete manifests that were added to the written partitions since the last attempt."""


def nothing_found() -> Review:
    """Return a review in which all counts are 0."""
    return Review(0, 0, 0, 0, 0, 0, 0)


def reads_history(traits: Any) -> bool:
    """Return whether an operation depends on the snapshots that were committed since its start."""
    return bool(traits.validates or traits.matches_new or traits.filters_deletes or traits.keeps_nothing)


def is_start_expired(table: Any, start: int) -> bool:
    """Return whether the snapshot from which the operation started has expired.

    ``start`` is the number of snapshots that had been committed when the operation started.
    """
    return bool(table.length - start >= table.snapshots)


def review_record(found: Review, record: Any, traits: Any, in_range: bool, overlaps: bool, is_new: bool) -> Review:
    """Return the review with the counts of one more snapshot added.

    Args:
        found: Review of all newer snapshots.
        record: Snapshot to add.
        traits: Traits of the operation.
        in_range: Whether the partition range of the snapshot includes a partition that the operation writes.
        overlaps: Whether the snapshot may have written to one of these partitions. Only relevant if ``is_new`` is set or attempts
            reuse nothing.
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
    """Return the review without the conflicts that are due to earlier commits of the same job.

    Each of these ``own`` commits replaced other files, so it does not conflict.
    """
    return Review(
        found.lists, found.manifests, max(found.conflicting - own, 0), found.hits, found.misses, found.deletes, found.delete_hits
    )


class Filtered(NamedTuple):
    """Numbers of manifests that an attempt filters, for data manifests and delete manifests separately.

    The attempt reads all of these manifests, and rewrites those that match (hits).
    """

    hits: int
    misses: int
    deletes: int
    delete_hits: int


def manifests_to_filter(table: Any, handle: Any, traits: Any, found: Review) -> Filtered:
    """Return the numbers of manifests that an attempt filters.

    The first attempt filters all relevant manifests. A retry filters only manifests that were added since the previous attempt.
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
    """Return the number of files that the client deletes after a commit: files of failed attempts, and manifests replaced by
    merging.
    """
    return int(handle.lost + handle.made * handle.merged)


def files_made(handle: Any, traits: Any) -> int:
    """Return the number of files that an operation has written, and deletes if it aborts."""
    return int(handle.lost + 1 + handle.merged + handle.made + traits.deletes if handle.made_list else 0)
