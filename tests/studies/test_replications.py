"""Replications: the same metrics as the pipeline, kept by hash and seed, and nothing run twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.config import ConfigError, Document, compute_experiment_hash
from endive.config.load import check_document
from endive.report.study_data import find_place
from endive.runs.execute import prepare_run, run_experiment
from endive.studies.measure import PLAIN_COLUMNS, MetricsOptions, RunFile, measure_one
from endive.studies.replicate import Replications
from endive.studies.tables import measure_locally

TREE: dict[str, Any] = {
    "simulation": {"duration_ms": 20_000.0, "engine": "reference"},
    "storage": {"provider": "s3x"},
    "workload": {
        "ingest": {"rate": 10.0, "operation": "fast_append", "runtime": {"mean": 200.0, "sigma": 0.5}},
        "maintenance": {
            "periodic": {"interval_ms": 5_000.0},
            "operation": "validated_overwrite",
            "runtime": {"distribution": "fixed", "value": 1_000.0},
        },
    },
}


def document(**overrides: Any) -> Document:
    return check_document(TREE, "test", overrides={key.replace("__", "."): value for key, value in overrides.items()})


@pytest.mark.parametrize("options", [MetricsOptions(), MetricsOptions(warmup_ms=2_000.0, cooldown_ms=1_000.0)])
def test_the_metrics_are_those_of_the_pipeline(tmp_path: Path, options: MetricsOptions) -> None:
    runs = Replications(tmp_path / "runs", options).measure(document(), [3])
    files = run_experiment(document(experiment__label="x"), root=tmp_path, seed=3).files
    place = find_place(files.results)
    expected, _ = measure_locally(place.experiment("x"), place.experiment_runs("x"), options)
    rows = [{name: row[name] for name in PLAIN_COLUMNS} | {"experiment": "x"} for row in runs[0].rows]
    assert rows == expected.runs.to_pylist()
    classes = prepare_run(document(), seed=3).simulation.config.workload.config.workload_classes
    alone = measure_one(RunFile(3, files.results), document(), classes, options)
    assert [{name: row.get(name) for name in PLAIN_COLUMNS} | {"experiment": "x"} for row in alone.rows] == rows
    assert len(rows) == 7


def test_stored_runs_are_reused(tmp_path: Path) -> None:
    first = Replications(tmp_path, MetricsOptions())
    one = first.measure(document(), [2, 0, 1])
    assert [run.seed for run in one] == [2, 0, 1]
    assert first.runs == 3
    again = Replications(tmp_path, MetricsOptions())
    assert again.measure(document(), [2, 0, 1, 3], one[0].window)[:3] == one
    assert again.runs == 1
    folder = tmp_path / compute_experiment_hash(document())
    assert {path.name for path in folder.iterdir()} == {"0", "1", "2", "3", "cfg.toml", "version.txt", "window.json"}
    assert {path.name for path in (folder / "0").iterdir()} == {"metrics.json", "provenance.json", "summary.json"}


def test_other_parameters_and_other_windows_are_other_runs(tmp_path: Path) -> None:
    Replications(tmp_path, MetricsOptions()).measure(document(), [0])
    for options, changes in ((MetricsOptions(), {"workload__ingest__rate": 5.0}), (MetricsOptions(warmup_ms=100.0), {})):
        replications = Replications(tmp_path, options)
        replications.measure(document(**changes), [0])
        assert replications.runs == 1


def test_a_damaged_file_is_run_again(tmp_path: Path) -> None:
    first = Replications(tmp_path, MetricsOptions()).measure(document(), [0])
    (file,) = tmp_path.rglob("0/metrics.json")
    file.write_text(file.read_text()[:100])
    again = Replications(tmp_path, MetricsOptions())
    assert (again.measure(document(), [0]), again.runs) == (first, 1)
    assert json.loads(file.read_text())["version"]


def test_the_number_of_threads_changes_nothing(tmp_path: Path) -> None:
    found = [Replications(tmp_path / str(n), MetricsOptions(), workers=n).measure(document(), range(4)) for n in (1, 3)]
    assert found[0] == found[1]


def test_a_class_that_a_run_has_nothing_of_counts_with_zeros(tmp_path: Path) -> None:
    (run,) = Replications(tmp_path, MetricsOptions()).measure(document(), [0])
    none = run.select("absent", "all")
    assert (none["transactions"], none["throughput_per_s"], none["success_rate"]) == (0, 0.0, None)


def test_a_run_that_fails_reports_it_and_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("endive.studies.replicate.measure_file", fail)
    with pytest.raises(RuntimeError, match="no such luck"):
        Replications(tmp_path, MetricsOptions(), workers=2).measure(document(), range(6))
    assert list(tmp_path.rglob("metrics.json")) == []


def test_a_window_without_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave nothing of the run"):
        Replications(tmp_path, MetricsOptions(warmup_ms=15_000.0, cooldown_ms=5_000.0)).measure(document(), [0])


def test_metrics_of_other_code_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were used again as long as the window was the same."""
    Replications(tmp_path, MetricsOptions(), keep_rows=True).measure(document(), [0])
    (file,) = tmp_path.rglob("0/metrics.json")
    before = json.loads(file.read_text())
    file.write_text(json.dumps({**before, "version": "other", "rows": []}))
    again = Replications(tmp_path, MetricsOptions(), keep_rows=True)
    (run,) = again.measure(document(), [0])
    assert (len(run.rows), again.runs) == (7, 0)  # from the rows that were kept
    monkeypatch.setattr("endive.studies.replicate.metrics_version", lambda: "newer")
    without_rows = Replications(tmp_path / "b", MetricsOptions())
    without_rows.measure(document(), [0])
    assert json.loads(next((tmp_path / "b").rglob("0/metrics.json")).read_text())["version"] == "newer"


def test_the_window_stays_when_seeds_are_added(tmp_path: Path) -> None:
    replications = Replications(tmp_path, MetricsOptions())
    few = replications.measure(document(), range(5))
    more = replications.measure(document(), range(8))
    assert {run.window for run in (*few, *more)} == {few[0].window}
    assert more[:5] == few
    assert replications.runs == 8
    assert not list(tmp_path.rglob("*.parquet"))


def test_metrics_do_not_depend_on_whether_rows_are_kept(tmp_path: Path) -> None:
    found = [
        Replications(tmp_path / str(kept), MetricsOptions(), keep_rows=kept).measure(document(), range(3)) for kept in (False, True)
    ]
    assert found[0] == found[1]


def test_an_interrupted_run_without_rows_is_run_again_for_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("endive.studies.replicate.measure_file", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Replications(tmp_path, MetricsOptions()).measure(document(), [0])
    replications = Replications(tmp_path, MetricsOptions(), keep_rows=True)
    replications.measure(document(), [0])
    assert replications.runs == 1
    assert replications.submitted(document(), 0)
