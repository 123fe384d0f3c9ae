"""Results in memory: Arrow batches with counts; objects only when they are read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.simulation import RESULT_SCHEMA, Simulation, Statistics
from endive.simulation.columns import BATCH_ROWS, RowBuffer, batch_to_results, results_to_batch
from endive.transaction import TransactionResult
from tests.config import built

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, schema=SCHEMA)


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


def test_statistics_are_a_dataclass_with_transactions_first() -> None:
    names = [each.name for each in dataclasses.fields(Statistics)]
    assert names[:3] == ["transactions", "committed", "aborted"]
    given = Simulation(built()).run().transactions
    assert Statistics(transactions=given).transactions == given
    assert Statistics(given, committed=3) == Statistics(list(given), committed=3)


def test_objects_are_made_only_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(rows: pa.RecordBatch) -> list[TransactionResult]:
        made.append(1)
        return batch_to_results(rows)

    monkeypatch.setattr("endive.simulation.summary.batch_to_results", counted)
    statistics = Simulation(built()).run()
    frame = statistics.to_dataframe()
    assert made == []
    assert len(statistics.transactions) == len(frame) > 0
    assert statistics.transactions is statistics.transactions
    assert made == [1]


def test_results_that_are_recorded_one_by_one_are_counted_and_come_last() -> None:
    whole = Simulation(built()).run()
    statistics = Statistics()
    for result in whole.transactions:
        statistics.record_transaction(result)
    assert len(statistics.transactions) == len(whole.transactions)
    statistics.record_transaction(whole.transactions[0])
    assert statistics.transactions == [*whole.transactions, whole.transactions[0]]
    assert statistics.to_table().num_rows == len(whole.transactions) + 1
    assert statistics.committed + statistics.aborted + statistics.in_flight == len(whole.transactions) + 1
