"""Write the rows of a run to files, and read them in chunks.

``ParquetSink`` writes the results of a run. A row group contains several batches, because the Parquet writer keeps about 80 KiB of
metadata per row group in memory. If a study keeps only a sample of its rows, or none, ``SampleSink`` writes the rows to keep, and
``MeasuringSink`` writes a temporary file with the columns from which the run is measured. The temporary file is not compressed,
because it is read once or twice and then removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
from endive.simulation.columns import BATCH_ROWS, COLUMNS, RESULT_SCHEMA, is_constant_text, parquet_options

ROWS_KEPT = b"endive.rows"
"""Metadata key of results files that do not contain all rows."""
GROUP_ROWS = 8 * BATCH_ROWS
"""Number of rows in a row group of a results file."""
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
    """Sink that writes batches to a Parquet file, in row groups of at least ``GROUP_ROWS`` rows except for the last."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path)
        self._waiting: list[pa.RecordBatch] = []
        self._writer = pq.ParquetWriter(self._temporary, schema, **parquet_options(schema))

    def _write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
        if sum(each.num_rows for each in self._waiting) >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        group, self._waiting = pa.Table.from_batches(self._waiting), []
        self._writer.write_table(group, row_group_size=group.num_rows)

    def _close(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()


class SampleSink(ParquetSink):
    """Sink that writes a uniform sample of the transactions, or no rows, to a Parquet file.

    Args:
        path: File to write.
        kept: ``sample`` or ``none``.
    """

    def __init__(self, path: Path, kept: KeptRows) -> None:
        self._kept = kept
        super().__init__(path, RESULT_SCHEMA.with_metadata({ROWS_KEPT: kept.encode()}))

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Write the transactions of a batch that belong to the sample."""
        if self._kept == "sample":
            super().__call__(batch.filter(pa.array(is_sampled(batch.column("txn_id").to_numpy()))))


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
                if is_constant_text(column):
                    constants[name] = column[0].as_py()
                else:
                    columns[name] = column.dictionary_encode()
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

    def __init__(self, rows: int, constants: Constants, columns: pa.RecordBatch | None) -> None:
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
        values = np.asarray(self._column(name).to_numpy(zero_copy_only=False))
        return values.astype(np.int64, copy=False) if np.issubdtype(values.dtype, np.integer) else values

    def codes(self, name: str) -> tuple[Ints, list[str]]:
        """Return a text column as codes (-1 for null), and the text of each code."""
        if name in self._constants:
            text = self._constants[name]
            return np.broadcast_to(np.int64(-1 if text is None else 0), len(self)), [] if text is None else [str(text)]
        column = self._column(name)
        return np.asarray(pc.fill_null(column.indices, -1)).astype(np.int64), column.dictionary.to_pylist()

    def text_codes(self, name: str, texts: Sequence[str]) -> Ints:
        """Return a text column as indices into ``texts``; -1 for other texts and null."""
        codes, names = self.codes(name)
        places = np.array([*(texts.index(each) if each in texts else -1 for each in names), -1], np.int64)
        if codes.strides == (0,) and len(codes):
            return np.broadcast_to(places[codes[0]], len(self))
        return np.asarray(places[codes])

    def pairs(self) -> tuple[Ints, list[str], list[str]]:
        """Return a code for the class and operation of each row (-1 if one is null), and both names by code."""
        (classes, class_names), (operations, operation_names) = (self.codes(each) for each in ("workload_class", "operation_type"))
        if classes.strides == operations.strides == (0,) and len(self):
            pair = -1 if min(classes[0], operations[0]) < 0 else 0
            return np.broadcast_to(np.int64(pair), len(self)), class_names, operation_names
        pairs = operations * max(len(class_names), 1) + classes
        return np.where((classes < 0) | (operations < 0), -1, pairs), class_names, operation_names

    def _column(self, name: str) -> pa.Array:
        if self._columns is None:
            raise KeyError(name)
        return self._columns.column(name)


class RowFile(Protocol):
    """File with the rows of a run, which is read in chunks.

    Attributes:
        rows: Number of rows.
        constants: Constant columns of each row group, which are not read.
    """

    rows: int
    constants: Sequence[Constants]

    def read(self, group: int, columns: Sequence[str]) -> Iterator[RowChunk]:
        """Read columns of a row group in chunks."""
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
    """Results of a run, read in chunks of ``BATCH_ROWS`` rows. Constant columns are known from the statistics of row groups."""

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

    def read(self, group: int, columns: Sequence[str]) -> Iterator[RowChunk]:
        """Read columns of a row group in chunks."""
        constants = self.constants[group]
        read = [name for name in dict.fromkeys(columns) if name not in constants]
        if not read:
            yield RowChunk(self._file.metadata.row_group(group).num_rows, constants, None)
            return
        for batch in self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=read, use_threads=False):
            yield RowChunk(batch.num_rows, constants, batch)

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
    """Temporary file with the columns for metrics. A row group is one chunk, which is mapped into memory while it is in use."""

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

    def read(self, group: int, columns: Sequence[str]) -> Iterator[RowChunk]:
        """Return a row group as one chunk. Only memory pages of columns that are used are read."""
        with pa.memory_map(self._path) as file:
            file.seek(self._starts[group])
            with pa.ipc.open_stream(file) as stream:
                yield RowChunk(self._sizes[group], self.constants[group], stream.read_next_batch())

    def close(self) -> None:
        """Do nothing, because the file is open only while a chunk is in use."""
