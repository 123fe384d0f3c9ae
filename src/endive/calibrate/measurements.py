"""Read the measurements of users from files: latencies of requests, and commit reports of Iceberg clients.

Columns of latency files are recognized by name. Files of commit reports contain one JSON object per line.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from endive.analysis import Floats
from endive.calibrate import InputError
from endive.config.values import MOST_MS
from endive.input_files import UnreadableError, check_rows, in_short, read_content, unpacked
from endive.storage import OBJECT_KINDS

UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units of latencies, with their lengths in milliseconds."""
_UNIT_NAMES = {
    **dict.fromkeys(("ns", "nanos", "nanoseconds"), "ns"),
    **dict.fromkeys(("us", "µs", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ms", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "s"),
}
_PARQUET, _JSON, _TEXT = (".parquet", ".pq"), (".jsonl", ".ndjson", ".json"), (".csv", ".tsv", ".txt")
_BYTES_PER_ROW = 300
_OPERATION = ("operation", "op", "request", "method", "verb", "action", "kind", "type")
_LATENCY = ("latency", "duration", "elapsed", "response_time", "rtt", "time", "took")
_BYTES = ("bytes", "size_bytes", "size", "object_size", "content_length", "length")
_STATUS = ("status", "status_code", "code", "outcome", "result")


@dataclass(frozen=True)
class Columns:
    """Columns of a file of measurements, and the unit of its latencies.

    ``guessed`` describes the columns that were recognized by name.
    """

    operation: str | None
    latency: str
    unit: str
    size: str | None
    status: str | None
    guessed: tuple[str, ...]


def read_rows(path: Path) -> pa.Table:
    """Read a table from a CSV, Parquet or JSON lines file. Text files can be compressed with gzip.

    Raises:
        InputError: If the file cannot be read.
    """
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((*_PARQUET, *_JSON, *_TEXT)):
        raise InputError(f"{path}: unsupported file type; supported are .csv, .tsv and .jsonl (also .gz), and .parquet")
    try:
        check_rows(path, _BYTES_PER_ROW)
        table = _read_rows(path, name)
    except UnreadableError as error:
        raise InputError(f"{path}: {error}") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}") from error
    try:
        table.column_names  # noqa: B018  names are decoded on access
    except UnicodeDecodeError:
        raise InputError(f"{path}: the column names are not valid UTF-8") from None
    return table


def _read_rows(path: Path, name: str) -> pa.Table:
    if name.endswith(_PARQUET):
        return pa.parquet.read_table(path)
    with pa.input_stream(str(path), compression="detect") as stream:
        if name.endswith(_JSON):
            return pa.json.read_json(stream)
        delimiter = "\t" if name.endswith(".tsv") else ","
        return pa.csv.read_csv(stream, parse_options=pa.csv.ParseOptions(delimiter=delimiter))


def find_columns(names: Sequence[str], where: str, given: Mapping[str, str | None]) -> Columns:
    """Find the columns of a file of measurements by name.

    Args:
        names: Columns of the file.
        where: File, for error messages.
        given: Columns and unit that the user has set, by the keys ``operation``, ``latency``, ``size``, ``status`` and ``unit``.

    Raises:
        InputError: If the latency column or its unit is not found.
    """
    unit = given.get("unit")
    for key, column in given.items():
        if key != "unit" and column is not None and column not in names:
            raise InputError(f"{where}: there is no column {column!r}; the columns are {in_short(', '.join(names))}")
    if unit is not None and unit not in UNITS:
        raise InputError(f"{where}: the unit is {unit!r}, but must be one of {', '.join(UNITS)}")
    latency = given.get("latency") or _latency_column(names)
    if latency is None:
        raise InputError(
            f"{where}: no column looks like a latency; set one with --latency; the columns are {in_short(', '.join(names))}"
        )
    unit = unit or unit_of(latency)
    if unit is None:
        raise InputError(f"{where}: column {in_short(repr(latency))} has no known unit; set it with --unit ({', '.join(UNITS)})")
    known = given.get("latency") is not None and given.get("unit") is not None
    guessed = [] if known else [f"column {latency!r} contains the latency in {unit}"]
    found: dict[str, str | None] = {}
    for key, candidates in (("operation", _OPERATION), ("size", _BYTES), ("status", _STATUS)):
        found[key] = given.get(key) or _first(names, candidates, {latency})
        if given.get(key) is None and found[key] is not None:
            guessed.append(f"column {found[key]!r} contains the {'size in bytes' if key == 'size' else key}")
    return Columns(found["operation"], latency, unit, found["size"], found["status"], tuple(guessed))


def unit_of(name: str) -> str | None:
    """Return the unit in the name of a column, such as ``ms`` for ``latency_ms``, or None."""
    words = _words(name)
    return _UNIT_NAMES.get(words[-1]) if words else None


def _latency_column(names: Sequence[str]) -> str | None:
    """Return the column whose name denotes a latency. A name with a unit takes precedence."""
    like = [name for stem in _LATENCY for name in names if stem in "_".join(_words(name)) and "stamp" not in name.lower()]
    with_unit = [name for name in like if unit_of(name)]
    bare_unit = [name for name in names if name.lower() in ("ms", "us", "ns", "millis", "micros")]
    return next(iter([*with_unit, *bare_unit, *like]), None)


def _first(names: Sequence[str], candidates: Sequence[str], taken: set[str]) -> str | None:
    by_words = {"_".join(_words(name)): name for name in names if name not in taken}
    return next((by_words[each] for each in candidates if each in by_words), None)


def _words(name: str) -> list[str]:
    """Return the words of a column name: ``responseTimeMs`` and ``response-time_ms`` have the same words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9µ]+", spaced.lower()) if word]


def numbers(table: pa.Table, column: str, where: str) -> list[float | None]:
    """Return the values of a column as numbers, with None for empty cells.

    Raises:
        InputError: If a cell contains other text. The message contains the row of the cell.
    """
    values: list[Any] = table.column(column).to_pylist()
    made: list[float | None] = []
    for row, value in enumerate(values, 1):
        try:
            made.append(None if value is None or value == "" else float(value))
        except (TypeError, ValueError):
            raise InputError(f"{where}: row {row}: {column} is {in_short(repr(value))}, but must be a number") from None
    return made


BASIC_OPERATIONS = ("read", "write", "cas", "failed_cas", "append", "failed_append")
OPERATIONS = (*BASIC_OPERATIONS, *(f"{access}.{kind}" for access in ("read", "write") for kind in OBJECT_KINDS))
"""Operations for which a profile has latencies."""
_ALIASES = {
    "read": ("get", "get_object", "getobject", "head", "head_object", "load", "download", "select"),
    "write": ("put", "put_object", "putobject", "upload", "post", "create", "insert"),
    "cas": ("conditional_put", "put_if_match", "if_match", "put_if_none_match", "compare_and_swap", "swap", "commit", "update"),
    "failed_cas": ("cas_failed", "failed_conditional_put", "precondition_failed", "conflict"),
    "append": ("append_object", "append_block"),
    "failed_append": ("append_failed",),
}
_KNOWN = {name: operation for operation, names in _ALIASES.items() for name in names} | {name: name for name in OPERATIONS}
_MOST_OBJECT_BYTES = 1e15
_REFUSED = ("412", "409", "precondition", "conflict", "failed_condition")
_FAILED = {"cas": "failed_cas", "append": "failed_append"}


@dataclass(frozen=True)
class Sample:
    """Measured latencies of one operation in the order of measurement, with the sizes of the objects if they are known."""

    operation: str
    latencies_ms: Floats
    sizes_bytes: Floats | None = None


@dataclass(frozen=True)
class Measurements:
    """Latencies in a set of files, by operation. ``notes`` lists inferred columns and ignored rows."""

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

    Args:
        paths: Files of measurements.
        columns: Names of the columns ``operation``, ``latency``, ``size`` and ``status``, and the ``unit``. A value of None is
            inferred.
        operation: Operation of all rows, or None if a column contains it.
        renamed: Operations of the simulator, by the names that the files use.

    Raises:
        InputError: If a file cannot be read, or contains no latencies.
    """
    by_operation: dict[str, list[tuple[float, float | None]]] = {}
    notes: list[str] = []
    for path in paths:
        table = read_rows(path)
        found = find_columns(table.column_names, str(path), columns or {})
        notes += [f"{path}: {guess}" for guess in found.guessed]
        dropped = _collect(by_operation, table, found, str(path), operation, renamed or {})
        if dropped:
            notes.append(
                f"{path}: ignored rows: {dropped:,} (the latency is not positive, the size is invalid, or the request failed)"
            )
    if not by_operation:
        raise InputError("the files contain no latencies of successful requests")
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
    """Add the rows of a file to the latencies by operation, and return the number of ignored rows."""
    latencies = numbers(table, columns.latency, where)
    sizes = numbers(table, columns.size, where) if columns.size else [None] * table.num_rows
    names, statuses = _texts(table, columns.operation), _texts(table, columns.status)
    if columns.operation is None and operation is None:
        raise InputError(
            f"{where}: no column contains the operation. Set one with --operation-column, or set --operation for all rows"
        )
    known: dict[str, str] = {}
    dropped = 0
    for row, latency in enumerate(latencies):
        name = names[row] if operation is None else operation
        if name not in known:
            known[name] = operation_of(name, where, renamed)
        kind = _with_status(known[name], statuses[row])
        size = sizes[row]
        sized = size is None or 0.0 <= size <= _MOST_OBJECT_BYTES  # False for NaN, like the next condition
        if kind is None or not sized or latency is None or not 0.0 < latency * UNITS[columns.unit] <= MOST_MS:
            dropped += 1
            continue
        into.setdefault(kind, []).append((latency * UNITS[columns.unit], size))
    return dropped


def _texts(table: pa.Table, column: str | None) -> list[str]:
    return [""] * table.num_rows if column is None else [str(value) for value in table.column(column).to_pylist()]


def _with_status(operation: str, status: str) -> str | None:
    """Return the measured operation, which is separate for rejected conditional writes, or None for a failed request."""
    word = status.strip().lower()
    if any(mark in word for mark in _REFUSED):
        return _FAILED.get(operation, operation if operation in _FAILED.values() else None)
    if word[:1] in ("4", "5") and len(word) == 3 and word.isdigit():
        return None
    if word in ("error", "timeout", "failed", "failure", "false"):
        return _FAILED.get(operation)
    return operation


def operation_of(name: str, where: str, renamed: Mapping[str, str]) -> str:
    """Return the operation of the simulator for a name in a file, such as ``read`` for ``GetObject``.

    Raises:
        InputError: If the name is unknown.
    """
    if name in renamed:
        if renamed[name] not in OPERATIONS:
            raise InputError(f"--rename {name}={renamed[name]}: unknown operation; allowed: {', '.join(OPERATIONS)}")
        return renamed[name]
    word = name.strip().lower().replace("-", "_").replace(" ", "_")
    if word in _KNOWN:
        return _KNOWN[word]
    near = difflib.get_close_matches(word, _KNOWN, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InputError(f"{where}: unknown operation {name!r}{hint}; map it with --rename {name}=read (or write, cas, ...)")


_MOST_REPORT_BYTES = 512 * 2**20
_MOST_ATTEMPTS = 10**6


@dataclass(frozen=True)
class CommitReport:
    """Metrics report of an Iceberg client about a successful commit: snapshot, operation, attempts and duration."""

    snapshot_id: int | None
    operation: str
    attempts: int
    duration_ms: float


def read_reports(path: Path) -> tuple[CommitReport, ...]:
    """Read the commit reports in a file of JSON lines. Other kinds of reports are ignored.

    Raises:
        InputError: If the file cannot be read, or contains no commit report.
    """
    try:
        content = read_content(path, _MOST_REPORT_BYTES)
        text = (unpacked(content, _MOST_REPORT_BYTES) if content[:2] == b"\x1f\x8b" else content).decode()
    except (OSError, UnicodeDecodeError, UnreadableError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    made = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}: line {number} is not JSON; commit reports are JSON objects, one per line") from None
        made.append(_report(report, f"{path}: line {number}"))
    found = tuple(report for report in made if report is not None)
    if not found:
        raise InputError(f"{path} contains no commit report (a JSON object with `metrics.total-duration` and `metrics.attempts`)")
    return found


def _report(report: Any, where: str) -> CommitReport | None:
    if isinstance(report, dict) and isinstance(report.get("report"), dict):
        report = report["report"]
    if not isinstance(report, dict) or not isinstance(report.get("metrics"), dict) or "total-duration" not in report["metrics"]:
        return None
    metrics = report["metrics"]
    try:
        timer = metrics["total-duration"]
        duration = float(timer["total-duration"]) * UNITS[_UNIT_NAMES[timer.get("time-unit", "nanoseconds")]]
        attempts = int((metrics.get("attempts") or {"value": 1})["value"])
        identity = report.get("snapshot-id")
        if identity is not None and not -(2**63) <= int(identity) < 2**63:
            raise ValueError("a snapshot-id has 64 bits")
        found = CommitReport(None if identity is None else int(identity), str(report.get("operation", "")), attempts, duration)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{where} is not a commit report: {type(error).__name__} {in_short(str(error))}") from None
    if not 1 <= found.attempts <= _MOST_ATTEMPTS or not 0.0 <= found.duration_ms < 1e12:
        raise InputError(f"{where}: {in_short(str(found.attempts))} attempts in {found.duration_ms} ms cannot be a commit")
    return found
