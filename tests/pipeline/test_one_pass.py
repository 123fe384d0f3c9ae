"""Tasks of a sweep measure what they simulate; their rows are those of a job of its own, and are used while they are current."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endive.config.sweep_file import Sweep
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.metrics import assemble_study, current_tables, measure_units
from endive.pipeline.sweep import divide_groups, group_runs, run_sweep
from endive.runs.layout import METRICS_TABLES, measured_units
from endive.runs.plan import plan_sweep, remaining_work
from endive.runs.stored import take_inventory
from endive.studies.measure import MetricsOptions
from endive.studies.tables import Metrics, make_tables, measure_unit, plan_measuring
from tests.pipeline.sweeps import sweep_file

SCENARIOS = """
[scenario.few]
set = { "transaction.retry" = 2 }
[scenario.many]
set = { "transaction.retry" = 7 }
"""
OPTIONS = MetricsOptions()


def run_here(path: Path, root: Path) -> None:
    run_sweep(LocalThreads(1), remaining_work(plan_sweep(Sweep(path)), root), root)


def measured_anew(root: Path) -> Metrics:
    inventory = take_inventory(root)
    batches = [measure_unit(unit).rows for unit in plan_measuring(root, inventory, OPTIONS)]
    return make_tables(pa.Table.from_batches(batches), inventory, OPTIONS)


def fail_to_start() -> Any:
    raise AssertionError("no job is needed")


@pytest.mark.parametrize("scenarios", ["", SCENARIOS], ids=["points", "scenarios"])
def test_a_sweep_measures_its_runs(tmp_path: Path, scenarios: str) -> None:
    path, root = sweep_file(tmp_path, seeds=3, duration_ms=400.0), tmp_path / "out"
    path.write_text(path.read_text() + scenarios)
    run_here(path, root)
    assembled = assemble_study(root, OPTIONS)
    assert assembled is not None
    again = measured_anew(root)
    for view in METRICS_TABLES:
        assert getattr(assembled.metrics, view).equals(getattr(again, view)), view
    assert current_tables(root, fail_to_start).tables["runs"].num_rows == again.runs.num_rows


def test_more_seeds_are_measured_with_those_before(tmp_path: Path) -> None:
    root = tmp_path / "out"
    for seeds in (1, 3):
        run_here(sweep_file(tmp_path, seeds=seeds, duration_ms=300.0), root)
    assembled = assemble_study(root, OPTIONS)
    assert assembled is not None
    assert assembled.metrics.runs.equals(measured_anew(root).runs)


def test_rows_of_changed_results_or_other_options_are_not_used(tmp_path: Path) -> None:
    root = tmp_path / "out"
    run_here(sweep_file(tmp_path, seeds=1, duration_ms=300.0), root)
    assert assemble_study(root, MetricsOptions(warmup_ms=100.0)) is None
    assert assemble_study(root, OPTIONS) is not None
    results = next(root.rglob("results.parquet"))
    os.utime(results, ns=(1, 1))
    assert assemble_study(root, OPTIONS) is None


def test_a_damaged_file_of_rows_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "out"
    run_here(sweep_file(tmp_path, seeds=1, duration_ms=300.0), root)
    path = next(measured_units(root).glob("*.parquet"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert assemble_study(root, OPTIONS) is None


def test_units_that_would_keep_other_cores_waiting_are_divided(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=4, duration_ms=2_000_000_000.0)
    work = remaining_work(plan_sweep(Sweep(path, rows="all")), tmp_path / "out")
    few = group_runs(work, tmp_path / "out", cores=64)
    assert all(group.unit is None and len(group.runs) == 1 for group in few)
    many = group_runs(work, tmp_path / "out", cores=1)
    assert [len(group.runs) for group in many if group.unit is not None] == [4] * 6
    assert sum(len(group.runs) for task in divide_groups(few, 64) for group in task) == len(work.todo)


def test_a_job_stores_its_measurements(tmp_path: Path) -> None:
    from endive.pipeline.jobs import make_task_table
    from endive.pipeline.metrics import _UNIT

    root = tmp_path / "out"
    run_here(sweep_file(tmp_path, seeds=1, duration_ms=300.0), root)
    for path in measured_units(root).glob("*.parquet"):
        path.unlink()
    assert assemble_study(root, OPTIONS) is None
    units = plan_measuring(root, take_inventory(root), OPTIONS)
    specs = [_UNIT.dump_json(unit).decode() for unit in units]
    assert sum(batch.num_rows for batch in measure_units(iter(make_task_table([specs]).to_batches())))
    assert assemble_study(root, OPTIONS) is not None
