"""The loop of the compiled engine: take the next event, let it take effect, and go with its transaction to the next one.

The counterpart of ``endive.transaction.lifecycle``: the same steps in the same order, cut at the moments that touch what
transactions share. ``advance`` runs until the rows are full, more room is needed, or the run is over; all its state is in the
arrays, so it can be called again. Which branches there are depends on the features of the kernel (``features.py``).
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms, status_check_wait_ms, store_resend_wait_ms
from endive.simulation.compiled.arrivals import await_arrival, know_written, learn, submit
from endive.simulation.compiled.commits import (
    append_record,
    append_to_list,
    compact,
    install,
    read_list_end,
    redo_all_tables,
    replace_sealed_list,
    snapshots_behind,
    take_snapshot,
)
from endive.simulation.compiled.committers import begin_batch, end_batch_of, take_turn
from endive.simulation.compiled.draws import catalog_uniform, client_ms, storage_uniform, two_values, value
from endive.simulation.compiled.failures import fails, resends_ms
from endive.simulation.compiled.features import (
    HAS_CAS,
    HAS_CLIENTS,
    HAS_COMMITTERS,
    HAS_ENDIVE,
    HAS_FAILURES,
    HAS_FILES,
    HAS_ICEBERG,
    HAS_LIMITS,
    HAS_LIST_APPENDS,
    HAS_LOG,
    HAS_PYICEBERG,
    HAS_SERVICE,
)
from endive.simulation.compiled.heap import arrival, close_hole, take_first
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.iceberg import (
    CUT_OFF,
    PREPARED,
    REAL_CONFLICT,
    after_commit,
    delete_all,
    is_real_conflict,
    prepare,
    take_handles,
)
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.layout import (
    ABORTED,
    AFTER_COMMIT,
    APPEND,
    APPEND_EFFECT,
    BACKOFF,
    BATCH_ANSWER,
    BATCH_END,
    BATCH_LEAD,
    BATCH_READY,
    CAS,
    CAS_EFFECT,
    CATALOG_COMMIT,
    CATALOG_READ,
    CHECK,
    CLOSED,
    COMMIT,
    COMMITTED,
    COMMITTING,
    COMPACTION,
    COMPACTION_EFFECT,
    CRASH,
    DISCOVERY,
    DONE,
    ENDIVE,
    EXECUTING,
    EXPIRE_SNAPSHOTS,
    FAILED_APPEND,
    FAILED_COMMIT,
    FAILED_COMPACTION,
    FILE_WRITE,
    FINISHED,
    HANDOVERS_FULL,
    HISTORY_FULL,
    ICEBERG,
    LIST_APPEND,
    LIST_APPENDS,
    LIST_READ,
    LIST_REWRITE,
    LIST_WRITE,
    LISTS_READ,
    LOG_COMMIT,
    LOG_ENTRY,
    MAX_RETRIES,
    MERGE,
    METADATA_TOO_LARGE,
    NO_REASON,
    NOBODY,
    PAUSED,
    PER_ATTEMPT_IO,
    PYICEBERG,
    READ,
    READ_ONLY,
    REFRESH,
    RESTART,
    RETRY_READ,
    ROWS_FULL,
    SERVICE_ARRIVAL,
    SERVICE_BEGIN,
    SERVICE_END,
    SERVICE_LOCKED,
    SLOTS_FULL,
    START_READ,
    STATE_UNKNOWN,
    STATUS_CHECK,
    TIMEOUT,
    UNAVAILABLE,
    UNKNOWN_CHECK,
    UNKNOWN_RETRY,
    VALIDATION,
)
from endive.simulation.compiled.memory import (
    class_at,
    event_at,
    group_at,
    request_at,
    row_table_at,
    source_at,
    touched_at,
    txn_at,
    write_batch,
    write_row,
)
from endive.simulation.compiled.pyiceberg import (
    clean_up,
    is_unchanged,
    make_snapshots,
    read_metadata,
    validate_again,
    write_all_metadata,
)
from endive.simulation.compiled.service import (
    COMMITS,
    GAVE_UP,
    GOES_ON,
    TOO_LARGE,
    WON,
    answer_member,
    arrive,
    batch_ready,
    end_batch,
    end_commit,
    end_load,
    get_locks,
    get_worker,
    is_too_large,
    lead_next_batch,
    send,
)
from endive.simulation.compiled.steps import (
    access,
    back_off,
    conflicting_manifests,
    merge,
    pay_conflict,
    read_lists,
    read_tables,
    step,
    write_manifests,
    write_metadata,
)


@jit
def advance(run: Any, max_events: int) -> int:
    """Take events until something has to be done outside; says what."""
    for _ in range(max_events):
        if run.rows_used >= run.row_capacity:
            return ROWS_FULL
        if run.free_head < 0:
            return SLOTS_FULL
        if HAS_FILES and run.history_end - run.history_first + 2 * (run.max_tables + run.in_batches) > run.history_capacity:
            return HISTORY_FULL
        if HAS_COMMITTERS and run.handovers_held >= run.handover_capacity:
            return HANDOVERS_FULL
        if run.heap_size == 0:
            return FINISHED
        event = event_at(run, 0)
        now, slot = event.time_ms, event.whose
        if now >= run.end_ms:
            return FINISHED
        take_first(run)
        run.now_ms = now
        if slot < 0:
            _arrive(run, arrival(slot))
        else:
            txn = txn_at(run, slot)
            txn.now_ms = now
            _take_effect(run, txn, slot)
        close_hole(run)
    return PAUSED


@jit
def begin(run: Any) -> None:
    """Put the first arrival of each source into the queue."""
    for source_id in range(run.num_sources):
        await_arrival(run, source_id)


@inlined
def _arrive(run: Any, whose: int) -> None:
    source_id = whose
    if HAS_COMMITTERS:
        source_id = take_turn(run, whose)
        if source_id == NOBODY:
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
    elif cls.arrival_kind != CLOSED:
        await_arrival(run, source_id)
    _request_read(run, txn, slot, START_READ)


@inlined
def _take_effect(run: Any, txn: Any, slot: int) -> None:
    """What the transaction's event does, and what follows until its next one."""
    event = txn.event
    if HAS_SERVICE and request_at(run, slot).serving:
        end_load(run, txn, slot)
    if event == START_READ:
        _start(run, txn, slot)
    elif event == DONE:
        _finish(run, txn, slot)
    elif HAS_CAS and event == CAS_EFFECT:
        _cas_effect(run, txn, slot)
    elif HAS_ENDIVE and event == RETRY_READ:
        _retry(run, txn, slot)
    elif HAS_FILES and event == REFRESH:
        _refreshed(run, txn, slot)
    elif HAS_ICEBERG and event == AFTER_COMMIT:
        _committed(run, txn, slot)
    elif HAS_PYICEBERG and event == CHECK:
        _checked(run, txn, slot)
    elif HAS_FAILURES and event == STATUS_CHECK:
        _status_checked(run, txn, slot)
    else:
        if HAS_LOG:
            _log_event(run, txn, slot, event)
        if HAS_SERVICE:
            _service_event(run, txn, slot, event)
        if HAS_LIST_APPENDS:
            _list_event(run, txn, slot, event)


@inlined
def _log_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """What an event of a catalog that is a log does."""
    if event == LOG_COMMIT:
        _log_commit(run, txn, slot)
    elif event == APPEND_EFFECT:
        _append_effect(run, txn, slot)
    elif event == COMPACTION_EFFECT:
        _compaction_effect(run, txn, slot)
    elif event == DISCOVERY:
        _discovered(run, txn, slot)


@inlined
def _service_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """What an event of a request at a service does."""
    outcome = GOES_ON
    if event == SERVICE_ARRIVAL:
        outcome = arrive(run, txn, slot)
    elif event == SERVICE_END:
        outcome = end_commit(run, txn, slot)
    elif event == SERVICE_BEGIN:
        get_worker(run, txn, slot)
    elif event == SERVICE_LOCKED:
        get_locks(run, txn, slot)
    elif event == BATCH_LEAD:
        lead_next_batch(run, txn, slot)
    elif event == BATCH_READY:
        batch_ready(run, txn, slot)
    elif event == BATCH_END:
        outcome = end_batch(run, txn, slot)
    elif event == BATCH_ANSWER:
        outcome = answer_member(run, txn, slot)
    if outcome == GAVE_UP:
        _give_up_request(run, txn, slot)
    elif outcome != GOES_ON:
        _service_answer(run, txn, slot, outcome)


@jit
def _give_up_request(run: Any, txn: Any, slot: int) -> None:
    """A request was refused too often: the operation ends, and what it wrote stays."""
    commits = request_at(run, slot).then == COMMITS
    txn.times[CATALOG_COMMIT if commits else CATALOG_READ] += txn.elapsed_ms
    txn.event_count += 1
    _abort(run, txn, slot, UNAVAILABLE)


@jit
def _service_answer(run: Any, txn: Any, slot: int, outcome: int) -> None:
    """A commit is decided, and its answer travels back."""
    effect_at = txn.now_ms
    back = request_at(run, slot).back_ms
    if back > 0.0:
        txn.now_ms += back
        txn.elapsed_ms += back
    if txn.now_ms >= run.end_ms:
        return
    if HAS_LIMITS and outcome == TOO_LARGE:
        txn.final_reason = METADATA_TOO_LARGE
    _end_commit(run, txn, slot, outcome == WON, effect_at)


@inlined
def _list_event(run: Any, txn: Any, slot: int, event: int) -> None:
    """What an event of a manifest list that is appended to does (ML+)."""
    if event == LISTS_READ:
        _lists_read(run, txn, slot)
    elif event == LIST_APPEND:
        _list_append_effect(run, txn, slot)
    elif event == LIST_REWRITE:
        _list_rewritten(run, txn, slot)


# -- reading the catalog ---------------------------------------------------------------------------------------------------------


@jit
def _request_read(run: Any, txn: Any, slot: int, event: int) -> None:
    """Send a read of the catalog; it takes effect when the event comes."""
    if HAS_FAILURES and event != DISCOVERY and not _wait_for_errors(run, txn, CATALOG_READ):
        return
    if HAS_SERVICE:
        send(run, txn, slot, event)
        return
    txn.success_ms = value(run, run.catalog[READ], catalog_uniform(txn))
    if HAS_LOG:
        txn.failure_ms = value(run, run.catalog[LOG_ENTRY], catalog_uniform(txn)) if run.log_entry_read else 0.0
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, run.linearization)
    _await_event(run, txn, slot, event, txn.effect_ms)


@jit
def _rest_of_read(run: Any, txn: Any) -> float:
    """What is left of a read after its effect; log entries since the checkpoint make it longer."""
    if HAS_SERVICE:
        return txn.success_ms  # type: ignore[no-any-return]
    if HAS_LOG:
        return txn.success_ms + txn.failure_ms * group_at(run, txn.group).entries - txn.effect_ms  # type: ignore[no-any-return]
    return txn.success_ms - txn.effect_ms  # type: ignore[no-any-return]


@jit
def _end_read(run: Any, txn: Any) -> bool:
    rest = _rest_of_read(run, txn)
    elapsed = txn.effect_ms
    now = txn.now_ms
    if rest > 0.0:
        now += rest
        elapsed += rest
    if HAS_CLIENTS:
        computing = client_ms(run, txn, class_at(run, txn.cls))
        now += computing
        elapsed += computing
    if now >= run.end_ms:
        return False
    txn.now_ms = now
    txn.times[CATALOG_READ] += elapsed
    txn.event_count += 1
    return True


@inlined
def _start(run: Any, txn: Any, slot: int) -> None:
    """The snapshot that the work is based on, and the work."""
    cls = class_at(run, txn.cls)
    take_snapshot(run, txn, slot)
    if HAS_FILES:
        take_handles(run, txn, slot)
    if not _end_read(run, txn) or not read_tables(run, txn, slot, cls):
        return
    if txn.operation == READ_ONLY:
        txn.status = COMMITTED
        _await_event(run, txn, slot, DONE, 0.0)
        return
    txn.status = COMMITTING
    txn.commit_started_ms = txn.now_ms
    if txn.entered_ms < 0.0:
        txn.entered_ms = txn.now_ms
    txn.attempt = 0
    txn.append_due = 1
    if HAS_ICEBERG and cls.commit_path == ICEBERG:
        _request_read(run, txn, slot, REFRESH)
    elif HAS_PYICEBERG and cls.commit_path == PYICEBERG:
        _stage(run, txn, slot)
    elif HAS_ENDIVE:
        redo_all_tables(run, txn, slot)
        _make_manifests(run, txn, slot)


@inlined
def _refreshed(run: Any, txn: Any, slot: int) -> None:
    """The state at the beginning of an attempt on Iceberg's paths (PyIceberg: of a retry): validate, and prepare the commit."""
    take_snapshot(run, txn, slot)
    if not _end_read(run, txn):
        return
    for t in range(txn.written):
        outcome = _prepare(run, txn, slot, t)
        if outcome == CUT_OFF:
            return
        if outcome != PREPARED:
            _end_by_conflict(run, txn, slot, outcome == REAL_CONFLICT)
            return
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == PYICEBERG:
        _stage(run, txn, slot)
    else:
        _begin_commit(run, txn, slot)


@inlined
def _prepare(run: Any, txn: Any, slot: int, t: int) -> int:
    """Validate a table and make its new state (PyIceberg: validate it); says how it ended."""
    outcome = PREPARED
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == PYICEBERG:
        outcome = validate_again(run, txn, slot, t)
    elif HAS_ICEBERG:
        outcome = prepare(run, txn, slot, t)
    return outcome


@inlined
def _committed(run: Any, txn: Any, slot: int) -> None:
    """The catalog as read after a commit on Iceberg's path, and what follows until the operation is done."""
    effect_at = txn.now_ms
    if _end_read(run, txn) and after_commit(run, txn, slot):
        _succeed(run, txn, slot, effect_at)


@jit
def _stage(run: Any, txn: Any, slot: int) -> None:
    """Make what an attempt on PyIceberg's path commits, and look whether the table is still the same."""
    if not make_snapshots(run, txn, slot):
        return
    if HAS_SERVICE and run.writes_metadata:
        _begin_commit(run, txn, slot)
    else:
        _request_read(run, txn, slot, CHECK)


@inlined
def _checked(run: Any, txn: Any, slot: int) -> None:
    """The state just before the commit on PyIceberg's path: if it has changed, the attempt is lost without a commit."""
    take_snapshot(run, txn, slot)
    if not _end_read(run, txn) or not read_metadata(run, txn, slot):
        return
    if not is_unchanged(run, txn, slot):
        _lost_attempt(run, txn, slot)
    elif write_all_metadata(run, txn, slot):
        _begin_commit(run, txn, slot)


@jit
def _end_by_conflict(run: Any, txn: Any, slot: int, may_restart: bool) -> None:
    """Start the operation again, if the conflict and its class allow it; otherwise give up."""
    cls = class_at(run, txn.cls)
    if not _clean_up(run, txn, slot):
        return
    if may_restart and cls.on_real_conflict == RESTART and txn.restarts < cls.max_restarts:
        txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
        txn.restarts += 1
        txn.status = EXECUTING
        _request_read(run, txn, slot, START_READ)
    else:
        _abort(run, txn, slot, VALIDATION)


@inlined
def _retry(run: Any, txn: Any, slot: int) -> None:
    """The state after a failed commit: is what was prepared still valid, and what does it cost if not?"""
    cls = class_at(run, txn.cls)
    behind = snapshots_behind(run, txn, slot)
    take_snapshot(run, txn, slot)
    if not _end_read(run, txn):
        return
    if behind == 0:
        _begin_commit(run, txn, slot)
        return
    if not pay_conflict(run, txn, cls, behind):
        return
    if not is_real_conflict(run, txn):
        txn.append_due = 0
        _make_manifests(run, txn, slot)
        return
    if cls.on_real_conflict == MERGE:
        if merge(run, txn, cls, txn.redo_tables, conflicting_manifests(run, txn, cls)):
            txn.append_due = 1
            _make_manifests(run, txn, slot)
    else:
        _end_by_conflict(run, txn, slot, True)


# -- making manifests ------------------------------------------------------------------------------------------------------------


@jit
def _make_manifests(run: Any, txn: Any, slot: int) -> None:
    cls = class_at(run, txn.cls)
    if not read_lists(run, txn, cls):
        return
    if HAS_LIST_APPENDS and txn.append_due and txn.operation != EXPIRE_SNAPSHOTS:
        _await_event(run, txn, slot, LISTS_READ, 0.0)
    elif write_manifests(run, txn, cls):
        _made_manifests(run, txn, slot)


@inlined
def _made_manifests(run: Any, txn: Any, slot: int) -> None:
    if write_metadata(run, txn, class_at(run, txn.cls)):
        _begin_commit(run, txn, slot)


@inlined
def _lists_read(run: Any, txn: Any, slot: int) -> None:
    """The manifest lists as they were read (ML+)."""
    for t in range(txn.written):
        read_list_end(run, touched_at(run, slot, t))
    if write_manifests(run, txn, class_at(run, txn.cls)):
        txn.table_cursor = 0
        _append_entry(run, txn, slot)


@jit
def _append_entry(run: Any, txn: Any, slot: int) -> None:
    """Append to the list of the next table whose manifests are new, rewriting it first if it is sealed; after the last, go on."""
    while txn.table_cursor < txn.written and not touched_at(run, slot, txn.table_cursor).redo:
        txn.table_cursor += 1
    if txn.table_cursor == txn.written:
        _made_manifests(run, txn, slot)
        return
    cls = class_at(run, txn.cls)
    if not touched_at(run, slot, txn.table_cursor).list_sealed:
        _request_list_append(run, txn, slot)
    elif access(run, txn, cls, LIST_READ, 1, PER_ATTEMPT_IO) and access(run, txn, cls, LIST_WRITE, 1, PER_ATTEMPT_IO):
        _await_event(run, txn, slot, LIST_REWRITE, 0.0)


@inlined
def _list_rewritten(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    replace_sealed_list(run, mine)
    read_list_end(run, mine)
    _request_list_append(run, txn, slot)


@jit
def _request_list_append(run: Any, txn: Any, slot: int) -> None:
    cls = class_at(run, txn.cls)
    txn.success_ms, txn.failure_ms = two_values(run, cls.list_append, cls.failed_list_append, storage_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, cls.linearization)
    _await_event(run, txn, slot, LIST_APPEND, txn.effect_ms)


@inlined
def _list_append_effect(run: Any, txn: Any, slot: int) -> None:
    mine = touched_at(run, slot, txn.table_cursor)
    landed = append_to_list(run, mine, class_at(run, txn.cls).entry_bytes)
    read_list_end(run, mine)
    rest = (txn.success_ms if landed else failed_answer_ms(txn.effect_ms, txn.failure_ms)) - txn.effect_ms
    now, elapsed = txn.now_ms, txn.effect_ms + rest
    if rest > 0.0:
        now += rest
    if HAS_CLIENTS:
        computing = client_ms(run, txn, class_at(run, txn.cls))
        now += computing
        elapsed += computing
    if now >= run.end_ms:
        return
    txn.now_ms = now
    txn.times[PER_ATTEMPT_IO] += elapsed
    txn.event_count += 1
    txn.counts[LIST_APPENDS] += 1
    if landed:
        txn.table_cursor += 1
    _append_entry(run, txn, slot)


# -- committing ------------------------------------------------------------------------------------------------------------------


@jit
def _begin_commit(run: Any, txn: Any, slot: int) -> None:
    """Send the commit of an attempt, unless the client crashes before."""
    if HAS_FAILURES:
        txn.known_by_key = 0
        if fails(txn, class_at(run, txn.cls).client_crash):
            _abort(run, txn, slot, CRASH)
            return
    _send_commit(run, txn, slot)


@jit
def _send_commit(run: Any, txn: Any, slot: int) -> None:
    if HAS_FAILURES and not _wait_for_errors(run, txn, CATALOG_COMMIT):
        return
    if HAS_LIMITS:
        txn.final_reason = NO_REASON
    txn.elapsed_ms = 0.0
    txn.round_trips = 0
    if HAS_CAS and run.catalog_kind == CAS:
        _request(run, txn, slot, COMMIT, FAILED_COMMIT, CAS_EFFECT)
    elif HAS_LOG:
        _await_event(run, txn, slot, LOG_COMMIT, 0.0)
    elif HAS_SERVICE:
        send(run, txn, slot, COMMITS)


@jit
def _request(run: Any, txn: Any, slot: int, success: int, failure: int, event: int) -> None:
    """Send a conditional write to the catalog; one uniform makes both of its latencies."""
    txn.success_ms, txn.failure_ms = two_values(run, run.catalog[success], run.catalog[failure], catalog_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, run.linearization)
    _await_event(run, txn, slot, event, txn.effect_ms)


@jit
def _answer(run: Any, txn: Any, success: bool) -> bool:
    """Wait for the answer after the effect; says whether it came before the end."""
    latency = txn.success_ms if success else failed_answer_ms(txn.effect_ms, txn.failure_ms)
    rest = latency - txn.effect_ms
    txn.elapsed_ms += txn.effect_ms
    txn.round_trips += 1
    if rest > 0.0:
        txn.now_ms += rest
        txn.elapsed_ms += rest
    return txn.now_ms < run.end_ms  # type: ignore[no-any-return]


@inlined
def _cas_effect(run: Any, txn: Any, slot: int) -> None:
    group = group_at(run, txn.group)
    if HAS_LIMITS and txn.now_ms < group.writable_ms:
        _throttled(run, txn, slot)
        return
    success = group.seq == txn.seq
    if HAS_LIMITS and success and is_too_large(run, txn, slot):
        txn.final_reason = METADATA_TOO_LARGE
        success = False
    if success:
        install(run, txn, slot)
        if HAS_LIMITS:
            group.writable_ms = txn.now_ms + run.write_interval_ms
    else:
        run.commit_conflict += 1
    effect_at = txn.now_ms
    if _answer(run, txn, success):
        _end_commit(run, txn, slot, success, effect_at)


@jit
def _throttled(run: Any, txn: Any, slot: int) -> None:
    """The store refuses a write of the pointer, which comes too soon after another; its client sends it again."""
    run.commit_throttled += 1
    if not _answer(run, txn, False):
        return
    wait = store_resend_wait_ms(txn.round_trips, catalog_uniform(txn))
    txn.now_ms += wait
    txn.elapsed_ms += wait
    if txn.now_ms < run.end_ms:
        _request(run, txn, slot, COMMIT, FAILED_COMMIT, CAS_EFFECT)


@inlined
def _log_commit(run: Any, txn: Any, slot: int) -> None:
    """The start of a commit to a log, and of each further try: a sealed log is compacted first."""
    group = group_at(run, txn.group)
    if group.sealed:
        txn.checkpoint_offset = group.checkpoint_offset
        _request(run, txn, slot, COMPACTION, FAILED_COMPACTION, COMPACTION_EFFECT)
    else:
        _request(run, txn, slot, APPEND, FAILED_APPEND, APPEND_EFFECT)


@inlined
def _compaction_effect(run: Any, txn: Any, slot: int) -> None:
    if _answer(run, txn, compact(run, txn)):
        _request(run, txn, slot, APPEND, FAILED_APPEND, APPEND_EFFECT)


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
        _request_read(run, txn, slot, DISCOVERY)
    else:
        _await_event(run, txn, slot, LOG_COMMIT, 0.0)


@inlined
def _discovered(run: Any, txn: Any, slot: int) -> None:
    """The read that tells whether the record was applied."""
    rest = _rest_of_read(run, txn)
    effect_at = txn.now_ms
    txn.elapsed_ms += txn.effect_ms
    txn.round_trips += 1
    if rest > 0.0:
        txn.now_ms += rest
        txn.elapsed_ms += rest
    if txn.now_ms < run.end_ms:
        _end_commit(run, txn, slot, txn.applied == 1, effect_at)


@inlined
def _compute_after_commit(run: Any, txn: Any) -> bool:
    """Let the client compute when a commit was answered; says whether it was done before the end."""
    computing = client_ms(run, txn, class_at(run, txn.cls))
    txn.now_ms += computing
    txn.elapsed_ms += computing
    return txn.now_ms < run.end_ms  # type: ignore[no-any-return]


@jit
def _end_commit(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """A commit is answered, unless the answer is lost."""
    if HAS_CLIENTS and not _compute_after_commit(run, txn):
        return
    txn.times[CATALOG_COMMIT] += txn.elapsed_ms
    txn.event_count += txn.round_trips
    if HAS_FAILURES:
        if success and not txn.known_by_key:
            txn.installs += 1
        if fails(txn, class_at(run, txn.cls).lost_answer):
            _lose_answer(run, txn, slot, success)
            return
    elif success:
        txn.installs += 1
    _learn_outcome(run, txn, slot, success, effect_at)


@jit
def _lose_answer(run: Any, txn: Any, slot: int, success: bool) -> None:
    """Nobody knows what became of a commit: look, try again, or send it again with its key."""
    on_unknown = class_at(run, txn.cls).on_unknown
    txn.unknown_outcomes += 1
    if HAS_LIMITS:
        txn.final_reason = NO_REASON
    if on_unknown == UNKNOWN_CHECK:
        txn.took_effect = 1 if success else 0
        txn.status_checks = 0
        _request_read(run, txn, slot, STATUS_CHECK)
    elif on_unknown == UNKNOWN_RETRY:
        _lost_attempt(run, txn, slot)
    else:
        txn.known_by_key = 1 if success else 0
        _send_commit(run, txn, slot)


@inlined
def _status_checked(run: Any, txn: Any, slot: int) -> None:
    """The catalog as read to learn what became of a commit; the answer may be lost, too."""
    cls = class_at(run, txn.cls)
    effect_at = txn.now_ms
    if not _end_read(run, txn):
        return
    txn.status_checks += 1
    if not fails(txn, cls.lost_answer):
        _learn_outcome(run, txn, slot, txn.took_effect == 1, effect_at)
    elif txn.status_checks > cls.status_checks:
        _abort(run, txn, slot, STATE_UNKNOWN)
    elif step(run, txn, BACKOFF, status_check_wait_ms(txn.status_checks, cls.check_min_wait_ms, cls.check_max_wait_ms)):
        _request_read(run, txn, slot, STATUS_CHECK)


@jit
def _wait_for_errors(run: Any, txn: Any, component: int) -> bool:
    """The waits of the SDK for requests to the catalog that fail; says whether they were over before the end."""
    waited = resends_ms(txn, class_at(run, txn.cls).request_error, 1, 0.0)
    if waited > 0.0:
        if txn.now_ms + waited >= run.end_ms:
            return False
        txn.now_ms += waited
        txn.times[component] += waited
    return True


@jit
def _learn_outcome(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """The outcome of an attempt is known: done, give up, or wait and read the catalog again."""
    cls = class_at(run, txn.cls)
    if HAS_CLIENTS and success and cls.keeps_handles:
        know_written(run, txn, slot)
    if HAS_LIMITS and not success and txn.final_reason != NO_REASON:
        if _clean_up(run, txn, slot):
            _abort(run, txn, slot, txn.final_reason)
    elif not success:
        _lost_attempt(run, txn, slot)
    elif HAS_ICEBERG and cls.commit_path == ICEBERG:
        _request_read(run, txn, slot, AFTER_COMMIT)
    elif HAS_PYICEBERG and cls.commit_path == PYICEBERG:
        if clean_up(run, txn):
            _succeed(run, txn, slot, effect_at)
    else:
        _succeed(run, txn, slot, effect_at)


@jit
def _lost_attempt(run: Any, txn: Any, slot: int) -> None:
    """Give up, or wait and read the catalog again."""
    cls = class_at(run, txn.cls)
    if HAS_PYICEBERG:
        txn.lost_files += txn.counts[FILE_WRITE] + txn.counts[LIST_WRITE] - txn.written_before
    if txn.attempt >= cls.max_retries:
        if _clean_up(run, txn, slot):
            _abort(run, txn, slot, MAX_RETRIES)
    elif txn.attempt >= cls.timeout_from_retry and txn.now_ms - txn.commit_started_ms > cls.timeout_ms:
        if _clean_up(run, txn, slot):
            _abort(run, txn, slot, TIMEOUT)
    else:
        txn.attempt += 1
        txn.retries += 1
        if back_off(run, txn, cls):
            _request_read(run, txn, slot, RETRY_READ if cls.commit_path == ENDIVE else REFRESH)


@jit
def _clean_up(run: Any, txn: Any, slot: int) -> bool:
    """What is deleted when an operation ends without success."""
    if HAS_ICEBERG and class_at(run, txn.cls).commit_path == ICEBERG:
        return delete_all(run, txn, slot)
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == PYICEBERG:
        return clean_up(run, txn)
    return True


@jit
def _succeed(run: Any, txn: Any, slot: int, effect_at: float) -> None:
    """The transaction is done, at once or at the end of what it still had to wait for."""
    txn.status = COMMITTED
    txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    if txn.now_ms == effect_at:
        _finish(run, txn, slot)
    else:
        _await_event(run, txn, slot, DONE, 0.0)


@jit
def _abort(run: Any, txn: Any, slot: int, reason: int) -> None:
    if txn.status == COMMITTING:
        txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    txn.status = ABORTED
    txn.reason = reason
    if HAS_SERVICE and txn.now_ms == run.now_ms:
        _finish(run, txn, slot)
    else:
        _await_event(run, txn, slot, DONE, 0.0)


# -- rows ------------------------------------------------------------------------------------------------------------------------


@jit
def _finish(run: Any, txn: Any, slot: int) -> None:
    """Write the transaction's row and give its slot away."""
    row = run.rows_used
    write_row(run, row, txn)
    if HAS_COMMITTERS:
        write_batch(run, row, txn)
    for t in range(txn.written):
        row_table_at(run, row, t).value = touched_at(run, slot, t).table
    run.rows_used += 1
    if HAS_CLIENTS:
        learn(run, txn, slot)
    source_id = txn.source
    txn.txn_id = -1
    txn.next_free = run.free_head
    run.free_head = slot
    if HAS_COMMITTERS and class_at(run, txn.cls).committer >= 0:
        end_batch_of(run, txn)
    elif class_at(run, txn.cls).arrival_kind == CLOSED:
        await_arrival(run, source_id)
