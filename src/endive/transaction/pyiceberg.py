"""Run transactions on the commit path of PyIceberg (``pyiceberg``).

The protocol differs from that of the Java library in these ways:

* The first attempt uses the snapshot from the start of the operation, without a refresh.
* Before a commit, the client checks whether the table has changed in the catalog. If it has not, the client writes metadata and
  swaps the commit pointer.
* Validation starts with the first retry, and reads manifest lists again for each check.
* An attempt reuses no files of earlier attempts.
* The client reads nothing after the commit.

The steps are:

    attempt:  (from the second attempt on: read the catalog and the metadata, and validate); write manifests and manifest lists;
              read the catalog and the metadata; if the table is unchanged: write the metadata, commit
              (REST catalog: commit in one request with its requirements)
    failure:  (abort), back off; next attempt
    end:      delete the manifests and manifest lists of failed attempts, after a commit or an abort
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from endive.arithmetic.manifests import hits_of, list_size, metadata_size
from endive.arithmetic.validation import is_start_expired
from endive.catalog.snapshots import CatalogSnapshot
from endive.steps import RequestFailedError
from endive.table import TableFiles, Traits, pyiceberg_traits_of
from endive.transaction import types
from endive.transaction.account import Steps
from endive.transaction.iceberg import Handle, IcebergLifecycle, files_of, review
from endive.transaction.lifecycle import AbortError
from endive.transaction.types import VALIDATION_EXCEPTION


class PyIcebergLifecycle(IcebergLifecycle):
    """Transaction on the commit path of PyIceberg."""

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
        slower, failures = max(read, write), self.policy.failures
        if failures is not None:
            slower += self._resends_ms(failures.request_error, 2, slower)
            yield from self._fatal_error(2, slower, types.PER_ATTEMPT_IO)
        yield from self._wait(slower + self._client_ms(), types.PER_ATTEMPT_IO, "io_together")
        for access in (types.LIST_READ, types.FILE_WRITE):
            self.counts[access.counter] += 1
            self._emit("io", access.counter)
