"""Check that the files of a run are unmodified output of the model: checksums, schema, row invariants, counts and trace.

The module also checks that the configuration of an experiment matches the hash in its name and the records of its runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.config import ConfigError, load_document
from endive.config.sweep_file import KeptRows
from endive.input_files import UnreadableError, check_rows, in_short
from endive.output_files import checksum
from endive.runs.identity import compute_experiment_hash, parameters
from endive.runs.layout import CONFIG, PROVENANCE, SUMMARY, TRACE, hash_of
from endive.runs.records import CHECKSUM, RecordError, SummaryRecord, read_record
from endive.runs.row_files import is_sampled
from endive.runs.stored import StoredExperiment, StoredRun
from endive.simulation import Summary
from endive.simulation.columns import RESULT_SCHEMA, TRACE_SCHEMA
from endive.simulation.row_invariants import RowError, RowInvariants, RunLimits
from endive.simulation.summary import RunCounters
from endive.version import code_version
from endive.workload import DEFAULT_CLASS
from endive.workload.arrivals import TRACE as ARRIVAL_TRACE
from endive.workload.arrivals import kind_of

ROW_GROUP_ROWS = 131_072
_BYTES_PER_EVENT = 2_000
_SUMMED = ("duration_ms", "total", "by_class_and_operation")
"""Entries of a summary that equal sums over the rows."""
_WITH_VERSIONS = ("catalog_read", "commit", "answer_lost")
_VERSIONS = r"\A(?:[0-9]{1,15}:[0-9]{1,15}(?: |\z))*\z"


class UnsoundError(ValueError):
    """Raised if a file of a run is not valid output of the model; the message contains the reason."""


def structure_problem(run: StoredRun) -> str | None:
    """Check the records, the checksum, the columns and the number of rows of a run. Return the problem, or None."""
    problem = run.problem()
    if problem is not None:
        return problem
    try:
        _open_results(run.results, _count_kept(run)).close()
    except UnsoundError as error:
        return str(error)
    return None


def results_problem(run: StoredRun) -> str | None:
    """Check all rows of a run. Return the reason why the results are not valid, or None."""
    problem = structure_problem(run)
    if problem is not None:
        return problem
    invariants = RowInvariants(_classes(run), _closed_classes(run), _limits(run))
    summary, sample = Summary(run.provenance["parameters"]["simulation"]["duration_ms"]), SampledIds(run.provenance["rows"])
    try:
        for batch in read_batches(run.results, _count_kept(run)):
            invariants.check(batch)
            if run.rows_kept == "all":
                summary(batch)
            else:
                sample.check(batch)
        record = read_record(run.directory / SUMMARY, SummaryRecord)
        if run.rows_kept == "all":
            invariants.check_complete()
            invariants.check_summary(record["total"])
            own = summary.to_dict(RunCounters({}))
            for name in _SUMMED:
                _compare_summary(name, record.get(name), own[name])
        else:
            sample.check_complete(run.rows_kept)
            _check_total(record["total"], run.provenance["rows"])
    except (UnsoundError, RowError) as error:
        return str(error)
    except RecordError as error:
        return f"damaged: {error}"
    return _checksum_problem(run)


class SampledIds:
    """Checker of the sample of rows that a study keeps from a run with ``transactions`` rows."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        self._ids: list[npt.NDArray[np.int64]] = []

    def check(self, batch: pa.RecordBatch) -> None:
        """Check the next rows. Raises RowError if a row is not in the sample."""
        ids = batch.column("txn_id").to_numpy()
        wrong = ~is_sampled(ids)
        if wrong.any():
            raise RowError(f"transaction {ids[int(np.argmax(wrong))]} is not one of the sample")
        self._ids.append(ids)

    def check_complete(self, rows: KeptRows) -> None:
        """Check that each row of the sample occurs exactly once. Raises RowError."""
        found = np.sort(np.concatenate([np.zeros(0, np.int64), *self._ids]))
        expected = np.arange(self._transactions if rows == "sample" else 0)
        expected = expected[is_sampled(expected)]
        if not np.array_equal(found, expected):
            raise RowError(f"{len(found):,} rows are kept, but not the {len(expected):,} of the sample, each once")


def _compare_summary(key: str, found: Any, own: Any) -> None:
    """Raise UnsoundError if a value in a summary differs from the rows. Sums of times may differ by rounding errors."""
    if isinstance(own, dict) and isinstance(found, dict):
        for name in sorted(own.keys() | found.keys()):
            _compare_summary(f"{key}.{name}", found.get(name), own.get(name))
    elif isinstance(own, list) and isinstance(found, list):
        if len(found) != len(own):
            raise UnsoundError(f"{SUMMARY}: `{key}` has {len(found)} entries, but {len(own)} by the rows")
        for place, (left, right) in enumerate(zip(found, own, strict=True)):
            _compare_summary(f"{key}[{place}]", left, right)
    elif isinstance(own, float) and isinstance(found, float | int):
        if not math.isclose(found, own, rel_tol=1e-9, abs_tol=1e-6):
            raise UnsoundError(f"{SUMMARY}: `{key}` is {found:g}, but {own:g} by the rows")
    elif found != own:
        raise UnsoundError(f"{SUMMARY}: `{key}` is {in_short(repr(found))}, but {in_short(repr(own))} by the rows")


def _check_total(total: Mapping[str, Any], rows: int) -> None:
    """Raise UnsoundError if the counts in a summary do not add up to the recorded number of rows."""
    if total["transactions"] != rows:
        raise UnsoundError(f"its summary has {total['transactions']} transactions, but {rows} were recorded")
    if sum(total.get(name, 0) for name in ("committed", "aborted", "in_flight")) != rows:
        raise UnsoundError(f"{SUMMARY}: the outcomes do not add up to {rows} transactions")


def configuration_problem(experiment: StoredExperiment) -> str | None:
    """Check that the runs of an experiment have its configuration. Return the problem, or None.

    Experiments of a different model version, and experiments whose trace of submissions has been moved, are not checked.
    """
    own = hash_of(experiment.name)
    if own is None or not experiment.of_this_version:
        return None
    try:
        document = load_document(experiment.directory / CONFIG)
    except ConfigError as error:
        problem = error.problems[0]
        return None if problem.key.endswith(f".{ARRIVAL_TRACE.key}") else f"damaged: {CONFIG}: {in_short(str(problem))}"
    except UnreadableError:
        return None  # the check of the experiment reports this
    found = compute_experiment_hash(document)
    if found != own:
        return f"damaged: {CONFIG}: its parameters have the hash {found}, not {own}"
    expected = json.loads(json.dumps(parameters(document)))
    for run in experiment.runs:
        key = _differing_key(run.provenance.get("parameters", {}), expected)
        if key is not None:
            return f"damaged: {PROVENANCE} of seed {run.seed}: parameters.{key}: differs from {CONFIG}"
    return None


def _differing_key(recorded: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first key whose recorded value differs from the expected value.

    Keys that only one of the mappings has are ignored, because a key may be newer than a record.
    """
    for name in recorded.keys() & expected.keys():
        left, right = recorded[name], expected[name]
        if isinstance(left, dict) and isinstance(right, dict):
            key = _differing_key(left, right)
            if key is not None:
                return f"{name}.{key}"
        elif left != right:
            return name
    return None


def _count_kept(run: StoredRun) -> int:
    found: int = run.provenance.get("kept", run.provenance["rows"])
    return found


def read_batches(path: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a results file.

    Raises:
        UnsoundError: If the file cannot be read, or has unexpected columns or an unexpected number of rows.
    """
    with _open_results(path, rows) as file:
        try:
            if rows:  # old releases of pyarrow cannot iterate over a file without row groups
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
        UnsoundError: If the trace cannot be read, needs more memory than is free, or has unexpected columns or values.
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
    """Return the classes in which a client submits its next transaction only after the previous one has ended."""
    workload = run.provenance["parameters"].get("workload")
    classes = workload.items() if isinstance(workload, dict) else ()
    return frozenset(name for name, cls in classes if isinstance(cls, dict) and _is_closed(cls))


def _limits(run: StoredRun) -> RunLimits:
    tree = run.provenance["parameters"]
    tables, simulation = tree.get("catalog", {}).get("num_tables"), tree["simulation"]
    return RunLimits(
        num_tables=tables if isinstance(tables, int) else None,
        end_ms=math.inf if simulation.get("drain", True) else simulation["duration_ms"],
    )


def _is_closed(cls: dict[str, Any]) -> bool:
    kind = kind_of(cls)
    return kind is not None and (kind.process.waits or kind.process.paced) and not cls.get("committer")


def _checksum_problem(run: StoredRun) -> str | None:
    for name, key in ((PROVENANCE, CHECKSUM), (SUMMARY, "summary_sha256"), (TRACE, "trace_sha256")):
        recorded, path = run.provenance.get(key), run.directory / name
        if recorded is None and path.is_file() and run.provenance.get("code_version") == code_version():
            return f"damaged: {PROVENANCE}: `{key}` is missing"
        if recorded is None or key == CHECKSUM:
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
