"""Define the settings of a commit: commit path, retries, failures and object sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from endive.arithmetic.costs import whole_count
from endive.randomness import RandomSource
from endive.storage import FixedLatency, QuantileDistribution

if TYPE_CHECKING:
    from endive.transaction.paths import CommitPath
    from endive.transaction.protocol_path import Protocol

CLIENT_CRASH = "client_crash"
COMMIT_STATE_UNKNOWN = "commit_state_unknown"
OnUnknown = Literal["check", "retry", "idempotency_key"]


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities of failures of requests and clients, and how a client reacts to a lost response.

    Attributes:
        request_error: Probability that a request to the object store or the catalog fails. The SDK resends it after a backoff.
        lost_answer: Probability that the response to a commit or a status check is lost.
        fatal_error: Probability that a request fails permanently (500, 403). The transaction then aborts with ``request_failed``
            and does not delete its files. A failed delete or a request that fails after the commit does not abort the transaction.
        client_crash: Probability per attempt that the client crashes after it has written all files and before it sends the commit.
        on_unknown: Reaction to a lost response. ``check``: read the catalog to find the commit, as Iceberg does. ``retry``: treat
            the attempt as failed. ``idempotency_key``: resend the commit with the same key, by which the service recognizes it.
        status_checks: Maximum number of status checks after the first one. If the response to the last check is lost, the
            transaction aborts with ``commit_state_unknown`` and does not delete its files.
        min_wait_ms: Wait before the second status check, in ms. The wait doubles with each further check.
        max_wait_ms: Maximum wait between two status checks, in ms.
    """

    request_error: float = 0.0
    fatal_error: float = 0.0
    lost_answer: float = 0.0
    client_crash: float = 0.0
    on_unknown: OnUnknown = "check"
    status_checks: int = 3
    min_wait_ms: float = 1_000.0
    max_wait_ms: float = 60_000.0

    def __post_init__(self) -> None:
        for name in ("request_error", "fatal_error", "lost_answer", "client_crash"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be in [0, 1]")


OnRealConflict = Literal["abort", "merge", "restart"]


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """Sizes of metadata objects in bytes, for latencies that depend on the size.

    The defaults are typical of tables with a few hundred files.
    """

    table_metadata_bytes: int = 16_384
    manifest_list_bytes: int = 8_192
    manifest_file_bytes: int = 8_192


BackoffKind = Literal["exponential", "full", "equal", "decorrelated", "slots", "aimd", "retry_after", "linear"]
BACKOFF_KINDS: tuple[BackoffKind, ...] = get_args(BackoffKind)
"""Kinds of backoff, in the order of their codes in ``endive.arithmetic.backoff``."""
UNUSED_BY_KIND: Mapping[str, frozenset[str]] = {
    "slots": frozenset({"base_ms", "multiplier", "jitter"}),
    "retry_after": frozenset({"base_ms", "multiplier", "max_ms"}),
    "linear": frozenset({"multiplier"}),
}
"""Settings that have no effect, by kind of backoff."""
TableHandle = Literal["loaded", "kept"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Backoff before retries. ``endive.arithmetic.backoff`` contains the formula of each kind.

    The kind ``exponential`` waits min(base x multiplier^(retry - 1), max). ``jitter`` varies the wait in both directions, or only
    increases it if ``upwards`` is set. ``aimd``, ``retry_after`` and ``linear`` also use ``jitter``; the other kinds do not.
    ``retry_after`` waits as long as the service requests.
    """

    enabled: bool = False
    base_ms: float = 10.0
    multiplier: float = 2.0
    max_ms: float = 5000.0
    jitter: float = 0.1
    upwards: bool = False
    kind: BackoffKind = "exponential"

    @property
    def code(self) -> int:
        """Code of the kind in ``endive.arithmetic.backoff``."""
        return BACKOFF_KINDS.index(self.kind)


@dataclass(frozen=True, slots=True)
class ManifestCount:
    """Distribution of the number of manifests that a client merges to resolve a real conflict."""

    distribution: QuantileDistribution = field(default_factory=lambda: FixedLatency(1.0))
    low: int = 1
    high: int = 10

    def sample(self, rng: RandomSource) -> int:
        """Draw a number of manifests."""
        return whole_count(self.distribution.sample(rng), self.low, self.high)


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """Settings of a commit.

    ``on_real_conflict`` is the reaction to a real conflict: ``abort`` as Iceberg does, ``merge`` the conflicting manifests and
    retry, or ``restart`` the job at most ``max_restarts`` times. ``max_parallel`` is the maximum number of parallel requests of one
    kind. ``linearization`` is the linearization point of an append to a manifest list, as a fraction of its latency.
    """

    commit_path: str = "endive"
    """Name of a commit path of ``endive.transaction.paths``."""
    protocol: Protocol | None = None
    """Declarative protocol that replaces the commit path."""
    failures: Failures | None = None

    backoff: Backoff = field(default_factory=Backoff)
    total_timeout_ms: float | None = None
    timeout_from_retry: int = 0
    """First retry before which the client checks the timeout. A value of 1 always permits the first retry."""
    operation_timeout_ms: float | None = None
    """Time since submission at which the client cancels an operation that retries or restarts."""
    on_real_conflict: OnRealConflict = "abort"
    max_restarts: int = 3
    conflicting_manifests: ManifestCount = field(default_factory=ManifestCount)
    max_parallel: int = 4
    table_metadata_inlined: bool = True
    """True if the catalog stores table metadata. The field has no effect on commit paths that always write metadata.json."""
    manifest_list_entry_bytes: int = 50
    linearization: float = 1.0
    sizes: ObjectSizes = field(default_factory=ObjectSizes)
    table_handle: TableHandle = "loaded"
    """``kept`` if writers cache table handles and reload metadata only after a table change; ``loaded`` if they have no cache."""
    client_time: QuantileDistribution | None = None
    """Distribution of the client CPU time of each request to the object store or the catalog, in ms."""

    @property
    def path(self) -> CommitPath:
        """Properties of the commit path."""
        from endive.transaction.paths import COMMIT_PATHS, protocol_path

        return COMMIT_PATHS[self.commit_path] if self.protocol is None else protocol_path(self.protocol)

    def time_limit_ms(self, operation: str) -> float:
        """Return ``operation_timeout_ms`` if it applies to this operation, otherwise infinity."""
        limited = self.protocol is None or self.protocol.limits_time_of(operation)
        return self.operation_timeout_ms if limited and self.operation_timeout_ms is not None else math.inf

    def handles_metadata(self, *, server_writes: bool) -> bool:
        """Return whether clients read and write metadata.json. ``server_writes`` is True if the catalog writes the file."""
        return self.protocol is None and not server_writes and (self.path.always_writes_metadata or not self.table_metadata_inlined)
