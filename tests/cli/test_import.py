from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from typer.testing import CliRunner

from endive.config.load import load_document
from endive.main import app
from tests.calibrate.tables import START_MS, metadata_document

RUN = CliRunner()


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    path = tmp_path / "v3.metadata.json"
    path.write_text(json.dumps(metadata_document([START_MS + 30_000 * n for n in range(40)])))
    return path


def test_a_configuration_is_written_that_runs(tmp_path: Path, metadata: Path) -> None:
    out = tmp_path / "mine.toml"
    done = RUN.invoke(app, ["import", str(metadata), "-o", str(out), "--provider", "s3x", "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["classes"] == [
        {"name": "append", "operation": "fast_append", "commits": 40, "arrivals": "every 30 s, first at 0.000 s"}
    ]
    assert data["answers"][0]["success"] == 1.0
    assert data["answers"][0]["success_range"][0] < 1.0
    assert load_document(out).storage.provider == "s3x"
    assert (tmp_path / "mine.assumptions.json").exists()


def test_an_expensive_model_is_not_simulated(tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One snapshot of 1970 and others of a busy second made some hundred runs of a week, ten commits each second of it."""
    monkeypatch.setattr("endive.calibrate.answers.Replications", None)
    monkeypatch.setattr("endive.calibrate.answers.MOST_TRANSACTIONS", 20)
    out = tmp_path / "mine.toml"
    done = RUN.invoke(app, ["import", str(metadata), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert "answers" not in data
    assert any(
        "not simulated: " in note and "transactions, more than the limit of 20 for a prediction" in note for note in data["notes"]
    )
    assert load_document(out).workload


def test_assumptions_are_printed(tmp_path: Path, metadata: Path) -> None:
    done = RUN.invoke(app, ["import", str(metadata), "-o", str(tmp_path / "mine.toml"), "--no-answer"])
    assert done.exit_code == 0, done.output
    assert "latency profile of S3" in done.output


def test_a_table_of_a_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = SqlCatalog("mine", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    rows = pa.table({"a": [1, 2]})
    table = catalog.create_table("db.events", rows.schema)
    for _ in range(3):
        table.append(rows)
    catalog.close()
    closed: list[SqlCatalog] = []
    close = SqlCatalog.close

    def note_and_close(catalog: SqlCatalog) -> None:
        closed.append(catalog)
        close(catalog)

    monkeypatch.setattr(SqlCatalog, "close", note_and_close)
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__MINE__WAREHOUSE", warehouse)
    monkeypatch.chdir(tmp_path)
    done = RUN.invoke(app, ["import", "db.events", "--catalog", "mine", "-o", "mine.toml", "--no-answer", "--json"])
    assert done.exit_code == 0, done.output
    assert len(closed) == 1
    document = load_document(tmp_path / "mine.toml")
    assert document.table.manifests == 3
    assert document.table.snapshots == 3
    assert document.transaction.commit_path == "pyiceberg"


@pytest.mark.parametrize("table", ["nowhere.metadata.json", "db.none"])
def test_a_missing_table_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = RUN.invoke(app, ["import", table, "-o", "mine.toml"])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert not (tmp_path / "mine.toml").exists()
