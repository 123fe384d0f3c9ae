"""State of a table that costs depend on: its snapshots, and the number and size of its manifests.

Each committed snapshot is a change that produces the next state. States are immutable and share their history, so a snapshot of the
catalog needs no copy. The catalog owns the current state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from endive.arithmetic.manifests import NO_SNAPSHOT, counts_after, hits_of, list_size, metadata_size
from endive.table.traits import Traits


@dataclass(frozen=True, slots=True)
class TableModel:
    """Initial state of a table, sizes of its metadata in bytes, and thresholds of manifest merging. Default sizes are measured."""

    manifests: int = 1
    delete_manifests: int = 0
    snapshots: int = 1
    metadata_bytes: int = 2_000
    metadata_bytes_per_snapshot: int = 740
    manifest_list_bytes: int = 4_400
    manifest_list_bytes_per_manifest: int = 42
    manifest_bytes: int = 7_100
    """Size of a new manifest."""
    manifest_header_bytes: int = 6_900
    """Bytes that a merge saves for each manifest but one."""
    min_count_to_merge: int = 100
    target_bytes: int = 8 * 1024 * 1024
    """Maximum size of a merged manifest."""
    merge_manifests: bool = True


@dataclass(frozen=True, slots=True)
class TableChange:
    """Change of a table by a commit. If ``partitions`` is None, any partition may have changed."""

    traits: Traits
    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """Snapshot in the history of a table: its kind, and the manifests and partitions that it added."""

    parent: SnapshotRecord | None = field(repr=False)
    kind: int
    data: int
    deletes: int
    partitions: frozenset[int] | None

    def range_has(self, partitions: frozenset[int] | None) -> bool:
        """Return whether a partition is within the range of those written, which is all that a manifest list records."""
        if not partitions or not self.partitions:
            return partitions is None or self.partitions is None
        first, last = min(self.partitions), max(self.partitions)
        return any(first <= partition <= last for partition in partitions)

    def overlaps(self, partitions: frozenset[int] | None) -> bool:
        """Return whether the snapshot may have written to one of these partitions."""
        return partitions is None or self.partitions is None or not partitions.isdisjoint(self.partitions)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Table at one point in time.

    ``data_bytes`` is the total size of the ``data`` data manifests, ``delete_bytes`` that of the ``deletes`` delete manifests.
    ``data_revision``, ``delete_revision`` and ``merges`` count the commits that changed the data manifests, changed the delete
    manifests, and merged data manifests.
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

    @classmethod
    def initial(cls, model: TableModel) -> TableFiles:
        """Return a table before its first commit."""
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
        """Yield the snapshots after the first ``start`` ones, newest first."""
        record = self.head
        for _ in range(self.length - start):
            assert record is not None
            yield record
            record = record.parent

    def after(self, change: TableChange) -> TableFiles:
        """Return the table after a change."""
        traits = change.traits
        if traits.kind == NO_SNAPSHOT:
            return replace(self, snapshots=min(self.snapshots, traits.retain))
        data = traits.data + hits_of(self, traits)
        head = SnapshotRecord(self.head, traits.kind, data, traits.deletes, change.partitions)
        return replace(self, head=head, **counts_after(self.model, self, traits)._asdict())
