"""The recipes load, run, and start on Iceberg's own commit path; ``endive init --for`` copies them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from endive.config import load_document, load_simulation_config
from endive.config.warnings import warnings_of
from endive.main import app
from endive.simulation import Simulation

RECIPES = sorted((Path(__file__).resolve().parents[1] / "examples" / "recipes").glob("*.toml"))
NAMES = {"rest", "glue", "s3tables", "jdbc", "hive", "ducklake", "files_s3", "files_gcp", "files_azure", "flink", "kafka_connect"}


def test_there_is_a_recipe_for_each_system() -> None:
    assert {path.stem for path in RECIPES} == NAMES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_runs_and_most_of_it_commits(path: Path) -> None:
    document = load_document(path)
    assert {each.code for each in warnings_of(document)} <= {"too_few", "never_conflicts"}
    if path.stem != "ducklake":
        assert document.transaction.commit_path == "iceberg"
    overrides = {"simulation.duration_ms": min(document.simulation.duration_ms, 600_000.0), "simulation.engine": "reference"}
    rows = Simulation(load_simulation_config(path, overrides=overrides)).run().to_dataframe()
    finished = rows[rows.status != "in_flight"]
    assert finished.batch_size.sum() > 10
    assert (finished.status == "committed").mean() > 0.6


def test_init_starts_from_a_recipe(tmp_path: Path) -> None:
    target = tmp_path / "mine.toml"
    result = CliRunner().invoke(app, ["init", str(target), "--for", "rest"])
    assert result.exit_code == 0, result.output
    assert target.read_text() == next(path for path in RECIPES if path.stem == "rest").read_text()
    wrong = CliRunner().invoke(app, ["init", str(tmp_path / "other.toml"), "--for", "rst"])
    assert wrong.exit_code == 2
    assert "rest" in wrong.output


def test_validate_warns_of_many_tables_on_one_pointer(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    path.write_text(
        '[simulation]\nduration_ms = 1.0\n[storage]\nprovider = "s3"\n[catalog]\nnum_tables = 5\n'
        "[transaction]\ninter_arrival.scale = 1.0\n"
    )
    result = CliRunner().invoke(app, ["validate", str(path)])
    assert result.exit_code == 0
    assert "catalog.num_groups" in result.output
    assert "Set it to 5" in " ".join(result.output.split())
