"""Compute the metrics of one run in a window, for each workload class and operation and for their totals.

``measure_run`` takes the columns of a run and a window, and returns one row of metrics per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints, handovers
from endive.analysis.cohort import Transactions, bound_retries, committing, entries, expected_retries, success_range
from endive.analysis.estimates import at_least, at_most
from endive.analysis.fairness import FAIRNESS, WritersRows, fairness_metrics
from endive.analysis.percentiles import PERCENTS, Bounded, plain_percentiles, quantiles, times_to_commit
from endive.analysis.run_curves import CURVES, SLOWER, ThroughTime, over_time_columns, through_time
from endive.analysis.saturation import BACKLOG_PARTS
from endive.analysis.table_growth import TABLE_STATE, StateRows, measure_state
from endive.analysis.warmup import Window
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, STATE_COLUMNS, TIME_COLUMNS
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION
from endive.workload.classes import ALL_CLASSES

ALL = ALL_CLASSES
"""Class and operation of totals; a reserved name."""
ABORT_REASONS = (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT, VALIDATION_EXCEPTION)
SUM_COLUMNS = (*COUNT_COLUMNS, *IO_COLUMNS)
LATENCIES = ("commit_latency", "total_latency")
"""Latencies of the committed transactions of the cohort."""
TIME_TO_COMMIT = "time_to_commit"
"""Latency of the whole cohort."""
PERCENTILES = tuple(f"{name}_p{percent}_ms" for name in (TIME_TO_COMMIT, *LATENCIES, handovers.OLDEST) for percent in PERCENTS)

COUNTS = (
    "transactions",
    "committed",
    "aborted",
    "in_flight",
    "commits_in_window",
    "working",
    *(f"aborted_{reason}" for reason in ABORT_REASONS),
)
"""Counts of transactions. All are of the cohort except ``commits_in_window`` and ``working``, which is of the whole run."""
RATES = (
    "offered_per_s",
    "throughput_per_s",
    "throughput_ratio",
    "success_rate",
    "success_low",
    "success_high",
    "mean_committing",
    "retries_per_txn",
    "overhead",
    *FAIRNESS,
    *handovers.HANDOVERS,
    *TABLE_STATE,
    *PERCENTILES,
    *(f"{name}_mean_ms" for name in LATENCIES),
    *(f"mean_{name}" for name in TIME_COLUMNS),
    *(f"{name}_per_txn" for name in IO_COLUMNS),
)
RETRIES = "retries_per_txn"
BOUNDED = (*PERCENTILES, RETRIES)
"""Metrics that transactions in flight may leave without a value, and that have bounds then."""
BOUNDS = tuple(bound(name) for name in BOUNDED for bound in (at_least, at_most))
"""Bounds of these metrics; infinite if a percentile falls on aborted transactions, or if retries have no upper bound."""
METRICS = (*COUNTS, *SUM_COLUMNS, *RATES)
WRITER_COLUMNS = ("client", *handovers.BATCH_COLUMNS)
"""Columns of the writer of a transaction and of its batch, which are not summed."""

COMMITTING_IN_WINDOW, ENTERED_IN_WINDOW = "committing_in_window", "entered_in_window"
"""Number of committing transactions, and of transactions that started committing, in equal parts of the window."""


class RunColumns(Protocol):
    """Columns of the rows of one run."""

    groups: Sequence[Group]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column, one value per row of the run."""
        ...


@dataclass(frozen=True)
class Group:
    """Transactions of one workload class and operation of a run.

    Attributes:
        index: Positions of the transactions among the rows of the run.
        reasons: Flags by abort reason.
        latencies: Latency columns by name.
    """

    workload_class: str
    operation: str
    index: Ints
    transactions: Transactions
    reasons: Mapping[str, Flags]
    latencies: Mapping[str, Floats]


@dataclass(frozen=True)
class Cohort:
    """Transactions of a group that started committing in the window, and which of them committed.

    Attributes:
        inside: Flags of the cohort, over the transactions of the group.
        done: Flags of the committed part of the cohort.
        in_window: Flags of the transactions that committed in the window, whenever they started.
        edges_ms: Edges of the equal parts of the window.
    """

    group: Group
    inside: Flags
    done: Flags
    in_window: Flags
    edges_ms: Floats

    def sum_column(self, name: str, values: npt.NDArray[Any]) -> float:
        """Sum a column of the run: times over the committed part of the cohort, counts over all of it."""
        own, chosen = values[self.group.index], self.done if name in TIME_COLUMNS else self.inside
        total: float = own[chosen].sum().item()
        return total


@dataclass(frozen=True)
class GroupMeasures:
    """Counts, sums and values of one group in a window, from which the metrics of groups and their totals are computed."""

    workload_class: str
    operation: str
    counts: Mapping[str, int]
    sums: Mapping[str, float]
    cohort: Transactions
    latencies: Mapping[str, Floats]
    over_time: ThroughTime
    committing: Floats
    entered: Ints
    writers: WritersRows
    file_batches: handovers.FileBatches
    expected_retries: float
    state: StateRows


def measure_run(rows: RunColumns, window: Window) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics of a run by workload class and operation, totals included."""
    cohorts = [select_cohort(group, window) for group in rows.groups]
    sums: list[dict[str, float]] = [{} for _ in cohorts]
    for name in (*SUM_COLUMNS, *TIME_COLUMNS):
        values = rows.column(name)
        for cohort, own in zip(cohorts, sums, strict=True):
            own[name] = cohort.sum_column(name, values)
    columns = {name: rows.column(name) for name in ("n_retries", *WRITER_COLUMNS, *STATE_COLUMNS)}
    measures = [
        _measure_cohort(cohort, own, {name: values[cohort.group.index] for name, values in columns.items()}, window)
        for cohort, own in zip(cohorts, sums, strict=True)
    ]
    return _group_rows(measures, window)


def select_cohort(group: Group, window: Window) -> Cohort:
    """Select the transactions of a group that started committing in the window."""
    transactions = group.transactions
    inside = transactions.cohort(window)
    edges = np.linspace(window.start_ms, window.end_ms, BACKLOG_PARTS + 1)
    return Cohort(group, inside, inside & transactions.committed, transactions.committed_in(window), edges)


def _measure_cohort(
    cohort: Cohort, sums: Mapping[str, float], columns: Mapping[str, npt.NDArray[Any]], window: Window
) -> GroupMeasures:
    group, transactions = cohort.group, cohort.group.transactions
    inside, done = cohort.inside, cohort.done
    counts = {
        "transactions": int(inside.sum()),
        "committed": int(done.sum()),
        "aborted": int((inside & transactions.aborted).sum()),
        "commits_in_window": int(cohort.in_window.sum()),
        "working": int((~transactions.entered).sum()),
        **{f"aborted_{reason}": int((inside & flags).sum()) for reason, flags in group.reasons.items()},
    }
    counts["in_flight"] = counts["transactions"] - counts["committed"] - counts["aborted"]
    latencies = {name: values[done] for name, values in group.latencies.items()}
    commit, total = (latencies[name] for name in LATENCIES)
    overhead = float(np.divide(commit, total, out=np.zeros_like(commit), where=total > 0.0).sum())
    over_time = through_time(transactions, window.duration_ms, window.time_bins)
    over_time.add_retries(columns["n_retries"])
    over_time.add_state(transactions, window.duration_ms, {name: columns[name] for name in STATE_COLUMNS})
    own = transactions.take(np.flatnonzero(inside))
    batches = [columns[name] for name in handovers.BATCH_COLUMNS]
    waiting = handovers.waiting_handovers(batches, transactions.entry_ms, cohort.edges_ms)
    return GroupMeasures(
        group.workload_class,
        group.operation,
        counts,
        {**sums, "overhead": overhead},
        own,
        latencies,
        over_time,
        committing(transactions, cohort.edges_ms) + waiting,
        entries(transactions, cohort.edges_ms),
        WritersRows(
            group.workload_class,
            int(columns["client"].max(initial=-1)) + 1,
            columns["client"][inside],
            own.end_ms,
            own.committed,
            columns["n_retries"][inside],
        ),
        handovers.count_handovers(batches, cohort.in_window, done, latencies["total_latency"]),
        expected_retries(columns["n_retries"][inside], own.committed | own.aborted),
        StateRows.of_commits(
            transactions.end_ms[cohort.in_window], {name: columns[name][cohort.in_window] for name in STATE_COLUMNS}
        ),
    )


def _group_rows(measures: Sequence[GroupMeasures], window: Window) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics of each group and of all totals; equal sets of groups are measured once."""
    groups: dict[tuple[str, str], set[int]] = {(ALL, ALL): set()}
    for number, each in enumerate(measures):
        for key in product((each.workload_class, ALL), (each.operation, ALL)):
            groups.setdefault(key, set()).add(number)
    by_members: dict[tuple[int, ...], dict[str, Any]] = {}
    rows = {}
    for key, members in sorted(groups.items()):
        numbers = tuple(sorted(members))
        if numbers not in by_members:
            by_members[numbers] = group_metrics([measures[number] for number in numbers], window)
        rows[key] = {**window_columns(window), **by_members[numbers]}
    return rows


def window_columns(window: Window) -> dict[str, Any]:
    """Return the columns that describe the window of a row."""
    return {
        "duration_ms": window.duration_ms,
        "warmup_ms": window.start_ms,
        "warmup_by": window.chosen_by,
        "warmup_settled": window.settled,
        "window_ms": window.length_ms,
        "needed_ms": window.needed_ms,
    }


def window_of(row: Any) -> Window:
    """Return the window that the columns of a row describe."""
    end = row["warmup_ms"] + row["window_ms"]
    return Window(row["duration_ms"], row["warmup_ms"], end, row["warmup_by"], row["warmup_settled"], row["needed_ms"])


def group_metrics(measures: Sequence[GroupMeasures], window: Window) -> dict[str, Any]:
    """Return the metrics of some groups of a run together; None where there is nothing to measure."""
    counts = {name: sum(each.counts[name] for each in measures) for name in COUNTS}
    sums = {name: sum(each.sums[name] for each in measures) for name in (*SUM_COLUMNS, *TIME_COLUMNS, "overhead")}
    entered, committed = counts["transactions"], counts["committed"]
    success_low, success, success_high = success_range(committed, counts["in_flight"], entered)
    expected = sum(each.expected_retries for each in measures)
    seconds = window.length_ms / 1000.0
    inside = sum((each.committing for each in measures), np.zeros(BACKLOG_PARTS))
    return {
        **counts,
        **{name: sums[name] for name in SUM_COLUMNS},
        "offered_per_s": entered / seconds,
        "throughput_per_s": counts["commits_in_window"] / seconds,
        "throughput_ratio": _ratio(counts["commits_in_window"], entered),
        "success_rate": success,
        "success_low": success_low,
        "success_high": success_high,
        "mean_committing": float(inside.mean()),
        **_bounds(RETRIES, bound_retries(expected, sums["n_retries"], counts["in_flight"], entered)),
        "overhead": _ratio(sums["overhead"], committed),
        **fairness_metrics([each.writers for each in measures]),
        **handovers.handover_metrics([each.file_batches for each in measures], committed, seconds),
        **measure_state([each.state for each in measures], window.start_ms, window.end_ms),
        **_named(handovers.OLDEST, plain_percentiles(_joined([each.file_batches.oldest_ms for each in measures]), _SHARES)),
        **_times_to_commit(measures),
        **_latencies(measures),
        **{f"mean_{name}": _ratio(sums[name], committed) for name in TIME_COLUMNS},
        **{f"{name}_per_txn": _ratio(sums[name], entered) for name in IO_COLUMNS},
        **over_time_columns([each.over_time for each in measures]),
        COMMITTING_IN_WINDOW: inside,
        ENTERED_IN_WINDOW: sum((each.entered for each in measures), np.zeros(BACKLOG_PARTS, np.int64)),
    }


_SHARES = [percent / 100.0 for percent in PERCENTS]


def _times_to_commit(measures: Sequence[GroupMeasures]) -> dict[str, Any]:
    rows = [each.cohort for each in measures]
    waited = _joined([each.end_ms - each.entry_ms for each in rows])
    committed, aborted = (_joined([getattr(each, name) for each in rows]).astype(np.bool_) for name in ("committed", "aborted"))
    return _named(TIME_TO_COMMIT, times_to_commit(waited, committed, aborted, _SHARES))


def _latencies(measures: Sequence[GroupMeasures]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LATENCIES:
        values = _joined([each.latencies[name] for each in measures])
        found |= _named(name, plain_percentiles(values, _SHARES))
        if len(values):
            found[f"{name}_mean_ms"] = float(values.mean())
            found[CURVES[name]] = quantiles(np.sort(values), [1.0 - share for share in SLOWER])
    return found


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0), *arrays])


def _named(name: str, percentiles: Sequence[Bounded]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for percent, each in zip(PERCENTS, percentiles, strict=True):
        found |= _bounds(f"{name}_p{percent}_ms", each)
    return found


def _bounds(metric: str, found: Bounded) -> dict[str, float | None]:
    return {metric: found.value, at_least(metric): found.at_least, at_most(metric): found.at_most}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
