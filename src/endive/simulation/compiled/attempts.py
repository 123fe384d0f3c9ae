"""Run the attempts of a transaction on each commit path, from reading the base snapshot to sending the commit request.

On the path ``endive``, an attempt rewrites manifest lists or appends to them (ML+).
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms
from endive.simulation.compiled import run_state
from endive.simulation.compiled.client_steps import (
    access,
    conflicting_manifests,
    merge,
    pay_conflict,
    read_lists,
    read_tables,
    step,
    write_manifests,
    write_metadata,
)
from endive.simulation.compiled.features import (
    HAS_ENDIVE,
    HAS_FILES,
    HAS_ICEBERG,
    HAS_LIST_APPENDS,
    HAS_PYICEBERG,
    HAS_SERVICE,
    inlined,
    jit,
)
from endive.simulation.compiled.iceberg import (
    CUT_OFF,
    PREPARED,
    REAL_CONFLICT,
    after_commit,
    is_real_conflict,
    is_unchanged,
    make_pyiceberg_snapshots,
    prepare,
    read_metadata,
    take_handles,
    validate_again,
    write_all_metadata,
)
from endive.simulation.compiled.memory import await_event, class_at, touched_at
from endive.simulation.compiled.requests import (
    begin_commit,
    end_read,
    end_response,
    lose_attempt,
    request_read,
    restarts_after_conflict,
    start_committing,
    succeed,
)
from endive.simulation.compiled.streams import storage_uniform, two_values
from endive.simulation.compiled.table_state import (
    append_to_list,
    read_list_end,
    redo_all_tables,
    replace_sealed_list,
    snapshots_behind,
    take_snapshot,
)


@jit
def make_manifests(run: Any, txn: Any, slot: int) -> None:
    """Write the files of an attempt on the path ``endive``.

    The attempt reads the manifest lists, writes manifests, and writes the lists or appends to them.
    """
    cls = class_at(run, txn.cls)
    if not read_lists(run, txn, cls):
        return
    if HAS_LIST_APPENDS and txn.append_due and txn.operation != run_state.EXPIRE_SNAPSHOTS:
        await_event(run, txn, slot, run_state.LISTS_READ, 0.0)
    elif write_manifests(run, txn, cls):
        _finish_manifests(run, txn, slot)


@inlined
def _finish_manifests(run: Any, txn: Any, slot: int) -> None:
    """Write the table metadata of an attempt, and send the commit request."""
    if write_metadata(run, txn, class_at(run, txn.cls)):
        begin_commit(run, txn, slot)


@inlined
def list_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """Process an event of an append to a manifest list (ML+)."""
    if event == run_state.LISTS_READ:
        _end_list_reads(run, txn, slot)
    elif event == run_state.LIST_APPEND:
        _list_append_effect(run, txn, slot)
    elif event == run_state.LIST_REWRITE:
        _end_list_rewrite(run, txn, slot)


@inlined
def _end_list_reads(run: Any, txn: Any, slot: int) -> None:
    """Write the manifests of an attempt after its manifest lists were read (ML+)."""
    for t in range(txn.written):
        read_list_end(run, touched_at(run, slot, t))
    if write_manifests(run, txn, class_at(run, txn.cls)):
        txn.table_cursor = 0
        _append_entry(run, txn, slot)


@jit
def _append_entry(run: Any, txn: Any, slot: int) -> None:
    """Append to the manifest list of the next table with new manifests.

    If the list is sealed, it is rewritten first. After the last table, the transaction sends its commit request.
    """
    while txn.table_cursor < txn.written and not touched_at(run, slot, txn.table_cursor).redo:
        txn.table_cursor += 1
    if txn.table_cursor == txn.written:
        _finish_manifests(run, txn, slot)
        return
    cls = class_at(run, txn.cls)
    if not touched_at(run, slot, txn.table_cursor).list_sealed:
        _request_list_append(run, txn, slot)
    elif access(run, txn, cls, run_state.LIST_READ, 1, run_state.PER_ATTEMPT_IO) and access(
        run, txn, cls, run_state.LIST_WRITE, 1, run_state.PER_ATTEMPT_IO
    ):
        await_event(run, txn, slot, run_state.LIST_REWRITE, 0.0)


@inlined
def _end_list_rewrite(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    replace_sealed_list(run, mine)
    read_list_end(run, mine)
    _request_list_append(run, txn, slot)


@jit
def _request_list_append(run: Any, txn: Any, slot: int) -> None:
    cls = class_at(run, txn.cls)
    txn.success_ms, txn.failure_ms = two_values(run, cls.list_append, cls.failed_list_append, storage_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, cls.linearization)
    await_event(run, txn, slot, run_state.LIST_APPEND, txn.effect_ms)


@inlined
def _list_append_effect(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    landed = append_to_list(run, mine, class_at(run, txn.cls).manifest_list_entry_bytes)
    read_list_end(run, mine)
    rest = (txn.success_ms if landed else failed_answer_ms(txn.effect_ms, txn.failure_ms)) - txn.effect_ms
    if not end_response(run, txn, run_state.PER_ATTEMPT_IO, rest):
        return
    txn.counts[run_state.LIST_APPENDS] += 1
    if landed:
        txn.table_cursor += 1
    _append_entry(run, txn, slot)


@inlined
def start_work(run: Any, txn: Any, slot: int) -> None:
    """Record the base snapshot of the job, run the job, and start the first attempt."""
    cls = class_at(run, txn.cls)
    take_snapshot(run, txn, slot)
    if HAS_FILES:
        txn.history_start = run.history_end
        take_handles(run, txn, slot)
    if end_read(run, txn) and read_tables(run, txn, slot, cls):
        _begin_attempts(run, txn, slot, cls)


@inlined
def start_from_handle(run: Any, txn: Any, slot: int) -> None:
    """Start a transaction from the cached table handles of its writer, without loading the tables."""
    take_handles(run, txn, slot)
    if HAS_ICEBERG:
        txn.job_start_ms = txn.now_ms
    if step(run, txn, run_state.RUNTIME, txn.runtime_ms):
        _begin_attempts(run, txn, slot, class_at(run, txn.cls))


@jit
def _begin_attempts(run: Any, txn: Any, slot: int, cls: Any) -> None:
    """Start the first attempt after the job."""
    if not start_committing(run, txn, slot):
        return
    txn.attempt = 0
    txn.append_due = 1
    if HAS_FILES and cls.refreshes_first:
        request_read(run, txn, slot, run_state.REFRESH)
    elif HAS_PYICEBERG and cls.commit_path == run_state.PYICEBERG:
        _stage(run, txn, slot)
    elif HAS_ENDIVE:
        redo_all_tables(run, txn, slot)
        make_manifests(run, txn, slot)


@inlined
def prepare_attempt(run: Any, txn: Any, slot: int) -> None:
    """Validate and prepare an attempt of Iceberg's Java library, or validate a retry of PyIceberg."""
    take_snapshot(run, txn, slot)
    txn.on_handle = 0
    if not end_read(run, txn):
        return
    for t in range(txn.written):
        outcome = _prepare(run, txn, slot, t)
        if outcome == CUT_OFF:
            return
        if outcome != PREPARED:
            _end_by_conflict(run, txn, slot, outcome == REAL_CONFLICT)
            return
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == run_state.PYICEBERG:
        _stage(run, txn, slot)
    else:
        begin_commit(run, txn, slot)


@inlined
def _prepare(run: Any, txn: Any, slot: int, t: int) -> int:
    """Validate one table of an attempt and, for the Java library, write its new metadata files. Return the outcome."""
    outcome = PREPARED
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == run_state.PYICEBERG:
        outcome = validate_again(run, txn, slot, t)
    elif HAS_ICEBERG:
        outcome = prepare(run, txn, slot, t)
    return outcome


@inlined
def end_iceberg_commit(run: Any, txn: Any, slot: int) -> None:
    """End the operation after the catalog read that follows a commit of Iceberg's Java library."""
    effect_at = txn.now_ms
    if end_read(run, txn) and after_commit(run, txn, slot):
        succeed(run, txn, slot, effect_at)


@jit
def _stage(run: Any, txn: Any, slot: int) -> None:
    """Write the files of a PyIceberg attempt, and read the catalog to check whether the table has changed."""
    if not make_pyiceberg_snapshots(run, txn, slot):
        return
    if HAS_SERVICE and run.writes_metadata:
        begin_commit(run, txn, slot)
    else:
        request_read(run, txn, slot, run_state.CHECK)


@inlined
def check_unchanged(run: Any, txn: Any, slot: int) -> None:
    """Check the table just before a PyIceberg commit. If the table has changed, the attempt fails without a commit request."""
    take_snapshot(run, txn, slot)
    if not end_read(run, txn) or not read_metadata(run, txn, slot):
        return
    if not is_unchanged(run, txn, slot):
        lose_attempt(run, txn, slot)
    elif write_all_metadata(run, txn, slot):
        begin_commit(run, txn, slot)


@jit
def _end_by_conflict(run: Any, txn: Any, slot: int, may_restart: bool) -> None:
    if restarts_after_conflict(run, txn, slot, may_restart):
        request_read(run, txn, slot, run_state.START_READ)


@inlined
def retry_attempt(run: Any, txn: Any, slot: int) -> None:
    """Start a retry on the path ``endive``: reuse valid files, and rewrite the others."""
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
    if cls.on_real_conflict == run_state.MERGE:
        if merge(run, txn, cls, txn.redo_tables, conflicting_manifests(run, txn, cls)):
            txn.append_due = 1
            make_manifests(run, txn, slot)
    else:
        _end_by_conflict(run, txn, slot, True)
