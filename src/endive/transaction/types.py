"""Define values that describe transactions: status, cost, result, trace events, kinds of file access, and latency components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum, auto
from typing import NamedTuple

from endive.storage import MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA

MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
COMMIT_TIMEOUT = "commit_timeout"
VALIDATION_EXCEPTION = "validation_exception"
OPERATION_TIMEOUT = "operation_timeout"


class TransactionStatus(Enum):
    """Status of a transaction. IN_FLIGHT means that the transaction has not ended at the end of the run."""

    PENDING = auto()
    EXECUTING = auto()
    COMMITTING = auto()
    COMMITTED = auto()
    ABORTED = auto()
    IN_FLIGHT = auto()


class Batch(NamedTuple):
    """Number of file batches in a commit, the sum and the maximum of their waits in ms, and the start of their oldest data.

    Without a committer, a commit counts as one file batch.
    """

    size: int = 1
    wait_ms: float = 0.0
    longest_wait_ms: float = 0.0
    data_start_ms: float = -1.0


@dataclass(frozen=True, slots=True)
class ConflictCost:
    """Numbers of file accesses. ``historical_ml_reads`` counts reads of the manifest lists of concurrent snapshots."""

    metadata_reads: int = 0
    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    historical_ml_reads: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """Result of a transaction, which becomes one row. Times are in milliseconds."""

    status: TransactionStatus
    txn_id: int
    commit_time_ms: float
    """Time of the commit; -1 if the transaction did not commit."""
    abort_time_ms: float
    """Time of the abort; -1 if the transaction did not abort."""
    abort_reason: str | None
    total_retries: int
    commit_latency_ms: float
    """Time from the end of the job to commit or abort, in ms."""
    total_latency_ms: float
    operation_type: str
    runtime_ms: float
    """Duration of the job, summed over restarts."""

    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0

    catalog_read_ms: float = 0.0
    """Time of catalog reads.

    If metadata is not inlined, the time includes the reads of table metadata at the start.
    """
    per_attempt_io_ms: float = 0.0
    conflict_io_ms: float = 0.0
    catalog_commit_ms: float = 0.0

    backoff_ms: float = 0.0
    metadata_reads: int = 0
    metadata_writes: int = 0
    manifest_list_appends: int = 0
    file_deletes: int = 0
    """Number of manifests and manifest lists that the client deleted after the commit, on Iceberg's commit paths."""
    event_count: int = 0
    """Number of steps with a latency. A batch of parallel accesses is one step, and so is a round trip of a commit."""
    restarts: int = 0
    false_conflicts: int = 0
    """Number of overlaps that are not real conflicts."""
    real_conflicts: int = 0
    submit_time_ms: float = 0.0
    workload_class: str = "default"
    tables_written: tuple[int, ...] = ()
    unknown_outcomes: int = 0
    """Number of commits whose response was lost."""
    installs: int = 0
    """Number of times that the commit took effect."""
    duplicates: int = 0
    """Number of times that the commit took effect after the first time."""
    orphaned_files: int = 0
    """Number of files left behind after a crash of the client or a commit with an unknown outcome."""
    client: int = -1
    """Number of the writer in its class, or -1 if the class has no numbered writers."""
    commit_start_ms: float = -1.0
    """Start of the first commit; -1 if no commit has started. Read-only transactions never start a commit."""
    batch_size: int = 1
    """Number of file batches in the commit. The number is 1 if the class has no committer."""
    batch_wait_ms: float = 0.0
    """Sum of the times from the handoff of each file batch to ``submit_time_ms``."""
    batch_longest_wait_ms: float = 0.0
    data_start_ms: float = -1.0
    """Start of the collection of the oldest committed data; -1 for classes without periodic writers and without a committer."""
    table_metadata_bytes: int = -1
    """Size of metadata.json after the commit (the maximum of the written tables); -1 if the catalog does not track the size."""
    table_manifests: int = -1
    table_snapshots: int = -1
    list_requests: int = 0
    """Number of list requests to the object store. Only declarative protocols count them."""
    catalog_requests: int = 0
    """Number of requests to the catalog other than commits. Only declarative protocols count them."""
    data_reads: int = 0
    data_writes: int = 0


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Event of a transaction. The event ended at ``time_ms`` and took ``duration_ms``.

    ``event`` is one of submit, catalog_read, runtime, io, attempt, commit, commit_failed, answer_lost, conflict, backoff, restart,
    abort; on the commit path ``pyiceberg`` also check, check_failed (an attempt that ends before its commit) and io_together.
    ``kind`` is the kind of file access (manifest_list_reads, ...), the kind of conflict (none, false, real) or the abort reason.
    For a catalog_read, ``kind`` contains the versions read; for a commit, its base versions (``0:3 2:7`` means table 0 at version 3
    and table 2 at version 7); for answer_lost, the base versions if the commit took effect.
    """

    time_ms: float
    txn_id: int
    event: str
    kind: str = ""
    count: int = 1
    duration_ms: float = 0.0
    attempt: int = 0


Tracer = Callable[[TraceEvent], None]


class FileAccess(NamedTuple):
    """Kind of access to the files of a table."""

    reading: bool
    kind: str
    size: str
    counter: str


METADATA_READ = FileAccess(True, TABLE_METADATA, "table_metadata_bytes", "metadata_reads")
METADATA_WRITE = FileAccess(False, TABLE_METADATA, "table_metadata_bytes", "metadata_writes")
LIST_READ = FileAccess(True, MANIFEST_LIST, "manifest_list_bytes", "manifest_list_reads")
LIST_WRITE = FileAccess(False, MANIFEST_LIST, "manifest_list_bytes", "manifest_list_writes")
FILE_READ = FileAccess(True, MANIFEST_FILE, "manifest_file_bytes", "manifest_file_reads")
FILE_WRITE = FileAccess(False, MANIFEST_FILE, "manifest_file_bytes", "manifest_file_writes")
FILE_DELETE = FileAccess(False, MANIFEST_FILE, "", "file_deletes")
LIST_APPENDS = "manifest_list_appends"
ACCESSES = (METADATA_READ, METADATA_WRITE, LIST_READ, LIST_WRITE, FILE_READ, FILE_WRITE, FILE_DELETE)
COUNTERS = (*(access.counter for access in ACCESSES), LIST_APPENDS)
PROTOCOL_COUNTERS = ("list_requests", "catalog_requests", "data_reads", "data_writes")
"""Counters that are incremented only by declarative protocols."""

CATALOG_READ = "catalog_read_ms"
RUNTIME = "runtime_ms"
PER_ATTEMPT_IO = "per_attempt_io_ms"
CONFLICT_IO = "conflict_io_ms"
CATALOG_COMMIT = "catalog_commit_ms"
BACKOFF = "backoff_ms"
TIMES = (CATALOG_READ, RUNTIME, PER_ATTEMPT_IO, CONFLICT_IO, BACKOFF, CATALOG_COMMIT)
"""Components of the latency of a transaction. Their sum is its total latency."""


Accesses = tuple[tuple[FileAccess, int], ...]


def in_order(cost: ConflictCost) -> tuple[Accesses, Accesses]:
    """Return the reads and the writes of a cost in the order in which a client performs them.

    Clients read table metadata first and manifests last, and write manifests before the manifest list.
    """
    return (
        (METADATA_READ, cost.metadata_reads),
        (LIST_READ, cost.manifest_list_reads),
        (LIST_READ, cost.historical_ml_reads),
        (FILE_READ, cost.manifest_file_reads),
    ), ((FILE_WRITE, cost.manifest_file_writes), (LIST_WRITE, cost.manifest_list_writes))


def share(cost: ConflictCost, part: int, whole: int) -> ConflictCost:
    """Return the cost for ``part`` of ``whole`` tables, rounded up."""
    return ConflictCost(**{field.name: -(-getattr(cost, field.name) * part // whole) for field in fields(cost)})
