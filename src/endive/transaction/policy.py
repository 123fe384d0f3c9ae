"""Settings of a commit: path, retries, failures, sizes of objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from endive.arithmetic.costs import whole_count
from endive.randomness import RandomSource
from endive.storage import FixedLatency, QuantileDistribution

if TYPE_CHECKING:
    from endive.transaction.paths import CommitPath

CLIENT_CRASH = "client_crash"
COMMIT_STATE_UNKNOWN = "commit_state_unknown"
OnUnknown = Literal["check", "retry", "idempotency_key"]


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities of failures, and how a client deals with an answer that it never got.

    ``request_error``: a request to the store or to the catalog fails and is sent again by the SDK, after a wait of its own.
    ``lost_answer``: a commit took effect, or did not, and its client does not learn which. ``client_crash``: a client dies when all
    its files are written and before its commit is sent, at each attempt.

    ``on_unknown``: ``check`` as Iceberg does: read the catalog and look whether the commit is there; the answer of a check may be
    lost, too, and then it is repeated ``status_checks`` times, after waits from ``min_wait_ms`` on that double up to
    ``max_wait_ms``; if none is answered, the operation ends with ``commit_state_unknown`` and its files are kept. ``retry``: take
    it for a lost attempt. ``idempotency_key``: send the same commit again; the service knows it by its key.
    """

    request_error: float = 0.0
    lost_answer: float = 0.0
    client_crash: float = 0.0
    on_unknown: OnUnknown = "check"
    status_checks: int = 3
    min_wait_ms: float = 1_000.0
    max_wait_ms: float = 60_000.0

    def __post_init__(self) -> None:
        for name in ("request_error", "lost_answer", "client_crash"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but is a probability, from 0 to 1")


OnRealConflict = Literal["abort", "merge", "restart"]


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """Sizes of metadata objects, for latencies that depend on size. Of the order that ICEBERG tables of some hundred files have."""

    table_metadata_bytes: int = 16_384
    manifest_list_bytes: int = 8_192
    manifest_file_bytes: int = 8_192


BackoffKind = Literal["exponential", "full", "equal", "decorrelated", "slots", "aimd", "retry_after", "linear"]
BACKOFF_KINDS: tuple[BackoffKind, ...] = get_args(BackoffKind)
"""In the order of their codes in ``endive.arithmetic.backoff``."""
UNUSED_BY_KIND: Mapping[str, frozenset[str]] = {
    "slots": frozenset({"base_ms", "multiplier", "jitter"}),
    "retry_after": frozenset({"base_ms", "multiplier", "max_ms"}),
    "linear": frozenset({"multiplier"}),
}
"""Settings that a kind of backoff does not use."""
TableHandle = Literal["loaded", "kept"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting before retries; ``endive.arithmetic.backoff`` has the formula of each kind.

    ``exponential`` is min(base x multiplier^(retry - 1), max), moved by at most +- jitter, or upwards only. Of the other kinds only
    ``aimd``, ``retry_after`` and ``linear`` use ``jitter``; of ``retry_after`` the base is what the service says.
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
        """The code of its kind in ``endive.arithmetic.backoff``."""
        return BACKOFF_KINDS.index(self.kind)


@dataclass(frozen=True, slots=True)
class ManifestCount:
    """How many manifests a real conflict makes one merge."""

    distribution: QuantileDistribution = field(default_factory=lambda: FixedLatency(1.0))
    low: int = 1
    high: int = 10

    def sample(self, rng: RandomSource) -> int:
        """Draw a whole number of manifests."""
        return whole_count(self.distribution.sample(rng), self.low, self.high)


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """What happens between the end of the work and the end of the transaction.

    ``on_real_conflict``: ``abort`` as Iceberg does, ``merge`` the conflicting manifests and try again, or ``restart`` the whole
    operation, at most ``max_restarts`` times. ``max_parallel`` like accesses go at once; such a batch takes as long as its
    slowest. ``linearization`` is when, within its latency, an append to a manifest list takes effect. ``commit_path`` is whose
    way the commit goes: that of ``lifecycle``, of Iceberg's Java library (``iceberg``), or of PyIceberg.
    """

    commit_path: str = "endive"
    """Name of a record of ``endive.transaction.paths``."""
    failures: Failures | None = None

    backoff: Backoff = field(default_factory=Backoff)
    total_timeout_ms: float | None = None
    timeout_from_retry: int = 0
    """The timeout is looked at from this retry on: 1 lets the first retry begin whatever the time."""
    on_real_conflict: OnRealConflict = "abort"
    max_restarts: int = 3
    conflicting_manifests: ManifestCount = field(default_factory=ManifestCount)
    max_parallel: int = 4
    table_metadata_inlined: bool = True
    manifest_list_entry_bytes: int = 50
    linearization: float = 1.0
    sizes: ObjectSizes = field(default_factory=ObjectSizes)
    table_handle: TableHandle = "loaded"
    """``kept``: a writer that lives long reads table metadata at the start only if the table has moved since it last saw it."""
    client_time: QuantileDistribution | None = None
    """How long the client computes for each access to the store or the catalog, in ms."""

    @property
    def path(self) -> CommitPath:
        """Facts about the commit path."""
        from endive.transaction.paths import COMMIT_PATHS

        return COMMIT_PATHS[self.commit_path]
