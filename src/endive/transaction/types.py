"""Values of transactions: status, cost, result, trace events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
COMMIT_TIMEOUT = "commit_timeout"
VALIDATION_EXCEPTION = "validation_exception"


class TransactionStatus(Enum):
    """Where a transaction stands. IN_FLIGHT is for those that the end of the run cut off."""

    PENDING = auto()
    EXECUTING = auto()
    COMMITTING = auto()
    COMMITTED = auto()
    ABORTED = auto()
    IN_FLIGHT = auto()


class Batch(NamedTuple):
    """What a commit holds: hand-overs (1 where there is no committer), the sum of their waits, and the longest of them, in ms."""

    size: int = 1
    wait_ms: float = 0.0
    longest_wait_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ConflictCost:
    """Accesses to files, by kind. ``historical_ml_reads`` are manifest lists of the snapshots that came between."""

    metadata_reads: int = 0
    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    historical_ml_reads: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """One row of the results: times in milliseconds, counts of accesses to files."""

    status: TransactionStatus
    txn_id: int
    commit_time_ms: float
    """-1 if it did not commit."""
    abort_time_ms: float
    """-1 if it did not abort."""
    abort_reason: str | None
    total_retries: int
    commit_latency_ms: float
    """Time in the commit protocol: all but the first reads and the work itself."""
    total_latency_ms: float
    operation_type: str
    runtime_ms: float
    """Time of the work itself, paid again by each restart."""

    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0

    catalog_read_ms: float = 0.0
    """Reads of the catalog, and of table metadata at the start where it is not inlined."""
    per_attempt_io_ms: float = 0.0
    conflict_io_ms: float = 0.0
    catalog_commit_ms: float = 0.0

    backoff_ms: float = 0.0
    metadata_reads: int = 0
    metadata_writes: int = 0
    manifest_list_appends: int = 0
    file_deletes: int = 0
    """Manifests and lists that are of no use after the commit, on Iceberg's paths."""
    event_count: int = 0
    """Latency-bearing steps: a batch of parallel accesses is one, a commit is one for each round trip."""
    restarts: int = 0
    false_conflicts: int = 0
    """Overlaps of writes after which both changes could stand."""
    real_conflicts: int = 0
    submit_time_ms: float = 0.0
    workload_class: str = "default"
    tables_written: tuple[int, ...] = ()
    unknown_outcomes: int = 0
    """Commits whose answer was lost."""
    installs: int = 0
    """How often its commit took effect."""
    duplicates: int = 0
    """How often more than once."""
    orphaned_files: int = 0
    """Files that a crashed client, or one that never learned its outcome, left behind."""
    client: int = -1
    """The number of the writer in its class, -1 where submissions are nobody's."""
    commit_start_ms: float = -1.0
    """When it began to commit, for the first time if it was restarted; -1 before, and of read-only ones."""
    batch_size: int = 1
    """Hand-overs that it commits, where its class has a committer."""
    batch_wait_ms: float = 0.0
    """The sum of their waits, from hand-over to ``submit_time_ms``."""
    batch_longest_wait_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that a transaction has just finished, at ``time_ms``, after ``duration_ms``.

    ``event`` is one of submit, catalog_read, runtime, io, attempt, commit, commit_failed, answer_lost, conflict, backoff, restart,
    abort; on the path ``pyiceberg`` also check and check_failed (an attempt that ends before its swap) and io_together.
    ``kind`` says more: the access to files (manifest_list_reads, ...), the kind of conflict (none, false, real), the reason of
    an abort; of a catalog_read the versions that were read, of a commit those that it was based on (``0:3 2:7``: table 0 at 3), and
    of a lost answer the same, if the commit took effect.
    """

    time_ms: float
    txn_id: int
    event: str
    kind: str = ""
    count: int = 1
    duration_ms: float = 0.0
    attempt: int = 0


Tracer = Callable[[TraceEvent], None]
