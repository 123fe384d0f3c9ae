"""``endive experiments check``: histories on disk, whole and tampered with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from endive.main import app
from endive.output_files import checksum
from tests.pipeline.damages import change_record

CONFIG = """
[simulation]
duration_ms = "20s"
seed = 4
engine = "reference"
[experiment]
label = "checked"
[storage]
provider = "s3x"
[workload.w]
writers = 8
every = "300ms"
operation = "fast_append"
runtime = { distribution = "fixed", value = 10 }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(CONFIG)
    assert CliRunner().invoke(app, ["run", "run.toml", "--trace"]).exit_code == 0
    return tmp_path


def test_a_run_with_a_trace_is_checked(folder: Path) -> None:
    done = CliRunner().invoke(app, ["experiments", "check", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"checked": 1, "without_trace": 0, "problems": [], "reported_wrongly": []}


def test_a_trace_that_was_tampered_with_is_found(folder: Path) -> None:
    (path,) = folder.rglob("trace.parquet")
    events = pq.read_table(path).to_pylist()
    commits = [event for event in events if event["event"] == "commit"]
    commits[4]["kind"] = commits[3]["kind"]
    pq.write_table(pa.Table.from_pylist(events, pq.read_schema(path)), path)
    done = CliRunner().invoke(app, ["experiments", "check"])
    assert done.exit_code == 1
    assert "the checksum of trace.parquet does not match" in done.output
    change_record(path.parent, trace_sha256=checksum(path))
    done = CliRunner().invoke(app, ["experiments", "check"])
    assert done.exit_code == 1
    assert "an update is lost" in done.output


@pytest.mark.parametrize("event", ["submit", "io"])
def test_an_event_that_is_missing_in_a_trace_is_found(folder: Path, event: str) -> None:
    (path,) = folder.rglob("trace.parquet")
    events = pq.read_table(path).to_pylist()
    missing = [number for number, each in enumerate(events) if each["event"] == event][3]
    pq.write_table(pa.Table.from_pylist([*events[:missing], *events[missing + 1 :]], pq.read_schema(path)), path)
    change_record(path.parent, trace_sha256=checksum(path))
    done = CliRunner().invoke(app, ["experiments", "check"])
    assert done.exit_code == 1
    assert f"transaction {events[missing]['txn_id']}: " in done.output
    assert "in the trace" in done.output


@pytest.mark.parametrize("name", ["trace.parquet", "results.parquet", "cfg.toml"])
@pytest.mark.parametrize("content", [b"", b"PAR1xxxxPAR1", b"\xff", "other columns"])
def test_damaged_files_are_named_and_the_others_are_checked(folder: Path, name: str, content: bytes | str) -> None:
    (path,) = folder.rglob(name)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        pq.write_table(pa.table({"x": [1]}), path)
    shutil.copytree(path.parents[1] if name != "cfg.toml" else path.parent, folder / "experiments" / "whole-00000000")
    done = CliRunner().invoke(app, ["experiments", "check"])
    assert (done.exit_code, done.exception.__class__) == (1, SystemExit)
    assert f"{path.name}" in done.output


def test_runs_without_a_trace_are_counted(folder: Path) -> None:
    (path,) = folder.rglob("trace.parquet")
    path.unlink()
    done = CliRunner().invoke(app, ["experiments", "check"])
    assert done.exit_code == 0
    assert "0 histories checked, 0 problems; 1 without a trace" in done.output
