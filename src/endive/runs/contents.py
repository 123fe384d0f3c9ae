"""Check that the files of a run are those that the model wrote: checksums, schema, row invariants, counts and trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.input_files import UnreadableError, check_rows
from endive.output_files import checksum
from endive.runs.layout import SUMMARY, TRACE
from endive.runs.records import RecordError, SummaryRecord, read_record
from endive.runs.stored import StoredRun
from endive.simulation.row_invariants import RowError, RowInvariants
from endive.simulation.rows import RESULT_SCHEMA, TRACE_SCHEMA
from endive.workload import DEFAULT_CLASS
from endive.workload.arrivals import kind_of

ROW_GROUP_ROWS = 131_072
_BYTES_PER_EVENT = 2_000
_WITH_VERSIONS = ("catalog_read", "commit", "answer_lost")
_VERSIONS = r"\A(?:[0-9]{1,15}:[0-9]{1,15}(?: |\z))*\z"


class UnsoundError(ValueError):
    """A file of a run that the model cannot have written; the message has the reason."""


def structure_problem(run: StoredRun) -> str | None:
    """Return what is wrong with the records, the checksum, the columns or the number of rows of a run; None if nothing is."""
    problem = run.problem()
    if problem is not None:
        return problem
    try:
        _open_results(run.results, _count_kept(run)).close()
    except UnsoundError as error:
        return str(error)
    return None


def results_problem(run: StoredRun) -> str | None:
    """Return why the results of a run cannot be trusted; None if they can. Reads all rows."""
    problem = structure_problem(run)
    if problem is not None:
        return problem
    invariants = RowInvariants(_classes(run), _closed_classes(run))
    try:
        for batch in read_batches(run.results, _count_kept(run)):
            invariants.check(batch)
        total = read_record(run.directory / SUMMARY, SummaryRecord)["total"]
        if run.rows_kept == "all":
            invariants.check_complete()
            invariants.check_summary(total)
        elif total["transactions"] != run.provenance["rows"]:
            return f"its summary has {total['transactions']} transactions, but {run.provenance['rows']} were recorded"
    except (UnsoundError, RowError) as error:
        return str(error)
    except RecordError as error:
        return f"damaged: {error}"
    return _checksum_problem(run)


def _count_kept(run: StoredRun) -> int:
    found: int = run.provenance.get("kept", run.provenance["rows"])
    return found


def read_batches(path: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a results file.

    Raises:
        UnsoundError: The file cannot be read, or has other columns or another number of rows.
    """
    with _open_results(path, rows) as file:
        try:
            yield from file.iter_batches(batch_size=ROW_GROUP_ROWS)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(error) from None


def _open_results(path: Path, rows: int) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error) from None
    _check_schema(file.schema_arrow, RESULT_SCHEMA)
    if file.metadata.num_rows != rows:
        raise UnsoundError(f"it has {file.metadata.num_rows} rows, but {rows} were recorded")
    return file


def _unreadable(error: Exception) -> UnsoundError:
    return UnsoundError(f"results cannot be read: {str(error).splitlines()[0][:200]}")


def read_events(path: Path) -> pa.Table:
    """Return the events of a trace.

    Raises:
        UnsoundError: The trace cannot be read, needs more memory than is free, or has other columns or values than the model's.
    """
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
            raise UnsoundError(f"its column {name} is null in some rows")
    versions = events.filter(pc.is_in(events.column("event"), pa.array(_WITH_VERSIONS))).column("kind")
    if len(versions) and not pc.all(pc.match_substring_regex(versions, _VERSIONS)).as_py():
        raise UnsoundError("its column kind is not a list of table versions where a catalog was read or written")
    return events


def _classes(run: StoredRun) -> frozenset[str]:
    return frozenset(run.provenance["parameters"].get("workload") or {DEFAULT_CLASS: None})


def _closed_classes(run: StoredRun) -> frozenset[str]:
    """Return the classes of clients that submit only after their previous transaction has ended."""
    workload = run.provenance["parameters"].get("workload")
    classes = workload.items() if isinstance(workload, dict) else ()
    return frozenset(name for name, cls in classes if isinstance(cls, dict) and _is_closed(cls))


def _is_closed(cls: dict[str, Any]) -> bool:
    kind = kind_of(cls)
    return kind is not None and (kind.process.waits or kind.process.paced) and not cls.get("committer")


def _checksum_problem(run: StoredRun) -> str | None:
    for name, key in ((SUMMARY, "summary_sha256"), (TRACE, "trace_sha256")):
        recorded, path = run.provenance.get(key), run.directory / name
        if recorded is None:
            continue
        if not path.is_file():
            return f"{name} is missing"
        if checksum(path) != recorded:
            return f"corrupt: the checksum of {name} does not match"
    return None


def _check_schema(found: pa.Schema, wanted: pa.Schema) -> None:
    if found.names != wanted.names:
        raise UnsoundError("its columns are not those of this version")
    for field in wanted:
        other = found.field(field.name).type
        other = other.value_type if pa.types.is_dictionary(other) else other
        if not (other.equals(field.type) or _same_list(other, field.type)):
            raise UnsoundError(f"its column {field.name} is of type {other}, not {field.type}")


def _same_list(left: pa.DataType, right: pa.DataType) -> bool:
    """Compare list types without the names of their items."""
    return pa.types.is_list(left) and pa.types.is_list(right) and bool(left.value_type.equals(right.value_type))
