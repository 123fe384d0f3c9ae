"""The metrics of one run: what the transactions of a class and operation, or of several, come to in a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats, Ints, handovers
from endive.analysis.cohort import Transactions, committing, entries, expected_retries, success_range
from endive.analysis.estimates import at_least, at_most
from endive.analysis.fairness import FAIRNESS, WritersRows, fairness_metrics
from endive.analysis.percentiles import PERCENTS, plain_percentiles, quantiles, times_to_commit
from endive.analysis.run_curves import CURVES, SLOWER, ThroughTime, over_time_columns, through_time
from endive.analysis.saturation import BACKLOG_PARTS
from endive.analysis.warmup import Window
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION
from endive.workload.classes import ALL_CLASSES

ALL = ALL_CLASSES
"""The class, and the operation, of totals; no class can be called so."""
ABORT_REASONS = (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT, VALIDATION_EXCEPTION)
SUM_COLUMNS = (*COUNT_COLUMNS, *IO_COLUMNS)
LATENCIES = ("commit_latency", "total_latency")
"""Of the committed transactions of the cohort."""
TIME_TO_COMMIT = "time_to_commit"
"""Of the whole cohort."""
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
"""Of the cohort, but for ``commits_in_window``, and ``working``: those of the whole run that never entered."""
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
    *PERCENTILES,
    *(f"{name}_mean_ms" for name in LATENCIES),
    *(f"mean_{name}" for name in TIME_COLUMNS),
    *(f"{name}_per_txn" for name in IO_COLUMNS),
)
BOUNDS = tuple(bound(name) for name in PERCENTILES for bound in (at_least, at_most))
"""Ends of percentiles; infinity stands for never."""
METRICS = (*COUNTS, *SUM_COLUMNS, *RATES)
WHOSE_COLUMNS = ("client", *handovers.BATCH_COLUMNS)
"""Columns that are looked at together, not summed: whose a transaction is, and what it commits."""

COMMITTING_IN_WINDOW, ENTERED_IN_WINDOW = "committing_in_window", "entered_in_window"
"""The number of committing transactions, and entries, in equal parts of the window."""


@dataclass
class Leaf:
    """The rows of one run, class and operation, and what they come to once their window is known.

    ``index`` says which rows of a file they are; ``reasons`` are flags by reason of abort, ``latencies`` columns by name.
    """

    seed: int
    workload_class: str
    operation: str
    index: Ints
    rows: Transactions
    reasons: dict[str, Flags]
    latencies: dict[str, Floats]
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(init=False)
    over_time: ThroughTime = field(init=False)
    committing: Floats = field(init=False)
    entered: Ints = field(init=False)
    inside: Flags = field(init=False)
    done: Flags = field(init=False)
    in_window: Flags = field(init=False)
    entry_ms: Floats = field(init=False)
    edges_ms: Floats = field(init=False)
    """Of the parts of the window."""
    whose: WritersRows = field(init=False)
    handed_over: handovers.HandOvers = field(init=False)
    expected_retries: float = field(init=False)

    def look_through(self, window: Window) -> None:
        """Count the cohort, and let go of all other rows."""
        rows = self.rows
        self.inside = rows.cohort(window)
        self.done = self.inside & rows.committed
        self.in_window = rows.committed_in(window)
        self.counts = {
            "transactions": int(self.inside.sum()),
            "committed": int(self.done.sum()),
            "aborted": int((self.inside & rows.aborted).sum()),
            "commits_in_window": int(self.in_window.sum()),
            "working": int((~rows.entered).sum()),
            **{f"aborted_{reason}": int((self.inside & flags).sum()) for reason, flags in self.reasons.items()},
        }
        self.counts["in_flight"] = self.counts["transactions"] - self.counts["committed"] - self.counts["aborted"]
        self.latencies = {name: values[self.done] for name, values in self.latencies.items()}
        self.over_time = through_time(rows, window.duration_ms)
        edges = np.linspace(window.start_ms, window.end_ms, BACKLOG_PARTS + 1)
        self.committing, self.entered = committing(rows, edges), entries(rows, edges)
        self.edges_ms, self.entry_ms = edges, rows.entry_ms
        commit, total = (self.latencies[name] for name in LATENCIES)
        self.sums["overhead"] = float(np.divide(commit, total, out=np.zeros_like(commit), where=total > 0.0).sum())
        self.rows, self.reasons = rows.take(np.flatnonzero(self.inside)), {}

    def see_whose(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take ``n_retries`` and ``WHOSE_COLUMNS`` of the file: who submitted what, and what was handed over."""
        own = {name: values[self.index] for name, values in columns.items()}
        self.whose = WritersRows(
            self.workload_class,
            int(own["client"].max(initial=-1)) + 1,
            own["client"][self.inside],
            self.rows.end_ms,
            self.rows.committed,
            own["n_retries"][self.inside],
        )
        self.expected_retries = expected_retries(self.whose.retries, self.rows.committed | self.rows.aborted)
        batches = [own[name] for name in handovers.BATCH_COLUMNS]
        self.handed_over = handovers.count_handovers(batches, self.in_window, self.done, self.latencies["total_latency"])
        self.committing = self.committing + handovers.waiting_handovers(batches, self.entry_ms, self.edges_ms)

    def add(self, name: str, values: npt.NDArray[Any]) -> None:
        """Sum a column: times over what was committed, counts over all of the cohort."""
        own, chosen = values[self.index], self.done if name in TIME_COLUMNS else self.inside
        self.sums[name] = own[chosen].sum().item()
        if name == "n_retries":
            self.over_time.add_retries(own)


def run_rows(leaves: Sequence[Leaf], window: Window) -> dict[tuple[str, str], dict[str, Any]]:
    """The metrics of a run by class and operation, with totals."""
    groups: dict[tuple[str, str], set[int]] = {(ALL, ALL): set()}
    for number, leaf in enumerate(leaves):
        for key in product((leaf.workload_class, ALL), (leaf.operation, ALL)):
            groups.setdefault(key, set()).add(number)
    by_members: dict[tuple[int, ...], dict[str, Any]] = {}
    rows = {}
    for key, members in sorted(groups.items()):
        numbers = tuple(sorted(members))
        if numbers not in by_members:
            by_members[numbers] = group_metrics([leaves[number] for number in numbers], window)
        rows[key] = {**window_columns(window), **by_members[numbers]}
    return rows


def window_columns(window: Window) -> dict[str, Any]:
    """What a row says of its window."""
    return {
        "duration_ms": window.duration_ms,
        "warmup_ms": window.start_ms,
        "warmup_by": window.chosen_by,
        "warmup_settled": window.settled,
        "window_ms": window.length_ms,
        "needed_ms": window.needed_ms,
    }


def window_of(row: Any) -> Window:
    """The window that a row speaks of."""
    end = row["warmup_ms"] + row["window_ms"]
    return Window(row["duration_ms"], row["warmup_ms"], end, row["warmup_by"], row["warmup_settled"], row["needed_ms"])


def group_metrics(leaves: Sequence[Leaf], window: Window) -> dict[str, Any]:
    """The metrics of some leaves of a run together; None where there is nothing to measure."""
    counts = {name: sum(leaf.counts[name] for leaf in leaves) for name in COUNTS}
    sums = {name: sum(leaf.sums[name] for leaf in leaves) for name in (*SUM_COLUMNS, *TIME_COLUMNS, "overhead")}
    entered, committed = counts["transactions"], counts["committed"]
    success_low, success, success_high = success_range(committed, counts["in_flight"], entered)
    seconds = window.length_ms / 1000.0
    inside = sum((leaf.committing for leaf in leaves), np.zeros(BACKLOG_PARTS))
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
        "retries_per_txn": _ratio(sum(leaf.expected_retries for leaf in leaves), entered),
        "overhead": _ratio(sums["overhead"], committed),
        **fairness_metrics([leaf.whose for leaf in leaves]),
        **handovers.handover_metrics([leaf.handed_over for leaf in leaves], committed, seconds),
        **_named(handovers.OLDEST, plain_percentiles(_joined([leaf.handed_over.oldest_ms for leaf in leaves]), _SHARES)),
        **_times_to_commit(leaves),
        **_latencies(leaves),
        **{f"mean_{name}": _ratio(sums[name], committed) for name in TIME_COLUMNS},
        **{f"{name}_per_txn": _ratio(sums[name], entered) for name in IO_COLUMNS},
        **over_time_columns([leaf.over_time for leaf in leaves]),
        COMMITTING_IN_WINDOW: inside,
        ENTERED_IN_WINDOW: sum((leaf.entered for leaf in leaves), np.zeros(BACKLOG_PARTS, np.int64)),
    }


_SHARES = [percent / 100.0 for percent in PERCENTS]


def _times_to_commit(leaves: Sequence[Leaf]) -> dict[str, Any]:
    rows = [leaf.rows for leaf in leaves]
    waited = _joined([each.end_ms - each.entry_ms for each in rows])
    committed, aborted = (_joined([getattr(each, name) for each in rows]).astype(np.bool_) for name in ("committed", "aborted"))
    return _named(TIME_TO_COMMIT, times_to_commit(waited, committed, aborted, _SHARES))


def _latencies(leaves: Sequence[Leaf]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LATENCIES:
        values = _joined([leaf.latencies[name] for leaf in leaves])
        found |= _named(name, plain_percentiles(values, _SHARES))
        if len(values):
            found[f"{name}_mean_ms"] = float(values.mean())
            found[CURVES[name]] = quantiles(np.sort(values), [1.0 - share for share in SLOWER])
    return found


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0), *arrays])


def _named(name: str, percentiles: Sequence[Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for percent, each in zip(PERCENTS, percentiles, strict=True):
        metric = f"{name}_p{percent}_ms"
        found |= {metric: each.value, at_least(metric): each.at_least, at_most(metric): each.at_most}
    return found


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
