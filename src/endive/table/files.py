"""The state of a table, as far as costs depend on it: its snapshots, and how many manifests it has and how large they are.

A change, one for each snapshot that is committed, makes the next state. States are immutable and share their history, so a snapshot
of the catalog costs no copy; the catalog owns the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from endive.arithmetic.manifests import NO_SNAPSHOT, counts_after, hits_of, list_size, metadata_size
from endive.table.traits import Traits


@dataclass(frozen=True, slots=True)
class TableModel:
    """How a table begins, how large its metadata is (in bytes) and when its manifests are merged. Defaults: as measured."""

    manifests: int = 1
    delete_manifests: int = 0
    snapshots: int = 1
    metadata_bytes: int = 2_000
    metadata_bytes_per_snapshot: int = 740
    manifest_list_bytes: int = 4_400
    manifest_list_bytes_per_manifest: int = 42
    manifest_bytes: int = 7_100
    """Of a new manifest."""
    manifest_header_bytes: int = 6_900
    """What a merge saves for each manifest but one."""
    min_count_to_merge: int = 100
    target_bytes: int = 8 * 1024 * 1024
    """Merged manifests do not grow beyond it."""
    merge_manifests: bool = True


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a commit does to a table. ``partitions`` of None may be any."""

    traits: Traits
    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot in the history of a table: its kind, the manifests that it added, and where."""

    parent: SnapshotRecord | None = field(repr=False)
    kind: int
    data: int
    deletes: int
    partitions: frozenset[int] | None

    def range_has(self, partitions: frozenset[int] | None) -> bool:
        """Return whether one of these partitions lies within the range of those it wrote: all that a manifest list tells."""
        if not partitions or not self.partitions:
            return partitions is None or self.partitions is None
        first, last = min(self.partitions), max(self.partitions)
        return any(first <= partition <= last for partition in partitions)

    def overlaps(self, partitions: frozenset[int] | None) -> bool:
        """Return whether it may have written to one of these partitions."""
        return partitions is None or self.partitions is None or not partitions.isdisjoint(self.partitions)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table at one moment.

    ``data`` manifests have together ``data_bytes``, and ``deletes`` have ``delete_bytes``. The revisions count the commits that
    changed the data manifests, changed the delete manifests, and merged data manifests.
    """

    model: TableModel
    data: int
    data_bytes: int
    deletes: int
    delete_bytes: int
    snapshots: int
    length: int = 0
    """Snapshots since the beginning."""
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
        """All manifests that the manifest list names."""
        return self.data + self.deletes

    @property
    def metadata_size(self) -> int:
        """Bytes of the table metadata."""
        return metadata_size(self.model, self.snapshots)

    @property
    def list_size(self) -> int:
        """Bytes of the manifest list."""
        return list_size(self.model, self.manifests)

    def history(self, start: int) -> Iterator[SnapshotRecord]:
        """Return the snapshots made since the table had ``start`` of them, newest first."""
        record = self.head
        for _ in range(self.length - start):
            assert record is not None
            yield record
            record = record.parent

    def after(self, change: TableChange) -> TableFiles:
        """Return the table with a commit on top."""
        traits = change.traits
        if traits.kind == NO_SNAPSHOT:
            return replace(self, snapshots=min(self.snapshots, traits.retain))
        data = traits.data + hits_of(self, traits)
        head = SnapshotRecord(self.head, traits.kind, data, traits.deletes, change.partitions)
        return replace(self, head=head, **counts_after(self.model, self, traits)._asdict())
