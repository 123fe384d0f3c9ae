"""Run the main loop of the compiled engine: process the next event, and continue its transaction to its next event.

The steps and their order are those of ``endive.transaction.lifecycle``. They are divided at accesses to shared state. ``advance``
runs until an array is full or the run ends. All state is in the arrays, so the next call of ``advance`` continues the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import from_dtype, types

from endive.simulation.compiled import run_state
from endive.simulation.compiled.arrivals import await_arrival, submit, take_slot
from endive.simulation.compiled.attempts import (
    check_unchanged,
    end_iceberg_commit,
    list_event,
    prepare_attempt,
    retry_attempt,
    start_from_handle,
    start_work,
)
from endive.simulation.compiled.committer import await_last_round, begin_batch, take_turn
from endive.simulation.compiled.effects import log_event, service_event, swap_pointer
from endive.simulation.compiled.features import (
    HAS_CAS,
    HAS_CLIENTS,
    HAS_COMMITTERS,
    HAS_ENDIVE,
    HAS_FAILURES,
    HAS_FILES,
    HAS_ICEBERG,
    HAS_LIST_APPENDS,
    HAS_LOG,
    HAS_PROTOCOL,
    HAS_PYICEBERG,
    HAS_SERVICE,
    inlined,
    jit,
)
from endive.simulation.compiled.memory import arrival, class_at, close_hole, event_at, request_at, source_at, take_first, txn_at
from endive.simulation.compiled.protocol_path import begin_load, protocol_event
from endive.simulation.compiled.requests import (
    check_status_again,
    end_by_failure,
    finish,
    learn_status,
    request_read,
    start_next_commit,
)
from endive.simulation.compiled.service import end_load
from endive.simulation.compiled.table_state import take_kept_snapshot


@jit
def advance(run: Any, max_events: int) -> int:
    """Process at most ``max_events`` events, until an array is full or the run ends. Return the reason for stopping."""
    for _ in range(max_events):
        if run.rows_used >= run.row_capacity:
            return run_state.ROWS_FULL
        if run.free_head < 0:
            return run_state.SLOTS_FULL
        if HAS_FILES and run.history_end - run.history_first + 2 * (run.max_tables + run.in_batches) > run.history_capacity:
            return run_state.HISTORY_FULL
        if HAS_FILES and run.tracks_ages and run.ages_held + 2 * (run.max_tables + run.in_batches) > run.age_capacity:
            return run_state.AGES_FULL
        if HAS_COMMITTERS and run.handovers_held >= run.handover_capacity:
            return run_state.HANDOVERS_FULL
        if run.heap_size == 0:
            return run_state.FINISHED
        event = event_at(run, 0)
        now, slot = event.time_ms, event.owner
        if now >= run.end_ms:
            return run_state.FINISHED
        take_first(run)
        run.now_ms = now
        if slot < 0:
            _arrive(run, arrival(slot))
        else:
            txn = txn_at(run, slot)
            txn.now_ms = now
            _take_effect(run, txn, slot)
        close_hole(run)
    return run_state.PAUSED


@jit
def begin(run: Any) -> None:
    """Schedule the first arrival of each source."""
    for source_id in range(run.num_sources):
        await_arrival(run, source_id)
        if HAS_COMMITTERS:
            await_last_round(run, source_id)


@inlined
def _starting_source(run: Any, owner: int) -> int:
    """Return the source whose transaction starts at an event of a source, or ``NO_SLOT``."""
    if HAS_COMMITTERS:
        return take_turn(run, owner)
    return take_slot(run, owner)


@inlined
def _arrive(run: Any, owner: int) -> None:
    source_id = _starting_source(run, owner)
    if source_id == run_state.NO_SLOT:
        return
    source = source_at(run, source_id)
    cls = class_at(run, source.cls)
    slot = run.free_head
    txn = txn_at(run, slot)
    run.free_head = txn.next_free
    txn.txn_id = run.next_id
    run.next_id += 1
    txn.cls = source.cls
    txn.source = source_id
    txn.submit_ms = run.now_ms
    txn.now_ms = run.now_ms
    txn.history_start = run.history_end
    submit(run, txn, slot, source, cls)
    if HAS_COMMITTERS and cls.committer >= 0:
        begin_batch(run, txn, cls)
    elif not cls.waits and owner < run.num_sources:
        await_arrival(run, source_id)
    starts = False
    if HAS_SERVICE and HAS_CLIENTS and cls.starts_from_handle:
        starts = take_kept_snapshot(run, txn, slot)
    if HAS_PROTOCOL:
        begin_load(run, txn, slot)
        if HAS_FAILURES and txn.failed:
            end_by_failure(run, txn, slot, run_state.START_READ)
    elif starts:
        start_from_handle(run, txn, slot)
        if HAS_FAILURES and txn.failed:
            end_by_failure(run, txn, slot, run_state.START_READ)
    else:
        request_read(run, txn, slot, run_state.START_READ)


@inlined
def _take_effect(run: Any, txn: Any, slot: int) -> None:
    """Process an event of a transaction, and continue the transaction to its next event."""
    event = txn.event
    if HAS_SERVICE and request_at(run, slot).serving:
        end_load(run, txn, slot)
    if HAS_PROTOCOL and event >= run_state.PROTOCOL_STEP:
        protocol_event(run, txn, slot, event)
    elif event == run_state.START_READ:
        start_work(run, txn, slot)
    elif event == run_state.DONE:
        finish(run, txn, slot)
    elif HAS_CAS and event == run_state.CAS_EFFECT:
        swap_pointer(run, txn, slot)
    elif HAS_ENDIVE and event == run_state.RETRY_READ:
        retry_attempt(run, txn, slot)
    elif HAS_FILES and event == run_state.REFRESH:
        prepare_attempt(run, txn, slot)
    elif HAS_ICEBERG and event == run_state.AFTER_COMMIT:
        end_iceberg_commit(run, txn, slot)
    elif HAS_ICEBERG and event == run_state.NEXT_COMMIT:
        start_next_commit(run, txn, slot)
    elif HAS_PYICEBERG and event == run_state.CHECK:
        check_unchanged(run, txn, slot)
    elif HAS_FAILURES and event == run_state.STATUS_CHECK:
        learn_status(run, txn, slot)
    elif HAS_FAILURES and event == run_state.CHECK_FAILED:
        check_status_again(run, txn, slot)
    else:
        if HAS_LOG:
            log_event(run, txn, slot, event)
        if HAS_SERVICE:
            service_event(run, txn, slot, event)
        if HAS_LIST_APPENDS:
            list_event(run, txn, slot, event)
    if HAS_FAILURES and txn.failed:
        end_by_failure(run, txn, slot, event)


_RUN = from_dtype(run_state.RUN)
ENTRIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "begin": (begin, (_RUN,)),
    "advance": (advance, (_RUN, types.int64)),
}
"""Entry points of the kernel, with the Numba types of their arguments."""
