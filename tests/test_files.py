"""Files that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.files import whole_file, write_text
from endive.runs.results import ParquetSink
from endive.simulation import RESULT_SCHEMA, Simulation, Statistics
from endive.simulation.rows import BATCH_ROWS, RowBuffer, batch_to_results, results_to_batch
from tests.config import built

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, schema=SCHEMA)


def test_text_appears_with_its_directories(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "text.txt"
    write_text(path, "größe\n")
    assert path.read_bytes() == "größe\n".encode()
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_of_a_failure(error: type[BaseException], tmp_path: Path) -> None:
    def half_write() -> None:
        with whole_file(tmp_path / "file") as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        half_write()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_replaced_and_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        ParquetSink(tmp_path, SCHEMA)
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


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
def test_a_full_disk_is_told_with_the_name_of_the_file(when: str, tmp_path: Path) -> None:
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


def test_statistics_export_whole_files(tmp_path: Path) -> None:
    statistics = Simulation(built()).run()
    path = tmp_path / "sub" / "rows.parquet"
    statistics.export_parquet(str(path))
    assert list(path.parent.iterdir()) == [path]
    assert pq.read_table(path).equals(statistics.to_table())
    assert list(statistics.to_dataframe().columns) == RESULT_SCHEMA.names


def test_statistics_of_nothing(tmp_path: Path) -> None:
    statistics = Statistics()
    statistics.export_parquet(tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").schema.equals(RESULT_SCHEMA)
    assert len(statistics.to_dataframe()) == 0


def test_statistics_count_what_they_record() -> None:
    text = """
[transaction]
retry = 1
real_conflict_probability = 1.0
operation_types = { merge_append = 1, validated_overwrite = 1 }
"""
    statistics = Simulation(built(text)).run()
    frame = statistics.to_dataframe()
    assert statistics.committed == (frame.status == "committed").sum() > 0
    assert statistics.aborted == (frame.status == "aborted").sum() > 0
    assert statistics.in_flight == (frame.status == "in_flight").sum() > 0
    assert statistics.total_retries == frame.n_retries.sum() > 0
    assert statistics.validation_exceptions == (frame.abort_reason == "validation_exception").sum() > 0
    for name in ("manifest_list_reads", "manifest_list_writes", "manifest_file_reads", "manifest_file_writes"):
        assert getattr(statistics, name) == frame[name].sum() > 0


def test_rows_become_results_and_rows_again() -> None:
    rows = results_to_batch(Simulation(built()).run().transactions)
    assert results_to_batch(batch_to_results(rows)).equals(rows)


def test_rows_are_handed_on_in_whole_batches() -> None:
    batches: list[int] = []
    buffer: RowBuffer[int] = RowBuffer(lambda items: batch(*items), lambda rows: batches.append(rows.num_rows))
    for number in range(2 * BATCH_ROWS + 3):
        buffer.add(number)
    assert batches == [BATCH_ROWS, BATCH_ROWS]
    buffer.flush()
    buffer.flush()
    assert batches == [BATCH_ROWS, BATCH_ROWS, 3]
