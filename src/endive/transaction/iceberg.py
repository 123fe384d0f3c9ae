"""The way of a transaction through the commit protocol of Iceberg's Java library (commit path ``iceberg``).

What differs from ``lifecycle``: every attempt begins with a refresh and with validation, so the first one already pays for what
landed while the operation worked; the manifests of the first attempt are kept for the later ones; and what validation reads depends
on what came between and how (``endive.table``).

    attempt:  read the catalog; for each table: (read its metadata, if it has moved), (read what validation wants, serially),
              (read the manifest list), (filter manifests, in the pool), (write new manifests, the first time), (merge manifests),
              write the manifest list, write the metadata; commit
    failure:  (give up), back off; attempt again
    success:  read the catalog, the metadata and the manifest list; delete the manifest lists of lost attempts, and the manifests
              that were merged away or that lost attempts had merged; a failure here changes nothing about the success
    the end without success: delete all that was written

A table that did not move since the last attempt (somebody committed to another table of the group) costs nothing again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass

from endive.arithmetic import validation
from endive.arithmetic.manifests import bins_of, list_size, mean_size, merged_size, metadata_size
from endive.catalog.types import CatalogSnapshot
from endive.steps import RequestFailedError, Step
from endive.table import NO_SNAPSHOT, TableFiles, TableModel, Traits
from endive.transaction import accesses
from endive.transaction.account import Steps
from endive.transaction.lifecycle import AbortError, Lifecycle, RestartError
from endive.transaction.types import VALIDATION_EXCEPTION


@dataclass(slots=True)
class Handle:
    """A table as the operation knows it: where it started, and what it saw at its last attempt."""

    start: int
    """Snapshots that the table had when the operation started."""
    version: int
    seen: int
    """Snapshots at the last attempt."""
    prepared: bool = False
    data_revision: int = 0
    delete_revision: int = 0
    merges: int = 0
    made_list: bool = False
    """Whether it has written a manifest list."""
    lost: int = 0
    """Lists and merged manifests of lost attempts."""
    made: int = 0
    """Manifests that the operation has written, but for merged ones."""
    merged: bool = False
    """Whether the last attempt merged what it had made."""
    bins: int = 0
    """Full bins that were merged already."""


def review(files: TableFiles, handle: Handle, traits: Traits, partitions: frozenset[int] | None) -> validation.Review:
    """Look through the snapshots since the start, newest first; an operation that cares for none of them does not look."""
    found = validation.nothing_found()
    if validation.reads_history(traits):
        unseen = files.length - handle.seen
        for age, record in enumerate(files.history(handle.start)):
            in_range = record.range_has(partitions)
            overlaps = in_range and record.overlaps(partitions)
            found = validation.review_record(found, record, traits, in_range, overlaps, age < unseen)
    return found


class IcebergLifecycle(Lifecycle):
    """One transaction on its way through Iceberg's commit protocol."""

    def _commit(self, snapshot: CatalogSnapshot) -> Steps:
        handles = {t: self._handle(snapshot, t) for t in self._written}
        try:
            yield from self._attempts(snapshot, handles)
        except (AbortError, RestartError):
            yield from self._delete_useless(handles)
            raise

    def _delete_useless(self, handles: dict[int, Handle]) -> Steps:
        """Delete what was written for nothing: all of it, since no attempt succeeded."""
        for handle in handles.values():
            yield from self._batches(accesses.FILE_DELETE, validation.files_made(handle, self.txn.get_traits()), 0)

    def _attempts(self, snapshot: CatalogSnapshot, handles: dict[int, Handle]) -> Steps:
        """Attempt the commit until it succeeds. Raises the reason why it does not."""
        self.attempt = 0
        while True:
            current = yield from self._read_catalog()
            for table_id in self._written:
                yield from self._prepare(handles[table_id], table_id, current)
            result = yield from self._attempt(current)
            if result.success:
                # SnapshotProducer.commit catches every exception of the refresh and the cleanup: the commit has succeeded.
                # RemoveSnapshots.commit does not, so that its caller sees an error, but the expiry has taken effect all the same.
                with suppress(RequestFailedError):
                    yield from self._after_commit(current, handles)
                return
            yield from self._lost_attempt()

    def _handle(self, snapshot: CatalogSnapshot, table_id: int) -> Handle:
        table = snapshot.get_table(table_id)
        length = files_of(snapshot, table_id).length
        return Handle(length, table.version, length)

    def _prepare(self, handle: Handle, table_id: int, new: CatalogSnapshot) -> Steps:
        """Make the new state of a table out of the current one."""
        files, traits = files_of(new, table_id), self.txn.get_traits()
        version = new.get_table(table_id).version
        moved = version != handle.version
        if handle.prepared and not moved:
            return
        if moved:
            yield from self._metadata(accesses.METADATA_READ, files.metadata_size)
        if traits.kind != NO_SNAPSHOT:
            found = review(files, handle, traits, self._partitions(table_id))
            if traits.validates and validation.is_start_expired(files, handle.start):
                raise AbortError(VALIDATION_EXCEPTION)
            yield from self._validate(handle, files, found, new)
            yield from self._make_snapshot(handle, files, found)
        yield from self._metadata(accesses.METADATA_WRITE, metadata_size(files.model, files.snapshots + 1))
        handle.version, handle.seen, handle.prepared = version, files.length, True
        handle.data_revision, handle.delete_revision, handle.merges = files.data_revision, files.delete_revision, files.merges

    def _validate(self, handle: Handle, files: TableFiles, found: validation.Review, new: CatalogSnapshot) -> Steps:
        """Read what landed since the operation started, as far as it matters, and the current manifest list."""
        yield from self._read_since(files, found, new)
        head = files.head if files.length > handle.start else None
        if head is None or not head.kind & self.txn.get_traits().validates:
            yield from self._batches(accesses.LIST_READ, 1, files.list_size)

    def _read_since(self, files: TableFiles, found: validation.Review, new: CatalogSnapshot) -> Steps:
        """Read what validation wants of what landed since the operation started; raises if that is a real conflict."""
        yield from self._batches(accesses.LIST_READ, found.lists, files.list_size, component=accesses.CONFLICT_IO)
        yield from self._batches(accesses.FILE_READ, found.manifests, files.model.manifest_bytes, component=accesses.CONFLICT_IO)
        if found.conflicting and self._is_real_conflict(new, found.conflicting):
            raise self._end_of_conflict()

    def _make_snapshot(self, handle: Handle, files: TableFiles, found: validation.Review) -> Steps:
        """Filter, write and merge manifests, and write the manifest list."""
        traits, model = self.txn.get_traits(), files.model
        component = accesses.CONFLICT_IO if handle.prepared else accesses.PER_ATTEMPT_IO
        pool = self.policy.max_parallel
        mean = mean_size(model, files)
        hits, misses, deletes, delete_hits = validation.manifests_to_filter(files, handle, traits, found)
        yield from self._batches(accesses.FILE_READ, hits + misses, mean, pool, component)
        if traits.reads_per_hit > 1:
            yield from self._batches(accesses.FILE_READ, hits, mean, pool, component)
        if traits.filters_deletes:
            yield from self._batches(accesses.FILE_READ, deletes + delete_hits, model.manifest_bytes, pool, component)
        yield from self._batches(accesses.FILE_WRITE, hits + delete_hits, mean, pool, component)
        handle.made += hits
        if not handle.prepared:
            handle.made += traits.data
            yield from self._batches(accesses.FILE_WRITE, traits.data + traits.deletes, model.manifest_bytes)
        if handle.prepared:
            handle.lost += 1
        if traits.merges and (not handle.prepared or files.data_revision != handle.data_revision):
            handle.lost += handle.merged
            size = files.data_bytes + traits.data * model.manifest_bytes
            cached = handle.bins if files.merges == handle.merges else 0
            handle.bins, handle.merged = yield from self._merge(files.data + traits.data, size, model, component, cached)
        if traits.deletes and (not handle.prepared or files.delete_revision != handle.delete_revision):
            size = files.delete_bytes + traits.deletes * model.manifest_bytes
            yield from self._merge(files.deletes + traits.deletes, size, model, component)
        size = list_size(model, files.manifests + traits.data + traits.deletes)
        yield from self._batches(accesses.LIST_WRITE, 1, size)
        handle.made_list = True

    def _merge(
        self, manifests: int, size: int, model: TableModel, component: str, cached: int = 0
    ) -> Generator[Step, None, tuple[int, bool]]:
        """Merge a group of manifests, where it is time: bins in parallel, the manifests of a bin one after the other.

        Bins that an earlier attempt has merged are there already. Returns how many full bins there are, and whether the newest
        manifests were merged too.
        """
        bins, per_bin, newest = bins_of(model, manifests, size)
        mean = size // max(manifests, 1)
        left = bins - cached
        while left > 0:
            at_once = min(left, self.policy.max_parallel)
            yield from self._batches(accesses.FILE_READ, at_once * per_bin, mean, at_once, component)
            yield from self._batches(accesses.FILE_WRITE, at_once, merged_size(model, mean, per_bin), at_once, component)
            left -= at_once
        if newest:
            yield from self._batches(accesses.FILE_READ, newest, mean, component=component)
            yield from self._batches(accesses.FILE_WRITE, 1, merged_size(model, mean, newest), component=component)
        return bins, newest > 0

    def _after_commit(self, committed: CatalogSnapshot, handles: dict[int, Handle]) -> Steps:
        """Refresh after the commit, and delete useless files."""
        yield from self._read_catalog()
        for table_id in self._written:
            files, traits = files_of(committed, table_id), self.txn.get_traits()
            yield from self._metadata(accesses.METADATA_READ, metadata_size(files.model, files.snapshots + 1))
            if traits.list_after:
                size = list_size(files.model, files.manifests + traits.data + traits.deletes)
                yield from self._batches(accesses.LIST_READ, 1, size)
            handle = handles[table_id]
            if traits.kind == NO_SNAPSHOT:
                yield from self._clean_up(files, traits)
            yield from self._batches(accesses.FILE_DELETE, validation.files_of_lost_attempts(handle), 0)

    def _clean_up(self, files: TableFiles, traits: Traits) -> Steps:
        """Clean up after an expiry: read a list and a manifest for each snapshot, and delete files that are not needed."""
        pool = self.policy.max_parallel
        yield from self._batches(accesses.LIST_READ, files.snapshots, files.list_size, pool)
        yield from self._batches(accesses.FILE_READ, files.snapshots, files.model.manifest_bytes, pool)
        yield from self._batches(accesses.FILE_DELETE, max(files.snapshots - traits.retain, 0), 0, pool)

    def _metadata(self, access: accesses.FileAccess, size: int) -> Steps:
        if not self.policy.table_metadata_inlined:
            yield from self._batches(access, 1, size)


def files_of(snapshot: CatalogSnapshot, table_id: int) -> TableFiles:
    """Return the files of a table. Raises ValueError if the catalog does not keep account of them."""
    files = snapshot.get_table(table_id).files
    if files is None:
        raise ValueError("Iceberg's commit paths need a catalog that keeps account of files: give it a table_model")
    return files
