"""Transactions and conflict detectors: what a user may subclass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, ClassVar

from endive.steps import Step
from endive.table import ICEBERG_OPERATIONS, OperationSettings, Traits, traits_of
from endive.transaction.types import Batch, ConflictCost, TransactionResult

if TYPE_CHECKING:
    from endive.catalog import Catalog, CatalogSnapshot
    from endive.randomness import RandomSource, TransactionStreams
    from endive.storage import StorageProvider
    from endive.transaction.lifecycle import Lifecycle
    from endive.transaction.manifest_lists import ManifestLists
    from endive.transaction.policy import CommitPolicy
    from endive.transaction.types import Tracer


_USUAL = OperationSettings()
_ALONE = Batch()


class ConflictDetector(ABC):
    """Decides whether an overlap of writes is a real conflict of data."""

    @abstractmethod
    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        """Return whether what changed between the snapshots conflicts with the transaction's data."""

    def bind(self, rng: RandomSource) -> ConflictDetector:
        """Return the same detector with draws from ``rng``, so that each transaction has its own stream."""
        return self


class Transaction(ABC):
    """One operation on some tables of one table group, from its submission to its commit or abort.

    A subclass says what the operation costs and whether its data can conflict; the way through the commit protocol is the same
    for all (``endive.transaction.lifecycle``). ``partitions_written`` of None means that it may touch any partition.
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
        """The number of the writer that submits it, -1 where it is nobody's."""
        self.batch = _ALONE
        """What was handed over for it to commit, where its class has a committer."""
        self.known_versions: dict[int, int] | None = None
        """Versions of tables whose metadata the writer holds; None, if it holds none."""
        self.backoff_state_ms: float | None = None
        """What the writer remembers of earlier waits, if it does."""
        self.lifecycle: Lifecycle | None = None
        """How far it has come; set by ``execute``."""

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
        """Read, work, commit: yields latencies in milliseconds (or waits, see ``endive.steps``) and returns what came of it.

        With ``streams``, catalog, storage and detector draw from the transaction's own streams; without, from what they hold.
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
        """Return whether concurrent changes of data can make this operation invalid."""

    @abstractmethod
    def should_abort_on_real_conflict(self) -> bool:
        """Return whether a real conflict ends the operation (as the policy says: abort, merge or restart)."""

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        """Return the cost of an attempt that makes its manifests: the first one, and each after an overlap.

        For each written table: the manifest list is read, a manifest is written, the list is written (with ML+ it is appended
        to, which is not part of this cost). After an overlap of some of the tables, their share of it is paid.
        """
        tables = len(self.tables_written)
        return ConflictCost(
            manifest_list_reads=tables,
            manifest_file_writes=tables,
            manifest_list_writes=0 if ml_append_mode else tables,
        )

    @abstractmethod
    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        """Return the additional cost of an overlap with so many snapshots of the overlapping tables between."""

    def get_traits(self) -> Traits:
        """Return the traits of the operation on Iceberg's own commit paths.

        An operation that is not Iceberg's counts as a merge append, or as an overwrite if it can conflict.
        """
        if self.operation_type in ICEBERG_OPERATIONS:
            return traits_of(self.operation_type, self.settings)
        return traits_of("overwrite" if self.can_have_real_conflict() else "merge_append", self.settings)

    def has_write_overlap(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> bool:
        """Return whether what came between wrote to the same table and the same partitions (any, if partitions are not tracked)."""
        return bool(self.overlapping_tables(old_snapshot, new_snapshot))

    def overlapping_tables(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> list[int]:
        """Return the written tables, ascending, whose writes overlap with what came between."""
        return [table_id for table_id in sorted(self.tables_written) if self._overlaps(table_id, old_snapshot, new_snapshot)]

    def snapshots_behind(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> int:
        """Return the number of snapshots between, of the tables that overlap.

        All written tables count if a subclass finds an overlap where ``overlapping_tables`` finds none.
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
