"""``endive sweep`` and ``endive experiments``, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from endive.cli.sweep import ProgressLines
from endive.main import app
from endive.pipeline.sweep import Progress
from endive.runs.execute import complete_run
from endive.runs.plan import remaining_work
from tests.pipeline.damages import change_record, name_by_parameters
from tests.pipeline.sweeps import POINTS, digests, plan_of, sweep_file


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments: str | Path) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Experiments of a sweep that was run to its end, without Spark."""
    root = tmp_path / "experiments"
    for run in remaining_work(plan_of(sweep_file(tmp_path, seeds=1)), root).todo:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"
    return root


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    path, root = sweep_file(tmp_path), tmp_path / "experiments"
    plan = answer("sweep", path, "--out", root, "--dry-run")
    assert (plan["points"], plan["runs"], plan["finished"], plan["to_do"]) == (POINTS, 2 * POINTS, 0, 2 * POINTS)
    assert plan["seeds"] == [0, 1]
    assert plan["estimated_transactions"] == pytest.approx(2 * 2 * (20 + 50 + 80), rel=0.05)
    assert plan["estimated_core_seconds"] > 0
    assert plan["estimated_bytes"] > 0
    assert {point["workload.w.rate"] for point in plan["plan"]} == {20, 50, 80}
    assert not root.exists()
    text = call("sweep", path, "--out", root, "--dry-run").stdout
    assert "12 runs (2 seeds), 0 finished, 12 remaining" in text


def test_a_dry_run_counts_finished_runs(tmp_path: Path, finished: Path) -> None:
    plan = answer("sweep", sweep_file(tmp_path), "--out", finished, "--dry-run")
    assert (plan["finished"], plan["to_do"]) == (POINTS, POINTS)


def test_a_finished_sweep_starts_no_spark(tmp_path: Path, finished: Path) -> None:
    result = answer("sweep", sweep_file(tmp_path, seeds=1), "--out", finished, "--master", "spark://nowhere:1")
    assert (result["finished_before"], result["done"], result["failed"]) == (POINTS, 0, [])


def test_seeds_of_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    assert answer("sweep", sweep_file(tmp_path), "--seeds", "5-9", "--dry-run")["seeds"] == [5, 6, 7, 8, 9]


def test_a_wrong_number_of_seeds_is_reported(tmp_path: Path) -> None:
    result = call("sweep", sweep_file(tmp_path), "--seeds", "x", "--out", tmp_path / "out")
    assert (result.exit_code, (tmp_path / "out").exists()) == (2, False)


def test_a_million_points_need_a_yes(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    path.write_text(path.read_text().replace("[20, 50, 80]", "{ from = 1, to = 1000000, points = 1000000 }"))
    result = call("sweep", path)
    assert result.exit_code == 2
    assert "--yes" in result.stderr


def test_a_wrong_axis_ends_with_2(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    path.write_text(f'{path.read_text()}\n"workload.w.rte" = [1]\n')
    result = call("sweep", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "unknown key; did you mean 'rate'?" in result.stderr
    assert not (tmp_path / "out").exists()


def test_experiments_are_listed_and_shown(finished: Path) -> None:
    listed = answer("experiments", "list", finished)
    assert len(listed) == POINTS
    assert all(each["seeds"] == [0] and each["rows"] > 0 and each["of_this_version"] for each in listed)
    shown = answer("experiments", "show", listed[0]["experiment"], finished)
    assert "[workload.w]" in shown["configuration"]
    assert shown["runs"][0]["rows"] == listed[0]["rows"]
    assert "6 experiments" in call("experiments", "list", finished).stdout
    assert call("experiments", "show", "study", finished).exit_code == 2
    assert call("experiments", "show", "nothing", finished).exit_code == 2


def test_verify_reports_damaged_runs(finished: Path) -> None:
    assert answer("experiments", "verify", finished) == {"checked": POINTS, "problems": []}
    results = sorted(finished.rglob("results.parquet"))
    results[0].write_bytes(b"x")
    results[1].unlink()
    summary = results[2].parent / "summary.json"
    content = json.loads(summary.read_text())
    content["total"]["transactions"] += 1
    summary.write_text(json.dumps(content))
    outcome = call("experiments", "verify", finished, "--json")
    assert outcome.exit_code == 1
    problems = [problem["problem"] for problem in json.loads(outcome.stdout)["problems"]]
    assert [problem.split(":")[0] for problem in problems[:2]] == ["corrupt", "incomplete"]
    assert "in the summary" in problems[2]


def test_remove_deletes_incomplete_runs_after_confirmation(finished: Path) -> None:
    broken = sorted(finished.rglob("results.parquet"))[0]
    broken.unlink()
    assert call("experiments", "remove", finished).exit_code == 2
    listed = answer("experiments", "remove", finished, "--incomplete")
    assert listed == {"removed": False, "directories": [str(broken.parent)], "files": []}
    assert broken.parent.exists()
    answer("experiments", "remove", finished, "--incomplete", "--yes")
    assert not broken.parent.exists()
    assert call("experiments", "remove", finished, "--incomplete").stdout == "nothing to remove\n"
    assert len(digests(finished)) == POINTS - 1


def test_remove_takes_experiments_of_another_version(finished: Path) -> None:
    run = sorted(finished.rglob("provenance.json"))[0].parent
    change_record(run, code_version="0.0.1+older")
    old = name_by_parameters(run)
    assert [each["experiment"] for each in answer("experiments", "list", finished) if not each["of_this_version"]] == [old.name]
    assert answer("experiments", "remove", finished, "--old", "--yes")["directories"] == [str(old)]
    assert not old.exists()


def test_experiments_of_an_older_model_are_mentioned_before_their_points_run_again(finished: Path, tmp_path: Path) -> None:
    run = sorted(finished.rglob("provenance.json"))[0].parent
    change_record(run, code_version="0.0.1+older")
    name_by_parameters(run)
    result = call("sweep", sweep_file(tmp_path), "--out", finished, "--dry-run")
    assert "1 experiment of an older model version" in " ".join(result.stderr.split())


def test_an_empty_directory_has_no_experiments(tmp_path: Path) -> None:
    assert answer("experiments", "list", tmp_path / "nowhere") == []


def test_progress_is_reported_in_lines_where_there_is_no_terminal() -> None:
    said: list[str] = []
    clock = iter([0.0, 5.0, 31.0, 40.0, 62.0, 500.0])
    lines = ProgressLines(said.append, 30.0, lambda: next(clock))
    for done, share in ((0, 0.0), (0, 0.0), (1, 0.2), (2, 0.25), (10, 1.0)):
        lines.update(Progress(done, 10, share))
    assert said == ["0 of 10 runs after 31 s", "2 of 10 runs after 62 s, about 3.1 min remaining"]


def test_a_sweep_that_does_not_fit_on_the_disk_is_refused_before_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.runs.effort.free_bytes", lambda _: 1_000)
    monkeypatch.setattr("endive.pipeline.session._start", lambda *_: pytest.fail("too late"))
    path, root = sweep_file(tmp_path), tmp_path / "experiments"
    root.mkdir()
    result = call("sweep", path, "--out", root)
    assert result.exit_code == 2
    assert "are free in" in result.stderr
    assert "--yes" in result.stderr
    assert list(root.iterdir()) == []
    assert "are free in" in call("sweep", path, "--out", root, "--dry-run").stderr


def test_an_impossible_directory_is_one_error_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There were sixty errors, one for each run, after Spark had started."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("endive.pipeline.session.StartingSession.begin", lambda self: pytest.fail("Spark was started"))
    result = call("sweep", sweep_file(tmp_path), "--out", tmp_path / "file" / "below")
    assert result.exit_code == 1
    assert result.stderr.replace("\n", "") == f"error: {tmp_path / 'file'} is a file, but must be a directory"
    result = call("report", tmp_path, "--out", tmp_path / "file" / "report.html")
    assert (result.exit_code, result.stderr.count("error:")) == (1, 1)


def test_a_file_of_another_kind_is_an_error_with_the_right_command(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    assert "is a study ([sweep]), not a configuration; run it with `endive sweep`" in call("validate", path).stderr
    config = tmp_path / "config.toml"
    config.write_text("[simulation]\nduration_ms = 1\n")
    assert "is a configuration, not a study; run it with `endive run`" in call("sweep", config).stderr
