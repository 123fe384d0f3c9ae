"""Sweeps: which runs, in which tasks, and what is left to do afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.pipeline.jobs import LocalThreads
from endive.pipeline.sweep import Progress, ProgressMonitor, RunGroup, divide_groups, run_sweep
from endive.runs.effort import Effort
from endive.runs.execute import complete_run
from endive.runs.plan import PlannedRun, SweepPoint, remaining_work
from endive.runs.stored import StoredRun
from tests.pipeline.sweeps import POINTS, digests, plan_of, problems, sweep_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = LocalThreads(2)


def test_results_on_spark_and_in_threads_are_the_same_bytes_for_any_number_of_tasks(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(sweep_file(tmp_path))
    found = []
    for executor, tasks in ((spark, 1), (spark, 8), (THREADS, 2)):
        root = tmp_path / f"tasks-{tasks}"
        outcomes = run_sweep(executor, remaining_work(plan, root), root, tasks=tasks)
        assert [outcome.state for outcome in outcomes] == ["done"] * plan.runs
        assert not problems(root)
        found.append(digests(root))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == plan.runs == 2 * POINTS


def test_only_missing_runs_are_run_again(tmp_path: Path) -> None:
    plan, root = plan_of(sweep_file(tmp_path)), tmp_path / "out"
    run_sweep(THREADS, remaining_work(plan, root), root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("results.parquet")}
    assert remaining_work(plan, root).todo == ()
    lost = PlannedRun(plan.points[0], 1).directory(root) / "results.parquet"
    lost.unlink()
    work = remaining_work(plan, root)
    assert [(run.point.experiment, run.seed) for run in work.todo] == [(plan.points[0].experiment, 1)]
    run_sweep(THREADS, work, root)
    after = {path: path.stat().st_mtime_ns for path in root.rglob("results.parquet")}
    assert set(after) == set(before)
    assert {path for path in after if after[path] != before[path]} == {lost}


@pytest.mark.parametrize("damage", ["results", "provenance"])
def test_damaged_runs_are_reported_and_redone(tmp_path: Path, damage: str) -> None:
    plan, root = plan_of(sweep_file(tmp_path, seeds=1)), tmp_path / "out"
    run_sweep(THREADS, remaining_work(plan, root), root)
    whole = digests(root)
    run = StoredRun(PlannedRun(plan.points[2], 0).directory(root))
    if damage == "results":
        run.results.write_bytes(run.results.read_bytes()[:-200])
    else:
        (run.directory / "provenance.json").unlink()
    work = remaining_work(plan, root)
    assert (len(work.todo), len(work.damaged)) == (1, 1)
    run_sweep(THREADS, work, root)
    assert digests(root) == whole
    assert not problems(root)


def test_a_run_that_fails_is_reported_with_its_error_and_the_others_go_on(tmp_path: Path) -> None:
    plan, root = plan_of(sweep_file(tmp_path, seeds=1)), tmp_path / "out"
    blocked = PlannedRun(plan.points[1], 0).directory(root)
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where a directory should be")
    outcomes = run_sweep(THREADS, remaining_work(plan, root), root)
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    assert [(outcome.experiment, outcome.seed) for outcome in failed] == [(plan.points[1].experiment, 0)]
    assert failed[0].error is not None
    assert "Error" in failed[0].error
    assert len(digests(root)) == POINTS - 1
    blocked.unlink()
    run_sweep(THREADS, remaining_work(plan, root), root)
    assert len(digests(root)) == POINTS


def test_progress_follows_the_files_on_disk(tmp_path: Path) -> None:
    plan, root = plan_of(sweep_file(tmp_path, seeds=1)), tmp_path / "out"
    answer: list[Progress] = []
    work = remaining_work(plan, root)
    run_sweep(THREADS, work, root, monitor=ProgressMonitor(work, root, answer.append))
    assert answer[-1] == Progress(POINTS, POINTS, 1.0)
    assert [each.done for each in answer] == sorted(each.done for each in answer)
    assert [each.share for each in answer] == sorted(each.share for each in answer)


def test_a_run_that_is_there_is_found_and_reported_in_one_row(tmp_path: Path) -> None:
    point = plan_of(sweep_file(tmp_path, seeds=1)).points[0]
    outcome = complete_run(point.document, 7, tmp_path / "out", point.experiment)
    assert (outcome.state, outcome.experiment) == ("done", point.experiment)
    assert outcome.rows > 0
    assert complete_run(point.document, 7, tmp_path / "out", point.experiment).state == "found"


def test_an_executor_with_other_code_reports_it_and_writes_nothing(tmp_path: Path) -> None:
    point = plan_of(sweep_file(tmp_path, seeds=1)).points[0]
    outcome = complete_run(point.document, 7, tmp_path / "out", "0123456789ab")
    assert (outcome.state, outcome.experiment) == ("failed", "0123456789ab")
    assert outcome.error is not None
    assert "a different version" in outcome.error
    assert not (tmp_path / "out").exists()


def runs_costing(*seconds: float) -> list[PlannedRun]:
    points = [SimpleNamespace(experiment=f"{i:04d}", effort=SimpleNamespace(cpu_seconds=cost)) for i, cost in enumerate(seconds)]
    return [PlannedRun(cast(SweepPoint, point), 0) for point in points]


def divide_runs(runs: list[PlannedRun], cores: int) -> list[list[PlannedRun]]:
    return [[run for group in task for run in group.runs] for task in divide_groups([RunGroup((run,)) for run in runs], cores)]


@settings(max_examples=50)
@given(st.lists(st.floats(0.001, 30.0), min_size=1, max_size=60), st.integers(1, 8))
def test_every_run_is_in_exactly_one_task_and_the_costliest_comes_first(seconds: list[float], cores: int) -> None:
    runs = runs_costing(*seconds)
    tasks = divide_runs(runs, cores)
    dealt = [run for task in tasks for run in task]
    assert sorted(run.point.experiment for run in dealt) == sorted(run.point.experiment for run in runs)
    assert dealt[0].effort.cpu_seconds == max(seconds)
    assert [run.effort.cpu_seconds for run in dealt] == sorted(seconds, reverse=True)


def test_cheap_runs_share_a_task_and_costly_runs_do_not() -> None:
    tasks = divide_runs(runs_costing(*[10.0] * 4, *[0.01] * 100), 2)
    assert [len(task) for task in tasks[:4]] == [1, 1, 1, 1]
    assert len(tasks) <= 6


def test_costs_are_estimated_before_anything_is_run(tmp_path: Path) -> None:
    plan = plan_of(sweep_file(tmp_path, seeds=2))
    work = remaining_work(plan, tmp_path / "out")
    assert work.effort.transactions == pytest.approx(2.0 * sum(point.effort.transactions for point in plan.points))
    assert all(run.effort.cpu_seconds > 0.0 for run in work.todo)
    assert work.effort.disk_bytes > 0.0
    assert replace(work, rows="sample").effort.disk_bytes == pytest.approx(work.effort.disk_bytes / 100.0)
    assert replace(work, rows="none").effort.disk_bytes == 0.0
    assert replace(work, todo=()).effort == Effort()
