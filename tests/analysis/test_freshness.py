"""Freshness: systems whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endive.analysis.writer_metrics import weighted_percentiles
from endive.config.load import check_document
from endive.runs.execute import execute_run, place_run, prepare_run
from endive.studies.measure import MetricsOptions, RunFile, measure_one
from tests.simulation.test_closed_forms import fixed

LATENCY = 29.0
"""Time of a commit without contention."""


def freshness_of(tmp_path: Path, cls: dict[str, Any], duration_ms: float = 3_600_000.0, **extra: Any) -> dict[str, Any]:
    """Metrics of the class ``w`` of appends, whose jobs take no time unless it sets a runtime."""
    tree = fixed(1, duration_ms)
    tree["simulation"] |= {"drain": False, "engine": "reference"}
    tree["experiment"] = {"label": "fresh"}
    tree["workload"] = {"w": {"operation": "fast_append", "runtime": {"distribution": "fixed", "value": 0.0}, **cls}}
    prepared = prepare_run(check_document(tree | extra, "test"))
    finished = execute_run(prepared, place_run(prepared, tmp_path))
    classes = prepared.simulation.config.workload.config.workload_classes
    run = RunFile(prepared.seed, finished.files.results)
    return dict(measure_one(run, prepared.document, classes, MetricsOptions(0.0, 0.0)).select("w", "all"))


def test_the_oldest_data_of_a_writer_is_as_old_as_its_interval(tmp_path: Path) -> None:
    found = freshness_of(tmp_path, {"writers": 2, "every_ms": 5_000.0, "phase": "staggered"})
    assert [found[f"freshness_p{share}_ms"] for share in (50, 95, 99)] == [5_000.0 + LATENCY] * 3


def test_a_committer_adds_the_wait_for_the_commit(tmp_path: Path) -> None:
    """Batches of the last 5 s are delivered after 1 s."""
    job = {"distribution": "fixed", "value": 1_000.0}
    rounds = {"round": "all_writers", "timeout_ms": 4_000.0}
    cls = {"writers": 3, "every_ms": 5_000.0, "phase": "aligned", "runtime": job, "committer": rounds}
    found = freshness_of(tmp_path, cls)
    assert [found[f"freshness_p{share}_ms"] for share in (50, 95, 99)] == [6_000.0 + LATENCY] * 3


def test_an_aborted_interval_is_carried_over(tmp_path: Path) -> None:
    """Half of the transactions abort: ages are 1, 2, 3, ... intervals, with weights that are as long."""
    found = freshness_of(tmp_path, {"writers": 4, "every_ms": 5_000.0}, failures={"client_crash": 0.5})
    intervals = np.arange(1, 60)
    data = intervals * 0.5**intervals
    share = np.cumsum(data) / data.sum()
    for percent in (50, 95):
        expected = intervals[np.searchsorted(share, percent / 100.0)] * 5_000.0 + LATENCY
        assert found[f"freshness_p{percent}_ms"] == pytest.approx(expected, abs=60.0)


def test_data_of_a_writer_that_never_commits_is_older_than_the_run(tmp_path: Path) -> None:
    found = freshness_of(tmp_path, {"writers": 20, "every_ms": 5_000.0, "phase": "aligned"}, failures={"client_crash": 1.0})
    assert found["freshness_p50_ms"] is None
    assert found["freshness_p50_at_least_ms"] > 3_590_000.0


def test_classes_without_writers_have_no_freshness(tmp_path: Path) -> None:
    found = freshness_of(tmp_path, {"rate": 1.0}, 600_000.0)
    assert found["freshness_p50_ms"] is None
    assert found["freshness_p50_at_least_ms"] is None


def test_the_example_of_the_documentation() -> None:
    ages, weights = np.array([60.0] * 160 + [120.0] * 20), np.array([60.0] * 160 + [120.0] * 20)
    none = np.zeros(0)
    p50, p95 = weighted_percentiles(ages, weights, none, none, [0.5, 0.95])
    assert p50.value == 60.0
    assert p95.value == 120.0


def test_the_bound_of_a_higher_percentile_is_not_lower() -> None:
    ages, weights = np.array([*[1.0] * 40, *[1_000.0] * 5]), np.array([*[1.0] * 40, *[100.0] * 5])
    p50, p95, p99 = weighted_percentiles(ages, weights, np.zeros(0), np.zeros(0), [0.5, 0.95, 0.99])
    assert p50.value == 1_000.0
    assert p95.value is None
    assert (p95.at_least, p99.at_least) == (1_000.0, 1_000.0)
