"""Process requests at a catalog service, as in ``endive.catalog.service`` and ``endive.catalog.service_queue``.

Each slot has a record for the request of its transaction. A request that waits for a worker, a lock or a batch has no event. A
request that releases the resource schedules an event of the waiting request at the same time. ``request_event`` returns the outcome
of an event, and the kernel continues the transaction.
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import BYTES_PER_MIB, any_error_probability
from endive.arithmetic.manifests import metadata_size
from endive.simulation.compiled import run_state
from endive.simulation.compiled.client_steps import sized_latency
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_FAILURES, HAS_FILES, HAS_LIMITS, HAS_PROTOCOL, inlined, jit
from endive.simulation.compiled.iceberg import first_parameter
from endive.simulation.compiled.memory import (
    await_event,
    class_at,
    group_at,
    push,
    request_at,
    table_at,
    touched_at,
    traits_at,
    txn_at,
)
from endive.simulation.compiled.streams import catalog_uniform, value
from endive.simulation.compiled.table_state import install, keep_handles
from endive.table import APPEND, NO_SNAPSHOT

GOES_ON, REJECTED, WON, LOST, TOO_LARGE, RECOGNISED, UNSERIALIZABLE = range(7)
"""Outcomes of an event of a request.

In order: not decided; rejected too often; commit installed; lost the race; metadata too large; recognized by its idempotency key;
serialization failure of the database.
"""
COMMITS = -1
"""Value of the field ``then`` that marks a request as a commit. For a load, the field contains the event that follows the load."""


@jit
def send(run: Any, txn: Any, slot: int, then: int) -> None:
    """Send a load or a commit to the service.

    ``then`` is the event that follows the load, or ``COMMITS``.
    """
    request = request_at(run, slot)
    request.then = then
    request.serving = 0
    txn.elapsed_ms = 0.0
    txn.round_trips = 0
    _transmit(run, txn, slot)


@inlined
def request_event(run: Any, txn: Any, slot: int, event: int) -> int:
    """Process an event of a request, and return its outcome."""
    outcome = GOES_ON
    if event == run_state.SERVICE_ARRIVAL:
        outcome = _arrive(run, txn, slot)
    elif event == run_state.SERVICE_END:
        outcome = _end_commit(run, txn, slot)
    elif event == run_state.SERVICE_RELOADED:
        outcome = _repeat_commit(run, txn, slot)
    elif event == run_state.SERVICE_BEGIN:
        _get_worker(run, txn, slot)
    elif event == run_state.SERVICE_LOCKED:
        _get_locks(run, txn, slot)
    elif event == run_state.BATCH_LEAD:
        _lead_next_batch(run, txn, slot)
    elif event == run_state.BATCH_READY:
        _enter(run, txn, slot)
    elif event == run_state.BATCH_END:
        outcome = _end_batch(run, txn, slot)
    elif event == run_state.BATCH_ANSWER:
        outcome = _answer_member(run, txn, slot)
    return outcome


@jit
def _transmit(run: Any, txn: Any, slot: int) -> None:
    request = request_at(run, slot)
    there = value(run, run.service[run_state.SERVICE_NETWORK], catalog_uniform(txn))
    request.u = catalog_uniform(txn)
    request.back_ms = value(run, run.service[run_state.SERVICE_NETWORK], catalog_uniform(txn))
    txn.elapsed_ms += there
    txn.round_trips += 1
    await_event(run, txn, slot, run_state.SERVICE_ARRIVAL, there)


@jit
def _arrive(run: Any, txn: Any, slot: int) -> int:
    """Process the arrival of a request at the service.

    The request gets a worker, waits in the queue, or is rejected and sent again.
    """
    request = request_at(run, slot)
    joins_batch = run.coalesces and request.then == COMMITS
    if HAS_FAILURES and txn.known_by_key:
        joins_batch = False
    if _refuses(run, joins_batch):
        txn.now_ms += request.back_ms
        txn.elapsed_ms += request.back_ms
        if txn.now_ms >= run.end_ms:
            return GOES_ON
        if txn.round_trips > run.max_resends:
            return REJECTED
        txn.now_ms += run.retry_after_ms
        txn.elapsed_ms += run.retry_after_ms
        if txn.now_ms < run.end_ms:
            _transmit(run, txn, slot)
    elif joins_batch:
        _join_batch(run, txn, slot)
    else:
        request.leads = 0
        _enter(run, txn, slot)
    return GOES_ON


@jit
def _is_full(run: Any) -> bool:
    return 0 < run.workers <= run.busy_workers  # type: ignore[no-any-return]


@jit
def _refuses(run: Any, joins_batch: bool) -> bool:
    if run.queue_limit < 0 or run.waiting < run.queue_limit:
        return False
    if joins_batch or _is_full(run):
        run.service_refused += 1
        return True
    return False


@jit
def _enter(run: Any, txn: Any, slot: int) -> None:
    """Acquire a worker for a request, or add the request to the queue."""
    run.service_requests += 1
    if not _is_full(run):
        run.busy_workers += 1
        _begin(run, txn, slot)
        return
    request = request_at(run, slot)
    request.queued_ms = txn.now_ms
    request.next = run_state.NO_SLOT
    if run.queue_head == run_state.NO_SLOT:
        run.queue_head = slot
    else:
        request_at(run, run.queue_tail).next = slot
    run.queue_tail = slot
    run.queue_length += 1
    if run.queue_length > run.service_longest_queue:
        run.service_longest_queue = run.queue_length
    if not request.leads:
        run.waiting += 1


@jit
def _get_worker(run: Any, txn: Any, slot: int) -> None:
    """Start the service of a request that waited for a worker."""
    request = request_at(run, slot)
    if not request.leads:
        run.waiting -= 1
    run.service_waited_ms += txn.now_ms - request.queued_ms
    txn.elapsed_ms += txn.now_ms - request.queued_ms
    _begin(run, txn, slot)


@jit
def _leave(run: Any, request: Any, now_ms: float) -> None:
    """Pass the worker on to the request that has waited longest, or mark it as free if no request waits."""
    run.service_busy_ms += now_ms - request.began_ms
    first = run.queue_head
    if first == run_state.NO_SLOT:
        run.busy_workers -= 1
        return
    run.queue_head = request_at(run, first).next
    run.queue_length -= 1
    _wake(run, first, run_state.SERVICE_BEGIN, now_ms)


@jit
def _wake(run: Any, slot: int, event: int, now_ms: float) -> None:
    txn = txn_at(run, slot)
    txn.event = event
    push(run, now_ms, slot)


@jit
def _begin(run: Any, txn: Any, slot: int) -> None:
    """Start the service of a request."""
    request = request_at(run, slot)
    request.began_ms = txn.now_ms
    if request.then != COMMITS:
        request.serving = 1
        service = value(run, run.service[run_state.SERVICE_LOAD], request.u)
        txn.elapsed_ms += service
        await_event(run, txn, slot, request.then, service)
    elif HAS_FAILURES and txn.known_by_key:
        request.outcome = RECOGNISED
        service = value(run, run.service[run_state.SERVICE_CHECK], request.u)
        txn.elapsed_ms += service
        await_event(run, txn, slot, run_state.SERVICE_END, service)
    elif run.coalesces:
        _begin_batch(run, txn, slot)
    elif not run.locks_tables or _lock(run, txn, slot):
        _check(run, txn, slot)


@jit
def end_load(run: Any, txn: Any, slot: int) -> None:
    """End the service of a load. The latency of the response grows with the size of the table metadata."""
    request = request_at(run, slot)
    request.serving = 0
    if HAS_CLIENTS and class_at(run, txn.cls).starts_from_handle:
        keep_handles(run, txn, slot, txn.read)
    _leave(run, request, txn.now_ms)
    back = request.back_ms
    if run.writes_metadata:
        loaded = 0
        for t in range(txn.read):
            loaded += _metadata_bytes(run, touched_at(run, slot, t).table, 0)
        back += run.transfer_ms_per_mib * loaded / BYTES_PER_MIB
    txn.success_ms = back
    txn.effect_ms = txn.elapsed_ms


@jit
def _metadata_bytes(run: Any, table_id: int, more_snapshots: int) -> int:
    if HAS_FILES:
        return metadata_size(run, table_at(run, table_id).snapshots + more_snapshots)
    return run.fixed_metadata_bytes  # type: ignore[no-any-return]


# -- commits ---------------------------------------------------------------------------------------------------------------------


@jit
def _moves_ref(run: Any, txn: Any) -> bool:
    """Return whether a commit moves the main branches of its tables. Only a commit that expires snapshots does not move them."""
    return traits_at(run, txn.cls, txn.operation).kind != NO_SNAPSHOT  # type: ignore[no-any-return]


@jit
def _is_rebasable(run: Any, txn: Any) -> bool:
    second = traits_at(run, txn.cls, run_state.NUM_OPERATIONS + txn.operation)
    return traits_at(run, txn.cls, txn.operation).kind == APPEND and second.kind == run_state.UNUSED  # type: ignore[no-any-return]


@jit
def _has_moved(run: Any, txn: Any, slot: int) -> bool:
    """Return whether the state on which the commit is based has changed."""
    if not run.own_pointers:
        return group_at(run, txn.group).seq != txn.seq  # type: ignore[no-any-return]
    if _moves_ref(run, txn):
        for t in range(txn.written):
            mine = touched_at(run, slot, t)
            if table_at(run, mine.table).ref != mine.ref:
                return True
    return False


@jit
def _note_swapped(run: Any, txn: Any, slot: int) -> None:
    """Record the table versions that Iceberg's server compares in its compare-and-swap."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.swapped = table_at(run, mine.table).version


@jit
def _has_swapped(run: Any, txn: Any, slot: int) -> bool:
    """Return whether another commit intervened since the server checked the requirements.

    In the mode ``recheck``, the server compares the metadata files of the tables. Otherwise it compares the requirements.
    """
    if not (run.rechecks and run.server_retries > 0 and run.own_pointers):
        return _has_moved(run, txn, slot)
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        if table_at(run, mine.table).version != mine.swapped:
            return True
    return False


@jit
def _rebase(run: Any, txn: Any, slot: int) -> None:
    """Rebase a commit on the current state.

    The client does not learn about the rebase, so it can resend the commit.
    """
    if HAS_FAILURES:
        txn.rebased = 1
    txn.seq = group_at(run, txn.group).seq
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.ref = table_at(run, mine.table).ref


@jit
def is_too_large(run: Any, txn: Any, slot: int) -> bool:
    """Return whether the new table metadata would exceed the limit of the catalog.

    Expiring snapshots never exceeds the limit.
    """
    if HAS_LIMITS and HAS_FILES:
        if run.metadata_limit < 0 or not _moves_ref(run, txn):
            return False
        for t in range(txn.written):
            if _metadata_bytes(run, touched_at(run, slot, t).table, 1) > run.metadata_limit:
                if run.metadata_limit_reached_ms == 0.0:
                    run.metadata_limit_reached_ms = txn.now_ms
                return True
    return False


@jit
def _write_ms(run: Any, txn: Any, table_id: int, more_snapshots: int) -> float:
    """Return the time that the service takes to write the metadata of a table, in ms."""
    size = _metadata_bytes(run, table_id, more_snapshots)
    first = first_parameter(run.metadata_sized, run.metadata_write, size)
    return sized_latency(run, run.metadata_write, first, catalog_uniform(txn))


@jit
def _commit_ms(run: Any, txn: Any, slot: int, u: float) -> float:
    """Return the service time of a commit, in ms."""
    written = 0.0
    if run.writes_metadata:
        for t in range(txn.written):
            written += _write_ms(run, txn, touched_at(run, slot, t).table, 1)
    return value(run, run.service[run_state.SERVICE_COMMIT], u) + written


@jit
def _has_too_many_unpublished(run: Any, txn: Any) -> bool:
    """Return whether the catalog rejects a commit because too many earlier commits are not published. Count the rejection."""
    group = group_at(run, txn.group)
    if run.unpublished_limit == 0 or group.seq - group.published < run.unpublished_limit:
        return False
    run.commit_throttled += 1
    return True


@jit
def _check(run: Any, txn: Any, slot: int) -> None:
    """Check the requirements of a commit, and start its service."""
    request = request_at(run, slot)
    request.retries = run.server_retries if run.rechecks or _is_rebasable(run, txn) else 0
    request.outcome = WON
    _count_committing(run, txn, slot, 1)
    _note_swapped(run, txn, slot)
    moved = _has_moved(run, txn, slot)
    if HAS_FAILURES and txn.rebased:
        moved = True
    if moved:
        request.outcome = LOST
    elif is_too_large(run, txn, slot):
        request.outcome = TOO_LARGE
    elif HAS_PROTOCOL and _has_too_many_unpublished(run, txn):
        request.outcome = LOST
    if request.outcome == TOO_LARGE or (moved and run.rechecks):
        request.retries = 0
    service = 0.0
    if request.outcome == WON:
        service += _commit_ms(run, txn, slot, request.u)
    else:
        service += value(run, run.service[run_state.SERVICE_CHECK], request.u)
    txn.elapsed_ms += service
    await_event(run, txn, slot, run_state.SERVICE_END, service)


@jit
def _end_commit(run: Any, txn: Any, slot: int) -> int:
    """End the service of a commit.

    The commit takes effect, is repeated after a reload, or has lost the race.
    """
    request = request_at(run, slot)
    if HAS_FAILURES and request.outcome == RECOGNISED:
        _leave(run, request, txn.now_ms)
        return WON
    if request.outcome == WON and _has_swapped(run, txn, slot):
        request.outcome = LOST
    if request.outcome == LOST and request.retries > 0:
        request.retries -= 1
        run.service_retries += 1
        reload = run.server_backoff_ms + value(run, run.service[run_state.SERVICE_LOAD], catalog_uniform(txn))
        txn.elapsed_ms += reload
        await_event(run, txn, slot, run_state.SERVICE_RELOADED, reload)
        return GOES_ON
    return _conclude(run, txn, slot)


@jit
def _repeat_commit(run: Any, txn: Any, slot: int) -> int:
    """Repeat a commit after a reload, unless its requirements fail."""
    request = request_at(run, slot)
    if run.rechecks and _has_moved(run, txn, slot):
        return _conclude(run, txn, slot)
    if not run.rechecks:
        _rebase(run, txn, slot)
    _note_swapped(run, txn, slot)
    request.outcome = WON
    service = _commit_ms(run, txn, slot, catalog_uniform(txn))
    txn.elapsed_ms += service
    await_event(run, txn, slot, run_state.SERVICE_END, service)
    return GOES_ON


@jit
def _conclude(run: Any, txn: Any, slot: int) -> int:
    """Install or reject a commit that is not in a batch, and release its locks and its worker."""
    request = request_at(run, slot)
    _count_committing(run, txn, slot, -1)
    if HAS_LIMITS and request.outcome == WON and _database_fails(run, txn, slot):
        request.outcome = UNSERIALIZABLE
    _decide(run, txn, slot, request.outcome)
    if run.locks_tables:
        _unlock(run, txn, slot)
    _leave(run, request, txn.now_ms)
    return request.outcome  # type: ignore[no-any-return]


@jit
def _count_committing(run: Any, txn: Any, slot: int, change: int) -> None:
    """Change the number of commits in service, for each written table and in total."""
    for t in range(txn.written):
        table_at(run, touched_at(run, slot, t).table).committing += change
        run.committing += change


@jit
def _database_fails(run: Any, txn: Any, slot: int) -> bool:
    """Return whether commits in service to other tables cause a serialization failure of the database."""
    others = run.committing
    for t in range(txn.written):
        others -= table_at(run, touched_at(run, slot, t).table).committing
    if run.database_conflict == 0.0 or others == 0:
        return False
    return catalog_uniform(txn) < any_error_probability(run.database_conflict, others)


@jit
def _decide(run: Any, txn: Any, slot: int, outcome: int) -> None:
    """Install a commit that was accepted, or count a conflict."""
    if HAS_LIMITS and outcome == UNSERIALIZABLE:
        run.service_database_conflicts += 1
        return
    if outcome == WON:
        install(run, txn, slot)
        if _moves_ref(run, txn):
            for t in range(txn.written):
                table_at(run, touched_at(run, slot, t).table).ref += 1
        if HAS_CLIENTS and class_at(run, txn.cls).starts_from_handle:
            keep_handles(run, txn, slot, txn.written)
    else:
        run.commit_conflict += 1


# -- locks -----------------------------------------------------------------------------------------------------------------------


@jit
def _are_free(run: Any, txn: Any, slot: int) -> bool:
    held = 0
    for t in range(txn.written):
        held += table_at(run, touched_at(run, slot, t).table).locked
    return held == 0


@jit
def _set_locks(run: Any, txn: Any, slot: int, held: int) -> None:
    for t in range(txn.written):
        table_at(run, touched_at(run, slot, t).table).locked = held


@jit
def _lock(run: Any, txn: Any, slot: int) -> bool:
    """Lock the tables of a commit. Return False if the commit must wait for the locks."""
    if _are_free(run, txn, slot):
        _set_locks(run, txn, slot, 1)
        return True
    request = request_at(run, slot)
    request.queued_ms = txn.now_ms
    request.next = run_state.NO_SLOT
    if run.lock_head == run_state.NO_SLOT:
        run.lock_head = slot
    else:
        request_at(run, run.lock_tail).next = slot
    run.lock_tail = slot
    return False


@jit
def _get_locks(run: Any, txn: Any, slot: int) -> None:
    """Continue a commit that waited for the locks of its tables."""
    txn.elapsed_ms += txn.now_ms - request_at(run, slot).queued_ms
    _check(run, txn, slot)


@jit
def _unlock(run: Any, txn: Any, slot: int) -> None:
    """Release the locks, and pass them on to waiting commits in order of arrival."""
    _set_locks(run, txn, slot, 0)
    before, waiting = run_state.NO_SLOT, run.lock_head
    while waiting != run_state.NO_SLOT:
        after = request_at(run, waiting).next
        other = txn_at(run, waiting)
        if _are_free(run, other, waiting):
            _set_locks(run, other, waiting, 1)
            if before == run_state.NO_SLOT:
                run.lock_head = after
            else:
                request_at(run, before).next = after
            if after == run_state.NO_SLOT:
                run.lock_tail = before
            _wake(run, waiting, run_state.SERVICE_LOCKED, txn.now_ms)
        else:
            before = waiting
        waiting = after


# -- group commit ----------------------------------------------------------------------------------------------------------------


@jit
def _join_batch(run: Any, txn: Any, slot: int) -> None:
    """Add a commit to the next batch of its table. If no batch is open or in progress, the commit leads a new batch."""
    request = request_at(run, slot)
    request.arrived_ms = txn.now_ms
    request.next_member = run_state.NO_SLOT
    run.waiting += 1
    table = table_at(run, touched_at(run, slot, 0).table)
    if not table.batch_open or table.batch_head == run_state.NO_SLOT:
        table.batch_head = slot
    else:
        request_at(run, table.batch_tail).next_member = slot
    table.batch_tail = slot
    request.leads = 0
    if not table.batch_open:
        table.batch_open = 1
        _lead(run, txn, slot)


@jit
def _lead_next_batch(run: Any, txn: Any, slot: int) -> None:
    """Make the first waiting commit the leader of the next batch."""
    txn.elapsed_ms += txn.now_ms - request_at(run, slot).arrived_ms
    _lead(run, txn, slot)


@jit
def _lead(run: Any, txn: Any, slot: int) -> None:
    request = request_at(run, slot)
    request.leads = 1
    linger = request.arrived_ms + run.linger_ms - txn.now_ms
    if linger > 0.0:
        txn.elapsed_ms += linger
        await_event(run, txn, slot, run_state.BATCH_READY, linger)
    else:
        _enter(run, txn, slot)


@jit
def _begin_batch(run: Any, txn: Any, slot: int) -> None:
    """Start a batch with the waiting commits of a table."""
    request = request_at(run, slot)
    table_id = touched_at(run, slot, 0).table
    table = table_at(run, table_id)
    request.members = 0
    member = table.batch_head
    while member != run_state.NO_SLOT and (run.max_batch == 0 or request.members < run.max_batch):
        member = request_at(run, member).next_member
        request.members += 1
    table.batch_head = member
    run.waiting -= request.members
    run.in_batches += request.members
    run.service_batches += 1
    _count_committing(run, txn, slot, 1)
    written = 0.0
    if run.writes_metadata:
        written += _write_ms(run, txn, table_id, request.members)
    service = value(run, run.service[run_state.SERVICE_COMMIT], request.u) + written
    txn.elapsed_ms += service
    await_event(run, txn, slot, run_state.BATCH_END, service)


@jit
def _end_batch(run: Any, txn: Any, slot: int) -> int:
    """Decide the commits of a batch in order, and respond to all of them."""
    request = request_at(run, slot)
    table = table_at(run, touched_at(run, slot, 0).table)
    member = slot
    _count_committing(run, txn, slot, -1)
    unserializable = False
    if HAS_LIMITS:
        unserializable = _database_fails(run, txn, slot)
    for i in range(request.members):
        asked, other = request_at(run, member), txn_at(run, member)
        following = asked.next_member
        other.now_ms = txn.now_ms
        asked.outcome = LOST
        if unserializable:
            asked.outcome = UNSERIALIZABLE
        elif _is_rebasable(run, other) or not _has_moved(run, other, member):
            asked.outcome = TOO_LARGE if is_too_large(run, other, member) else WON
        _decide(run, other, member, asked.outcome)
        if i > 0:
            _wake(run, member, run_state.BATCH_ANSWER, txn.now_ms)
        member = following
    run.in_batches -= request.members
    _leave(run, request, txn.now_ms)
    if table.batch_head == run_state.NO_SLOT:
        table.batch_open = 0
    else:
        _wake(run, table.batch_head, run_state.BATCH_LEAD, txn.now_ms)
    return request.outcome  # type: ignore[no-any-return]


@jit
def _answer_member(run: Any, txn: Any, slot: int) -> int:
    """Process the response to a commit of a batch, and return the outcome of the commit."""
    request = request_at(run, slot)
    txn.elapsed_ms += txn.now_ms - request.arrived_ms
    return request.outcome  # type: ignore[no-any-return]
