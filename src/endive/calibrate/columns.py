"""Files of measurements read as tables, and columns found by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from endive.calibrate.errors import InputError
from endive.input_files import UnreadableError, check_rows, in_short

UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units of latencies, in milliseconds."""
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
    """The columns that hold a measurement, and the unit of its latency. ``guessed`` says in words what was not given."""

    operation: str | None
    latency: str
    unit: str
    size: str | None
    status: str | None
    guessed: tuple[str, ...]


def read_rows(path: Path) -> pa.Table:
    """Read CSV, Parquet or JSON lines, by the name's ending (``.gz`` is understood for text). Raises InputError."""
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((*_PARQUET, *_JSON, *_TEXT)):
        endings = ".csv, .tsv, .parquet, .jsonl, and .gz of text, are read"
        raise InputError(f"{path}: is not a file of measurements by its name: {endings}")
    try:
        check_rows(path, _BYTES_PER_ROW)
        table = _read_rows(path, name)
    except UnreadableError as error:
        raise InputError(f"{path}: {error}") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{path}: cannot be read: {reason}") from error
    try:
        table.column_names  # noqa: B018  decoded only when they are asked for
    except UnicodeDecodeError:
        raise InputError(f"{path}: the names of its columns are no text (UTF-8)") from None
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
    """Find the columns of a measurement among ``names``. Raises InputError where nothing fits.

    What is ``given`` is taken: columns of operation, latency, size and status, and the unit.
    """
    unit = given.get("unit")
    for key, column in given.items():
        if key != "unit" and column is not None and column not in names:
            raise InputError(f"{where}: there is no column {column!r}; there are {in_short(', '.join(names))}")
    if unit is not None and unit not in UNITS:
        raise InputError(f"{where}: the unit is {unit!r}, but must be one of {', '.join(UNITS)}")
    latency = given.get("latency") or _latency_column(names)
    if latency is None:
        raise InputError(f"{where}: no column looks like a latency; name it with --latency; there are {in_short(', '.join(names))}")
    unit = unit or unit_of(latency)
    if unit is None:
        raise InputError(
            f"{where}: column {in_short(repr(latency))} does not say its unit; give it with --unit ({', '.join(UNITS)})"
        )
    known = given.get("latency") is not None and given.get("unit") is not None
    guessed = [] if known else [f"latency from column {latency!r} in {unit}"]
    found: dict[str, str | None] = {}
    for key, candidates in (("operation", _OPERATION), ("size", _BYTES), ("status", _STATUS)):
        found[key] = given.get(key) or _first(names, candidates, {latency})
        if given.get(key) is None and found[key] is not None:
            guessed.append(f"{'bytes' if key == 'size' else key} from column {found[key]!r}")
    return Columns(found["operation"], latency, unit, found["size"], found["status"], tuple(guessed))


def unit_of(name: str) -> str | None:
    """The unit that the name of a column ends with, or None."""
    words = _words(name)
    return _UNIT_NAMES.get(words[-1]) if words else None


def _latency_column(names: Sequence[str]) -> str | None:
    """The column named like a latency, those that say their unit first."""
    like = [name for stem in _LATENCY for name in names if stem in "_".join(_words(name)) and "stamp" not in name.lower()]
    with_unit = [name for name in like if unit_of(name)]
    bare_unit = [name for name in names if name.lower() in ("ms", "us", "ns", "millis", "micros")]
    return next(iter([*with_unit, *bare_unit, *like]), None)


def _first(names: Sequence[str], candidates: Sequence[str], taken: set[str]) -> str | None:
    by_words = {"_".join(_words(name)): name for name in names if name not in taken}
    return next((by_words[each] for each in candidates if each in by_words), None)


def _words(name: str) -> list[str]:
    """``responseTimeMs`` and ``response-time_ms`` are the same words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9µ]+", spaced.lower()) if word]


def numbers(table: pa.Table, column: str, where: str) -> list[float | None]:
    """A column as numbers; text that is none raises InputError with its row."""
    values: list[Any] = table.column(column).to_pylist()
    made: list[float | None] = []
    for row, value in enumerate(values, 1):
        try:
            made.append(None if value is None or value == "" else float(value))
        except (TypeError, ValueError):
            raise InputError(f"{where}: row {row}: {column} is {in_short(repr(value))}, but must be a number") from None
    return made
