"""The contention of a run, transaction by transaction: the picture agrees with the stored rows."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from endive.report import ReportError
from endive.report.study_data import Study
from endive.report.timeline import MOST_LANES, build_timeline, parse_time
from tests.report.studies import measured, one_experiment


@pytest.fixture(scope="module")
def rows(experiment_root: Path) -> pd.DataFrame:
    return pd.read_parquet(experiment_root / "0" / "results.parquet")


def test_times_have_units() -> None:
    assert [parse_time(text, "--at") for text in ("12.5s", "300ms", "2 min", "7")] == [12_500, 300, 120_000, 7_000]
    with pytest.raises(ReportError, match="--at soon"):
        parse_time("soon", "--at")


def test_commits_in_the_window_are_those_that_are_stored(single: Study, rows: pd.DataFrame) -> None:
    data = build_timeline(single, at_ms=10_000.0, span_ms=2_000.0).data
    drawn = data[data["part"] == "committed"].set_index("txn")["end_s"]
    stored = rows[(rows.status == "committed") & (rows.t_commit >= 9_000.0) & (rows.t_commit <= 11_000.0)].set_index("txn_id")
    assert len(drawn) > 3
    assert set(drawn.index) == set(stored.index)
    assert (drawn * 1000.0).to_dict() == pytest.approx(stored.t_commit.to_dict())


def test_a_transaction_is_shown_with_all_its_attempts(single: Study, rows: pd.DataFrame) -> None:
    row = rows[(rows.status == "committed") & (rows.n_retries >= 2)].iloc[0]
    figure = build_timeline(single, txn=int(row.txn_id))
    own = figure.data[figure.data["txn"] == row.txn_id]
    assert figure.data["txn"].iloc[0] == row.txn_id
    conflicts = own[own["part"] == "conflict"]
    assert len(conflicts) == row.n_retries
    assert (own["part"] == "committed").sum() == 1
    in_commit = own[own["part"] == "catalog commits"]
    assert ((in_commit["end_s"] - in_commit["start_s"]).sum() * 1000.0) == pytest.approx(row.catalog_commit_ms)
    delay = conflicts["delay_ms"].sum() + (in_commit["end_s"] - in_commit["start_s"]).sum() * 1000.0
    assert delay < row.commit_latency


def test_winners_committed_between_the_read_and_the_conflict(single: Study, rows: pd.DataFrame) -> None:
    data = build_timeline(single, at_ms=10_000.0, span_ms=4_000.0).data
    conflicts = data[(data["part"] == "conflict") & data["invalidated_by"].notna()]
    assert len(conflicts) > 3
    commits = rows.set_index("txn_id").t_commit
    for _, loss in conflicts.iterrows():
        assert loss["invalidated_by"] != loss["txn"]
        assert 0.0 < commits[loss["invalidated_by"]] <= loss["end_s"] * 1000.0 + 1e-6
        assert loss["text"].startswith(f"by #{loss['invalidated_by']:.0f}")
        assert loss["commits_behind"] >= 1
    assert data[data["part"] == "conflict"]["invalidated_by"].notna().all()


def test_conflict_io_follows_a_conflict(single: Study, rows: pd.DataFrame) -> None:
    overwrites = rows[(rows.operation_type == "validated_overwrite") & (rows.status == "committed")]
    overwrite = overwrites[overwrites.conflict_io_ms > 0].iloc[0]
    own = build_timeline(single, txn=int(overwrite.txn_id)).data
    own = own[own["txn"] == overwrite.txn_id]
    delay = own[own["part"] == "conflict I/O"]
    assert (delay["end_s"] - delay["start_s"]).sum() * 1000.0 == pytest.approx(overwrite.conflict_io_ms)
    assert delay["start_s"].min() >= own[own["part"] == "conflict"]["start_s"].min()


def test_hidden_lanes_are_counted_in_a_note(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, workload__ingest__rate=40.0, simulation__duration_ms=6_000.0)
    figure = build_timeline(measured(next(tmp_path.glob("mixed-*"))), at_ms=3_000.0, span_ms=6_000.0)
    assert figure.data["lane"].nunique() == MOST_LANES
    assert any("attempts in this period are not shown. Use a shorter --span." in note for note in figure.notes)


def test_a_missing_timeline_is_explained(single: Study, mixed: Study) -> None:
    with pytest.raises(ReportError, match="a timeline shows one run"):
        build_timeline(mixed, at_ms=1_000.0)
    with pytest.raises(ReportError, match="the run lasts 20s"):
        build_timeline(single, at_ms=30_000.0)
    with pytest.raises(ReportError, match="no transaction 999999; the last one is"):
        build_timeline(single, txn=999_999)
    with pytest.raises(ReportError, match="no transaction attempts to commit"):
        build_timeline(single, at_ms=0.0, span_ms=1.0)
    with pytest.raises(ReportError, match="a time above 0"):
        build_timeline(single, at_ms=1_000.0, span_ms=0.0)


def test_a_run_of_other_code_is_conflicts(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=8_000.0)
    (directory,) = tmp_path.glob("mixed-*")
    config = directory / "cfg.toml"
    config.write_text(config.read_text().replace("mean = 500.0", "mean = 400.0"))
    provenance = directory / "0" / "provenance.json"
    assert "code_version" in json.loads(provenance.read_text())
    with pytest.raises(ReportError, match="the replay differs from the stored results"):
        build_timeline(measured(directory), at_ms=4_000.0)
