"""A model is close to what it made itself, and not close when it is detuned by 30 %."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from endive.analysis.estimates import Estimate
from endive.calibrate.answers import simulate
from endive.calibrate.fidelity import (
    Comparison,
    combine_verdicts,
    compare_failures,
    compare_history,
    compare_reports,
    correct_verdicts,
    explain,
    judge_estimates,
    list_start_keys,
)
from endive.calibrate.measurements import read_reports
from endive.calibrate.observed_classes import STORE_SCALE
from endive.calibrate.sources import open_history
from endive.calibrate.table_history import parse_metadata
from tests.calibrate.tables import START_MS, WrittenTable, metadata_document, write_table

FIXED = {"distribution": "fixed", "value": 0.0}
TREE = {
    "simulation": {"duration_ms": 1_200_000.0, "seed": 1},
    "storage": {"provider": "s3"},
    "catalog": {"num_tables": 1},
    "table": {"manifests": 10, "snapshots": 50},
    "transaction": {"commit_path": "iceberg", "retry_policy": "iceberg"},
    "workload": {
        "ingest": {"operation": "fast_append", "rate": 0.6, "runtime": FIXED},
        "upsert": {
            "operation": "row_delta",
            "periodic": {"interval_ms": 15_000.0},
            "runtime": {"distribution": "fixed", "value": 2_000.0},
        },
    },
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.toml"
    path.write_text(tomli_w.dumps(TREE))
    return path


@pytest.fixture(scope="module")
def seen(model: Path) -> WrittenTable:
    """What the system itself left behind, with a seed of its own."""
    return write_table(model.parent / "table", simulate(model, {}, (99,)), properties={}, manifests=10)


def compared(model: Path, seen: WrittenTable, changes: dict[str, object]) -> list[Comparison]:
    rows = simulate(model, changes, (1, 2, 3, 4, 5))
    history = open_history(str(seen.metadata))
    reports = compare_reports(read_reports(seen.reports), rows)
    return [*reports, *compare_history(history, rows), *compare_failures(history, rows)]


@pytest.fixture(scope="module")
def unchanged(model: Path, seen: WrittenTable) -> list[Comparison]:
    """Comparisons of the model with its own history."""
    return compared(model, seen, {})


def test_a_model_is_close_to_its_own_history(unchanged: list[Comparison]) -> None:
    assert len(unchanged) > 6
    assert "not close" not in {each.verdict for each in unchanged}
    assert {each.verdict for each in unchanged if each.operation == "append"} == {"close"}
    assert (combine_verdicts(unchanged), explain(unchanged)) == ("close", [])


@pytest.mark.parametrize(("scale", "hint"), [(1.3, "faster than its latency profile"), (0.7, "slower than its latency profile")])
def test_a_store_detuned_by_30_percent_is_found(model: Path, seen: WrittenTable, scale: float, hint: str) -> None:
    comparisons = compared(model, seen, {STORE_SCALE: scale})
    assert combine_verdicts(comparisons) == "not close"
    off = [each for each in comparisons if each.verdict == "not close"]
    assert {each.measure for each in off} >= {"duration of a commit, p50"}
    assert hint in explain(comparisons)[0]


def test_a_rate_detuned_by_30_percent_is_found(model: Path, seen: WrittenTable) -> None:
    comparisons = compared(model, seen, {"workload.ingest.rate": 0.6 * 1.3})
    assert combine_verdicts(comparisons) == "not close"
    assert any("more often" in reason for reason in explain(comparisons))


def test_failures_are_reported_by_empty_slots(model: Path, seen: WrittenTable, unchanged: list[Comparison]) -> None:
    as_it_was = {(each.measure, each.operation): each for each in unchanged}
    assert as_it_was["fraction of failed operations", "overwrite"].verdict != "not close"
    off = compared(model, seen, {"workload.upsert.real_conflict_probability": 1.0})
    assert next(each for each in off if each.measure == "fraction of failed operations").verdict == "not close"
    assert any("fraction of failed operations differs" in reason for reason in explain(off))


@pytest.mark.parametrize(
    ("observed", "simulated", "verdict"),
    [
        (Estimate(100.0, 95.0, 105.0, 5), Estimate(110.0, 109.0, 111.0, 5), "close"),
        (Estimate(100.0, 95.0, 105.0, 5), Estimate(130.0, 128.0, 132.0, 5), "not close"),
        (Estimate(100.0, 40.0, 160.0, 5), Estimate(130.0, 120.0, 140.0, 5), "cannot tell"),
    ],
)
def test_verdicts(observed: Estimate, simulated: Estimate, verdict: str) -> None:
    assert judge_estimates(observed, simulated, close=0.15 * observed.mean) == verdict
    assert judge_estimates(simulated, observed, close=0.15 * observed.mean) == verdict


def test_one_of_many_measures_may_differ_by_chance() -> None:
    off = Comparison("attempts per commit", "append", Estimate(1.0, 0.8, 1.2, 5), Estimate(1.25, 1.2, 1.3, 5), "not close")
    far = replace(off, simulated=Estimate(1.5, 1.45, 1.55, 5))
    assert [each.verdict for each in correct_verdicts([off, far])] == ["not close", "not close"]
    assert [each.verdict for each in correct_verdicts([off, far, *[off] * 14])][:2] == ["cannot tell", "not close"]
    assert correct_verdicts([off]) == [off]


def test_shares_are_widened_as_well_where_there_are_many_measures() -> None:
    off = Comparison(
        "fraction of failed operations", "replace", Estimate(0.1, 0.08, 0.13, 5), Estimate(0.2, 0.15, 0.25, 5), "not close"
    )
    assert [each.verdict for each in correct_verdicts([off] * 16)] == ["cannot tell"] * 16


def test_a_short_contended_history_detects_latencies_that_are_30_percent_off(tmp_path: Path) -> None:
    """Where commits are retried often, durations vary by the retries; those of first attempts tell how fast the store is."""
    tree = {
        **TREE,
        "simulation": {"duration_ms": 200_000.0, "seed": 1},
        "workload": {
            "ingest": {
                "operation": "fast_append",
                "closed": {"clients": 3, "think_time": {"distribution": "uniform", "min": 1_000.0, "max": 3_000.0}},
                "runtime": FIXED,
            },
            "upsert": {**TREE["workload"]["upsert"], "periodic": {"interval_ms": 6_000.0}},  # type: ignore[index]
        },
    }
    path = tmp_path / "model.toml"
    path.write_text(tomli_w.dumps(tree))
    seen = write_table(tmp_path / "table", simulate(path, {}, (92,)), properties={}, manifests=10)
    verdicts = {scale: correct_verdicts(compared(path, seen, {STORE_SCALE: scale})) for scale in (1.0, 0.7, 1.3)}
    assert {scale: combine_verdicts(each) for scale, each in verdicts.items()} == {1.0: "close", 0.7: "not close", 1.3: "not close"}
    for scale in (0.7, 1.3):
        first = next(each for each in verdicts[scale] if each.measure == "duration of a first attempt, p50")
        assert first.verdict == "not close"
        assert first.ratio == pytest.approx(scale, rel=0.05)


def test_an_empty_history_gives_no_verdict() -> None:
    assert combine_verdicts([]) == "cannot tell"


def test_a_model_is_compared_with_the_table_as_it_was() -> None:
    document = metadata_document([START_MS + 60_000 * n for n in range(40)])
    for place, snapshot in enumerate(document["snapshots"], 1):
        snapshot["summary"] |= {"total-data-files": str(10 * place), "total-delete-files": str(place // 2)}
    history = parse_metadata(json.dumps(document).encode(), "t.json")
    history = replace(history, state=replace(history.state, manifests=80, delete_manifests=20))
    assert history.manifests_at_start() == {"manifests": 2, "delete_manifests": 0}
    as_imported = {"manifests": 80, "delete_manifests": 20}
    assert list_start_keys(history, as_imported) == {"table.manifests": 2, "table.delete_manifests": 0}
    assert list_start_keys(history, {**as_imported, "manifests": 500}) == {}  # somebody asks what a larger table would do
