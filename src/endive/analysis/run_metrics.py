"""Compute the metrics of one run in a window, for each workload class and operation, and for totals.

``measure_run`` takes the columns of a run and a window, and returns one row of metrics per group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

import numpy as np

from endive.analysis import Ints
from endive.analysis.cohort import Transactions, bound_retries, expected_retries_of_counts, success_range
from endive.analysis.estimates import at_least, at_most
from endive.analysis.metric import ABORT_REASONS
from endive.analysis.order_statistics import MOST_KEPT, Members
from endive.analysis.percentiles import PERCENTS, Bounded, plain_percentiles, quantile
from endive.analysis.run_curves import CURVES, SLOWER
from endive.analysis.run_totals import (
    LATENCIES,
    LONGEST,
    SIZE,
    SUM_COLUMNS,
    TOTAL_COLUMNS,
    VALUE_COLUMNS,
    WAIT,
    Cohort,
    Rows,
    RunTotals,
    RunValues,
)
from endive.analysis.table_growth import LIMIT_REACHED, TABLE_STATE
from endive.analysis.warmup import Window
from endive.analysis.writer_metrics import FAIRNESS, FRESHNESS, WITHOUT_DATA, Fairness, fairness_metrics, fairness_of_commits
from endive.simulation.columns import IO_COLUMNS, TIME_COLUMNS
from endive.workload.classes import ALL_CLASSES

ALL = ALL_CLASSES
"""Reserved name of class and operation in the rows of totals."""
TIME_TO_COMMIT = "time_to_commit"
"""Latency metric of the whole cohort."""
OLDEST = "oldest_handover"
"""Latency metric of the oldest file batch of each commit: the time from its handoff to the commit."""
PERCENTILES = tuple(f"{name}_p{percent}_ms" for name in (TIME_TO_COMMIT, *LATENCIES, OLDEST, FRESHNESS) for percent in PERCENTS)

CONFIGURED = ("cost_per_1000_commits", "cost_per_month", "catalog_utilization", LIMIT_REACHED)
"""Metrics that depend on the configuration and the summary of a run, not only on its rows."""
COUNTS = (
    "transactions",
    "committed",
    "aborted",
    "in_flight",
    "commits_in_window",
    "working",
    *(f"aborted_{reason}" for reason in ABORT_REASONS),
)
"""Counts of transactions in the cohort; ``commits_in_window`` counts all commits in the window, ``working`` the whole run."""
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
    "handovers_per_s",
    "handovers_per_commit",
    "handover_mean_ms",
    *TABLE_STATE,
    *CONFIGURED,
    *PERCENTILES,
    *(f"{name}_mean_ms" for name in LATENCIES),
    *(f"mean_{name}" for name in TIME_COLUMNS),
    *(f"{name}_per_txn" for name in IO_COLUMNS),
)
RETRIES = "retries_per_txn"
BOUNDED = (*PERCENTILES, RETRIES)
"""Metrics for which only bounds may be known, because of transactions in flight."""
BOUNDS = tuple(bound(name) for name in BOUNDED for bound in (at_least, at_most))
"""Bounds of these metrics; infinite if a percentile falls on aborted transactions, or if retries have no upper bound."""
METRICS = (*COUNTS, *SUM_COLUMNS, *RATES)
COMMITTING_IN_WINDOW, ENTERED_IN_WINDOW = "committing_in_window", "entered_in_window"
"""Columns with the number of committing transactions, and of transactions that started committing, in equal parts of the window."""


class RunColumns(Protocol):
    """Rows of one run, read in chunks."""

    groups: Sequence[tuple[str, str]]
    """Workload class and operation of each group."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def chunks(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield chunks of all rows in order, with these columns."""
        ...

    def in_flight(self, end_ms: float) -> Rows:
        """Return the transactions in flight at the end of arrivals."""
        ...

    def is_zero(self, column: str) -> bool:
        """Return whether a column is known to be 0 in all rows."""
        ...


@dataclass(frozen=True)
class RunMeasures:
    """Sums and values by group (class and operation) from which the metrics of a run are computed."""

    groups: Sequence[tuple[str, str]]
    window: Window
    totals: RunTotals
    values: RunValues


def measure_run(rows: RunColumns, window: Window, most_kept: int = MOST_KEPT) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics of a run by workload class and operation, including totals.

    The rows of a run with more than ``most_kept`` rows are read two or three times, so that the values for percentiles do not have
    to be kept in memory.
    """
    names = [workload_class for workload_class, _ in rows.groups]
    numbers = np.unique(names, return_inverse=True)[1].astype(np.int64)
    has_data = np.array([operation not in WITHOUT_DATA for _, operation in rows.groups], np.bool_)
    totals = RunTotals(numbers, window, has_data)
    has_batches = not rows.is_zero(LONGEST)
    values = RunValues(len(names), window, rows.in_flight(window.duration_ms), keep=len(rows) <= most_kept, has_batches=has_batches)
    for chunk in rows.chunks(TOTAL_COLUMNS):
        known = chunk.until(window.duration_ms)
        values.add(known, *totals.add(known))
    values.finish_pass()
    measures = RunMeasures(rows.groups, window, totals, values)
    found = _group_rows(measures)
    while values.needs_pass():
        for chunk in rows.chunks(VALUE_COLUMNS):
            known = chunk.until(window.duration_ms)
            values.add(known, Cohort.select(known.transactions, window), *totals.over_time.place(known.transactions))
        values.finish_pass()
        found = _group_rows(measures)
    return found


def _group_rows(measures: RunMeasures) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metrics of each group and of all totals. Totals over the same groups are computed once."""
    groups: dict[tuple[str, str], set[int]] = {(ALL, ALL): set()}
    for number, (workload_class, operation) in enumerate(measures.groups):
        for key in product((workload_class, ALL), (operation, ALL)):
            groups.setdefault(key, set()).add(number)
    by_members: dict[Members, dict[str, Any]] = {}
    rows = {}
    for key, found in sorted(groups.items()):
        members = tuple(sorted(found))
        if members not in by_members:
            by_members[members] = _group_metrics(measures, members) if members else empty_metrics(measures.window)
        rows[key] = {**window_columns(measures.window), **by_members[members]}
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


def empty_metrics(window: Window) -> dict[str, Any]:
    """Return the metrics of an empty set of transactions. Metrics without a value are None."""
    none = np.zeros(0)
    nothing = Rows(
        none.astype(np.int64), Transactions(none, none, none.astype(np.bool_), none.astype(np.bool_)), none.astype(np.int64), {}
    )
    one = np.zeros(1, np.int64)
    totals, values = RunTotals(one, window), RunValues(1, window, nothing, keep=True, has_batches=False)
    totals.add(replace(nothing, columns=dict.fromkeys(TOTAL_COLUMNS, none.astype(np.int64))))
    values.finish_pass()
    return _group_metrics(RunMeasures([(ALL, ALL)], window, totals, values), (0,))


def _group_metrics(measures: RunMeasures, members: Members) -> dict[str, Any]:
    """Return the metrics of the union of some groups. Metrics without a value are None."""
    totals, values, chosen = measures.totals, measures.values, list(members)
    counts = {name: int(found[chosen].sum()) for name, found in totals.counts.items()}
    counts["in_flight"] = counts["transactions"] - counts["committed"] - counts["aborted"]
    sums = {name: float(found[chosen].sum()) for name, found in totals.sums.items()}
    entered, committed = counts["transactions"], counts["committed"]
    success_low, success, success_high = success_range(committed, counts["in_flight"], entered)
    ended, unfinished = totals.retries_ended.table, totals.retries_in_flight.table
    expected = sum(expected_retries_of_counts(*_pad_counts(ended[number], unfinished[number])) for number in members)
    seconds = measures.window.length_ms / 1000.0
    inside = totals.committing[chosen].sum(axis=0)
    handed = sums[f"{SIZE} of commits"]
    over_time = totals.over_time.columns(members, lambda number, started: values.median_in(members, number, started))
    return {
        **{name: counts[name] for name in COUNTS},
        **{name: int(sums[name]) for name in SUM_COLUMNS},
        "offered_per_s": entered / seconds,
        "throughput_per_s": counts["commits_in_window"] / seconds,
        "throughput_ratio": _ratio(counts["commits_in_window"], entered),
        "success_rate": success,
        "success_low": success_low,
        "success_high": success_high,
        "mean_committing": float(inside.mean()),
        **_bounds(RETRIES, bound_retries(expected, sums["n_retries"], counts["in_flight"], entered)),
        "overhead": _ratio(sums["overhead"], committed),
        **fairness_metrics(_fairness(measures, members), _most_retries(totals, chosen)),
        "handovers_per_s": sums[f"{SIZE} in window"] / seconds,
        "handovers_per_commit": _ratio(handed, committed),
        "handover_mean_ms": _ratio(sums["batch_time"] + sums[WAIT], handed),
        **totals.states.measure(chosen),
        **dict.fromkeys(CONFIGURED),
        **_name_percentiles(OLDEST, plain_percentiles(values.oldest(members), _SHARES)),
        **_name_percentiles(FRESHNESS, totals.ages.percentiles(members, _SHARES)),
        **_name_percentiles(TIME_TO_COMMIT, values.commit_times(members, counts["aborted"]).percentiles(_SHARES)),
        **_latencies(values, members, sums),
        **{f"mean_{name}": _ratio(sums[name], committed) for name in TIME_COLUMNS},
        **{f"{name}_per_txn": _ratio(sums[name], entered) for name in IO_COLUMNS},
        **over_time,
        COMMITTING_IN_WINDOW: inside,
        ENTERED_IN_WINDOW: totals.entered[chosen].sum(axis=0),
    }


_SHARES = [percent / 100.0 for percent in PERCENTS]


def _pad_counts(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Pad two arrays of counts with zeros to the same length."""
    longest = max(len(a), len(b))
    first, second = (np.concatenate((each, np.zeros(longest - len(each), np.int64))) for each in (a, b))
    return first, second


def _most_retries(totals: RunTotals, chosen: list[int]) -> int | None:
    tables = (totals.retries_ended.table, totals.retries_in_flight.table)
    present = [np.flatnonzero(table[chosen].sum(axis=0)) for table in tables]
    return max((int(numbers[-1]) for numbers in present if len(numbers)), default=None)


def _fairness(measures: RunMeasures, members: Members) -> list[Fairness]:
    """Return the fairness among the writers of each class that has writers."""
    totals = measures.totals
    by_class: dict[str, list[int]] = {}
    for number in members:
        if totals.writers[number]:
            by_class.setdefault(measures.groups[number][0], []).append(number)
    found = []
    for _, numbers in sorted(by_class.items()):
        writers = int(totals.writers[numbers].max())
        commits = totals.commits_of_writers.table[numbers].sum(axis=0)[:writers]
        commits = np.concatenate((commits, np.zeros(writers - len(commits), np.int64)))
        streak = totals.streaks.longest[numbers[0]] if len(numbers) == 1 else totals.class_streak(numbers[0])
        found.append(fairness_of_commits(commits, int(streak)))
    return found


def _latencies(values: RunValues, members: Members, sums: Mapping[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LATENCIES:
        own = values.latencies(name, members)
        found |= _name_percentiles(name, plain_percentiles(own, _SHARES))
        if len(own):
            found[f"{name}_mean_ms"] = sums[name] / len(own)
            found[CURVES[name]] = np.array([quantile(own, 1.0 - share) for share in SLOWER])
    return found


def _name_percentiles(name: str, percentiles: Sequence[Bounded]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for percent, each in zip(PERCENTS, percentiles, strict=True):
        found |= _bounds(f"{name}_p{percent}_ms", each)
    return found


def _bounds(metric: str, found: Bounded) -> dict[str, float | None]:
    return {metric: found.value, at_least(metric): found.at_least, at_most(metric): found.at_most}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
