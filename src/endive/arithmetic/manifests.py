"""Compute the number and size of a table's metadata files, and the manifests that a commit merges.

``model`` is any object with the fields of ``endive.table.TableModel``. ``table`` has the fields of ``TableFiles``, and ``traits``
has the fields of ``Traits``. The engines pass dataclasses of the model or records of the compiled engine.
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
