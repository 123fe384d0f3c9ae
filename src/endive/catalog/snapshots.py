"""Define the values that transactions and catalogs exchange."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from endive.table import TableFiles

METADATA_TOO_LARGE = "metadata_too_large"
"""Abort reason of a commit whose table metadata would exceed the size limit of the catalog."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """Table in a snapshot of the catalog.

    ``version`` is the number of commits to the table, and ``partition_versions`` is the number of commits to each partition.
    """

    table_id: int
    version: int
    num_partitions: int
    partition_versions: tuple[int, ...]
    files: TableFiles | None = None
    """Snapshots and manifests of the table, if the catalog tracks them."""
    ref: int = field(default=0, compare=False)
    """Number of commits that moved the main branch. Expiring snapshots does not move it."""

    def with_version(self, new_version: int) -> TableMetadata:
        """Return a copy of the table with a new version."""
        return replace(self, version=new_version)

    def with_partition_version(self, partition_id: int, new_version: int) -> TableMetadata:
        """Return a copy of the table with a new version of one partition."""
        versions = self.partition_versions
        return replace(self, partition_versions=(*versions[:partition_id], new_version, *versions[partition_id + 1 :]))


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """State of the catalog at one time, as read by a transaction.

    ``seq`` is the number of commits to the table group that was read. Tables are immutable and shared with the catalog, so a
    snapshot copies nothing.
    """

    seq: int
    tables: tuple[TableMetadata, ...]
    timestamp_ms: float
    log_offset: int = 0
    """End offset of the group's log (append catalog only)."""

    def get_table(self, table_id: int) -> TableMetadata:
        """Return the table with this id."""
        return self.tables[table_id]


class TableHandles:
    """Table state that a writer keeps from its last load or commit.

    The cached state is the state of the catalog service when the server sends the response.
    """

    def __init__(self) -> None:
        self._states: dict[int, CatalogSnapshot] = {}

    def keep(self, tables: Iterable[int], snapshot: CatalogSnapshot) -> None:
        """Cache the state of some tables from a snapshot."""
        self._states.update(dict.fromkeys(tables, snapshot))

    def snapshot_of(self, tables: Collection[int]) -> CatalogSnapshot | None:
        """Return the cached state of the tables, or None if the state of a table is not cached."""
        if not self._states.keys() >= set(tables):
            return None
        states = [self._states[table_id] for table_id in tables]
        kept = list(states[0].tables)
        for table_id in tables:
            kept[table_id] = self._states[table_id].tables[table_id]
        return CatalogSnapshot(min(each.seq for each in states), tuple(kept), min(each.timestamp_ms for each in states))


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome and latency of a commit.

    The result contains no catalog state. After a failed commit, the client reads the catalog.
    """

    success: bool
    latency_ms: float
    round_trips: int = 1
    reason: str | None = None
    """Abort reason if a retry cannot succeed, otherwise None."""


@dataclass(frozen=True, slots=True)
class IntentionRecord:
    """Record of a commit with the table versions on which the commit is based. The append catalog writes it to its log."""

    txn_id: int
    expected_seq: int
    tables_written: Mapping[int, int]
    """New version of each written table, by table id."""
    partitions_written: Mapping[int, tuple[int, ...]] | None = None
    size_bytes: int = 100
    tables_read: Mapping[int, int] = field(default_factory=dict)
    """Version of each table that the transaction read, by table id."""
    expected_offset: int | None = None
    """End offset of the log that the transaction last read, or None for the current end."""
    refs: Mapping[int, int] | None = None
    """Value of ``TableMetadata.ref`` of each table when it was read. If None, ``tables_written`` determines the values."""
    moves_ref: bool = True
    """True if the commit moves the main branches of its tables. Expiring snapshots does not move them."""
    rebasable: bool = False
    """True if the server can apply the commit to a newer state without the client, as is the case for appends."""
    applied: bool = False
    """True if a commit with the same idempotency key has already taken effect."""


@dataclass
class CatalogCounters:
    """Counters of the catalog. The catalog increments them at the linearization point of each request."""

    commit_success: int = 0
    commit_conflict: int = 0
    append_physical_success: int = 0
    append_physical_failure: int = 0
    append_logical_success: int = 0
    append_logical_conflict: int = 0
    append_compactions_triggered: int = 0
    append_compactions_completed: int = 0
    commit_throttled: int = 0
    service_requests: int = 0
    service_refused: int = 0
    service_retries: int = 0
    service_batches: int = 0
    service_database_conflicts: int = 0
    service_longest_queue: int = 0
    service_busy_ms: float = 0.0
    service_waited_ms: float = 0.0
    metadata_limit_reached_ms: float = 0.0
    """Time at which a commit first failed because its table metadata was too large; 0 if no commit did."""
