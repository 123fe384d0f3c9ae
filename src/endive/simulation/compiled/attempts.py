"""The attempts of a transaction, from the snapshot that one is based on to the commit that is sent, on each commit path."""

from __future__ import annotations

from typing import Any

from endive.simulation.compiled import layout
from endive.simulation.compiled.commits import redo_all_tables, snapshots_behind, take_snapshot
from endive.simulation.compiled.ends import abort, succeed
from endive.simulation.compiled.features import HAS_ENDIVE, HAS_FILES, HAS_ICEBERG, HAS_PYICEBERG, HAS_SERVICE
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.iceberg import (
    CUT_OFF,
    PREPARED,
    REAL_CONFLICT,
    after_commit,
    is_real_conflict,
    prepare,
    take_handles,
)
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.manifests import make_manifests
from endive.simulation.compiled.memory import class_at
from endive.simulation.compiled.outcomes import delete_leftovers, lose_attempt
from endive.simulation.compiled.pyiceberg import is_unchanged, make_snapshots, read_metadata, validate_again, write_all_metadata
from endive.simulation.compiled.reads import end_read, request_read
from endive.simulation.compiled.sending import begin_commit
from endive.simulation.compiled.steps import conflicting_manifests, merge, pay_conflict, read_tables


@inlined
def start_work(run: Any, txn: Any, slot: int) -> None:
    """The snapshot that the work is based on, and the work."""
    cls = class_at(run, txn.cls)
    take_snapshot(run, txn, slot)
    if HAS_FILES:
        take_handles(run, txn, slot)
    if not end_read(run, txn) or not read_tables(run, txn, slot, cls):
        return
    if txn.operation == layout.READ_ONLY:
        txn.status = layout.COMMITTED
        _await_event(run, txn, slot, layout.DONE, 0.0)
        return
    txn.status = layout.COMMITTING
    txn.commit_started_ms = txn.now_ms
    if txn.entered_ms < 0.0:
        txn.entered_ms = txn.now_ms
    txn.attempt = 0
    txn.append_due = 1
    if HAS_ICEBERG and cls.commit_path == layout.ICEBERG:
        request_read(run, txn, slot, layout.REFRESH)
    elif HAS_PYICEBERG and cls.commit_path == layout.PYICEBERG:
        _stage(run, txn, slot)
    elif HAS_ENDIVE:
        redo_all_tables(run, txn, slot)
        make_manifests(run, txn, slot)


@inlined
def prepare_attempt(run: Any, txn: Any, slot: int) -> None:
    """The state at the beginning of an attempt on Iceberg's paths (PyIceberg: of a retry): validate, and prepare the commit."""
    take_snapshot(run, txn, slot)
    if not end_read(run, txn):
        return
    for t in range(txn.written):
        outcome = _prepare(run, txn, slot, t)
        if outcome == CUT_OFF:
            return
        if outcome != PREPARED:
            _end_by_conflict(run, txn, slot, outcome == REAL_CONFLICT)
            return
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == layout.PYICEBERG:
        _stage(run, txn, slot)
    else:
        begin_commit(run, txn, slot)


@inlined
def _prepare(run: Any, txn: Any, slot: int, t: int) -> int:
    """Validate a table and make its new state (PyIceberg: validate it); says how it ended."""
    outcome = PREPARED
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == layout.PYICEBERG:
        outcome = validate_again(run, txn, slot, t)
    elif HAS_ICEBERG:
        outcome = prepare(run, txn, slot, t)
    return outcome


@inlined
def end_iceberg_commit(run: Any, txn: Any, slot: int) -> None:
    """The catalog as read after a commit on Iceberg's path, and what follows until the operation is done."""
    effect_at = txn.now_ms
    if end_read(run, txn) and after_commit(run, txn, slot):
        succeed(run, txn, slot, effect_at)


@jit
def _stage(run: Any, txn: Any, slot: int) -> None:
    """Make what an attempt on PyIceberg's path commits, and look whether the table is still the same."""
    if not make_snapshots(run, txn, slot):
        return
    if HAS_SERVICE and run.writes_metadata:
        begin_commit(run, txn, slot)
    else:
        request_read(run, txn, slot, layout.CHECK)


@inlined
def look_again(run: Any, txn: Any, slot: int) -> None:
    """The state just before the commit on PyIceberg's path: if it has changed, the attempt is lost without a commit."""
    take_snapshot(run, txn, slot)
    if not end_read(run, txn) or not read_metadata(run, txn, slot):
        return
    if not is_unchanged(run, txn, slot):
        lose_attempt(run, txn, slot)
    elif write_all_metadata(run, txn, slot):
        begin_commit(run, txn, slot)


@jit
def _end_by_conflict(run: Any, txn: Any, slot: int, may_restart: bool) -> None:
    """Start the operation again, if the conflict and its class allow it; otherwise give up."""
    cls = class_at(run, txn.cls)
    if not delete_leftovers(run, txn, slot):
        return
    if may_restart and cls.on_real_conflict == layout.RESTART and txn.restarts < cls.max_restarts:
        txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
        txn.restarts += 1
        txn.status = layout.EXECUTING
        request_read(run, txn, slot, layout.START_READ)
    else:
        abort(run, txn, slot, layout.VALIDATION)


@inlined
def retry_attempt(run: Any, txn: Any, slot: int) -> None:
    """The state after a failed commit: is what was prepared still valid, and what does it cost if not?"""
    cls = class_at(run, txn.cls)
    behind = snapshots_behind(run, txn, slot)
    take_snapshot(run, txn, slot)
    if not end_read(run, txn):
        return
    if behind == 0:
        begin_commit(run, txn, slot)
        return
    if not pay_conflict(run, txn, cls, behind):
        return
    if not is_real_conflict(run, txn):
        txn.append_due = 0
        make_manifests(run, txn, slot)
        return
    if cls.on_real_conflict == layout.MERGE:
        if merge(run, txn, cls, txn.redo_tables, conflicting_manifests(run, txn, cls)):
            txn.append_due = 1
            make_manifests(run, txn, slot)
    else:
        _end_by_conflict(run, txn, slot, True)
