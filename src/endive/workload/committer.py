"""A committer: writers hand over what they have, and one client commits for all of them, one commit at a time.

The committer owns the queue of what was handed over and not committed yet, and when the next commit may begin; an engine tells it
what happens and asks it when to begin. See docs/explanation/services.md for the rules and the order of events.
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
    """When commits begin, and what writers wait for.

    ``interval_ms`` from the begin of one commit to that of the next, unless ``max_batch`` hand-overs wait (0: no limit, and nothing
    begins earlier). ``max_in_flight`` hand-overs of one writer may be uncommitted; None: 1 in a closed loop, otherwise any number.
    """

    interval_ms: float = 0.0
    max_batch: int = 0
    max_in_flight: int | None = None


@dataclass
class HandOverCounters:
    """What became of hand-overs. Those made, less those committed and given up, were waiting or in flight at the end."""

    handovers_begun: int = 0
    """Works that began."""
    handovers_made: int = 0
    """Works that were done, and handed over."""
    handovers_committed: int = 0
    handovers_given_up: int = 0
    """Of commits that failed after the end of arrivals, in a run that is drained."""


class Committer:
    """The queue of one class and the commit that is under way."""

    def __init__(self, settings: CommitterSettings, start_ms: float) -> None:
        self.settings = settings
        self.under_way = 0
        """Hand-overs in the commit that is under way: the first of the queue; 0, if there is none."""
        self._queue: deque[tuple[float, Source]] = deque()
        self._next_ms = start_ms + settings.interval_ms

    def take(self, writer: Source, now_ms: float) -> None:
        """Put a hand-over into the queue."""
        self._queue.append((now_ms, writer))

    def delay_ms(self, now_ms: float) -> float | None:
        """Return how long from now until a commit may begin with what waits; None while one is under way or nothing waits."""
        waiting = len(self._queue)
        if self.under_way or not waiting:
            return None
        if 0 < self.settings.max_batch <= waiting:
            return 0.0
        return max(self._next_ms - now_ms, 0.0)

    def begin(self, now_ms: float) -> Batch:
        """Begin a commit with what waits, at most ``max_batch``."""
        waiting, most = len(self._queue), self.settings.max_batch
        self.under_way = min(waiting, most) if most else waiting
        self._next_ms = now_ms + self.settings.interval_ms
        waited_ms = 0.0
        for handed_over_ms, _ in islice(self._queue, self.under_way):
            waited_ms += now_ms - handed_over_ms
        return Batch(self.under_way, waited_ms, now_ms - self._queue[0][0])

    def end(self, *, remove: bool) -> list[Source]:
        """End the commit that is under way; returns the writers whose hand-overs leave the queue, in order, if they do."""
        batch, self.under_way = self.under_way, 0
        return [self._queue.popleft()[1] for _ in range(batch)] if remove else []
