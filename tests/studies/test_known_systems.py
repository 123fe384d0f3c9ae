"""Measured numbers against systems whose truth is known: idle ones, a pointer of known capacity, overload, Little's law."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endive.analysis.estimates import Estimate
from endive.analysis.load_search import find_frontier
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import LoadPoint, saturation
from endive.config import Document
from endive.config.load import check_document
from endive.config.study import frontier_options
from endive.studies.experiment_tables import make_load_point
from endive.studies.frontier import estimate_at, read_question
from endive.studies.measure import MetricsOptions, RunMetrics
from endive.studies.replicate import Replications

IDLE: dict[str, Any] = {
    "simulation": {"duration_ms": 600_000.0, "engine": "reference"},
    "storage": {"provider": "instant"},
    "catalog": {"num_tables": 50, "num_groups": 50},
}


def measured(tree: dict[str, Any], folder: Path, seeds: int = 3, **overrides: Any) -> tuple[Document, tuple[RunMetrics, ...]]:
    document = check_document(tree, "test", overrides={key.replace("__", "."): value for key, value in overrides.items()})
    return document, Replications(folder, MetricsOptions()).measure(document, range(seeds))


def point(runs: tuple[RunMetrics, ...], load: float = 1.0) -> LoadPoint:
    return make_load_point(load, [run.select(ALL, ALL) for run in runs])


@pytest.mark.parametrize("rate", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("seeds", [1, 3])
def test_an_idle_system_is_not_saturated_however_long_its_work_takes(tmp_path: Path, rate: float, seeds: int) -> None:
    """Commits were divided by submissions: what was still working counted as lost, and 0.8 of the load as carried."""
    _, runs = measured({**IDLE, "transaction": {"inter_arrival": {"scale": 1000.0 / rate}}}, tmp_path, seeds)
    found = point(runs)
    assert found.reason is None
    assert found.success is not None
    assert found.success.mean == 1.0
    assert runs[0].select(ALL, ALL)["throughput_ratio"] == pytest.approx(1.0, abs=0.05)
    assert runs[0].select(ALL, ALL)["working"] > 0
    assert runs[0].window.needed_ms == pytest.approx(1_378_000.0, rel=0.01)


def random_idle(number: int) -> dict[str, Any]:
    """A system of many tables with heavy-tailed runtimes and a load that is nothing to it."""
    draw = random.Random(number)
    tables = draw.choice([20, 50, 100])
    return {
        "simulation": {"duration_ms": draw.choice([120_000.0, 300_000.0, 600_000.0]), "engine": "reference"},
        "storage": {"provider": draw.choice(["instant", "s3x"])},
        "catalog": {"num_tables": tables, "num_groups": tables},
        "transaction": {
            "retry": 10,
            "runtime": {"mean": draw.choice([1_000.0, 20_000.0, 180_000.0]), "sigma": draw.choice([1.0, 1.5, 2.0])},
            "inter_arrival": {"scale": draw.choice([500.0, 2_000.0, 5_000.0])},
            "operation_types": {"fast_append": 1.0},
        },
    }


@pytest.mark.parametrize("number", range(20))
def test_random_idle_systems_are_never_called_saturated(tmp_path: Path, number: int) -> None:
    _, runs = measured(random_idle(number), tmp_path, 1 + number % 3)
    assert point(runs).reason is None


ONE_POINTER: dict[str, Any] = {
    "simulation": {"duration_ms": 40_000.0, "engine": "reference"},
    "storage": {"provider": "instant"},
    "catalog": {"type": "instant", "latency_ms": 100.0},
    "transaction": {
        "retry": 1000,
        "runtime": {"distribution": "fixed", "value": 100.0},
        "operation_types": {"fast_append": 1.0},
        "inter_arrival": {"scale": 1000.0},
    },
}
"""Whoever reads the pointer after a swap swaps it 100 ms later, if nobody else did: at most ten commits in a second,
and with a few ms of I/O in between some nine and a half."""


def test_a_known_capacity_is_found_and_overload_where_nothing_aborts(tmp_path: Path) -> None:
    points = []
    for rate in (2.0, 4.0, 14.0):
        _, runs = measured(ONE_POINTER, tmp_path, 3, transaction__inter_arrival__scale=1000.0 / rate)
        points.append(point(runs, rate))
        assert sum(run.select(ALL, ALL)["aborted"] for run in runs) == 0
        assert max(run.select(ALL, ALL)["throughput_per_s"] for run in runs) <= 10.0
    assert [each.reason for each in points] == [None, None, "throughput"]
    found = saturation(points)
    assert (found.bound, found.reason) == ("crossed", "throughput")
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 9.5 / 0.95 <= 10.0 / 0.95 <= found.high


WITHOUT_RETRIES: dict[str, Any] = {
    "simulation": {"duration_ms": 40_000_000.0, "engine": "reference"},
    "storage": {"provider": "instant"},
    "catalog": {"type": "instant", "latency_ms": 1.0},
    "transaction": {
        "retry": 0,
        "runtime": {"distribution": "fixed", "value": 10_000.0},
        "operation_types": {"fast_append": 1.0},
        "inter_arrival": {"scale": 1000.0},
    },
}
"""One attempt per transaction, 10 s after it read: 1 / (1 + rate * 10 s) of the transactions commit."""


def test_a_known_crossing_is_found_with_few_transactions(tmp_path: Path) -> None:
    """A start just above the crossing took 33,732 transactions: the start and the load above it got all seeds."""
    asked = frontier_options({"vary": "transaction.rate", "until": "success < 95%", "tolerance": 0.5})
    overrides = {"transaction.inter_arrival.scale": 1000.0 / 0.006}
    question = read_question(Path("known.toml"), asked, overrides, content=WITHOUT_RETRIES)
    evaluate = partial(estimate_at, question, Replications(tmp_path, MetricsOptions()))
    found = find_frontier(evaluate, question.condition, question.search)
    assert found.narrow
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1.0 / 19.0 / 10.0 <= found.high
    simulated = sum(json.loads(path.read_text())["rows"] for path in tmp_path.rglob("provenance.json"))
    assert simulated <= 20_000


def test_overload_is_named_in_the_number_that_is_committing(tmp_path: Path) -> None:
    """More than it carries, and retries without end: nothing fails, and success alone would say that all is well."""
    _, runs = measured(ONE_POINTER, tmp_path, 3, transaction__inter_arrival__scale=1000.0 / 14.0)
    found = point(runs)
    assert found.grows
    row = runs[0].select(ALL, ALL)
    assert row["aborted"] == 0 < row["in_flight"]
    assert row["success_low"] < row["success_high"] == 1.0
    _, calm = measured(ONE_POINTER, tmp_path, 3)
    assert not point(calm).grows


@pytest.mark.parametrize("rate", [2.0, 4.0])
def test_littles_law(tmp_path: Path, rate: float) -> None:
    """The mean number that is committing is the entry rate times the mean time of committing, but for the edges of the window."""
    _, runs = measured(ONE_POINTER, tmp_path, 1, transaction__inter_arrival__scale=1000.0 / rate)
    row = runs[0].select(ALL, ALL)
    in_window = row["window_ms"] / 1000.0
    edges = 5.0 * (1.0 + row["mean_committing"])
    waited = row["commit_latency_mean_ms"] / 1000.0
    assert row["mean_committing"] * in_window == pytest.approx(row["committed"] * waited, abs=edges)


def test_intervals_of_idle_systems_have_a_width(tmp_path: Path) -> None:
    _, runs = measured({**IDLE, "transaction": {"inter_arrival": {"scale": 1000.0}}}, tmp_path)
    found = point(runs)
    assert isinstance(found.success, Estimate)
    assert found.success.low < found.success.high == 1.0
    assert np.isfinite(found.success.low)


BURSTS: dict[str, Any] = {
    **IDLE,
    "simulation": {"duration_ms": 4 * 3_600_000.0, "engine": "reference"},
    "workload": {
        "jobs": {
            "writers": 40,
            "every": "15min",
            "phase": "aligned",
            "operation": "fast_append",
            "runtime": {"distribution": "fixed", "value": "5s"},
        }
    },
}


def test_aligned_writers_offer_their_exact_load(tmp_path: Path) -> None:
    """The warm-up cut into the first burst, so that 156.9 were offered per hour, and 160 are."""
    _, runs = measured(BURSTS, tmp_path, 1)
    row = runs[0].select(ALL, ALL)
    assert 3600.0 * row["offered_per_s"] == pytest.approx(160.0, rel=1e-12)
    assert 3600.0 * row["throughput_per_s"] == pytest.approx(160.0, rel=1e-12)


def test_growing_metadata_has_no_steady_state(tmp_path: Path) -> None:
    """A run of 46,463,040 s was recommended, which would not settle either."""
    tree = {
        "simulation": {"duration_ms": 90 * 86_400_000.0, "engine": "reference"},
        "storage": {"provider": "s3"},
        "transaction": {"commit_path": "iceberg"},
        "workload": {
            "ingest": {
                "writers": 1,
                "every": "30min",
                "operation": "fast_append",
                "runtime": {"distribution": "fixed", "value": "5s"},
            }
        },
    }
    _, runs = measured(tree, tmp_path, 1)
    assert runs[0].window.is_drifting
