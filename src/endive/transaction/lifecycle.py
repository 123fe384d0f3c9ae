"""Run transactions on the simplified commit path (``endive``), which is the base class of the other commit paths.

start:    read the catalog, (read table metadata), run the job
attempt:  (write manifests, unless the last manifests are still valid), commit
failure:  (abort), back off, read the catalog; on an overlap read and rewrite metadata, and on a real conflict
          abort, merge or restart; next attempt
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from endive.arithmetic.backoff import SLOTS, next_wait_ms, state_after_loss_ms
from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms, status_check_wait_ms
from endive.catalog.snapshots import CatalogSnapshot, CommitResult, IntentionRecord
from endive.randomness import Purpose, TransactionStreams
from endive.steps import REQUEST_FAILED, RequestFailedError, Step
from endive.storage import MANIFEST_LIST
from endive.table import APPEND, NO_SNAPSHOT, TableChange, Traits
from endive.table.files import ManifestLists
from endive.transaction import types
from endive.transaction.account import Account, Steps
from endive.transaction.policy import CLIENT_CRASH, COMMIT_STATE_UNKNOWN, CommitPolicy, Failures
from endive.transaction.types import ConflictCost, Tracer, TransactionResult, TransactionStatus

if TYPE_CHECKING:
    from endive.catalog import Catalog, TableChanges
    from endive.storage import StorageProvider
    from endive.transaction.operation_classes import ConflictDetector, Transaction


class AbortError(Exception):
    """Raised if the transaction aborts. The message is the abort reason."""


class RestartError(Exception):
    """Raised if the application restarts the job after a real conflict."""


class Lifecycle(Account):
    """Transaction on the simplified commit path, with its times and counters."""

    def __init__(
        self,
        txn: Transaction,
        catalog: Catalog,
        storage: StorageProvider,
        conflict_detector: ConflictDetector,
        max_retries: int,
        ml_append_mode: bool,
        *,
        policy: CommitPolicy | None,
        streams: TransactionStreams | None,
        manifest_lists: ManifestLists | None,
        trace: Tracer | None,
    ) -> None:
        super().__init__(txn, storage, policy or CommitPolicy(), streams, trace)
        self.max_retries = max_retries
        self.ml_append_mode = ml_append_mode
        bound = catalog.bind(None if streams is None else streams.stream(Purpose.CATALOG), txn.group)
        self.catalog = bound.restrict(txn.tables_read)
        handles = txn.handles if self.policy.path.keeps_files else None
        self._kept_snapshot = None if handles is None else self.catalog.keep_handles(handles)
        """Cached state from which the transaction starts, or None if it must read the catalog."""
        self.handles_metadata = self.policy.handles_metadata(server_writes=bound.takes_requirements)
        self.detector = conflict_detector
        self._bind_detector = streams is not None
        self._written = sorted(txn.tables_written)
        self._only_read = txn.tables_read - txn.tables_written
        self._tracks_files = bool(self._written) and getattr(catalog, "table_model", None) is not None
        self.manifest_lists = manifest_lists or ManifestLists(max(txn.tables_read, default=0) + 1)
        self.known = txn.known_versions
        """Cached table versions of the writer, or None if it has no cache."""
        self.backoff_state_ms = self.policy.backoff.base_ms if txn.backoff_state_ms is None else txn.backoff_state_ms

    def _snapshots(self) -> tuple[Traits, ...]:
        """Return the traits of each snapshot of the commit, in order."""
        return (self.txn.get_traits(),)

    def _table_changes(self) -> dict[str, Mapping[int, TableChanges]]:
        """Return the argument ``changes`` of ``Catalog.commit``: the changes of the written tables.

        The dictionary is empty if the catalog does not track metadata files.
        """
        if not self._tracks_files:
            return {}
        snapshots, time_ms = self._snapshots(), self.commit_started_ms
        return {
            "changes": {
                table_id: tuple(TableChange(traits, self._partitions(table_id), time_ms) for traits in snapshots)
                for table_id in self._written
            }
        }

    def _partitions(self, table_id: int) -> frozenset[int] | None:
        """Return the partitions of a table that the transaction writes, or None if it does not track partitions."""
        written = self.txn.partitions_written
        return None if written is None else written.get(table_id, frozenset())

    def run(self) -> Generator[Step, None, TransactionResult]:
        """Run the transaction from submission to commit or abort.

        The generator yields latencies and returns the result of the transaction.
        """
        self._emit("submit")
        while True:
            try:
                if self.counts["restarts"]:
                    self._start_time_limit()
                self.start_snapshot = snapshot = yield from self._start()
            except RequestFailedError as error:
                return self._finish(TransactionStatus.ABORTED, str(error))
            if not self.txn.tables_written:
                return self._finish(TransactionStatus.COMMITTED)
            self.status = TransactionStatus.COMMITTING
            self.commit_started_ms = self.now_ms
            if self.entered_ms < 0.0:
                self.entered_ms = self.now_ms
            try:
                yield from self._commit(snapshot)
            except RestartError:
                self._leave_commit()
                self.counts["restarts"] += 1
                self._emit("restart")
                continue
            except (AbortError, RequestFailedError) as abort:
                self._leave_commit()
                return self._finish(TransactionStatus.ABORTED, str(abort))
            self._leave_commit()
            return self._finish(TransactionStatus.COMMITTED)

    def _start(self) -> Generator[Step, None, CatalogSnapshot]:
        """Read the catalog and run the job.

        A job with several commits reads the catalog once, and does a part of its work before each commit.
        """
        self.status = TransactionStatus.EXECUTING
        job = self.txn.job
        if job is not None and job.start is not None:
            yield from self._wait(self.txn.runtime_ms, types.RUNTIME, "runtime")
            return job.start
        kept = self._kept_snapshot if self.counts["restarts"] == 0 else None
        snapshot = kept or (yield from self._read_catalog())
        if self.handles_metadata and kept is None:
            yield from self._access(types.METADATA_READ, self._tables_to_load(snapshot), types.CATALOG_READ)
        if job is not None:
            job.start, job.start_ms = snapshot, self.now_ms
            job.versions = {table_id: snapshot.get_table(table_id).version for table_id in self._written}
        yield from self._wait(self.txn.runtime_ms, types.RUNTIME, "runtime")
        return snapshot

    def _tables_to_load(self, snapshot: CatalogSnapshot) -> int:
        """Return the number of tables whose metadata the writer must read.

        A writer with a cache reads only the tables that changed.
        """
        if self.known is None:
            return len(self.txn.tables_read)
        versions = {table_id: snapshot.get_table(table_id).version for table_id in self.txn.tables_read}
        moved = sum(self.known.get(table_id) != version for table_id, version in versions.items())
        self.known.update(versions)
        return moved

    def _commit(self, snapshot: CatalogSnapshot) -> Steps:
        """Attempt the commit until it succeeds.

        Raises:
            AbortError: If the transaction aborts.
            RestartError: If the job restarts.
        """
        self.attempt = 0
        tables, append = self._written, True
        while True:
            if tables:
                yield from self._make_manifests(tables, append)
            result = yield from self._attempt(snapshot)
            if result.success:
                return
            yield from self._lost_attempt()
            current = yield from self._read_catalog()
            tables = []
            if self.txn.has_write_overlap(snapshot, current):
                tables = self.txn.overlapping_tables(snapshot, current) or self._written
                append = yield from self._resolve_conflict(snapshot, current, len(tables))
            else:
                self._emit("conflict", kind="none")
            snapshot = current

    def _lost_attempt(self) -> Steps:
        """Continue after a failed attempt: abort after the last retry or at a timeout, otherwise back off."""
        policy = self.policy
        if self.attempt >= self.max_retries:
            raise AbortError(types.MAX_RETRIES_EXCEEDED)
        timeout = policy.total_timeout_ms if self.attempt >= policy.timeout_from_retry else None
        if timeout is not None and self.now_ms - self.commit_started_ms > timeout:
            raise AbortError(types.COMMIT_TIMEOUT)
        self._start_time_limit()
        self.attempt += 1
        self.counts["total_retries"] += 1
        yield from self._back_off()

    def _attempt(self, snapshot: CatalogSnapshot) -> Generator[Step, None, CommitResult]:
        """Attempt one commit on top of a snapshot. If the response is lost, determine the outcome."""
        txn = self.txn
        writes = {table_id: snapshot.get_table(table_id).version + 1 for table_id in self._written}
        intention = IntentionRecord(
            txn.txn_id,
            snapshot.seq,
            writes,
            tables_read={table_id: snapshot.get_table(table_id).version for table_id in self._only_read},
            expected_offset=snapshot.log_offset,
            refs={table_id: snapshot.get_table(table_id).ref for table_id in self._written},
            moves_ref=any(traits.kind != NO_SNAPSHOT for traits in self._snapshots()),
            rebasable=all(traits.kind == APPEND for traits in self._snapshots()),
        )
        changes = self._table_changes()
        self._emit("attempt")
        failures = self.policy.failures
        if failures is not None and self._fails(failures.client_crash):
            raise RequestFailedError(CLIENT_CRASH)
        while True:
            yield from self._request_errors(types.CATALOG_COMMIT)
            result, elapsed = yield from self._run_request(
                self.catalog.commit(
                    snapshot.seq, writes, self.now_ms, intention, partitions_written=txn.partitions_written, **changes
                ),
                types.CATALOG_COMMIT,
            )
            self.installed = self.catalog.installed_files or self.installed
            elapsed += yield from self._compute()
            self.times[types.CATALOG_COMMIT] += elapsed
            self.counts["event_count"] += result.round_trips
            self.counts["installs"] += result.success and not intention.applied
            is_late = self.now_ms > self.deadline_ms
            if not is_late and (failures is None or not self._fails(failures.lost_answer)):
                break
            self.counts["unknown_outcomes"] += 1
            if result.success and not intention.applied:
                self._emit_versions("answer_lost", snapshot, self._written, elapsed)
            else:
                self._emit("answer_lost", duration_ms=elapsed)
            self._check_deadline()
            assert failures is not None
            if failures.on_unknown == "check":
                yield from self._check_status(failures)
                result = replace(result, reason=None)
                break
            if failures.on_unknown == "retry":
                return CommitResult(False, elapsed)
            intention = replace(intention, applied=result.success)
        self._emit_versions("commit" if result.success else "commit_failed", snapshot, self._written, elapsed)
        if result.reason == REQUEST_FAILED:
            raise RequestFailedError(REQUEST_FAILED)
        if result.reason is not None:
            raise AbortError(result.reason)
        if result.success:
            self.deadline_ms = math.inf
            if self.known is not None:
                self.known.update(writes)
        return result

    def _check_status(self, failures: Failures) -> Steps:
        """Read the catalog to determine the outcome of a commit.

        If a check fails or its response is lost, the client checks again.

        Raises:
            RequestFailedError: If the last check fails.
        """
        check = 0
        while True:
            try:
                yield from self._read_catalog()
                if not self._fails(failures.lost_answer):
                    return
            except RequestFailedError as error:
                if error.reason == types.OPERATION_TIMEOUT:
                    raise
            check += 1
            if check > failures.status_checks:
                raise RequestFailedError(COMMIT_STATE_UNKNOWN)
            wait = status_check_wait_ms(check, failures.min_wait_ms, failures.max_wait_ms)
            yield from self._wait(wait, types.BACKOFF, "status_check")

    def _resolve_conflict(self, old: CatalogSnapshot, new: CatalogSnapshot, tables: int) -> Generator[Step, None, bool]:
        """Resolve an overlap in ``tables`` tables.

        Returns:
            Whether the client must append its entries to the manifest lists again (ML+).
        """
        txn, policy = self.txn, self.policy
        behind = txn.snapshots_behind(old, new)
        yield from self._pay_conflict(txn.get_conflict_cost(behind, self.ml_append_mode))
        if not (self._is_real_conflict(new, behind) and txn.should_abort_on_real_conflict()):
            return False
        if policy.on_real_conflict == "merge":
            manifests = policy.conflicting_manifests.sample(self.streams.stream(Purpose.CONFLICT))
            merge = ConflictCost(manifest_list_reads=tables, manifest_file_reads=manifests, manifest_file_writes=manifests)
            yield from self._pay_conflict(merge)
            return True
        raise self._end_of_conflict()

    def _is_real_conflict(self, current: CatalogSnapshot, behind: int) -> bool:
        """Return whether commits since the start of the job are a real conflict, and update the counters of conflicts."""
        real = self.txn.can_have_real_conflict() and self._bound_detector().is_real_conflict(self.txn, current, self.start_snapshot)
        return self._count_conflict(real, behind)

    def _bound_detector(self) -> ConflictDetector:
        """Return the conflict detector with the random stream of the transaction."""
        if self._bind_detector:
            self.detector = self.detector.bind(self.streams.stream(Purpose.CONFLICT))
            self._bind_detector = False
        return self.detector

    def _count_conflict(self, real: bool, behind: int) -> bool:
        self.counts["real_conflicts" if real else "false_conflicts"] += 1
        self._emit("conflict", kind="real" if real else "false", count=behind)
        return real

    def _end_of_conflict(self) -> Exception:
        """Return the exception that ends the attempts after a real conflict."""
        if self.policy.on_real_conflict == "restart" and self.counts["restarts"] < self.policy.max_restarts:
            return RestartError()
        return AbortError(types.VALIDATION_EXCEPTION)

    def _pay_conflict(self, cost: ConflictCost) -> Steps:
        reads, writes = types.in_order(cost)
        yield from self._pay(reads + writes, types.CONFLICT_IO)

    def _make_manifests(self, tables: Sequence[int], append: bool) -> Steps:
        """Write the manifests of an attempt.

        The client reads each manifest list, writes a manifest, and writes the list or appends to it.
        """
        lists = self.manifest_lists
        cost = self.txn.get_per_attempt_cost(self.ml_append_mode)
        if len(tables) < len(self._written):
            cost = types.share(cost, len(tables), len(self._written))
        reads, writes = types.in_order(cost)
        yield from self._pay(reads, types.PER_ATTEMPT_IO)
        appends = self.ml_append_mode and append and cost.manifest_file_writes
        ends = [(table_id, *lists.end_of(table_id)) for table_id in tables] if appends else []
        yield from self._pay(writes, types.PER_ATTEMPT_IO)
        for table_id, offset, sealed in ends:
            yield from self._append_entry(table_id, offset, sealed)
        if self.handles_metadata:
            yield from self._access(types.METADATA_WRITE, len(tables), types.PER_ATTEMPT_IO)

    def _append_entry(self, table_id: int, offset: int, sealed: bool) -> Steps:
        """Append a tentative entry at the last known end of a manifest list (ML+). If the list is sealed, first rewrite it."""
        lists, entry_bytes = self.manifest_lists, self.policy.manifest_list_entry_bytes
        landed = False
        while not landed:
            if sealed:
                yield from self._access(types.LIST_READ, 1, types.PER_ATTEMPT_IO)
                yield from self._access(types.LIST_WRITE, 1, types.PER_ATTEMPT_IO)
                lists.replace_sealed(table_id)
                offset, sealed = lists.end_of(table_id)
            request = self.storage.append_ms(MANIFEST_LIST, offset, entry_bytes)
            effect = moment_of_effect_ms(request.success_ms, self.policy.linearization)
            yield effect
            self.now_ms += effect
            landed = lists.append(table_id, offset, entry_bytes)
            offset, sealed = lists.end_of(table_id)
            rest = (request.success_ms if landed else failed_answer_ms(effect, request.failure_ms)) - effect
            if rest > 0.0:
                yield rest
                self.now_ms += rest
            elapsed = effect + rest + (yield from self._compute())
            self._enter(types.PER_ATTEMPT_IO, elapsed)
            self._check_deadline()
            self.counts[types.LIST_APPENDS] += 1
            self._emit("io", types.LIST_APPENDS, duration_ms=elapsed)

    def _read_catalog(self) -> Generator[Step, None, CatalogSnapshot]:
        yield from self._request_errors(types.CATALOG_READ)
        snapshot, elapsed = yield from self._run_request(self.catalog.read(self.now_ms), types.CATALOG_READ)
        elapsed += yield from self._compute()
        self._enter(types.CATALOG_READ, elapsed)
        self._check_deadline()
        self._emit_versions("catalog_read", snapshot, sorted(self.txn.tables_read), elapsed)
        return snapshot

    def _back_off(self) -> Steps:
        backoff, kind = self.policy.backoff, self.policy.backoff.code
        if not backoff.enabled:
            return
        if kind == SLOTS and self.attempt == 1:
            self.backoff_state_ms = self.now_ms - self.commit_started_ms
        base_ms, multiplier, max_ms = backoff.base_ms, backoff.multiplier, backoff.max_ms
        u, state_ms = self.streams.stream(Purpose.BACKOFF).random_sample(), self.backoff_state_ms
        wait = next_wait_ms(kind, self.attempt, base_ms, multiplier, max_ms, backoff.jitter, backoff.upwards, state_ms, u)
        self.backoff_state_ms = state_after_loss_ms(kind, state_ms, wait, multiplier, max_ms)
        yield from self._wait(wait, types.BACKOFF, "backoff")
