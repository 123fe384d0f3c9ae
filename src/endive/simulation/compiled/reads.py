"""Reads of the catalog: sent, taking effect when their event comes, and answered after it."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import moment_of_effect_ms
from endive.simulation.compiled.draws import catalog_uniform, client_ms, value
from endive.simulation.compiled.failures import resends_ms
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_FAILURES, HAS_LOG, HAS_SERVICE
from endive.simulation.compiled.heap import await_event as _await_event
from endive.simulation.compiled.jit import jit
from endive.simulation.compiled.layout import CATALOG_READ, DISCOVERY, LOG_ENTRY, READ
from endive.simulation.compiled.memory import class_at, group_at
from endive.simulation.compiled.service import send


@jit
def request_read(run: Any, txn: Any, slot: int, event: int) -> None:
    """Send a read of the catalog; it takes effect when the event comes."""
    if HAS_FAILURES and event != DISCOVERY and not wait_for_errors(run, txn, CATALOG_READ):
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
def rest_of_read(run: Any, txn: Any) -> float:
    """What is left of a read after its effect; log entries since the checkpoint make it longer."""
    if HAS_SERVICE:
        return txn.success_ms  # type: ignore[no-any-return]
    if HAS_LOG:
        return txn.success_ms + txn.failure_ms * group_at(run, txn.group).entries - txn.effect_ms  # type: ignore[no-any-return]
    return txn.success_ms - txn.effect_ms  # type: ignore[no-any-return]


@jit
def end_read(run: Any, txn: Any) -> bool:
    """Wait for the rest of a read, and let the client compute; says whether that was before the end."""
    rest = rest_of_read(run, txn)
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


@jit
def wait_for_errors(run: Any, txn: Any, component: int) -> bool:
    """The waits of the SDK for requests to the catalog that fail; says whether they were over before the end."""
    waited = resends_ms(txn, class_at(run, txn.cls).request_error, 1, 0.0)
    if waited > 0.0:
        if txn.now_ms + waited >= run.end_ms:
            return False
        txn.now_ms += waited
        txn.times[component] += waited
    return True
