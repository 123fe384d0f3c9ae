"""Define all metrics: their names, units, directions of improvement and definitions, and the tables that show them.

``docs/explanation/statistics.md`` lists and explains the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from endive.analysis.percentiles import PERCENTS
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS, TIME_WORDS
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION

Unit = Literal["count", "share", "ms", "1/s", "number", "bytes", "money"]
Better = Literal["higher", "lower"]
Table = Literal["metrics", "compare", "page"]

ABORT_REASONS = (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT, VALIDATION_EXCEPTION)
"""Abort reasons that have a metric."""

_TIMES_TO_COMMIT = tuple(f"time_to_commit_p{percent}_ms" for percent in PERCENTS)
TABLES: dict[Table, tuple[str, ...]] = {
    "metrics": (
        "offered_per_s",
        "throughput_per_s",
        "success_rate",
        "time_to_commit_p50_ms",
        "time_to_commit_p99_ms",
        "retries_per_txn",
    ),
    "compare": ("throughput_per_s", "success_rate", *_TIMES_TO_COMMIT, "retries_per_txn", "overhead"),
    "page": ("success_rate", *_TIMES_TO_COMMIT, "retries_per_txn", "throughput_per_s", "offered_per_s"),
}
"""Metrics in the summary tables of ``endive metrics``, ``endive compare`` and the live page, in order."""


@dataclass(frozen=True)
class Metric:
    """A metric of a run, class and operation.

    Attributes:
        name: Name of the metric, which is also the column name.
        unit: Unit of its values.
        better: Direction in which the metric improves; None if neither direction is an improvement.
        definition: Definition in one line.
    """

    name: str
    unit: Unit
    better: Better | None
    definition: str

    @property
    def tables(self) -> tuple[Table, ...]:
        """Summary tables that show the metric."""
        return tuple(table for table, names in TABLES.items() if self.name in names)


def get_metric(name: str) -> Metric:
    """Return the record of a metric. Raises ValueError if the metric has no record."""
    if name not in METRIC_RECORDS:
        raise ValueError(f"metric {name!r} has no record in endive.analysis.metric")
    return METRIC_RECORDS[name]


def more_is_better(name: str) -> bool | None:
    """Return whether higher values of a metric are better; None if neither direction is an improvement.

    Raises:
        ValueError: If the metric has no record.
    """
    better = get_metric(name).better
    return None if better is None else better == "higher"


def _percentiles(name: str, better: Better, quantity: str) -> Iterable[Metric]:
    return (Metric(f"{name}_p{percent}_ms", "ms", better, f"p{percent} of {quantity}") for percent in PERCENTS)


_RECORDS = (
    Metric("transactions", "count", None, "size of the cohort: transactions that started committing in the window"),
    Metric("committed", "count", "higher", "transactions of the cohort that committed"),
    Metric("aborted", "count", "lower", "transactions of the cohort that aborted"),
    Metric("in_flight", "count", None, "transactions of the cohort that were in flight at the end of the run"),
    Metric(
        "commits_in_window",
        "count",
        "higher",
        "commits in the window, including those of transactions that started committing before it",
    ),
    Metric("working", "count", None, "transactions of the whole run that never started committing"),
    *(Metric(f"aborted_{reason}", "count", "lower", f"aborts of the cohort with reason `{reason}`") for reason in ABORT_REASONS),
    *(Metric(name, "count", None, f"sum of the column `{name}` over the cohort") for name in (*COUNT_COLUMNS, *IO_COLUMNS)),
    Metric("offered_per_s", "1/s", None, "offered load: size of the cohort / length of the window"),
    Metric("throughput_per_s", "1/s", "higher", "commits in the window / length of the window"),
    Metric("throughput_ratio", "share", "higher", "commits in the window / size of the cohort"),
    Metric("success_rate", "share", "higher", "midpoint of `success_low` and `success_high`"),
    Metric("success_low", "share", "higher", "committed transactions / size of the cohort"),
    Metric(
        "success_high", "share", "higher", "(committed transactions + those in flight at the end of the run) / size of the cohort"
    ),
    Metric("mean_committing", "number", "lower", "mean number of transactions that are committing in the window"),
    Metric(
        "retries_per_txn",
        "number",
        None,
        "mean number of commit attempts after the first, per transaction of the cohort; only a lower bound if many transactions "
        "are in flight at the end",
    ),
    Metric("overhead", "share", None, "mean of commit latency / total latency of the committed transactions of the cohort"),
    Metric("jain_index", "number", "higher", "Jain's fairness index of the number of commits per writer of a class"),
    Metric("writers_without_commit", "share", "lower", "fraction of the writers that have no commit in the cohort"),
    Metric(
        "longest_losing_streak",
        "number",
        "lower",
        "maximum number of consecutive transactions of one writer, ordered by end time, that did not commit",
    ),
    Metric("most_attempts", "number", None, "maximum number of commit attempts of a transaction"),
    Metric("handovers_per_s", "1/s", "higher", "file batches committed in the window / length of the window"),
    Metric("handovers_per_commit", "number", None, "mean number of file batches per commit of the cohort"),
    Metric("handover_mean_ms", "ms", "lower", "mean time of a file batch from handoff to commit"),
    Metric("table_metadata_bytes", "bytes", "lower", "mean size of metadata.json right after the commits in the window"),
    Metric("table_manifests", "number", "lower", "mean number of manifests of the table right after the commits in the window"),
    Metric("table_snapshots", "number", None, "mean number of retained snapshots right after the commits in the window"),
    Metric(
        "table_metadata_bytes_per_day", "bytes", "lower", "growth of metadata.json in the window, per day; 0 if it does not grow"
    ),
    Metric(
        "table_manifests_per_day",
        "number",
        "lower",
        "growth of the number of manifests in the window, per day; 0 if it does not grow",
    ),
    Metric(
        "table_snapshots_per_day",
        "number",
        None,
        "growth of the number of retained snapshots in the window, per day; 0 if it does not grow",
    ),
    Metric(
        "cost_per_1000_commits",
        "money",
        "lower",
        "cost of the requests per 1,000 commits at list prices, excluding requests without a price",
    ),
    Metric(
        "cost_per_month",
        "money",
        "lower",
        "cost of the requests per month (730 h) at the measured throughput, excluding requests without a price",
    ),
    Metric(
        "catalog_utilization",
        "share",
        None,
        "utilization of the workers of a catalog service during the whole run",
    ),
    Metric(
        "metadata_limit_reached_ms",
        "ms",
        "higher",
        "time of the first commit that exceeded the size limit of metadata.json; empty if none did",
    ),
    *_percentiles("time_to_commit", "lower", "the time to commit over the whole cohort"),
    *_percentiles("commit_latency", "lower", "the time in the commit protocol over the committed transactions of the cohort"),
    *_percentiles("total_latency", "lower", "the time from submission to commit over the committed transactions of the cohort"),
    *_percentiles("oldest_handover", "lower", "the time from handoff to commit of the oldest file batch of each commit"),
    *_percentiles("freshness", "lower", "the age of the oldest data of a commit when it becomes visible, weighted by data"),
    Metric(
        "commit_latency_mean_ms", "ms", "lower", "mean time in the commit protocol over the committed transactions of the cohort"
    ),
    Metric(
        "total_latency_mean_ms", "ms", "lower", "mean time from submission to commit over the committed transactions of the cohort"
    ),
    *(
        Metric(
            f"mean_{name}",
            "ms",
            None if name == "t_runtime" else "lower",
            f"mean of the column `{name}` ({TIME_WORDS[name]}) over the committed transactions of the cohort",
        )
        for name in TIME_COLUMNS
    ),
    *(Metric(f"{name}_per_txn", "number", "lower", f"mean of the column `{name}` over the cohort") for name in IO_COLUMNS),
)
METRIC_RECORDS = {record.name: record for record in _RECORDS}
"""Record of each metric, by name, in the order of the tables ``by_run`` and ``by_experiment``."""
