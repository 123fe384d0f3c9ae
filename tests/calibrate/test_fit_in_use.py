"""A profile fitted to 1,000 latencies simulates what the true one does: success and time to commit lie within its intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
from scipy import stats

from endive.analysis.estimates import Estimate, mean_estimate, share_estimate
from endive.calibrate.answers import simulate
from endive.calibrate.fit import fit_sample
from endive.calibrate.measurements import Sample
from tests.calibrate.samples import Known, known

MEDIAN_MS = 60.0
SEEDS = (1, 2, 3, 4, 5)


def true_keys(sample: Known, scale: float) -> dict[str, Any]:
    """The true distribution as a table of its quantiles."""
    probabilities = [float(stats.norm.cdf(z)) for z in np.linspace(-3.5, 3.5, 57)]
    return {"probabilities": probabilities, "quantiles_ms": [scale * sample.quantile(p) for p in probabilities]}


def simulated(folder: Path, keys: dict[str, Any]) -> tuple[Estimate, Estimate]:
    """Success, and the median time to commit, of appends to one table at a rate that makes them collide."""
    (folder / "store.toml").write_text(tomli_w.dumps({"read": keys, "write": keys, "cas": keys}))
    ingest = {"operation": "fast_append", "rate": 1.2, "runtime": {"distribution": "fixed", "value": 0.0}}
    tree = {
        "simulation": {"duration_ms": 600_000.0},
        "storage": {"provider": "store.toml"},
        "transaction": {"commit_path": "iceberg", "retry": 3},
        "workload": {"ingest": ingest},
    }
    (folder / "run.toml").write_text(tomli_w.dumps(tree))
    rows = simulate(folder / "run.toml", {}, SEEDS)
    by_seed: list[pd.DataFrame] = [group for _, group in rows[rows["status"] != "in_flight"].groupby("seed")]
    committed = [group[group["status"] == "committed"] for group in by_seed]
    success = share_estimate([float(len(each)) for each in committed], [len(each) for each in by_seed])
    return success, mean_estimate([float(each["commit_latency"].median()) for each in committed])


def test_fitted_profiles_simulate_what_the_true_ones_do(tmp_path: Path) -> None:
    inside = []
    for seed in (0, 1, 2, 3, 4):
        sample = known(seed)
        scale = MEDIAN_MS / sample.quantile(0.5)
        fit = fit_sample(Sample("read", scale * sample.latencies_ms))
        true, fitted = simulated(tmp_path, true_keys(sample, scale)), simulated(tmp_path, fit.keys())
        inside += [truth.low <= found.mean <= truth.high for truth, found in zip(true, fitted, strict=True)]
    assert sum(inside) >= 0.9 * len(inside), inside
