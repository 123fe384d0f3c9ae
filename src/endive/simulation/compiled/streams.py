"""Draw latencies, conflicts, backoff, failures and client CPU time from the random streams of a transaction."""

from __future__ import annotations

from typing import Any

import numpy as np

from endive.arithmetic.costs import any_error_probability, sdk_resend_wait_ms
from endive.arithmetic.draws import (
    CELL_BITS,
    NORMAL,
    derive,
    keyed_uniform,
    normal_quantile,
    quantile,
    quantile_at_score,
    quantile_cell,
)
from endive.randomness import Purpose
from endive.simulation.compiled.features import jit, replaces, word
from endive.simulation.compiled.memory import floats_at

_CONFLICT = int(Purpose.CONFLICT)
_BACKOFF = int(Purpose.BACKOFF)
_CLIENT = int(Purpose.CLIENT)
_MANTISSA_BITS = 52
_EXPONENT_BIAS = 1023


@replaces(quantile_cell)
def cell_from_bits(p: Any) -> Any:
    """Return the result of ``quantile_cell``, computed from the bits of the number.

    Numba compiles the ``frexp`` of ``quantile_cell`` to a slower call. The cell consists of the exponent, counted down from one
    quarter, and the leading bits of the mantissa. The remaining bits are the position in the cell.
    """
    bits = np.float64(p).view(np.int64)
    cell = ((bits >> (_MANTISSA_BITS - CELL_BITS)) ^ (_EXPONENT_BIAS << CELL_BITS)) - (2 << CELL_BITS)
    rest = (bits << CELL_BITS) & ((1 << _MANTISSA_BITS) - 1)
    return cell, np.int64(rest | (_EXPONENT_BIAS << _MANTISSA_BITS)).view(np.float64) - 1.0


@jit
def uniform_at(key: int, purpose: int, index: int) -> float:
    """Return the uniform random number with index ``index`` from a stream of a transaction."""
    return keyed_uniform(derive(key, word(purpose)), word(index))


@jit
def value(run: Any, parameters: Any, u: float) -> float:
    """Return the quantile ``u`` of a latency distribution, in ms."""
    return quantile(int(parameters[0]), parameters[1], parameters[2], parameters[3], u, floats_at(run.quantiles, run.num_quantiles))


@jit
def two_values(run: Any, one: Any, two: Any, u: float) -> tuple[float, float]:
    """Return the quantile ``u`` of two latency distributions, in ms. Both use one lookup of the normal quantile."""
    if one[0] < NORMAL or two[0] < NORMAL:
        return value(run, one, u), value(run, two, u)
    table = floats_at(run.quantiles, run.num_quantiles)
    z = normal_quantile(u, table)
    first = quantile_at_score(int(one[0]), one[1], one[2], one[3], z, table)
    return first, quantile_at_score(int(two[0]), two[1], two[2], two[3], z, table)


@jit
def catalog_uniform(txn: Any) -> float:
    """Return the next uniform random number of a transaction for the catalog."""
    u = keyed_uniform(txn.catalog_key, word(txn.catalog_index))
    txn.catalog_index += 1
    return u


@jit
def storage_uniform(txn: Any) -> float:
    """Return the next uniform random number of a transaction for the object store."""
    u = keyed_uniform(txn.storage_key, word(txn.storage_index))
    txn.storage_index += 1
    return u


@jit
def largest_storage_uniform(txn: Any, count: int) -> float:
    """Return the maximum of the next ``count`` uniform random numbers of a transaction for the object store."""
    largest = storage_uniform(txn)
    for _ in range(count - 1):
        u = storage_uniform(txn)
        if u > largest:
            largest = u
    return largest


@jit
def conflict_uniform(txn: Any) -> float:
    """Return the next uniform random number of a transaction for conflicts."""
    u = uniform_at(txn.key, _CONFLICT, txn.conflict_index)
    txn.conflict_index += 1
    return u


@jit
def backoff_uniform(txn: Any) -> float:
    """Return the next uniform random number of a transaction for backoff."""
    u = uniform_at(txn.key, _BACKOFF, txn.backoff_index)
    txn.backoff_index += 1
    return u


@jit
def client_ms(run: Any, txn: Any, cls: Any) -> float:
    """Return the client CPU time of one access, in ms."""
    if not cls.computes:
        return 0.0
    u = uniform_at(txn.key, _CLIENT, txn.client_index)
    txn.client_index += 1
    return value(run, cls.client_time, u)


_FAILURE = int(Purpose.FAILURE)


@jit
def failure_uniform(txn: Any) -> float:
    """Return the next uniform random number of a transaction for failures."""
    u = uniform_at(txn.key, _FAILURE, txn.failure_index)
    txn.failure_index += 1
    return u


@jit
def fails(txn: Any, probability: float) -> bool:
    """Return whether an event with this probability occurs. A probability of 0 draws no random number."""
    return probability > 0.0 and failure_uniform(txn) < probability


@jit
def any_fails(txn: Any, probability: float, requests: int) -> bool:
    """Return whether at least one of several events with this probability occurs."""
    return fails(txn, any_error_probability(probability, requests))


@jit
def resends_ms(txn: Any, request_error: float, requests: int, latency_ms: float) -> float:
    """Return the time by which request errors delay a request, in ms. Each error adds the latency of the request and the backoff of
    the SDK.
    """
    added = 0.0
    errors = 0
    probability = any_error_probability(request_error, requests)
    while fails(txn, probability):
        errors += 1
        added += sdk_resend_wait_ms(errors, failure_uniform(txn)) + latency_ms
        probability = request_error
    return added
