"""Drive the committer of a class in the reference engine: works, hand-overs, and when a commit begins and ends.

Events of the same moment come in this order: transactions, arrivals, hand-overs, begins of commits, timers of committers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endive.workload import Committer, CommitterSource, HandOverCounters, Source

if TYPE_CHECKING:
    from endive.simulation.reference import ReferenceEngine

HAND_OVER, BEGIN, TIMER = 1, 2, 3
"""Kinds of events of a source after its arrivals (0), in the order in which they come at the same moment."""


class CommitterDriver:
    """The committer of one class, the client that commits, and its timer."""

    def __init__(self, engine: ReferenceEngine, source: CommitterSource, counters: HandOverCounters) -> None:
        cls = source.workload_class
        assert cls.committer is not None
        self._engine = engine
        self._source = source
        self._counters = counters
        self._committer = Committer(cls.committer, cls.start_ms)
        self._limit = cls.most_uncommitted
        self._called = False
        self._timed = False

    def arrive(self, writer: Source) -> None:
        """Let a writer begin its next work, or wait until fewer of its hand-overs are uncommitted."""
        if not writer.closed and 0 < self._limit <= writer.uncommitted:
            writer.blocked = True
            return
        self._counters.handovers_begun += 1
        self._engine.schedule(HAND_OVER, writer, writer.next_work_ms(), lambda: self._hand_over(writer))
        if not writer.closed:
            self._engine.await_arrival(writer)

    def _hand_over(self, writer: Source) -> None:
        self._counters.handovers_made += 1
        writer.uncommitted += 1
        self._committer.take(writer, self._engine.now_ms)
        if writer.closed and writer.uncommitted < self._limit:
            self._engine.await_arrival(writer)
        elif writer.closed:
            writer.blocked = True
        self._consider()

    def _consider(self) -> None:
        """Call for a commit, or set the timer, if something waits and no commit is under way."""
        delay_ms = self._committer.delay_ms(self._engine.now_ms)
        if delay_ms is None:
            return
        if delay_ms > 0.0 and not self._timed:
            self._timed = True
            self._engine.schedule(TIMER, self._source, delay_ms, self._time_is_up)
        elif delay_ms == 0.0 and not self._called:
            self._called = True
            self._engine.schedule(BEGIN, self._source, 0.0, self._begin)

    def _time_is_up(self) -> None:
        self._timed = False
        self._consider()

    def _begin(self) -> None:
        self._called = False
        self._engine.submit(self._source, self._committer.begin(self._engine.now_ms))

    def end(self, *, installed: bool) -> None:
        """End the commit that is under way: what it held is committed, given up, or waits for the next one."""
        given_up = not installed and self._engine.has_ended()
        writers = self._committer.end(remove=installed or given_up)
        if given_up:
            self._counters.handovers_given_up += len(writers)
        else:
            self._counters.handovers_committed += len(writers)
        for writer in writers:
            self._release(writer)
        self._consider()

    def _release(self, writer: Source) -> None:
        """Let a writer go on that has waited for one of its hand-overs."""
        writer.uncommitted -= 1
        if not writer.blocked:
            return
        writer.blocked = False
        if writer.closed:
            self._engine.await_arrival(writer)
        else:
            self._engine.arrive_after(writer, 0.0)
