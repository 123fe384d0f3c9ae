"""Run transactions that follow a declarative commit protocol on the reference engine.

``endive.protocols`` reads protocols from TOML files. All protocols have these phases:

load:      steps, one of which returns the current version; run the job
attempt:   steps (a version that they return becomes the base of the attempt; a check may end the attempt); commit
loss:      (abort), back off, steps of ``after_loss``; next attempt
success:   steps of ``after_success``; if a checkpoint is due at this version, the steps of the checkpoint
abort:     steps of ``after_abort``

The client checks for conflicts with an intervening commit once, at the end of the phase in which it learns about the commit.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

from endive.arithmetic.costs import entries_since_checkpoint, moment_of_effect_ms, step_count, step_size
from endive.catalog.snapshots import CatalogSnapshot
from endive.steps import RequestFailedError, Step
from endive.storage import MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA
from endive.table import ALL_MANIFESTS, OPERATION_CODES, OperationSettings, Traits
from endive.transaction import types
from endive.transaction.account import Steps
from endive.transaction.iceberg import files_of
from endive.transaction.lifecycle import AbortError, Lifecycle, RestartError
from endive.transaction.types import VALIDATION_EXCEPTION, FileAccess, TransactionStatus

StepOperation = Literal["list", "read", "write", "delete", "request", "statement"]
StepObject = Literal["metadata", "log", "manifest", "checkpoint", "data"]
StepAttempts = Literal["each", "first", "retries"]
CommitPoint = Literal["put_if_absent", "swap", "insert", "ratify"]
Scope = Literal["table", "lake"]
ConflictLevel = Literal["table", "partitions", "files"]
CONFLICT_LEVELS: tuple[ConflictLevel, ...] = get_args(ConflictLevel)

PHASES = ("load", "attempt", "after_loss", "after_success", "after_abort", "checkpoint")
"""Phases of a transaction, in the order of phase codes in the compiled engine.

The phase ``checkpoint`` follows ``after_success``.
"""
CATALOG_OPERATIONS = frozenset({"request", "statement"})
"""Operations that are requests to the catalog, not to the object store."""
SERVICE_POINTS = frozenset({"insert", "ratify"})
"""Commit points in a catalog service."""


@dataclass(frozen=True, slots=True)
class ProtocolStep:
    """Requests of one kind in a phase of a transaction.

    The number of requests is ``count`` plus each ``per_`` factor times its quantity, rounded down. The quantities are the number of
    versions that the client learns about in the same phase, of failed attempts so far, of data files of the tables, and of log
    entries since the last checkpoint.
    """

    operation: StepOperation
    object: StepObject | None = None
    size_bytes: int = 0
    bytes_per_file: int = 0
    bytes_per_version: int = 0
    count: float = 1.0
    per_version_behind: float = 0.0
    per_attempt: float = 0.0
    per_file: float = 0.0
    per_log_entry: float = 0.0
    parallel: bool = False
    """True if the client sends the requests in batches of ``max_parallel``; False if it sends them sequentially."""
    attempts: StepAttempts = "each"
    discovers: bool = False
    """True if the client learns the current version of the table from the response."""
    checks: bool = False
    """True if the attempt fails after this step if the version has changed since the start of the attempt."""
    with_next: bool = False
    """True if the client sends the request concurrently with the request of the next step."""
    publishes: bool = False
    """True if the step publishes all ratified commits."""

    @property
    def is_single(self) -> bool:
        """True if the step is always exactly one request."""
        return self.count == 1.0 and not any((self.per_version_behind, self.per_attempt, self.per_file, self.per_log_entry))


ProtocolSteps = tuple[ProtocolStep, ...]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Commit protocol of a client.

    Attributes:
        name: Name of a built-in protocol, or of the file.
        client: Name of the client in reports.
        commit_point: Request that makes a commit take effect.
        scope: Commits that the commit point orders: the commits of one table, or of the whole lake.
        unpublished_limit: Number of ratified but unpublished commits at which the catalog rejects commits; None for no limit.
        operations: Operations that the client can commit.
        steps: Steps of each phase.
        conflicts: Intervening operations that cause an operation to fail, by operation and by the overlap that is required: the
            same table, the same partitions, or the same files (``real_conflict_probability``).
        rebases: Whether the client commits on top of intervening commits that do not conflict.
        checkpoint_every: Number of commits per checkpoint; 0 for no checkpoints.
        checkpoint_by_writer: Whether the writer of a checkpointed version runs the steps of the phase ``checkpoint``.
        limited_operations: Operations to which ``operation_timeout_ms`` applies; if empty, all operations.
    """

    name: str
    client: str
    commit_point: CommitPoint
    scope: Scope
    operations: frozenset[str]
    steps: Mapping[str, ProtocolSteps] = field(default_factory=lambda: MappingProxyType({}))
    unpublished_limit: int | None = None
    conflicts: Mapping[ConflictLevel, Mapping[str, frozenset[str]]] = field(default_factory=lambda: MappingProxyType({}))
    rebases: bool = True
    checkpoint_every: int = 0
    checkpoint_by_writer: bool = False
    limited_operations: frozenset[str] = frozenset()

    def phase(self, name: str) -> ProtocolSteps:
        """Return the steps of a phase."""
        return self.steps.get(name, ())

    def limits_time_of(self, operation: str) -> bool:
        """Return whether ``operation_timeout_ms`` applies to an operation."""
        return not self.limited_operations or operation in self.limited_operations

    @property
    def discovers_again(self) -> bool:
        """True if the client learns the current version after a failed attempt."""
        again = (*self.phase("after_loss"), *(step for step in self.phase("attempt") if step.attempts != "first"))
        return any(step.discovers for step in again)


_KINDS = {
    "metadata": (TABLE_METADATA, "metadata_reads", "metadata_writes"),
    "log": (MANIFEST_LIST, "manifest_list_reads", "manifest_list_writes"),
    "manifest": (MANIFEST_FILE, "manifest_file_reads", "manifest_file_writes"),
    "checkpoint": (MANIFEST_FILE, "manifest_file_reads", "manifest_file_writes"),
    "data": (MANIFEST_FILE, "data_reads", "data_writes"),
}
"""By object name in protocol files: kind of object in the object store, read counter, and write counter."""
CATALOG_COUNTER = "catalog_requests"
_ADD_NO_FILE = frozenset({"delete"})


def access_of(step: ProtocolStep) -> FileAccess:
    """Return the kind of file access of a step that sends requests to the object store."""
    if step.operation == "delete":
        return types.FILE_DELETE
    kind, reads, writes = _KINDS[step.object or "manifest"]
    counter = {"list": "list_requests", "read": reads, "write": writes}[step.operation]
    return FileAccess(step.operation in ("list", "read"), kind, "", counter)


def operation_bit(operation: str) -> int:
    """Return the bit that represents an operation in the history of a table."""
    return 2 << OPERATION_CODES[operation]


def protocol_traits(protocol: Protocol, operation: str, settings: OperationSettings) -> tuple[Traits, ...]:
    """Return the traits of an operation under a protocol.

    The traits contain the bit of the operation, the bits of the operations that cause it to fail, and the number of files that it
    adds.
    """
    by_table, by_partitions, by_files = (_conflict_bits(protocol, level, operation) for level in CONFLICT_LEVELS)
    against = by_table | by_partitions | by_files
    added = 0 if operation in _ADD_NO_FILE else 1
    hits = ALL_MANIFESTS if operation == "rewrite_files" and settings.manifests_hit == ALL_MANIFESTS else 0
    kind = operation_bit(operation)
    made = Traits(
        kind, against, conflicts=against, table_conflicts=by_table, partition_conflicts=by_partitions, data=added, hits=hits
    )
    return (made,)


def _conflict_bits(protocol: Protocol, level: ConflictLevel, operation: str) -> int:
    """Return the bits of the intervening operations that cause an operation to fail at a level of overlap."""
    against = 0
    for other in protocol.conflicts.get(level, {}).get(operation, ()):
        against |= operation_bit(other)
    return against


class ProtocolLifecycle(Lifecycle):
    """Transaction that follows a declarative protocol."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert self.policy.protocol is not None
        self.protocol = self.policy.protocol
        self.traits = protocol_traits(self.protocol, self.txn.operation_type, self.txn.settings) if self._written else ()
        self.known = None  # protocols do not cache table handles
        self._shown: CatalogSnapshot | None = None
        """Latest catalog state that the client knows."""
        self._phase_start = 0
        self._lost = 0
        self._examined: dict[int, int] = {}
        """Number of snapshots that the client has checked for conflicts, by table."""

    def _snapshots(self) -> tuple[Traits, ...]:
        return self.traits

    def _table_state(self) -> dict[str, int]:
        return {}

    def _start(self) -> Generator[Step, None, CatalogSnapshot]:
        self.status = TransactionStatus.EXECUTING
        self._shown, self._lost, self.attempt = None, 0, 0
        yield from self._run_phase("load", types.CATALOG_READ)
        yield from self._wait(self.txn.runtime_ms, types.RUNTIME, "runtime")
        return self._snapshot

    @property
    def _snapshot(self) -> CatalogSnapshot:
        assert self._shown is not None
        return self._shown

    def _commit(self, snapshot: CatalogSnapshot) -> Steps:
        self._examined = {table_id: files_of(snapshot, table_id).length for table_id in self._written}
        try:
            yield from self._attempts()
        except (AbortError, RestartError):
            yield from self._run_phase("after_abort", types.PER_ATTEMPT_IO)
            raise
        with suppress(RequestFailedError):  # the commit has succeeded
            yield from self._run_phase("after_success", types.PER_ATTEMPT_IO)
            every = self.protocol.checkpoint_every
            if every > 0 and self.protocol.checkpoint_by_writer and (self._snapshot.seq + 1) % every == 0:
                yield from self._run_phase("checkpoint", types.PER_ATTEMPT_IO)

    def _attempts(self) -> Steps:
        """Attempt the commit until it succeeds.

        Raises:
            AbortError: If the transaction aborts.
            RestartError: If the job restarts.
        """
        while True:
            is_lost = yield from self._run_phase("attempt", types.PER_ATTEMPT_IO)
            if not is_lost:
                self._resolve_commits_between()
                result = yield from self._attempt(self._snapshot)
                if result.success:
                    return
            self._lost += 1
            yield from self._lost_attempt()
            yield from self._run_phase("after_loss", types.CONFLICT_IO)
            self._resolve_commits_between()

    def _resolve_commits_between(self) -> None:
        """Check for conflicts with the intervening commits that the client knows about.

        Raises:
            AbortError: If a conflict aborts the transaction.
            RestartError: If a conflict restarts the job.
        """
        shown, protocol, traits = self._snapshot, self.protocol, self._snapshots()[0]
        if not protocol.rebases and shown.seq != self.start_snapshot.seq:
            raise AbortError(VALIDATION_EXCEPTION)
        certain = possible = 0
        for table_id in self._written:
            files, partitions = files_of(shown, table_id), self._partitions(table_id)
            for record in files.history(self._examined[table_id]):
                if record.kind & traits.table_conflicts:
                    certain += 1
                elif record.kind & traits.conflicts and record.overlaps(partitions):
                    certain += (record.kind & traits.partition_conflicts) != 0
                    possible += (record.kind & traits.partition_conflicts) == 0
            self._examined[table_id] = files.length
        if not certain + possible:
            return
        real = certain > 0 or self._bound_detector().changes_same_files(self.txn, shown, self.start_snapshot)
        if self._count_conflict(real, certain + possible):
            raise self._end_of_conflict()

    def _run_phase(self, phase: str, component: str) -> Generator[Step, None, bool]:
        """Run the steps of a phase, and return whether a check of the version ended the attempt."""
        self._phase_start = -1 if self._shown is None else self._shown.seq
        steps = iter(self.protocol.phase(phase))
        for step in steps:
            if step.attempts != "each" and (step.attempts == "first") != (self.attempt == 0):
                continue
            if step.with_next:
                yield from self._run_pair(step, next(steps), component)
            elif step.discovers:
                yield from self._discover(step, component)
            else:
                yield from self._run_step(step, component)
            if step.publishes:
                self.catalog.publish(self._snapshot.seq + (phase == "after_success"))
            if step.checks and self._snapshot.seq != self._phase_start:
                self._emit("check_failed")
                return True
        return False

    def _run_step(self, step: ProtocolStep, component: str) -> Steps:
        count = self._count(step)
        if step.operation in CATALOG_OPERATIONS:
            for _ in range(count):
                yield from self._request_catalog()
        else:
            parallel = self.policy.max_parallel if step.parallel else 1
            yield from self._batches(access_of(step), count, self._size(step), parallel, component)

    def _request_catalog(self) -> Generator[Step, None, CatalogSnapshot]:
        """Send a request or statement to the catalog, and count it."""
        snapshot = yield from self._read_catalog()
        self.counts[CATALOG_COUNTER] += 1
        self._emit("io", CATALOG_COUNTER)
        return snapshot

    def _run_pair(self, one: ProtocolStep, other: ProtocolStep, component: str) -> Steps:
        """Send one request of each of two steps concurrently."""
        slower_ms = max(self._latency_ms(one), self._latency_ms(other))
        yield from self._send_together(slower_ms, (access_of(one), access_of(other)), component)

    def _discover(self, step: ProtocolStep, component: str) -> Steps:
        """Send the request from whose response the client learns the current version."""
        if step.operation in CATALOG_OPERATIONS:
            self._show((yield from self._request_catalog()))
            return
        try:
            latency = self._latency_ms(step)
        except RequestFailedError as error:
            yield from self._wait(error.latency_ms, component, "io_failed")
            raise
        latency = yield from self._with_errors(latency, 1, component)
        effect = moment_of_effect_ms(latency, self.policy.linearization)
        yield effect
        self.now_ms += effect
        snapshot = self.catalog.observe(self.now_ms)
        rest, elapsed = latency - effect, effect
        if rest > 0.0:
            yield rest
            self.now_ms += rest
            elapsed += rest
        elapsed += yield from self._compute()
        self._enter(component, elapsed)
        self._check_deadline()
        self.counts[access_of(step).counter] += 1
        self._show(snapshot)
        self._emit("io", access_of(step).counter, duration_ms=elapsed)
        self._emit_versions("catalog_read", snapshot, sorted(self.txn.tables_read), elapsed)

    def _show(self, snapshot: CatalogSnapshot) -> None:
        self._shown = snapshot
        if self._phase_start < 0:
            self._phase_start = snapshot.seq

    def _latency_ms(self, step: ProtocolStep) -> float:
        access, size = access_of(step), self._size(step)
        slowest_ms = self.storage.slowest_read_ms if access.reading else self.storage.slowest_write_ms
        return slowest_ms(access.kind, size, 1)

    def _count(self, step: ProtocolStep) -> int:
        shown = self._shown
        if shown is None:
            return step_count(step, 0, self._lost, 0, 0)
        entries = entries_since_checkpoint(shown.seq, self.protocol.checkpoint_every)
        return step_count(step, shown.seq - self._phase_start, self._lost, self._files(shown), entries)

    def _size(self, step: ProtocolStep) -> int:
        shown = self._shown
        return step_size(step, 0, 0) if shown is None else step_size(step, self._files(shown), shown.seq)

    def _files(self, shown: CatalogSnapshot) -> int:
        return sum(files_of(shown, table_id).data for table_id in self.txn.tables_read)
