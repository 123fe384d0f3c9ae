"""Measured latencies by operation of a store."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from endive.analysis import Floats
from endive.calibrate.columns import UNITS, Columns, find_columns, numbers, read_rows
from endive.calibrate.errors import InputError
from endive.config.durations import MOST_MS
from endive.storage import OBJECT_KINDS

BASIC_OPERATIONS = ("read", "write", "cas", "failed_cas", "append", "failed_append")
OPERATIONS = (*BASIC_OPERATIONS, *(f"{access}.{kind}" for access in ("read", "write") for kind in OBJECT_KINDS))
"""What a profile has latencies for."""
_ALIASES = {
    "read": ("get", "get_object", "getobject", "head", "head_object", "load", "download", "select"),
    "write": ("put", "put_object", "putobject", "upload", "post", "create", "insert"),
    "cas": ("conditional_put", "put_if_match", "if_match", "put_if_none_match", "compare_and_swap", "swap", "commit", "update"),
    "failed_cas": ("cas_failed", "failed_conditional_put", "precondition_failed", "conflict"),
    "append": ("append_object", "append_block"),
    "failed_append": ("append_failed",),
}
_KNOWN = {name: operation for operation, names in _ALIASES.items() for name in names} | {name: name for name in OPERATIONS}
_MOST_BYTES = 1e15
_REFUSED = ("412", "409", "precondition", "conflict", "failed_condition")
_FAILED = {"cas": "failed_cas", "append": "failed_append"}


@dataclass(frozen=True)
class Sample:
    """The latencies of one operation, in the order in which they were measured; ``sizes_bytes`` where they are known."""

    operation: str
    latencies_ms: Floats
    sizes_bytes: Floats | None = None


@dataclass(frozen=True)
class Measurements:
    """What files of measurements hold. ``notes`` says what was guessed and what was left out."""

    samples: tuple[Sample, ...]
    notes: tuple[str, ...]


def read_measurements(
    paths: Iterable[Path],
    *,
    columns: Mapping[str, str | None] | None = None,
    operation: str | None = None,
    renamed: Mapping[str, str] | None = None,
) -> Measurements:
    """Read latencies from files.

    ``columns`` names columns (operation, latency, size, status) and the unit, where they shall not be guessed; ``operation`` is
    that of all rows where there is no column for it; ``renamed`` maps names in the files to those of ``OPERATIONS``. Raises
    InputError.
    """
    by_operation: dict[str, list[tuple[float, float | None]]] = {}
    notes: list[str] = []
    for path in paths:
        table = read_rows(path)
        found = find_columns(table.column_names, str(path), columns or {})
        notes += [f"{path}: {guess}" for guess in found.guessed]
        dropped = _collect(by_operation, table, found, str(path), operation, renamed or {})
        if dropped:
            why = "without a latency above 0, of a size that none is, or that are errors of the store"
            notes.append(f"{path}: {dropped:,} rows {why}, were left out")
    if not by_operation:
        raise InputError("there are no latencies in these files")
    return Measurements(tuple(_sample(name, rows) for name, rows in sorted(by_operation.items())), tuple(notes))


def _sample(operation: str, rows: list[tuple[float, float | None]]) -> Sample:
    sizes = [size for _, size in rows if size is not None]
    known = len(sizes) == len(rows)
    return Sample(operation, np.array([latency for latency, _ in rows]), np.array(sizes, np.float64) if known else None)


def _collect(
    into: dict[str, list[tuple[float, float | None]]],
    table: pa.Table,
    columns: Columns,
    where: str,
    operation: str | None,
    renamed: Mapping[str, str],
) -> int:
    """Add the rows of a file; returns how many were left out."""
    latencies = numbers(table, columns.latency, where)
    sizes = numbers(table, columns.size, where) if columns.size else [None] * table.num_rows
    names, statuses = _texts(table, columns.operation), _texts(table, columns.status)
    if columns.operation is None and operation is None:
        raise InputError(f"{where}: no column says the operation; name it with --operation-column, or say --operation for all rows")
    known: dict[str, str] = {}
    dropped = 0
    for row, latency in enumerate(latencies):
        name = names[row] if operation is None else operation
        if name not in known:
            known[name] = operation_of(name, where, renamed)
        of = _with_status(known[name], statuses[row])
        size = sizes[row]
        sized = size is None or 0.0 <= size <= _MOST_BYTES  # false also of what is no number, as is the next
        if of is None or not sized or latency is None or not 0.0 < latency * UNITS[columns.unit] <= MOST_MS:
            dropped += 1
            continue
        into.setdefault(of, []).append((latency * UNITS[columns.unit], size))
    return dropped


def _texts(table: pa.Table, column: str | None) -> list[str]:
    return [""] * table.num_rows if column is None else [str(value) for value in table.column(column).to_pylist()]


def _with_status(operation: str, status: str) -> str | None:
    """The operation by its outcome: a refused condition is an operation of its own, an error of the store is none."""
    word = status.strip().lower()
    if any(mark in word for mark in _REFUSED):
        return _FAILED.get(operation, operation if operation in _FAILED.values() else None)
    if word[:1] in ("4", "5") and len(word) == 3 and word.isdigit():
        return None
    if word in ("error", "timeout", "failed", "failure", "false"):
        return _FAILED.get(operation)
    return operation


def operation_of(name: str, where: str, renamed: Mapping[str, str]) -> str:
    """The operation that a name means. Raises InputError for one that means none."""
    if name in renamed:
        if renamed[name] not in OPERATIONS:
            raise InputError(f"--rename {name}={renamed[name]}: operations are {', '.join(OPERATIONS)}")
        return renamed[name]
    word = name.strip().lower().replace("-", "_").replace(" ", "_")
    if word in _KNOWN:
        return _KNOWN[word]
    near = difflib.get_close_matches(word, _KNOWN, n=1)
    hint = f"; {near[0]!r} is near" if near else ""
    raise InputError(
        f"{where}: operation {name!r} is not known{hint}; say what it is with --rename {name}=read (or write, cas, ...)"
    )
