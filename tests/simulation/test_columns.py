"""One table describes the columns; what is derived from it agrees with the records of both engines."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.simulation.columns import COLUMNS, COUNT_COLUMNS, IO_COLUMNS, RESULT_SCHEMA, TIME_COLUMNS, TIME_WORDS, parquet_options
from endive.simulation.compiled import engine, run_state
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from endive.transaction import TransactionResult
from endive.transaction.types import COUNTERS, TIMES
from tests.simulation.runs import ENGINES, Engine, frame_of


def test_every_attribute_of_a_result_but_the_time_of_an_abort_is_a_column() -> None:
    attributes = {field.name for field in dataclasses.fields(TransactionResult)}
    assert {column.attribute for column in COLUMNS} == attributes - {"abort_time_ms"}


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_the_kernel_has_every_column_exactly_once(column: Any) -> None:
    sources = [
        column.attribute in TIMES,
        column.attribute in COUNTERS,
        column.attribute in (run_state.ROW.names or ()) or column.name in engine._COMPUTED,
    ]
    assert sources.count(True) == 1


def test_indices_of_the_kernel_are_in_the_order_of_the_model() -> None:
    assert [
        TIMES.index(f"{name}_ms")
        for name in ("catalog_read", "runtime", "per_attempt_io", "conflict_io", "backoff", "catalog_commit")
    ] == [
        run_state.CATALOG_READ,
        run_state.RUNTIME,
        run_state.PER_ATTEMPT_IO,
        run_state.CONFLICT_IO,
        run_state.BACKOFF,
        run_state.CATALOG_COMMIT,
    ]
    assert COUNTERS[run_state.METADATA_READ] == "metadata_reads"
    assert COUNTERS[run_state.METADATA_WRITE] == "metadata_writes"
    assert COUNTERS[run_state.LIST_READ] == "manifest_list_reads"
    assert COUNTERS[run_state.LIST_WRITE] == "manifest_list_writes"
    assert COUNTERS[run_state.FILE_READ] == "manifest_file_reads"
    assert COUNTERS[run_state.FILE_WRITE] == "manifest_file_writes"
    assert COUNTERS[run_state.FILE_DELETE] == "file_deletes"
    assert COUNTERS[run_state.LIST_APPENDS] == "manifest_list_appends"
    assert len(COUNTERS) == run_state.NUM_COUNTS


def test_lists_of_columns() -> None:
    assert set(TIME_COLUMNS) | set(IO_COLUMNS) | set(COUNT_COLUMNS) <= {column.name for column in COLUMNS}
    assert {"n_retries", "n_restarts", "false_conflicts", "real_conflicts", "event_count"} <= set(COUNT_COLUMNS)
    assert set(COUNT_COLUMNS).isdisjoint({"txn_id", *IO_COLUMNS})
    assert all(TIME_WORDS[name] for name in TIME_COLUMNS)


def _tree(**transaction: Any) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 2_000.0, "seed": 5},
        "storage": {"provider": "instant", "profile": "2025-06"},
        "transaction": {
            "runtime": {"distribution": "fixed", "value": 50.0},
            "inter_arrival": {"distribution": "exponential", "scale": 10.0},
            **transaction,
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_the_start_of_the_commit_is_the_end_of_the_work(engine: Engine) -> None:
    frame = frame_of(engine, _tree(operation_types={"fast_append": 1.0, "read_only": 1.0}))
    readers = frame[frame["operation_type"] == "read_only"]
    assert len(readers) > 20
    assert (readers["t_commit_start"] == -1.0).all()
    writers = frame[frame["operation_type"] == "fast_append"]
    done = writers[writers["status"] == "committed"]
    assert len(done) > 20
    assert (done["t_commit"] - done["t_commit_start"]).to_list() == pytest.approx(done["commit_latency"].to_list())
    waiting = writers[(writers["status"] == "in_flight") & (writers["t_runtime"] == 0.0)]
    assert len(waiting) > 0
    assert (waiting["t_commit_start"] == -1.0).all()


@pytest.mark.parametrize("engine", [ReferenceEngine, CompiledEngine])
def test_a_restart_does_not_move_the_start_of_the_commit(engine: Engine) -> None:
    frame = frame_of(
        engine,
        _tree(
            operation_types={"validated_overwrite": 1.0},
            conflict_detector="partition_overlap",
            on_real_conflict="restart",
            max_restarts=2,
        ),
    )
    restarted = frame[frame["n_restarts"] > 0]
    assert len(restarted) > 0
    assert (restarted["t_commit_start"] - restarted["t_submit"] < 2 * 50.0).all()
    once = frame[(frame["n_restarts"] == 0) & (frame["t_commit_start"] >= 0.0)]
    assert (once["t_commit_start"] >= once["t_submit"] + 50.0).all()


def test_times_are_stored_without_a_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    with pq.ParquetWriter(path, RESULT_SCHEMA, **parquet_options(RESULT_SCHEMA)) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([{"txn_id": 1, "t_submit": 2.5, "tables_written": [3]}], RESULT_SCHEMA))
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    for column in COLUMNS:
        leaf = f"{column.name}.list.element" if column.kind == "tables" else column.name
        assert columns[leaf].has_dictionary_page == (column.kind != "ms" and column.name != "txn_id"), column.name
