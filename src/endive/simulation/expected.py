"""Estimate the work of a run from its configuration: numbers of transactions, steps and file accesses.

A few transactions of each class run one by one on the reference engine, which gives the steps, the accesses and the time of an
attempt without contention. The number of attempts follows from the load on a commit pointer: at v attempts per second and a window
of W seconds, one in 1 + v W attempts succeeds (``renewal``, for constant windows). The load of a saturated log is estimated from
its queue. Nothing is timed, so estimates are the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from endive.catalog import AppendCatalog, Catalog
from endive.simulation.columns import IO_COLUMNS
from endive.simulation.config import SimulationConfig
from endive.simulation.reference import ReferenceEngine
from endive.storage import FixedLatency, ProfiledProvider
from endive.table.operations import VALIDATING
from endive.workload import PeriodicArrivals, Workload, WorkloadClass, mean_ms
from endive.workload.classes import ZipfCount

_TRIED = 5
"""Number of transactions per class that run alone."""
_MOST_TABLES_BUILT = 100_000
"""Total number of tables in these runs above which fewer transactions per class run, at least one."""
_NEVER_MS = 1e15


@dataclass(frozen=True)
class ExpectedWork:
    """Expected work of a run: transactions, steps with a latency, file accesses, and selections of tables and partitions.

    Selections are counted as the number of steps with the same cost.
    """

    transactions: float = 0.0
    steps: float = 0.0
    accesses: float = 0.0
    picks: float = 0.0

    def __add__(self, other: ExpectedWork) -> ExpectedWork:
        return ExpectedWork(
            self.transactions + other.transactions,
            self.steps + other.steps,
            self.accesses + other.accesses,
            self.picks + other.picks,
        )


@dataclass(frozen=True)
class _Alone:
    """Means over transactions of a class without contention; times in seconds."""

    commit_s: float
    work_s: float
    steps: float
    accesses: float
    history_reads: float
    """Number of files that an attempt reads per snapshot since its base."""


@dataclass(frozen=True)
class _Load:
    """Class and the rate at which its transactions start."""

    cls: WorkloadClass
    alone: _Alone
    per_s: float
    retries: int


def expected_work(config: SimulationConfig) -> ExpectedWork:
    """Estimate the work of one run of a configuration."""
    seconds = max(config.duration_ms, 0.0) / 1000.0
    loads = [_load(config, cls) for cls in config.workload.config.workload_classes]
    pointers = len(set(config.workload.config.groups))
    total = ExpectedWork()
    if not loads or seconds == 0.0:
        return total
    log = isinstance(config.catalog, AppendCatalog)
    success = _attempt_success(loads, config.workload.config.num_tables if log else pointers)
    tries = _tries(config.catalog, loads, success, pointers, seconds)
    commits_per_s = sum(load.per_s for load in loads) / max(pointers, 1)
    for load in loads:
        total += _class_work(config, load, success, commits_per_s, tries, seconds)
    return total


def _load(config: SimulationConfig, cls: WorkloadClass) -> _Load:
    alone = _try_alone(config, cls)
    per_s = _rate_per_s(cls, alone, config.duration_ms)
    if cls.committer is not None and cls.committer.round == "all_writers":
        per_s /= max(cls.arrivals.numbered_writers, 1)
    if cls.committer is not None:
        per_s = min(per_s, 1.0 / max(alone.commit_s, cls.committer.interval_ms / 1000.0, 1e-3))
    return _Load(cls, alone, per_s, config.max_retries_of(cls))


def _rate_per_s(cls: WorkloadClass, alone: _Alone, duration_ms: float) -> float:
    """Return the rate at which transactions start, per second, averaged over the run."""
    active_ms = max(0.0, min(duration_ms, cls.end_ms) - cls.start_ms)
    if cls.arrivals.waits or cls.arrivals.paced:
        job_ms = 1000.0 * (alone.work_s + alone.commit_s)
        return 1000.0 * cls.arrivals.submissions_per_ms(mean_ms, job_ms) * active_ms / duration_ms
    return cls.arrivals.expected_submissions(active_ms) * 1000.0 / duration_ms


def _try_alone(config: SimulationConfig, cls: WorkloadClass) -> _Alone:
    """Run some transactions of a class, each in a separate run."""
    once = replace(cls, arrivals=PeriodicArrivals(_NEVER_MS), start_ms=0.0, end_ms=math.inf, committer=None)
    if cls.committer is not None:
        once = replace(once, runtime=FixedLatency(0.0))
    rows: list[dict[str, Any]] = []
    built = config.workload.config.num_tables * len(config.workload.config.workload_classes)
    for seed in range(max(1, min(_TRIED, _MOST_TABLES_BUILT // built))):
        workload = Workload(replace(config.workload.config, classes=(once,)), seed)
        alone = replace(config, seed=seed, workload=workload, duration_ms=1.0, drain=True)
        ReferenceEngine(alone, lambda batch: rows.extend(batch.to_pylist())).run()
    names = {row["operation_type"] for row in rows}
    history = 0.0
    if names & VALIDATING:
        history = 1.0
    elif "merge_append" in names and not config.policy_of(cls).path.keeps_files:
        history = 2.0 * cls.manifests_per_concurrent_commit
    return _Alone(
        commit_s=fmean(row["commit_latency"] for row in rows) / 1000.0,
        work_s=mean_ms(cls.runtime) / 1000.0,
        steps=fmean(row["event_count"] for row in rows),
        accesses=fmean(sum(row[name] for name in IO_COLUMNS) for row in rows),
        history_reads=history,
    )


def _attempt_success(loads: Sequence[_Load], pointers: int) -> float:
    """Return the fraction of attempts that succeed: p = 1 / (1 + v W), where v depends on the load, p and the retry limit."""
    rate = sum(load.per_s for load in loads) / pointers
    window = sum(load.per_s * load.alone.commit_s for load in loads) / max(sum(load.per_s for load in loads), 1e-12)
    retries = max(load.retries for load in loads)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        attempts = _attempts(middle, retries + 1)
        if 1.0 / (1.0 + rate * attempts * window) > middle:
            low = middle
        else:
            high = middle
    return high


def _attempts(success: float, limit: int) -> float:
    """Return the mean number of attempts if each succeeds with this probability and there are at most ``limit``."""
    return float(limit) if success <= 1e-9 else (1.0 - (1.0 - success) ** limit) / success


def _tries(catalog: Catalog, loads: Sequence[_Load], success: float, pointers: int, seconds: float) -> float:
    """Return the mean number of records that a transaction sends to a log.

    The log accepts one record per append latency (per rejection latency, if that is much longer); further transactions resend their
    record, once per rejection latency.
    """
    if not isinstance(catalog, AppendCatalog) or not isinstance(catalog.storage, ProfiledProvider):
        return 1.0
    profile = catalog.storage.profile
    assert profile.append is not None
    append_s = max(mean_ms(profile.append) / 1000.0, 1e-6)
    refused_s = max(mean_ms(profile.failed_append or profile.append) / 1000.0, append_s)
    per_s = sum(load.per_s for load in loads) / pointers
    records = _attempts(success, 1 + max(load.retries for load in loads))
    capacity = 1.0 / refused_s if refused_s > 2.0 * append_s else 1.0 / append_s
    if per_s * records < capacity:
        return records * (1.0 + per_s * records * append_s / max(1.0 - per_s * records / capacity, 0.02))
    waiting = (per_s - capacity / records) * seconds / 2.0
    return records + waiting / refused_s / per_s


def _class_work(
    config: SimulationConfig, load: _Load, success: float, commits_per_s: float, tries: float, seconds: float
) -> ExpectedWork:
    alone = load.alone
    first = success
    path = config.policy_of(load.cls).path
    if not path.refreshes_first:
        first = success / (1.0 + commits_per_s * alone.work_s)
    attempts = 1.0 + (1.0 - first) * _attempts(success, load.retries)
    between = min(commits_per_s * (alone.work_s + attempts * alone.commit_s), commits_per_s * seconds)
    history = alone.history_reads * between * (attempts if path.keeps_files else 1.0)
    transactions = load.per_s * seconds
    steps = alone.steps * attempts + (tries - 1.0) + history
    accesses = alone.accesses * attempts + history
    return ExpectedWork(transactions, transactions * steps, transactions * accesses, transactions * _picks(config, load.cls))


def _picks(config: SimulationConfig, cls: WorkloadClass) -> float:
    """Return the cost of the selections of a transaction, in steps; each pick is inserted among the earlier picks.

    The factors were measured with 200 and 1,000 partitions (22 and 390 µs, at about 30 ns per step).
    """
    topology = config.workload.config
    tables = 1.0 if isinstance(cls.tables_per_txn, ZipfCount) else float(min(cls.tables_per_txn, topology.num_tables))
    partitions = min(cls.partitions_per_txn or 0.0, float(max(topology.partitions_per_table)))
    return _pick_steps(tables) + tables * _pick_steps(partitions)


def _pick_steps(picks: float) -> float:
    return 0.0 if picks <= 1.0 else 2.0 * picks + picks * picks / 100.0
