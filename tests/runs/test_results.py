"""Streaming rows to a Parquet file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.runs.row_files import ParquetSink

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, schema=SCHEMA)


def test_a_sink_writes_one_row_group_for_each_batch(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with ParquetSink(path, SCHEMA) as sink:
        sink(batch(1, 2))
        sink(batch(3))
        assert not path.exists()
    assert sink.rows == 3
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 2
    assert file.read().column("x").to_pylist() == [1, 2, 3]


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

    def write_batch(self, batch: pa.RecordBatch) -> None:
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
