"""What transactions and catalogs exchange: immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from endive.table import TableFiles

METADATA_TOO_LARGE = "metadata_too_large"
"""Why a transaction is aborted whose table metadata has outgrown what the catalog takes."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A table as a snapshot shows it: ``version`` counts its commits, ``partition_versions`` those of each partition."""

    table_id: int
    version: int
    num_partitions: int
    partition_versions: tuple[int, ...]
    files: TableFiles | None = None
    """Its snapshots and manifests, where the catalog keeps account of them."""
    ref: int = field(default=0, compare=False)
    """How often its main branch was moved: by every commit but an expiry of snapshots."""

    def with_version(self, new_version: int) -> TableMetadata:
        """Return the table at another version."""
        return replace(self, version=new_version)

    def with_partition_version(self, partition_id: int, new_version: int) -> TableMetadata:
        """Return the table with another version of one partition."""
        versions = self.partition_versions
        return replace(self, partition_versions=(*versions[:partition_id], new_version, *versions[partition_id + 1 :]))


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The catalog at one moment: all that a transaction ever sees of it.

    ``seq`` counts the commits of the table group that was read (of the whole catalog, where there is one group). It shares its
    tables with the catalog, which replaces them and never changes them, so a snapshot costs no copy.
    """

    seq: int
    tables: tuple[TableMetadata, ...]
    timestamp_ms: float
    log_offset: int = 0
    """Where the group's log ended (append catalog only)."""

    def get_table(self, table_id: int) -> TableMetadata:
        """Return the table with this id."""
        return self.tables[table_id]

    def get_partition_version(self, table_id: int, partition_id: int) -> int:
        """Return how often that partition was written."""
        return self.tables[table_id].partition_versions[partition_id]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Whether a commit was installed, and how long the answer took. It carries no state: after a failure, read the catalog."""

    success: bool
    latency_ms: float
    round_trips: int = 1
    reason: str | None = None
    """Why it failed for good, so that another attempt is of no use; None where it is."""


@dataclass(frozen=True, slots=True)
class IntentionRecord:
    """What a transaction wants to do: the entry that an append catalog writes to its log, with the versions it relies on."""

    txn_id: int
    expected_seq: int
    tables_written: Mapping[int, int]
    """Table id to new version."""
    partitions_written: Mapping[int, tuple[int, ...]] | None = None
    size_bytes: int = 100
    tables_read: Mapping[int, int] = field(default_factory=dict)
    """Table id to the version that was read."""
    expected_offset: int | None = None
    """Where the transaction last saw the log end; None asks for the end as it is now."""
    refs: Mapping[int, int] | None = None
    """Table id to where its main branch was seen; None takes the versions before those of ``tables_written``."""
    moves_ref: bool = True
    """Whether it moves the main branches of its tables; an expiry of snapshots does not."""
    rebasable: bool = False
    """Whether it can be applied on top of another state without the client: appends can."""
    applied: bool = False
    """Whether it was sent before with the same idempotency key, and took effect."""


@dataclass
class CatalogCounters:
    """What happened at the catalog, counted at the moment of effect."""

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
    service_longest_queue: int = 0
    service_busy_ms: float = 0.0
    service_waited_ms: float = 0.0
    metadata_limit_reached_ms: float = 0.0
    """When a commit first failed because table metadata was too large; 0: never."""
