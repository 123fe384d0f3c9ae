"""Schemas as Spark spells them."""

from __future__ import annotations

import pyarrow as pa

_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
_TYPES |= {pa.list_(each): f"array<{name}>" for each, name in _TYPES.items()}


def ddl(schema: pa.Schema) -> str:
    """Spell an Arrow schema as Spark's DDL. Raises KeyError for a type that no table of the project has."""
    return ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)
