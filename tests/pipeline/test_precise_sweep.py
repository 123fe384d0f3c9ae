"""Sweeps with a precision: points get the seeds that they need, on real Spark, and nothing else changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from endive.analysis.conditions import Subject
from endive.analysis.warmup import Window, given_window
from endive.config.sweep_file import Sweep
from endive.main import app
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.metrics import current_tables
from endive.pipeline.sweep import plan_more_seeds, run_sweep
from endive.runs.layout import METRICS_FOLDER, METRICS_STATE, METRICS_TABLES
from endive.runs.plan import plan_sweep, read_studies, remaining_work
from endive.runs.stored import take_inventory
from endive.studies import measure, tables
from endive.studies.measure import MetricsOptions, RunFile, measure_file
from endive.studies.tables import measure_unit, plan_measuring
from tests.pipeline.sweeps import digests, write_sweep
from tests.pipeline.test_one_pass import fail_to_start

THROUGHPUT = (Subject("throughput_per_s"),)
"""The number of arrivals varies by 8% at 30/s and by 2.6% at 300/s."""


def write(folder: Path, about: str, rates: str = "[30, 300]", more: str = "") -> Path:
    return write_sweep(folder, about, rates, 5_000.0, more)


def answer(*arguments: str | Path) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in (*arguments, "--json")])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run_here(path: Path, root: Path, **options: Any) -> list[int]:
    """Run a sweep in this process; return the numbers of seeds of its points, in the order of their rates."""
    plan = plan_sweep(Sweep(path, **options))
    while True:
        run_sweep(LocalThreads(2), remaining_work(plan, root), root)
        more, _ = plan_more_seeds(fail_to_start, plan, root, THROUGHPUT)
        if more.runs == plan.runs:
            return [len(plan.seeds_of(point)) for point in sorted(plan.points, key=lambda each: each.values["workload.w.rate"])]
        plan = more


@pytest.mark.usefixtures("commands_share_spark")
def test_points_get_the_seeds_that_they_need_and_the_bytes_of_given_seeds(spark: SparkSession, tmp_path: Path) -> None:
    path, root, given = write(tmp_path, 'precision = "4%"'), tmp_path / "precise", tmp_path / "given"
    found = answer("sweep", path, "-o", root, "--for", "throughput")
    few, many = sorted(found["seeds"].values())
    assert (few, found["reached"], found["fewest_seeds"], found["most_seeds"]) == (4, True, 4, many)
    assert 12 <= many <= 40
    assert found["runs"] == found["done"] == few + many
    for rates, seeds in (("[300]", few), ("[30]", many)):
        answer("sweep", write(tmp_path, f'seeds = "0-{seeds - 1}"', rates), "-o", given)
    assert digests(root) == digests(given)
    ours, theirs = (current_tables(each, lambda: pytest.fail("measured by the tasks")).tables for each in (root, given))
    for view in METRICS_TABLES:
        assert ours[view].equals(theirs[view]), view
    totals = [row for row in ours["experiments"].to_pylist() if row["workload_class"] == row["operation_type"] == "all"]
    assert all(row["throughput_per_s_hw"] <= 0.04 * row["throughput_per_s"] for row in totals)
    assert sorted(row["n_seeds"] for row in totals) == [few, many]


@pytest.mark.slow
def test_a_second_sweep_runs_nothing_and_a_tighter_one_adds_seeds(tmp_path: Path) -> None:
    path, root = write(tmp_path, 'precision = "8%"'), tmp_path / "out"
    first = run_here(path, root)
    before = digests(root)
    assert run_here(path, root) == first
    assert digests(root) == before
    tighter = run_here(path, root, precision="4%")
    assert tighter[0] > first[0]
    assert {name: digest for name, digest in digests(root).items() if name in before} == before
    assert run_here(path, tmp_path / "fresh", precision="4%") == tighter


def test_the_first_seeds_suffice_if_intervals_are_at_most_half_as_wide_as_requested(tmp_path: Path) -> None:
    assert run_here(write(tmp_path, 'precision = "10%"'), tmp_path / "out") == [8, 4]


def test_metrics_of_earlier_jobs_are_reused_only_in_the_same_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, root = plan_sweep(Sweep(write(tmp_path, 'seeds = "0-3"', "[30]"))), tmp_path / "out"
    run_sweep(LocalThreads(1), remaining_work(plan, root), root)
    measured: list[int] = []

    def count(experiment: str, run: RunFile, window: Window) -> list[dict[str, Any]]:
        measured.append(run.seed)
        return measure_file(experiment, run, window)

    monkeypatch.setattr(measure, "measure_file", count)
    for seeds, new in ((6, [4, 5]), (7, [6])):
        more = replace(plan, seeds=tuple(range(seeds)))
        run_sweep(LocalThreads(1), remaining_work(more, root), root)
        assert measured == new
        measured.clear()
    (unit,) = plan_measuring(root, take_inventory(root), MetricsOptions())
    known = replace(unit, measured=unit.experiments)
    assert measure_unit(known).rows.num_rows == measure_unit(unit).rows.num_rows
    assert measured == list(range(7))
    monkeypatch.setattr(tables, "choose_window", lambda *_: given_window(5_000.0, 100.0))
    assert set(measure_unit(known).rows.column("warmup_ms").to_pylist()) == {100.0}
    assert measured == 2 * list(range(7))


def test_the_number_of_seeds_is_bounded_and_the_precision_is_printed(tmp_path: Path) -> None:
    path, root = write(tmp_path, 'precision = "1%"\nmax_seeds = 10', "[30]"), tmp_path / "out"
    assert run_here(path, root) == [10]
    result = CliRunner().invoke(app, ["sweep", str(path), "-o", str(root), "--for", "throughput", "--master", "spark://nowhere:1"])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "The precision of 1% is not reached with 10 seeds. With the maximum number of seeds, the half width of" in text
    assert "Raise --max-seeds or simulation.duration_ms." in text


def test_the_number_of_seeds_follows_from_the_estimates_of_the_tables_but_writes_none(tmp_path: Path) -> None:
    rare = '[base.workload.rare]\nrate = 0.2\noperation = "fast_append"\n'
    path, root = write(tmp_path, 'precision = "60%"\nmax_seeds = 8', "[30]", rare), tmp_path / "out"
    plan = plan_sweep(Sweep(path))
    run_sweep(LocalThreads(2), remaining_work(plan, root), root)
    _, reached = plan_more_seeds(fail_to_start, plan, root, (Subject("throughput_per_s", "rare"),))
    assert not (root / METRICS_FOLDER / METRICS_STATE).exists()
    ((width,),) = (each.widths for each in reached.values())
    found = current_tables(root, fail_to_start).tables
    assert 0 in [row["transactions"] for row in found["runs"].to_pylist() if row["workload_class"] == "rare"]
    (row,) = (row for row in found["experiments"].to_pylist() if (row["workload_class"], row["operation_type"]) == ("rare", "all"))
    assert width.mean == pytest.approx(row["throughput_per_s"], rel=1e-12)
    assert width.half_width == pytest.approx(row["throughput_per_s_hw"], rel=1e-12)


@pytest.mark.slow
def test_scenarios_at_a_point_share_their_seeds(tmp_path: Path) -> None:
    scenarios = '[scenario.today]\n[scenario.slow]\nset = { "transaction.runtime.mean" = 40 }\n'
    path, root = write(tmp_path, 'precision = "5%"', more=scenarios), tmp_path / "out"
    seeds = run_here(path, root)
    assert seeds[0] == seeds[1] > seeds[2] == seeds[3] == 8


def test_the_record_has_the_seeds_of_each_experiment_and_the_precision(tmp_path: Path) -> None:
    path, root = write(tmp_path, 'seeds = "0-1"', "[30]"), tmp_path / "out"
    run_here(path, root, precision="6%", max_seeds=50)
    answer(
        "sweep", path, "-o", root, "--precision", "6%", "--max-seeds", "50", "--for", "throughput", "--master", "spark://nowhere:1"
    )
    (record,) = read_studies(root)
    assert record.arguments == ["--precision", "6%", "--max-seeds", "50"]
    assert set(record.results(root)) == {root / name for name in digests(root)}


@pytest.mark.parametrize("rows", ["sample", "none"])
def test_sweeps_without_all_rows_have_the_same_metrics(tmp_path: Path, rows: str) -> None:
    path = write(tmp_path, 'precision = "6%"', "[30]")
    assert run_here(path, tmp_path / "all") == run_here(path, tmp_path / "some", rows=rows)
    whole, some = (current_tables(tmp_path / name, fail_to_start).tables["runs"] for name in ("all", "some"))
    assert whole.equals(some)


def test_a_dry_run_with_a_precision_shows_the_first_runs(tmp_path: Path) -> None:
    path = write(tmp_path, 'precision = "2%"')
    result = CliRunner().invoke(app, ["sweep", str(path), "-o", str(tmp_path / "out"), "--dry-run"])
    assert "points with intervals wider than 2% get up to 100 seeds" in " ".join(result.output.split())
    assert answer("sweep", path, "--dry-run", "-o", tmp_path / "out")["runs"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for", "throughput"], "no effect without --precision"),
        (["--precision", "0.5pp", "--for", "throughput"], "0.5pp applies to proportions"),
    ],
)
def test_contradicting_options_are_errors(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["sweep", str(write(tmp_path, "")), "-o", str(tmp_path / "out"), "--dry-run", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
