"""Access the records of a run, and schedule its events. The record of the run contains the addresses of all arrays.

Kernel functions take one record instead of fifteen arrays, which makes them cheap to call and to compile. The caller of the kernel
keeps the arrays alive (``run_state.World``). A kernel contains hundreds of these accesses. They are generated as LLVM instructions,
so they add no compile time.

The queue of events is a heap ordered by time. Events at the same time are ordered by transaction, followed by arrivals. An event
has a time and an owner: the slot of a transaction, or ``arrival(source)``. Each node has four adjacent children, so the heap has
half the levels of a binary heap, and the children of a node share a cache line.

Most events are soon followed by another event of the same transaction. Therefore, the queue leaves a hole at the top when it
returns its first event. The next added event fills the hole and moves down only a few levels. If the hole were filled immediately,
the last event of the heap would have to move down through all levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from endive.simulation.compiled import run_state
from endive.simulation.compiled.features import inlined, jit
from endive.simulation.compiled.run_state import RUN

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def record_finder(array: str, dtype: np.dtype[np.void], *inner: str) -> Any:
    """Return a kernel function ``(run, index, ...)`` that returns a record of an array.

    ``inner`` names the fields with the lengths of the inner dimensions.
    """
    record = from_dtype(dtype)

    @intrinsic
    def find(typing_context: Any, run: Any, *indices: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            run_pointer, packed = arguments
            position, *others = (builder.extract_value(packed, i) for i in range(1 + len(inner)))
            for name, index in zip(inner, others, strict=True):
                position = builder.add(builder.mul(position, _load_field(builder, run_pointer, name, _WORD)), index)
            first = _load_field(builder, run_pointer, array, _BYTES)
            offset = builder.mul(position, ir.Constant(_WORD, dtype.itemsize))
            return builder.bitcast(builder.gep(first, [offset], inbounds=True), context.get_value_type(record))

        packed = types.UniTuple(types.int64, 1 + len(inner))  # type: ignore[no-untyped-call]
        return record(run, packed), generate

    return find


def _load_field(builder: Any, run_pointer: Any, name: str, kind: Any) -> Any:
    """Load an address or a size from the record of the run.

    Kernels never change these fields, so LLVM may load a value once and reuse it after stores.
    """
    offset = ir.Constant(_WORD, RUN.fields[name][1])  # type: ignore[index]
    place = builder.gep(builder.bitcast(run_pointer, _BYTES), [offset], inbounds=True)
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def array_finder(item: Any) -> Any:
    """Return a kernel function that creates an array from the address of the first item and the length."""
    array = types.Array(item, 1, "C")

    @intrinsic
    def find(typing_context: Any, address: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first, shape = arguments
            made = make_array(array)(context, builder)  # type: ignore[no-untyped-call]
            size = ir.Constant(_WORD, 8)
            pointer = builder.inttoptr(first, made.data.type)
            populate_array(  # type: ignore[no-untyped-call]
                made, data=pointer, shape=[shape], strides=[size], itemsize=size, meminfo=None
            )
            return made._getvalue()

        return array(types.int64, types.int64), generate

    return find


def row_writer(first: int, end: int) -> Any:
    """Return a kernel function ``(run, row, txn)`` that copies words of the record of a transaction to the columns of a row."""

    @intrinsic
    def write(typing_context: Any, run: Any, index: Any, txn: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            run_pointer, row, record = arguments
            words = builder.bitcast(record, _WORD.as_pointer())
            columns = _load_field(builder, run_pointer, "rows", _WORD.as_pointer())
            stride = _load_field(builder, run_pointer, "row_stride", _WORD)
            row = builder.add(row, builder.mul(stride, ir.Constant(_WORD, first)))
            for word in range(first, end):
                value = builder.load(builder.gep(words, [ir.Constant(_WORD, word)]))
                builder.store(value, builder.gep(columns, [row]))
                row = builder.add(row, stride)
            return context.get_dummy_value()

        return types.none(run, types.int64, txn), generate

    return write


_ROW_WORDS = run_state.ROW.itemsize // 8
_PROTOCOL_AT = _ROW_WORDS - run_state.PROTOCOL_WORDS
_BATCH_AT = _PROTOCOL_AT - run_state.BATCH_WORDS
write_row = row_writer(0, _BATCH_AT)
"""Kernel function that writes the row of a transaction, except the columns of committers and protocols."""
write_batch = row_writer(_BATCH_AT, _PROTOCOL_AT)
"""Kernel function that writes the columns of committers."""
write_requests = row_writer(_PROTOCOL_AT, _ROW_WORDS)
"""Kernel function that writes the columns of declarative protocols."""
step_at = record_finder("steps", run_state.STEP)
committer_at = record_finder("committers", run_state.COMMITTER)
handover_at = record_finder("handovers", run_state.HANDOVER)
class_at = record_finder("classes", run_state.CLASS)
source_at = record_finder("sources", run_state.SOURCE)
submission_at = record_finder("submissions", run_state.SUBMISSION)
known_version_at = record_finder("known_versions", run_state.INTEGER, "num_tables")
kept_table_at = record_finder("kept_tables", run_state.TABLE, "num_tables")
kept_at = record_finder("kept_handles", run_state.KEPT, "num_tables")
traced_partition_at = record_finder("traced_partitions", run_state.INTEGER)
txn_at = record_finder("txns", run_state.TXN)
group_at = record_finder("groups", run_state.GROUP)
table_at = record_finder("tables", run_state.TABLE)
event_at = record_finder("heap", run_state.EVENT)
candidate_at = record_finder("candidates", run_state.INTEGER)
partition_version_at = record_finder("partitions", run_state.INTEGER)
touched_at = record_finder("touched", run_state.TOUCHED, "max_tables")
row_table_at = record_finder("row_tables", run_state.INTEGER, "max_tables")
traits_at = record_finder("traits", run_state.TRAITS, "num_traits")
history_at = record_finder("history", run_state.HISTORY)
age_at = record_finder("ages", run_state.AGE)
request_at = record_finder("requests", run_state.REQUEST)
history_partition_at = record_finder("history_partitions", run_state.INTEGER, "max_partitions")
partition_at = record_finder("partitions_touched", run_state.PARTITION, "max_tables", "max_partitions")
floats_at = array_finder(types.float64)
integers_at = array_finder(types.int64)


_ARRIVALS = 2**62
"""Rank of arrivals among events at the same time, after all transactions."""


@inlined
def arrival(source_id: int) -> int:
    """Return the owner number of the arrivals of a source.

    The function is its own inverse, so it also returns the source of an owner number.
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
    """Remove the first event, and leave a hole. Call ``close_hole`` before the next event is read."""
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
