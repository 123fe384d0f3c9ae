"""Define the base classes of transactions and conflict detectors, the class of each operation, and jobs with several commits.

A compaction with partial progress is a job with several commits. Each commit is a separate transaction with a separate row. The
first transaction reads the table and starts the job. Each transaction validates the snapshots since the start of the job. The
commits are evenly spaced over the runtime of the job, one at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from endive.arithmetic.costs import manifests_to_merge
from endive.randomness import TransactionStreams
from endive.steps import Step
from endive.table import ICEBERG_OPERATIONS, OPERATION_FACTS, OperationSettings, Traits, traits_of
from endive.transaction.policy import CLIENT_CRASH
from endive.transaction.types import Batch, ConflictCost, TransactionResult, TransactionStatus

if TYPE_CHECKING:
    from endive.catalog import Catalog, CatalogSnapshot, TableHandles
    from endive.randomness import RandomSource, TransactionStreams
    from endive.storage import StorageProvider
    from endive.table.files import ManifestLists
    from endive.transaction.lifecycle import Lifecycle
    from endive.transaction.policy import CommitPolicy
    from endive.transaction.types import Tracer

_USUAL = OperationSettings()
_ALONE = Batch()


class ConflictDetector(ABC):
    """Base class of detectors that determine whether overlapping writes are a real conflict."""

    @abstractmethod
    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether the changes between the two snapshots are a real conflict with the transaction."""

    def changes_same_files(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether the changes affect the transaction's files, for any operation. Declarative protocols call this method."""
        return self.is_real_conflict(txn, current_snapshot, start_snapshot)

    def bind(self, rng: RandomSource) -> ConflictDetector:
        """Return the detector with the random stream of one transaction."""
        return self


class Transaction(ABC):
    """Operation on tables of one table group, from submission to commit or abort.

    A subclass defines the costs of the operation and whether it can conflict. The commit path (``endive.transaction.paths``)
    defines the commit protocol. If ``partitions_written`` is None, the transaction can write to any partition.
    """

    operation_type: ClassVar[str]

    def __init__(
        self,
        txn_id: int,
        submit_time_ms: float,
        runtime_ms: float,
        tables_written: frozenset[int],
        partitions_written: Mapping[int, frozenset[int]] | None = None,
        *,
        tables_read: frozenset[int] | None = None,
        group: int = 0,
        workload_class: str = "default",
        settings: OperationSettings | None = None,
    ) -> None:
        self.txn_id = txn_id
        self.submit_time_ms = submit_time_ms
        self.runtime_ms = runtime_ms
        self.tables_written = tables_written
        self.partitions_written = partitions_written
        self.tables_read = tables_written if tables_read is None else tables_read | tables_written
        self.group = group
        self.workload_class = workload_class
        self.settings = settings or _USUAL
        self.client = -1
        """Number of the writer, or -1 if the workload class does not number its writers."""
        self.batch = _ALONE
        """File batches that the transaction commits, if its workload class has a committer."""
        self.known_versions: dict[int, int] | None = None
        """Cached table versions of the writer, or None if it has no cache."""
        self.handles: TableHandles | None = None
        """Cached table handles of the writer, or None if it loads the tables for each transaction."""
        self.backoff_state_ms: float | None = None
        """Backoff state that the writer keeps between transactions, or None if its kind of backoff has no state."""
        self.job: Job | None = None
        """Job to which the transaction belongs, or None if the job has only one commit."""
        self.lifecycle: Lifecycle | None = None
        """Progress of the transaction, which ``execute`` sets."""

    def execute(
        self,
        catalog: Catalog,
        storage: StorageProvider,
        conflict_detector: ConflictDetector,
        max_retries: int = 10,
        ml_append_mode: bool = False,
        *,
        policy: CommitPolicy | None = None,
        streams: TransactionStreams | None = None,
        manifest_lists: ManifestLists | None = None,
        trace: Tracer | None = None,
    ) -> Generator[Step, None, TransactionResult]:
        """Run the transaction.

        The generator yields latencies in milliseconds, or the waits of ``endive.steps``, and returns the result. If ``streams`` is
        given, the catalog, the object store and the detector use the random streams of the transaction; otherwise, each uses its
        own generator.
        """
        from endive.transaction.policy import CommitPolicy

        self.lifecycle = (policy or CommitPolicy()).path.lifecycle(
            self,
            catalog,
            storage,
            conflict_detector,
            max_retries,
            ml_append_mode,
            policy=policy,
            streams=streams,
            manifest_lists=manifest_lists,
            trace=trace,
        )
        return self.lifecycle.run()

    @abstractmethod
    def can_have_real_conflict(self) -> bool:
        """Return whether concurrent changes can invalidate the operation."""

    @abstractmethod
    def should_abort_on_real_conflict(self) -> bool:
        """Return whether a real conflict makes the attempt fail. The commit policy then aborts, merges or restarts."""

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """Return the file accesses of the first attempt or of an attempt after an overlap. All other attempts write no manifests.

        For each written table, the attempt reads the manifest list, writes a manifest and writes the manifest list. With ML+, the
        attempt appends to the manifest list instead; the returned cost does not include the append. If only some tables overlap,
        the cost is proportional to their number.
        """
        tables = len(self.tables_written)
        return ConflictCost(
            manifest_list_reads=tables,
            manifest_file_writes=tables,
            manifest_list_writes=0 if ml_append_mode else tables,
        )

    @abstractmethod
    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the additional file accesses after an overlap with ``n_snapshots_behind`` snapshots of concurrent commits."""

    def get_traits(self) -> Traits:
        """Return the effects of the operation on Iceberg's commit paths.

        A custom operation has the traits of a merge append, or of an overwrite if it can conflict.
        """
        if self.operation_type in ICEBERG_OPERATIONS:
            return traits_of(self.operation_type, self.settings)
        return traits_of("overwrite" if self.can_have_real_conflict() else "merge_append", self.settings)

    def has_write_overlap(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> bool:
        """Return whether a concurrent commit wrote to the same partitions.

        If the transaction does not track partitions, a commit to the same table is an overlap.
        """
        return bool(self.overlapping_tables(old_snapshot, new_snapshot))

    def overlapping_tables(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> list[int]:
        """Return the written tables to which concurrent commits wrote the same partitions, in ascending order."""
        return [table_id for table_id in sorted(self.tables_written) if self._overlaps(table_id, old_snapshot, new_snapshot)]

    def snapshots_behind(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> int:
        """Return the number of concurrent snapshots of the overlapping tables.

        If a subclass reports an overlap but ``overlapping_tables`` is empty, all written tables are included.
        """
        tables = self.overlapping_tables(old_snapshot, new_snapshot)
        if not tables and self.has_write_overlap(old_snapshot, new_snapshot):
            tables = sorted(self.tables_written)
        return sum(new_snapshot.get_table(table).version - old_snapshot.get_table(table).version for table in tables)

    def _overlaps(self, table_id: int, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> bool:
        old, new = old_snapshot.get_table(table_id), new_snapshot.get_table(table_id)
        if old.version == new.version:
            return False
        if self.partitions_written is None:
            return True
        before, after = old.partition_versions, new.partition_versions
        return any(before[p] != after[p] for p in self.partitions_written.get(table_id, ()))


class FastAppendTransaction(Transaction):
    """Append of files in a new manifest. An append never conflicts, so a retry has the cost of the first attempt."""

    operation_type: ClassVar[str] = "fast_append"

    def can_have_real_conflict(self) -> bool:
        """Return False, because an append never conflicts."""
        return False

    def should_abort_on_real_conflict(self) -> bool:
        """Return False, because an append never conflicts."""
        return False

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return no file accesses, because an append needs no validation."""
        return ConflictCost()


class MergeAppendTransaction(FastAppendTransaction):
    """Append that merges manifests. A retry also merges the manifests of concurrent commits."""

    operation_type: ClassVar[str] = "merge_append"

    def __init__(self, *args: Any, manifests_per_concurrent_commit: float = 1.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.manifests_per_concurrent_commit = manifests_per_concurrent_commit

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the file accesses to merge the manifests of concurrent commits."""
        manifests = manifests_to_merge(n_snapshots_behind, self.manifests_per_concurrent_commit)
        return ConflictCost(manifest_file_reads=manifests, manifest_file_writes=manifests)


class ReadOnlyTransaction(FastAppendTransaction):
    """Read of a snapshot without a commit."""

    operation_type: ClassVar[str] = "read_only"


class OverwriteTransaction(Transaction):
    """Replacement of files, with validation according to the isolation level.

    On the simplified commit path, validation reads the manifest list of each concurrent snapshot. On Iceberg's commit paths,
    validation reads only the manifest lists of some kinds of snapshots (``endive.table.operations``).
    """

    operation_type: ClassVar[str] = "overwrite"

    def can_have_real_conflict(self) -> bool:
        """Return whether the operation validates against concurrent changes."""
        return self.get_traits().conflicts != 0

    def should_abort_on_real_conflict(self) -> bool:
        """Return True, because Iceberg raises a ValidationException and does not retry."""
        return True

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return one read of a manifest list for each concurrent snapshot, if the operation validates."""
        return ConflictCost(historical_ml_reads=n_snapshots_behind if self.can_have_real_conflict() else 0)


class ValidatedOverwriteTransaction(OverwriteTransaction):
    """Overwrite that always validates. Validation reads the manifest list of each concurrent snapshot."""

    operation_type: ClassVar[str] = "validated_overwrite"

    def can_have_real_conflict(self) -> bool:
        """Return True, because another writer may have changed the same rows."""
        return True


class RowDeltaTransaction(OverwriteTransaction):
    """Addition of data files and delete files (merge-on-read)."""

    operation_type: ClassVar[str] = "row_delta"


class RewriteFilesTransaction(OverwriteTransaction):
    """Compaction. A compaction conflicts with new delete files for the data files that it rewrites, but not with appends."""

    operation_type: ClassVar[str] = "rewrite_files"


class ReplacePartitionsTransaction(OverwriteTransaction):
    """Replacement of all files of the written partitions (dynamic overwrite)."""

    operation_type: ClassVar[str] = "replace_partitions"


class DeleteTransaction(OverwriteTransaction):
    """Removal of whole data files."""

    operation_type: ClassVar[str] = "delete"


class ExpireSnapshotsTransaction(OverwriteTransaction):
    """Expiry of old snapshots. The commit adds no snapshot."""

    operation_type: ClassVar[str] = "expire_snapshots"

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """Return no file accesses, because the operation writes no manifests."""
        return ConflictCost()


_TRANSACTIONS: tuple[type[Transaction], ...] = (
    FastAppendTransaction,
    MergeAppendTransaction,
    ValidatedOverwriteTransaction,
    ReadOnlyTransaction,
    OverwriteTransaction,
    RowDeltaTransaction,
    RewriteFilesTransaction,
    ReplacePartitionsTransaction,
    DeleteTransaction,
    ExpireSnapshotsTransaction,
)
OPERATIONS: Mapping[str, type[Transaction]] = {cls.operation_type: cls for cls in _TRANSACTIONS}
assert list(OPERATIONS) == [facts.name for facts in OPERATION_FACTS]


@dataclass
class Job:
    """Job with several commits."""

    commits: int
    runtime_ms: float
    max_failed_commits: int
    streams: TransactionStreams
    """Random streams of the first commit of the job."""
    number: int = 1
    """Number of the current commit, from 1."""
    start_ms: float = 0.0
    """Time at which the work of the job started, after the client read the table."""
    start: CatalogSnapshot | None = None
    """Snapshot at which the job started; set by its first commit."""
    versions: dict[int, int] = field(default_factory=dict)
    """Version of each written table that the job last read or wrote."""
    installs: int = 0
    """Number of commits of the job that took effect."""
    failed: int = 0

    def advance(self, result: TransactionResult) -> bool:
        """Record the outcome of a commit, and return whether another commit follows.

        A job ends with its last commit, when more than ``max_failed_commits`` commits have failed, or when its client crashes.
        """
        self.installs += result.installs
        self.failed += result.status is TransactionStatus.ABORTED
        self.versions = {table_id: version + result.installs for table_id, version in self.versions.items()}
        self.number += 1
        started = result.commit_start_ms >= 0.0 and result.abort_reason != CLIENT_CRASH
        return started and self.number <= self.commits and self.failed <= self.max_failed_commits

    def next_commit(self, txn: Transaction, txn_id: int, now_ms: float) -> Transaction:
        """Return the transaction of the next commit, which writes the same tables and partitions as the previous commit."""
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
