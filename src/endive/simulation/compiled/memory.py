"""Where the arrays of a run lie: the run's record holds their addresses, and these functions find items there.

Handing one record to the functions of the kernel, in place of fifteen arrays, is what makes them cheap to call and to compile.
Whoever calls the kernel keeps the arrays alive (``layout.World`` does).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from endive.simulation.compiled import layout

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def _finder(array: str, dtype: np.dtype[np.void], *inner: str) -> Any:
    """A function (run, index, ...) that finds a record of an array; ``inner`` names the lengths of its inner dimensions.

    It is made of instructions, not of a compiled function: there are hundreds of such calls, and they cost nothing to compile.
    """
    record = from_dtype(dtype)

    @intrinsic
    def find(typing_context: Any, run: Any, *indices: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            run_pointer, packed = arguments
            position, *others = (builder.extract_value(packed, i) for i in range(1 + len(inner)))
            for name, index in zip(inner, others, strict=True):
                position = builder.add(builder.mul(position, _field(builder, run_pointer, name, _WORD)), index)
            first = _field(builder, run_pointer, array, _BYTES)
            offset = builder.mul(position, ir.Constant(_WORD, dtype.itemsize))
            return builder.bitcast(builder.gep(first, [offset], inbounds=True), context.get_value_type(record))

        packed = types.UniTuple(types.int64, 1 + len(inner))  # type: ignore[no-untyped-call]
        return record(run, packed), generate

    return find


def _field(builder: Any, run_pointer: Any, name: str, kind: Any) -> Any:
    """An address or size in the run's record. The kernel never changes one, so LLVM need not load it again after a store."""
    offset = ir.Constant(_WORD, layout.RUN.fields[name][1])  # type: ignore[index]
    place = builder.gep(builder.bitcast(run_pointer, _BYTES), [offset], inbounds=True)
    found = builder.load(builder.bitcast(place, kind.as_pointer()))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


def _array_at(item: Any) -> Any:
    """A function that makes an array, given the address of its first item and its length."""
    array = types.Array(item, 1, "C")

    @intrinsic
    def array_at(typing_context: Any, address: Any, length: Any) -> Any:
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

    return array_at


def _row_writer(first: int, end: int) -> Any:
    """A function (run, row, txn) that writes words of a transaction's row, each into the column of that word."""

    @intrinsic
    def write(typing_context: Any, run: Any, index: Any, txn: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            run_pointer, row, record = arguments
            words = builder.bitcast(record, _WORD.as_pointer())
            columns = _field(builder, run_pointer, "rows", _WORD.as_pointer())
            stride = _field(builder, run_pointer, "row_stride", _WORD)
            row = builder.add(row, builder.mul(stride, ir.Constant(_WORD, first)))
            for word in range(first, end):
                found = builder.load(builder.gep(words, [ir.Constant(_WORD, word)]))
                builder.store(found, builder.gep(columns, [row]))
                row = builder.add(row, stride)
            return context.get_dummy_value()

        return types.none(run, types.int64, txn), generate

    return write


_ROW_WORDS = layout.ROW.itemsize // 8
write_row = _row_writer(0, _ROW_WORDS - layout.BATCH_WORDS)
"""Write a transaction's row, but for what only commits of committers have: that is for ``write_batch``."""
write_batch = _row_writer(_ROW_WORDS - layout.BATCH_WORDS, _ROW_WORDS)
committer_at = _finder("committers", layout.COMMITTER)
handover_at = _finder("handovers", layout.HANDOVER)
class_at = _finder("classes", layout.CLASS)
source_at = _finder("sources", layout.SOURCE)
submission_at = _finder("submissions", layout.SUBMISSION)
known_version_at = _finder("known_versions", layout.INTEGER, "num_tables")
traced_partition_at = _finder("traced_partitions", layout.INTEGER)
txn_at = _finder("txns", layout.TXN)
group_at = _finder("groups", layout.GROUP)
table_at = _finder("tables", layout.TABLE)
event_at = _finder("heap", layout.EVENT)
candidate_at = _finder("candidates", layout.INTEGER)
partition_version_at = _finder("partitions", layout.INTEGER)
touched_at = _finder("touched", layout.TOUCHED, "max_tables")
row_table_at = _finder("row_tables", layout.INTEGER, "max_tables")
traits_at = _finder("traits", layout.TRAITS, "num_traits")
history_at = _finder("history", layout.HISTORY)
request_at = _finder("requests", layout.REQUEST)
history_partition_at = _finder("history_partitions", layout.INTEGER, "max_partitions")
partition_at = _finder("partitions_touched", layout.PARTITION, "max_tables", "max_partitions")
floats_at = _array_at(types.float64)
integers_at = _array_at(types.int64)
