"""Keep the account of one transaction: its clock, its counters and the components of its latency.

A step is recorded when it ends, so the account is correct at any time.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TypeVar

from endive.arithmetic.costs import any_error_probability, orphaned_files, sdk_resend_wait_ms
from endive.catalog.snapshots import CatalogSnapshot
from endive.randomness import Purpose, TransactionStreams
from endive.steps import REQUEST_FAILED, FailedAnswer, RequestFailedError, Step, WaitFor
from endive.transaction import types
from endive.transaction.policy import CLIENT_CRASH, COMMIT_STATE_UNKNOWN, CommitPolicy
from endive.transaction.types import OPERATION_TIMEOUT, TraceEvent, Tracer, TransactionResult, TransactionStatus

if TYPE_CHECKING:
    from endive.storage import StorageProvider
    from endive.table import TableFiles
    from endive.transaction.operation_classes import Transaction

Steps = Generator[Step, None, None]
T = TypeVar("T")
_EVENTS = ("event_count", "total_retries", "restarts", "false_conflicts", "real_conflicts", "unknown_outcomes", "installs")


class Account:
    """Times and counters of a transaction so far, with the field names of ``TransactionResult``."""

    def __init__(
        self,
        txn: Transaction,
        storage: StorageProvider,
        policy: CommitPolicy,
        streams: TransactionStreams | None,
        trace: Tracer | None,
    ) -> None:
        self.txn = txn
        self.policy = policy
        self.streams = streams or TransactionStreams(txn.txn_id)
        self.storage = storage if streams is None else storage.bind(streams.stream(Purpose.STORAGE))
        self.trace = trace
        self.status = TransactionStatus.PENDING
        self.now_ms = txn.submit_time_ms
        self.attempt = 0
        self.commit_latency_ms = 0.0
        self.commit_started_ms = 0.0
        """Start of the current or last commit. A restart of the job begins a new commit."""
        self.entered_ms = -1.0
        """Start of the first commit; -1 if no commit has started."""
        self.deadline_ms = math.inf
        """Time at which the client cancels the operation.

        The time is infinite before the first retry or restart, and after the commit.
        """
        self.installed: tuple[TableFiles, ...] = ()
        """State of the written tables right after the commit, if the catalog tracks their files."""
        self.times = dict.fromkeys(types.TIMES, 0.0)
        self.counts = dict.fromkeys((*types.COUNTERS, *types.PROTOCOL_COUNTERS, *_EVENTS), 0)

    def _enter(self, component: str, elapsed_ms: float) -> None:
        self.times[component] += elapsed_ms
        self.counts["event_count"] += 1

    def _emit(self, event: str, kind: str = "", count: int = 1, duration_ms: float = 0.0) -> None:
        if self.trace is not None:
            self.trace(TraceEvent(self.now_ms, self.txn.txn_id, event, kind, count, duration_ms, self.attempt))

    def _emit_versions(self, event: str, snapshot: CatalogSnapshot, tables: list[int], duration_ms: float) -> None:
        """Trace the table versions of a read or a commit.

        The text ``0:3 2:7`` means table 0 at version 3 and table 2 at version 7.
        """
        if self.trace is not None:
            versions = " ".join(f"{table_id}:{snapshot.get_table(table_id).version}" for table_id in tables)
            self._emit(event, kind=versions, duration_ms=duration_ms)

    def _leave_commit(self) -> None:
        self.commit_latency_ms += self.now_ms - self.commit_started_ms

    def _wait(self, duration_ms: float, component: str, event: str) -> Steps:
        if self.now_ms + duration_ms > self.deadline_ms:
            yield from self._cancel(component)
        yield duration_ms
        self.now_ms += duration_ms
        self._enter(component, duration_ms)
        self._emit(event, duration_ms=duration_ms)

    def _cancel(self, component: str) -> Steps:
        """Wait until the deadline, and raise RequestFailedError because the next step would exceed the deadline."""
        left_ms = self.deadline_ms - self.now_ms
        yield left_ms
        self.now_ms += left_ms
        self._enter(component, left_ms)
        raise RequestFailedError(OPERATION_TIMEOUT)

    def _check_deadline(self) -> None:
        """Raise RequestFailedError if the response arrived after the deadline."""
        if self.now_ms > self.deadline_ms:
            raise RequestFailedError(OPERATION_TIMEOUT)

    def _start_time_limit(self) -> None:
        """Set the deadline of the operation.

        Raises:
            RequestFailedError: If the deadline has passed.
        """
        self.deadline_ms = self.txn.submit_time_ms + self.policy.time_limit_ms(self.txn.operation_type)
        self._check_deadline()

    def _pay(self, charged: types.Accesses, component: str) -> Steps:
        for access, count in charged:
            if count > 0:
                yield from self._access(access, count, component)

    def _access(self, access: types.FileAccess, count: int, component: str) -> Steps:
        """Access ``count`` objects of the configured size in batches of ``max_parallel``."""
        return self._batches(access, count, getattr(self.policy.sizes, access.size), self.policy.max_parallel, component)

    def _batches(
        self, access: types.FileAccess, count: int, size: int, parallel: int = 1, component: str = types.PER_ATTEMPT_IO
    ) -> Steps:
        """Access ``count`` objects in batches of ``parallel``. The latency of a batch is that of its slowest request."""
        slowest_ms = self.storage.slowest_read_ms if access.reading else self.storage.slowest_write_ms
        times, counts, failures = self.times, self.counts, self.policy.failures
        computes = self.policy.client_time is not None
        while count > 0:
            batch = count if count < parallel else parallel
            count -= batch
            try:
                slowest = slowest_ms(access.kind, size, batch)
            except RequestFailedError as error:
                yield from self._wait(error.latency_ms, component, "io_failed")
                raise
            if failures is not None:
                slowest += self._resends_ms(failures.request_error, batch, slowest)
                if access is not types.FILE_DELETE:
                    yield from self._fatal_error(batch, slowest, component)
            if computes:
                slowest += self._client_ms()
            if self.now_ms + slowest > self.deadline_ms:
                yield from self._cancel(component)
            yield slowest
            self.now_ms += slowest
            times[component] += slowest
            counts["event_count"] += 1
            counts[access.counter] += batch
            if self.trace is not None:
                self._emit("io", access.counter, batch, slowest)

    def _send_together(self, slowest_ms: float, accesses: Sequence[types.FileAccess], component: str) -> Steps:
        """Send requests to the object store concurrently, one for each access. The slowest request takes ``slowest_ms``."""
        slowest_ms = yield from self._with_errors(slowest_ms, len(accesses), component)
        yield from self._wait(slowest_ms + self._client_ms(), component, "io_together")
        for access in accesses:
            self.counts[access.counter] += 1
            self._emit("io", access.counter)

    def _client_ms(self) -> float:
        """Return the client CPU time of one request, in ms."""
        time = self.policy.client_time
        return 0.0 if time is None else time.sample(self.streams.stream(Purpose.CLIENT))

    def _compute(self) -> Generator[Step, None, float]:
        """Wait for the client CPU time of a request to the catalog, and return that time in ms."""
        if self.policy.client_time is None:
            return 0.0
        duration_ms = self._client_ms()
        yield duration_ms
        self.now_ms += duration_ms
        return duration_ms

    def _fails(self, probability: float) -> bool:
        """Return whether a failure with this probability occurs. A probability of 0 draws no random number."""
        return probability > 0.0 and self.streams.stream(Purpose.FAILURE).random_sample() < probability

    def _with_errors(self, latency_ms: float, requests: int, component: str) -> Generator[Step, None, float]:
        """Return the latency of requests with the time that failed requests add, in ms.

        Raises:
            RequestFailedError: If one of the requests fails permanently, after the latency.
        """
        failures = self.policy.failures
        if failures is not None:
            latency_ms += self._resends_ms(failures.request_error, requests, latency_ms)
            yield from self._fatal_error(requests, latency_ms, component)
        return latency_ms

    def _fatal_error(self, requests: int, latency_ms: float, component: str) -> Steps:
        """Wait for the latency and raise RequestFailedError, if one of the requests fails permanently."""
        failures = self.policy.failures
        if failures is not None and self._fails(any_error_probability(failures.fatal_error, requests)):
            yield from self._wait(latency_ms, component, "io_failed")
            raise RequestFailedError(REQUEST_FAILED)

    def _request_errors(self, component: str) -> Steps:
        """Wait while the SDK resends failed catalog requests.

        Raises:
            RequestFailedError: If the last request fails permanently.
        """
        failures = self.policy.failures
        if failures is None:
            return
        waited = self._resends_ms(failures.request_error, 1, 0.0)
        if waited > 0.0:
            if self.now_ms + waited > self.deadline_ms:
                yield from self._cancel(component)
            yield waited
            self.now_ms += waited
            self.times[component] += waited
        if self._fails(failures.fatal_error):
            self._emit("request_failed", kind=REQUEST_FAILED)
            raise RequestFailedError(REQUEST_FAILED)

    def _resends_ms(self, request_error: float, requests: int, latency_ms: float) -> float:
        """Return the time by which failed requests delay a request, in ms.

        Each error adds the backoff of the SDK and the latency of the request.
        """
        added, errors = 0.0, 0
        probability = any_error_probability(request_error, requests)
        while self._fails(probability):
            errors += 1
            added += sdk_resend_wait_ms(errors, self.streams.stream(Purpose.FAILURE).random_sample()) + latency_ms
            probability = request_error
        return added

    def _run_request(self, steps: Generator[Step, None, T], component: str) -> Generator[Step, None, tuple[T, float]]:
        """Run the steps of a catalog request and advance the clock.

        Returns:
            The result of the request and the elapsed time in ms.
        """
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

    def _finish(self, status: TransactionStatus, reason: str | None = None) -> TransactionResult:
        if reason is not None:
            self._emit("abort", kind=reason)
        self.status = status
        return self.result(self.now_ms, reason)

    def _orphaned_files(self, reason: str | None) -> int:
        counts, writes = self.counts, (types.METADATA_WRITE, types.LIST_WRITE, types.FILE_WRITE)
        unclean = reason in (CLIENT_CRASH, COMMIT_STATE_UNKNOWN, REQUEST_FAILED, OPERATION_TIMEOUT)
        written = sum(counts[access.counter] for access in writes)
        return orphaned_files(unclean, counts["installs"], written, counts[types.FILE_DELETE.counter])

    def _table_state(self) -> dict[str, int]:
        """Return the size of metadata.json, the manifests and the snapshots after the commit.

        For several tables, each value is the maximum over the written tables.
        """
        if not self.installed:
            return {}
        return {
            "table_metadata_bytes": max(files.metadata_size for files in self.installed),
            "table_manifests": max(files.manifests for files in self.installed),
            "table_snapshots": max(files.snapshots for files in self.installed),
        }

    def result(self, now_ms: float, reason: str | None = None) -> TransactionResult:
        """Return the result of a transaction that has ended, or that is in flight at ``now_ms``."""
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
            commit_latency_ms=commit_latency,
            commit_start_ms=self.entered_ms,
            total_latency_ms=now_ms - txn.submit_time_ms,
            operation_type=txn.operation_type,
            submit_time_ms=txn.submit_time_ms,
            workload_class=txn.workload_class,
            tables_written=tuple(sorted(txn.tables_written)),
            client=txn.client,
            batch_size=txn.batch.size,
            batch_wait_ms=txn.batch.wait_ms,
            batch_longest_wait_ms=txn.batch.longest_wait_ms,
            data_start_ms=txn.batch.data_start_ms,
            duplicates=max(self.counts["installs"] - 1, 0),
            orphaned_files=self._orphaned_files(reason),
            **(self._table_state() if status is TransactionStatus.COMMITTED else {}),
            **self.times,  # type: ignore[arg-type]
            **self.counts,
        )
