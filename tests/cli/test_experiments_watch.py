"""``endive experiments watch`` and ``list``: what a directory of experiments is, and how far it has come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from endive.config.sweep_file import Sweep
from endive.runs.execute import complete_run
from endive.runs.plan import keep_study, plan_sweep, remaining_work
from tests.cli import invoke
from tests.pipeline.sweeps import write_sweep

SCENARIO = '[scenario."twice as long".set]\ntransaction.runtime.mean = 40'


def begun(tmp_path: Path, runs: int) -> Path:
    """A study of which so many runs are done."""
    path, root = write_sweep(tmp_path, 'seeds = "0-0"', "[20, 50, 80]", 500.0, SCENARIO), tmp_path / "out"
    sweep = Sweep(path)
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    finish(root, path, runs)
    return root


def finish(root: Path, path: Path, runs: int) -> None:
    for run in remaining_work(plan_sweep(Sweep(path)), root).todo[:runs]:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"


def test_watch_once_prints_the_progress(tmp_path: Path) -> None:
    root = begun(tmp_path, 2)
    result = invoke("experiments", "watch", str(root), "--once")
    assert (result.exit_code, result.stdout.startswith("study: 2 of 6 runs after ")) == (0, True)
    answer = json.loads(invoke("experiments", "watch", str(root), "--once", "--json").stdout)
    assert (answer["label"], answer["done"], answer["total"], answer["state"]) == ("study", 2, 6, "running")


def test_watch_ends_when_the_study_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = begun(tmp_path, 1)
    monkeypatch.setattr("endive.cli.experiments.wait", lambda _: finish(root, tmp_path / "study.toml", 3))
    lines = invoke("experiments", "watch", str(root), "--json").stdout.splitlines()
    assert [json.loads(line)["done"] for line in lines] == [1, 4, 6]
    assert json.loads(lines[-1])["state"] == "finished"
    assert invoke("experiments", "watch", str(root)).stdout == "study: 6 of 6 runs, finished\n"


def test_a_stopped_sweep_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = begun(tmp_path, 1)
    monkeypatch.setattr("endive.runs.plan.is_living", lambda writer: False)
    result = invoke("experiments", "watch", str(root))
    assert result.exit_code == 1
    assert result.stdout == "study: 1 of 6 runs, stopped; run the same command to resume\n"


def test_a_directory_without_a_sweep_is_an_error(tmp_path: Path) -> None:
    result = invoke("experiments", "watch", str(tmp_path))
    assert (result.exit_code, "contains no sweep" in result.stderr) == (2, True)


def test_the_list_describes_experiments(tmp_path: Path) -> None:
    root = begun(tmp_path, 6)
    text = invoke("experiments", "list", str(root)).stdout
    assert "twice as long, w rate = 80/s" in text
    assert "baseline, w rate = 20/s" in text
    rows = json.loads(invoke("experiments", "list", str(root), "--json").stdout)
    assert {row["scenario"] for row in rows} == {"baseline", "twice as long"}
    answer = {row["what"] for row in rows if row["scenario"] == "baseline"}
    assert answer == {f"baseline, w rate = {rate}/s" for rate in (20, 50, 80)}
