"""Transactions that finish after the end of arrivals meet no competition, so their outcome does not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endive.config.load import check_document
from endive.config.warnings import warnings_of
from endive.runs.execute import execute_run, place_run, prepare_run
from endive.studies.measure import MetricsOptions, RunFile, measure_one
from tests.simulation.test_closed_forms import fixed


def victim_beside_appends(drain: bool) -> dict[str, Any]:
    """An overwrite of 2 s that conflicts with any of 5 appends a second and starts again: it never commits."""
    tree = fixed(1, 60_000.0)
    tree["simulation"] |= {"drain": drain, "engine": "reference"}
    tree["experiment"] = {"label": "drain"}
    tree["workload"] = {
        "appends": {"rate": 5.0, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 0.0}},
        "victim": {
            "periodic": {"interval_ms": 10_000.0},
            "operation": "validated_overwrite",
            "runtime": {"distribution": "fixed", "value": 2_000.0},
            "real_conflict_probability": 1.0,
            "on_real_conflict": "restart",
            "max_restarts": 1_000,
        },
    }
    return tree


def metrics_of(tmp_path: Path, drain: bool) -> tuple[dict[str, Any], int]:
    """Metrics of the victim, and the number of its rows that are committed."""
    prepared = prepare_run(check_document(victim_beside_appends(drain), "test"))
    finished = execute_run(prepared, place_run(prepared, tmp_path))
    classes = prepared.simulation.config.workload.config.workload_classes
    run = RunFile(prepared.seed, finished.files.results)
    found = measure_one(run, prepared.document, classes, MetricsOptions(0.0, 0.0)).select("victim", "all")
    committed = next(row for row in finished.summary["by_class_and_operation"] if row["workload_class"] == "victim")["committed"]
    return dict(found), committed


def test_a_class_that_never_commits_does_not_succeed_because_arrivals_end(tmp_path: Path) -> None:
    running, committed = metrics_of(tmp_path / "running", drain=False)
    assert committed == 0
    drained, committed = metrics_of(tmp_path / "drained", drain=True)
    assert committed == 6
    assert (drained["success_low"], drained["success_high"]) == (0.0, 1.0)
    same = ("transactions", "committed", "aborted", "in_flight", "success_low", "success_high", "throughput_per_s", "offered_per_s")
    assert {name: drained[name] for name in same} == {name: running[name] for name in same}
    assert drained["time_to_commit_p50_at_least_ms"] == running["time_to_commit_p50_at_least_ms"]


def test_periodic_classes_with_fixed_runtimes_are_reported() -> None:
    tree = victim_beside_appends(drain=False)

    def codes() -> set[str]:
        return {each.code for each in warnings_of(check_document(tree, "test"))}

    assert "locked_phases" not in codes()
    tree["workload"]["appends"] |= {"periodic": {"interval_ms": 500.0}}
    del tree["workload"]["appends"]["rate"]
    assert "locked_phases" in codes()
    periodic = tree["workload"]["appends"].pop("periodic")
    tree["workload"]["appends"] |= {"writers": 4, "every_ms": 500.0}  # at random phases by default
    assert "locked_phases" not in codes()
    del tree["workload"]["appends"]["writers"], tree["workload"]["appends"]["every_ms"]
    tree["workload"]["appends"]["periodic"] = periodic
    tree["workload"]["victim"]["runtime"] = {"median": 2_000.0, "sigma": 0.3}
    assert "locked_phases" not in codes()
