"""Base classes of transactions and conflict detectors, for custom components."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, ClassVar

from endive.steps import Step
from endive.table import ICEBERG_OPERATIONS, OperationSettings, Traits, traits_of
from endive.transaction.types import Batch, ConflictCost, TransactionResult

if TYPE_CHECKING:
    from endive.catalog import Catalog, CatalogSnapshot, TableHandles
    from endive.randomness import RandomSource, TransactionStreams
    from endive.storage import StorageProvider
    from endive.transaction.lifecycle import Lifecycle
    from endive.transaction.manifest_lists import ManifestLists
    from endive.transaction.partial_progress import Job
    from endive.transaction.policy import CommitPolicy
    from endive.transaction.types import Tracer


_USUAL = OperationSettings()
_ALONE = Batch()


class ConflictDetector(ABC):
    """Detector that decides whether overlapping writes are a real conflict."""

    @abstractmethod
    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether the changes between the snapshots are a real conflict with the transaction."""

    def changes_same_files(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether the changes affect files of the transaction, for any operation. Used by declarative protocols."""
        return self.is_real_conflict(txn, current_snapshot, start_snapshot)

    def bind(self, rng: RandomSource) -> ConflictDetector:
        """Return the detector with another source of randomness, because each transaction has a separate stream."""
        return self


class Transaction(ABC):
    """Operation on tables of one table group, from submission to commit or abort.

    A subclass defines the costs of the operation and whether it can conflict. The commit path (``endive.transaction.paths``)
    defines the commit protocol. If ``partitions_written`` is None, the transaction may write to any partition.
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
        """Number of the writer, or -1 if the class has no numbered writers."""
        self.batch = _ALONE
        """File batches that the transaction commits, if its class has a committer."""
        self.known_versions: dict[int, int] | None = None
        """Versions of the tables cached by the writer, or None without a cache."""
        self.handles: TableHandles | None = None
        """Cached table handles of the writer, or None if it loads tables for each transaction."""
        self.backoff_state_ms: float | None = None
        """Backoff state that the writer keeps between transactions, or None."""
        self.job: Job | None = None
        """Job with several commits to which the transaction belongs, or None."""
        self.lifecycle: Lifecycle | None = None
        """Progress of the transaction; set by ``execute``."""

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
        """Run the transaction: yield latencies in milliseconds (or waits, see ``endive.steps``) and return the result.

        With ``streams``, the catalog, the object store and the detector draw from the transaction's streams; otherwise from their
        own generators.
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
        """Return whether a real conflict fails the attempt; the policy then aborts, merges or restarts."""

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """Return the cost of the first attempt, or of an attempt after an overlap; only these attempts write manifests.

        For each written table the attempt reads the manifest list, writes a manifest and writes the manifest list. With ML+ it
        appends to the manifest list, which is not part of this cost. If only some tables overlap, the cost is proportional to their
        number.
        """
        tables = len(self.tables_written)
        return ConflictCost(
            manifest_list_reads=tables,
            manifest_file_writes=tables,
            manifest_list_writes=0 if ml_append_mode else tables,
        )

    @abstractmethod
    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the additional cost of an overlap with ``n_snapshots_behind`` concurrent snapshots."""

    def get_traits(self) -> Traits:
        """Return the traits of the operation on Iceberg's commit paths.

        A custom operation has the traits of a merge append, or of an overwrite if it can conflict.
        """
        if self.operation_type in ICEBERG_OPERATIONS:
            return traits_of(self.operation_type, self.settings)
        return traits_of("overwrite" if self.can_have_real_conflict() else "merge_append", self.settings)

    def has_write_overlap(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> bool:
        """Return whether a concurrent commit wrote to the same partitions, or to the same table if partitions are not tracked."""
        return bool(self.overlapping_tables(old_snapshot, new_snapshot))

    def overlapping_tables(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> list[int]:
        """Return the written tables that overlap with concurrent commits, in ascending order."""
        return [table_id for table_id in sorted(self.tables_written) if self._overlaps(table_id, old_snapshot, new_snapshot)]

    def snapshots_behind(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> int:
        """Return the number of concurrent snapshots of the overlapping tables.

        All written tables count if a subclass reports an overlap although ``overlapping_tables`` is empty.
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
