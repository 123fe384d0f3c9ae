"""Create functions that locate records in the arrays of a run, as LLVM instructions.

A kernel contains hundreds of calls of these functions. As LLVM instructions, they add no compile time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from endive.simulation.compiled.run_state import RUN

_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def record_finder(array: str, dtype: np.dtype[np.void], *inner: str) -> Any:
    """Return a function (run, index, ...) that locates a record of an array; ``inner`` names the lengths of inner dimensions."""
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
    """Load an address or a size from the run's record. Kernels never change them, so LLVM may keep the value across stores."""
    offset = ir.Constant(_WORD, RUN.fields[name][1])  # type: ignore[index]
    place = builder.gep(builder.bitcast(run_pointer, _BYTES), [offset], inbounds=True)
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def array_finder(item: Any) -> Any:
    """Return a function that creates an array from the address of its first item and its length."""
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
    """Return a function (run, row, txn) that copies words of a transaction's record to the columns of a row."""

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
