"""Sweeps that keep a sample of the rows, or none: same metrics, and one sentence where all rows are needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from endive.config.sweep_file import KeptRows, Sweep
from endive.pipeline.consolidate import consolidate
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.metrics import assemble_study, measure_study
from endive.pipeline.sweep import run_sweep
from endive.runs import plan as plans
from endive.runs.contents import results_problem
from endive.runs.layout import METRICS_TABLES, scratch_directory
from endive.runs.plan import Work, plan_sweep, remaining_work
from endive.runs.row_files import ONE_IN, is_sampled
from endive.runs.stored import PipelineError, StoredRun, find_experiments, take_inventory
from endive.studies.measure import MetricsOptions
from tests.cli import invoke
from tests.pipeline.kills import run_until_killed
from tests.pipeline.sweeps import digests, sweep_file
from tests.pipeline.test_one_pass import fail_to_start

OPTIONS = MetricsOptions()


def work_of(path: Path, root: Path, rows: KeptRows | None) -> Work:
    return remaining_work(plan_sweep(Sweep(path, rows=rows)), root)


def sweep_rows(path: Path, root: Path, rows: KeptRows | None, threads: int = 1) -> Work:
    work = work_of(path, root, rows)
    outcomes = run_sweep(LocalThreads(threads), work, root)
    assert not [outcome.error for outcome in outcomes if outcome.state == "failed"]
    return work


def stored_runs(root: Path) -> list[StoredRun]:
    return [run for experiment in find_experiments(root) for run in experiment.runs]


def results_of(root: Path) -> dict[str, bytes]:
    return {str(run.directory.relative_to(root)): run.results.read_bytes() for run in stored_runs(root)}


@pytest.mark.parametrize("rows", ["sample", pytest.param("none", marks=pytest.mark.slow)])
def test_metrics_are_those_of_all_rows(tmp_path: Path, rows: KeptRows) -> None:
    path = sweep_file(tmp_path, seeds=3, duration_ms=20_000.0)
    sweep_rows(path, tmp_path / "all", "all")
    sweep_rows(path, tmp_path / "some", rows)
    whole, found = (assemble_study(tmp_path / name, OPTIONS) for name in ("all", "some"))
    assert whole is not None
    assert found is not None
    for view in METRICS_TABLES:
        assert getattr(found.metrics, view).equals(getattr(whole.metrics, view)), view
    for run, other in zip(stored_runs(tmp_path / "all"), stored_runs(tmp_path / "some"), strict=True):
        wanted = pq.read_table(run.results)
        kept = pq.read_table(other.results)
        if rows == "sample":
            assert kept.equals(wanted.filter(is_sampled(wanted.column("txn_id").to_numpy())))
        else:
            assert not len(kept)
        assert other.provenance["rows_kept"] == rows
        assert (other.directory / "summary.json").read_bytes() == (run.directory / "summary.json").read_bytes()
        assert results_problem(other) is None
    assert not scratch_directory(tmp_path / "some").exists()
    assert not work_of(path, tmp_path / "some", rows).todo


def test_a_sample_is_uniform() -> None:
    flags = is_sampled(np.arange(1_000_000))
    parts = flags.reshape(100, -1).sum(axis=1)
    assert abs(flags.mean() * ONE_IN - 1.0) < 0.03
    assert 60 < parts.min() < parts.max() < 145


def test_divided_units_give_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep_file(tmp_path, seeds=3, duration_ms=5_000.0)
    sweep_rows(path, tmp_path / "whole", "sample")
    monkeypatch.setattr("endive.pipeline.sweep.SECONDS_PER_TASK", 0.0)
    monkeypatch.setattr("endive.pipeline.sweep._LARGEST_SHARE", 0.0)
    sweep_rows(path, tmp_path / "divided", "sample", threads=2)
    assert results_of(tmp_path / "whole") == results_of(tmp_path / "divided")
    assert assemble_study(tmp_path / "divided", OPTIONS) is not None


def test_finished_runs_without_rows_run_again_with_all_rows(tmp_path: Path) -> None:
    path, root = sweep_file(tmp_path, seeds=2, duration_ms=500.0), tmp_path / "out"
    sweep_rows(path, tmp_path / "all", "all")
    sweep_rows(path, root, "none")
    assert work_of(path, root, "all").finished == 0
    sweep_rows(path, root, "all")
    assert results_of(root) == results_of(tmp_path / "all")
    assert not work_of(path, root, "none").todo  # rows that are there stay


def test_more_seeds_are_measured_with_those_without_rows(tmp_path: Path) -> None:
    root = tmp_path / "out"
    for seeds in (1, 3):
        path = sweep_file(tmp_path, seeds=seeds, duration_ms=500.0)
        sweep_rows(path, root, "none")
    sweep_rows(path, tmp_path / "all", "all")
    found, whole = (assemble_study(each, OPTIONS) for each in (root, tmp_path / "all"))
    assert found is not None
    assert whole is not None
    assert found.metrics.experiments.equals(whole.metrics.experiments)


def test_commands_that_need_all_rows_report_a_sample(tmp_path: Path) -> None:
    path, root = sweep_file(tmp_path, seeds=2, duration_ms=500.0), tmp_path / "out"
    sweep_rows(path, root, "sample")
    sentence = "only a sample of its rows was kept, but all rows are needed here; `endive sweep FILE --rows all` keeps them"
    with pytest.raises(PipelineError, match=sentence):
        consolidate(root, fail_to_start)
    with pytest.raises(PipelineError, match=sentence):
        measure_study(LocalThreads(1), root, MetricsOptions(warmup_ms=100.0))
    name = next(iter(take_inventory(root).experiments))
    for arguments in (
        ["metrics", str(root), "--warmup", "100"],
        ["compare", str(root / name), str(root / name)],
        ["report", str(root / name)],
    ):
        done = invoke(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert sentence in done.output.replace("\n", " "), (arguments, done.output)
    assert invoke("experiments", "verify", str(root)).exit_code == 0


def test_large_studies_keep_a_sample_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sweep_file(tmp_path, seeds=2, duration_ms=500.0)
    assert plan_sweep(Sweep(path)).rows == "all"
    monkeypatch.setattr(plans, "MOST_BYTES", 1)
    assert plan_sweep(Sweep(path)).rows == "sample"
    assert plan_sweep(Sweep(path, rows="all")).rows == "all"


SWEEP = """
import sys
from tests.pipeline.test_kept_rows import sweep_rows
sweep_rows(Path(sys.argv[1]), Path(sys.argv[2]), "sample")
"""


def test_a_killed_driver_resumes_with_a_sample(tmp_path: Path) -> None:
    path, root = sweep_file(tmp_path, seeds=2, duration_ms=2_000.0), tmp_path / "killed"
    sweep_rows(path, tmp_path / "whole", "sample")
    for moment in (3, 12):  # within a run, and between runs
        assert run_until_killed(SWEEP, moment, path, root)
        finished = {
            str(run.directory.relative_to(root)): run.results.read_bytes() for run in stored_runs(root) if not run.problem()
        }
        assert finished.items() <= results_of(tmp_path / "whole").items()
    sweep_rows(path, root, "sample")
    assert digests(root) == digests(tmp_path / "whole")
    assert assemble_study(root, OPTIONS) is not None
    assert not scratch_directory(root).exists()
