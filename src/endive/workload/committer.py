"""Committer: one client that commits the file batches of all writers of a class, one commit at a time.

The committer owns the queue of uncommitted file batches and the earliest time of the next commit; an engine notifies it of events
and asks it for that time. docs/explanation/services.md describes the rules and the order of events.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from endive.transaction.types import Batch

if TYPE_CHECKING:
    from endive.workload.workload import Source


@dataclass(frozen=True)
class CommitterSettings:
    """Settings of a committer.

    ``interval_ms`` is the time from the start of one commit to the start of the next; a commit starts earlier if ``max_batch`` file
    batches wait (0: no limit). ``max_in_flight`` is the maximum number of uncommitted file batches of a writer; the default is 1 in
    a closed loop, otherwise unlimited.
    """

    interval_ms: float = 0.0
    max_batch: int = 0
    max_in_flight: int | None = None


@dataclass
class HandOverCounters:
    """Counters of file batches. Those handed off but neither committed nor abandoned were waiting or in flight at the end."""

    handovers_begun: int = 0
    """Number of jobs that started."""
    handovers_made: int = 0
    """Number of jobs that finished and handed off their file batch."""
    handovers_committed: int = 0
    handovers_given_up: int = 0
    """Number of file batches of commits that aborted after the end of arrivals, in a run with ``drain``."""


class Committer:
    """Queue of file batches of one class, and its current commit."""

    def __init__(self, settings: CommitterSettings, start_ms: float) -> None:
        self.settings = settings
        self.under_way = 0
        """Number of file batches in the current commit, the first of the queue; 0 without a commit."""
        self._queue: deque[tuple[float, Source]] = deque()
        self._next_ms = start_ms + settings.interval_ms

    def take(self, writer: Source, now_ms: float) -> None:
        """Add a file batch of a writer to the queue."""
        self._queue.append((now_ms, writer))

    def delay_ms(self, now_ms: float) -> float | None:
        """Return the time until the next commit may start; None during a commit or if no file batch waits."""
        waiting = len(self._queue)
        if self.under_way or not waiting:
            return None
        if 0 < self.settings.max_batch <= waiting:
            return 0.0
        return max(self._next_ms - now_ms, 0.0)

    def begin(self, now_ms: float) -> Batch:
        """Start a commit of the waiting file batches, at most ``max_batch``."""
        waiting, most = len(self._queue), self.settings.max_batch
        self.under_way = min(waiting, most) if most else waiting
        self._next_ms = now_ms + self.settings.interval_ms
        waited_ms = 0.0
        for handoff_ms, _ in islice(self._queue, self.under_way):
            waited_ms += now_ms - handoff_ms
        return Batch(self.under_way, waited_ms, now_ms - self._queue[0][0])

    def end(self, *, remove: bool) -> list[Source]:
        """End the current commit; with ``remove``, remove its file batches from the queue and return their writers in order."""
        batch, self.under_way = self.under_way, 0
        return [self._queue.popleft()[1] for _ in range(batch)] if remove else []
