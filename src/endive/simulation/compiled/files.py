"""The files of tables: what a commit does to them, and what an operation finds when it looks back. Compiled ``endive.table``."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import merge_bins, merged_away
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.memory import (
    history_at,
    history_partition_at,
    partition_at,
    table_at,
    touched_at,
    traits_at,
)
from endive.table import ALL_MANIFESTS, NO_SNAPSHOT


@jit
def metadata_size(run: Any, snapshots: int) -> int:
    """Bytes of table metadata that lists so many snapshots."""
    return run.metadata_bytes + run.metadata_bytes_per_snapshot * snapshots  # type: ignore[no-any-return]


@jit
def list_size(run: Any, manifests: int) -> int:
    """Bytes of a manifest list of so many manifests."""
    return run.manifest_list_bytes + run.manifest_list_bytes_per_manifest * manifests  # type: ignore[no-any-return]


@jit
def hits_of(table: Any, traits: Any) -> int:
    """How many data manifests hold files that an operation removes."""
    return table.data if traits.hits == ALL_MANIFESTS else min(traits.hits, table.data)  # type: ignore[no-any-return]


@jit
def bins_of(run: Any, manifests: int, size: int) -> Any:
    """How a group of manifests is merged."""
    if not run.merge_manifests:
        return 0, 1, 0
    return merge_bins(manifests, size, run.min_count_to_merge, run.target_bytes)


@jit
def change_files(run: Any, txn: Any, slot: int, t: int, traits: Any) -> None:
    """Put a commit on top of a table."""
    table = table_at(run, touched_at(run, slot, t).table)
    if traits.kind == NO_SNAPSHOT:
        table.snapshots = min(table.snapshots, traits.retain)
        return
    hits = hits_of(table, traits)
    whole = traits.hits == ALL_MANIFESTS
    if whole:
        table.data = 0
        table.data_bytes = 0
        table.deletes = 0
        table.delete_bytes = 0
    table.data += traits.data
    table.data_bytes += traits.data * run.manifest_bytes
    table.deletes += traits.deletes
    table.delete_bytes += traits.deletes * run.manifest_bytes
    merged = 0
    if traits.merges:
        bins, per_bin, newest = bins_of(run, table.data, table.data_bytes)
        merged = merged_away(bins, per_bin, newest)
        table.data -= merged
        table.data_bytes -= merged * run.manifest_header_bytes
    if traits.merges and traits.deletes:
        bins, per_bin, newest = bins_of(run, table.deletes, table.delete_bytes)
        deletes_merged = merged_away(bins, per_bin, newest)
        table.deletes -= deletes_merged
        table.delete_bytes -= deletes_merged * run.manifest_header_bytes
    table.snapshots += 1
    table.length += 1
    table.data_revision += 1 if traits.data + hits > 0 else 0
    table.delete_revision += 1 if traits.deletes > 0 or whole else 0
    table.merges += 1 if merged > 0 or whole else 0
    _remember(run, txn, slot, t, table, traits, hits)


@inlined
def _remember(run: Any, txn: Any, slot: int, t: int, table: Any, traits: Any, hits: int) -> None:
    """Enter a snapshot into the history of a table."""
    place = run.history_end - run.history_first
    record = history_at(run, place)
    record.parent = table.head
    record.kind = traits.kind
    record.data = traits.data + hits
    record.deletes = traits.deletes
    record.partitions = -1
    if txn.tracks_partitions:
        record.partitions = touched_at(run, slot, t).partitions
        for p in range(record.partitions):
            partition = partition_at(run, slot, t, p).partition
            history_partition_at(run, place, p).value = partition
            record.first = partition if p == 0 else min(record.first, partition)
            record.last = partition if p == 0 else max(record.last, partition)
    table.head = run.history_end
    run.history_end += 1


@jit
def range_has(run: Any, txn: Any, slot: int, t: int, record: Any) -> bool:
    """Whether one of the transaction's partitions lies within the range of those that a snapshot wrote."""
    if not txn.tracks_partitions or record.partitions < 0:
        return True
    for p in range(touched_at(run, slot, t).partitions):
        if record.first <= partition_at(run, slot, t, p).partition <= record.last:
            return True
    return False


@jit
def overlaps(run: Any, txn: Any, slot: int, t: int, record: Any, place: int) -> bool:
    """Whether a snapshot may have written to one of the transaction's partitions."""
    if not txn.tracks_partitions or record.partitions < 0:
        return True
    for p in range(touched_at(run, slot, t).partitions):
        mine = partition_at(run, slot, t, p).partition
        for q in range(record.partitions):
            if history_partition_at(run, place, q).value == mine:
                return True
    return False


@jit
def review(run: Any, txn: Any, slot: int, t: int) -> Any:
    """What came between: lists, manifests, head_listed, conflicting, hits, misses, deletes, delete_hits (``iceberg.Review``)."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    traits = traits_at(run, txn.cls, txn.operation)
    lists, manifests, conflicting, hits, misses, deletes, delete_hits = 0, 0, 0, 0, 0, 0, 0
    if not (traits.validates or traits.matches_new or traits.filters_deletes or traits.keeps_nothing):
        return lists, manifests, False, conflicting, hits, misses, deletes, delete_hits
    unseen = table.length - mine.seen
    index = table.head
    for age in range(table.length - mine.start):
        place = index - run.history_first
        record = history_at(run, place)
        kind = record.kind
        close = range_has(run, txn, slot, t, record)
        added = 1 if kind & traits.reads_added else 0
        removed = traits.passes if kind & traits.reads_removed else 0
        marked = traits.passes if kind & traits.reads_deletes else 0
        if traits.lists_each:
            lists += added + removed + marked
        elif kind & traits.validates:
            lists += 1
        if close or not traits.prunes:
            manifests += record.data * (added + removed) + record.deletes * marked
        if kind & traits.reads_vectors:
            manifests += record.deletes
        new = age < unseen
        if not new and not traits.keeps_nothing:
            index = record.parent
            continue
        deletes += record.deletes
        if close:
            if overlaps(run, txn, slot, t, record, place):
                hits += record.data
                delete_hits += record.deletes
                if new and kind & traits.conflicts and not kind & traits.exempt_marks:
                    conflicting += 1
            else:
                misses += record.data
        index = record.parent
    head_listed = False
    if table.length > mine.start:
        head_listed = history_at(run, table.head - run.history_first).kind & traits.validates != 0
    return lists, manifests, head_listed, conflicting, hits, misses, deletes, delete_hits
