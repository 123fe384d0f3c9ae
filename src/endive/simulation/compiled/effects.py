"""Apply commits to a commit pointer, a log or a catalog service, and return the responses to the clients."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import failed_answer_ms, store_resend_wait_ms
from endive.simulation.compiled import run_state
from endive.simulation.compiled.features import HAS_FAILURES, HAS_ICEBERG, HAS_LIMITS, HAS_PROTOCOL, inlined, jit
from endive.simulation.compiled.memory import await_event, group_at, request_at
from endive.simulation.compiled.requests import (
    abort,
    check_status_again,
    request_read,
    rest_of_read,
    send_request,
    succeed,
    take_answer,
)
from endive.simulation.compiled.service import (
    COMMITS,
    GOES_ON,
    REJECTED,
    TOO_LARGE,
    UNSERIALIZABLE,
    WON,
    is_too_large,
    request_event,
)
from endive.simulation.compiled.streams import catalog_uniform
from endive.simulation.compiled.table_state import append_record, compact, install


@jit
def _answer(run: Any, txn: Any, success: bool) -> bool:
    """Wait for the response after the linearization point. Return whether the response arrives before the end of the run."""
    latency = txn.success_ms if success else failed_answer_ms(txn.effect_ms, txn.failure_ms)
    return _end_round_trip(run, txn, latency - txn.effect_ms)


@jit
def _end_round_trip(run: Any, txn: Any, rest: float) -> bool:
    """Wait for a response until ``rest`` ms after the linearization point. Return whether the run continues."""
    txn.elapsed_ms += txn.effect_ms
    txn.round_trips += 1
    if rest > 0.0:
        txn.now_ms += rest
        txn.elapsed_ms += rest
    return txn.now_ms < run.end_ms  # type: ignore[no-any-return]


@inlined
def swap_pointer(run: Any, txn: Any, slot: int) -> None:
    """Replace the commit pointer by compare-and-swap. The commit takes effect unless another commit was first."""
    group = group_at(run, txn.group)
    if HAS_LIMITS and txn.now_ms < group.writable_ms:
        _reject_write(run, txn, slot)
        return
    success = group.seq == txn.seq
    if HAS_LIMITS and success and is_too_large(run, txn, slot):
        txn.final_reason = run_state.METADATA_TOO_LARGE
        success = False
    if success:
        install(run, txn, slot)
        if HAS_LIMITS:
            group.writable_ms = txn.now_ms + run.write_interval_ms
    else:
        run.commit_conflict += 1
    effect_at = txn.now_ms
    if _answer(run, txn, success):
        take_answer(run, txn, slot, success, effect_at)


@jit
def _reject_write(run: Any, txn: Any, slot: int) -> None:
    """Reject a write of the commit pointer that follows another write too soon. The client sends the write again."""
    run.commit_throttled += 1
    if not _answer(run, txn, False):
        return
    wait = store_resend_wait_ms(txn.round_trips, catalog_uniform(txn))
    txn.now_ms += wait
    txn.elapsed_ms += wait
    if txn.now_ms < run.end_ms:
        send_request(run, txn, slot, run_state.COMMIT, run_state.FAILED_COMMIT, run_state.CAS_EFFECT)


@inlined
def log_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """Process an event of an append catalog."""
    if event == run_state.LOG_COMMIT:
        _log_commit(run, txn, slot)
    elif event == run_state.APPEND_EFFECT:
        _append_effect(run, txn, slot)
    elif event == run_state.COMPACTION_EFFECT:
        _compaction_effect(run, txn, slot)
    elif event == run_state.DISCOVERY:
        _end_discovery(run, txn, slot)


@inlined
def _log_commit(run: Any, txn: Any, slot: int) -> None:
    """Append a commit to the log of the catalog. If the log is sealed, it is compacted first."""
    group = group_at(run, txn.group)
    if group.sealed:
        txn.checkpoint_offset = group.checkpoint_offset
        send_request(run, txn, slot, run_state.COMPACTION, run_state.FAILED_COMPACTION, run_state.COMPACTION_EFFECT)
    else:
        send_request(run, txn, slot, run_state.APPEND, run_state.FAILED_APPEND, run_state.APPEND_EFFECT)


@inlined
def _compaction_effect(run: Any, txn: Any, slot: int) -> None:
    if _answer(run, txn, compact(run, txn)):
        send_request(run, txn, slot, run_state.APPEND, run_state.FAILED_APPEND, run_state.APPEND_EFFECT)


@inlined
def _append_effect(run: Any, txn: Any, slot: int) -> None:
    group = group_at(run, txn.group)
    landed = group.log_offset == txn.log_offset
    if landed:
        applied = append_record(run, txn, slot)
        txn.applied = 1 if applied else 0
    else:
        run.append_physical_failure += 1
        txn.log_offset = group.log_offset
    if not _answer(run, txn, landed):
        return
    if landed:
        request_read(run, txn, slot, run_state.DISCOVERY)
    else:
        await_event(run, txn, slot, run_state.LOG_COMMIT, 0.0)


@inlined
def _end_discovery(run: Any, txn: Any, slot: int) -> None:
    """Continue after the catalog read from which the client learns whether its record in the log was applied."""
    effect_at = txn.now_ms
    if _end_round_trip(run, txn, rest_of_read(run, txn)):
        take_answer(run, txn, slot, txn.applied == 1, effect_at)


@inlined
def service_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """Process an event of a request at a catalog service."""
    outcome = request_event(run, txn, slot, event)
    if outcome == REJECTED:
        _end_after_rejections(run, txn, slot)
    elif outcome != GOES_ON:
        _service_answer(run, txn, slot, outcome)


@jit
def _end_after_rejections(run: Any, txn: Any, slot: int) -> None:
    """End an operation after the service rejected a request too often.

    If the operation has already committed, it ends as committed. Otherwise, it aborts and does not delete its files.
    """
    then = request_at(run, slot).then
    txn.times[run_state.CATALOG_COMMIT if then == COMMITS else run_state.CATALOG_READ] += txn.elapsed_ms
    txn.event_count += 1
    if HAS_PROTOCOL and then != COMMITS and txn.phase in (run_state.AFTER_SUCCESS, run_state.CHECKPOINT):
        succeed(run, txn, slot, run.now_ms)
        return
    if HAS_FAILURES and then == run_state.STATUS_CHECK:
        check_status_again(run, txn, slot)
    elif HAS_ICEBERG and then == run_state.AFTER_COMMIT:
        succeed(run, txn, slot, run.now_ms)
    else:
        abort(run, txn, slot, run_state.UNAVAILABLE)


@jit
def _service_answer(run: Any, txn: Any, slot: int, outcome: int) -> None:
    """Send the client the response to its commit."""
    effect_at = txn.now_ms
    back = request_at(run, slot).back_ms
    if back > 0.0:
        txn.now_ms += back
        txn.elapsed_ms += back
    if txn.now_ms >= run.end_ms:
        return
    if HAS_LIMITS and outcome == TOO_LARGE:
        txn.final_reason = run_state.METADATA_TOO_LARGE
    if HAS_LIMITS and outcome == UNSERIALIZABLE:
        txn.final_reason = run_state.FAILED
    take_answer(run, txn, slot, outcome == WON, effect_at)
