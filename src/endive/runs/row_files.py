"""Write the rows of a run to files, and read them in chunks.

``ParquetSink`` writes the results of a run. If a study keeps only a sample of its rows, or none, ``SampleSink`` writes the rows to
keep, and ``MeasuringSink`` writes a temporary file with the columns from which the run is measured. That file is not compressed,
because it is read once or twice and then removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.arithmetic.draws import GOLDEN, mix64
from endive.config.sweep_file import KeptRows
from endive.output_files import checksum, errors_naming, whole_file
from endive.simulation.columns import BATCH_ROWS, COLUMNS, RESULT_SCHEMA, parquet_options

ROWS_KEPT = b"endive.rows"
"""Metadata key of results files that do not contain all rows."""
ONE_IN = 100
"""Inverse of the sampling rate: the number of transactions for each sampled one."""
Constants = Mapping[str, float | int | str | None]
"""Constant columns of a chunk, with their values; None for null."""
Ints = npt.NDArray[np.int64]
_UNMEASURED = ("txn_id", "tables_written")
"""Columns from which no metric is computed."""
_TEXTS = [column.name for column in COLUMNS if column.kind == "text"]
_CONSTANTS = b"endive.constants"


def rows_missing(kept: KeptRows) -> str:
    """Return a message that not all rows of a run were kept, with the command that recreates them."""
    found = "only a sample of its rows was kept" if kept == "sample" else "its rows were not kept"
    return f"{found}, but all rows are needed here; `endive sweep FILE --rows all` keeps them"


def is_sampled(txn_ids: Ints) -> npt.NDArray[np.bool_]:
    """Flag the transactions of a sample.

    The sample depends only on transaction ids, so that it is the same for all configurations.
    """
    keys = (txn_ids.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    return np.asarray(mix64(keys) < np.uint64(2**64 // ONE_IN))  # type: ignore[arg-type]


class _Sink:
    """Sink that writes batches of rows to a file, which appears atomically at the end of a ``with`` block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._whole = whole_file(path)
        self._temporary = self._whole.__enter__()

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self.rows += batch.num_rows
        with errors_naming(self.path):
            self._write(batch)

    def finish(self) -> str:
        """Complete the file, which appears when the block ends, and return its checksum."""
        with errors_naming(self.path):
            self._close()
            return checksum(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        try:
            with errors_naming(self.path):
                self._close()
        except OSError as failure:
            if error is None:
                self._whole.__exit__(type(failure), failure, None)
                raise
        return self._whole.__exit__(kind, error, trace)

    def _write(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class ParquetSink(_Sink):
    """Sink that writes batches to a Parquet file, one row group per batch."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path)
        self._writer = pq.ParquetWriter(self._temporary, schema, **parquet_options(schema))

    def _write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def _close(self) -> None:
        self._writer.close()


class SampleSink(ParquetSink):
    """Sink that writes a uniform sample of the transactions, or no rows, to a Parquet file.

    Args:
        path: File to write.
        kept: ``sample`` or ``none``.
    """

    def __init__(self, path: Path, kept: KeptRows) -> None:
        self._schema = RESULT_SCHEMA.with_metadata({ROWS_KEPT: kept.encode()})
        self._kept = kept
        self._waiting: list[pa.RecordBatch] = []
        super().__init__(path, self._schema)

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Write the transactions of a batch that belong to the sample, in row groups of the usual size."""
        if self._kept == "sample":
            self._waiting.append(batch.filter(pa.array(is_sampled(batch.column("txn_id").to_numpy()))))
            if sum(each.num_rows for each in self._waiting) >= BATCH_ROWS:
                self._write_waiting()

    def finish(self) -> str:
        """Complete the file, and return its checksum."""
        self._write_waiting()
        return super().finish()

    def _write_waiting(self) -> None:
        if self._waiting:
            columns = pa.concat_batches(self._waiting).columns
            self._waiting = []
            super().__call__(pa.RecordBatch.from_arrays(columns, schema=self._schema))


class MeasuringSink(_Sink):
    """Sink that writes the columns for metrics to a temporary file, as one Arrow stream per batch, without constant columns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = pa.OSFile(str(self._temporary), "wb")

    def _write(self, batch: pa.RecordBatch) -> None:
        constants: dict[str, float | int | str | None] = {}
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in _TEXTS:
                column = column.dictionary_encode()
                if column.null_count == len(column):
                    constants[name] = None
                elif len(column.dictionary) == 1 and not column.null_count:
                    constants[name] = column.dictionary[0].as_py()
                else:
                    columns[name] = column
            elif name not in _UNMEASURED:
                values = column.to_numpy()
                if (values == values[0]).all():
                    constants[name] = values[0].item()
                else:
                    columns[name] = pa.array(_narrow_integers(values))
        metadata = {_CONSTANTS: json.dumps([batch.num_rows, constants])}
        rest = pa.RecordBatch.from_pydict(columns, metadata=metadata)
        with pa.ipc.new_stream(self._file, rest.schema) as stream:
            stream.write_batch(rest)

    def _close(self) -> None:
        self._file.close()


def _narrow_integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers in the smallest type that holds all of them. Return other numbers unchanged."""
    if not np.issubdtype(values.dtype, np.integer):
        return values
    return values.astype(np.promote_types(np.min_scalar_type(values.min()), np.min_scalar_type(values.max())))


class RowChunk:
    """Some columns of consecutive rows of a run."""

    def __init__(self, rows: int, constants: Constants, columns: pa.Table | pa.RecordBatch | None) -> None:
        self._rows = rows
        self._constants = constants
        self._columns = columns

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column."""
        if name in self._constants:
            return np.broadcast_to(np.asarray(self._constants[name]), len(self))
        values = np.asarray(self._column(name).to_numpy())
        return values.astype(np.int64, copy=False) if np.issubdtype(values.dtype, np.integer) else values

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a text column as codes (-1 for null), and the text of each code."""
        if name in self._constants:
            text = self._constants[name]
            return np.broadcast_to(np.int64(-1 if text is None else 0), len(self)), [] if text is None else [str(text)]
        column = self._column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        return np.asarray(pc.fill_null(column.indices, -1)).astype(np.int64), column.dictionary.to_pylist()

    def text_codes(self, name: str, texts: Sequence[str]) -> Ints:
        """Return a text column as indices into ``texts``; -1 for other texts and null."""
        codes, names = self.codes(name)
        places = np.array([*(texts.index(each) if each in texts else -1 for each in names), -1], np.int64)
        if codes.strides == (0,) and len(codes):
            return np.broadcast_to(places[codes[0]], len(self))
        return np.asarray(places[codes])

    def pairs(self) -> tuple[Ints, list[str], list[str]]:
        """Return for each row a number of its class and operation (negative if one is null), and the classes and operations."""
        (classes, class_names), (operations, operation_names) = (self.codes(each) for each in ("workload_class", "operation_type"))
        pairs = operations * max(len(class_names), 1) + classes
        return np.where((classes < 0) | (operations < 0), -1, pairs), class_names, operation_names

    def _column(self, name: str) -> pa.Array | pa.ChunkedArray:
        if self._columns is None:
            raise KeyError(name)
        return self._columns.column(name)


class RowFile(Protocol):
    """File with the rows of a run, which is read in chunks.

    Attributes:
        rows: Number of rows.
        constants: Constant columns of each chunk, which are not read.
    """

    rows: int
    constants: Sequence[Constants]

    def read(self, number: int, columns: Sequence[str]) -> RowChunk:
        """Read columns of a chunk."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_rows(path: Path) -> RowFile:
    """Open a file of ``ParquetSink`` or ``MeasuringSink``.

    Raises:
        ValueError: If the file is of another version, or if it does not contain all rows.
    """
    return MeasuringFile(path) if path.suffix == ".arrow" else ParquetFile(path)


class ParquetFile:
    """Results of a run; the chunks are row groups, and the statistics of the file determine the constant columns."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=_TEXTS)
        missing = set(RESULT_SCHEMA.names) - set(self._file.schema_arrow.names)
        if missing:
            raise ValueError(f"column {sorted(missing)[0]} is missing: the results are not of this version")
        kept = (self._file.schema_arrow.metadata or {}).get(ROWS_KEPT)
        if kept is not None:
            raise ValueError(rows_missing("sample" if kept == b"sample" else "none"))
        metadata = self._file.metadata
        self.rows = metadata.num_rows
        groups = range(metadata.num_row_groups)
        self.constants: Sequence[Constants] = [_constant_columns(metadata.row_group(number)) for number in groups]

    def read(self, number: int, columns: Sequence[str]) -> RowChunk:
        """Read columns of a row group."""
        constants = self.constants[number]
        read = [name for name in dict.fromkeys(columns) if name not in constants]
        table = self._file.read_row_group(number, columns=read, use_threads=False) if read else None
        return RowChunk(self._file.metadata.row_group(number).num_rows, constants, table)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _constant_columns(group: Any) -> Constants:
    """Return the constant columns of a row group and their values (None for null), according to the statistics of the file."""
    found: dict[str, float | int | str | None] = {}
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics
        if statistics is None:
            continue
        if statistics.has_null_count and statistics.null_count:
            if statistics.null_count == group.num_rows:
                found[column.path_in_schema] = None
        elif statistics.has_min_max and statistics.min == statistics.max and isinstance(statistics.min, int | float | str):
            found[column.path_in_schema] = statistics.min
    return found


class MeasuringFile:
    """Temporary file of the columns for metrics; each chunk is mapped into memory while it is used."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._starts: list[int] = []
        heads: list[tuple[int, Constants]] = []
        with pa.memory_map(self._path) as file:
            end = file.size()
            while file.tell() < end:
                self._starts.append(file.tell())
                with pa.ipc.open_stream(file) as stream:
                    heads.append(json.loads(stream.schema.metadata[_CONSTANTS]))
                    for _ in stream:  # read to the end of the stream, where the next one starts
                        pass
        self._sizes = [size for size, _ in heads]
        self.constants: Sequence[Constants] = [constants for _, constants in heads]
        self.rows = sum(self._sizes)

    def read(self, number: int, columns: Sequence[str]) -> RowChunk:
        """Return columns of a chunk; only the pages of columns that are used are read."""
        with pa.memory_map(self._path) as file:
            file.seek(self._starts[number])
            with pa.ipc.open_stream(file) as stream:
                return RowChunk(self._sizes[number], self.constants[number], stream.read_next_batch())

    def close(self) -> None:
        """Do nothing, because the file is open only while a chunk is in use."""
