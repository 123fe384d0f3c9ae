"""Compute the wait before a retry for each kind of backoff.

All functions take a uniform random number ``u`` and return milliseconds. Between its waits, a client keeps one number, its state:
the last wait (decorrelated jitter), the length of a slot (slots), or the current wait (AIMD).
"""

from __future__ import annotations

import math

EXPONENTIAL, FULL, EQUAL, DECORRELATED, SLOTS, AIMD, RETRY_AFTER, LINEAR = range(8)
FIRST_SLOTS = 4
"""Number of slots before the first retry. The number doubles with each further retry."""


def grown_ms(retry: int, base_ms: float, multiplier: float, max_ms: float) -> float:
    """Return the wait before retry ``retry`` without jitter, in ms. Retries are counted from 1.

    The wait is base x multiplier^(retry - 1), at most ``max_ms``.
    """
    if base_ms > 0.0 and (retry - 1) * math.log(multiplier) >= 700.0:  # a larger power would overflow
        return max_ms
    grown = base_ms * multiplier ** float(retry - 1) if base_ms > 0.0 else 0.0
    return grown if grown < max_ms else max_ms


def backoff_ms(
    retry: int, base_ms: float, multiplier: float, max_ms: float, jitter: float, u: float, upwards: bool = False
) -> float:
    """Return the wait of exponential backoff with proportional jitter, in ms.

    ``u`` varies the wait by the fraction ``jitter`` in both directions, or only increases it if ``upwards`` is set.
    """
    return grown_ms(retry, base_ms, multiplier, max_ms) * (1.0 + jitter * (u if upwards else 2.0 * u - 1.0))


def full_jitter_ms(retry: int, base_ms: float, multiplier: float, max_ms: float, u: float) -> float:
    """Return the wait of exponential backoff with full jitter, in ms: uniform between 0 and the wait without jitter."""
    return grown_ms(retry, base_ms, multiplier, max_ms) * u


def equal_jitter_ms(retry: int, base_ms: float, multiplier: float, max_ms: float, u: float) -> float:
    """Return the wait of exponential backoff with equal jitter, in ms: uniform between 50% and 100% of the wait without jitter."""
    return grown_ms(retry, base_ms, multiplier, max_ms) * (0.5 + 0.5 * u)


def decorrelated_ms(last_ms: float, base_ms: float, multiplier: float, max_ms: float, u: float) -> float:
    """Return the wait with decorrelated jitter: between ``base_ms`` and ``multiplier`` x ``last_ms``, at most ``max_ms``."""
    longest = last_ms * multiplier
    wait = base_ms + (longest - base_ms) * u if longest > base_ms else base_ms
    return wait if wait < max_ms else max_ms


def slot_ms(retry: int, slot_length_ms: float, max_ms: float, u: float) -> float:
    """Return the wait until the start of a random slot, in ms.

    The first retry has ``FIRST_SLOTS`` slots, and each further retry has twice the slots of the previous one.
    """
    if retry > 60:
        return max_ms
    wait = slot_length_ms * math.floor(u * FIRST_SLOTS * 2.0 ** float(retry - 1))
    return wait if wait < max_ms else max_ms


def aimd_ms(state_ms: float, max_ms: float, jitter: float, u: float) -> float:
    """Return the wait of an AIMD client, in ms.

    The wait increases after each failed attempt and decreases after each commit.
    """
    return (state_ms if state_ms < max_ms else max_ms) * (1.0 + jitter * (2.0 * u - 1.0))


def retry_after_ms(told_ms: float, jitter: float, u: float) -> float:
    """Return the wait that a service requested, in ms. ``u`` extends the wait by at most the fraction ``jitter``."""
    return told_ms * (1.0 + jitter * u)


def linear_ms(retry: int, base_ms: float, max_ms: float, jitter: float, u: float) -> float:
    """Return a wait that grows by ``base_ms`` with each retry, in ms, like Hadoop's proportional sleep.

    ``u`` varies the wait by the fraction ``jitter`` in both directions.
    """
    wait = base_ms * float(retry)
    return (wait if wait < max_ms else max_ms) * (1.0 + jitter * (2.0 * u - 1.0))


def next_wait_ms(
    kind: int, retry: int, base_ms: float, multiplier: float, max_ms: float, jitter: float, upwards: bool, state_ms: float, u: float
) -> float:
    """Return the wait before retry ``retry`` for a kind of backoff, in ms. Retries are counted from 1."""
    if kind == FULL:
        return full_jitter_ms(retry, base_ms, multiplier, max_ms, u)
    if kind == EQUAL:
        return equal_jitter_ms(retry, base_ms, multiplier, max_ms, u)
    if kind == DECORRELATED:
        return decorrelated_ms(state_ms, base_ms, multiplier, max_ms, u)
    if kind == SLOTS:
        return slot_ms(retry, state_ms, max_ms, u)
    if kind == AIMD:
        return aimd_ms(state_ms, max_ms, jitter, u)
    if kind == RETRY_AFTER:
        return retry_after_ms(base_ms, jitter, u)
    if kind == LINEAR:
        return linear_ms(retry, base_ms, max_ms, jitter, u)
    return backoff_ms(retry, base_ms, multiplier, max_ms, jitter, u, upwards)


def state_after_loss_ms(kind: int, state_ms: float, wait_ms: float, multiplier: float, max_ms: float) -> float:
    """Return the backoff state of a client after a failed attempt and its wait, in ms."""
    if kind == DECORRELATED:
        return wait_ms
    if kind == AIMD:
        longer = state_ms * multiplier
        return longer if longer < max_ms else max_ms
    return state_ms


def state_after_commit_ms(state_ms: float, base_ms: float) -> float:
    """Return the backoff state of an AIMD client after a commit, in ms: its wait minus ``base_ms``, but at least ``base_ms``."""
    shorter = state_ms - base_ms
    return shorter if shorter > base_ms else base_ms
