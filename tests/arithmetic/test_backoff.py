"""Kinds of backoff: bounds, growth, and state of a client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.arithmetic.backoff import (
    AIMD,
    DECORRELATED,
    EQUAL,
    EXPONENTIAL,
    FULL,
    LINEAR,
    RETRY_AFTER,
    SLOTS,
    aimd_ms,
    backoff_ms,
    decorrelated_ms,
    equal_jitter_ms,
    full_jitter_ms,
    grown_ms,
    linear_ms,
    next_wait_ms,
    retry_after_ms,
    slot_ms,
    state_after_commit_ms,
    state_after_loss_ms,
)
from endive.transaction.policy import BACKOFF_KINDS

uniforms = st.floats(0.0, 1.0, exclude_max=True)
retries = st.integers(1, 2_000)


def test_codes_are_in_the_order_of_the_names() -> None:
    codes = {"exponential": EXPONENTIAL, "full": FULL, "equal": EQUAL, "decorrelated": DECORRELATED, "slots": SLOTS, "aimd": AIMD}
    codes |= {"retry_after": RETRY_AFTER, "linear": LINEAR}
    assert tuple(codes) == BACKOFF_KINDS
    assert [codes[name] for name in BACKOFF_KINDS] == list(range(8))


@given(retries, uniforms)
def test_full_and_equal_jitter_stay_within_the_wait(retry: int, u: float) -> None:
    whole = grown_ms(retry, 10.0, 2.0, 5_000.0)
    assert full_jitter_ms(retry, 10.0, 2.0, 5_000.0, u) == whole * u
    assert whole / 2 <= equal_jitter_ms(retry, 10.0, 2.0, 5_000.0, u) <= whole


@given(st.floats(0.0, 10_000.0), uniforms)
def test_decorrelated_jitter_is_between_the_base_and_a_multiple_of_the_last_wait(last_ms: float, u: float) -> None:
    wait = decorrelated_ms(last_ms, 10.0, 3.0, 5_000.0, u)
    assert 10.0 <= wait <= max(10.0, min(5_000.0, 3.0 * last_ms) + 1e-9)


@given(retries, uniforms)
def test_a_linear_wait_grows_by_the_base(retry: int, u: float) -> None:
    assert linear_ms(retry, 10.0, 1e9, 0.0, u) == 10.0 * retry
    assert linear_ms(retry, 10.0, 70.0, 0.0, u) == min(10.0 * retry, 70.0)
    assert 0.75 * 70.0 <= linear_ms(7 + retry, 10.0, 70.0, 0.25, u) <= 1.25 * 70.0
    assert next_wait_ms(LINEAR, retry, 10.0, 2.0, 70.0, 0.25, False, 0.0, u) == linear_ms(retry, 10.0, 70.0, 0.25, u)


def test_slots_double_and_the_first_is_no_wait() -> None:
    assert slot_ms(1, 7.0, 1e9, 0.0) == 0.0
    assert {slot_ms(1, 7.0, 1e9, (i + 0.5) / 4) for i in range(4)} == {0.0, 7.0, 14.0, 21.0}
    assert {slot_ms(2, 7.0, 1e9, (i + 0.5) / 8) for i in range(8)} == {7.0 * i for i in range(8)}
    assert slot_ms(2_000, 7.0, 300.0, 0.5) == slot_ms(50, 7.0, 300.0, 0.5) == 300.0


def test_aimd_doubles_with_losses_and_goes_back_step_by_step() -> None:
    state = 10.0
    for expected in (20.0, 40.0, 80.0, 100.0, 100.0):
        state = state_after_loss_ms(AIMD, state, 0.0, 2.0, 100.0)
        assert state == expected
    for expected in (90.0, 80.0):
        state = state_after_commit_ms(state, 10.0)
        assert state == expected
    assert state_after_commit_ms(12.0, 10.0) == 10.0
    assert aimd_ms(80.0, 100.0, 0.25, 0.0) == 60.0


@given(st.integers(0, 5), retries, uniforms)
def test_the_dispatcher_calls_each(kind: int, retry: int, u: float) -> None:
    expected = {
        EXPONENTIAL: backoff_ms(retry, 10.0, 2.0, 500.0, 0.1, u, False),
        FULL: full_jitter_ms(retry, 10.0, 2.0, 500.0, u),
        EQUAL: equal_jitter_ms(retry, 10.0, 2.0, 500.0, u),
        DECORRELATED: decorrelated_ms(33.0, 10.0, 2.0, 500.0, u),
        SLOTS: slot_ms(retry, 33.0, 500.0, u),
        AIMD: aimd_ms(33.0, 500.0, 0.1, u),
    }
    assert next_wait_ms(kind, retry, 10.0, 2.0, 500.0, 0.1, False, 33.0, u) == expected[kind]


def test_only_decorrelated_and_aimd_remember_waits() -> None:
    after = [state_after_loss_ms(kind, 10.0, 77.0, 2.0, 500.0) for kind in range(6)]
    assert after == [10.0, 10.0, 10.0, pytest.approx(77.0), 10.0, 20.0]


def test_a_client_waits_at_least_the_retry_after_time() -> None:
    assert retry_after_ms(200.0, 0.5, 0.0) == 200.0
    assert retry_after_ms(200.0, 0.5, 0.5) == 250.0
    assert next_wait_ms(RETRY_AFTER, 9, 200.0, 2.0, 10.0, 0.0, False, 1.0, 0.7) == 200.0  # nothing grows, nothing is cut


def test_waits_with_a_small_base_or_without_one_grow_exponentially() -> None:
    assert grown_ms(5, 0.0, 2.0, 100.0) == 0.0
    assert grown_ms(3, 0.5, 2.0, 100.0) == 2.0
    assert grown_ms(1, 1.0, 2.0, 100.0) == 1.0
    assert aimd_ms(900.0, 300.0, 0.0, 0.5) == 300.0
    assert aimd_ms(200.0, 300.0, 0.0, 0.5) == 200.0
