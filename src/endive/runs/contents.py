"""Whether the rows and the events of a run are such that the model can have written them.

A results file has the checksum that its provenance records, but both may come from elsewhere. What is relied on later (columns,
types, numbers that can be added up, names that become folders and labels) is checked here, batch by batch, before anything is
made of it. No state is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.input_files import UnreadableError, check_rows
from endive.runs.stored import StoredRun
from endive.simulation.columns import COLUMNS
from endive.simulation.rows import RESULT_SCHEMA, TRACE_SCHEMA
from endive.transaction import OPERATIONS, TransactionStatus
from endive.utils import available_bytes

MOST_IN_A_ROW_MS = 1e100
"""No time of the model comes near it, and sums of such times are still numbers."""
MOST_COUNTED = 2**53
_LEAST_MS = -1.0
"""What a moment that never came is written as."""
_STATUSES = frozenset(status.name.lower() for status in TransactionStatus)
_CLASS = re.compile(r"[A-Za-z0-9_-]{1,255}")
_MAY_BE_NULL = frozenset({"abort_reason"})


class UnsoundError(ValueError):
    """Rows that the model cannot have written; the message says which column, and what is wrong."""


def sound_batches(path: Path, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a results file, which should have so many. Raises UnsoundError where they are not those of the model."""
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(file.schema_arrow)
            told = file.metadata
        with pq.ParquetFile(path, metadata=told, read_dictionary=_TEXTS) as file:
            if file.metadata.num_rows != rows:
                raise UnsoundError(f"it has {file.metadata.num_rows} rows, but {rows} were recorded")
            _check_groups(file.metadata)
            found = 0
            for packed in file.iter_batches(batch_size=batch_rows):
                batch = _with_texts(packed)
                _check_batch(batch)
                found += batch.num_rows
                yield batch
            if found != rows:
                raise UnsoundError(f"it has {found} rows, but {rows} were recorded")
    except (pa.ArrowException, OSError, UnicodeEncodeError) as error:  # the last: a path that is no text
        raise UnsoundError(f"results cannot be read: {str(error).splitlines()[0][:200]}") from None


def results_problem(run: StoredRun) -> str | None:
    """Return why the results of a run cannot be used; None if they can. Reads all rows."""
    problem = run.problem()
    if problem is not None:
        return problem
    try:
        for _ in sound_batches(run.results, run.provenance["rows"], ROW_GROUP_ROWS):
            pass
    except UnsoundError as error:
        return str(error)
    return None


ROW_GROUP_ROWS = 131_072


def _check_groups(told: pq.FileMetaData) -> None:
    """Raise if a group of rows says that it unpacks to more than a part of the memory that is free: groups are read one by one."""
    most = available_bytes() // 4
    for group in map(told.row_group, range(told.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            needed = max(_BYTES_PER_VALUE * (column.num_values - group.num_rows), column.total_uncompressed_size)
            if needed > most:
                name = column.path_in_schema.partition(".")[0]
                told_size = f"{column.num_values:,} values in one group of rows, which need {needed / 2**30:,.2f} GiB of memory"
                raise UnsoundError(f"its column {name} has {told_size}")


def _with_texts(packed: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with its texts for every row, if none is longer than a name: one that is stored once would be unpacked for each."""
    columns = []
    for name, column in zip(packed.schema.names, packed.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            if longest > _LONGEST_TEXT:
                raise UnsoundError(f"its column {name} has a text of {longest:,} bytes")
            column = column.dictionary_decode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=packed.schema.names)


_TEXTS = [column.name for column in COLUMNS if column.kind == "text"]
_LONGEST_TEXT = 255
_BYTES_PER_VALUE = 32
"""Of a list, with its levels, while it is read."""


def sound_events(path: Path) -> pa.Table:
    """Return the events of a trace. Raises UnsoundError where they are not those of the model, or need more memory than is free."""
    try:
        check_rows(path, _BYTES_PER_EVENT)
        with pq.ParquetFile(path) as file:
            _check_schema(file.schema_arrow, TRACE_SCHEMA)
            events = file.read()
    except UnreadableError as error:
        raise UnsoundError(str(error)) from None
    except (pa.ArrowException, OSError) as error:
        raise UnsoundError(f"cannot be read: {str(error).splitlines()[0][:200]}") from None
    for name in TRACE_SCHEMA.names:
        if events.column(name).null_count:
            raise UnsoundError(f"its column {name} has no value in some rows")
    versions = events.filter(pc.is_in(events.column("event"), pa.array(_WITH_VERSIONS))).column("kind")
    if not pc.all(pc.match_substring_regex(versions, _VERSIONS)).as_py() and len(versions):
        raise UnsoundError("its column kind has something else than versions of tables where a catalog was read or written")
    return events


_BYTES_PER_EVENT = 2_000
_WITH_VERSIONS = ("catalog_read", "commit", "answer_lost")
_VERSIONS = r"\A(?:[0-9]{1,15}:[0-9]{1,15}(?: |\z))*\z"


def _check_schema(found: pa.Schema, wanted: pa.Schema = RESULT_SCHEMA) -> None:
    if found.names != wanted.names:
        raise UnsoundError("its columns are not those of this version")
    for field in wanted:
        other = found.field(field.name).type
        other = other.value_type if pa.types.is_dictionary(other) else other
        if not (other.equals(field.type) or _same_list(other, field.type)):
            raise UnsoundError(f"its column {field.name} is of type {other}, not {field.type}")


def _same_list(left: pa.DataType, right: pa.DataType) -> bool:
    """Two types of lists differ also by the name of their items, which says nothing."""
    return pa.types.is_list(left) and pa.types.is_list(right) and bool(left.value_type.equals(right.value_type))


def _check_batch(batch: pa.RecordBatch) -> None:
    for column in COLUMNS:
        values = batch.column(column.name)
        if values.null_count and column.name not in _MAY_BE_NULL:
            raise UnsoundError(f"its column {column.name} has no value in some rows")
        if column.kind == "ms":
            _check_range(column.name, values, _LEAST_MS, MOST_IN_A_ROW_MS)
        elif column.kind in ("count", "id"):
            _check_range(column.name, values, -1 if column.kind == "id" else 0, MOST_COUNTED)
        elif column.kind == "tables":
            _check_range(column.name, values.flatten(), 0, MOST_COUNTED)
    _check_names("status", batch, _STATUSES.__contains__, "is no status")
    _check_names("operation_type", batch, OPERATIONS.__contains__, "is no operation")
    _check_names("workload_class", batch, _CLASS.fullmatch, "is no name of a class")


def _check_range(name: str, values: pa.Array, least: float, most: float) -> None:
    """Raise if a value lies outside, or is no number (which compares with nothing)."""
    inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
    if len(values) and not pc.all(inside, skip_nulls=False).as_py():
        wrong = values.filter(pc.invert(inside))[0].as_py()
        raise UnsoundError(f"its column {name} has {wrong}, which is not from {least:g} to {most:g}")


def _check_names(column: str, batch: pa.RecordBatch, is_sound: Callable[[str], object], problem: str) -> None:
    for name in pc.unique(batch.column(column)).to_pylist():
        if not is_sound(name):
            raise UnsoundError(f"its column {column} has {ascii(name)[:60]}, which {problem}")
