"""Compute the number and size of a table's metadata files, and which files an attempt accesses.

The accesses of an attempt depend on the snapshots committed since the start of its operation. ``model`` is any object with the
fields of ``endive.table.TableModel``. ``table`` has the fields of ``TableFiles``, ``record`` those of ``SnapshotRecord``, and
``traits`` those of ``Traits``. ``handle`` has the fields of ``endive.transaction.iceberg.Handle``. The engines pass dataclasses of
the model or records of the compiled engine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NO_SNAPSHOT = 0
"""Kind of commit that creates no snapshot, such as expiring snapshots."""
ALL_MANIFESTS = -1
"""Value that stands for all manifests of the table."""


def metadata_size(model: Any, snapshots: int) -> int:
    """Return the size of a table metadata file that lists ``snapshots`` snapshots, in bytes."""
    return int(model.metadata_bytes + model.metadata_bytes_per_snapshot * snapshots)


def list_size(model: Any, manifests: int) -> int:
    """Return the size of a manifest list with ``manifests`` manifests, in bytes."""
    return int(model.manifest_list_bytes + model.manifest_list_bytes_per_manifest * manifests)


def mean_size(model: Any, table: Any) -> int:
    """Return the mean size of the table's data manifests in bytes, or the size of a new manifest if the table has none."""
    return int(table.data_bytes // table.data if table.data > 0 else model.manifest_bytes)


def merged_size(model: Any, mean: int, manifests: int) -> int:
    """Return the size of one manifest merged from ``manifests`` manifests of size ``mean``, in bytes."""
    return int(manifests * mean - (manifests - 1) * model.manifest_header_bytes)


def hits_of(table: Any, traits: Any) -> int:
    """Return the number of data manifests that list a file removed by the operation."""
    return int(table.data if traits.hits == ALL_MANIFESTS else min(traits.hits, table.data))


def merge_bins(count: int, size: int, least: int, target: int) -> tuple[int, int, int]:
    """Return the merge plan of a group of manifests.

    Manifests are packed into bins of ``target`` bytes, oldest first. Each full bin is merged into one manifest. The newest bin is
    merged only if it contains at least ``least`` manifests. All manifests are assumed to have the mean size.

    Returns:
        Number of full bins, manifests per bin, and manifests in the newest bin (0 if that bin is not merged).
    """
    if count < 2:
        return 0, 1, 0
    per_bin = target // max(size // count, 1)
    if per_bin < 2:
        return 0, 1, 0
    bins = (count - 1) // per_bin
    newest = count - bins * per_bin
    return bins, per_bin, newest if newest >= least and newest > 1 else 0


def bins_of(model: Any, manifests: int, size: int) -> tuple[int, int, int]:
    """Return the merge plan of ``merge_bins`` for a table's manifests; no merges if merging is disabled."""
    if not model.merge_manifests:
        return 0, 1, 0
    return merge_bins(manifests, size, model.min_count_to_merge, model.target_bytes)


def merged_away(bins: int, per_bin: int, newest: int) -> int:
    """Return the number of manifests by which merging reduces the manifest list."""
    return bins * (per_bin - 1) + (newest - 1 if newest > 0 else 0)


def young_before_start(interval_ms: float, cutoff_ms: float) -> int:
    """Return the number of snapshots from ``cutoff_ms`` to time 0, for a table that received one every ``interval_ms``."""
    if cutoff_ms > 0.0:
        return 0
    return int(min(-cutoff_ms / interval_ms, 1e15)) if interval_ms > 0.0 else 10**15


def snapshots_kept(table: Any, traits: Any, young: int) -> int:
    """Return the number of snapshots that remain after snapshots are expired.

    ``young`` is the number of snapshots within the maximum age.
    """
    return int(max(young, min(traits.min_snapshots, table.snapshots)))


class FileCounts(NamedTuple):
    """Fields of ``endive.table.TableFiles`` that a commit changes."""

    data: int
    data_bytes: int
    deletes: int
    delete_bytes: int
    snapshots: int
    length: int
    data_revision: int
    delete_revision: int
    merges: int


def counts_after(model: Any, table: Any, traits: Any) -> FileCounts:
    """Return the counts of a table after a commit that creates a snapshot."""
    whole = traits.hits == ALL_MANIFESTS
    data = traits.data if whole else table.data + traits.data
    data_bytes = (0 if whole else table.data_bytes) + traits.data * model.manifest_bytes
    deletes = traits.deletes if whole else table.deletes + traits.deletes
    delete_bytes = (0 if whole else table.delete_bytes) + traits.deletes * model.manifest_bytes
    merged, deletes_merged = 0, 0
    if traits.merges:
        bins, per_bin, newest = bins_of(model, data, data_bytes)
        merged = merged_away(bins, per_bin, newest)
    if traits.merges and traits.deletes:
        bins, per_bin, newest = bins_of(model, deletes, delete_bytes)
        deletes_merged = merged_away(bins, per_bin, newest)
    return FileCounts(
        data - merged,
        data_bytes - merged * model.manifest_header_bytes,
        deletes - deletes_merged,
        delete_bytes - deletes_merged * model.manifest_header_bytes,
        table.snapshots + 1,
        table.length + 1,
        table.data_revision + (1 if traits.data + hits_of(table, traits) > 0 else 0),
        table.delete_revision + (1 if traits.deletes > 0 or whole else 0),
        table.merges + (1 if merged > 0 or whole else 0),
    )


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
