"""Simulate the workers, the queue, the table locks and the batches of a catalog service.

The service processes requests in order of arrival, and requests with the same arrival time in order of transaction id.
``endive.catalog.service`` holds the content of the catalog.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from typing import Literal

from endive.catalog.base import CommitRequest
from endive.catalog.snapshots import CatalogCounters
from endive.steps import Signal, Step, WaitFor
from endive.storage import FixedLatency, LognormalLatency, QuantileDistribution

SERVICE_UNAVAILABLE = "service_unavailable"
"""Abort reason if the service rejects a request more than ``max_resends`` times (429, 503)."""
LOST = ""
"""Outcome of a commit that lost the race. It is not an abort reason, because the client may retry."""
ServerRetryMode = Literal["recheck", "rebase"]


@dataclass(frozen=True, slots=True)
class Coalesce:
    """Settings of group commit.

    A commit waits ``linger_ms`` for other commits to its table. A batch contains at most ``max_batch`` commits (0: no limit).
    """

    linger_ms: float = 0.0
    max_batch: int = 0


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Latencies of a catalog service in milliseconds, and its capacity.

    ``network`` is the one-way latency. ``load`` and ``commit`` are service times. ``check`` is the service time of a commit whose
    requirements fail when its service starts. ``workers`` is the maximum number of requests in service (0: no limit). The service
    rejects a request that arrives while ``queue_limit`` other requests wait. The client sends a rejected request again after
    ``retry_after_ms``, at most ``max_resends`` times.
    """

    network: QuantileDistribution = field(default_factory=lambda: LognormalLatency.from_median(1.0, 0.3, 0.0))
    load: QuantileDistribution = field(default_factory=lambda: LognormalLatency.from_median(5.0, 0.5, 0.0))
    commit: QuantileDistribution = field(default_factory=lambda: LognormalLatency.from_median(10.0, 0.5, 0.0))
    check: QuantileDistribution = field(default_factory=lambda: FixedLatency(2.0))
    workers: int = 0
    queue_limit: int | None = None
    retry_after_ms: float = 1000.0
    max_resends: int = 5
    lock: Literal["none", "table"] = "none"
    server_retries: int = 0
    """Maximum number of times that the server retries a failed compare-and-swap.

    Each retry takes ``server_backoff_ms`` and a reload.
    """
    server_retry_mode: ServerRetryMode = "recheck"
    """Reaction of the server to a failed compare-and-swap.

    With ``recheck``, the server checks the requirements of the commit again, as Iceberg's CatalogHandlers do. With ``rebase``, the
    server applies an append to the current state.
    """
    server_backoff_ms: float = 100.0
    database_conflict: float = 0.0
    """Probability that a concurrent commit to another table causes a serialization failure of a commit in the database."""
    coalesce: Coalesce | None = None
    transfer_ms_per_mib: float = 10.0
    """Additional latency of a load response per MiB of table metadata."""
    writes_metadata: bool = True
    """True if the server writes metadata.json within the service time, and returns it in the response to a load."""


@dataclass(eq=False, slots=True)
class Member:
    """Commit that waits in the service for a batch."""

    request: CommitRequest
    arrived_ms: float
    signal: Signal = field(default_factory=Signal)
    leads: bool = False
    outcome: str | None = LOST
    """None if the commit took effect, otherwise the abort reason or ``LOST``."""


class Server:
    """Workers of a catalog service, their queue, the table locks, and the commits that wait for a batch."""

    def __init__(self, settings: ServiceSettings, counters: CatalogCounters) -> None:
        self._settings = settings
        self._counters = counters
        self._busy = 0
        self._waiting = 0
        self._queue: deque[Signal] = deque()
        self._locked: set[int] = set()
        self._lock_queue: list[tuple[Collection[int], Signal]] = []
        self._batches: dict[int, deque[Member]] = {}
        self._committing: Counter[int] = Counter()

    def refuses(self, *, joins_batch: bool = False) -> bool:
        """Return whether the service rejects a request that arrives now, because the queue is full."""
        limit = self._settings.queue_limit
        if limit is None or self._waiting < limit:
            return False
        if joins_batch or self._is_full():
            self._counters.service_refused += 1
            return True
        return False

    def _is_full(self) -> bool:
        return 0 < self._settings.workers <= self._busy

    def enter(self, now_ms: float, *, waits_already: bool = False) -> Generator[Step, None, float]:
        """Acquire a worker for a request, and return the time of the acquisition.

        If ``waits_already`` is set, the request is not counted as waiting, because its batch is already counted.
        """
        self._counters.service_requests += 1
        if not self._is_full():
            self._busy += 1
            return now_ms
        signal = Signal()
        self._queue.append(signal)
        if not waits_already:
            self._waiting += 1
        longest = self._counters.service_longest_queue
        self._counters.service_longest_queue = max(longest, len(self._queue))
        yield WaitFor(signal)
        if not waits_already:
            self._waiting -= 1
        self._counters.service_waited_ms += signal.time_ms - now_ms
        return signal.time_ms

    def leave(self, began_ms: float, now_ms: float) -> None:
        """Pass the worker on to the request that has waited longest, or mark it as free if no request waits."""
        self._counters.service_busy_ms += now_ms - began_ms
        if self._queue:
            self._queue.popleft().wake()
        else:
            self._busy -= 1

    def lock(self, tables: Collection[int], now_ms: float) -> Generator[Step, None, float]:
        """Acquire the locks of all tables at once, and return the time of the acquisition."""
        if self._locked.isdisjoint(tables):
            self._locked.update(tables)
            return now_ms
        signal = Signal()
        self._lock_queue.append((tables, signal))
        yield WaitFor(signal)
        return signal.time_ms

    def unlock(self, tables: Collection[int]) -> None:
        """Release the locks of the tables, and pass them on to waiting commits in order of arrival."""
        self._locked.difference_update(tables)
        left = []
        for wanted, signal in self._lock_queue:
            if self._locked.isdisjoint(wanted):
                self._locked.update(wanted)
                signal.wake()
            else:
                left.append((wanted, signal))
        self._lock_queue = left

    def begin_commit(self, tables: Collection[int]) -> None:
        """Count a commit to these tables as in service."""
        self._committing.update(tables)

    def end_commit(self, tables: Collection[int]) -> int:
        """End the service of a commit.

        Returns:
            Number of commits to other tables that are in service. A commit to several tables is counted once for each table.
        """
        self._committing.subtract(tables)
        return self._committing.total() - sum(self._committing[table_id] for table_id in tables)

    def join(self, table: int, member: Member) -> None:
        """Add a commit to the next batch of the table. If no batch is waiting, the commit leads a new batch."""
        self._waiting += 1
        if table in self._batches:
            self._batches[table].append(member)
        else:
            self._batches[table] = deque([member])
            member.leads = True

    def take_batch(self, table: int) -> list[Member]:
        """Return the commits of the batch that starts now, the leader first, and remove them from the queue."""
        waiting, most = self._batches[table], self._settings.coalesce.max_batch if self._settings.coalesce else 0
        batch = [waiting.popleft() for _ in range(min(len(waiting), most or len(waiting)))]
        self._waiting -= len(batch)
        self._counters.service_batches += 1
        return batch

    def end_batch(self, table: int, batch: list[Member]) -> None:
        """Respond to the other commits of the batch, and make the first waiting commit the leader of the next batch."""
        for member in batch[1:]:
            member.signal.wake()
        waiting = self._batches[table]
        if waiting:
            waiting[0].leads = True
            waiting[0].signal.wake()
        else:
            del self._batches[table]
