"""What fails, by a transaction's own stream: the compiled part of ``endive.transaction.failures``."""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import any_error_probability, sdk_resend_wait_ms
from endive.randomness import Purpose
from endive.simulation.compiled.draws import uniform_at
from endive.simulation.compiled.jit import jit

_FAILURE = int(Purpose.FAILURE)


@jit
def failure_uniform(txn: Any) -> float:
    """The transaction's next draw for failures."""
    u = uniform_at(txn.key, _FAILURE, txn.failure_index)
    txn.failure_index += 1
    return u


@jit
def fails(txn: Any, probability: float) -> bool:
    """Whether something fails that is as likely as that; what cannot fail draws nothing."""
    return probability > 0.0 and failure_uniform(txn) < probability


@jit
def resends_ms(txn: Any, request_error: float, requests: int, latency_ms: float) -> float:
    """What errors of some of the requests add: each one's latency again, and the wait of the SDK before."""
    added = 0.0
    errors = 0
    probability = any_error_probability(request_error, requests)
    while fails(txn, probability):
        errors += 1
        added += sdk_resend_wait_ms(errors, failure_uniform(txn)) + latency_ms
        probability = request_error
    return added
