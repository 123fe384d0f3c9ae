"""Run the steps of a transaction of Iceberg's Java library or of PyIceberg, as in ``endive.transaction.iceberg``.

All steps of an attempt of the Java library use the table state that was read at the start of the attempt.
"""

from __future__ import annotations

import math
from typing import Any

from endive.arithmetic.costs import sized_median_ms
from endive.arithmetic.draws import FIXED
from endive.arithmetic.manifests import (
    NO_SNAPSHOT,
    bins_of,
    files_made,
    files_of_lost_attempts,
    hits_of,
    is_start_expired,
    list_size,
    manifests_to_filter,
    mean_size,
    merged_size,
    metadata_size,
    without_own,
)
from endive.simulation.compiled.client_steps import NOT_SIZED, run_batches, send_requests, sized_latency
from endive.simulation.compiled.features import jit
from endive.simulation.compiled.memory import class_at, table_at, touched_at, traits_at
from endive.simulation.compiled.run_state import (
    CONFLICT_IO,
    FILE_DELETE,
    FILE_READ,
    FILE_WRITE,
    LIST_READ,
    LIST_WRITE,
    METADATA_READ,
    METADATA_WRITE,
    NUM_OPERATIONS,
    PARTITION_OVERLAP,
    PER_ATTEMPT_IO,
    UNUSED,
)
from endive.simulation.compiled.streams import conflict_uniform, storage_uniform
from endive.simulation.compiled.table_state import base_table, is_head_listed, review, snapshots_kept_by

CUT_OFF, PREPARED, REAL_CONFLICT, EXPIRED = range(4)
"""Outcomes of the preparation of a table. ``CUT_OFF`` means that the run ends before the preparation ends."""


@jit
def sized_parameter(run: Any, txn: Any, kind: int, size: int) -> float:
    """Return the latency parameter for a file of this size, or ``NOT_SIZED``.

    The parameter is the median latency or its logarithm.
    """
    cls = class_at(run, txn.cls)
    return first_parameter(cls.sized[kind], cls.access[kind], size)


@jit
def first_parameter(sized: Any, parameters: Any, size: int) -> float:
    """Return the latency parameter for a file size, or ``NOT_SIZED``.

    ``sized`` contains the median latency for size 0 and its growth with the size.
    """
    if sized[0] <= 0.0:
        return NOT_SIZED
    median = sized_median_ms(sized[1], sized[2], size)
    return median if parameters[0] == FIXED else math.log(median)


@jit
def sized_access(run: Any, txn: Any, kind: int, count: int, component: int, size: int, parallel: int) -> bool:
    """Access ``count`` files of this size in batches of ``parallel``."""
    if count <= 0:
        return True
    first = sized_parameter(run, txn, kind, size)
    return run_batches(run, txn, class_at(run, txn.cls), kind, count, component, first, parallel)


@jit
def metadata_access(run: Any, txn: Any, kind: int, snapshots: int) -> bool:
    """Read or write table metadata, unless the catalog does."""
    if not class_at(run, txn.cls).handles_metadata:
        return True
    return sized_access(run, txn, kind, 1, PER_ATTEMPT_IO, metadata_size(run, snapshots), 1)


@jit
def take_handles(run: Any, txn: Any, slot: int) -> None:
    """Record the state of the tables at the start of the operation."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        table = base_table(run, txn, mine.table)
        mine.start = table.length
        mine.prepared_version = table.version
    forget_attempts(run, txn, slot)


@jit
def forget_attempts(run: Any, txn: Any, slot: int) -> None:
    """Reset the state of the attempts of the previous commit of the same job."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.seen = mine.start
        mine.prepared = 0
        mine.lost = 0
        mine.made = 0
        mine.made_list = 0
        mine.merged = 0
        mine.bins = 0
    txn.lost_files = 0


@jit
def is_real_conflict(run: Any, txn: Any) -> bool:
    """Return whether the conflict detector reports a real conflict, and count the result."""
    cls = class_at(run, txn.cls)
    can = traits_at(run, txn.cls, txn.operation).conflicts != 0
    real = can and (cls.detector == PARTITION_OVERLAP or conflict_uniform(txn) < cls.real_probability)
    if real:
        txn.real_conflicts += 1
    else:
        txn.false_conflicts += 1
    return bool(real)


@jit
def prepare(run: Any, txn: Any, slot: int, t: int) -> int:
    """Write the files of a new table version on top of the current version, and return the outcome."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    traits = traits_at(run, txn.cls, txn.operation)
    moved = table.version != mine.prepared_version
    if mine.prepared and not moved:
        return PREPARED
    if moved and not metadata_access(run, txn, METADATA_READ, table.snapshots):
        return CUT_OFF
    if traits.kind == NO_SNAPSHOT:
        mine.kept = snapshots_kept_by(run, table, traits, txn.commit_started_ms)
    else:
        found = review(run, txn, slot, t)
        if txn.job_commit > 1 and not mine.prepared:
            found = without_own(found, txn.job_installs)
        if traits.validates and is_start_expired(table, mine.start):
            return EXPIRED
        size = list_size(run, table.data + table.deletes)
        if not sized_access(run, txn, LIST_READ, found.lists, CONFLICT_IO, size, 1):
            return CUT_OFF
        if not sized_access(run, txn, FILE_READ, found.manifests, CONFLICT_IO, run.manifest_bytes, 1):
            return CUT_OFF
        if found.conflicting and is_real_conflict(run, txn):
            return REAL_CONFLICT
        if not is_head_listed(run, txn, slot, t) and not sized_access(run, txn, LIST_READ, 1, PER_ATTEMPT_IO, size, 1):
            return CUT_OFF
        if not _make_snapshot(run, txn, mine, table, traits, found):
            return CUT_OFF
    if not metadata_access(run, txn, METADATA_WRITE, table.snapshots + 1):
        return CUT_OFF
    mine.prepared_version = table.version
    mine.seen = table.length
    mine.prepared = 1
    mine.data_revision = table.data_revision
    mine.delete_revision = table.delete_revision
    mine.merges = table.merges
    mine.snapshots = table.snapshots
    mine.manifests = table.data + table.deletes
    return PREPARED


@jit
def _make_snapshot(run: Any, txn: Any, mine: Any, table: Any, traits: Any, found: Any) -> bool:
    """Filter, write and merge manifests, and write the manifest list."""
    pool = class_at(run, txn.cls).max_parallel
    component = CONFLICT_IO if mine.prepared else PER_ATTEMPT_IO
    mean = mean_size(run, table)
    hits, misses, deletes, delete_hits = manifests_to_filter(table, mine, traits, found)
    if not sized_access(run, txn, FILE_READ, hits + misses, component, mean, pool):
        return False
    if traits.reads_per_hit > 1 and not sized_access(run, txn, FILE_READ, hits, component, mean, pool):
        return False
    if traits.filters_deletes and not sized_access(run, txn, FILE_READ, deletes + delete_hits, component, run.manifest_bytes, pool):
        return False
    if not sized_access(run, txn, FILE_WRITE, hits + delete_hits, component, mean, pool):
        return False
    mine.made += hits if mine.prepared else hits + traits.data
    if mine.prepared:
        mine.lost += 1
    new = traits.data + traits.deletes
    if not mine.prepared and not sized_access(run, txn, FILE_WRITE, new, PER_ATTEMPT_IO, run.manifest_bytes, 1):
        return False
    if traits.merges and (not mine.prepared or table.data_revision != mine.data_revision):
        mine.lost += mine.merged
        manifests, size = table.data + traits.data, table.data_bytes + traits.data * run.manifest_bytes
        cached = mine.bins if table.merges == mine.merges else 0
        if not merge_manifests(run, txn, manifests, size, component, cached):
            return False
        bins, _, newest = bins_of(run, manifests, size)
        mine.bins = bins
        mine.merged = 1 if newest > 0 else 0
    if traits.deletes and (not mine.prepared or table.delete_revision != mine.delete_revision):
        manifests, size = table.deletes + traits.deletes, table.delete_bytes + traits.deletes * run.manifest_bytes
        if not merge_manifests(run, txn, manifests, size, component, 0):
            return False
    size = list_size(run, table.data + table.deletes + new)
    if not sized_access(run, txn, LIST_WRITE, 1, PER_ATTEMPT_IO, size, 1):
        return False
    mine.made_list = 1
    return True


@jit
def merge_manifests(run: Any, txn: Any, manifests: int, size: int, component: int, cached: int) -> bool:
    """Merge manifests if there are enough to merge.

    Bins of manifests are merged in parallel. The manifests of one bin are read sequentially.
    """
    bins, per_bin, newest = bins_of(run, manifests, size)
    pool = class_at(run, txn.cls).max_parallel
    mean = size // max(manifests, 1)
    left = bins - cached
    while left > 0:
        at_once = min(left, pool)
        if not sized_access(run, txn, FILE_READ, at_once * per_bin, component, mean, at_once):
            return False
        if not sized_access(run, txn, FILE_WRITE, at_once, component, merged_size(run, mean, per_bin), at_once):
            return False
        left -= at_once
    if newest == 0:
        return True
    return sized_access(run, txn, FILE_READ, newest, component, mean, 1) and sized_access(
        run, txn, FILE_WRITE, 1, component, merged_size(run, mean, newest), 1
    )


@jit
def delete_all(run: Any, txn: Any, slot: int) -> bool:
    """Delete all files that an aborted operation has written."""
    traits = traits_at(run, txn.cls, txn.operation)
    for t in range(txn.written):
        if not sized_access(run, txn, FILE_DELETE, files_made(touched_at(run, slot, t), traits), PER_ATTEMPT_IO, 0, 1):
            return False
    return True


@jit
def after_commit(run: Any, txn: Any, slot: int) -> bool:
    """Read the table again after the commit, and delete the files of failed attempts."""
    traits = traits_at(run, txn.cls, txn.operation)
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        if not metadata_access(run, txn, METADATA_READ, mine.snapshots + 1):
            return False
        if traits.list_after:
            size = list_size(run, mine.manifests + traits.data + traits.deletes)
            if not sized_access(run, txn, LIST_READ, 1, PER_ATTEMPT_IO, size, 1):
                return False
        if traits.kind == NO_SNAPSHOT and not _clean_up(run, txn, mine):
            return False
        if not sized_access(run, txn, FILE_DELETE, files_of_lost_attempts(mine), PER_ATTEMPT_IO, 0, 1):
            return False
    return True


@jit
def _clean_up(run: Any, txn: Any, mine: Any) -> bool:
    """Read a manifest list and a manifest of each expired snapshot, to find unreferenced files."""
    pool = class_at(run, txn.cls).max_parallel
    size = list_size(run, mine.manifests)
    return (
        sized_access(run, txn, LIST_READ, mine.snapshots, PER_ATTEMPT_IO, size, pool)
        and sized_access(run, txn, FILE_READ, mine.snapshots, PER_ATTEMPT_IO, run.manifest_bytes, pool)
        and sized_access(run, txn, FILE_DELETE, mine.snapshots - mine.kept, PER_ATTEMPT_IO, 0, pool)
    )


@jit
def snapshots_made(run: Any, txn: Any) -> int:
    """Return the number of snapshots that the operation creates in each table."""
    return 1 if traits_at(run, txn.cls, NUM_OPERATIONS + txn.operation).kind == UNUSED else 2


@jit
def read_metadata(run: Any, txn: Any, slot: int) -> bool:
    """Read the current metadata of every written table."""
    for t in range(txn.written):
        if not metadata_access(run, txn, METADATA_READ, table_at(run, touched_at(run, slot, t).table).snapshots):
            return False
    return True


@jit
def is_unchanged(run: Any, txn: Any, slot: int) -> bool:
    """Return whether the written tables still have the snapshots on which the attempt is based."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        if table_at(run, mine.table).length != mine.base:
            return False
    return True


@jit
def write_all_metadata(run: Any, txn: Any, slot: int) -> bool:
    """Write the new metadata of every written table."""
    made = snapshots_made(run, txn)
    for t in range(txn.written):
        snapshots = table_at(run, touched_at(run, slot, t).table).snapshots
        if not metadata_access(run, txn, METADATA_WRITE, snapshots + made):
            return False
    return True


@jit
def validate_again(run: Any, txn: Any, slot: int, t: int) -> int:
    """Read the metadata of a table, and validate against the commits since the start of the operation. Return the outcome."""
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    traits = traits_at(run, txn.cls, txn.operation)
    if not metadata_access(run, txn, METADATA_READ, table.snapshots):
        return CUT_OFF
    if not traits.validates:
        return PREPARED
    if is_start_expired(table, mine.start):
        return EXPIRED
    found = review(run, txn, slot, t)
    size = list_size(run, table.data + table.deletes)
    if not sized_access(run, txn, LIST_READ, found.lists, CONFLICT_IO, size, 1):
        return CUT_OFF
    if not sized_access(run, txn, FILE_READ, found.manifests, CONFLICT_IO, run.manifest_bytes, 1):
        return CUT_OFF
    mine.seen = table.length
    return REAL_CONFLICT if found.conflicting and is_real_conflict(run, txn) else PREPARED


@jit
def make_pyiceberg_snapshots(run: Any, txn: Any, slot: int) -> bool:
    """Write the manifests and manifest lists of an attempt on top of the current tables."""
    txn.written_before = txn.counts[FILE_WRITE] + txn.counts[LIST_WRITE]
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.base = base_table(run, txn, mine.table).length
        if not _make_pyiceberg_snapshot(run, txn, slot, t, traits_at(run, txn.cls, txn.operation)):
            return False
        second = traits_at(run, txn.cls, NUM_OPERATIONS + txn.operation)
        if second.kind != UNUSED and not _make_pyiceberg_snapshot(run, txn, slot, t, second):
            return False
    return True


@jit
def _make_pyiceberg_snapshot(run: Any, txn: Any, slot: int, t: int, traits: Any) -> bool:
    """Write the manifests and the manifest list of one snapshot."""
    mine = touched_at(run, slot, t)
    table = base_table(run, txn, mine.table)
    manifests = table.data + table.deletes
    if traits.data:
        if not _together(run, txn, list_size(run, manifests)):
            return False
        size = table.data_bytes + run.manifest_bytes
        if traits.merges and not merge_manifests(run, txn, table.data + 1, size, PER_ATTEMPT_IO, 0):
            return False
    else:
        found = review(run, txn, slot, t)
        if not sized_access(run, txn, LIST_READ, 1, PER_ATTEMPT_IO, list_size(run, manifests), 1):
            return False
        looked_into = hits_of(table, traits) + found.hits + found.misses
        if not sized_access(run, txn, FILE_READ, looked_into, PER_ATTEMPT_IO, run.manifest_bytes, 1):
            return False
        if not sized_access(run, txn, FILE_WRITE, 1, PER_ATTEMPT_IO, run.manifest_bytes, 1):
            return False
    return sized_access(run, txn, LIST_WRITE, 1, PER_ATTEMPT_IO, list_size(run, manifests + 1), 1)


@jit
def _together(run: Any, txn: Any, bytes_read: int) -> bool:
    """Write the new manifest and read the manifest list concurrently."""
    read = _latency(run, txn, LIST_READ, bytes_read)
    write = _latency(run, txn, FILE_WRITE, run.manifest_bytes)
    if not send_requests(run, txn, PER_ATTEMPT_IO, 2, max(read, write), True):
        return False
    txn.counts[LIST_READ] += 1
    txn.counts[FILE_WRITE] += 1
    return True


@jit
def _latency(run: Any, txn: Any, kind: int, size: int) -> float:
    parameters = class_at(run, txn.cls).access[kind]
    return sized_latency(run, parameters, sized_parameter(run, txn, kind, size), storage_uniform(txn))


@jit
def delete_lost_files(run: Any, txn: Any) -> bool:
    """Delete the manifests and manifest lists of failed attempts."""
    return sized_access(run, txn, FILE_DELETE, txn.lost_files, PER_ATTEMPT_IO, 0, 1)
