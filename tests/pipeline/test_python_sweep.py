"""``endive.sweep``: a sweep from Python, on the session that there is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

import endive
from endive.runs.layout import RESULTS
from tests.test_api import TREE


def results(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob(RESULTS))}


def test_a_sweep_gives_the_same_bytes_on_spark_as_runs_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    axes = {"storage.provider": ("s3", "s3x")}
    on_spark = endive.sweep(TREE, axes, seeds=2, spark=spark, directory=tmp_path / "spark", warmup_ms=5_000)
    scenarios = {"s3": {}, "s3x": {"storage.provider": "s3x"}}
    here = endive.run(TREE, seeds=2, scenarios=scenarios, directory=tmp_path / "here", warmup_ms=5_000)
    assert len(results(on_spark.path)) == 4
    assert sorted(results(on_spark.path).values()) == sorted(results(here.path).values())
    key = ["experiment", "seed", "workload_class", "operation_type"]
    runs = [each.to_pandas("runs").sort_values(key).drop(columns=["series", "x"]) for each in (on_spark, here)]
    pd.testing.assert_frame_equal(runs[0].reset_index(drop=True), runs[1].reset_index(drop=True))


def test_a_sweep_takes_the_active_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("started another session")

    monkeypatch.setattr("endive.results.spark_session", started)
    axes = {"transaction.inter_arrival.scale": {"from": 250, "to": 500, "points": 2}}
    study = endive.sweep(TREE, axes, seeds=[5], directory=tmp_path, warmup_ms=0.0)
    assert len(study.to_pandas()) == 2
    assert list(study.to_pandas("runs")["seed"].unique()) == [5]
    assert spark.range(2).count() == 2  # the session was not stopped


def test_a_sweep_file_runs_without_axes(spark: SparkSession, tmp_path: Path) -> None:
    config = endive.load(TREE)
    (tmp_path / "base.toml").write_text(config.to_toml())
    (tmp_path / "study.toml").write_text('[sweep]\nbase = "base.toml"\n[axes]\n"transaction.retry" = [2, 8]\n')
    study = endive.sweep(tmp_path / "study.toml", seeds=1, spark=spark, directory=tmp_path / "out", warmup_ms=0.0)
    assert study.data.provenance() == {**study.data.provenance(), "experiments": 2, "seeds": [0]}
    with pytest.raises(endive.ConfigError, match="consecutive"):
        endive.sweep(tmp_path / "study.toml", seeds=[0, 2], spark=spark)
