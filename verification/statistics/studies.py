"""Small runs of one pointer under load, and long ones that tell the truth about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from endive.analysis import Ints
from endive.analysis.cohort import Transactions, expected_retries, success_range
from endive.analysis.estimates import at_least, at_most
from endive.analysis.percentiles import times_to_commit
from endive.analysis.warmup import Window, given_window
from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig

WARMUP_MS = 10_000.0
MEASURED_MS = 80_000.0
COOLDOWN_MS = 15_000.0
"""Long enough for all that entered to end: what is unfinished widens the interval of success, which is not at issue here."""
TIMES_AS_LONG = 1_000
PERCENTS = (50, 95)
_NEEDED = ("t_commit_start", "t_submit", "total_latency", "t_commit")


@dataclass(frozen=True)
class System:
    """Fast appends to one table on S3, at a rate or by clients that think for ``1 / rate_per_s`` on average."""

    rate_per_s: float
    retries: int = 4
    clients: int = 0
    """Clients of a closed loop, in place of a rate."""
    measured_ms: float = MEASURED_MS
    cooldown_ms: float = COOLDOWN_MS


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


def measure(system: System, seed: int, times_as_long: int = 1) -> dict[str, Any]:
    """The metrics of one run, by the project's own functions."""
    duration_ms = WARMUP_MS + times_as_long * system.measured_ms + system.cooldown_ms
    batches: list[pa.RecordBatch] = []
    Simulation(replace(_config(system, duration_ms), seed=seed)).stream(batches.append)
    rows = pa.Table.from_batches(batches)
    columns = {name: rows.column(name).to_numpy() for name in _NEEDED}
    status = np.asarray(rows.column("status").to_pylist())
    transactions = Transactions.of_rows(**columns, committed=status == "committed", aborted=status == "aborted")
    return _metrics(transactions, rows.column("n_retries").to_numpy(), given_window(duration_ms, WARMUP_MS, system.cooldown_ms))


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
        "retries_per_txn": expected_retries(retries[inside], (rows.committed | rows.aborted)[inside]) / entered,
    }
    shares = [percent / 100.0 for percent in PERCENTS]
    for percent, each in zip(PERCENTS, times_to_commit(waited, rows.committed[inside], rows.aborted[inside], shares), strict=True):
        name = f"time_to_commit_p{percent}_ms"
        found |= {name: each.value, at_least(name): each.at_least, at_most(name): each.at_most}
    return found


@cache
def truth(system: System) -> dict[str, Any]:
    """The metrics of a run a thousand times as long, with a seed that no study has."""
    return measure(system, 10**9, TIMES_AS_LONG)


def studies(system: System, number: int, seeds: int, first: int = 0) -> Iterator[list[dict[str, Any]]]:
    """So many studies of so many seeds, from a study on; no seed is in two of them."""
    for study in range(first, first + number):
        yield [measure(system, study * seeds + place) for place in range(seeds)]


def true_crossing(success: float, low: float, high: float, steps: int = 14) -> float:
    """The load per second at which success falls below a share, by bisection with long runs."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        if truth(System(middle))["success_rate"] < success:
            high = middle
        else:
            low = middle
    return float((low * high) ** 0.5)
