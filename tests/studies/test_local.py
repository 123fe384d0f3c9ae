"""Distributions and commits over time against a naive computation with numpy; the same code without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from endive.analysis.run_curves import SLOWER
from endive.analysis.warmup import TIME_BINS
from endive.report.study_data import find_place
from endive.studies.measure import MetricsOptions
from endive.studies.tables import Metrics, measure_locally
from tests.pipeline.runs import DURATION_MS, document, run_all

WARMUP_MS = 2_000.0


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("curves")
    run_all([document()], root, range(3))
    return next(root.glob("mixed-*"))


@pytest.fixture(scope="module")
def measured(experiment: Path) -> Metrics:
    place = find_place(experiment)
    return measure_locally(place.experiment("mixed"), place.experiment_runs("mixed"), MetricsOptions(WARMUP_MS))[0]


def rows_of(experiment: Path, workload_class: str) -> list[pd.DataFrame]:
    """Committed transactions of each seed."""
    found = []
    for seed in range(3):
        rows = pd.read_parquet(experiment / str(seed) / "results.parquet")
        rows = rows[rows.status == "committed"]
        found.append(rows if workload_class == "all" else rows[rows.workload_class == workload_class])
    return found


def half_width(values: np.ndarray) -> np.ndarray:
    return np.asarray(stats.t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("workload_class", ["all", "ingest", "upkeep"])
def test_distributions_are_means_of_quantiles(measured: Metrics, experiment: Path, workload_class: str) -> None:
    table = measured.distributions.to_pandas()
    table = table[(table.workload_class == workload_class) & (table.operation_type == "all")]
    assert list(table.slower_share) == list(SLOWER)
    window = [rows[rows.t_commit_start >= WARMUP_MS] for rows in rows_of(experiment, workload_class)]
    for latency in ("commit_latency", "total_latency"):
        by_seed = np.array([np.quantile(rows[latency], 1.0 - np.array(SLOWER)) for rows in window])
        assert np.allclose(table[f"{latency}_ms"], by_seed.mean(axis=0), rtol=1e-12)
        assert np.allclose(table[f"{latency}_ms_hw"], half_width(by_seed), rtol=1e-9, atol=1e-12)
    assert table.committed.iloc[0] == pytest.approx(np.mean([len(rows) for rows in window]))


def test_commits_over_time_are_counted_in_equal_bins_of_the_whole_run(measured: Metrics, experiment: Path) -> None:
    table = measured.over_time.to_pandas()
    table = table[(table.workload_class == "all") & (table.operation_type == "all")]
    assert (len(table), table.from_ms.iloc[0], table.to_ms.iloc[-1]) == (TIME_BINS, 0.0, DURATION_MS)
    seconds = DURATION_MS / TIME_BINS / 1000.0
    for place, (_, row) in enumerate(table.iterrows()):
        counts = [
            ((rows.t_commit >= row.from_ms) & ((rows.t_commit < row.to_ms) | (place == TIME_BINS - 1))).sum()
            for rows in rows_of(experiment, "all")
        ]
        assert row.commits_per_s == pytest.approx(np.mean(counts) / seconds)
        assert row.commits_per_s_hw == pytest.approx(half_width(np.array(counts) / seconds))
    assert table.commits_per_s.sum() > 0
