"""The columns of results, each described once: the schema, the rows of both engines, sums, words and documentation follow from it.

Time components and counts of accesses are found by their attribute: ``lifecycle.TIMES`` and ``lifecycle.COUNTERS`` give their
places in the kernel's records. Any other column names the field of the kernel's record that holds it, or has a function of its own
in ``endive.simulation.compiled.rows``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from endive.transaction.accesses import COUNTERS, TIMES
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION

Kind = Literal["id", "ms", "count", "text", "tables"]
"""What a column holds: a number that identifies, milliseconds, a count, a text, or ids of tables."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of results. ``attribute`` is of ``TransactionResult``; ``kernel`` is a field of ``compiled.layout.TXN``."""

    name: str
    kind: Kind
    attribute: str
    meaning: str
    kernel: str = ""
    word: str = ""
    """What reports call it."""


COLUMNS: tuple[Column, ...] = (
    Column("txn_id", "id", "txn_id", "number of the transaction, by submission, from 0", "txn_id"),
    Column("t_submit", "ms", "submit_time_ms", "when it was submitted", "submit_ms"),
    Column("t_runtime", "ms", "runtime_ms", "time of the work itself; paid again by each restart", word="runtime"),
    Column(
        "t_commit", "ms", "commit_time_ms", "when it learned that it had committed (read-only: when it was done); -1 if it did not"
    ),
    Column(
        "commit_latency",
        "ms",
        "commit_latency_ms",
        "time in the commit protocol: from the end of the work to commit or abort (summed over restarts)",
        "commit_latency_ms",
    ),
    Column(
        "total_latency", "ms", "total_latency_ms", "from submission to commit or abort; of one in flight, to the end of the run"
    ),
    Column("n_retries", "count", "total_retries", "attempts after the first, over all restarts", "retries"),
    Column("status", "text", "status", "`committed`, `aborted` or `in_flight`"),
    Column("operation_type", "text", "operation_type", "name of the operation, built-in or of your own"),
    Column(
        "abort_reason",
        "text",
        "abort_reason",
        f"`{MAX_RETRIES_EXCEEDED}`, `{COMMIT_TIMEOUT}`, `{VALIDATION_EXCEPTION}`, `service_unavailable`, "
        "`metadata_too_large`, `client_crash`, `commit_state_unknown`, `request_failed`; null unless aborted",
    ),
    Column("manifest_list_reads", "count", "manifest_list_reads", "manifest lists read, historical ones included"),
    Column("manifest_list_writes", "count", "manifest_list_writes", "manifest lists written"),
    Column("manifest_file_reads", "count", "manifest_file_reads", "manifests read"),
    Column("manifest_file_writes", "count", "manifest_file_writes", "manifests written"),
    Column(
        "catalog_read_ms",
        "ms",
        "catalog_read_ms",
        "reads of the catalog, at the start and before retries; and of table metadata at the start, where it is not inlined",
        word="catalog reads",
    ),
    Column(
        "per_attempt_io_ms",
        "ms",
        "per_attempt_io_ms",
        "I/O that an attempt needs to make its manifests: lists, manifests, appends to lists, table metadata written",
        word="I/O of attempts",
    ),
    Column(
        "conflict_io_ms",
        "ms",
        "conflict_io_ms",
        "I/O on top, because of an overlap: historical manifest lists, manifests merged again",
        word="I/O of conflicts",
    ),
    Column("catalog_commit_ms", "ms", "catalog_commit_ms", "commits to the catalog, failed ones included", word="commits"),
    Column("workload_class", "text", "workload_class", "class of the workload; `default` where `[transaction]` alone describes it"),
    Column("tables_written", "tables", "tables_written", "ids of the tables, ascending"),
    Column("t_backoff", "ms", "backoff_ms", "waiting before retries", word="backoff"),
    Column("metadata_reads", "count", "metadata_reads", "table metadata files read (0 where they are inlined)"),
    Column("metadata_writes", "count", "metadata_writes", "table metadata files written (0 where they are inlined)"),
    Column("manifest_list_appends", "count", "manifest_list_appends", "appends to manifest lists (ML+), refused ones included"),
    Column(
        "file_deletes",
        "count",
        "file_deletes",
        "manifests and manifest lists of lost attempts, deleted after the commit (commit paths `iceberg`, `pyiceberg`)",
    ),
    Column("n_restarts", "count", "restarts", "times that the application started the operation again", "restarts"),
    Column("false_conflicts", "count", "false_conflicts", "overlaps after which both changes could stand", "false_conflicts"),
    Column("real_conflicts", "count", "real_conflicts", "overlaps that were conflicts of data", "real_conflicts"),
    Column(
        "event_count",
        "count",
        "event_count",
        "steps that take time: a batch of parallel accesses is one, a commit is one for each round trip",
        "event_count",
    ),
    Column(
        "t_commit_start",
        "ms",
        "commit_start_ms",
        "when it began to commit, for the first time if it was restarted; -1 before, and of read-only ones",
        "entered_ms",
    ),
    Column(
        "client", "id", "client", "number of the writer or client in its class, from 0; -1 where submissions are nobody's", "client"
    ),
    Column("unknown_outcomes", "count", "unknown_outcomes", "commits whose answer was lost (`[failures]`)", "unknown_outcomes"),
    Column(
        "installs", "count", "installs", "how often its commit took effect, as far as its answers came before the end", "installs"
    ),
    Column("duplicates", "count", "duplicates", "installs beyond the first: a blind retry after a lost answer commits again"),
    Column("orphaned_files", "count", "orphaned_files", "files left behind by a crash, or because the outcome was never learned"),
    Column("batch_size", "count", "batch_size", "hand-overs that it commits, where its class has a `committer`; otherwise 1"),
    Column(
        "batch_wait_ms",
        "ms",
        "batch_wait_ms",
        "sum of the waits of these hand-overs, each from when it was made to `t_submit`, when the commit that holds it begins",
        "batch_wait_ms",
    ),
    Column("batch_longest_wait_ms", "ms", "batch_longest_wait_ms", "the longest of these waits", "batch_longest_wait_ms"),
)

BY_ATTRIBUTE = {column.attribute: column for column in COLUMNS}
TIME_COLUMNS = tuple(BY_ATTRIBUTE[attribute].name for attribute in TIMES)
"""Where the time of a transaction goes, in the order in which it is spent; together they are its total latency."""
IO_COLUMNS = tuple(BY_ATTRIBUTE[attribute].name for attribute in COUNTERS)
"""Counts of accesses to files."""
COUNT_COLUMNS = tuple(column.name for column in COLUMNS if column.kind == "count" and column.name not in IO_COLUMNS)
"""The other counts, of which sums make sense as well."""
TIME_WORDS = {column.name: column.word for column in (BY_ATTRIBUTE[attribute] for attribute in TIMES)}
