"""Sweeps on a real cluster: the same bytes as on one machine, and whole even if a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from endive.cache_directory import CACHE_VARIABLE, cache_root
from endive.pipeline.metrics import assemble_study
from endive.pipeline.sweep import run_sweep
from endive.runs.plan import remaining_work
from endive.studies.measure import MetricsOptions
from tests.config.test_components import of_guide
from tests.pipeline.cluster import Cluster, driver, measured_tables, report_of, standalone_cluster, tables_of, wait_until
from tests.pipeline.sweeps import POINTS, digests, plan_of, problems, sweep_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_results_and_metrics_are_the_same_bytes_on_one_machine_and_on_a_cluster(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    sweep = sweep_file(tmp_path, seeds=3)
    plan, local = plan_of(sweep), tmp_path / "local"
    run_sweep(spark, remaining_work(plan, local), local, tasks=8)
    tables = measured_tables(spark, local)
    root, cache = tmp_path / "cluster", other_cache(tmp_path / "cache")
    with driver(cluster.master, sweep, root, 4, "measure", environment={CACHE_VARIABLE: str(cache)}) as process:
        report = report_of(process)
    assert report == {"states": ["done"] * plan.runs, "caches": [str(cache)], "stderr": ""}
    assert not problems(root)
    assert len(digests(local)) == plan.runs
    assert digests(local) == digests(root)
    assert set(tables) == {"by_experiment.csv", "by_run.csv", "distributions.csv", "over_time.csv", "saturation.csv"}
    assert tables_of(root) == tables
    dataset = consolidated_bytes(local)
    assert dataset
    assert consolidated_bytes(root) == dataset


@pytest.mark.slow
def test_a_sample_is_the_same_bytes_on_one_machine_and_on_a_cluster(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_file(tmp_path, seeds=3)
    plan = replace(plan_of(sweep), rows="sample")
    found = []
    for name, largest in (("whole", 1.5), ("divided", 0.0)):
        monkeypatch.setattr("endive.pipeline.sweep._LARGEST_SHARE", largest)
        monkeypatch.setattr("endive.pipeline.sweep.SECONDS_PER_TASK", largest)
        run_sweep(spark, remaining_work(plan, tmp_path / name), tmp_path / name)
        assert assemble_study(tmp_path / name, MetricsOptions()) is not None
        found.append((digests(tmp_path / name), tables_of(tmp_path / name)))
    root = tmp_path / "cluster"
    with driver(cluster.master, sweep, root, 4, "sample") as process:
        assert report_of(process)["states"] == ["done"] * plan.runs
    assert assemble_study(root, MetricsOptions()) is not None
    assert not problems(root)
    assert found == [(digests(root), tables_of(root))] * 2


def consolidated_bytes(root: Path) -> dict[str, bytes]:
    """Return the files of the consolidated dataset, by their path in it."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted((root / "consolidated").rglob("*.parquet"))}


def other_cache(path: Path) -> Path:
    """A cache of its own that has the archive of classes: to make one takes longer than the test."""
    path.mkdir(mode=0o700)
    (path / "classes").symlink_to(cache_root() / "classes")
    return path


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python that has the dependencies of the package, but not the package."""
    site, program = tmp_path / "site", tmp_path / "python"
    site.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "endive" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{site}" exec "{sys.executable}" -S "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_executors_without_the_package_run_the_code_that_is_shipped(cluster: Cluster, bare_python: Path, tmp_path: Path) -> None:
    command = [str(bare_python), "-c", "import pyarrow, endive"]
    without = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={}, check=False)
    assert "No module named 'endive'" in without.stderr
    sweep, root = sweep_file(tmp_path, seeds=1), tmp_path / "out"
    with sweep.open("a") as file:  # and a part of the user's own, which the executors have no file of
        file.write('[base.parts.catalog]\ncode = "queue_catalog.py:QueueCatalog"\noptions = { service_ms = 50.0 }\n')
    (tmp_path / "queue_catalog.py").write_text(of_guide("A catalog"))
    also = ("ship", "allow-code")
    with driver(cluster.master, sweep, root, 2, *also, environment={"PYSPARK_PYTHON": str(bare_python)}) as process:
        report = report_of(process)
    assert report["states"] == ["done"] * POINTS
    assert not problems(root)
    rows = pd.concat(pd.read_parquet(path) for path in root.rglob("results.parquet"))
    assert rows[rows["status"] == "committed"]["commit_latency"].min() >= 50.0  # a queue that serves one in 50 ms


def test_a_worker_that_is_killed_costs_no_run(cluster: Cluster, tmp_path: Path) -> None:
    """The last one here: from then on the cluster has one worker."""
    sweep, root = sweep_file(tmp_path, seeds=6, duration_ms=8_000.0), tmp_path / "out"
    runs = plan_of(sweep).runs

    def finished() -> int:
        return len(list(root.rglob("results.parquet")))

    with driver(cluster.master, sweep, root, runs) as process:
        wait_until(lambda: finished() >= 2, "the sweep does not get on")
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        before = finished()
        report = report_of(process)
    assert before < runs  # or the worker was killed too late to show anything
    assert set(report["states"]) <= {"done", "found"}  # found: the worker died between writing results and telling of them
    assert len(report["states"]) == len(digests(root)) == runs
    assert [problem for problem in problems(root) if not problem.endswith(".tmp")] == []  # it may leave a file half-written
