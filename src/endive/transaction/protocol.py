"""Declarative commit protocols: steps, commit point, conflicts and checkpoints of a client of a table format.

``endive.protocols`` reads them from TOML files; ``endive.transaction.protocol_path`` runs them on the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, get_args

StepOperation = Literal["list", "read", "write", "delete", "request", "statement"]
StepObject = Literal["metadata", "log", "manifest", "checkpoint", "data"]
StepAttempts = Literal["each", "first", "retries"]
CommitPoint = Literal["put_if_absent", "swap", "insert", "ratify"]
Scope = Literal["table", "lake"]
ConflictLevel = Literal["table", "partitions", "files"]
CONFLICT_LEVELS: tuple[ConflictLevel, ...] = get_args(ConflictLevel)

PHASES = ("load", "attempt", "after_loss", "after_success", "after_abort", "checkpoint")
"""Phases of a transaction, in the order of their codes in the compiled engine. A checkpoint follows ``after_success``."""
CATALOG_OPERATIONS = frozenset({"request", "statement"})
"""Operations that are requests to the catalog, not to the object store."""
SERVICE_POINTS = frozenset({"insert", "ratify"})
"""Commit points in a catalog service."""


@dataclass(frozen=True, slots=True)
class ProtocolStep:
    """Requests of one kind in a phase of a transaction.

    The number of requests is ``count`` plus each ``per_`` factor times its quantity, rounded down. The quantities are the versions
    that the client learns about in the same phase, its failed attempts so far, the data files of the tables, and the log entries
    since the last checkpoint.
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
    """True if requests run in batches of ``max_parallel``; False if they run sequentially."""
    attempts: StepAttempts = "each"
    discovers: bool = False
    """True if the response shows the current version of the table."""
    checks: bool = False
    """True if the attempt fails after this step if the version has changed since the attempt began."""
    with_next: bool = False
    """True if the request runs concurrently with the request of the next step."""
    publishes: bool = False
    """True if the step publishes all ratified commits."""

    @property
    def is_single(self) -> bool:
        """True if the step is always exactly one request."""
        return self.count == 1.0 and not any((self.per_version_behind, self.per_attempt, self.per_file, self.per_log_entry))


Steps = tuple[ProtocolStep, ...]


@dataclass(frozen=True, slots=True)
class Protocol:
    """Commit protocol of a client.

    Attributes:
        name: Name of a built-in protocol, or of the file.
        client: Client that commits in this way, as named in reports.
        commit_point: Request that makes a commit take effect.
        scope: Commits that the commit point orders: the commits of one table, or of the whole lake.
        unpublished_limit: Number of ratified but unpublished commits at which the catalog rejects commits; None for no limit.
        operations: Operations that the client can commit.
        steps: Steps by phase.
        conflicts: Intervening operations that make an operation fail, by operation and by required overlap: the
            same table, the same partitions, or the same files (``real_conflict_probability``).
        rebases: Whether the client commits on top of intervening commits that do not conflict.
        checkpoint_every: Number of commits per checkpoint; 0 for no checkpoints.
        checkpoint_by_writer: Whether the writer of a checkpointed version runs the steps of the phase ``checkpoint``.
        limited_operations: Operations to which ``operation_timeout_ms`` applies; if empty, all.

    """

    name: str
    client: str
    commit_point: CommitPoint
    scope: Scope
    operations: frozenset[str]
    steps: Mapping[str, Steps] = field(default_factory=lambda: MappingProxyType({}))
    unpublished_limit: int | None = None
    conflicts: Mapping[ConflictLevel, Mapping[str, frozenset[str]]] = field(default_factory=lambda: MappingProxyType({}))
    rebases: bool = True
    checkpoint_every: int = 0
    checkpoint_by_writer: bool = False
    limited_operations: frozenset[str] = frozenset()

    def phase(self, name: str) -> Steps:
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
