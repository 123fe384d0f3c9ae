"""The way of a transaction through the commit protocol (commit path ``endive``).

Yields latencies one step at a time and returns the result. The lifecycle owns the account of one transaction: its clock, its counts
and where its time went. A step is entered into the account when it is finished, so that a run may be cut off at any moment and the
account is still right.

    start:    read the catalog, (read table metadata), work
    attempt:  (make manifests, unless the last ones are still valid), commit
    failure:  (give up), back off, read the catalog; on an overlap pay for the conflict, and if it is a real one
              abort, merge or restart; attempt again
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from endive.arithmetic.backoff import SLOTS, next_wait_ms, state_after_loss_ms
from endive.arithmetic.costs import (
    any_error_probability,
    failed_answer_ms,
    moment_of_effect_ms,
    orphaned_files,
    sdk_resend_wait_ms,
    status_check_wait_ms,
)
from endive.catalog.types import CatalogSnapshot, CommitResult, IntentionRecord
from endive.randomness import Purpose, TransactionStreams
from endive.steps import FailedAnswer, RequestFailedError, Step, WaitFor
from endive.storage import MANIFEST_LIST
from endive.table import APPEND, NO_SNAPSHOT, TableChange, Traits
from endive.transaction.accesses import (
    BACKOFF,
    CATALOG_COMMIT,
    CATALOG_READ,
    CONFLICT_IO,
    COUNTERS,
    FILE_DELETE,
    FILE_WRITE,
    LIST_APPENDS,
    LIST_READ,
    LIST_WRITE,
    METADATA_READ,
    METADATA_WRITE,
    PER_ATTEMPT_IO,
    RUNTIME,
    TIMES,
    Accesses,
    FileAccess,
    in_order,
    share,
)
from endive.transaction.failures import CLIENT_CRASH, COMMIT_STATE_UNKNOWN, Failures
from endive.transaction.manifest_lists import ManifestLists
from endive.transaction.policy import CommitPolicy
from endive.transaction.trace import TraceEvent, Tracer
from endive.transaction.types import (
    COMMIT_TIMEOUT,
    MAX_RETRIES_EXCEEDED,
    VALIDATION_EXCEPTION,
    ConflictCost,
    TransactionResult,
    TransactionStatus,
)

if TYPE_CHECKING:
    from endive.catalog import Catalog, TableChanges
    from endive.storage import StorageProvider
    from endive.transaction.base import ConflictDetector, Transaction

Steps = Generator[Step, None, None]
T = TypeVar("T")


class AbortError(Exception):
    """The transaction gives up."""


class RestartError(Exception):
    """The application starts the operation again."""


class Lifecycle:
    """One transaction on its way, and the account of it."""

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
        self.txn = txn
        self.policy = policy or CommitPolicy()
        self.max_retries = max_retries
        self.ml_append_mode = ml_append_mode
        self.streams = streams or TransactionStreams(txn.txn_id)
        bound = catalog.bind(None if streams is None else streams.stream(Purpose.CATALOG), txn.group)
        self.catalog = bound.narrowed(txn.tables_read)
        self.storage = storage if streams is None else storage.bind(streams.stream(Purpose.STORAGE))
        self.detector = conflict_detector
        self._bind_detector = streams is not None
        self._written = sorted(txn.tables_written)
        self._only_read = txn.tables_read - txn.tables_written
        self._changes = self._table_changes(catalog)
        self.manifest_lists = manifest_lists or ManifestLists(max(txn.tables_read, default=0) + 1)
        self.trace = trace
        self.known = txn.known_versions
        """Versions of tables whose metadata the writer holds."""
        self.backoff_state_ms = self.policy.backoff.base_ms if txn.backoff_state_ms is None else txn.backoff_state_ms

        self.status = TransactionStatus.PENDING
        self.now_ms = txn.submit_time_ms
        self.attempt = 0
        self.retries = 0
        self.restarts = 0
        self.false_conflicts = 0
        self.real_conflicts = 0
        self.event_count = 0
        self.unknown_outcomes = 0
        self.installs = 0
        self.commit_latency_ms = 0.0
        self.commit_started_ms = 0.0
        """When the commit began that is under way, or was last; a restart begins another."""
        self.entered_ms = -1.0
        self.times = dict.fromkeys(TIMES, 0.0)
        self.counts = dict.fromkeys(COUNTERS, 0)

    def _snapshots(self) -> tuple[Traits, ...]:
        """What the snapshots of the transaction are to Iceberg, in the order in which it makes them."""
        return (self.txn.get_traits(),)

    def _table_changes(self, catalog: Catalog) -> dict[str, Mapping[int, TableChanges]]:
        """What the transaction does to the files of its tables, for a catalog that keeps account of them."""
        if not self._written or getattr(catalog, "table_model", None) is None:
            return {}
        snapshots = self._snapshots()
        return {
            "changes": {
                table_id: tuple(TableChange(traits, self._partitions(table_id)) for traits in snapshots)
                for table_id in self._written
            }
        }

    def _partitions(self, table_id: int) -> frozenset[int] | None:
        """The partitions of a table that the transaction writes; None may be any."""
        written = self.txn.partitions_written
        return None if written is None else written.get(table_id, frozenset())

    def run(self) -> Generator[Step, None, TransactionResult]:
        """From submission to commit or abort."""
        self._emit("submit")
        while True:
            try:
                self.start_snapshot = snapshot = yield from self._start()
            except RequestFailedError as error:
                self._emit("abort", kind=str(error))
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
                self.restarts += 1
                self._emit("restart")
                continue
            except (AbortError, RequestFailedError) as abort:
                self._leave_commit()
                self._emit("abort", kind=str(abort))
                return self._finish(TransactionStatus.ABORTED, str(abort))
            self._leave_commit()
            return self._finish(TransactionStatus.COMMITTED)

    def _start(self) -> Generator[Step, None, CatalogSnapshot]:
        """Read the state that the work is based on, and work."""
        self.status = TransactionStatus.EXECUTING
        snapshot = yield from self._read_catalog()
        if not self.policy.table_metadata_inlined:
            yield from self._access(METADATA_READ, self._tables_to_load(snapshot), CATALOG_READ)
        yield from self._wait(self.txn.runtime_ms, RUNTIME, "runtime")
        return snapshot

    def _tables_to_load(self, snapshot: CatalogSnapshot) -> int:
        """How many tables' metadata the writer has to read: all, or those that have moved since it last saw them."""
        if self.known is None:
            return len(self.txn.tables_read)
        versions = {table_id: snapshot.get_table(table_id).version for table_id in self.txn.tables_read}
        moved = sum(self.known.get(table_id) != version for table_id, version in versions.items())
        self.known.update(versions)
        return moved

    def _commit(self, snapshot: CatalogSnapshot) -> Steps:
        """Attempts until one succeeds; otherwise it raises what ended them."""
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
        """Give up, or wait for the next attempt."""
        policy = self.policy
        if self.attempt >= self.max_retries:
            raise AbortError(MAX_RETRIES_EXCEEDED)
        timeout = policy.total_timeout_ms if self.attempt >= policy.timeout_from_retry else None
        if timeout is not None and self.now_ms - self.commit_started_ms > timeout:
            raise AbortError(COMMIT_TIMEOUT)
        self.attempt += 1
        self.retries += 1
        yield from self._back_off()

    def _attempt(self, snapshot: CatalogSnapshot) -> Generator[Step, None, CommitResult]:
        """One commit, based on a snapshot."""
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
        self._emit("attempt")
        failures = self.policy.failures
        if failures is not None and self._fails(failures.client_crash):
            raise RequestFailedError(CLIENT_CRASH)
        while True:
            yield from self._request_errors(CATALOG_COMMIT)
            result, elapsed = yield from self._clocked(
                self.catalog.commit(
                    snapshot.seq, writes, self.now_ms, intention, partitions_written=txn.partitions_written, **self._changes
                ),
                CATALOG_COMMIT,
            )
            elapsed += yield from self._compute()
            self.times[CATALOG_COMMIT] += elapsed
            self.event_count += result.round_trips
            self.installs += result.success and not intention.applied
            if failures is None or not self._fails(failures.lost_answer):
                break
            self.unknown_outcomes += 1
            if result.success and not intention.applied:
                self._emit_versions("answer_lost", snapshot, self._written, elapsed)
            else:
                self._emit("answer_lost", duration_ms=elapsed)
            if failures.on_unknown == "check":
                yield from self._check_status(failures)
                result = replace(result, reason=None)
                break
            if failures.on_unknown == "retry":
                return CommitResult(False, elapsed)
            intention = replace(intention, applied=result.success)
        self._emit_versions("commit" if result.success else "commit_failed", snapshot, self._written, elapsed)
        if result.reason is not None:
            raise AbortError(result.reason)
        if result.success and self.known is not None:
            self.known.update(writes)
        return result

    def _fails(self, probability: float) -> bool:
        """Whether something fails that is as likely as that; what cannot fail draws nothing."""
        return probability > 0.0 and self.streams.stream(Purpose.FAILURE).random_sample() < probability

    def _check_status(self, failures: Failures) -> Steps:
        """Read the catalog to learn what became of a commit, again while the answer is lost; raises if it is in the end."""
        check = 0
        while True:
            yield from self._read_catalog()
            check += 1
            if not self._fails(failures.lost_answer):
                return
            if check > failures.status_checks:
                raise RequestFailedError(COMMIT_STATE_UNKNOWN)
            wait = status_check_wait_ms(check, failures.min_wait_ms, failures.max_wait_ms)
            yield from self._wait(wait, BACKOFF, "status_check")

    def _request_errors(self, component: str) -> Steps:
        """The waits of the SDK for requests to the catalog that fail before they get there."""
        failures = self.policy.failures
        if failures is None or failures.request_error == 0.0:
            return
        waited = self._resends_ms(failures.request_error, 1, 0.0)
        if waited > 0.0:
            yield waited
            self.now_ms += waited
            self.times[component] += waited

    def _resends_ms(self, request_error: float, requests: int, latency_ms: float) -> float:
        """What errors of some of the requests add: each one's latency again, and the wait of the SDK before."""
        added, errors = 0.0, 0
        probability = any_error_probability(request_error, requests)
        while self._fails(probability):
            errors += 1
            added += sdk_resend_wait_ms(errors, self.streams.stream(Purpose.FAILURE).random_sample()) + latency_ms
            probability = request_error
        return added

    def _resolve_conflict(self, old: CatalogSnapshot, new: CatalogSnapshot, tables: int) -> Generator[Step, None, bool]:
        """Pay for an overlap in so many tables; says whether entries in manifest lists have to be appended anew (ML+)."""
        txn, policy = self.txn, self.policy
        behind = txn.snapshots_behind(old, new)
        yield from self._pay_conflict(txn.get_conflict_cost(behind, self.ml_append_mode))
        if not (self._is_real_conflict(new, behind) and txn.should_abort_on_real_conflict()):
            return False
        if policy.on_real_conflict == "merge":
            manifests = policy.conflicting_manifests.sample(self.streams.stream(Purpose.CONFLICT))
            merge = ConflictCost(
                manifest_list_reads=tables,
                manifest_file_reads=manifests,
                manifest_file_writes=manifests,
            )
            yield from self._pay_conflict(merge)
            return True
        raise self._end_of_conflict()

    def _is_real_conflict(self, current: CatalogSnapshot, behind: int) -> bool:
        """Ask the detector about what came between since the work began."""
        if self._bind_detector:
            self.detector = self.detector.bind(self.streams.stream(Purpose.CONFLICT))
            self._bind_detector = False
        real = self.detector.is_real_conflict(self.txn, current, self.start_snapshot)
        if real:
            self.real_conflicts += 1
        else:
            self.false_conflicts += 1
        self._emit("conflict", kind="real" if real else "false", count=behind)
        return real

    def _end_of_conflict(self) -> Exception:
        """How a real conflict ends the attempts, if it is not merged."""
        if self.policy.on_real_conflict == "restart" and self.restarts < self.policy.max_restarts:
            return RestartError()
        return AbortError(VALIDATION_EXCEPTION)

    def _pay_conflict(self, cost: ConflictCost) -> Steps:
        reads, writes = in_order(cost)
        yield from self._pay(reads, CONFLICT_IO)
        yield from self._pay(writes, CONFLICT_IO)

    def _make_manifests(self, tables: Sequence[int], append: bool) -> Steps:
        """Pay the I/O of an attempt for these tables: read the list, write a manifest and the new list (or append to it)."""
        lists = self.manifest_lists
        cost = self.txn.get_per_attempt_cost(self.ml_append_mode)
        if len(tables) < len(self._written):
            cost = share(cost, len(tables), len(self._written))
        reads, writes = in_order(cost)
        yield from self._pay(reads, PER_ATTEMPT_IO)
        appends = self.ml_append_mode and append and cost.manifest_file_writes
        ends = [(table_id, *lists.end_of(table_id)) for table_id in tables] if appends else []
        yield from self._pay(writes, PER_ATTEMPT_IO)
        for table_id, offset, sealed in ends:
            yield from self._append_entry(table_id, offset, sealed)
        if not self.policy.table_metadata_inlined:
            yield from self._access(METADATA_WRITE, len(tables), PER_ATTEMPT_IO)

    def _append_entry(self, table_id: int, offset: int, sealed: bool) -> Steps:
        """Append a tentative entry to a manifest list (ML+), where it was last seen to end; rewrite a sealed list first."""
        lists, entry_bytes = self.manifest_lists, self.policy.manifest_list_entry_bytes
        landed = False
        while not landed:
            if sealed:
                yield from self._access(LIST_READ, 1, PER_ATTEMPT_IO)
                yield from self._access(LIST_WRITE, 1, PER_ATTEMPT_IO)
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
            self._enter(PER_ATTEMPT_IO, elapsed)
            self.counts[LIST_APPENDS] += 1
            self._emit("io", LIST_APPENDS, duration_ms=elapsed)

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def _read_catalog(self) -> Generator[Step, None, CatalogSnapshot]:
        yield from self._request_errors(CATALOG_READ)
        snapshot, elapsed = yield from self._clocked(self.catalog.read(self.now_ms), CATALOG_READ)
        elapsed += yield from self._compute()
        self._enter(CATALOG_READ, elapsed)
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
        yield from self._wait(wait, BACKOFF, "backoff")

    def _client_ms(self) -> float:
        """How long the client computes for one access."""
        time = self.policy.client_time
        return 0.0 if time is None else time.sample(self.streams.stream(Purpose.CLIENT))

    def _compute(self) -> Generator[Step, None, float]:
        """Let the client compute after an access to the catalog; returns how long it took."""
        if self.policy.client_time is None:
            return 0.0
        duration_ms = self._client_ms()
        yield duration_ms
        self.now_ms += duration_ms
        return duration_ms

    def _wait(self, duration_ms: float, component: str, event: str) -> Steps:
        yield duration_ms
        self.now_ms += duration_ms
        self._enter(component, duration_ms)
        self._emit(event, duration_ms=duration_ms)

    def _pay(self, accesses: Accesses, component: str) -> Steps:
        for access, count in accesses:
            if count > 0:
                yield from self._access(access, count, component)

    def _access(self, access: FileAccess, count: int, component: str) -> Steps:
        """A run of like accesses of the usual size, in batches of ``max_parallel``."""
        return self._batches(access, count, component, getattr(self.policy.sizes, access.size), self.policy.max_parallel)

    def _batches(self, access: FileAccess, count: int, component: str, size: int, parallel: int) -> Steps:
        """A run of like accesses, in batches of ``parallel``; a batch takes as long as its slowest."""
        slowest_ms = self.storage.slowest_read_ms if access.reading else self.storage.slowest_write_ms
        kind, counter = access.kind, access.counter
        times, counts, failures = self.times, self.counts, self.policy.failures
        computes = self.policy.client_time is not None
        while count > 0:
            batch = count if count < parallel else parallel
            count -= batch
            try:
                slowest = slowest_ms(kind, size, batch)
            except RequestFailedError as error:
                yield from self._wait(error.latency_ms, component, "io_failed")
                raise
            if failures is not None and failures.request_error > 0.0:
                slowest += self._resends_ms(failures.request_error, batch, slowest)
            if computes:
                slowest += self._client_ms()
            yield slowest
            self.now_ms += slowest
            times[component] += slowest
            self.event_count += 1
            counts[counter] += batch
            if self.trace is not None:
                self._emit("io", access.counter, batch, slowest)

    def _clocked(self, steps: Generator[Step, None, T], component: str) -> Generator[Step, None, tuple[T, float]]:
        """Pass on the latencies of others, keeping the clock; returns their value and how long it took."""
        elapsed = 0.0
        failed: RequestFailedError | None = None
        while True:
            try:
                step = next(steps) if failed is None else steps.throw(failed)
            except StopIteration as stop:
                return stop.value, elapsed
            except RequestFailedError as error:
                if error.latency_ms > 0.0:
                    yield error.latency_ms
                    self.now_ms += error.latency_ms
                self._enter(component, elapsed + error.latency_ms)
                self._emit("request_failed", kind=error.reason, duration_ms=elapsed + error.latency_ms)
                raise
            failed = None
            before = self.now_ms
            if isinstance(step, WaitFor):
                yield step
                self.now_ms = step.signal.time_ms
                elapsed += self.now_ms - before
                continue
            latency = step.latency_ms if isinstance(step, FailedAnswer) else step
            try:
                yield step
            except RequestFailedError as error:
                failed = RequestFailedError(error.reason)
            self.now_ms = before + latency
            elapsed += latency

    # -- the account ---------------------------------------------------------------------------------------------------------

    def _enter(self, component: str, elapsed_ms: float) -> None:
        self.times[component] += elapsed_ms
        self.event_count += 1

    def _emit(self, event: str, kind: str = "", count: int = 1, duration_ms: float = 0.0) -> None:
        if self.trace is not None:
            self.trace(TraceEvent(self.now_ms, self.txn.txn_id, event, kind, count, duration_ms, self.attempt))

    def _emit_versions(self, event: str, snapshot: CatalogSnapshot, tables: list[int], duration_ms: float) -> None:
        """Say what was read, or what a commit was based on: table and version, as in ``0:3 2:7``."""
        if self.trace is not None:
            versions = " ".join(f"{table_id}:{snapshot.get_table(table_id).version}" for table_id in tables)
            self._emit(event, kind=versions, duration_ms=duration_ms)

    def _leave_commit(self) -> None:
        self.commit_latency_ms += self.now_ms - self.commit_started_ms

    def _finish(self, status: TransactionStatus, reason: str | None = None) -> TransactionResult:
        self.status = status
        return self.result(self.now_ms, reason)

    def _orphaned_files(self, reason: str | None) -> int:
        written = sum(self.counts[access.counter] for access in (METADATA_WRITE, LIST_WRITE, FILE_WRITE))
        unclean = reason in (CLIENT_CRASH, COMMIT_STATE_UNKNOWN)
        return orphaned_files(unclean, self.installs, written, self.counts[FILE_DELETE.counter])

    def result(self, now_ms: float, reason: str | None = None) -> TransactionResult:
        """The account as it stands at ``now_ms``: of a finished transaction, or of one that is still on its way."""
        txn, status = self.txn, self.status
        commit_latency = self.commit_latency_ms
        if status is TransactionStatus.COMMITTING:
            commit_latency += now_ms - self.commit_started_ms
        if status not in (TransactionStatus.COMMITTED, TransactionStatus.ABORTED):
            status = TransactionStatus.IN_FLIGHT
        return TransactionResult(
            status=status,
            txn_id=txn.txn_id,
            commit_time_ms=now_ms if status is TransactionStatus.COMMITTED else -1.0,
            abort_time_ms=now_ms if status is TransactionStatus.ABORTED else -1.0,
            abort_reason=reason,
            total_retries=self.retries,
            commit_latency_ms=commit_latency,
            commit_start_ms=self.entered_ms,
            total_latency_ms=now_ms - txn.submit_time_ms,
            operation_type=txn.operation_type,
            event_count=self.event_count,
            restarts=self.restarts,
            false_conflicts=self.false_conflicts,
            real_conflicts=self.real_conflicts,
            submit_time_ms=txn.submit_time_ms,
            workload_class=txn.workload_class,
            tables_written=tuple(sorted(txn.tables_written)),
            client=txn.client,
            batch_size=txn.batch.size,
            batch_wait_ms=txn.batch.wait_ms,
            batch_longest_wait_ms=txn.batch.longest_wait_ms,
            unknown_outcomes=self.unknown_outcomes,
            installs=self.installs,
            duplicates=max(self.installs - 1, 0),
            orphaned_files=self._orphaned_files(reason),
            **self.times,  # type: ignore[arg-type]
            **self.counts,
        )
