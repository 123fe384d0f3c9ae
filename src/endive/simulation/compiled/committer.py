"""Run the committers of classes, as in ``endive.workload.committer``.

A committer commits the file batches that the writers of its class hand off. The file batches form a list, which starts with those
of the current commit. The kernel processes the events of a source at the same time in this order: arrivals, late starts, handoffs,
starts of commits, timers, last rounds.
"""

from __future__ import annotations

import math
from typing import Any

from endive.arithmetic.draws import derive
from endive.randomness import Purpose
from endive.simulation.compiled.arrivals import await_arrival, begin_job, misses_slot, start_late, take_slot
from endive.simulation.compiled.features import jit, word
from endive.simulation.compiled.memory import arrival, class_at, committer_at, handover_at, push, source_at, submission_at
from endive.simulation.compiled.run_state import ALL_WRITERS, NO_SLOT
from endive.simulation.compiled.streams import uniform_at, value

_RUNTIME = int(Purpose.RUNTIME)
ARRIVAL, LATE_START, HAND_OVER, BEGIN, TIMER, LAST_ROUND = range(6)
"""Kinds of events of a source, in the order in which the kernel processes events at the same time."""


@jit
def take_turn(run: Any, owner: int) -> int:
    """Process an event of a source. Return the source whose transaction starts now, or ``NO_SLOT``."""
    kind = owner // run.num_sources
    source_id = owner - kind * run.num_sources
    cls = class_at(run, source_at(run, source_id).cls)
    if cls.committer < 0:
        return take_slot(run, owner)
    committer = committer_at(run, cls.committer)
    if kind == BEGIN:
        committer.called = 0
        return source_id  # type: ignore[no-any-return]
    if kind == ARRIVAL:
        _arrive(run, source_id, cls, committer)
    elif kind == LATE_START:
        _begin_work(run, source_id, cls, committer)
    elif kind == HAND_OVER:
        _hand_over(run, source_id, cls, committer)
    else:
        if kind == TIMER:
            committer.timed = 0
        _consider(run, committer)
    return NO_SLOT


@jit
def await_last_round(run: Any, source_id: int) -> None:
    """Schedule a commit after the end of arrivals for the file batches that are still queued, if no other round commits them."""
    cls = class_at(run, source_at(run, source_id).cls)
    if cls.committer >= 0:
        committer = committer_at(run, cls.committer)
        if committer.round == ALL_WRITERS and committer.source == source_id:
            _push(run, LAST_ROUND, source_id, committer.end_ms)


@jit
def _push(run: Any, kind: int, source_id: int, delay_ms: float) -> None:
    push(run, run.now_ms + delay_ms, arrival(kind * run.num_sources + source_id))


@jit
def _arrive(run: Any, source_id: int, cls: Any, committer: Any) -> None:
    """Process an arrival of a writer, and schedule its next arrival. A busy writer misses the scheduled time."""
    source = source_at(run, source_id)
    if not cls.paced or not (source.due or misses_slot(run, source, committer.limit)):
        _begin_work(run, source_id, cls, committer)
    if not cls.waits:
        await_arrival(run, source_id)


@jit
def _begin_work(run: Any, source_id: int, cls: Any, committer: Any) -> None:
    """Start the next job of a writer."""
    source = source_at(run, source_id)
    if cls.paced:
        begin_job(source)
    run.handovers_begun += 1
    run.handovers_held += 1
    if source.client >= 0:
        _collect(run, source)
    work_ms = value(run, cls.runtime, uniform_at(derive(source.key, word(source.ordinal)), _RUNTIME, 0))
    if cls.submissions:
        given_ms = submission_at(run, cls.first_submission + source.ordinal).runtime_ms
        if given_ms >= 0.0:
            work_ms = given_ms
    source.ordinal += 1
    source.job_end_ms = run.now_ms + work_ms
    _push(run, HAND_OVER, source_id, work_ms)
    if committer.round == ALL_WRITERS:
        _open_round(run, source, committer)


@jit
def _collect(run: Any, source: Any) -> None:
    """Start to collect the data of the next file batch of a source."""
    source.job_data_ms = source.collected_ms
    source.collected_ms = run.now_ms


@jit
def _open_round(run: Any, source: Any, committer: Any) -> None:
    """Assign a job that starts now to the open committer round. If no round is open, open a round."""
    if committer.deadline_ms == math.inf:
        committer.round_number += 1
        committer.deadline_ms = run.now_ms + committer.timeout_ms
    source.round = committer.round_number
    _consider(run, committer)


@jit
def _close_round(run: Any, committer: Any) -> None:
    """Close the open committer round if every writer has handed off a file batch, or at its deadline outside a commit."""
    if committer.delivered < committer.num_writers and (committer.under_way or run.now_ms < committer.deadline_ms):
        return
    committer.deadline_ms = math.inf
    committer.delivered = 0
    committer.ready = 1 if committer.waiting > 0 else 0
    for writer in range(committer.source - committer.num_writers, committer.source):
        if source_at(run, writer).delivered:
            source_at(run, writer).delivered = 0
            start_late(run, writer, committer.limit)


@jit
def _hand_over(run: Any, source_id: int, cls: Any, committer: Any) -> None:
    """Add a file batch of a writer to the queue of the committer."""
    source = source_at(run, source_id)
    run.handovers_made += 1
    source.running = 0
    source.uncommitted += 1
    place = run.handover_free
    handover = handover_at(run, place)
    run.handover_free = handover.next
    handover.time_ms = run.now_ms
    handover.source = source_id
    if source.client < 0:
        _collect(run, source)
    handover.data_start_ms = source.job_data_ms
    handover.next = NO_SLOT
    if committer.head == NO_SLOT:
        committer.head = place
    else:
        handover_at(run, committer.tail).next = place
    committer.tail = place
    committer.waiting += 1
    if committer.deadline_ms < math.inf and source.round == committer.round_number:
        source.delivered = 1
        committer.delivered += 1
    if cls.waits:
        if source.uncommitted < committer.limit:
            await_arrival(run, source_id)
        else:
            source.blocked = 1
    elif cls.paced:
        start_late(run, source_id, committer.limit)
    _consider(run, committer)


@jit
def _consider(run: Any, committer: Any) -> None:
    """Close the committer round if every writer has handed off a file batch, then start a commit or set the timer.

    If a commit is in progress, the function does nothing.
    """
    if committer.round == ALL_WRITERS:
        _close_round(run, committer)
    if committer.under_way:
        return
    if committer.round == ALL_WRITERS:
        delay = _round_delay_ms(run, committer)
        if delay == math.inf:
            return
    else:
        if committer.waiting == 0:
            return
        delay = committer.next_ms - run.now_ms
        if 0 < committer.max_batch <= committer.waiting or delay < 0.0:
            delay = 0.0
    if delay > 0.0:
        if not committer.timed:
            committer.timed = 1
            _push(run, TIMER, committer.source, delay)
    elif not committer.called:
        committer.called = 1
        _push(run, BEGIN, committer.source, 0.0)


@jit
def _round_delay_ms(run: Any, committer: Any) -> float:
    """Return the time until the next commit can start or the open round ends, in ms.

    The time is infinite if it depends on other events.
    """
    is_last = committer.deadline_ms == math.inf and run.now_ms >= committer.end_ms
    if committer.waiting > 0 and (committer.ready or is_last):
        return 0.0
    return committer.deadline_ms - run.now_ms  # type: ignore[no-any-return]


@jit
def begin_batch(run: Any, txn: Any, cls: Any) -> None:
    """Move at most ``max_batch`` queued file batches into a commit that starts now. Its transaction has no job."""
    committer = committer_at(run, cls.committer)
    batch = committer.waiting
    if 0 < committer.max_batch < batch:
        batch = committer.max_batch
    committer.under_way = batch
    committer.waiting -= batch
    committer.next_ms = run.now_ms + committer.interval_ms
    committer.ready = 0
    waited = 0.0
    data_start_ms = math.inf
    place = committer.head
    for _ in range(batch):
        handover = handover_at(run, place)
        waited += run.now_ms - handover.time_ms
        data_start_ms = min(data_start_ms, handover.data_start_ms)
        place = handover.next
    txn.runtime_ms = 0.0
    txn.batch_size = batch
    txn.batch_wait_ms = waited
    txn.data_start_ms = data_start_ms
    txn.batch_longest_wait_ms = run.now_ms - handover_at(run, committer.head).time_ms


@jit
def end_batch(run: Any, txn: Any) -> None:
    """End the commit of a committer. Its file batches are committed, aborted, or queued again."""
    cls = class_at(run, txn.cls)
    committer = committer_at(run, cls.committer)
    batch, committer.under_way = committer.under_way, 0
    installed = txn.installs > 0
    if installed or run.now_ms >= run.duration_ms:
        if installed:
            run.handovers_committed += batch
        else:
            run.handovers_given_up += batch
        run.handovers_held -= batch
        for _ in range(batch):
            place = committer.head
            handover = handover_at(run, place)
            committer.head = handover.next
            handover.next = run.handover_free
            run.handover_free = place
            _release(run, handover.source, cls, committer)
    else:
        committer.waiting += batch
    _consider(run, committer)


@jit
def _release(run: Any, source_id: int, cls: Any, committer: Any) -> None:
    """Resume a writer that was blocked until one of its file batches was committed."""
    source = source_at(run, source_id)
    source.uncommitted -= 1
    if source.blocked:
        source.blocked = 0
        await_arrival(run, source_id)
    elif cls.paced:
        start_late(run, source_id, committer.limit)
