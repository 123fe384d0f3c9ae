"""Jobs with several commits: partial progress of a compaction.

Each commit is a separate transaction with a separate row. The first transaction reads the table and starts the job. Each
transaction validates the snapshots since the start of the job. The commits are spread evenly over the runtime of the job, one at a
time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from endive.randomness import TransactionStreams
from endive.transaction.policy import CLIENT_CRASH
from endive.transaction.types import TransactionResult, TransactionStatus

if TYPE_CHECKING:
    from endive.catalog.snapshots import CatalogSnapshot
    from endive.transaction.interface import Transaction


@dataclass
class Job:
    """Job that commits several times."""

    commits: int
    runtime_ms: float
    max_failed_commits: int
    streams: TransactionStreams
    """Random streams of the first commit."""
    number: int = 1
    """Number of the current commit, from 1."""
    start_ms: float = 0.0
    """Start of the work, after the table was read."""
    start: CatalogSnapshot | None = None
    """Snapshot at which the job started; set by its first commit."""
    versions: dict[int, int] = field(default_factory=dict)
    """Version of each written table that the job last read or wrote."""
    installs: int = 0
    """Number of installed commits of the job."""
    failed: int = 0

    def advance(self, result: TransactionResult) -> bool:
        """Count the outcome of a commit; return whether another commit follows.

        A job ends with its last commit, with the first failed commit beyond ``max_failed_commits``, or if its client crashes.
        """
        self.installs += result.installs
        self.failed += result.status is TransactionStatus.ABORTED
        self.versions = {table_id: version + result.installs for table_id, version in self.versions.items()}
        self.number += 1
        started = result.commit_start_ms >= 0.0 and result.abort_reason != CLIENT_CRASH
        return started and self.number <= self.commits and self.failed <= self.max_failed_commits

    def next_commit(self, txn: Transaction, txn_id: int, now_ms: float) -> Transaction:
        """Return the transaction of the next commit, on the tables and partitions of the previous one."""
        runtime_ms = max(0.0, self.start_ms + self.runtime_ms * self.number / self.commits - now_ms)
        made = type(txn)(
            txn_id,
            now_ms,
            runtime_ms,
            txn.tables_written,
            txn.partitions_written,
            tables_read=txn.tables_read,
            group=txn.group,
            workload_class=txn.workload_class,
            settings=txn.settings,
        )
        made.client, made.job = txn.client, self
        return made
