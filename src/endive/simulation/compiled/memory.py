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

from endive.simulation.compiled.jit import jit
from endive.simulation.compiled.layout import (
    CLASS,
    EVENT,
    GROUP,
    INTEGER,
    PARTITION,
    SOURCE,
    TABLE,
    TOUCHED,
    TXN,
    World,
)


def _record_at(dtype: np.dtype[np.void]) -> Any:
    """A function that finds the record at an index, given the address of the first."""
    record = from_dtype(dtype)

    @intrinsic  # type: ignore[untyped-decorator]
    def record_at(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first, position = arguments
            offset = builder.mul(position, ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(first, offset), context.get_value_type(record))

        return record(types.int64, types.int64), generate

    return record_at


def _array_at(item: Any) -> Any:
    """A function that makes an array, given the address of its first item and its length."""
    array = types.Array(item, 1, "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def array_at(typing_context: Any, address: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first, shape = arguments
            made = make_array(array)(context, builder)
            size = ir.Constant(ir.IntType(64), 8)
            pointer = builder.inttoptr(first, made.data.type)
            populate_array(made, data=pointer, shape=[shape], strides=[size], itemsize=size, meminfo=None)
            return made._getvalue()

        return array(types.int64, types.int64), generate

    return array_at


@intrinsic  # type: ignore[untyped-decorator]
def copy_record(typing_context: Any, target: Any, source: Any) -> Any:
    """Copy a whole record over another of its kind."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.load(arguments[1]), arguments[0])
        return context.get_dummy_value()

    return types.none(target, source), generate


_class = _record_at(CLASS)
_source = _record_at(SOURCE)
_txn = _record_at(TXN)
_touched = _record_at(TOUCHED)
_partition = _record_at(PARTITION)
_group = _record_at(GROUP)
_table = _record_at(TABLE)
_event = _record_at(EVENT)
_integer = _record_at(INTEGER)
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
    return world


@jit
def class_at(run: Any, index: int) -> Any:
    """A class."""
    return _class(run.classes, index)


@jit
def source_at(run: Any, index: int) -> Any:
    """A source of arrivals."""
    return _source(run.sources, index)


@jit
def txn_at(run: Any, slot: int) -> Any:
    """A transaction in flight."""
    return _txn(run.txns, slot)


@jit
def touched_at(run: Any, slot: int, position: int) -> Any:
    """A table that a transaction touches."""
    return _touched(run.touched, slot * run.max_tables + position)


@jit
def partition_at(run: Any, slot: int, position: int, number: int) -> Any:
    """A partition that a transaction writes, of the table at a position."""
    return _partition(run.partitions_touched, (slot * run.max_tables + position) * run.max_partitions + number)


@jit
def group_at(run: Any, index: int) -> Any:
    """A table group."""
    return _group(run.groups, index)


@jit
def table_at(run: Any, index: int) -> Any:
    """A table."""
    return _table(run.tables, index)


@jit
def partition_version_at(run: Any, index: int) -> Any:
    """How often a partition was written by name."""
    return _integer(run.partitions, index)


@jit
def event_at(run: Any, index: int) -> Any:
    """An event in the queue."""
    return _event(run.heap, index)


@jit
def row_at(run: Any, index: int) -> Any:
    """A finished transaction."""
    return _txn(run.rows, index)


@jit
def row_table_at(run: Any, row: int, position: int) -> Any:
    """A table that a finished transaction wrote."""
    return _integer(run.row_tables, row * run.max_tables + position)


@jit
def candidate_at(run: Any, cls: Any, index: int) -> int:
    """One of the tables that a class may touch."""
    return _integer(run.candidates, cls.first_candidate + index).value  # type: ignore[no-any-return]
