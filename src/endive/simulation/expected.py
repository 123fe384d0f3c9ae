"""Estimate the numbers of transactions, steps and file accesses of a run from its configuration.

The estimate runs a few transactions of each class, one at a time, on the reference engine. These runs give the steps, the file
accesses and the time of an attempt without contention. The number of attempts follows from the load on a commit pointer. At v
attempts per second and a time of W seconds between the base snapshot and the commit, one in 1 + v W attempts succeeds (``renewal``,
for constant times). The load of a saturated log is estimated from the queue of its appends. No time is measured, so the estimate is
the same on every machine.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from endive.catalog import AppendCatalog
from endive.simulation.columns import IO_COLUMNS
from endive.simulation.config import SimulationConfig
from endive.simulation.reference import ReferenceEngine
from endive.storage import FixedLatency, ProfiledProvider
from endive.storage.distributions import QuantileDistribution
from endive.table.operations import VALIDATING
from endive.workload import PeriodicArrivals, Workload, WorkloadClass, mean_ms
from endive.workload.classes import ZipfCount

_TRIED = 5
"""Number of transactions of each class that the estimate runs without contention."""
_MOST_TABLES_BUILT = 100_000
"""Maximum number of tables in all of these runs together.

If the limit is exceeded, fewer transactions of each class run, but at least one.
"""
_NEVER_MS = 1e15
_JOBS = 50
"""Number of equally likely job durations that represent the distribution of a class."""


@dataclass(frozen=True)
class ExpectedWork:
    """Expected work of a run.

    The work is the number of transactions, of steps with a latency, and of file accesses, and the cost of selecting tables and
    partitions. The cost of the selections is given as the number of steps that take the same time.
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
    """Mean times and counts of the transactions of a class without contention. Times are in seconds."""

    commit_s: float
    work_s: float
    steps: float
    accesses: float
    history_reads: float
    """Number of files that an attempt reads for each snapshot committed since its base snapshot."""


@dataclass(frozen=True)
class _Load:
    """Workload class with the work of one of its transactions without contention."""

    cls: WorkloadClass
    alone: _Alone
    retries: int
    wait_s: float
    """Mean backoff before a retry, in seconds."""
    tables: float
    seconds: float
    """Length of the run in seconds."""

    @property
    def is_closed(self) -> bool:
        """True if a client of the class waits for its previous transaction before it submits the next."""
        return self.cls.arrivals.waits or self.cls.arrivals.paced

    def attempts(self, success: float) -> float:
        """Return the mean number of attempts in half of the run, if each attempt succeeds with this probability."""
        most = 1.0 + 0.5 * self.seconds / max(self.alone.commit_s + self.wait_s, 1e-6)
        return min(_attempts(success, self.retries + 1), most)

    def committing_s(self, success: float) -> float:
        """Return the time from the start of the first attempt to the end of the last attempt, in seconds."""
        attempts = self.attempts(success)
        return attempts * self.alone.commit_s + (attempts - 1.0) * self.wait_s

    def per_s(self, success: float) -> float:
        """Return the mean rate of transaction starts in the run, per second.

        In a closed loop, the rate depends on the number of attempts.
        """
        cls, duration_ms = self.cls, 1000.0 * self.seconds
        active_ms = max(0.0, min(duration_ms, cls.end_ms) - cls.start_ms)
        if self.is_closed:
            job_ms = 1000.0 * (self.alone.work_s + self.committing_s(success))
            per_s = 1000.0 * cls.arrivals.submissions_per_ms(mean_ms, job_ms) * active_ms / duration_ms
        else:
            per_s = cls.arrivals.expected_submissions(active_ms) * 1000.0 / duration_ms
        if cls.committer is not None and cls.committer.round == "all_writers":
            per_s /= max(cls.arrivals.numbered_writers, 1)
        if cls.committer is not None:
            per_s = min(per_s, 1.0 / max(self.alone.commit_s, cls.committer.interval_ms / 1000.0, 1e-3))
        return per_s

    def commits_per_s(self, success: float) -> float:
        """Return the number of commits per second."""
        return self.per_s(success) * min(1.0, success * self.attempts(success))

    def job(self) -> tuple[float, float]:
        """Return the fraction of transactions whose job ends before the end of the run, and the mean duration of these jobs."""
        runtime, end_ms = self.cls.runtime, 1000.0 * self.seconds
        if not isinstance(runtime, QuantileDistribution) or self.alone.work_s <= 0.0:
            return 1.0, self.alone.work_s
        times = [runtime.at((k + 0.5) / _JOBS) for k in range(_JOBS)]
        shares = [max(0.0, 1.0 - time / end_ms) for time in times]
        ended = sum(shares)
        return ended / _JOBS, sum(map(operator.mul, times, shares)) / max(ended, 1e-12) / 1000.0


def expected_work(config: SimulationConfig) -> ExpectedWork:
    """Estimate the work of one run."""
    seconds = max(config.duration_ms, 0.0) / 1000.0
    total = ExpectedWork()
    if seconds == 0.0:
        return total
    loads = [_load(config, cls, seconds) for cls in config.workload.config.workload_classes]
    pointers = len(set(config.workload.config.groups))
    if not loads:
        return total
    tables = config.workload.config.num_tables
    pace = _log_pace(config)
    is_log = isinstance(config.catalog, AppendCatalog)
    success = _attempt_success(loads, tables if is_log else pointers, math.inf if pace is None else pace.records_per_s)
    log = _Log() if pace is None else _log(pace, loads, success, pointers, seconds)
    changes_per_s = sum(load.commits_per_s(success) * load.tables for load in loads) / max(tables, 1)
    for load in loads:
        total += _class_work(config, load, success, changes_per_s, log, seconds)
    return total


def _load(config: SimulationConfig, cls: WorkloadClass, seconds: float) -> _Load:
    backoff = config.policy_of(cls).backoff
    retries = config.max_retries_of(cls)
    tables = 1.0 if isinstance(cls.tables_per_txn, ZipfCount) else float(cls.tables_per_txn)
    wait_ms = 0.0
    if backoff.enabled and retries:
        wait_ms = fmean(min(backoff.base_ms * backoff.multiplier**retry, backoff.max_ms) for retry in range(min(retries, 100)))
    return _Load(
        cls, _try_alone(config, cls), retries, wait_ms / 1000.0, min(tables, float(config.workload.config.num_tables)), seconds
    )


def _try_alone(config: SimulationConfig, cls: WorkloadClass) -> _Alone:
    """Run a few transactions of a class without contention, each in a separate run, and return their means."""
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


def _attempt_success(loads: Sequence[_Load], pointers: int, closed_per_s: float) -> float:
    """Return the probability that an attempt succeeds.

    The probability is p = 1 / (1 + v W), where v depends on the load, on p and on the limit of retries. ``closed_per_s`` is the
    highest rate of attempts that closed loops can reach on a commit pointer.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        attempts = [load.per_s(middle) * load.attempts(middle) / pointers for load in loads]
        closed = sum(per_s for load, per_s in zip(loads, attempts, strict=True) if load.is_closed)
        share = min(1.0, closed_per_s / closed) if closed > 0.0 else 1.0
        shares = [share if load.is_closed else 1.0 for load in loads]
        committing = sum(a * b * load.alone.commit_s for a, b, load in zip(attempts, shares, loads, strict=True))
        if 1.0 / (1.0 + committing) > middle:
            low = middle
        else:
            high = middle
    return high


def _attempts(success: float, limit: int) -> float:
    """Return the mean number of attempts, if each attempt succeeds with this probability and ``limit`` is the maximum."""
    return float(limit) if success <= 1e-9 else (1.0 - (1.0 - success) ** limit) / success


@dataclass(frozen=True)
class _Log:
    """Load of a log: the mean number of appends per transaction, and the fraction of the offered rate that closed loops reach."""

    tries: float = 1.0
    closed_share: float = 1.0


@dataclass(frozen=True)
class _LogPace:
    """Duration of a successful append to a log, and duration of a rejected append."""

    append_s: float
    refused_s: float

    @property
    def records_per_s(self) -> float:
        """Maximum number of records that the log accepts per second.

        The log accepts one record in each append latency, or in each rejection latency if rejections take much longer.
        """
        return 1.0 / self.refused_s if self.refused_s > 2.0 * self.append_s else 1.0 / self.append_s


def _log_pace(config: SimulationConfig) -> _LogPace | None:
    """Return the append times of the catalog log, or of the manifest lists (ML+). Return None if the run has no log."""
    catalog = config.catalog
    storage = catalog.storage if isinstance(catalog, AppendCatalog) else config.storage_provider if config.ml_append_mode else None
    if not isinstance(storage, ProfiledProvider) or storage.profile.append is None:
        return None
    append_s = max(mean_ms(storage.profile.append) / 1000.0, 1e-6)
    return _LogPace(append_s, max(mean_ms(storage.profile.failed_append or storage.profile.append) / 1000.0, append_s))


def _log(pace: _LogPace, loads: Sequence[_Load], success: float, pointers: int, seconds: float) -> _Log:
    """Estimate the load of a log.

    If the log does not accept a record, the transaction sends the record again after one rejection latency. With open arrivals, the
    number of waiting transactions keeps growing. In closed loops, all clients wait.
    """
    closed = [load for load in loads if load.is_closed]
    open_per_s = sum(load.per_s(success) for load in loads if not load.is_closed) / pointers
    closed_per_s = sum(load.per_s(success) for load in closed) / pointers
    per_s = open_per_s + closed_per_s
    records = _attempts(success, 1 + max(load.retries for load in loads))
    capacity = pace.records_per_s
    if per_s * records < capacity:
        return _Log(records * (1.0 + per_s * records * pace.append_s / max(1.0 - per_s * records / capacity, 0.02)))
    room_per_s = max(capacity / records - open_per_s, 0.0)
    waiting = max(open_per_s - capacity / records, 0.0) * seconds / 2.0
    waiting += sum(load.cls.arrivals.numbered_writers for load in closed) / pointers
    share = min(1.0, room_per_s / closed_per_s) if closed else 1.0
    return _Log(records + waiting / pace.refused_s / max(open_per_s + closed_per_s * share, 1.0 / seconds), share)


def _class_work(
    config: SimulationConfig, load: _Load, success: float, changes_per_s: float, log: _Log, seconds: float
) -> ExpectedWork:
    """Estimate the work of a class. ``changes_per_s`` is the number of commits to one table per second."""
    alone = load.alone
    ended, work_s = load.job()
    path = config.policy_of(load.cls).path
    first = success
    if not path.refreshes_first:
        first = success / (1.0 + changes_per_s * load.tables * work_s)
    attempts = min(1.0 + (1.0 - first) * _attempts(success, load.retries), 1.0 + load.attempts(success))
    between = load.tables * min(changes_per_s * (work_s + load.committing_s(success)), changes_per_s * seconds)
    history = alone.history_reads * between * (attempts if path.keeps_files else 1.0)
    transactions = load.per_s(success) * seconds
    if load.is_closed:
        transactions = max(transactions * log.closed_share, float(load.cls.arrivals.numbered_writers))
    steps = ended * (alone.steps * attempts + history) + (log.tries - 1.0)
    accesses = ended * (alone.accesses * attempts + history)
    return ExpectedWork(transactions, transactions * steps, transactions * accesses, transactions * _picks(config, load.cls))


def _picks(config: SimulationConfig, cls: WorkloadClass) -> float:
    """Return the cost of selecting the tables and partitions of a transaction, in steps.

    The cost grows with the square of the number of selected items, because each item is inserted into a sorted list. The factors
    were measured with 200 and 1,000 partitions (22 and 390 µs, at about 30 ns per step).
    """
    topology = config.workload.config
    tables = 1.0 if isinstance(cls.tables_per_txn, ZipfCount) else float(min(cls.tables_per_txn, topology.num_tables))
    partitions = min(cls.partitions_per_txn or 0.0, float(max(topology.partitions_per_table)))
    return _pick_steps(tables) + tables * _pick_steps(partitions)


def _pick_steps(picks: float) -> float:
    return 0.0 if picks <= 1.0 else 2.0 * picks + picks * picks / 100.0
