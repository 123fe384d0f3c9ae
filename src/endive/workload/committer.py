"""Define the committer, a client that commits the file batches of all writers of a class, one commit at a time.

The committer holds the queue of uncommitted file batches and determines the earliest time of the next commit. An engine reports
events to the committer and asks it for this time. docs/explanation/services.md describes the rules and the order of events.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal, get_args

from endive.transaction.types import Batch

if TYPE_CHECKING:
    from endive.workload.workload import Source


CommitRound = Literal["queue", "all_writers"]
COMMIT_ROUNDS: tuple[CommitRound, ...] = get_args(CommitRound)
"""Rules for the start of a commit, in the order of their codes in the compiled engine."""


@dataclass(frozen=True)
class CommitterSettings:
    """Settings of a committer.

    With the rule ``queue``, a commit starts when file batches are queued and the interval has elapsed.

    With the rule ``all_writers``, each commit follows a round. The first job that starts after the end of a round opens the next
    round. A round ends when every writer has handed off the file batch of a job that started in the round, or after ``timeout_ms``.
    The commit then takes all queued file batches, including late file batches of earlier rounds.

    ``interval_ms`` is the time from the start of one commit to the start of the next. A commit starts earlier if ``max_batch`` file
    batches are queued (0: no limit). ``max_in_flight`` is the maximum number of uncommitted file batches of a writer. By default,
    it is 1 in a closed loop and unlimited otherwise.
    """

    interval_ms: float = 0.0
    max_batch: int = 0
    max_in_flight: int | None = None
    round: CommitRound = "queue"
    timeout_ms: float | None = None

    def __post_init__(self) -> None:
        if (self.round == "all_writers") != (self.timeout_ms is not None):
            raise ValueError("timeout_ms is required with round all_writers, and has no effect with other rounds")


@dataclass
class HandOverCounters:
    """Counters of file batches.

    The number of file batches handed off minus those committed or aborted is the number of file batches that were queued or in a
    commit at the end of the run.
    """

    handovers_begun: int = 0
    """Number of jobs that started to collect a file batch."""
    handovers_made: int = 0
    """Number of jobs that finished and handed off their file batch."""
    handovers_committed: int = 0
    handovers_given_up: int = 0
    """Number of file batches whose commit aborted after the end of arrivals, in a run with ``drain``."""


class Committer:
    """Queue of the file batches of one class, and the current commit of these file batches."""

    def __init__(
        self, settings: CommitterSettings, start_ms: float, writers: Sequence[Source] = (), end_ms: float = math.inf
    ) -> None:
        self.settings = settings
        self._writers = writers
        self._end_ms = end_ms
        self._round = 0
        self._delivered = 0
        self._deadline_ms = math.inf
        """Deadline of the open round; infinite if no round is open."""
        self._ready = False
        """True if a round has ended and its file batches are queued."""
        self.under_way = 0
        """Number of file batches in the current commit, which are first in the queue; 0 if no commit is in progress."""
        self._queue: deque[tuple[float, Source, float]] = deque()
        self._next_ms = start_ms + settings.interval_ms

    def take(self, writer: Source, now_ms: float) -> None:
        """Add a file batch of a writer to the queue."""
        self._queue.append((now_ms, writer, writer.batch_start_ms(now_ms)))
        if self._deadline_ms < math.inf and writer.round == self._round:
            writer.delivered = True
            self._delivered += 1

    def open_round(self, writer: Source, now_ms: float) -> None:
        """Assign a job that starts now to the open round, or open a round if none is open."""
        if self.settings.timeout_ms is None:
            return
        if self._deadline_ms == math.inf:
            self._round += 1
            self._deadline_ms = now_ms + self.settings.timeout_ms
        writer.round = self._round

    def close_round(self, now_ms: float) -> list[Source]:
        """Close the open round if every writer has handed off a file batch, or at its deadline.

        During a commit, the committer does not check the deadline; it does so after the commit.

        Returns:
            The writers that can start again.
        """
        complete = 0 < len(self._writers) == self._delivered
        if not complete and (self.under_way or now_ms < self._deadline_ms):
            return []
        self._deadline_ms, self._delivered = math.inf, 0
        self._ready = len(self._queue) > self.under_way
        delivered = [writer for writer in self._writers if writer.delivered]
        for writer in delivered:
            writer.delivered = False
        return delivered

    def delay_ms(self, now_ms: float) -> float | None:
        """Return the time until the next commit may start or the open round ends, in ms.

        The method returns None if this time depends on other events.
        """
        waiting = len(self._queue)
        if self.under_way:
            return None
        if self.settings.timeout_ms is not None:
            is_last = self._deadline_ms == math.inf and now_ms >= self._end_ms
            if waiting and (self._ready or is_last):
                return 0.0
            return self._deadline_ms - now_ms if self._deadline_ms < math.inf else None
        if not waiting:
            return None
        if 0 < self.settings.max_batch <= waiting:
            return 0.0
        return max(self._next_ms - now_ms, 0.0)

    def begin(self, now_ms: float) -> Batch:
        """Start a commit of at most ``max_batch`` queued file batches."""
        waiting, most = len(self._queue), self.settings.max_batch
        self.under_way = min(waiting, most) if most else waiting
        self._next_ms = now_ms + self.settings.interval_ms
        self._ready = False
        waited_ms = 0.0
        data_start_ms = math.inf
        for handoff_ms, _, start_ms in islice(self._queue, self.under_way):
            waited_ms += now_ms - handoff_ms
            data_start_ms = min(data_start_ms, start_ms)
        return Batch(self.under_way, waited_ms, now_ms - self._queue[0][0], data_start_ms)

    def end(self, *, remove: bool) -> list[Source]:
        """End the current commit.

        If ``remove`` is set, remove the file batches of the commit from the queue, and return their writers in order.
        """
        batch, self.under_way = self.under_way, 0
        return [self._queue.popleft()[1] for _ in range(batch)] if remove else []
