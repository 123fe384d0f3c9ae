"""Write the parts of the dataset: read the runs of a part, write one file for each of its operations.

Rows of transactions go from file to file here. A part that an interrupted consolidation has finished is recognised by what its
files say of themselves, and not written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from endive.input_files import UnreadableError, parse_json
from endive.output_files import check_inside, whole_file
from endive.runs.contents import UnsoundError, sound_batches
from endive.runs.dataset import ROW_SCHEMA
from endive.runs.layout import part_file, run_directory
from endive.runs.parameters import Value
from endive.runs.records import Count, OperationName, Record
from endive.runs.stored import StoredRun

ROW_GROUP_ROWS = 131_072
Spec = dict[str, Any]
"""What has to be known to write or measure a part, in values that JSON has."""
_PART_KEY = b"endive.part"


class PartNote(Record):
    """What a file of the dataset says of the part that it belongs to."""

    digest: str
    rows: dict[OperationName, Count]
    unfit: dict[str, str]


class UnfitRunError(Exception):
    """A run that cannot be consolidated."""

    def __init__(self, seed: int, message: str) -> None:
        super().__init__(message)
        self.seed = seed


NOT_WRITTEN = "cannot be written"
"""Beginning of the error of a part that the disk did not take."""


def part_outcome(spec: Spec) -> dict[str, Any]:
    """Write a part, unless it is there, and tell its files and the runs that were unfit; an error of writing is told, too."""
    told: dict[str, Any] = {"experiment": spec["experiment"], "number": spec["number"]}
    try:
        written = _finished_before(spec)
        return {**told, **(written or write_part(spec)), "reused": written is not None, "error": None}
    except OSError as error:
        return {**told, "files": {}, "unfit": {}, "reused": False, "error": f"{NOT_WRITTEN}: {os.strerror(error.errno or 0)}"}


def write_part(spec: Spec) -> dict[str, Any]:
    """Write a part, leaving out runs that turn out to be unfit."""
    unfit: dict[str, str] = {}
    while True:
        try:
            return {"files": _write(spec, unfit), "unfit": unfit}
        except UnfitRunError as error:
            unfit[str(error.seed)] = str(error)


def _write(spec: Spec, unfit: dict[str, str]) -> dict[str, Any]:
    dataset = Path(spec["dataset"])
    writers: dict[str, PartWriter] = {}
    with ExitStack() as stack:
        for seed in spec["seeds"]:
            if str(seed) in unfit:
                continue
            for operation, rows in read_run(StoredRun(run_directory(Path(spec["directory"]), seed))):
                if operation not in writers:
                    path = part_file(dataset, spec["experiment"], operation, spec["number"])
                    check_inside(path.parent, dataset)  # a link at its end is replaced, not followed
                    temporary = stack.enter_context(whole_file(path))
                    writers[operation] = stack.enter_context(PartWriter(temporary, spec["parameters"]))
                writers[operation].add(rows)
        rows_by_operation = {operation: writer.rows for operation, writer in sorted(writers.items())}
        for writer in writers.values():
            writer.finish({"digest": spec["digest"], "rows": rows_by_operation, "unfit": unfit})
    return _files(spec, rows_by_operation)


def _files(spec: Spec, rows: dict[str, int]) -> dict[str, Any]:
    dataset, experiment, number = Path(spec["dataset"]), spec["experiment"], spec["number"]
    paths = {operation: part_file(dataset, experiment, operation, number) for operation in rows}
    return {operation: {"rows": rows[operation], "size": path.stat().st_size} for operation, path in paths.items()}


def _finished_before(spec: Spec) -> dict[str, Any] | None:
    """What an earlier, interrupted consolidation has written of this very part; None if it did not get so far."""
    own = part_file(Path(spec["dataset"]), spec["experiment"], "*", spec["number"])
    found = [path for path in own.parent.parent.glob(f"*/{own.name}") if path.is_file()]
    told = {path.parent.name.partition("=")[2]: part_metadata(path) for path in found}
    first = next(iter(told.values()), None)
    if first is None or first["digest"] != spec["digest"] or set(first["rows"]) != set(told):
        return None
    if any(other != first for other in told.values()):
        return None
    return {"files": _files(spec, first["rows"]), "unfit": first["unfit"]}


def part_metadata(path: Path) -> dict[str, Any] | None:
    """What a file of the dataset says of the part that it belongs to; None if it says nothing."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        told = pq.read_metadata(path).metadata or {}
        return PartNote.model_validate(parse_json(told.get(_PART_KEY, b"").decode())).model_dump()
    except (OSError, pa.ArrowException, UnreadableError, UnicodeDecodeError, ValidationError):
        return None


def is_whole_part(path: Path, rows: int) -> bool:
    """Tell whether a file of the dataset can be read to its end and has so many rows."""
    if not path.is_file():
        return False
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return bool(sum(batch.num_rows for batch in file.iter_batches(batch_size=ROW_GROUP_ROWS)) == rows)
    except (OSError, pa.ArrowException):
        return False


def unfitness(run: StoredRun) -> str | None:
    """Why a run cannot be consolidated; None if it can. Reads all of it."""
    try:
        for _ in _batches(run):
            pass
    except UnfitRunError as error:
        return str(error)
    return None


def read_run(run: StoredRun) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a run by operation, as the dataset has them. Raises UnfitRunError if the run is not whole."""
    for batch in _batches(run):
        yield from _by_operation(batch, run.seed)


def _batches(run: StoredRun) -> Iterator[pa.RecordBatch]:
    problem = run.problem()
    if problem is not None:
        raise UnfitRunError(run.seed, problem)
    try:
        yield from sound_batches(run.results, run.provenance["rows"], ROW_GROUP_ROWS)
    except UnsoundError as error:
        raise UnfitRunError(run.seed, str(error)) from None


def _by_operation(batch: pa.RecordBatch, seed: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    operations = batch.column("operation_type")
    for operation in sorted(pc.unique(operations).to_pylist()):
        rows = batch.filter(pc.equal(operations, operation))
        columns = [rows.column(field.name) for field in ROW_SCHEMA if field.name != "seed"]
        seeds = pa.repeat(pa.scalar(seed, pa.int64()), rows.num_rows)
        yield operation, pa.RecordBatch.from_arrays([seeds, *columns], schema=ROW_SCHEMA)


class PartWriter:
    """Writes rows as full row groups, with the parameters of the experiment as further columns."""

    def __init__(self, path: Path, parameters: dict[str, Value]) -> None:
        self.rows = 0
        self._parameters = parameters
        fields = [pa.field(name, _repeated(value, 0).type) for name, value in parameters.items()]
        schema = pa.schema([*ROW_SCHEMA, *fields])
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", store_schema=False, write_page_checksum=True)
        self._buffer: list[pa.RecordBatch] = []
        self._buffered = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        self._buffer.append(rows)
        self._buffered += rows.num_rows
        self.rows += rows.num_rows
        if self._buffered >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self, part: dict[str, Any]) -> None:
        """Write what is left and what the file has to say of its part."""
        self._flush()
        self._writer.add_key_value_metadata({_PART_KEY: json.dumps(part).encode()})
        self._writer.close()

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer, ROW_SCHEMA)
        columns = [*table.columns, *(_repeated(value, table.num_rows) for value in self._parameters.values())]
        whole = pa.Table.from_arrays(columns, [*table.column_names, *self._parameters])
        self._writer.write_table(whole, row_group_size=table.num_rows)
        self._buffer, self._buffered = [], 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _repeated(value: Value, rows: int) -> pa.Array:
    """A column of one value. As a dictionary it is written in half the time; readers see a plain column either way."""
    if isinstance(value, bool):
        return pa.repeat(pa.scalar(value), rows)
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value]))
