"""Update the state that transactions share: commit pointers, table versions, metadata files and manifest lists (ML+).

The rules are those of ``endive.catalog`` and ``endive.table``.
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.manifests import (
    NO_SNAPSHOT,
    counts_after,
    hits_of,
    metadata_size,
    nothing_found,
    reads_history,
    review_record,
    snapshots_kept,
    young_before_start,
)
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_FAILURES, HAS_FILES, HAS_PROTOCOL, HAS_SERVICE, inlined, jit
from endive.simulation.compiled.memory import (
    age_at,
    class_at,
    group_at,
    history_at,
    history_partition_at,
    integers_at,
    kept_at,
    kept_table_at,
    partition_at,
    partition_version_at,
    table_at,
    touched_at,
    traits_at,
)
from endive.simulation.compiled.run_state import NO_SLOT, NUM_OPERATIONS, TABLE, UNUSED

_TABLE_WORDS = TABLE.itemsize // 8


@jit
def change_files(run: Any, txn: Any, slot: int, t: int, traits: Any) -> None:
    """Apply a commit to the metadata files of a table."""
    table = table_at(run, touched_at(run, slot, t).table)
    if traits.kind == NO_SNAPSHOT:
        _expire(run, table, snapshots_kept_by(run, table, traits, txn.commit_started_ms))
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
    if run.tracks_ages:
        _note_time(run, table, txn.commit_started_ms)


@inlined
def _note_time(run: Any, table: Any, time_ms: float) -> None:
    """Add the time of a new snapshot, which is at least the time of its parent."""
    place = run.age_free
    age = age_at(run, place)
    run.age_free = age.next
    run.ages_held += 1
    age.time_ms = time_ms
    age.next = NO_SLOT
    if table.recorded > 0:
        last = age_at(run, table.newest)
        age.time_ms = max(time_ms, last.time_ms)
        last.next = place
    else:
        table.oldest = place
    table.newest = place
    table.recorded += 1


@jit
def snapshots_kept_by(run: Any, table: Any, traits: Any, time_ms: float) -> int:
    """Return the number of snapshots that remain if an expiration starts at ``time_ms``."""
    cutoff_ms = time_ms - traits.max_age_ms
    before_start = table.snapshots - table.recorded
    young = min(before_start, young_before_start(table.initial_interval_ms, cutoff_ms)) + table.recorded
    if young == table.recorded:
        place = table.oldest
        while young > 0 and age_at(run, place).time_ms < cutoff_ms:
            young -= 1
            place = age_at(run, place).next
    return snapshots_kept(table, traits, young)


@jit
def _expire(run: Any, table: Any, kept: int) -> None:
    """Remove the oldest snapshots of a table."""
    while table.recorded > kept:
        age = age_at(run, table.oldest)
        following = age.next
        age.next = run.age_free
        run.age_free = table.oldest
        run.ages_held -= 1
        table.oldest = following
        table.recorded -= 1
    table.snapshots = kept


@inlined
def _remember(run: Any, txn: Any, slot: int, t: int, table: Any, traits: Any, data: int) -> None:
    """Add a snapshot to the history of a table."""
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
def base_table(run: Any, txn: Any, table_id: int) -> Any:
    """Return the table state on which an attempt is based: the current state, or the cached handle of the writer."""
    if HAS_SERVICE and HAS_CLIENTS and txn.on_handle:
        return kept_table_at(run, txn.source, table_id)
    return table_at(run, table_id)


@jit
def keep_handles(run: Any, txn: Any, slot: int, tables: int) -> None:
    """Keep the state of the first ``tables`` tables of a transaction in the table handles of its writer."""
    for t in range(tables):
        table_id = touched_at(run, slot, t).table
        place = txn.source * run.num_tables + table_id
        now = integers_at(run.tables + 8 * _TABLE_WORDS * table_id, _TABLE_WORDS)
        copy = integers_at(run.kept_tables + 8 * _TABLE_WORDS * place, _TABLE_WORDS)
        for word in range(_TABLE_WORDS):
            copy[word] = now[word]
        kept = kept_at(run, txn.source, table_id)
        kept.known = 1
        kept.seq = group_at(run, txn.group).seq
        kept.history_start = run.history_end


@jit
def take_kept_snapshot(run: Any, txn: Any, slot: int) -> bool:
    """Start a transaction from the cached table handles of its writer. Return False if a table is not cached."""
    for t in range(txn.read):
        if not kept_at(run, txn.source, touched_at(run, slot, t).table).known:
            return False
    for t in range(txn.read):
        mine = touched_at(run, slot, t)
        kept = kept_at(run, txn.source, mine.table)
        table = kept_table_at(run, txn.source, mine.table)
        mine.version = table.version
        mine.ref = table.ref
        txn.seq = kept.seq if t == 0 else min(txn.seq, kept.seq)
        if class_at(run, txn.cls).reads_history:
            txn.history_start = min(txn.history_start, kept.history_start)
    if HAS_FAILURES:
        txn.rebased = 0
    txn.on_handle = 1
    return True


@jit
def range_has(run: Any, txn: Any, slot: int, t: int, record: Any) -> bool:
    """Return whether a partition of the transaction is within the partition range of a snapshot."""
    if not txn.tracks_partitions or record.partitions < 0:
        return True
    for p in range(touched_at(run, slot, t).partitions):
        if record.first <= partition_at(run, slot, t, p).partition <= record.last:
            return True
    return False


@jit
def overlaps(run: Any, txn: Any, slot: int, t: int, record: Any, place: int) -> bool:
    """Return whether a snapshot may have written to a partition of the transaction."""
    if not txn.tracks_partitions or record.partitions < 0:
        return True
    mine, p, q = touched_at(run, slot, t).partitions, 0, 0
    while p < mine and q < record.partitions:  # both lists are in ascending order
        ours, theirs = partition_at(run, slot, t, p).partition, history_partition_at(run, place, q).value
        if ours == theirs:
            return True
        if ours < theirs:
            p += 1
        else:
            q += 1
    return False


@jit
def review(run: Any, txn: Any, slot: int, t: int) -> Any:
    """Review the snapshots committed since the start of an operation, newest first, if the operation depends on them."""
    mine = touched_at(run, slot, t)
    table = base_table(run, txn, mine.table)
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
    """Return whether validation has read the current manifest list."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    validates = traits_at(run, txn.cls, txn.operation).validates
    if validates == 0 or table.length <= mine.start:
        return False
    return history_at(run, table.head - run.history_first).kind & validates != 0  # type: ignore[no-any-return]


@jit
def take_snapshot(run: Any, txn: Any, slot: int) -> None:
    """Record the versions of all tables and partitions that the transaction accesses."""
    group = group_at(run, txn.group)
    txn.seq = group.seq
    txn.log_offset = group.log_offset
    if HAS_SERVICE and HAS_FAILURES:
        txn.rebased = 0
    for t in range(txn.read):
        mine = touched_at(run, slot, t)
        table = table_at(run, mine.table)
        mine.version = table.version
        if HAS_SERVICE:
            mine.ref = table.ref
        if txn.tracks_partitions and t < txn.written:
            for p in range(mine.partitions):
                known = partition_at(run, slot, t, p)
                known.version = partition_version_at(run, table.first_partition + known.partition).value + table.whole_commits


@jit
def snapshots_behind(run: Any, txn: Any, slot: int) -> int:
    """Return the number of snapshots that were committed to overlapping tables since the base snapshot; 0 without an overlap.

    The function also marks the overlapping tables. The next attempt rewrites their manifests.
    """
    behind = 0
    txn.redo_tables = 0
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        table = table_at(run, mine.table)
        mine.redo = 0
        if table.version == mine.version:
            continue
        overlaps = not txn.tracks_partitions
        if not overlaps:
            for p in range(mine.partitions):
                known = partition_at(run, slot, t, p)
                if partition_version_at(run, table.first_partition + known.partition).value + table.whole_commits != known.version:
                    overlaps = True
                    break
        if overlaps:
            behind += table.version - mine.version
            mine.redo = 1
            txn.redo_tables += 1
    return behind


@jit
def redo_all_tables(run: Any, txn: Any, slot: int) -> None:
    """Mark all written tables for the first attempt, which writes the manifests of each table."""
    for t in range(txn.written):
        touched_at(run, slot, t).redo = 1
    txn.redo_tables = txn.written


@jit
def install(run: Any, txn: Any, slot: int) -> None:
    """Install the new table versions of a transaction."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        table = table_at(run, mine.table)
        table.version += 1
        if txn.tracks_partitions:
            for p in range(mine.partitions):
                written = partition_at(run, slot, t, p).partition
                partition_version_at(run, table.first_partition + written).value += 1
        else:
            table.whole_commits += 1
        if HAS_FILES and run.tracks_files:
            change_files(run, txn, slot, t, traits_at(run, txn.cls, txn.operation))
            second = traits_at(run, txn.cls, NUM_OPERATIONS + txn.operation)
            if second.kind != UNUSED:
                change_files(run, txn, slot, t, second)
            if HAS_PROTOCOL:
                continue
            _note_state(run, txn, table, t == 0)
    group_at(run, txn.group).seq += 1
    run.commit_success += 1


@inlined
def _note_state(run: Any, txn: Any, table: Any, first: bool) -> None:
    """Record the state of a written table after the commit. For several tables, record the maximum of each value."""
    if first:
        txn.table_metadata_bytes = 0
        txn.table_manifests = 0
        txn.table_snapshots = 0
    txn.table_metadata_bytes = max(txn.table_metadata_bytes, metadata_size(run, table.snapshots))
    txn.table_manifests = max(txn.table_manifests, table.data + table.deletes)
    txn.table_snapshots = max(txn.table_snapshots, table.snapshots)


@jit
def append_record(run: Any, txn: Any, slot: int) -> bool:
    """Append the record of a commit to the log of the table group. Return whether the record is applied."""
    group = group_at(run, txn.group)
    run.append_physical_success += 1
    group.log_offset += run.log_entry_bytes
    group.entries += 1
    applied = True
    for t in range(txn.read):
        mine = touched_at(run, slot, t)
        if table_at(run, mine.table).version != mine.version:
            applied = False
    if applied:
        run.append_logical_success += 1
        install(run, txn, slot)
    else:
        run.append_logical_conflict += 1
        run.commit_conflict += 1
    too_long = group.log_offset - group.checkpoint_offset > run.compaction_threshold_bytes
    too_many = 0 < run.compaction_max_entries <= group.entries
    if not group.sealed and (too_long or too_many):
        group.sealed = 1
        run.append_compactions_triggered += 1
    return applied


@inlined
def compact(run: Any, txn: Any) -> bool:
    """Replace the checkpoint of the log. Return False if the checkpoint has changed since the request was sent."""
    group = group_at(run, txn.group)
    if group.checkpoint_offset != txn.checkpoint_offset:
        return False
    group.sealed = 0
    group.checkpoint_offset = group.log_offset
    group.entries = 0
    run.append_compactions_completed += 1
    return True


@jit
def read_list_end(run: Any, mine: Any) -> None:
    """Read the end offset of a manifest list, and whether the list is sealed."""
    table = table_at(run, mine.table)
    mine.list_offset = table.list_offset
    mine.list_sealed = table.list_sealed


@jit
def append_to_list(run: Any, mine: Any, entry_bytes: int) -> bool:
    """Append to a manifest list. Return False if its end has changed or the list is sealed."""
    table = table_at(run, mine.table)
    if table.list_sealed or table.list_offset != mine.list_offset:
        run.manifest_append_physical_failure += 1
        return False
    table.list_offset += entry_bytes
    if 0 < run.seal_threshold < table.list_offset - table.list_start:
        table.list_sealed = 1
    run.manifest_append_physical_success += 1
    return True


@inlined
def replace_sealed_list(run: Any, mine: Any) -> None:
    """Replace a sealed manifest list by a new list, unless another transaction has replaced it."""
    table = table_at(run, mine.table)
    if table.list_sealed:
        table.list_start = table.list_offset
        table.list_sealed = 0
        run.manifest_append_sealed_rewrite += 1
