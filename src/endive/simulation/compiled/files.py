"""The files of tables: what a commit does to them, and what an operation finds when it looks back. Compiled ``endive.table``."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.files import NO_SNAPSHOT, counts_after, hits_of
from endive.arithmetic.validation import nothing_found, reads_history, review_record
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.memory import history_at, history_partition_at, partition_at, table_at, touched_at, traits_at


@jit
def change_files(run: Any, txn: Any, slot: int, t: int, traits: Any) -> None:
    """Put a commit on top of a table."""
    table = table_at(run, touched_at(run, slot, t).table)
    if traits.kind == NO_SNAPSHOT:
        table.snapshots = min(table.snapshots, traits.retain)
        return
    data = traits.data + hits_of(table, traits)
    counts = counts_after(run, table, traits)
    table.data = counts.data
    table.data_bytes = counts.data_bytes
    table.deletes = counts.deletes
    table.delete_bytes = counts.delete_bytes
    table.snapshots = counts.snapshots
    table.length = counts.length
    table.data_revision = counts.data_revision
    table.delete_revision = counts.delete_revision
    table.merges = counts.merges
    _remember(run, txn, slot, t, table, traits, data)


@inlined
def _remember(run: Any, txn: Any, slot: int, t: int, table: Any, traits: Any, data: int) -> None:
    """Enter a snapshot into the history of a table."""
    place = run.history_end - run.history_first
    record = history_at(run, place)
    record.parent = table.head
    record.kind = traits.kind
    record.data = data
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
    """Look through the snapshots since the start, newest first; an operation that cares for none of them does not look."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    traits = traits_at(run, txn.cls, txn.operation)
    found = nothing_found()
    if not reads_history(traits):
        return found
    unseen = table.length - mine.seen
    index = table.head
    for age in range(table.length - mine.start):
        place = index - run.history_first
        record = history_at(run, place)
        new = age < unseen
        in_range = range_has(run, txn, slot, t, record)
        overlapping = in_range and (new or traits.keeps_nothing != 0) and overlaps(run, txn, slot, t, record, place)
        found = review_record(found, record, traits, in_range, overlapping, new)
        index = record.parent
    return found


@jit
def is_head_listed(run: Any, txn: Any, slot: int, t: int) -> bool:
    """Say whether the current manifest list is one of those that validation reads."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    if table.length <= mine.start:
        return False
    kind = history_at(run, table.head - run.history_first).kind
    return kind & traits_at(run, txn.cls, txn.operation).validates != 0  # type: ignore[no-any-return]
