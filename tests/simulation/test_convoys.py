"""Convolved convoys: sums of many batches drawn at once have the distribution of sums drawn one by one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from endive.arithmetic.draws import QUANTILES, SCORE_LIMIT, derive, keyed_uniform, normal_quantile, quantile
from endive.cache import CACHE_VARIABLE
from endive.randomness import Stream, run_key
from endive.simulation.compiled import convoys
from endive.simulation.compiled.convoys import convoy_table, kept_convoy_table
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.compiled.layout import LEVELS, SCORES
from endive.simulation.runner import EngineError, Simulation
from endive.storage import FixedLatency, LognormalLatency, MixtureLatency, NormalLatency, UniformLatency, builtin_profiles
from endive.storage.distributions import Parameters
from tests.simulation.runs import config_of, frame_of

Floats = npt.NDArray[np.float64]
S3_READ = builtin_profiles()["s3"].read_parameters("manifest_list", 8192)
SHAPES: dict[str, Parameters] = {
    "s3 read, mostly at the floor": S3_READ,
    "heavy tail": LognormalLatency.from_median(170.0, 0.91, 118.0).parameters,
    "normal": NormalLatency(50.0, 5.0, 1.0).parameters,
    "uniform": UniformLatency(10.0, 20.0).parameters,
    "two modes": MixtureLatency(20.0, 0.2, 90.0, 0.4, 0.2).parameters,
    "fixed": FixedLatency(25.0).parameters,
}


def exact_sums(parameters: Parameters, parallel: int, batches: int, n: int) -> Floats:
    """Sums of batches drawn one by one."""
    kind, a, b, floor = parameters
    stream = Stream(derive(run_key(7), batches))
    return np.array([sum(quantile(kind, a, b, floor, stream.largest_sample(parallel)) for _ in range(batches)) for _ in range(n)])


def convolved_sums(table: Floats, level: int, n: int) -> Floats:
    """Sums of 2^level batches from the table, as the kernel draws them."""
    row = table.reshape(LEVELS, -1)[level]
    scores = np.array([normal_quantile(keyed_uniform(derive(run_key(9), level), i), QUANTILES) for i in range(n)])
    sums: Floats = np.interp((scores + SCORE_LIMIT) * SCORES / (2 * SCORE_LIMIT), np.arange(SCORES + 1), row)
    return sums


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "fixed"])
@pytest.mark.parametrize("level", [0, 3, 6])
def test_sums_have_the_distribution_of_exact_sums(name: str, level: int) -> None:
    table = convoy_table(SHAPES[name], 4)
    exact = exact_sums(SHAPES[name], 4, 2**level, 3_000)
    convolved = convolved_sums(table, level, 3_000)
    # The floor is an atom that the grid spreads over one narrow cell: round it away.
    rounding = float(np.median(exact)) * 1e-3
    test = stats.ks_2samp(np.round(exact / rounding), np.round(convolved / rounding))
    assert test.pvalue > 0.01


def test_a_distribution_of_the_wrong_scale_fails_the_same_test() -> None:
    table = convoy_table(LognormalLatency.from_median(170.0 * 1.05, 0.91, 118.0).parameters, 4)
    exact = exact_sums(SHAPES["heavy tail"], 4, 64, 3_000)
    assert stats.ks_2samp(exact, convolved_sums(table, 6, 3_000)).pvalue < 0.01


@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("level", [0, 5, 10, 16])
def test_means_and_spreads_of_sums_are_those_of_batches(name: str, level: int) -> None:
    """Means of 2^k batches are 2^k means, variances 2^k variances: the grids of the levels lose nothing."""
    row = convoy_table(SHAPES[name], 4).reshape(LEVELS, -1)[level]
    kind, a, b, floor = SHAPES[name]
    fine = (np.arange(200_000) + 0.5) / 200_000
    batch = np.array([quantile(kind, a, b, floor, u ** (1.0 / 4.0)) for u in fine])
    scores = stats.norm.ppf(fine)
    sums = np.interp((scores + SCORE_LIMIT) * SCORES / (2 * SCORE_LIMIT), np.arange(SCORES + 1), row)
    assert sums.mean() == pytest.approx(2**level * batch.mean(), rel=1e-3)
    if name != "fixed":
        assert sums.std() == pytest.approx(math.sqrt(2**level) * batch.std(), rel=2e-2)


def saturated_mix(seed: int, convoy: str) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 1_800_000.0, "seed": seed, "convoy": convoy},
        "storage": {"provider": "s3"},
        "transaction": {
            "retry": 10,
            "runtime": {"mean": 30_000.0, "sigma": 1.0},
            "inter_arrival": {"scale": 200.0},
            "operation_types": {"fast_append": 0.7, "merge_append": 0.2, "validated_overwrite": 0.1},
        },
    }


def measured(seed: int, convoy: str) -> dict[str, float]:
    rows = frame_of(CompiledEngine, saturated_mix(seed, convoy))
    commits = rows[rows["status"] == "committed"]
    finished = rows[rows["status"] != "in_flight"]
    latency = commits["commit_latency"]
    return {
        "throughput": len(commits) / 1_800.0,
        "success": len(commits) / len(finished),
        **{f"p{p}": float(np.percentile(latency, p)) for p in (50, 95, 99)},
    }


def test_throughput_success_and_percentiles_are_within_one_percent_of_exact_ones() -> None:
    seeds = range(30)
    exact = [measured(seed, "exact") for seed in seeds]
    convolved = [measured(seed, "convolved") for seed in seeds]
    for name in exact[0]:
        ours = float(np.mean([each[name] for each in convolved]))
        assert ours == pytest.approx(float(np.mean([each[name] for each in exact])), rel=0.01), name
    assert exact[0]["success"] < 0.95  # it is saturated indeed


def test_short_runs_of_accesses_are_drawn_one_by_one() -> None:
    """Without convoys there is nothing to convolve: the rows are the exact ones."""
    tree = saturated_mix(1, "exact")
    tree["transaction"]["operation_types"] = {"fast_append": 1.0}
    tree["simulation"]["duration_ms"] = 60_000.0
    exact = frame_of(CompiledEngine, tree)
    tree["simulation"]["convoy"] = "convolved"
    assert exact.equals(frame_of(CompiledEngine, tree))


def test_the_reference_engine_refuses_convolved_convoys() -> None:
    import dataclasses

    config = dataclasses.replace(config_of(saturated_mix(1, "convolved")), engine="reference")
    with pytest.raises(EngineError, match="convolved"):
        Simulation(config).run()


def test_tables_are_kept_and_a_broken_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    parameters, made = LognormalLatency.from_median(30.0, 0.5).parameters, kept_convoy_table.__wrapped__
    first = made(parameters, 4)
    [path] = (tmp_path / "cache" / "convoys").rglob("*.npy")
    np.testing.assert_array_equal(first, convoy_table(parameters, 4))
    monkeypatch.setattr(convoys, "convoy_table", lambda *_: pytest.fail("it was kept"))
    np.testing.assert_array_equal(made(parameters, 4), first)
    monkeypatch.undo()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    path.write_bytes(path.read_bytes()[:1000])
    np.testing.assert_array_equal(made(parameters, 4), first)
    assert len(path.read_bytes()) > 1000
