"""``endive replay`` and ``endive fidelity`` from end to end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tomli_w
from typer.testing import CliRunner

from endive.calibrate.answers import simulate
from endive.main import app
from tests.calibrate.tables import START_MS, WrittenTable, metadata_document, write_table
from tests.calibrate.test_fidelity import TREE
from tests.cli import assert_fits, invoke, narrow_invoke

RUN = CliRunner()
EXAMPLE = Path(__file__).parents[2] / "examples/table/events.metadata.json"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    folder = tmp_path_factory.mktemp("system")
    model = folder / "model.toml"
    model.write_text(tomli_w.dumps(TREE))
    slow = {"workload.ingest.rate": 0.3}  # at 0.6/s, upserts that merge 100 manifests lose every race: no import repeats that
    return write_table(folder / "table", simulate(model, slow, (7,)), properties={}, manifests=10)


def test_a_replay_submits_each_commit_once(tmp_path: Path, table: WrittenTable) -> None:
    out = tmp_path / "week.toml"
    command = ["replay", str(table.metadata), "--reports", str(table.reports), "--provider", "s3", "-o", str(out)]
    done = RUN.invoke(app, [*command, "--set", "storage.provider=s3x", "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    was = {each["class"]: each for each in data["as_it_was"]}
    other = {each["class"]: each for each in data["with_changes"]}
    commits = {str(path.stem).rpartition(".")[2]: len(path.read_text().splitlines()) - 1 for path in tmp_path.glob("week.*.csv")}
    assert set(commits) == set(was)
    assert sum(commits.values()) == len(json.loads(table.metadata.read_text())["snapshots"])
    shown = narrow_invoke(*command, "--force")
    assert shown.exit_code == 0
    assert_fits(shown.output.splitlines())
    for name in was:
        assert other[name]["p50_ms"] < was[name]["p50_ms"] / 2
        assert was[name]["success"] > 0.95


def test_a_replay_of_a_missing_file_is_an_error(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["replay", str(tmp_path / "no.metadata.json"), "-o", str(tmp_path / "x.toml")])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_fidelity_of_an_import_with_reports(tmp_path: Path, table: WrittenTable) -> None:
    out = tmp_path / "mine.toml"
    command = ["import", str(table.metadata), "--reports", str(table.reports), "--provider", "s3", "-o", str(out), "--no-answer"]
    imported = narrow_invoke(*command)
    assert imported.exit_code == 0
    assert_fits(imported.output.splitlines())
    against = ["--against", str(table.reports), "--against", str(table.metadata)]
    done = RUN.invoke(app, ["fidelity", str(out), *against, "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["verdict"] == "close", data
    shown = narrow_invoke("fidelity", str(out), *against, "--set", "storage.provider=gcp")
    assert_fits(shown.output.splitlines())
    assert "The model is not close" in shown.output
    assert "faster than its latency profile" in " ".join(shown.output.split())


def test_fidelity_shows_a_fraction_in_percent(tmp_path: Path) -> None:
    metadata, model = str(EXAMPLE), str(tmp_path / "mine.toml")
    assert invoke("import", metadata, "--no-answer", "-o", model).exit_code == 0
    shown = invoke("fidelity", model, "--against", metadata).stdout
    assert re.search(r"overwrite: fraction of failed operations +6\.2% ", shown)


def test_too_little_to_compare_is_one_sentence(tmp_path: Path) -> None:
    metadata = tmp_path / "v1.metadata.json"
    metadata.write_text(json.dumps(metadata_document([START_MS, START_MS + 60_000])))
    model = tmp_path / "model.toml"
    model.write_text(tomli_w.dumps(TREE))
    done = RUN.invoke(app, ["fidelity", str(model), "--against", str(metadata)])
    assert done.exit_code == 2
    assert "no operation has at least 20 commits" in done.output
