"""Arithmetic that compiled code reads off the bits of a number: the same values as the functions that it takes the place of."""

# Numba's inner classes have no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.extending import intrinsic

from endive.arithmetic.draws import CELL_BITS, quantile_cell
from endive.simulation.compiled.lanes import constant, words_like

_MANTISSA = 52
_BIAS = 1023


def emit_cell(builder: Any, p: Any) -> tuple[Any, Any]:
    """Add the code of ``quantile_cell``, for a number or the lanes of a vector.

    The cell is the exponent, counted from one quarter down, and the first bits of the mantissa; the others say where in it.
    """
    words = words_like(p.type)

    def word(value: int) -> Any:
        return constant(words, value)

    bits = builder.bitcast(p, words)
    first = builder.lshr(bits, word(_MANTISSA - CELL_BITS))
    cell = builder.sub(builder.xor(first, word(_BIAS << CELL_BITS)), word(2 << CELL_BITS))
    rest = builder.and_(builder.shl(bits, word(CELL_BITS)), word((1 << _MANTISSA) - 1))
    above_one = builder.bitcast(builder.or_(rest, word(_BIAS << _MANTISSA)), p.type)
    return cell, builder.fsub(above_one, constant(p.type, 1.0))


@intrinsic
def _quantile_cell(typing_context: Any, p: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_tuple(builder, signature.return_type, emit_cell(builder, arguments[0]))

    return types.Tuple((types.int64, types.float64))(types.float64), generate


REPLACED: dict[Callable[..., Any], Any] = {quantile_cell: _quantile_cell}
"""What a kernel calls in the place of functions of the model's arithmetic."""
