"""Simulate short runs of one commit pointer under load, and long runs that give the true values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from endive.analysis import Ints
from endive.analysis.cohort import Transactions, bound_retries, committing, expected_retries, success_range
from endive.analysis.estimates import at_least, at_most
from endive.analysis.order_statistics import SortedValues
from endive.analysis.percentiles import Bounded, CommitTimes
from endive.analysis.warmup import SERIES_BINS, Window, find_window, given_window, load_pattern
from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig

WARMUP_MS = 10_000.0
MEASURED_MS = 80_000.0
COOLDOWN_MS = 15_000.0
"""Cool-down that is long enough for all commits to end, because transactions in flight widen the interval of success."""
TIMES_AS_LONG = 1_000
PERCENTS = (50, 95)
_NEEDED = ("t_commit_start", "t_submit", "total_latency", "t_commit")


@dataclass(frozen=True)
class System:
    """System with fast appends to one table on S3, at a rate or by clients with mean think time ``1 / rate_per_s``."""

    rate_per_s: float
    retries: int = 4
    clients: int = 0
    """Number of clients of a closed loop, instead of a rate."""
    measured_ms: float = MEASURED_MS
    cooldown_ms: float = COOLDOWN_MS
    finds_window: bool = False
    """True if the warm-up is determined from the runs, as by default in commands; False if it is given."""


@cache
def _config(system: System, duration_ms: float) -> SimulationConfig:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": duration_ms, "engine": "compiled"},
        "storage": {"provider": "s3", "profile": "2025-12"},
        "transaction": {"retry": system.retries, "runtime": {"distribution": "fixed", "value": 500.0}},
        "workload": {"writers": {**_arrivals(system), "operation": "fast_append"}},
    }
    return build_simulation_config(Document.model_validate(tree), seed_override=0)


def _arrivals(system: System) -> dict[str, Any]:
    if not system.clients:
        return {"rate": system.rate_per_s}
    return {
        "closed": {"clients": system.clients, "think_time": {"distribution": "exponential", "scale": 1000.0 / system.rate_per_s}}
    }


@dataclass(frozen=True)
class Run:
    """Simulated run: transactions, retries, and duration."""

    transactions: Transactions
    retries: Ints
    duration_ms: float


def simulate(system: System, seed: int, times_as_long: int = 1) -> Run:
    """Simulate one run."""
    duration_ms = WARMUP_MS + times_as_long * system.measured_ms + system.cooldown_ms
    batches: list[pa.RecordBatch] = []
    Simulation(replace(_config(system, duration_ms), seed=seed)).stream(batches.append)
    rows = pa.Table.from_batches(batches)
    columns = {name: rows.column(name).to_numpy() for name in _NEEDED}
    status = np.asarray(rows.column("status").to_pylist())
    transactions = Transactions.of_rows(**columns, committed=status == "committed", aborted=status == "aborted")
    return Run(transactions, rows.column("n_retries").to_numpy(), duration_ms)


def measure(system: System, seed: int, times_as_long: int = 1) -> dict[str, Any]:
    """Return the metrics of one run after the given warm-up, computed by Endive."""
    run = simulate(system, seed, times_as_long)
    return _metrics(run.transactions, run.retries, given_window(run.duration_ms, WARMUP_MS, system.cooldown_ms))


def measure_study(system: System, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the metrics of the runs of one study."""
    if not system.finds_window:
        return [measure(system, seed) for seed in seeds]
    runs = [simulate(system, seed) for seed in seeds]
    duration_ms = runs[0].duration_ms
    edges = np.linspace(0.0, duration_ms - system.cooldown_ms, SERIES_BINS + 1)
    series = np.sum([committing(run.transactions, edges) for run in runs], axis=0)
    pattern = load_pattern(_config(system, duration_ms).workload.config.workload_classes)
    window = find_window(duration_ms, system.cooldown_ms, pattern, series)
    return [_metrics(run.transactions, run.retries, window) for run in runs]


def _metrics(rows: Transactions, retries: Ints, window: Window) -> dict[str, Any]:
    inside = rows.cohort(window)
    entered, committed, aborted = (int(flags.sum()) for flags in (inside, inside & rows.committed, inside & rows.aborted))
    unfinished = entered - committed - aborted
    commits = int(rows.committed_in(window).sum())
    waited = (rows.end_ms - rows.entry_ms)[inside]
    found: dict[str, Any] = {
        "transactions": entered,
        "committed": committed,
        "in_flight": unfinished,
        "commits_in_window": commits,
        "throughput_per_s": commits / window.length_ms * 1000.0,
        "success_rate": success_range(committed, unfinished, entered)[1],
    }
    settled = (rows.committed | rows.aborted)[inside]
    expected = expected_retries(retries[inside], settled)
    found |= _bounds("retries_per_txn", bound_retries(expected, float(retries[inside].sum()), unfinished, entered))
    shares = [percent / 100.0 for percent in PERCENTS]
    times = CommitTimes(SortedValues(np.sort(waited[rows.committed[inside]])), np.sort(waited[~settled]), aborted)
    for percent, each in zip(PERCENTS, times.percentiles(shares), strict=True):
        found |= _bounds(f"time_to_commit_p{percent}_ms", each)
    return found


def _bounds(metric: str, found: Bounded) -> dict[str, Any]:
    return {metric: found.value, at_least(metric): found.at_least, at_most(metric): found.at_most}


@cache
def truth(system: System) -> dict[str, Any]:
    """Return the metrics of a run that is a thousand times longer, with a seed that no study uses."""
    return measure(system, 10**9, TIMES_AS_LONG)


def studies(system: System, number: int, seeds: int, first: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Yield studies with this number of seeds, starting with study ``first``; studies share no seed."""
    for study in range(first, first + number):
        yield measure_study(system, range(study * seeds, (study + 1) * seeds))


def true_crossing(success: float, low: float, high: float, steps: int = 14) -> float:
    """Return the load per second at which success falls below a threshold, by bisection with long runs."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        if truth(System(middle))["success_rate"] < success:
            high = middle
        else:
            low = middle
    return float((low * high) ** 0.5)
