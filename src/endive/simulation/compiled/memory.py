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

from endive.simulation.compiled.layout import (
    CLASS,
    EVENT,
    GROUP,
    HISTORY,
    INTEGER,
    PARTITION,
    REQUEST,
    RUN,
    SOURCE,
    SUBMISSION,
    TABLE,
    TOUCHED,
    TRAITS,
    TXN,
    World,
)

_WORD = ir.IntType(64)


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
                position = builder.add(builder.mul(position, _field(builder, run_pointer, name)), index)
            offset = builder.mul(position, ir.Constant(_WORD, dtype.itemsize))
            return builder.inttoptr(builder.add(_field(builder, run_pointer, array), offset), context.get_value_type(record))

        packed = types.UniTuple(types.int64, 1 + len(inner))  # type: ignore[no-untyped-call]
        return record(run, packed), generate

    return find


def _field(builder: Any, run_pointer: Any, name: str) -> Any:
    """The value of an integer field of the run's record."""
    offset = RUN.fields[name][1]  # type: ignore[index]
    start = builder.ptrtoint(run_pointer, _WORD)
    address = builder.add(start, ir.Constant(_WORD, offset))
    return builder.load(builder.inttoptr(address, _WORD.as_pointer()))


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


def _copy_record(typing_context: Any, target: Any, source: Any) -> Any:
    """Copy a whole record over another of its kind."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.load(arguments[1]), arguments[0])
        return context.get_dummy_value()

    return types.none(target, source), generate


copy_record: Any = intrinsic(_copy_record)
class_at = _finder("classes", CLASS)
source_at = _finder("sources", SOURCE)
submission_at = _finder("submissions", SUBMISSION)
traced_partition_at = _finder("traced_partitions", INTEGER)
txn_at = _finder("txns", TXN)
group_at = _finder("groups", GROUP)
table_at = _finder("tables", TABLE)
event_at = _finder("heap", EVENT)
row_at = _finder("rows", TXN)
candidate_at = _finder("candidates", INTEGER)
partition_version_at = _finder("partitions", INTEGER)
touched_at = _finder("touched", TOUCHED, "max_tables")
row_table_at = _finder("row_tables", INTEGER, "max_tables")
traits_at = _finder("traits", TRAITS, "num_traits")
history_at = _finder("history", HISTORY)
request_at = _finder("requests", REQUEST)
history_partition_at = _finder("history_partitions", INTEGER, "max_partitions")
partition_at = _finder("partitions_touched", PARTITION, "max_tables", "max_partitions")
floats_at = _array_at(types.float64)
integers_at = _array_at(types.int64)


def point(world: World) -> World:
    """Write the addresses and sizes of a world's arrays into its run record."""
    run = world.run[0]
    for name, array in zip(world._fields, world, strict=True):
        if name != "run":
            assert array.flags.c_contiguous
            run[name] = array.ctypes.data
    run["slots"] = len(world.txns)
    run["row_capacity"] = len(world.rows)
    run["num_quantiles"] = len(world.quantiles)
    run["num_weights"] = len(world.weights)
    run["num_candidates"] = len(world.candidates)
    run["num_partitions"] = len(world.partitions)
    run["num_convoys"] = len(world.convoys)
    run["num_classes"] = len(world.classes)
    run["num_sources"] = len(world.sources)
    run["num_tables"] = len(world.tables)
    run["max_tables"], run["max_partitions"] = world.partitions_touched.shape[1:]
    run["scratch_length"] = world.scratch.shape[1]
    run["num_traits"] = world.traits.shape[1]
    run["history_capacity"] = len(world.history)
    return world
