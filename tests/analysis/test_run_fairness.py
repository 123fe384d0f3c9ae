"""Fairness and hand-overs of a run, as ``endive run`` tells them, against their definitions by pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from endive.analysis.writer_metrics import fairness_metrics, fairness_of_commits
from endive.main import app

TREE: dict[str, Any] = {
    "simulation": {"duration_ms": 60_000.0, "seed": 5, "engine": "reference"},
    "storage": {"provider": "s3x"},
    "transaction": {"retry": 2, "runtime": {"distribution": "fixed", "value": 20.0}, "operation_types": {"fast_append": 1.0}},
    "workload": {
        "loop": {"closed": {"clients": 9}, "operation_types": {"fast_append": 1.0, "merge_append": 1.0}},
        "sink": {"writers": 5, "every": "1s", "committer": {"interval_ms": "2s"}},
        "jobs": {"rate": 0.5},
    },
}
WARMUP_MS = 5_000.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, dict[tuple[str, str], dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("whose")
    file = folder / "run.toml"
    file.write_text(tomli_w.dumps(TREE))
    answer = CliRunner().invoke(app, ["run", str(file), "--out", str(folder), "--warmup", str(WARMUP_MS), "--json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    rows = pd.read_parquet(found["results"])
    return rows, {(row["workload_class"], row["operation_type"]): row for row in found["metrics"]}


def cohort(rows: pd.DataFrame, cls: str) -> pd.DataFrame:
    return rows[(rows.workload_class == cls) & (rows.t_commit_start >= WARMUP_MS)]


def test_fairness_is_its_definition(run: tuple[pd.DataFrame, dict[tuple[str, str], dict[str, Any]]]) -> None:
    rows, metrics = run
    own, found = cohort(rows, "loop"), metrics["loop", "all"]
    commits = own[own.status == "committed"].groupby("client").size().reindex(range(9), fill_value=0)
    assert found["jain_index"] == pytest.approx(commits.sum() ** 2 / (9 * (commits**2).sum()))
    assert 0.5 < found["jain_index"] < 1.0
    assert found["writers_without_commit"] == (commits == 0).mean()
    assert found["most_attempts"] == own.n_retries.max() + 1
    streaks = []
    for _, mine in own.assign(end=own.t_submit + own.total_latency).sort_values("end").groupby("client"):
        lost = (mine.status != "committed").astype(int)
        streaks.append(lost.groupby((lost == 0).cumsum()).sum().max())
    assert found["longest_losing_streak"] == max(streaks) > 1


def test_what_is_nobodys_has_no_fairness_and_classes_are_not_mixed(
    run: tuple[pd.DataFrame, dict[tuple[str, str], dict[str, Any]]],
) -> None:
    _, metrics = run
    for cls in ("jobs", "sink"):
        assert metrics[cls, "all"]["jain_index"] is None
        assert metrics[cls, "all"]["longest_losing_streak"] is None
        assert metrics[cls, "all"]["most_attempts"] >= 1
    assert metrics["all", "all"]["jain_index"] == metrics["loop", "all"]["jain_index"]
    two = [fairness_of_commits(np.zeros(2, np.int64), 0)] * 2
    assert fairness_metrics(two, None) == {
        "jain_index": None,
        "writers_without_commit": 1.0,
        "longest_losing_streak": 0.0,
        "most_attempts": None,
    }


def test_hand_overs_are_their_definition(run: tuple[pd.DataFrame, dict[tuple[str, str], dict[str, Any]]]) -> None:
    rows, metrics = run
    own, found = cohort(rows, "sink"), metrics["sink", "all"]
    done = own[own.status == "committed"]
    sizes = done.batch_size.sum()
    assert found["handovers_per_commit"] == pytest.approx(sizes / len(done))
    assert sizes / len(done) > 9  # 10 in two seconds, and those of commits that failed
    assert found["handover_mean_ms"] == pytest.approx(
        (done.batch_wait_ms.sum() + (done.batch_size * done.total_latency).sum()) / sizes
    )
    assert found["oldest_handover_p50_ms"] == pytest.approx((done.batch_longest_wait_ms + done.total_latency).quantile(0.5))
    in_window = rows[(rows.workload_class == "sink") & (rows.t_commit >= WARMUP_MS)]
    assert found["handovers_per_s"] == pytest.approx(in_window.batch_size.sum() / 55.0)
    assert found["handovers_per_s"] == pytest.approx(5.0, rel=0.2)
    jobs = metrics["jobs", "all"]
    assert (jobs["handovers_per_s"], jobs["handovers_per_commit"]) == (jobs["throughput_per_s"], 1.0)
