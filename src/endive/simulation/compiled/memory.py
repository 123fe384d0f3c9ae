"""Access the records of a run. The run's record contains the addresses of the arrays.

Functions of the kernel take one record instead of fifteen arrays, which makes them cheap to call and to compile. The caller of the
kernel keeps the arrays alive (``run_state.World``). A kernel contains hundreds of these accesses. They are generated as LLVM
instructions, so they add no compile time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from endive.simulation.compiled import run_state
from endive.simulation.compiled.run_state import RUN

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def record_finder(array: str, dtype: np.dtype[np.void], *inner: str) -> Any:
    """Return a kernel function (run, index, ...) that returns a record of an array.

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
    """Return a kernel function that creates an array from the address of its first item and its length."""
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
    """Return a kernel function (run, row, txn) that copies words of the record of a transaction to the columns of a row."""

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
