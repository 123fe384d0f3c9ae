"""Instructions that are written once for a number and for the lanes of a vector: constants, bits, and look-ups lane by lane."""

# llvmlite has no types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

REAL, WORD = ir.DoubleType(), ir.IntType(64)
_PLACE = ir.IntType(32)


def is_vector(kind: Any) -> bool:
    """Tell whether a type is that of a vector."""
    return isinstance(kind, ir.VectorType)


def words_like(kind: Any) -> Any:
    """The type of words in the same number as the values of a type."""
    return ir.VectorType(WORD, kind.count) if is_vector(kind) else WORD


def constant(kind: Any, value: float | Sequence[int]) -> Any:
    """A constant of a type: in all lanes the same, unless there is a value for each."""
    if not is_vector(kind):
        return ir.Constant(kind, value)
    values = value if isinstance(value, Sequence) else [value] * kind.count
    return ir.Constant(kind, [ir.Constant(kind.element, each) for each in values])


def packed(builder: Any, kind: Any, items: Sequence[Any]) -> Any:
    """A vector of these values."""
    vector = ir.Constant(kind, ir.Undefined)
    for place, item in enumerate(items):
        vector = builder.insert_element(vector, item, ir.Constant(_PLACE, place))
    return vector


def unpacked(builder: Any, value: Any) -> list[Any]:
    """The values in a vector, or the one that is none."""
    if not is_vector(value.type):
        return [value]
    return [builder.extract_element(value, ir.Constant(_PLACE, place)) for place in range(value.type.count)]


def shuffled(builder: Any, one: Any, two: Any, places: Sequence[int]) -> Any:
    """A vector of values of two others, by their places in both."""
    mask = constant(ir.VectorType(_PLACE, len(places)), places)
    return builder.shuffle_vector(one, two, mask)


def looked_up(builder: Any, table: Any, places: Any) -> Any:
    """Words of a table, for each lane its own."""
    zero = ir.Constant(WORD, 0)
    found = [builder.load(builder.gep(table, [zero, place], inbounds=True)) for place in unpacked(builder, places)]
    return packed(builder, places.type, found) if is_vector(places.type) else found[0]


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Add the code of a b + c, rounded once."""
    kind = next(each.type for each in (a, b, c) if not isinstance(each, float))
    name = f"llvm.fma.v{kind.count}f64" if is_vector(kind) else "llvm.fma.f64"
    function = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
    return builder.call(function, [constant(kind, each) if isinstance(each, float) else each for each in (a, b, c)])
