"""What follows the answer to a commit: it may be lost, the operation may be done, be given up, or be tried again."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import status_check_wait_ms
from endive.simulation.compiled import layout
from endive.simulation.compiled.arrivals import know_written
from endive.simulation.compiled.draws import client_ms
from endive.simulation.compiled.ends import abort, succeed
from endive.simulation.compiled.failures import fails
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_FAILURES, HAS_ICEBERG, HAS_LIMITS, HAS_PYICEBERG
from endive.simulation.compiled.iceberg import delete_all
from endive.simulation.compiled.jit import inlined, jit
from endive.simulation.compiled.memory import class_at
from endive.simulation.compiled.pyiceberg import clean_up
from endive.simulation.compiled.reads import end_read, request_read
from endive.simulation.compiled.sending import send_commit
from endive.simulation.compiled.steps import back_off, step


@jit
def take_answer(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """A commit is answered, unless the answer is lost."""
    if HAS_CLIENTS and not _compute_after_commit(run, txn):
        return
    txn.times[layout.CATALOG_COMMIT] += txn.elapsed_ms
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


@inlined
def _compute_after_commit(run: Any, txn: Any) -> bool:
    """Let the client compute when a commit was answered; says whether it was done before the end."""
    computing = client_ms(run, txn, class_at(run, txn.cls))
    txn.now_ms += computing
    txn.elapsed_ms += computing
    return txn.now_ms < run.end_ms  # type: ignore[no-any-return]


@jit
def _lose_answer(run: Any, txn: Any, slot: int, success: bool) -> None:
    """Nobody knows what became of a commit: look, try again, or send it again with its key."""
    on_unknown = class_at(run, txn.cls).on_unknown
    txn.unknown_outcomes += 1
    if HAS_LIMITS:
        txn.final_reason = layout.NO_REASON
    if on_unknown == layout.UNKNOWN_CHECK:
        txn.took_effect = 1 if success else 0
        txn.status_checks = 0
        request_read(run, txn, slot, layout.STATUS_CHECK)
    elif on_unknown == layout.UNKNOWN_RETRY:
        lose_attempt(run, txn, slot)
    else:
        txn.known_by_key = 1 if success else 0
        send_commit(run, txn, slot)


@inlined
def learn_status(run: Any, txn: Any, slot: int) -> None:
    """The catalog as read to learn what became of a commit; the answer may be lost, too."""
    cls = class_at(run, txn.cls)
    effect_at = txn.now_ms
    if not end_read(run, txn):
        return
    txn.status_checks += 1
    if not fails(txn, cls.lost_answer):
        _learn_outcome(run, txn, slot, txn.took_effect == 1, effect_at)
    elif txn.status_checks > cls.status_checks:
        abort(run, txn, slot, layout.STATE_UNKNOWN)
    elif step(run, txn, layout.BACKOFF, status_check_wait_ms(txn.status_checks, cls.min_wait_ms, cls.max_wait_ms)):
        request_read(run, txn, slot, layout.STATUS_CHECK)


@jit
def _learn_outcome(run: Any, txn: Any, slot: int, success: bool, effect_at: float) -> None:
    """The outcome of an attempt is known: done, give up, or wait and read the catalog again."""
    cls = class_at(run, txn.cls)
    if HAS_CLIENTS and success and cls.keeps_handles:
        know_written(run, txn, slot)
    if HAS_LIMITS and not success and txn.final_reason != layout.NO_REASON:
        if delete_leftovers(run, txn, slot):
            abort(run, txn, slot, txn.final_reason)
    elif not success:
        lose_attempt(run, txn, slot)
    elif HAS_ICEBERG and cls.commit_path == layout.ICEBERG:
        request_read(run, txn, slot, layout.AFTER_COMMIT)
    elif HAS_PYICEBERG and cls.commit_path == layout.PYICEBERG:
        if clean_up(run, txn):
            succeed(run, txn, slot, effect_at)
    else:
        succeed(run, txn, slot, effect_at)


@jit
def lose_attempt(run: Any, txn: Any, slot: int) -> None:
    """Give up, or wait and read the catalog again."""
    cls = class_at(run, txn.cls)
    if HAS_PYICEBERG:
        txn.lost_files += txn.counts[layout.FILE_WRITE] + txn.counts[layout.LIST_WRITE] - txn.written_before
    if txn.attempt >= cls.max_retries:
        if delete_leftovers(run, txn, slot):
            abort(run, txn, slot, layout.MAX_RETRIES)
    elif txn.attempt >= cls.timeout_from_retry and txn.now_ms - txn.commit_started_ms > cls.timeout_ms:
        if delete_leftovers(run, txn, slot):
            abort(run, txn, slot, layout.TIMEOUT)
    else:
        txn.attempt += 1
        txn.retries += 1
        if back_off(run, txn, cls):
            request_read(run, txn, slot, layout.RETRY_READ if cls.commit_path == layout.ENDIVE else layout.REFRESH)


@jit
def delete_leftovers(run: Any, txn: Any, slot: int) -> bool:
    """What is deleted when an operation ends without success."""
    if HAS_ICEBERG and class_at(run, txn.cls).commit_path == layout.ICEBERG:
        return delete_all(run, txn, slot)
    if HAS_PYICEBERG and class_at(run, txn.cls).commit_path == layout.PYICEBERG:
        return clean_up(run, txn)
    return True
