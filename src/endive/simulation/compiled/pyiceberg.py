"""Run the steps of a transaction of PyIceberg, as in ``endive.transaction.pyiceberg``."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.manifests import hits_of, list_size
from endive.arithmetic.validation import is_start_expired
from endive.simulation.compiled.client_steps import access_step, fails_for_good, sized_latency
from endive.simulation.compiled.features import HAS_FAILURES, jit
from endive.simulation.compiled.iceberg import (
    CUT_OFF,
    EXPIRED,
    PREPARED,
    REAL_CONFLICT,
    is_real_conflict,
    merge_manifests,
    metadata_access,
    sized_access,
    sized_parameter,
)
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
    PER_ATTEMPT_IO,
    UNUSED,
)
from endive.simulation.compiled.streams import resends_ms, storage_uniform
from endive.simulation.compiled.table_state import base_table, review


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
def make_snapshots(run: Any, txn: Any, slot: int) -> bool:
    """Write the manifests and manifest lists of an attempt on top of the current tables."""
    txn.written_before = txn.counts[FILE_WRITE] + txn.counts[LIST_WRITE]
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.base = base_table(run, txn, mine.table).length
        if not _make_snapshot(run, txn, slot, t, traits_at(run, txn.cls, txn.operation)):
            return False
        second = traits_at(run, txn.cls, NUM_OPERATIONS + txn.operation)
        if second.kind != UNUSED and not _make_snapshot(run, txn, slot, t, second):
            return False
    return True


@jit
def _make_snapshot(run: Any, txn: Any, slot: int, t: int, traits: Any) -> bool:
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
    slower = max(read, write)
    if HAS_FAILURES:
        slower += resends_ms(txn, class_at(run, txn.cls).request_error, 2, slower)
        if fails_for_good(run, txn, PER_ATTEMPT_IO, 2, slower):
            return False
    if not access_step(run, txn, PER_ATTEMPT_IO, slower):
        return False
    txn.counts[LIST_READ] += 1
    txn.counts[FILE_WRITE] += 1
    return True


@jit
def _latency(run: Any, txn: Any, kind: int, size: int) -> float:
    parameters = class_at(run, txn.cls).access[kind]
    return sized_latency(run, parameters, sized_parameter(run, txn, kind, size), storage_uniform(txn))


@jit
def clean_up(run: Any, txn: Any) -> bool:
    """Delete the manifests and manifest lists of failed attempts."""
    return sized_access(run, txn, FILE_DELETE, txn.lost_files, PER_ATTEMPT_IO, 0, 1)
