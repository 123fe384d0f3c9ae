"""Define the state of a table that determines costs: its snapshots, and the number and size of its manifests.

Each commit creates a new state. States are immutable and share their history, so a snapshot of the catalog copies nothing. The
catalog stores the current state.

With appends to manifest lists (ML+), each table also has a manifest list that grows like a log. All transactions of a run share
these lists. Entries are tentative until their transaction commits. Readers ignore the entries of transactions that did not commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from endive.arithmetic.manifests import (
    NO_SNAPSHOT,
    counts_after,
    hits_of,
    list_size,
    metadata_size,
    snapshots_kept,
    young_before_start,
)
from endive.table.operations import Traits


@dataclass(frozen=True, slots=True)
class TableModel:
    """Initial state of a table, sizes of its metadata in bytes, and thresholds of manifest merging.

    The default sizes are measured.
    """

    manifests: int = 1
    delete_manifests: int = 0
    snapshots: int = 1
    metadata_bytes: int = 2_000
    metadata_bytes_per_snapshot: int = 1_100
    manifest_list_bytes: int = 4_400
    manifest_list_bytes_per_manifest: int = 42
    manifest_bytes: int = 7_100
    """Size of a new manifest."""
    manifest_header_bytes: int = 6_900
    """Size of the header of a manifest. A merged manifest contains one header."""
    min_count_to_merge: int = 100
    target_bytes: int = 8 * 1024 * 1024
    """Maximum size of a merged manifest."""
    merge_manifests: bool = True


@dataclass(frozen=True, slots=True)
class TableChange:
    """Change of a table by a commit that started at ``time_ms``.

    If ``partitions`` is None, the commit may have changed any partition.
    """

    traits: Traits
    partitions: frozenset[int] | None = None
    time_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """Snapshot in the history of a table: its kind, its timestamp, and the manifests and partitions that it wrote."""

    parent: SnapshotRecord | None = field(repr=False)
    kind: int
    data: int
    deletes: int
    partitions: frozenset[int] | None
    time_ms: float = 0.0

    def range_has(self, partitions: frozenset[int] | None) -> bool:
        """Return whether a partition is within the partition range that the manifest list of the snapshot records."""
        if not partitions or not self.partitions:
            return partitions is None or self.partitions is None
        first, last = min(self.partitions), max(self.partitions)
        return any(first <= partition <= last for partition in partitions)

    def overlaps(self, partitions: frozenset[int] | None) -> bool:
        """Return whether the snapshot may have written to one of these partitions."""
        return partitions is None or self.partitions is None or not partitions.isdisjoint(self.partitions)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """State of a table at one time.

    ``data`` is the number of data manifests and ``data_bytes`` is their total size. ``deletes`` and ``delete_bytes`` describe the
    delete manifests. ``data_revision`` and ``delete_revision`` count the commits that changed the data manifests and the delete
    manifests. ``merges`` counts the commits that merged data manifests.
    """

    model: TableModel
    data: int
    data_bytes: int
    deletes: int
    delete_bytes: int
    snapshots: int
    length: int = 0
    """Number of snapshots committed since the start of the run."""
    head: SnapshotRecord | None = None
    data_revision: int = 0
    delete_revision: int = 0
    merges: int = 0
    initial_interval_ms: float = 0.0
    """Interval between snapshots committed before the run; 0 if all of them were committed at the start of the run."""

    @classmethod
    def initial(cls, model: TableModel) -> TableFiles:
        """Return the state of a table before its first commit."""
        return cls(
            model,
            model.manifests,
            model.manifests * model.manifest_bytes,
            model.delete_manifests,
            model.delete_manifests * model.manifest_bytes,
            model.snapshots,
        )

    @property
    def manifests(self) -> int:
        """Number of manifests in the manifest list."""
        return self.data + self.deletes

    @property
    def metadata_size(self) -> int:
        """Size of the table metadata in bytes."""
        return metadata_size(self.model, self.snapshots)

    @property
    def list_size(self) -> int:
        """Size of the manifest list in bytes."""
        return list_size(self.model, self.manifests)

    def history(self, start: int) -> Iterator[SnapshotRecord]:
        """Yield the snapshots that were committed after the first ``start`` snapshots, newest first."""
        record = self.head
        for _ in range(self.length - start):
            assert record is not None
            yield record
            record = record.parent

    def kept_by(self, traits: Traits, time_ms: float) -> int:
        """Return the number of snapshots that remain if an expiration starts at ``time_ms``."""
        cutoff_ms = time_ms - traits.max_age_ms
        recorded = min(self.length, self.snapshots)
        young, record = 0, self.head
        while young < recorded and record is not None and record.time_ms >= cutoff_ms:
            young, record = young + 1, record.parent
        if young == recorded:
            young += min(self.snapshots - recorded, young_before_start(self.initial_interval_ms, cutoff_ms))
        return snapshots_kept(self, traits, young)

    def after(self, change: TableChange) -> TableFiles:
        """Return the state of the table after a change."""
        traits = change.traits
        if traits.kind == NO_SNAPSHOT:
            return replace(self, snapshots=self.kept_by(traits, change.time_ms))
        data = traits.data + hits_of(self, traits)
        time_ms = change.time_ms if self.head is None else max(change.time_ms, self.head.time_ms)
        head = SnapshotRecord(self.head, traits.kind, data, traits.deletes, change.partitions, time_ms)
        return replace(self, head=head, **counts_after(self.model, self, traits)._asdict())


@dataclass
class ManifestListCounters:
    """Counters of appends to manifest lists. They are incremented at the linearization point of each append."""

    manifest_append_physical_success: int = 0
    manifest_append_physical_failure: int = 0
    manifest_append_sealed_rewrite: int = 0


class ManifestLists:
    """Manifest list of each table.

    A list larger than ``seal_threshold_bytes`` is sealed; 0 disables sealing. A rewritten list continues at the offset of the old
    list, so a late append to the old list fails.
    """

    def __init__(self, num_tables: int, seal_threshold_bytes: int = 0) -> None:
        self._offsets = [0] * num_tables
        self._starts = [0] * num_tables
        self._sealed = [False] * num_tables
        self.seal_threshold_bytes = seal_threshold_bytes
        self.counters = ManifestListCounters()

    def end_of(self, table_id: int) -> tuple[int, bool]:
        """Return the end offset of the manifest list of a table, and whether the list is sealed."""
        return self._offsets[table_id], self._sealed[table_id]

    def append(self, table_id: int, expected_offset: int, entry_bytes: int) -> bool:
        """Append an entry, and return whether the append succeeded.

        The append succeeds if the list still ends at ``expected_offset`` and is not sealed.
        """
        if self._sealed[table_id] or self._offsets[table_id] != expected_offset:
            self.counters.manifest_append_physical_failure += 1
            return False
        self._offsets[table_id] += entry_bytes
        if 0 < self.seal_threshold_bytes < self._offsets[table_id] - self._starts[table_id]:
            self._sealed[table_id] = True
        self.counters.manifest_append_physical_success += 1
        return True

    def replace_sealed(self, table_id: int) -> None:
        """Replace a sealed list by a new list, unless another transaction has replaced it."""
        if self._sealed[table_id]:
            self._starts[table_id] = self._offsets[table_id]
            self._sealed[table_id] = False
            self.counters.manifest_append_sealed_rewrite += 1
