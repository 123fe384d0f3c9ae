"""``endive report``, as a user calls it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli import invoke
from tests.pipeline.damages import change_record
from tests.pipeline.runs import document, run_all, run_commands_without_spark


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One experiment with two seeds."""
    root = tmp_path_factory.mktemp("runs")
    run_all([document(simulation__duration_ms=4_000.0)], root, range(2))
    return root


@pytest.fixture
def experiment(runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(runs, tmp_path / "experiments")
    return next((tmp_path / "experiments").glob("mixed-*"))


def test_the_answer_and_the_path_are_printed(experiment: Path) -> None:
    result = invoke("report", str(experiment))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert " commits/s at an offered load of " in lines[0]
    assert lines[-1].startswith(f"wrote {experiment / 'report.html'}: ")
    assert "only 2 seeds" in result.stderr.replace("\n", " ")
    assert (experiment / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_run_is_reported_beside_its_results(experiment: Path) -> None:
    result = invoke("report", str(experiment / "1"), "--json")
    answer = json.loads(result.stdout)
    assert answer["report"] == str(experiment / "1" / "report.html")
    assert answer["warnings"][0].startswith("The study has only 1 seed, ")
    assert "time_parts" in answer["figures"]


def test_another_file(experiment: Path, tmp_path: Path) -> None:
    assert invoke("report", str(experiment), "-o", str(tmp_path / "new" / "mine.html")).exit_code == 0
    assert (tmp_path / "new" / "mine.html").is_file()
    assert not (experiment / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["nowhere"], "no such file or directory"),
        (["empty"], "no finished run; run `endive run CONFIG` or `endive sweep SWEEP` first"),
        (["EXPERIMENT", "--load", "workload.ingest.speed"], "no experiment has this numeric parameter"),
        (["EXPERIMENT", "--code-version", "9.9"], "no results of version '9.9'"),
    ],
)
def test_wrong_calls_of_report_end_with_2(
    arguments: list[str], answer: str, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    result = invoke("report", *(str(experiment) if each == "EXPERIMENT" else each for each in arguments))
    assert result.exit_code == 2
    assert answer in result.stderr.replace("\n", " ")
    assert result.stdout == ""
    assert list(tmp_path.rglob("report.html")) == []


def test_a_directory_of_experiments_is_measured_first_and_versions_are_not_mixed(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_commands_without_spark(monkeypatch)
    root = experiment.parent
    answer = json.loads(invoke("report", str(root), "--json").stdout)
    assert answer["report"] == str(root / "report.html")
    assert (root / "metrics" / "by_experiment.parquet").is_file()
    older = "0" * 12
    other = root / f"mixed-{older}"
    shutil.copytree(experiment, other)
    for run in other.glob("*/provenance.json"):
        change_record(run.parent, code_version="0.0.1+older", experiment_hash=older)
    result = invoke("report", str(root), "--json")
    assert result.exit_code == 2
    assert "several code versions" in json.loads(result.stdout)["errors"][0]["message"]
    assert "0.0.1+older" in result.stderr.replace("\n", "")
    assert invoke("report", str(root), "--code-version", "older").exit_code == 0
    assert "0.0.1+older" in (root / "report.html").read_text(encoding="utf-8")
