"""The end of a transaction: its outcome, its row, and what becomes of its slot."""

from __future__ import annotations

from typing import Any

from endive.simulation.compiled.arrivals import await_arrival, learn
from endive.simulation.compiled.committers import end_batch_of
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_COMMITTERS, HAS_SERVICE
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.jit import jit
from endive.simulation.compiled.layout import ABORTED, CLOSED, COMMITTED, COMMITTING, DONE
from endive.simulation.compiled.memory import class_at, row_table_at, touched_at, write_batch, write_row


@jit
def succeed(run: Any, txn: Any, slot: int, effect_at: float) -> None:
    """The transaction is done, at once or at the end of what it still had to wait for."""
    txn.status = COMMITTED
    txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    if txn.now_ms == effect_at:
        finish(run, txn, slot)
    else:
        _await_event(run, txn, slot, DONE, 0.0)


@jit
def abort(run: Any, txn: Any, slot: int, reason: int) -> None:
    """Give the transaction up, for a reason."""
    if txn.status == COMMITTING:
        txn.commit_latency_ms += txn.now_ms - txn.commit_started_ms
    txn.status = ABORTED
    txn.reason = reason
    if HAS_SERVICE and txn.now_ms == run.now_ms:
        finish(run, txn, slot)
    else:
        _await_event(run, txn, slot, DONE, 0.0)


@jit
def finish(run: Any, txn: Any, slot: int) -> None:
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
