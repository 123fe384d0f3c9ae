"""Run a transaction that follows a declarative protocol, as in ``endive.transaction.protocol_path``.

This module runs the phases of the protocol and the requests that access shared state.
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import moment_of_effect_ms
from endive.simulation.compiled import run_state
from endive.simulation.compiled.client_steps import fails_for_good, step
from endive.simulation.compiled.features import HAS_FAILURES, inlined, jit
from endive.simulation.compiled.iceberg import is_real_conflict, take_handles
from endive.simulation.compiled.memory import await_event, class_at, group_at, history_at, step_at, table_at, touched_at, traits_at
from endive.simulation.compiled.protocol_steps import (
    CUT,
    DISCOVERS,
    LOSES,
    PUBLISHES,
    REQUESTS,
    component_of,
    count_requests,
    enter_phase,
    latency_of,
    loses_at,
    run_steps,
)
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
from endive.simulation.compiled.streams import resends_ms
from endive.simulation.compiled.table_state import overlaps, take_snapshot

_NONE, _CONFLICT, _NOT_REBASED = range(3)
"""Results of the check for conflicts with intervening commits."""


@inlined
def begin_load(run: Any, txn: Any, slot: int) -> None:
    """Start the load phase of a transaction."""
    txn.attempt = 0
    txn.lost_files = 0
    enter_phase(run, txn, run_state.LOAD)
    _proceed(run, txn, slot)


@inlined
def protocol_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """Process an event of a transaction, and continue the transaction to its next event."""
    if event == run_state.PROTOCOL_STEP:
        _proceed(run, txn, slot)
    elif event == run_state.PROTOCOL_OBSERVED:
        if _end_observation(run, txn, slot):
            _finish_step(run, txn, slot)
    elif event == run_state.PROTOCOL_READ:
        _learn_version(run, txn, slot)
        if end_read(run, txn):
            txn.catalog_requests += 1
            _finish_step(run, txn, slot)
    elif event == run_state.PROTOCOL_REQUEST:
        _end_request(run, txn, slot)
    elif event == run_state.PROTOCOL_PUBLISH:
        version = txn.seq + 1 if txn.phase == run_state.AFTER_SUCCESS else txn.seq
        group = group_at(run, txn.group)
        group.published = max(group.published, version)
        _finish_step(run, txn, slot)


@inlined
def _end_request(run: Any, txn: Any, slot: int) -> None:
    if not end_read(run, txn):
        return
    txn.catalog_requests += 1
    txn.requests_left -= 1
    if txn.requests_left > 0:
        request_read(run, txn, slot, run_state.PROTOCOL_REQUEST)
    elif step_at(run, txn.place).publishes:
        await_event(run, txn, slot, run_state.PROTOCOL_PUBLISH, 0.0)
    else:
        _finish_step(run, txn, slot)


@jit
def _finish_step(run: Any, txn: Any, slot: int) -> None:
    """Continue after a step that ended with an event."""
    lost = loses_at(txn, step_at(run, txn.place))
    txn.place += 1
    if lost:
        lose_attempt(run, txn, slot)
    else:
        _proceed(run, txn, slot)


@jit
def _learn_version(run: Any, txn: Any, slot: int) -> None:
    """Set the table version that the client knows to the current version."""
    take_snapshot(run, txn, slot)
    if txn.phase_seq < 0:
        txn.phase_seq = txn.seq
    if txn.phase == run_state.LOAD:
        take_handles(run, txn, slot)
        txn.conflicting = 0
        txn.conflict_is_certain = 0
    else:
        for t in range(txn.written):
            txn.conflicting += _conflicts_since(run, txn, slot, t)
    txn.known_files = 0
    for t in range(txn.read):
        txn.known_files += table_at(run, touched_at(run, slot, t).table).data


@jit
def _send_discovery(run: Any, txn: Any, slot: int) -> None:
    """Send the request from whose response the client learns the current table version."""
    asked = step_at(run, txn.place)
    if asked.in_catalog:
        request_read(run, txn, slot, run_state.PROTOCOL_READ)
        return
    cls = class_at(run, txn.cls)
    latency = latency_of(run, txn, asked, 1)
    if HAS_FAILURES:
        latency += resends_ms(txn, cls.request_error, 1, latency)
        if fails_for_good(run, txn, component_of(txn.phase), 1, latency):
            return
    txn.success_ms = latency
    txn.effect_ms = moment_of_effect_ms(latency, cls.linearization)
    await_event(run, txn, slot, run_state.PROTOCOL_OBSERVED, txn.effect_ms)


@jit
def _end_observation(run: Any, txn: Any, slot: int) -> bool:
    """Process the response from which the client learns the table version. Return whether the client continues."""
    _learn_version(run, txn, slot)
    if not end_response(run, txn, component_of(txn.phase), txn.success_ms - txn.effect_ms):
        return False
    count_requests(txn, step_at(run, txn.place), 1)
    return True


@jit
def _proceed(run: Any, txn: Any, slot: int) -> None:
    """Run the phases of the transaction until its next event."""
    going = True
    while going:
        outcome = run_steps(run, txn)
        going = False
        if outcome == DISCOVERS:
            _send_discovery(run, txn, slot)
        elif outcome == REQUESTS:
            request_read(run, txn, slot, run_state.PROTOCOL_REQUEST)
        elif outcome == PUBLISHES:
            await_event(run, txn, slot, run_state.PROTOCOL_PUBLISH, 0.0)
        elif outcome == LOSES:
            lose_attempt(run, txn, slot)
        elif outcome != CUT:
            going = _end_phase(run, txn, slot)


@jit
def _end_phase(run: Any, txn: Any, slot: int) -> bool:
    """Continue after the end of a phase. Return whether the next phase starts immediately."""
    phase = txn.phase
    if phase == run_state.LOAD:
        return _begin_attempts(run, txn, slot)
    if phase == run_state.ATTEMPT or phase == run_state.AFTER_LOSS:
        found = _examine_commits(run, txn)
        if found != _NONE:
            if restarts_after_conflict(run, txn, slot, found == _CONFLICT):
                txn.attempt = 0
                txn.lost_files = 0
                enter_phase(run, txn, run_state.LOAD)
                await_event(run, txn, slot, run_state.PROTOCOL_STEP, 0.0)
            return False
        if phase == run_state.ATTEMPT:
            begin_commit(run, txn, slot)
            return False
        enter_phase(run, txn, run_state.ATTEMPT)
        return True
    cls = class_at(run, txn.cls)
    every = cls.checkpoint_every
    if phase == run_state.AFTER_SUCCESS and every > 0 and cls.checkpoint_by_writer and (txn.seq + 1) % every == 0:
        enter_phase(run, txn, run_state.CHECKPOINT)
        return True
    succeed(run, txn, slot, run.now_ms)
    return False


@inlined
def _begin_attempts(run: Any, txn: Any, slot: int) -> bool:
    """Run the job, and start the first attempt."""
    if not step(run, txn, run_state.RUNTIME, txn.runtime_ms):
        return False
    if not start_committing(run, txn, slot):
        return False
    txn.start_seq = txn.seq
    enter_phase(run, txn, run_state.ATTEMPT)
    return True


@jit
def _conflicts_since(run: Any, txn: Any, slot: int, t: int) -> int:
    """Return the number of new commits to a table that can cause the operation to fail, and mark these commits as checked.

    If a commit certainly causes the operation to fail, the function sets ``txn.conflict_is_certain``.
    """
    mine = touched_at(run, slot, t)
    table = table_at(run, mine.table)
    traits = traits_at(run, txn.cls, txn.operation)
    conflicting = 0
    index = table.head
    for _ in range(table.length - mine.seen):
        place = index - run.history_first
        record = history_at(run, place)
        if record.kind & traits.table_conflicts:
            conflicting += 1
            txn.conflict_is_certain = 1
        elif record.kind & traits.conflicts and overlaps(run, txn, slot, t, record, place):
            conflicting += 1
            if record.kind & traits.partition_conflicts:
                txn.conflict_is_certain = 1
        index = record.parent
    mine.seen = table.length
    return conflicting


@jit
def _examine_commits(run: Any, txn: Any) -> int:
    """Check for conflicts with the commits that the client has learned about since the last check."""
    cls = class_at(run, txn.cls)
    if not cls.rebases and txn.seq != txn.start_seq:
        return _NOT_REBASED
    conflicting, is_certain = txn.conflicting, txn.conflict_is_certain
    txn.conflicting = 0
    txn.conflict_is_certain = 0
    if conflicting == 0:
        return _NONE
    if is_certain:
        txn.real_conflicts += 1
        return _CONFLICT
    return _CONFLICT if is_real_conflict(run, txn) else _NONE
