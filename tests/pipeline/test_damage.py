"""Damaged and hostile results: each is named, the rest goes on, and nothing is written outside."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.pipeline.consolidate import Consolidation, consolidate
from endive.pipeline.metrics import last_options
from endive.runs.contents import results_problem
from endive.runs.inventory import PipelineError
from endive.runs.metric_tables import read_state, read_tables, write_tables
from endive.runs.stored import StoredRun, find_experiments, find_orphans
from endive.studies.measure import MetricsOptions
from tests.cli import invoke
from tests.pipeline.damages import change_record
from tests.pipeline.runs import document, run_all, run_tasks_here

SEEDS = 3


@pytest.fixture
def root(finished_experiments: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "experiments"
    shutil.copytree(finished_experiments, copy)
    return copy


@pytest.fixture(autouse=True)
def tasks_are_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark would do is done in this process."""
    run_tasks_here(monkeypatch)


def consolidated(root: Path) -> Consolidation:
    return consolidate(root, lambda: nullcontext(None))  # type: ignore[arg-type]


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def change(path: Path, **values: Any) -> None:
    change_record(path.parent, **values)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a list": lambda run: (run / "provenance.json").write_text("[]"),
    "deeply nested": lambda run: (run / "provenance.json").write_text(deep(100_000)),
    "nested within limits of the parser": lambda run: (run / "provenance.json").write_text(deep(900)),
    "parameters are a number": lambda run: change(run / "provenance.json", parameters=7),
    "parameters without a duration": lambda run: change(run / "provenance.json", parameters={"simulation": {}}),
    "a duration of text": lambda run: change(run / "provenance.json", parameters={"simulation": {"duration_ms": "x"}}),
    "rows of text": lambda run: change(run / "provenance.json", rows="many"),
    "a checksum that is a list": lambda run: change(run / "provenance.json", results_sha256=[1]),
    "a version that is a number": lambda run: change(run / "provenance.json", code_version=3),
    "no text": lambda run: (run / "provenance.json").write_bytes(b"\xff\xfe"),
    "a number of many digits": lambda run: (run / "provenance.json").write_text('{"rows": ' + "9" * 5_000 + "}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_provenance_is_named_and_the_rest_goes_on(root: Path, damage: str) -> None:
    experiment = next(iter(find_experiments(root)))
    DAMAGES[damage](experiment.runs[0].directory)
    assert (StoredRun(experiment.runs[0].directory).problem() or "").startswith("damaged: provenance.json")
    done = consolidated(root)
    assert [problem.where for problem in done.problems] == [f"{experiment.name} seed 0"]
    assert "provenance.json" in done.problems[0].message
    assert done.runs == 4 * SEEDS - 1
    answer = invoke("experiments", "verify", str(root), "--json")
    assert answer.exit_code == 1
    assert [(each["experiment"], each["seed"]) for each in json.loads(answer.stdout)["problems"]] == [(experiment.name, 0)]


@pytest.mark.parametrize("text", ["[]", "{}", '{"total": 3}', '{"total": {"transactions": "x"}}', deep(5_000), "{"])
def test_damaged_summaries_are_named(root: Path, text: str) -> None:
    run = next(iter(find_experiments(root))).runs[0]
    (run.directory / "summary.json").write_text(text)
    assert (results_problem(run) or "").startswith("damaged: summary.json")
    assert invoke("experiments", "verify", str(root)).exit_code == 1


def test_an_experiment_without_its_configuration_is_a_problem(root: Path) -> None:
    first = next(iter(find_experiments(root)))
    (first.directory / "cfg.toml").unlink()
    assert [each.name for each in find_orphans(root)] == [first.name]
    done = consolidated(root)
    assert [(each.where, each.message) for each in done.problems] == [(first.name, "cfg.toml is missing")]
    assert done.runs == 3 * SEEDS
    answer = invoke("experiments", "verify", str(root))
    assert answer.exit_code == 1
    assert f"{first.name}: cfg.toml is missing" in answer.stderr


@pytest.mark.parametrize("text", ["storage = 3", "[storage]\nprovider = 3", "x", "a = " + deep(3_000)])
def test_a_damaged_configuration_stops_nothing_else(root: Path, text: str) -> None:
    first = next(iter(find_experiments(root)))
    (first.directory / "cfg.toml").write_text(text)
    assert consolidated(root).runs >= 3 * SEEDS


def test_a_directory_that_is_nearly_a_seed_is_named(root: Path) -> None:
    first = next(iter(find_experiments(root)))
    (first.directory / "²").mkdir()
    assert [run.seed for run in first.runs] == [0, 1, 2]
    assert invoke("experiments", "verify", str(root)).exit_code == 1
    done = consolidated(root)
    assert [each.message for each in done.problems] == ["² is not a seed"]
    assert done.runs == 4 * SEEDS


def hostile(run: StoredRun, operation: str | None) -> None:
    """Results whose rows name another operation, with a checksum that fits."""
    table = pq.read_table(run.results)
    column = pa.array([operation] * table.num_rows, pa.string())
    table = table.set_column(table.schema.get_field_index("operation_type"), "operation_type", column)
    pq.write_table(table, run.results)
    digest = hashlib.sha256(run.results.read_bytes()).hexdigest()
    change(run.directory / "provenance.json", results_sha256=digest)


@pytest.mark.parametrize("operation", ["../../../../OUTSIDE", "/tmp/OUTSIDE", "no_such_operation", "", None])
def test_names_that_become_folders_are_those_of_the_model(root: Path, operation: str | None) -> None:
    experiment = next(iter(find_experiments(root)))
    hostile(experiment.runs[0], operation)
    before = {path for path in root.parent.rglob("*") if not path.is_relative_to(root)}
    done = consolidated(root)
    assert [each.where for each in done.problems] == [f"{experiment.name} seed 0"]
    assert "operation" in done.problems[0].message
    assert {path for path in root.parent.rglob("*") if not path.is_relative_to(root)} == before
    assert done.runs == 4 * SEEDS - 1


def test_links_in_the_dataset_are_not_written_through(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "consolidated").mkdir()
    name = next(iter(find_experiments(root))).name
    (root / "consolidated" / f"experiment={name}").symlink_to(outside)
    with pytest.raises(PipelineError, match="leads out of"):
        consolidated(root)
    assert list(outside.iterdir()) == []
    shutil.rmtree(root / "consolidated")
    (root / "consolidated").symlink_to(outside)
    with pytest.raises(PermissionError, match="leads out of"):
        consolidated(root)
    assert list(outside.iterdir()) == []


def test_leftovers_are_listed_and_removed(root: Path) -> None:
    run = next(iter(find_experiments(root))).runs[0]
    left = run.directory / ".results.parquet.00000000-1-1-0123456789ab.tmp"
    left.touch()
    answer = invoke("experiments", "remove", str(root), "--incomplete", "--json")
    assert json.loads(answer.stdout)["files"] == []  # of another machine, and fresh
    os.utime(left, (1.0, 1.0))
    answer = invoke("experiments", "remove", str(root), "--incomplete", "--yes", "--json")
    assert json.loads(answer.stdout) == {"removed": True, "directories": [], "files": [str(left)]}
    assert not left.exists()
    assert run.problem() is None


def tables(value: int) -> dict[str, pa.Table]:
    return {view: pa.table({"x": [value]}) for view in ("runs", "experiments", "saturation", "distributions", "over_time")}


def test_tables_of_metrics_appear_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path, tables(1), {"of": "one"})
    broken = {**tables(2), "over_time": None}
    with pytest.raises((AttributeError, TypeError)):
        write_tables(tmp_path, broken, {"of": "two"})
    found = read_tables(tmp_path)
    assert found is not None
    assert {table["x"][0].as_py() for table in found.values()} == {1}
    assert not list((tmp_path / "metrics").glob(".*.tmp"))
    write_tables(tmp_path, tables(3), {"of": "three"})
    assert read_state(tmp_path) == {"of": "three"}
    (tmp_path / "metrics" / "by_run.parquet").write_bytes(b"PAR1")
    assert read_tables(tmp_path) is None


def test_runs_in_directories_of_other_names_are_found_as_before(tmp_path: Path) -> None:
    run_all([document()], tmp_path, range(2))
    (experiment,) = find_experiments(tmp_path)
    assert [run.problem() for run in experiment.runs] == [None, None]
    assert experiment.problems() == []


@pytest.mark.parametrize("text", ["[]", "3", '{"options": 3}', '{"options": {"warmup_ms": "x"}}', deep(5_000)])
def test_a_damaged_state_of_metrics_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "_state.json").write_text(text)
    assert last_options(tmp_path) == MetricsOptions()
