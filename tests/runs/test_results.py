"""Streaming rows to a Parquet file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.runs.row_files import ParquetSink
from endive.simulation.columns import BATCH_ROWS, RESULT_SCHEMA

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, schema=SCHEMA)


def test_a_sink_writes_whole_batches_to_each_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.runs.row_files.GROUP_ROWS", 3)
    path = tmp_path / "rows.parquet"
    with ParquetSink(path, SCHEMA) as sink:
        for values in ((1, 2), (3, 4), (5,)):
            sink(batch(*values))
        assert not path.exists()
    assert sink.rows == 5
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [4, 1]
    assert file.read().column("x").to_pylist() == [1, 2, 3, 4, 5]


def test_metadata_stays_small_beside_the_rows(tmp_path: Path) -> None:
    """The writer keeps the metadata of all row groups in memory, about 80 KiB each: at most a sixth of a byte per row."""
    batch = pa.RecordBatch.from_arrays([pa.nulls(BATCH_ROWS, field.type) for field in RESULT_SCHEMA], schema=RESULT_SCHEMA)
    path, batches = tmp_path / "rows.parquet", 20
    with ParquetSink(path, RESULT_SCHEMA) as sink:
        for _ in range(batches):
            sink(batch)
    metadata = pq.read_metadata(path)
    assert metadata.num_rows == batches * BATCH_ROWS
    assert (metadata.num_row_groups - 1) * 80 * 1024 <= metadata.num_rows / 6.0
    assert metadata.serialized_size < 0.02 * metadata.num_rows


def test_a_sink_without_rows_leaves_an_empty_table(tmp_path: Path) -> None:
    with ParquetSink(tmp_path / "rows.parquet", SCHEMA):
        pass
    table = pq.read_table(tmp_path / "rows.parquet")
    assert (table.num_rows, table.schema.equals(SCHEMA)) == (0, True)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_sink_leaves_nothing_of_a_failure(error: type[BaseException], tmp_path: Path) -> None:
    def half_write() -> None:
        with ParquetSink(tmp_path / "rows.parquet", SCHEMA) as sink:
            sink(batch(1, 2))
            raise error

    with pytest.raises(error):
        half_write()
    assert list(tmp_path.iterdir()) == []


class FullWriter:
    """A Parquet writer on a full disk."""

    def __init__(self, when: str) -> None:
        self._when = when

    def write_table(self, table: pa.Table, row_group_size: int) -> None:
        if self._when == "write":
            raise OSError(28, "Error writing bytes to file")

    def close(self) -> None:
        raise OSError(28, "Error writing bytes to file")


@pytest.mark.parametrize("when", ["write", "close"])
def test_a_full_disk_is_reported_with_the_name_of_the_file(when: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"

    def fill() -> None:
        with ParquetSink(path, SCHEMA) as sink:
            sink._writer.close()
            sink._writer = FullWriter(when)
            sink(batch(1))

    with pytest.raises(OSError, match="No space left on device") as caught:
        fill()
    assert (caught.value.errno, caught.value.filename) == (28, str(path))
    assert list(tmp_path.iterdir()) == []
