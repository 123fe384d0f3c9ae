"""A run has the same metrics from its results and from the temporary file of a study that does not keep all rows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endive.analysis.run_metrics import measure_run
from endive.analysis.warmup import Window
from endive.runs.row_files import MeasuringSink, ParquetSink, open_rows
from endive.simulation import RESULT_SCHEMA
from endive.studies.measure import RunRows
from tests.studies.test_golden_metrics import DURATION_MS, fixed_rows

WINDOW = Window(DURATION_MS, 60_000.0, 590_000.0, "given")


BATCH = 700


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Results with three batches in a row group, and the temporary file with one."""
    monkeypatch.setattr("endive.runs.row_files.BATCH_ROWS", BATCH)
    monkeypatch.setattr("endive.runs.row_files.GROUP_ROWS", 3 * BATCH)
    rows = fixed_rows().select(RESULT_SCHEMA.names).cast(RESULT_SCHEMA)
    results, measuring = tmp_path / "results.parquet", tmp_path / "rows.arrow"
    with ParquetSink(results, RESULT_SCHEMA) as parquet, MeasuringSink(measuring) as arrow:
        for batch in rows.to_batches(max_chunksize=BATCH):
            parquet(batch)
            arrow(batch)
    return results, measuring


def measured(path: Path, most_kept: int) -> dict[tuple[str, str], dict[str, Any]]:
    with closing(RunRows(path)) as run:
        return measure_run(run, WINDOW, most_kept)


@pytest.mark.parametrize("most_kept", [0, 1_000_000])
def test_metrics_are_equal_to_the_last_digit(files: tuple[Path, Path], most_kept: int) -> None:
    of_results, of_measuring = (measured(path, most_kept) for path in files)
    assert list(of_measuring) == list(of_results)
    for group, metrics in of_results.items():
        for name, value in metrics.items():
            np.testing.assert_array_equal(of_measuring[group][name], value, err_msg=f"{group} {name}")


def test_columns_are_equal(files: tuple[Path, Path]) -> None:
    results, measuring = (open_rows(path) for path in files)
    assert measuring.rows == results.rows
    assert len(results.constants) < len(measuring.constants)
    columns = [name for name in RESULT_SCHEMA.names if name not in ("txn_id", "tables_written")]
    first, second = (
        [chunk for group in range(len(file.constants)) for chunk in file.read(group, columns)] for file in (results, measuring)
    )
    assert [len(chunk) for chunk in second] == [len(chunk) for chunk in first]
    for one, other in zip(first, second, strict=True):
        for field in RESULT_SCHEMA:
            if pa.types.is_string(field.type):
                texts = sorted({*one.codes(field.name)[1], *other.codes(field.name)[1]})
                np.testing.assert_array_equal(other.text_codes(field.name, texts), one.text_codes(field.name, texts))
            elif field.name in columns:
                assert other.numbers(field.name).dtype == one.numbers(field.name).dtype
                np.testing.assert_array_equal(other.numbers(field.name), one.numbers(field.name))
    results.close()
    measuring.close()
