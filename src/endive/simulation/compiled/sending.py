"""Commits as they are sent to the catalog, whatever its kind; they take effect when their event comes."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import moment_of_effect_ms
from endive.simulation.compiled.draws import catalog_uniform, two_values
from endive.simulation.compiled.ends import abort
from endive.simulation.compiled.failures import fails
from endive.simulation.compiled.features import HAS_CAS, HAS_FAILURES, HAS_LIMITS, HAS_LOG, HAS_SERVICE
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.jit import jit
from endive.simulation.compiled.layout import CAS, CAS_EFFECT, CATALOG_COMMIT, COMMIT, CRASH, FAILED_COMMIT, LOG_COMMIT, NO_REASON
from endive.simulation.compiled.memory import class_at
from endive.simulation.compiled.reads import wait_for_errors
from endive.simulation.compiled.service import COMMITS, send


@jit
def begin_commit(run: Any, txn: Any, slot: int) -> None:
    """Send the commit of an attempt, unless the client crashes before."""
    if HAS_FAILURES:
        txn.known_by_key = 0
        if fails(txn, class_at(run, txn.cls).client_crash):
            abort(run, txn, slot, CRASH)
            return
    send_commit(run, txn, slot)


@jit
def send_commit(run: Any, txn: Any, slot: int) -> None:
    """Send a commit to the catalog of its kind."""
    if HAS_FAILURES and not wait_for_errors(run, txn, CATALOG_COMMIT):
        return
    if HAS_LIMITS:
        txn.final_reason = NO_REASON
    txn.elapsed_ms = 0.0
    txn.round_trips = 0
    if HAS_CAS and run.catalog_kind == CAS:
        send_request(run, txn, slot, COMMIT, FAILED_COMMIT, CAS_EFFECT)
    elif HAS_LOG:
        _await_event(run, txn, slot, LOG_COMMIT, 0.0)
    elif HAS_SERVICE:
        send(run, txn, slot, COMMITS)


@jit
def send_request(run: Any, txn: Any, slot: int, success: int, failure: int, event: int) -> None:
    """Send a conditional write to the catalog; one uniform makes both of its latencies."""
    txn.success_ms, txn.failure_ms = two_values(run, run.catalog[success], run.catalog[failure], catalog_uniform(txn))
    txn.effect_ms = moment_of_effect_ms(txn.success_ms, run.linearization)
    _await_event(run, txn, slot, event, txn.effect_ms)
