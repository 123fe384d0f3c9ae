"""Tables of metrics on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.runs.layout import METRICS_FOLDER, METRICS_STATE, METRICS_TABLES, metrics_table
from endive.runs.metric_tables import for_spreadsheets, read_state, read_tables, write_tables


def test_no_name_of_a_user_is_a_formula_of_a_spreadsheet() -> None:
    """Scenarios and profiles are called as users like, and tables are given to others."""
    names = ["=1+1", "+20 %", "-x", "@sum(A1)", "\t=1", "\r=1", "plain", "a=b", None, ""]
    table = pa.table({"scenario": names, "n": list(range(10)), "m": [-1.5] * 10})
    made = for_spreadsheets(table)
    answer = ["'=1+1", "'+20 %", "'-x", "'@sum(A1)", "'\t=1", "'\r=1", "plain", "a=b", None, ""]
    assert made.column("scenario").to_pylist() == answer
    assert made.drop(["scenario"]).equals(table.drop(["scenario"]))


def test_tables_are_written_as_spreadsheets_may_have_them(tmp_path: Path) -> None:
    write_tables(tmp_path, {view: pa.table({"scenario": ["=1+1"]}) for view in METRICS_TABLES}, {})
    for name in METRICS_TABLES.values():
        assert "'=1+1" in metrics_table(tmp_path, name, "csv").read_text()
        assert pq.read_table(metrics_table(tmp_path, name, "parquet"))["scenario"].to_pylist() == ["=1+1"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_tables(tmp_path, {view: pa.table({"x": [1]}) for view in METRICS_TABLES}, {"of": "this"})
    return tmp_path


def test_tables_are_read_with_their_inventory(written: Path) -> None:
    assert read_tables(written) == {view: pa.table({"x": [1]}) for view in METRICS_TABLES}
    assert read_state(written) == {"of": "this"}


@pytest.mark.parametrize("name", METRICS_TABLES.values())
def test_a_table_that_took_the_place_of_another_is_not_read(written: Path, name: str) -> None:
    pq.write_table(pa.table({"y": ["other"]}), metrics_table(written, name, "parquet"))
    assert read_tables(written) is None


def test_a_pipe_is_not_waited_for(written: Path) -> None:
    path = metrics_table(written, "by_run", "parquet")
    path.unlink()
    os.mkfifo(path)
    assert read_tables(written) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tables": []}', '{"tables": {"by_run": 3}}', "[" * 1_000, "\x00"])
def test_without_a_state_that_fits_no_table_is_read(written: Path, text: str) -> None:
    (written / METRICS_FOLDER / METRICS_STATE).write_text(text)
    assert read_tables(written) is None
    assert not read_state(written)


def test_the_state_is_json(written: Path) -> None:
    answer = json.loads((written / METRICS_FOLDER / METRICS_STATE).read_text())
    assert set(answer["tables"]) == {f"{name}.{ending}" for name in METRICS_TABLES.values() for ending in ("parquet", "csv")}
