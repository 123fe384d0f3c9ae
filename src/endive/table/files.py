"""The state of a table, as far as costs depend on it: its snapshots, and how many manifests it has and how large they are.

What flows in: changes, one for each snapshot that is committed. What flows out: the next state. States are immutable and share
their history, so a snapshot of the catalog costs no copy; the catalog owns the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from endive.arithmetic.costs import merge_bins, merged_away
from endive.table.traits import ALL_MANIFESTS, NO_SNAPSHOT, Traits


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

    def bins(self, manifests: int, size: int) -> tuple[int, int, int]:
        """How a group of manifests is merged (``costs.merge_bins``)."""
        if not self.merge_manifests:
            return 0, 1, 0
        return merge_bins(manifests, size, self.min_count_to_merge, self.target_bytes)

    def metadata_size(self, snapshots: int) -> int:
        """Bytes of table metadata that lists so many snapshots."""
        return self.metadata_bytes + self.metadata_bytes_per_snapshot * snapshots

    def list_size(self, manifests: int) -> int:
        """Bytes of a manifest list of so many manifests."""
        return self.manifest_list_bytes + self.manifest_list_bytes_per_manifest * manifests


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
        """Whether one of these partitions lies within the range of those it wrote: all that a manifest list tells."""
        if not partitions or not self.partitions:
            return partitions is None or self.partitions is None
        first, last = min(self.partitions), max(self.partitions)
        return any(first <= partition <= last for partition in partitions)

    def overlaps(self, partitions: frozenset[int] | None) -> bool:
        """Whether it may have written to one of these partitions."""
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
        """A table before its first commit."""
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
        return self.model.metadata_size(self.snapshots)

    @property
    def list_size(self) -> int:
        """Bytes of the manifest list."""
        return self.model.list_size(self.manifests)

    def history(self, start: int) -> Iterator[SnapshotRecord]:
        """The snapshots made since the table had ``start`` of them, newest first."""
        record = self.head
        for _ in range(self.length - start):
            assert record is not None
            yield record
            record = record.parent

    def retains(self, start: int) -> bool:
        """Whether the snapshot that was current then has not been expired."""
        return self.length - start < self.snapshots

    def hits(self, traits: Traits) -> int:
        """How many data manifests hold files that an operation removes."""
        return self.data if traits.hits == ALL_MANIFESTS else min(traits.hits, self.data)

    def after(self, change: TableChange) -> TableFiles:
        """The table with a commit on top."""
        traits, model = change.traits, self.model
        if traits.kind == NO_SNAPSHOT:
            return replace(self, snapshots=min(self.snapshots, traits.retain))
        whole = traits.hits == ALL_MANIFESTS
        data, data_bytes, deletes, delete_bytes = (
            (0, 0, 0, 0) if whole else (self.data, self.data_bytes, self.deletes, self.delete_bytes)
        )
        data, data_bytes = data + traits.data, data_bytes + traits.data * model.manifest_bytes
        deletes, delete_bytes = deletes + traits.deletes, delete_bytes + traits.deletes * model.manifest_bytes
        merged = deletes_merged = 0
        if traits.merges:
            merged = merged_away(*model.bins(data, data_bytes))
        if traits.merges and traits.deletes:
            deletes_merged = merged_away(*model.bins(deletes, delete_bytes))
        hits = self.hits(traits)
        return replace(
            self,
            data=data - merged,
            data_bytes=data_bytes - merged * model.manifest_header_bytes,
            deletes=deletes - deletes_merged,
            delete_bytes=delete_bytes - deletes_merged * model.manifest_header_bytes,
            snapshots=self.snapshots + 1,
            length=self.length + 1,
            head=SnapshotRecord(self.head, traits.kind, traits.data + hits, traits.deletes, change.partitions),
            data_revision=self.data_revision + (traits.data + hits > 0),
            delete_revision=self.delete_revision + (traits.deletes > 0 or whole),
            merges=self.merges + (merged > 0 or whole),
        )
