"""Run transactions on the commit paths of Iceberg's Java library (``iceberg``) and of PyIceberg (``pyiceberg``)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from endive.arithmetic.manifests import (
    Review,
    bins_of,
    files_made,
    files_of_lost_attempts,
    hits_of,
    is_start_expired,
    list_size,
    manifests_to_filter,
    mean_size,
    merged_size,
    metadata_size,
    nothing_found,
    reads_history,
    review_record,
    without_own,
)
from endive.catalog.snapshots import CatalogSnapshot
from endive.steps import RequestFailedError, Step
from endive.table import NO_SNAPSHOT, TableFiles, TableModel, Traits, pyiceberg_traits_of
from endive.transaction import types
from endive.transaction.account import Steps
from endive.transaction.lifecycle import AbortError, Lifecycle, RestartError
from endive.transaction.types import VALIDATION_EXCEPTION


@dataclass(slots=True)
class Handle:
    """State of a table when the operation last read it."""

    start: int
    """Number of snapshots in the table when the operation started."""
    version: int
    length: int
    """Number of snapshots in the table at the last attempt."""
    prepared: bool = False
    data_revision: int = 0
    delete_revision: int = 0
    merges: int = 0
    made_list: bool = False
    """True if the operation has written a manifest list."""
    lost: int = 0
    """Number of manifest lists and merged manifests that failed attempts have written."""
    made: int = 0
    """Number of manifests that the operation has written, without merged manifests."""
    merged: bool = False
    """True if the last attempt merged its new manifests."""
    bins: int = 0
    """Number of full bins of manifests that an earlier attempt has merged."""
    own: int = 0
    """Number of snapshots that the same job has committed since the start of the operation."""


def review(files: TableFiles, handle: Handle, traits: Traits, partitions: frozenset[int] | None) -> Review:
    """Review the snapshots committed since the start of an operation, newest first, if the operation depends on them."""
    found = nothing_found()
    if reads_history(traits):
        unseen = files.length - handle.length
        for age, record in enumerate(files.history(handle.start)):
            in_range = record.range_has(partitions)
            overlaps = in_range and record.overlaps(partitions)
            found = review_record(found, record, traits, in_range, overlaps, age < unseen)
    return found


class IcebergLifecycle(Lifecycle):
    """Transaction on the commit path of Iceberg's Java library.

    The protocol differs from ``lifecycle`` in three ways. Every attempt starts with a refresh and validation, so the first attempt
    also validates against commits made while the job ran. Later attempts reuse the manifests of the first attempt. Which files
    validation reads depends on the concurrent snapshots and their kinds (``endive.table``).

        attempt:  read the catalog; for each table: (read its metadata, if it has changed), (validate, sequentially),
                  (read the manifest list), (filter manifests, in the pool), (write new manifests, first attempt only),
                  (merge manifests), write the manifest list, write the metadata; commit
        failure:  (abort), back off; next attempt
        success:  read the catalog, the metadata and the manifest list; delete the manifest lists of failed attempts, and the
                  manifests that were merged or that failed attempts had merged; a failure here does not affect the commit
        abort:    delete all files that were written

    A table that has not changed since the last attempt adds no cost: that attempt failed because of a commit to another table of
    the same table group.
    """

    def _commit(self, snapshot: CatalogSnapshot) -> Steps:
        handles = {t: self._handle(snapshot, t) for t in self._written}
        try:
            yield from self._attempts(snapshot, handles)
        except (AbortError, RestartError):
            yield from self._delete_useless(handles)
            raise
        finally:
            if self.txn.job is not None:
                self.txn.job.versions = {table_id: handle.version for table_id, handle in handles.items()}

    def _delete_useless(self, handles: dict[int, Handle]) -> Steps:
        """Delete all files that the operation has written, after an abort."""
        for handle in handles.values():
            yield from self._batches(types.FILE_DELETE, files_made(handle, self.txn.get_traits()), 0)

    def _attempts(self, snapshot: CatalogSnapshot, handles: dict[int, Handle]) -> Steps:
        """Attempt the commit until it succeeds.

        Raises:
            AbortError: If the transaction aborts.
            RestartError: If the job restarts.
        """
        self.attempt = 0
        while True:
            current = yield from self._read_catalog()
            for table_id in self._written:
                yield from self._prepare(handles[table_id], table_id, current)
            result = yield from self._attempt(current)
            if result.success:
                # SnapshotProducer.commit catches every exception of the refresh and the cleanup, because the commit has succeeded.
                # RemoveSnapshots.commit does not, so its caller gets an error although the expiry has taken effect.
                with suppress(RequestFailedError):
                    yield from self._after_commit(current, handles)
                return
            yield from self._lost_attempt()

    def _handle(self, snapshot: CatalogSnapshot, table_id: int) -> Handle:
        length, job = files_of(snapshot, table_id).length, self.txn.job
        if job is not None:
            return Handle(length, job.versions[table_id], length, own=job.installs)
        return Handle(length, snapshot.get_table(table_id).version, length)

    def _prepare(self, handle: Handle, table_id: int, new: CatalogSnapshot) -> Steps:
        """Write the files of a new table version on top of the current version."""
        files, traits = files_of(new, table_id), self.txn.get_traits()
        version = new.get_table(table_id).version
        moved = version != handle.version
        if handle.prepared and not moved:
            return
        if moved:
            yield from self._metadata(types.METADATA_READ, files.metadata_size)
        if traits.kind != NO_SNAPSHOT:
            found = review(files, handle, traits, self._partitions(table_id))
            if not handle.prepared:
                found = without_own(found, handle.own)
            if traits.validates and is_start_expired(files, handle.start):
                raise AbortError(VALIDATION_EXCEPTION)
            yield from self._validate(handle, files, found, new)
            yield from self._make_snapshot(handle, files, found)
        yield from self._metadata(types.METADATA_WRITE, metadata_size(files.model, files.snapshots + 1))
        handle.version, handle.length, handle.prepared = version, files.length, True
        handle.data_revision, handle.delete_revision, handle.merges = files.data_revision, files.delete_revision, files.merges

    def _validate(self, handle: Handle, files: TableFiles, found: Review, new: CatalogSnapshot) -> Steps:
        """Validate the snapshots since the start of the operation, and read the current manifest list."""
        yield from self._read_since(files, found, new)
        head = files.head if files.length > handle.start else None
        if head is None or not head.kind & self.txn.get_traits().validates:
            yield from self._batches(types.LIST_READ, 1, files.list_size)

    def _read_since(self, files: TableFiles, found: Review, new: CatalogSnapshot) -> Steps:
        """Read the manifest lists and manifests that validation needs.

        Raises:
            AbortError: If a real conflict aborts the transaction.
            RestartError: If a real conflict restarts the job.
        """
        yield from self._batches(types.LIST_READ, found.lists, files.list_size, component=types.CONFLICT_IO)
        yield from self._batches(types.FILE_READ, found.manifests, files.model.manifest_bytes, component=types.CONFLICT_IO)
        if found.conflicting and self._is_real_conflict(new, found.conflicting):
            raise self._end_of_conflict()

    def _make_snapshot(self, handle: Handle, files: TableFiles, found: Review) -> Steps:
        """Filter, write and merge manifests, and write the manifest list."""
        traits, model = self.txn.get_traits(), files.model
        component = types.CONFLICT_IO if handle.prepared else types.PER_ATTEMPT_IO
        pool = self.policy.max_parallel
        mean = mean_size(model, files)
        hits, misses, deletes, delete_hits = manifests_to_filter(files, handle, traits, found)
        yield from self._batches(types.FILE_READ, hits + misses, mean, pool, component)
        if traits.reads_per_hit > 1:
            yield from self._batches(types.FILE_READ, hits, mean, pool, component)
        if traits.filters_deletes:
            yield from self._batches(types.FILE_READ, deletes + delete_hits, model.manifest_bytes, pool, component)
        yield from self._batches(types.FILE_WRITE, hits + delete_hits, mean, pool, component)
        handle.made += hits
        if not handle.prepared:
            handle.made += traits.data
            yield from self._batches(types.FILE_WRITE, traits.data + traits.deletes, model.manifest_bytes)
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
        yield from self._batches(types.LIST_WRITE, 1, size)
        handle.made_list = True

    def _merge(
        self, manifests: int, size: int, model: TableModel, component: str, cached: int = 0
    ) -> Generator[Step, None, tuple[int, bool]]:
        """Merge manifests if there are enough to merge.

        Bins of manifests are merged in parallel. The manifests of one bin are read sequentially. Bins that an earlier attempt
        merged are reused.

        Returns:
            Number of full bins, and whether the newest manifests were merged.
        """
        bins, per_bin, newest = bins_of(model, manifests, size)
        mean = size // max(manifests, 1)
        left = bins - cached
        while left > 0:
            at_once = min(left, self.policy.max_parallel)
            yield from self._batches(types.FILE_READ, at_once * per_bin, mean, at_once, component)
            yield from self._batches(types.FILE_WRITE, at_once, merged_size(model, mean, per_bin), at_once, component)
            left -= at_once
        if newest:
            yield from self._batches(types.FILE_READ, newest, mean, component=component)
            yield from self._batches(types.FILE_WRITE, 1, merged_size(model, mean, newest), component=component)
        return bins, newest > 0

    def _after_commit(self, committed: CatalogSnapshot, handles: dict[int, Handle]) -> Steps:
        """Read the table again after the commit, and delete the files that are no longer needed."""
        yield from self._read_catalog()
        for table_id in self._written:
            files, traits = files_of(committed, table_id), self.txn.get_traits()
            yield from self._metadata(types.METADATA_READ, metadata_size(files.model, files.snapshots + 1))
            if traits.list_after:
                size = list_size(files.model, files.manifests + traits.data + traits.deletes)
                yield from self._batches(types.LIST_READ, 1, size)
            handle = handles[table_id]
            if traits.kind == NO_SNAPSHOT:
                yield from self._clean_up(files, traits)
            yield from self._batches(types.FILE_DELETE, files_of_lost_attempts(handle), 0)

    def _clean_up(self, files: TableFiles, traits: Traits) -> Steps:
        """Clean up after an expiration of snapshots.

        The client reads a manifest list and a manifest of each snapshot, and deletes unreferenced files.
        """
        pool = self.policy.max_parallel
        yield from self._batches(types.LIST_READ, files.snapshots, files.list_size, pool)
        yield from self._batches(types.FILE_READ, files.snapshots, files.model.manifest_bytes, pool)
        expired = files.snapshots - files.kept_by(traits, self.commit_started_ms)
        yield from self._batches(types.FILE_DELETE, expired, 0, pool)

    def _metadata(self, access: types.FileAccess, size: int) -> Steps:
        if self.handles_metadata:
            yield from self._batches(access, 1, size)


def files_of(snapshot: CatalogSnapshot, table_id: int) -> TableFiles:
    """Return the metadata files of a table.

    Raises:
        ValueError: If the catalog does not track metadata files.
    """
    files = snapshot.get_table(table_id).files
    if files is None:
        raise ValueError("Iceberg's commit paths need a catalog that tracks metadata files; set its table_model")
    return files


class PyIcebergLifecycle(IcebergLifecycle):
    """Transaction on the commit path of PyIceberg.

    The protocol differs from that of the Java library in these ways:

    * The first attempt uses the snapshot from the start of the operation, without a refresh.
    * Before a commit, the client checks whether the table has changed in the catalog. If it has not, the client writes metadata and
      swaps the commit pointer.
    * Only retries validate, and each check reads manifest lists again.
    * An attempt reuses no files of earlier attempts.
    * The client reads nothing after the commit.

    The steps are:

        attempt:  (from the second attempt on: read the catalog and the metadata, and validate); write manifests and manifest
                  lists; read the catalog and the metadata; if the table is unchanged: write the metadata, commit
                  (REST catalog: commit in one request with its requirements)
        failure:  (abort), back off; next attempt
        end:      delete the manifests and manifest lists of failed attempts, after a commit or an abort
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.txn.settings.isolation is None:
            self.txn.settings = replace(self.txn.settings, isolation="serializable")

    def _snapshots(self) -> tuple[Traits, ...]:
        return pyiceberg_traits_of(self.txn.operation_type, self.txn.settings)

    def _delete_useless(self, handles: dict[int, Handle]) -> Steps:
        """Delete the manifests and manifest lists of failed attempts."""
        yield from self._batches(types.FILE_DELETE, self._lost_files, 0)

    def _attempts(self, snapshot: CatalogSnapshot, handles: dict[int, Handle]) -> Steps:
        self.attempt = self._lost_files = 0
        base = snapshot
        while True:
            written = self.counts[types.FILE_WRITE.counter] + self.counts[types.LIST_WRITE.counter]
            for table_id in self._written:
                yield from self._make_snapshots(handles[table_id], files_of(base, table_id), table_id)
            current = base
            if not self.catalog.takes_requirements:
                self._emit("check")
                current = yield from self._read_catalog()
                for table_id in self._written:
                    yield from self._metadata(types.METADATA_READ, files_of(current, table_id).metadata_size)
            if all(files_of(current, t).length == files_of(base, t).length for t in self._written):
                for table_id in self._written:
                    files = files_of(current, table_id)
                    size = metadata_size(files.model, files.snapshots + len(self._snapshots()))
                    yield from self._metadata(types.METADATA_WRITE, size)
                result = yield from self._attempt(current)
                if result.success:
                    with suppress(RequestFailedError):  # PyIceberg logs a failed delete
                        yield from self._delete_useless(handles)
                    return
            else:
                self._emit("check_failed")
            self._lost_files += self.counts[types.FILE_WRITE.counter] + self.counts[types.LIST_WRITE.counter] - written
            yield from self._lost_attempt()
            base = yield from self._read_catalog()
            for table_id in self._written:
                yield from self._metadata(types.METADATA_READ, files_of(base, table_id).metadata_size)
                yield from self._validate_again(handles[table_id], table_id, base)

    def _validate_again(self, handle: Handle, table_id: int, new: CatalogSnapshot) -> Steps:
        """Validate the snapshots since the start of the operation."""
        files, traits = files_of(new, table_id), self._snapshots()[0]
        if not traits.validates:
            return
        if is_start_expired(files, handle.start):
            raise AbortError(VALIDATION_EXCEPTION)
        found = review(files, handle, traits, self._partitions(table_id))
        handle.length = files.length
        yield from self._read_since(files, found, new)

    def _make_snapshots(self, handle: Handle, files: TableFiles, table_id: int) -> Steps:
        """Write the manifests and the manifest list of each snapshot of the commit, in order."""
        model = files.model
        for traits in self._snapshots():
            if traits.data:
                yield from self._together(files)
                if traits.merges:
                    yield from self._merge(files.data + 1, files.data_bytes + model.manifest_bytes, model, types.PER_ATTEMPT_IO)
            else:
                found = review(files, handle, traits, self._partitions(table_id))
                yield from self._batches(types.LIST_READ, 1, files.list_size)
                read = hits_of(files, traits) + found.hits + found.misses
                yield from self._batches(types.FILE_READ, read, model.manifest_bytes)
                yield from self._batches(types.FILE_WRITE, 1, model.manifest_bytes)
            yield from self._batches(types.LIST_WRITE, 1, list_size(model, files.manifests + 1))

    def _together(self, files: TableFiles) -> Steps:
        """Write the new manifest and read the manifest list concurrently."""
        read = self.storage.slowest_read_ms(types.LIST_READ.kind, files.list_size, 1)
        write = self.storage.slowest_write_ms(types.FILE_WRITE.kind, files.model.manifest_bytes, 1)
        yield from self._send_together(max(read, write), (types.LIST_READ, types.FILE_WRITE), types.PER_ATTEMPT_IO)
