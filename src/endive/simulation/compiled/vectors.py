"""The latencies of an attempt's files, drawn side by side: the lanes of a vector do what ``draws.value`` does for one.

A draw is a chain of some hundred instructions, most of which wait for the one before, but the accesses of an attempt do not wait
for each other: their places in the stream are known. The arithmetic is the same, operation by operation, so the values are the
same, bit by bit.
"""

# Neither llvmlite nor Numba's inner classes have types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from endive.arithmetic.draws import GOLDEN, MIX_1, MIX_2, SMALLEST, TO_UNIT
from endive.simulation.compiled.bits import emit_cell
from endive.simulation.compiled.exponential import agrees_with_library, emit_exps
from endive.simulation.compiled.lanes import REAL, WORD, constant, packed, shuffled, unpacked
from endive.simulation.compiled.layout import CLASS, FILE_WRITE, LIST_READ, LIST_WRITE, METADATA_WRITE, RUN, TXN

LANES = (LIST_READ, FILE_WRITE, LIST_WRITE, METADATA_WRITE)
"""The accesses of an attempt on one table, in their order."""
CAN_DRAW_TOGETHER = agrees_with_library()
"""Whether vectors of this processor compute what its C library does."""
_REALS, _WORDS = ir.VectorType(REAL, len(LANES)), ir.VectorType(WORD, len(LANES))


def _loader(builder: Any, record: Any, dtype: np.dtype[np.void]) -> Callable[..., Any]:
    """A function that loads a field of a record, or an item of it."""
    first = builder.bitcast(record, ir.IntType(8).as_pointer())

    def load(name: str, item: int = 0, kind: Any = REAL) -> Any:
        offset = ir.Constant(WORD, dtype.fields[name][1] + 8 * item)  # type: ignore[index]
        return builder.load(builder.bitcast(builder.gep(first, [offset], inbounds=True), kind.as_pointer()))

    return load


def _uniforms(builder: Any, key: Any, index: Any) -> Any:
    """``keyed_uniform`` for the next indexes of a stream."""

    def words(value: int | Sequence[int]) -> Any:
        return constant(_WORDS, value)

    indexes = builder.add(packed(builder, _WORDS, [index] * len(LANES)), words(range(len(LANES))))
    z = builder.add(packed(builder, _WORDS, [key] * len(LANES)), builder.mul(indexes, words(GOLDEN)))
    z = builder.mul(builder.xor(z, builder.lshr(z, words(30))), words(MIX_1))
    z = builder.mul(builder.xor(z, builder.lshr(z, words(27))), words(MIX_2))
    z = builder.lshr(builder.xor(z, builder.lshr(z, words(31))), words(12))
    return builder.fmul(builder.fadd(builder.uitofp(z, _REALS), constant(_REALS, 0.5)), constant(_REALS, TO_UNIT))


def _scores(builder: Any, u: Any, table: Any) -> Any:
    """``normal_quantile`` of uniforms, of which none is one half."""
    least = constant(_REALS, SMALLEST)
    low = builder.fcmp_ordered("<", u, constant(_REALS, 0.5))
    p = builder.select(low, u, builder.fsub(constant(_REALS, 1.0), u))
    cells, x = emit_cell(builder, builder.select(builder.fcmp_ordered(">", p, least), p, least))
    rows = []
    for cell in unpacked(builder, cells):
        place = builder.gep(table, [builder.shl(cell, ir.Constant(WORD, 2))], inbounds=True)
        rows.append(builder.load(builder.bitcast(place, _REALS.as_pointer()), align=8))
    a, b, c, d = _transposed(builder, rows)
    inner = builder.fadd(b, builder.fmul(x, builder.fadd(c, builder.fmul(x, d))))
    z = builder.fadd(a, builder.fmul(x, inner))
    return builder.select(low, z, builder.fneg(z))


def _transposed(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Four vectors, one for each coefficient, of four with the coefficients of a cell."""
    even, odd = (0, 4, 2, 6), (1, 5, 3, 7)
    halves = [[shuffled(builder, rows[at], rows[at + 1], places) for at in (0, 2)] for places in (even, odd)]
    return [shuffled(builder, one, two, places) for places in ((0, 1, 4, 5), (2, 3, 6, 7)) for one, two in halves]


def _attempt_latencies(typing_context: Any, run: Any, txn: Any, cls: Any) -> Any:
    """The next latencies of the store's stream, for ``LANES``, all lognormal; and first of all whether none of them is extreme."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_run, of_txn, of_class = (
            _loader(builder, record, kind) for record, kind in zip(arguments, (RUN, TXN, CLASS), strict=True)
        )
        mus, sigmas, floors = (
            packed(builder, _REALS, [of_class("access", 4 * lane + column) for lane in LANES]) for column in (1, 2, 3)
        )
        u = _uniforms(builder, of_txn("storage_key", 0, WORD), of_txn("storage_index", 0, WORD))
        z = _scores(builder, u, of_run("quantiles", 0, REAL.as_pointer()))
        values, usual = emit_exps(builder, builder.fadd(mus, builder.fmul(sigmas, z)))
        values = builder.select(builder.fcmp_ordered(">", values, floors), values, floors)
        flags = builder.bitcast(usual, ir.IntType(len(LANES)))
        none_extreme = builder.icmp_unsigned("==", flags, ir.Constant(flags.type, (1 << len(LANES)) - 1))
        return context.make_tuple(builder, signature.return_type, (none_extreme, *unpacked(builder, values)))

    return types.Tuple((types.boolean, *[types.float64] * len(LANES)))(run, txn, cls), generate


attempt_latencies: Any = intrinsic(_attempt_latencies)
