"""Schedule events in a queue, a heap ordered by time.

Events at the same time are ordered by transaction, followed by arrivals. An event has a time and an owner: the slot of a
transaction, or ``arrival(source)``. Each node has four adjacent children, so the heap has half the levels of a binary heap, and the
children of a node share a cache line.

Most events are soon followed by another event of the same transaction. The queue therefore leaves a hole at the top when it returns
its first event. The next added event fills the hole and moves down only a few levels. If the queue removed its first event
immediately, the last event would move down through all levels.
"""

from __future__ import annotations

from typing import Any

from endive.simulation.compiled.features import inlined, jit
from endive.simulation.compiled.memory import event_at, txn_at

_ARRIVALS = 2**62
"""Rank of arrivals among events at the same time, after all transactions."""


@inlined
def arrival(source_id: int) -> int:
    """Return the owner number of the arrivals of a source.

    The function is its own inverse: it also returns the source of an owner number.
    """
    return -1 - source_id


@jit
def _place(run: Any, owner: int) -> int:
    """Return the rank of an event among events at the same time."""
    return txn_at(run, owner).txn_id if owner >= 0 else _ARRIVALS - owner


@inlined
def _put(run: Any, index: int, time_ms: float, owner: int) -> None:
    event = event_at(run, index)
    event.time_ms = time_ms
    event.owner = owner


@inlined
def _before(run: Any, time_ms: float, owner: int, other_ms: float, other: int) -> bool:
    """Return whether one event comes before another. The code branches only if the times are equal."""
    before = time_ms < other_ms
    if time_ms == other_ms:
        before = _place(run, owner) < _place(run, other)
    return before


@jit
def _first_of(run: Any, child: int, end: int) -> int:
    """Return the index of the earliest of several adjacent events."""
    first = child
    for other in range(child + 1, end):
        one, two = event_at(run, first), event_at(run, other)
        if _before(run, two.time_ms, two.owner, one.time_ms, one.owner):
            first = other
    return first


@jit
def push(run: Any, time_ms: float, owner: int) -> None:
    """Add an event to the queue."""
    if run.heap_hole:
        run.heap_hole = 0
        _sink(run, time_ms, owner)
        return
    i = run.heap_size
    run.heap_size += 1
    while i > 0:
        parent = (i - 1) >> 2
        above = event_at(run, parent)
        if _before(run, above.time_ms, above.owner, time_ms, owner):
            break
        _put(run, i, above.time_ms, above.owner)
        i = parent
    _put(run, i, time_ms, owner)


@inlined
def take_first(run: Any) -> None:
    """Remove the first event and leave a hole. The caller must call ``close_hole`` before it reads the next event."""
    run.heap_hole = 1


@inlined
def close_hole(run: Any) -> None:
    """Fill the hole at the top with the last event, if no event was added since the first event was removed."""
    if run.heap_hole:
        run.heap_hole = 0
        run.heap_size -= 1
        last = event_at(run, run.heap_size)
        _sink(run, last.time_ms, last.owner)


@jit
def await_event(run: Any, txn: Any, slot: int, event: int, delay_ms: float) -> None:
    """Schedule the next event of a transaction after a delay in ms."""
    txn.event = event
    push(run, txn.now_ms + delay_ms, slot)


@jit
def _sink(run: Any, time_ms: float, owner: int) -> None:
    """Replace the first event by another event, and move that event down to its level.

    The code that selects the first of four children branches only if two times are equal.
    """
    size = run.heap_size
    i = 0
    child = 1
    while child + 3 < size:
        a, b = event_at(run, child).time_ms, event_at(run, child + 1).time_ms
        c, d = event_at(run, child + 2).time_ms, event_at(run, child + 3).time_ms
        ab, cd = (b if b < a else a), (d if d < c else c)
        earliest = cd if cd < ab else ab
        if (a == b) | (c == d) | (ab == cd) | (earliest == time_ms):
            first = _first_of(run, child, child + 4)
            below = event_at(run, first)
            if not _before(run, below.time_ms, below.owner, time_ms, owner):
                _put(run, i, time_ms, owner)
                return
        else:
            if earliest > time_ms:
                _put(run, i, time_ms, owner)
                return
            left, right = int(b < a), 2 + int(d < c)
            first = child + (right if cd < ab else left)
        _put(run, i, earliest, event_at(run, first).owner)
        i = first
        child = 4 * i + 1
    if child < size:
        first = _first_of(run, child, size)
        below = event_at(run, first)
        if _before(run, below.time_ms, below.owner, time_ms, owner):
            _put(run, i, below.time_ms, below.owner)
            i = first
    _put(run, i, time_ms, owner)
