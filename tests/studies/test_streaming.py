"""A run is measured row group by row group: neither their size nor the number of passes changes a number."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from endive.analysis.run_metrics import measure_run
from endive.analysis.warmup import Window
from endive.studies.measure import RunRows
from tests.studies.test_golden_metrics import DURATION_MS, ROWS, fixed_rows

WINDOW = Window(DURATION_MS, 60_000.0, 590_000.0, "given")


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Rows in the order of their ends, as engines write them, some of them of a committer."""
    table = fixed_rows()
    random = np.random.default_rng(3)
    waits = np.where(random.random(ROWS) < 0.5, 0.0, random.exponential(50.0, ROWS))
    for name, values in (
        ("batch_longest_wait_ms", waits),
        ("batch_wait_ms", 2.0 * waits),
        ("batch_size", random.integers(1, 4, ROWS)),
    ):
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table.take(np.argsort(np.asarray(pc.add(table.column("t_submit"), table.column("total_latency")))))


def measured(table: pa.Table, path: Path, group_rows: int, most_kept: int) -> dict[tuple[str, str], dict[str, Any]]:
    pq.write_table(table, path, row_group_size=group_rows)
    with closing(RunRows(path)) as run:
        return measure_run(run, WINDOW, most_kept)


@pytest.mark.parametrize("most_kept", [0, ROWS])
@pytest.mark.parametrize("group_rows", [7 * 31, 1_000, ROWS])
def test_neither_row_groups_nor_passes_change_a_number(rows: pa.Table, tmp_path: Path, most_kept: int, group_rows: int) -> None:
    whole = measured(rows, tmp_path / "whole.parquet", ROWS, ROWS)
    parts = measured(rows, tmp_path / "parts.parquet", group_rows, most_kept)
    assert list(parts) == list(whole)
    for group, metrics in whole.items():
        for name, value in metrics.items():
            if isinstance(value, float | np.ndarray):
                np.testing.assert_allclose(parts[group][name], value, rtol=1e-12, atol=1e-9, err_msg=f"{group} {name}")
            else:
                assert parts[group][name] == value, f"{group} {name}"


@pytest.mark.parametrize("most_kept", [0, ROWS])
def test_a_run_without_rows_is_measured(rows: pa.Table, tmp_path: Path, most_kept: int) -> None:
    found = measured(rows.slice(0, 0), tmp_path / "none.parquet", ROWS, most_kept)
    assert found["all", "all"]["transactions"] == 0
    assert found["all", "all"]["time_to_commit_p50_ms"] is None


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Of six times as many rows, no more is in memory at a time: counts, one row group, and what a pass collects."""
    import tracemalloc

    table, peaks = fixed_rows(), []
    for times in (10, 60):
        path = tmp_path / f"{times}.parquet"
        with pq.ParquetWriter(path, table.schema) as writer:
            for _ in range(times):
                writer.write_table(table)
        with closing(RunRows(path)) as run:
            tracemalloc.start()
            measure_run(run, WINDOW, 0)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2.0 * peaks[0]
