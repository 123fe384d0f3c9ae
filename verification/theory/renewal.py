"""Compare the renewal approximation of optimistic retries with the simulator, from idle to three times the saturation load."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from endive.analysis.theory import predict, rate_of
from endive.catalog import CASCatalog
from endive.conflict_detector import ProbabilisticConflictDetector
from endive.randomness import Stream
from endive.simulation import Simulation, SimulationConfig
from endive.storage import ExponentialLatency, LognormalLatency, QuantileDistribution
from endive.storage.provider import ProfiledProvider, StorageProfile
from endive.transaction import FastAppendTransaction
from endive.workload import OpenArrivals, Workload, WorkloadClass, WorkloadConfig
from verification.theory.rows import TheoryRow

RATES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0)
"""Loads per second; with the latencies below, less than 99% commit above about 6/s."""
BAR = 0.03
_CUT = 0.1


def _latency(kind: str, mean_ms: float) -> QuantileDistribution:
    return ExponentialLatency(mean_ms) if kind == "exponential" else LognormalLatency.from_mean(mean_ms, 0.5, 0.0)


def configuration(latencies: str, rate_per_s: float, transactions: int) -> SimulationConfig:
    """Return fast appends to one table: mean reads of 20 ms, writes of 30 ms, swaps of 60 ms, ten retries, jobs of 10 s."""
    profile = StorageProfile(
        latencies,
        0.0,
        reads={"*": _latency(latencies, 20.0)},
        writes={"*": _latency(latencies, 30.0)},
        cas=_latency(latencies, 60.0),
    )
    provider = ProfiledProvider(profile, Stream(0))
    writers = WorkloadClass(
        name="writers",
        arrivals=OpenArrivals(ExponentialLatency(1000.0 / rate_per_s)),
        runtime=ExponentialLatency(10_000.0),
        operations={FastAppendTransaction: 1.0},
    )
    workload = Workload(WorkloadConfig(num_tables=1, partitions_per_table=(1,), classes=(writers,)), 1)
    return SimulationConfig(
        duration_ms=max(1_000_000.0, 1000.0 * transactions / rate_per_s),
        seed=1,
        storage_provider=provider,
        catalog=CASCatalog(provider, 1, (1,)),
        workload=workload,
        conflict_detector=ProbabilisticConflictDetector(0.0),
        max_retries=10,
    )


def simulated_throughput(config: SimulationConfig) -> float:
    """Return the commits per second after the first tenth of the run, scaled by expected over actual arrivals."""
    rows = Simulation(config).run().to_table()
    start = _CUT * config.duration_ms
    seconds = (config.duration_ms - start) / 1000.0
    commits = pc.sum(pc.greater_equal(rows.column("t_commit"), start)).as_py()
    arrivals = pc.sum(pc.greater_equal(rows.column("t_submit"), start)).as_py()
    expected = seconds * rate_of(config.workload.config.workload_classes[0])
    idle = commits > 0.99 * arrivals
    return float(commits / seconds * (expected / arrivals if idle else 1.0))


def compare(quick: bool) -> Iterator[TheoryRow]:
    """Compare all loads, for exponential and for lognormal latencies."""
    for latencies in ("exponential", "lognormal"):
        for rate in RATES:
            config = configuration(latencies, rate, 20_000 if quick else 200_000)
            found = predict(config)
            case = f"{latencies}, {rate:g}/s"
            yield TheoryRow("renewal", case, "commits/s", found.throughput_per_s, simulated_throughput(config), BAR)
