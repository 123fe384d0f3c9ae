"""Traces of submissions in Parquet or CSV files, replayed by ``TraceArrivals``."""

from __future__ import annotations

import hashlib
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from endive.config.errors import closest, nearest
from endive.config.values import duration_ms
from endive.input_files import UnreadableError, check_rows, in_short
from endive.transaction import OPERATIONS, Transaction
from endive.workload import Submission

COLUMNS = {
    "time_ms": "time_ms",
    "time": "time_ms",
    "operation": "operation",
    "runtime_ms": "runtime_ms",
    "runtime": "runtime_ms",
    "table": "table",
    "partitions": "partitions",
}
"""Columns that a trace may have, and the field that each sets."""


_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")
"""Number as text: a column of a CSV file that mixes numbers and durations is a column of strings."""


class TraceError(ValueError):
    """Invalid trace; the message names the row and the allowed values."""


def read_trace(path: Path) -> tuple[Submission, ...]:
    """Read a trace.

    Raises:
        TraceError: If the content is invalid.
        OSError: If the file does not exist or is not readable.
    """
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


def trace_hash(path: Path) -> str:
    """Return a hash of the content of a trace."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


_BYTES_PER_SUBMISSION = 600
_MOST = 10**6
"""Exclusive upper bound of the numbers of tables and partitions."""


@lru_cache(maxsize=8)
def _read(path: Path, modified_ns: int, size: int) -> tuple[Submission, ...]:
    try:
        check_rows(path, _BYTES_PER_SUBMISSION)
    except UnreadableError as error:
        raise TraceError(str(error)) from None
    columns = _columns(path)
    if not columns["time_ms"]:
        raise TraceError("must have at least one row")
    submissions = []
    before_ms = 0.0
    for number, row in enumerate(zip(*columns.values(), strict=True), start=1):
        submission = _submission(dict(zip(columns, row, strict=True)), number)
        if submission.time_ms < before_ms:
            times = f"row {number} is at {submission.time_ms:.12g} ms and row {number - 1} at {before_ms:.12g} ms"
            raise TraceError(f"{times}; sort the rows by time")
        before_ms = submission.time_ms
        submissions.append(submission)
    return tuple(submissions)


def _columns(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a file by their canonical names."""
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(path)
        elif path.suffix == ".csv":
            import pyarrow.csv

            table = pyarrow.csv.read_csv(path)
        else:
            raise TraceError("must end in .parquet or .csv")
        names = table.column_names
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"cannot be read: {in_short(str(error))}") from error
    except UnicodeDecodeError:
        raise TraceError("is not valid UTF-8") from None
    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in COLUMNS:
            raise TraceError(f"unknown column {in_short(repr(name))}; {nearest(name, COLUMNS)}")
        if names.count(name) > 1:
            raise TraceError(f"duplicate column {in_short(repr(name))}")
        if COLUMNS[name] in found:
            raise TraceError(f"column {in_short(repr(name))} is an alias of {COLUMNS[name]!r}; keep one of them")
        found[COLUMNS[name]] = table.column(name).to_pylist()
    if "time_ms" not in found:
        raise TraceError("must have a column 'time_ms'")
    return found


def _submission(row: dict[str, Any], number: int) -> Submission:
    table = _whole(row.get("table"), f"row {number}: table")
    partitions = _partitions(row.get("partitions"), f"row {number}: partitions")
    if partitions is not None and table is None:
        raise TraceError(f"row {number}: partitions are given without a table")
    time_ms = _time(row["time_ms"], f"row {number}: time_ms")
    if time_ms is None:
        raise TraceError(f"row {number}: time_ms is missing")
    runtime_ms = _time(row.get("runtime_ms"), f"row {number}: runtime_ms")
    return Submission(time_ms, _operation(row.get("operation"), number), runtime_ms, table, partitions)


def _operation(name: Any, number: int) -> type[Transaction] | None:
    if name is None or name == "":
        return None
    if name not in OPERATIONS:
        allowed = closest(str(name), OPERATIONS) or f"; allowed: {', '.join(sorted(OPERATIONS))}"
        raise TraceError(f"row {number}: unknown operation {in_short(repr(name))}{allowed}")
    return OPERATIONS[name]


def _time(value: Any, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else duration_ms(value)
    except ValueError as error:
        raise TraceError(f"{where} {error} (got {in_short(repr(value))})") from None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise TraceError(f"{where} must be a finite number of milliseconds, at least 0 (got {in_short(repr(value))})")
    return float(number)


def _whole(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST or value != int(value):
        raise TraceError(f"{where} must be a whole number from 0 to {_MOST - 1:,} (got {in_short(repr(value))})")
    return int(value)


def _partitions(value: Any, where: str) -> frozenset[int] | None:
    """Parse partitions, given as a list or as text such as ``0;3``."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        parts = re.split(r"[;\s]+", value.strip())
        if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise TraceError(f"{where} must be numbers such as '0;3' (got {in_short(repr(value))})")
        value = [int(part) for part in parts]
    items = [_whole(item, where) for item in (value if isinstance(value, list) else [value])]
    if not items:
        raise TraceError(f"{where} must not be empty")
    return frozenset(item for item in items if item is not None)
