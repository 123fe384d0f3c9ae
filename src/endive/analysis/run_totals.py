"""Accumulate the inputs of the metrics of a run, chunk by chunk, for each group of workload class and operation.

The memory does not depend on the number of rows, except for values that are kept for percentiles (``order_statistics``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints
from endive.analysis.cohort import CommittingCounts, NumberCounts, TimeCounts, Transactions, count_by, take_chosen
from endive.analysis.metric import ABORT_REASONS
from endive.analysis.order_statistics import CountedValues, KeptValues, Members, Ordered, Values
from endive.analysis.percentiles import CommitTimes
from endive.analysis.run_curves import OverTime
from endive.analysis.saturation import BACKLOG_PARTS
from endive.analysis.table_growth import TableStates
from endive.analysis.warmup import Window
from endive.analysis.writer_metrics import DATA_START, DataAges, LosingStreaks
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, STATE_COLUMNS, TIME_COLUMNS

SUM_COLUMNS = (*COUNT_COLUMNS, *IO_COLUMNS)
LATENCIES = ("commit_latency", "total_latency")
"""Latencies of the committed transactions of the cohort."""
SIZE, WAIT, LONGEST = "batch_size", "batch_wait_ms", "batch_longest_wait_ms"
TOTAL_COLUMNS = (
    *dict.fromkeys((*SUM_COLUMNS, *TIME_COLUMNS, *LATENCIES, "client", SIZE, WAIT, LONGEST, *STATE_COLUMNS, DATA_START)),
)
"""Columns from which totals are computed."""
VALUE_COLUMNS = (*LATENCIES, LONGEST)
"""Columns from which percentiles are computed."""
_WAITS, _OVER_TIME, _OLDEST = "waits", "over_time", "oldest"


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a run.

    Attributes:
        groups: Group number of each row.
        reasons: Number of the abort reason of each row; -1 if it is not in ``ABORT_REASONS``.
        columns: Numeric columns by name.
    """

    groups: Ints
    transactions: Transactions
    reasons: Ints
    columns: Mapping[str, npt.NDArray[Any]]

    def until(self, end_ms: float) -> Rows:
        """Return the rows in their state at ``end_ms``: transactions that end later are in flight."""
        known = self.transactions.until(end_ms)
        if known is self.transactions:
            return self
        return replace(self, transactions=known, reasons=np.where(self.transactions.end_ms > end_ms, -1, self.reasons))


@dataclass(frozen=True)
class Cohort:
    """Flags of the rows of a chunk: transactions that started committing in the window, and the committed ones among them."""

    inside: Flags
    done: Flags
    in_window: Flags

    @classmethod
    def select(cls, transactions: Transactions, window: Window) -> Cohort:
        """Select the cohort of a window."""
        inside = transactions.cohort(window)
        return cls(inside, inside & transactions.committed, transactions.committed_in(window))


class RunTotals:
    """Counts and sums of a run, by group.

    Args:
        classes: Number of the workload class of each group.
        window: Window of the cohort.
        has_data: Whether the commits of each group make data visible; by default, true for all groups.
    """

    def __init__(self, classes: Ints, window: Window, has_data: Flags | None = None) -> None:
        number = len(classes)
        self.ages = DataAges(classes, np.ones(number, np.bool_) if has_data is None else has_data, window)
        self._number = number
        self._classes = classes
        self._window = window
        edges = np.linspace(window.start_ms, window.end_ms, BACKLOG_PARTS + 1)
        self.counts: dict[str, Floats] = {}
        self.sums: dict[str, Floats] = {}
        self.over_time = OverTime(number, window.duration_ms, window.time_bins)
        self._committing = CommittingCounts(number, edges)
        self._handed, self._longest = TimeCounts(number, edges), TimeCounts(number, edges)
        self.states = TableStates(number, window.start_ms, window.end_ms)
        self.retries_ended, self.retries_in_flight = NumberCounts(number), NumberCounts(number)
        self.commits_of_writers = NumberCounts(number)
        self.writers = np.zeros(number, np.int64)
        self.streaks = LosingStreaks(number)
        self.class_streaks = LosingStreaks(int(classes.max(initial=-1)) + 1)

    def add(self, rows: Rows) -> tuple[Cohort, Flags, Ints]:
        """Add rows. Return the cohort, flags of the rows that started committing in the run, and the time bins of these rows."""
        cohort = Cohort.select(rows.transactions, self._window)
        self._count(rows, cohort)
        self._sum(rows, cohort)
        self._add_handovers(rows)
        self._add_writers(rows, cohort)
        self.states.add(rows.groups, rows.transactions.end_ms, rows.columns, cohort.in_window)
        submits_ms = rows.transactions.end_ms - rows.columns["total_latency"]
        self.ages.add(rows.groups, rows.transactions, rows.columns[DATA_START], submits_ms, rows.columns["client"], cohort.done)
        retries = rows.columns["n_retries"]
        finished = rows.transactions.committed | rows.transactions.aborted
        for counts, chosen in ((self.retries_ended, cohort.inside & finished), (self.retries_in_flight, cohort.inside & ~finished)):
            counts.add(*take_chosen(chosen, rows.groups, retries))
        entered, bins = self.over_time.add(rows.groups, rows.transactions, rows.columns)
        return cohort, entered, bins

    def class_streak(self, group: int) -> int:
        """Return the longest losing streak over all operations of the class of a group."""
        return int(self.class_streaks.longest[self._classes[group]])

    @property
    def committing(self) -> Floats:
        """Mean number of committing transactions and waiting file batches, by group and part of the window."""
        widths = np.diff(self._committing.edges_ms)
        waiting = waiting_of_counts(self._committing.starts.bins, self._handed.bins, self._longest.bins, widths)
        return self._committing.mean + waiting

    @property
    def entered(self) -> Ints:
        """Number of transactions that started committing, by group and part of the window."""
        return self._committing.starts.bins.astype(np.int64)

    def _count(self, rows: Rows, cohort: Cohort) -> None:
        transactions = rows.transactions
        flags = {
            "transactions": cohort.inside,
            "committed": cohort.done,
            "aborted": cohort.inside & transactions.aborted,
            "commits_in_window": cohort.in_window,
            "working": ~transactions.entered,
        }
        for number, reason in enumerate(ABORT_REASONS):
            flags[f"aborted_{reason}"] = cohort.inside & (rows.reasons == number)
        for name, chosen in flags.items():
            self.counts[name] = self.counts.get(name, 0.0) + count_by(rows.groups, self._number, chosen)

    def _sum(self, rows: Rows, cohort: Cohort) -> None:
        columns = rows.columns
        commit, total = (columns[name] for name in LATENCIES)
        latency = np.divide(commit, total, out=np.zeros(len(commit)), where=total > 0.0)
        times = {**{name: columns[name] for name in (*TIME_COLUMNS, *LATENCIES, SIZE, WAIT)}, "overhead": latency}
        times["batch_time"] = columns[SIZE] * total
        sums = [(name, columns[name], cohort.inside) for name in SUM_COLUMNS]
        sums += [(f"{name} of commits" if name == SIZE else name, values, cohort.done) for name, values in times.items()]
        sums.append((f"{SIZE} in window", columns[SIZE], cohort.in_window))
        for name, values, chosen in sums:
            self.sums[name] = self.sums.get(name, 0.0) + count_by(rows.groups, self._number, chosen, values)

    def _add_handovers(self, rows: Rows) -> None:
        started = rows.transactions
        groups, size, longest, entry_ms, end_ms = take_chosen(
            started.entered, rows.groups, rows.columns[SIZE], rows.columns[LONGEST], started.entry_ms, started.end_ms
        )
        places = self._committing.add(groups, entry_ms, end_ms)
        if longest.any():
            self._longest.add(groups, places, longest)
        self._handed.add(groups, places, size)

    def _add_writers(self, rows: Rows, cohort: Cohort) -> None:
        client = rows.columns["client"]
        if client.strides == (0,) and len(client) and client[0] < 0:
            return
        np.maximum.at(self.writers, rows.groups, client + 1)
        owned = cohort.inside & (client >= 0)
        groups, writers, committed = rows.groups[owned], client[owned], rows.transactions.committed[owned]
        ended_ms = rows.transactions.end_ms[owned]
        self.commits_of_writers.add(groups[committed], writers[committed])
        self.streaks.add(groups, writers, ended_ms, committed)
        self.class_streaks.add(self._classes[groups], writers, ended_ms, committed)


class RunValues:
    """Values for the percentiles of a run, by group.

    Args:
        groups: Number of groups.
        window: Window of the cohort.
        in_flight: Transactions in flight at the end of the run, and their groups.
        keep: Whether to keep all values in memory instead of counting them in several passes.
        has_batches: Whether file batches wait for a committer.
    """

    def __init__(self, groups: int, window: Window, in_flight: Rows, *, keep: bool, has_batches: bool) -> None:
        self._bins = window.time_bins
        self._groups = groups
        self._window = window
        rows = in_flight.transactions
        self._waited = rows.end_ms - rows.entry_ms
        self._inside = rows.cohort(window)
        self._in_flight_groups = in_flight.groups
        edges = np.linspace(0.0, window.duration_ms, self._bins + 1)
        entered = rows.entered & (rows.entry_ms <= window.duration_ms)
        self._in_flight_bins = np.where(entered, np.searchsorted(edges, rows.entry_ms, side="right") - 1, -1)
        self._in_flight_bins = np.minimum(self._in_flight_bins, self._bins - 1)
        sizes = {_WAITS: groups, **dict.fromkeys(LATENCIES, groups), _OVER_TIME: groups * self._bins}
        if has_batches:
            sizes[_OLDEST] = groups
        self._values: dict[str, Values] = {}
        for name, number in sizes.items():
            limits = np.sort(self._waited[self._inside]) if name == _WAITS else None
            self._values[name] = KeptValues(number) if keep else CountedValues(max(number, 1), limits)

    def add(self, rows: Rows, cohort: Cohort, entered: Flags, bins: Ints) -> None:
        """Add rows, given the cohort, the flags of rows that started committing in the run, and the time bins of these."""
        columns, transactions = rows.columns, rows.transactions
        values = {_WAITS: transactions.end_ms - transactions.entry_ms, **{name: columns[name] for name in LATENCIES}}
        if _OLDEST in self._values:
            values[_OLDEST] = columns["total_latency"] + columns[LONGEST]
        own, *found = take_chosen(cohort.done, rows.groups, *values.values())
        for name, each in zip(values, found, strict=True):
            self._values[name].add(own, each)
        own, waited, committed = take_chosen(entered, rows.groups, values[_WAITS], transactions.committed)
        sets = own * self._bins + bins if self._groups > 1 else bins
        self._values[_OVER_TIME].add(*take_chosen(committed, sets, waited))

    def finish_pass(self) -> None:
        """End a pass over the rows."""
        for each in self._values.values():
            each.finish_pass()

    def needs_pass(self) -> bool:
        """Return whether requested percentiles need another pass over the rows."""
        needed = [each.needs_pass() for each in self._values.values()]  # a list: each call prepares the next pass
        return any(needed)

    def latencies(self, name: str, members: Members) -> Ordered:
        """Return the latencies of the committed transactions of some groups."""
        return self._values[name].union(members)

    def oldest(self, members: Members) -> Ordered:
        """Return the time from handoff to commit of the oldest file batch of each commit of some groups."""
        return self._values[_OLDEST if _OLDEST in self._values else "total_latency"].union(members)

    def commit_times(self, members: Members, aborted: int) -> CommitTimes:
        """Return the times to commit of the cohort of some groups, given the number of aborted transactions."""
        chosen = self._inside & np.isin(self._in_flight_groups, members)
        return CommitTimes(self._values[_WAITS].union(members), np.sort(self._waited[chosen]), aborted)

    def median_in(self, members: Members, number: int, entered: int) -> float:
        """Return the median time to commit of the transactions of some groups that started committing in time bin ``number``."""
        sets = tuple(group * self._bins + number for group in members)
        committed = self._values[_OVER_TIME].union(sets)
        waited = self._in_flight_by_bin[number]
        in_flight = np.sort(waited[1][np.isin(waited[0], members)]) if len(waited[0]) else waited[1]
        return CommitTimes(committed, in_flight, entered - len(committed) - len(in_flight)).median()

    @cached_property
    def _in_flight_by_bin(self) -> Sequence[tuple[Ints, Floats]]:
        """Groups and elapsed times of the transactions in flight, by the time bin in which they started committing."""
        order = np.argsort(self._in_flight_bins, kind="stable")
        limits = np.searchsorted(self._in_flight_bins[order], np.arange(self._bins + 1))
        groups, waited = self._in_flight_groups[order], self._waited[order]
        return [(groups[a:b], waited[a:b]) for a, b in pairwise(limits)]


def waiting_of_counts(commits: Floats, handed: Floats, longest_ms: Floats, widths_ms: Floats) -> Floats:
    """Return the mean number of waiting file batches, from the numbers of commits and batches, and the sum of the longest waits."""
    mean = np.divide(longest_ms, commits, out=np.zeros(commits.shape), where=commits > 0)
    return np.asarray(mean * handed / widths_ms)
