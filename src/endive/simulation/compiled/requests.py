"""Send reads and commits to the catalog, and process their responses until the transaction ends.

A request takes effect at its event. Its response can be lost. After the response, the transaction commits, aborts or retries.
"""

from __future__ import annotations

import math
from typing import Any

from endive.arithmetic.costs import moment_of_effect_ms, status_check_wait_ms
from endive.arithmetic.draws import derive
from endive.randomness import Purpose
from endive.simulation.compiled import run_state
from endive.simulation.compiled.arrivals import (
    await_arrival,
    clear,
    know_written,
    learn,
    start_late,
    start_streams,
    take_known_versions,
)
from endive.simulation.compiled.client_steps import back_off, cancel, is_in_time, start_time_limit, step
from endive.simulation.compiled.committer import end_batch
from endive.simulation.compiled.features import (
    HAS_CAS,
    HAS_CLIENTS,
    HAS_COMMITTERS,
    HAS_FAILURES,
    HAS_ICEBERG,
    HAS_LIMITS,
    HAS_LOG,
    HAS_PROTOCOL,
    HAS_PYICEBERG,
    HAS_SERVICE,
    inlined,
    jit,
    word,
)
from endive.simulation.compiled.iceberg import delete_all, delete_lost_files, forget_attempts
from endive.simulation.compiled.memory import (
    await_event,
    class_at,
    group_at,
    row_table_at,
    source_at,
    touched_at,
    write_batch,
    write_requests,
    write_row,
)
from endive.simulation.compiled.protocol_steps import ENDED, enter_phase, run_steps
from endive.simulation.compiled.service import COMMITS, send
from endive.simulation.compiled.streams import catalog_uniform, client_ms, fails, resends_ms, two_values, value

_NEXT_COMMIT = int(Purpose.NEXT_COMMIT)


@jit
def succeed(run: Any, txn: Any, slot: int, effect_at: float) -> None:
    """Commit the transaction, now or at the end of its remaining wait."""
    txn.status = run_state.COMMITTED
    txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    if txn.now_ms == effect_at:
        finish(run, txn, slot)
    else:
        await_event(run, txn, slot, run_state.DONE, 0.0)


@jit
def abort(run: Any, txn: Any, slot: int, reason: int) -> None:
    """Abort the transaction with a reason."""
    if txn.status == run_state.COMMITTING:
        txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    txn.status = run_state.ABORTED
    txn.reason = reason
    if HAS_SERVICE and txn.now_ms == run.now_ms:
        finish(run, txn, slot)
    else:
        await_event(run, txn, slot, run_state.DONE, 0.0)


@jit
def finish(run: Any, txn: Any, slot: int) -> None:
    """Write the row of a transaction that has ended, and free its slot."""
    row = run.rows_used
    write_row(run, row, txn)
    if HAS_COMMITTERS:
        write_batch(run, row, txn)
    if HAS_PROTOCOL:
        write_requests(run, row, txn)
    for t in range(txn.written):
        row_table_at(run, row, t).value = touched_at(run, slot, t).table
    run.rows_used += 1
    if HAS_CLIENTS:
        learn(run, txn, slot)
    if HAS_ICEBERG and class_at(run, txn.cls).commits_per_job > 1 and _continue_job(run, txn, slot):
        return
    source_id = txn.source
    txn.txn_id = -1
    txn.next_free = run.free_head
    run.free_head = slot
    if HAS_COMMITTERS and class_at(run, txn.cls).committer >= 0:
        end_batch(run, txn)
    elif class_at(run, txn.cls).waits:
        await_arrival(run, source_id)
    elif class_at(run, txn.cls).paced:
        if txn.installs:
            source_at(run, source_id).collected_ms = txn.submit_ms
        source_at(run, source_id).running = 0
        start_late(run, source_id, 0)


@jit
def _continue_job(run: Any, txn: Any, slot: int) -> bool:
    """Start the next commit of a job with several commits, in the same slot. Return False if the job has no further commit."""
    cls = class_at(run, txn.cls)
    if txn.operation != run_state.REWRITE_FILES or txn.entered_ms < 0.0 or txn.reason == run_state.CRASH:
        return False
    txn.job_failed += 1 if txn.status == run_state.ABORTED else 0
    if txn.job_commit >= cls.commits_per_job or txn.job_failed > cls.max_failed_commits:
        return False
    txn.job_commit += 1
    txn.job_installs += txn.installs
    for t in range(txn.written):
        touched_at(run, slot, t).prepared_version += txn.installs
    forget_attempts(run, txn, slot)
    source = source_at(run, txn.source)
    start_streams(txn, derive(derive(txn.job_key, word(_NEXT_COMMIT)), word(txn.job_commit)), source, cls)
    if HAS_CLIENTS and cls.keeps_handles:
        take_known_versions(run, txn, slot)
    clear(txn)
    txn.txn_id = run.next_id
    run.next_id += 1
    txn.submit_ms = txn.now_ms
    txn.data_start_ms = -1.0
    left_ms = txn.job_start_ms + txn.job_runtime_ms * txn.job_commit / cls.commits_per_job - txn.now_ms
    if step(run, txn, run_state.RUNTIME, max(0.0, left_ms)):
        await_event(run, txn, slot, run_state.NEXT_COMMIT, 0.0)
    return True


@jit
def start_committing(run: Any, txn: Any, slot: int) -> bool:
    """Start the attempts of a transaction after its job. Return False for a read-only transaction, which ends here."""
    if txn.operation == run_state.READ_ONLY:
        txn.status = run_state.COMMITTED
        await_event(run, txn, slot, run_state.DONE, 0.0)
        return False
    txn.status = run_state.COMMITTING
    txn.commit_started_ms = txn.now_ms
    if txn.entered_ms < 0.0:
        txn.entered_ms = txn.now_ms
    return True


@jit
def start_next_commit(run: Any, txn: Any, slot: int) -> None:
    """Start the first attempt of the next commit of a job."""
    txn.status = run_state.COMMITTING
    txn.commit_started_ms = txn.now_ms
    txn.entered_ms = txn.now_ms
    request_read(run, txn, slot, run_state.REFRESH)


@jit
def request_read(run: Any, txn: Any, slot: int, event: int) -> None:
    """Send a read request to the catalog. The read takes effect at ``event``."""
    if HAS_FAILURES and event != run_state.DISCOVERY:
        if not wait_for_errors(run, txn, run_state.CATALOG_READ):
            return
        if fails(txn, class_at(run, txn.cls).fatal_error):
            if event == run_state.STATUS_CHECK:
                await_event(run, txn, slot, run_state.CHECK_FAILED, 0.0)
            else:
                end_by_failure(run, txn, slot, event)
            return
    if HAS_SERVICE:
        send(run, txn, slot, event)
        return
    txn.success_ms = value(run, run.catalog[run_state.READ], catalog_uniform(txn))
    if HAS_LOG:
        txn.failure_ms = value(run, run.catalog[run_state.LOG_ENTRY], catalog_uniform(txn)) if run.log_entry_read else 0.0
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, run.linearization)
    await_event(run, txn, slot, event, txn.effect_ms)


@jit
def end_by_failure(run: Any, txn: Any, slot: int, event: int) -> None:
    """End a transaction after a request that failed permanently, or at its deadline.

    If the transaction has already committed, it ends as committed. Otherwise, it aborts and does not delete its files.
    """
    reason = run_state.CANCELLED if txn.failed == run_state.CANCELLED else run_state.FAILED
    txn.failed = 0
    if HAS_PROTOCOL and txn.phase in (run_state.AFTER_SUCCESS, run_state.CHECKPOINT):
        succeed(run, txn, slot, run.now_ms)
        return
    if HAS_ICEBERG and event == run_state.AFTER_COMMIT:
        succeed(run, txn, slot, run.now_ms)
    else:
        abort(run, txn, slot, reason)


@jit
def rest_of_read(run: Any, txn: Any) -> float:
    """Return the time from the linearization point of a catalog read to its response, in ms.

    The time includes the log entries since the checkpoint.
    """
    if HAS_SERVICE:
        return txn.success_ms  # type: ignore[no-any-return]
    if HAS_LOG:
        return txn.success_ms + txn.failure_ms * group_at(run, txn.group).entries - txn.effect_ms  # type: ignore[no-any-return]
    return txn.success_ms - txn.effect_ms  # type: ignore[no-any-return]


@jit
def end_read(run: Any, txn: Any) -> bool:
    """Wait for the response to a catalog read. Return whether the client continues."""
    return end_response(run, txn, run_state.CATALOG_READ, rest_of_read(run, txn))


@jit
def end_response(run: Any, txn: Any, component: int, rest: float) -> bool:
    """Wait for a response and for the client CPU time. Return whether both end before the end of the run."""
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
    txn.times[component] += elapsed
    txn.event_count += 1
    if HAS_FAILURES:
        return is_in_time(txn)
    return True


@jit
def wait_for_errors(run: Any, txn: Any, component: int) -> bool:
    """Wait while the SDK resends a failed catalog request. Return whether it succeeds before the end of the run."""
    waited = resends_ms(txn, class_at(run, txn.cls).request_error, 1, 0.0)
    if waited > 0.0:
        if txn.now_ms + waited > txn.deadline_ms:
            return cancel(run, txn, component)
        if txn.now_ms + waited >= run.end_ms:
            return False
        txn.now_ms += waited
        txn.times[component] += waited
    return True


@jit
def begin_commit(run: Any, txn: Any, slot: int) -> None:
    """Send the commit request of an attempt, unless the client crashes first."""
    if HAS_FAILURES:
        txn.known_by_key = 0
        if fails(txn, class_at(run, txn.cls).client_crash):
            abort(run, txn, slot, run_state.CRASH)
            return
    send_commit(run, txn, slot)


@jit
def send_commit(run: Any, txn: Any, slot: int) -> None:
    """Send a commit request to the catalog."""
    if HAS_FAILURES:
        if not wait_for_errors(run, txn, run_state.CATALOG_COMMIT):
            return
        if fails(txn, class_at(run, txn.cls).fatal_error):
            abort(run, txn, slot, run_state.FAILED)
            return
    if HAS_LIMITS:
        txn.final_reason = run_state.NO_REASON
    txn.elapsed_ms = 0.0
    txn.round_trips = 0
    if HAS_CAS and run.catalog_kind == run_state.CAS:
        send_request(run, txn, slot, run_state.COMMIT, run_state.FAILED_COMMIT, run_state.CAS_EFFECT)
    elif HAS_LOG:
        await_event(run, txn, slot, run_state.LOG_COMMIT, 0.0)
    elif HAS_SERVICE:
        send(run, txn, slot, COMMITS)


@jit
def send_request(run: Any, txn: Any, slot: int, success: int, failure: int, event: int) -> None:
    """Send a conditional write to the catalog.

    The latencies on success and on failure are computed from the same uniform random number.
    """
    txn.success_ms, txn.failure_ms = two_values(run, run.catalog[success], run.catalog[failure], catalog_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, run.linearization)
    await_event(run, txn, slot, event, txn.effect_ms)


@jit
def take_answer(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """Process the response to a commit request, unless the response is lost."""
    if HAS_CLIENTS and not _compute_after_commit(run, txn):
        return
    txn.times[run_state.CATALOG_COMMIT] += txn.elapsed_ms
    txn.event_count += txn.round_trips
    if HAS_FAILURES:
        if success and not txn.known_by_key:
            txn.installs += 1
        if txn.now_ms > txn.deadline_ms:
            txn.unknown_outcomes += 1
            abort(run, txn, slot, run_state.CANCELLED)
            return
        if fails(txn, class_at(run, txn.cls).lost_answer):
            _lose_answer(run, txn, slot, success)
            return
    elif success:
        txn.installs += 1
    _learn_outcome(run, txn, slot, success, effect_at)


@inlined
def _compute_after_commit(run: Any, txn: Any) -> bool:
    """Wait for the client CPU time after the response to a commit. Return whether it ends before the end of the run."""
    computing = client_ms(run, txn, class_at(run, txn.cls))
    txn.now_ms += computing
    txn.elapsed_ms += computing
    return txn.now_ms < run.end_ms  # type: ignore[no-any-return]


@jit
def _lose_answer(run: Any, txn: Any, slot: int, success: bool) -> None:
    """Continue after a lost response.

    The client checks the outcome, retries, or resends the commit with its idempotency key.
    """
    on_unknown = class_at(run, txn.cls).on_unknown
    txn.unknown_outcomes += 1
    if HAS_LIMITS:
        txn.final_reason = run_state.NO_REASON
    if on_unknown == run_state.UNKNOWN_CHECK:
        txn.took_effect = 1 if success else 0
        txn.status_checks = 0
        request_read(run, txn, slot, run_state.STATUS_CHECK)
    elif on_unknown == run_state.UNKNOWN_RETRY:
        lose_attempt(run, txn, slot)
    else:
        txn.known_by_key = 1 if success else 0
        send_commit(run, txn, slot)


@inlined
def learn_status(run: Any, txn: Any, slot: int) -> None:
    """Continue after a catalog read that checks the outcome of a commit. The response to this read can also be lost."""
    effect_at = txn.now_ms
    if not end_read(run, txn):
        return
    if fails(txn, class_at(run, txn.cls).lost_answer):
        check_status_again(run, txn, slot)
    else:
        _learn_outcome(run, txn, slot, txn.took_effect == 1, effect_at)


@jit
def check_status_again(run: Any, txn: Any, slot: int) -> None:
    """Check the outcome of a commit again after a failed check. After the last check, the transaction aborts."""
    cls = class_at(run, txn.cls)
    txn.status_checks += 1
    if txn.status_checks > cls.status_checks:
        abort(run, txn, slot, run_state.STATE_UNKNOWN)
    elif step(run, txn, run_state.BACKOFF, status_check_wait_ms(txn.status_checks, cls.min_wait_ms, cls.max_wait_ms)):
        request_read(run, txn, slot, run_state.STATUS_CHECK)


@jit
def _learn_outcome(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """Continue after the client knows the outcome of an attempt: commit, abort, or back off and retry."""
    cls = class_at(run, txn.cls)
    if HAS_FAILURES and success:
        txn.deadline_ms = math.inf
    if HAS_CLIENTS and success and cls.keeps_handles:
        know_written(run, txn, slot)
    if HAS_LIMITS and not success and txn.final_reason != run_state.NO_REASON:
        if txn.final_reason == run_state.FAILED or delete_leftovers(run, txn, slot):
            abort(run, txn, slot, txn.final_reason)
    elif not success:
        lose_attempt(run, txn, slot)
    elif HAS_PROTOCOL:
        enter_phase(run, txn, run_state.AFTER_SUCCESS)
        await_event(run, txn, slot, run_state.PROTOCOL_STEP, 0.0)
    elif HAS_ICEBERG and cls.commit_path == run_state.ICEBERG:
        request_read(run, txn, slot, run_state.AFTER_COMMIT)
    elif HAS_PYICEBERG and cls.commit_path == run_state.PYICEBERG:
        if delete_lost_files(run, txn):
            succeed(run, txn, slot, effect_at)
    else:
        succeed(run, txn, slot, effect_at)


@jit
def lose_attempt(run: Any, txn: Any, slot: int) -> None:
    """Continue after a failed attempt: abort, or back off and read the catalog again."""
    cls = class_at(run, txn.cls)
    if HAS_PROTOCOL:
        txn.lost_files += 1
    elif HAS_PYICEBERG:
        txn.lost_files += txn.counts[run_state.FILE_WRITE] + txn.counts[run_state.LIST_WRITE] - txn.written_before
    if txn.attempt >= cls.max_retries:
        if delete_leftovers(run, txn, slot):
            abort(run, txn, slot, run_state.MAX_RETRIES)
    elif txn.attempt >= cls.timeout_from_retry and txn.now_ms - txn.commit_started_ms > cls.timeout_ms:
        if delete_leftovers(run, txn, slot):
            abort(run, txn, slot, run_state.TIMEOUT)
    elif HAS_FAILURES and not start_time_limit(run, txn):
        return
    else:
        txn.attempt += 1
        txn.retries += 1
        if not back_off(run, txn, cls):
            return
        if HAS_PROTOCOL:
            enter_phase(run, txn, run_state.AFTER_LOSS)
            await_event(run, txn, slot, run_state.PROTOCOL_STEP, 0.0)
        else:
            request_read(run, txn, slot, run_state.REFRESH if cls.keeps_files else run_state.RETRY_READ)


@jit
def restarts_after_conflict(run: Any, txn: Any, slot: int, may_restart: bool) -> bool:
    """Return whether the operation restarts after a conflict. If not, the operation aborts."""
    cls = class_at(run, txn.cls)
    if not delete_leftovers(run, txn, slot):
        return False
    if not (may_restart and cls.on_real_conflict == run_state.RESTART and txn.restarts < cls.max_restarts):
        abort(run, txn, slot, run_state.VALIDATION)
        return False
    txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    txn.restarts += 1
    txn.status = run_state.EXECUTING
    if HAS_FAILURES:
        return start_time_limit(run, txn)
    return True


@jit
def delete_leftovers(run: Any, txn: Any, slot: int) -> bool:
    """Delete the files of an operation that ends without a commit. Return whether the deletes end before the end of the run."""
    if HAS_PROTOCOL:
        enter_phase(run, txn, run_state.AFTER_ABORT)
        return run_steps(run, txn) == ENDED
    if HAS_ICEBERG and class_at(run, txn.cls).commit_path == run_state.ICEBERG:
        return delete_all(run, txn, slot)
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == run_state.PYICEBERG:
        return delete_lost_files(run, txn)
    return True
