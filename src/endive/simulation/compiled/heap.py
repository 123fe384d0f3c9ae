"""The queue of events: a binary heap by time, then by place (the number of the transaction, arrivals last)."""

from __future__ import annotations

from typing import Any

from endive.simulation.compiled.jit import jit
from endive.simulation.compiled.memory import event_at


@jit
def _put(run: Any, index: int, time_ms: float, place: int, slot: int) -> None:
    event = event_at(run, index)
    event.time_ms = time_ms
    event.place = place
    event.slot = slot


@jit
def _before(event: Any, time_ms: float, place: int) -> bool:
    """Whether an event comes before that time and place."""
    return event.time_ms < time_ms or (event.time_ms == time_ms and event.place < place)  # type: ignore[no-any-return]


@jit
def push(run: Any, time_ms: float, place: int, slot: int) -> None:
    """Add an event."""
    i = run.heap_size
    run.heap_size += 1
    while i > 0:
        parent = (i - 1) >> 1
        above = event_at(run, parent)
        if _before(above, time_ms, place):
            break
        _put(run, i, above.time_ms, above.place, above.slot)
        i = parent
    _put(run, i, time_ms, place, slot)


@jit
def await_event(run: Any, txn: Any, slot: int, event: int, delay_ms: float) -> None:
    """Let a transaction go on with an event after so many milliseconds of its own time."""
    txn.event = event
    push(run, txn.now_ms + delay_ms, txn.txn_id + 1, slot)


@jit
def pop(run: Any) -> None:
    """Remove the first event."""
    run.heap_size -= 1
    size = run.heap_size
    last = event_at(run, size)
    time_ms, place, slot = last.time_ms, last.place, last.slot
    i = 0
    child = 1
    while child < size:
        if child + 1 < size:
            left, right = event_at(run, child), event_at(run, child + 1)
            if _before(right, left.time_ms, left.place):
                child += 1
        below = event_at(run, child)
        if not _before(below, time_ms, place):
            break
        _put(run, i, below.time_ms, below.place, below.slot)
        i = child
        child = 2 * i + 1
    _put(run, i, time_ms, place, slot)
