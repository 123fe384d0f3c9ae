"""Run the model on the reference engine, with SimPy.

The reference engine is the readable definition of a run. The engine writes one row for each transaction, in the order in which
transactions end, and then the rows of transactions in flight.

Events at the same time are ordered by transaction number. The events of transactions precede arrivals, in the order of their
sources, then late starts of writers, and then the events of committers: handoffs, starts of commits, timers, last rounds. SimPy
orders simultaneous events by priority, so the engine passes the transaction number as the priority of an event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar

import simpy

from endive.catalog import AccountedCatalog, Catalog
from endive.randomness import TransactionStreams
from endive.simulation.columns import Progress, RowBuffer, Sink, results_to_batch, trace_to_batch
from endive.simulation.config import SimulationConfig
from endive.simulation.summary import RunCounters
from endive.steps import FailedAnswer, RequestFailedError, Signal, Step, WaitFor
from endive.table import TableModel
from endive.transaction import ManifestLists, Transaction, TransactionResult, TransactionStatus
from endive.transaction.types import Batch
from endive.workload import Committer, CommitterSource, HandOverCounters, SlotCounters, Source

ARRIVAL, LATE_START, HAND_OVER, BEGIN, TIMER, LAST_ROUND = range(6)
"""Kinds of events of a source, in the order in which the engine processes events at the same time."""


class CommitterDriver:
    """Events of the committer of one class: its timer and its commits."""

    def __init__(self, engine: ReferenceEngine, source: CommitterSource, counters: HandOverCounters) -> None:
        cls = source.workload_class
        assert cls.committer is not None
        self._engine = engine
        self._source = source
        self._counters = counters
        writers = engine.writers_of(cls.name)
        self._committer = Committer(cls.committer, cls.start_ms, writers, engine.end_ms(source))
        self._limit = cls.most_uncommitted
        self._called = False
        self._timed = False

    def schedule_last_round(self) -> None:
        """Schedule a commit after the end of arrivals for file batches that are still queued, unless a round commits them."""
        assert self._source.workload_class.committer is not None
        if self._source.workload_class.committer.round == "all_writers":
            self._engine.schedule(LAST_ROUND, self._source, self._engine.end_ms(self._source), self._consider)

    def start(self, writer: Source) -> None:
        """Start the next job of a writer."""
        self._counters.handovers_begun += 1
        self._committer.open_round(writer, self._engine.now_ms)
        writer.collect(self._engine.now_ms)
        work_ms = writer.next_work_ms()
        writer.job_end_ms = self._engine.now_ms + work_ms
        self._engine.schedule(HAND_OVER, writer, work_ms, lambda: self._hand_over(writer))
        self._consider()

    def _hand_over(self, writer: Source) -> None:
        self._counters.handovers_made += 1
        writer.running = False
        writer.uncommitted += 1
        self._committer.take(writer, self._engine.now_ms)
        if writer.closed and writer.uncommitted < self._limit:
            self._engine.await_arrival(writer)
        elif writer.closed:
            writer.blocked = True
        self._engine.start_late(writer)
        self._consider()

    def _consider(self) -> None:
        """Close the committer round if every writer has handed off a file batch, then start a commit or set the timer.

        If a commit is in progress, the method does nothing.
        """
        for writer in self._committer.close_round(self._engine.now_ms):
            self._engine.start_late(writer)
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
        """End the current commit. Its file batches are committed, aborted, or queued again."""
        aborted = not installed and self._engine.has_ended()
        writers = self._committer.end(remove=installed or aborted)
        if aborted:
            self._counters.handovers_given_up += len(writers)
        else:
            self._counters.handovers_committed += len(writers)
        for writer in writers:
            self._release(writer)
        self._consider()

    def _release(self, writer: Source) -> None:
        """Resume a writer that was blocked until one of its file batches was committed."""
        writer.uncommitted -= 1
        if writer.blocked:
            writer.blocked = False
            self._engine.await_arrival(writer)
        self._engine.start_late(writer)


T = TypeVar("T")

_ARRIVALS = 2**62
_PROGRESS_EVERY = 256


def drive_generator(env: simpy.Environment, steps: Generator[Step, None, T], place: int, done: Callable[[T], None]) -> None:
    """Run a generator of steps in simulated time, and pass its return value to ``done``.

    A number is a wait in milliseconds. All steps use the same SimPy event, which is faster than a ``simpy.Process``.
    """
    event = simpy.Event(env)
    event._ok, event._value = True, None

    def schedule(latency_ms: float, then: Callable[[simpy.Event], None]) -> None:
        event.callbacks = [then]
        env.schedule(event, place, latency_ms)  # type: ignore[arg-type]

    def take(step: Step) -> None:
        if isinstance(step, WaitFor):
            step.signal.attach(lambda delay_ms: schedule(delay_ms, partial(answered, step.signal)))
        elif isinstance(step, FailedAnswer):
            schedule(step.latency_ms, partial(failed, RequestFailedError(step.reason)))
        else:
            schedule(step, resume)

    def resume(_: simpy.Event) -> None:
        try:
            step = next(steps)
        except StopIteration as stop:
            done(stop.value)
            return
        if type(step) is float:
            event.callbacks = [resume]
            env.schedule(event, place, step)  # type: ignore[arg-type]
        else:
            take(step)

    def answered(signal: Signal, _: simpy.Event) -> None:
        signal.time_ms = env.now
        resume(_)

    def failed(error: RequestFailedError, _: simpy.Event) -> None:
        try:
            step = steps.throw(error)
        except StopIteration as stop:
            done(stop.value)
        else:
            take(step)

    resume(event)


class ReferenceEngine:
    """Run of a configuration on the reference engine."""

    def __init__(self, config: SimulationConfig, sink: Sink, trace: Sink | None = None, progress: Progress | None = None):
        self._config = config
        self._env = simpy.Environment()
        self._catalog: Catalog = config.catalog.fresh()
        workload = config.workload if config.seed is None else config.workload.reseeded(config.seed)
        self._sources = workload.sources()
        self._manifest_lists = ManifestLists(workload.config.num_tables, config.manifest_list_seal_threshold_bytes)
        self._policies = {cls.name: config.policy_of(cls) for cls in workload.config.workload_classes}
        if any(policy.path.keeps_files for policy in self._policies.values()):
            self._catalog = _with_accounts(self._catalog)
        self._results = RowBuffer(results_to_batch, sink)
        self._trace = None if trace is None else RowBuffer(trace_to_batch, trace)
        self._progress = progress
        self._in_flight: dict[int, Transaction] = {}
        self._next_id = 0
        self._handovers = HandOverCounters()
        self._slots = SlotCounters()
        self._committers = {
            source.workload_class.name: CommitterDriver(self, source, self._handovers)
            for source in self._sources
            if isinstance(source, CommitterSource)
        }

    def run(self) -> RunCounters:
        """Run to the end, and return the counters of the catalog, the committers and the writers."""
        config, env = self._config, self._env
        for source in self._sources:
            if not isinstance(source, CommitterSource):
                self.await_arrival(source)
        for committer in self._committers.values():
            committer.schedule_last_round()
        if config.drain or config.duration_ms > 0.0:
            env.run(until=None if config.drain else config.duration_ms)
        for txn in self._in_flight.values():
            self._results.add(_in_flight_result(txn, config.duration_ms))
        self._results.flush()
        if self._trace is not None:
            self._trace.flush()
        return RunCounters.collect(self._catalog.counters, self._manifest_lists.counters, self._handovers, self._slots)

    @property
    def now_ms(self) -> float:
        """Current simulated time in milliseconds."""
        return self._env.now

    def has_ended(self) -> bool:
        """Return whether the time of the last possible arrival has passed."""
        return self._env.now >= self._config.duration_ms

    def await_arrival(self, source: Source) -> None:
        """Schedule the next arrival of a source, unless the arrival is after the end of the run."""
        now_ms, delay_ms = self._env.now, source.next_delay_ms(self._env.now)
        traced_ms = source.workload_class.arrivals.traced_ms(source.ordinal)
        if traced_ms is not None and math.isfinite(traced_ms) and now_ms + delay_ms != traced_ms:
            # the sum can be rounded to a different time; it is exact from the second half of traced_ms on
            self.schedule(ARRIVAL, source, 0.75 * traced_ms - now_ms, partial(self.await_arrival, source))
        else:
            self.arrive_after(source, delay_ms)

    def arrive_after(self, source: Source, delay_ms: float) -> None:
        """Schedule the arrival of a source after a delay, unless the arrival is after the end of the source."""
        if self._env.now + delay_ms < self.end_ms(source):
            self.schedule(ARRIVAL, source, delay_ms, partial(self._arrive, source))

    def writers_of(self, class_name: str) -> list[Source]:
        """Return the writers of a class, in order of their numbers."""
        return [each for each in self._sources if each.workload_class.name == class_name and not isinstance(each, CommitterSource)]

    def end_ms(self, source: Source) -> float:
        """Return the time at which a source stops submitting transactions."""
        return min(self._config.duration_ms, source.workload_class.end_ms)

    def _arrive(self, source: Source) -> None:
        """Process an arrival of a source, and schedule the next arrival.

        The source starts a transaction or a job. A writer that is busy misses the scheduled time.
        """
        if not source.paced or source.take_slot(self._env.now, self._slots):
            self._start(source)
        if not source.closed:
            self.await_arrival(source)

    def _start(self, source: Source) -> None:
        source.running, source.late, source.due = source.paced, False, False
        committer = self._committers.get(source.workload_class.name)
        (self.submit if committer is None else committer.start)(source)

    def start_late(self, writer: Source) -> None:
        """Start a periodic writer that missed a scheduled time, if the writer is free now."""
        if writer.late and not writer.due and writer.is_free and self._env.now < self.end_ms(writer):
            writer.due = True
            self.schedule(LATE_START, writer, 0.0, partial(self._start, writer))

    def schedule(self, kind: int, source: Source, delay_ms: float, happen: Callable[[], None]) -> None:
        """Schedule an event of a source. The engine processes events at the same time in the order of their kinds."""
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks = [lambda _: happen()]
        self._env.schedule(event, _ARRIVALS + kind * len(self._sources) + source.rank, delay_ms)  # type: ignore[arg-type]

    def submit(self, source: Source, batch: Batch | None = None) -> None:
        """Start the next transaction of a source. A transaction of a committer commits the file batches in ``batch``."""
        txn, streams = source.make(self._next_id, self._env.now)
        if source.paced and batch is None:
            txn.batch = Batch(data_start_ms=source.collected_ms)
        self._run(source, txn, streams, batch)

    def _run(self, source: Source, txn: Transaction, streams: TransactionStreams, batch: Batch | None) -> None:
        config, cls = self._config, source.workload_class
        policy = self._policies[cls.name]
        source.equip(txn, policy)
        if batch is not None:
            txn.batch = batch
        self._next_id += 1
        self._in_flight[txn.txn_id] = txn
        if self._progress is not None and self._next_id % _PROGRESS_EVERY == 0:
            self._progress(self._env.now)
        steps = txn.execute(
            self._catalog,
            config.storage_provider,
            config.detector_of(cls),
            config.max_retries_of(cls),
            config.ml_append_mode,
            policy=policy,
            streams=streams,
            manifest_lists=self._manifest_lists,
            trace=None if self._trace is None else self._trace.add,
        )

        def finish(result: TransactionResult) -> None:
            del self._in_flight[txn.txn_id]
            self._results.add(result)
            committed = result.status is TransactionStatus.COMMITTED
            source.learn(txn, policy, committed)
            job = txn.job
            if job is not None and job.advance(result):
                following = job.next_commit(txn, self._next_id, self._env.now)
                self._run(source, following, job.streams.of_commit(job.number), None)
            elif batch is not None:
                self._committers[cls.name].end(installed=committed or result.installs > 0)
            elif source.closed:
                self.await_arrival(source)
            else:
                if result.installs:
                    source.collected_ms = txn.submit_time_ms
                source.running = False
                self.start_late(source)

        drive_generator(self._env, steps, txn.txn_id + 1, finish)


def _with_accounts(catalog: Catalog) -> Catalog:
    """Return a custom catalog that tracks the files of its tables, as Iceberg's commit paths require."""
    return AccountedCatalog(catalog, TableModel()) if getattr(catalog, "table_model", None) is None else catalog


def _in_flight_result(txn: Transaction, now_ms: float) -> TransactionResult:
    """Return the row of a transaction that is in flight at the end of the run."""
    if txn.lifecycle is not None:
        return txn.lifecycle.result(now_ms)
    return TransactionResult(
        status=TransactionStatus.IN_FLIGHT,
        txn_id=txn.txn_id,
        commit_time_ms=-1.0,
        abort_time_ms=-1.0,
        abort_reason=None,
        total_retries=0,
        commit_latency_ms=0.0,
        total_latency_ms=now_ms - txn.submit_time_ms,
        operation_type=txn.operation_type,
        runtime_ms=0.0,
        submit_time_ms=txn.submit_time_ms,
        workload_class=txn.workload_class,
        tables_written=tuple(sorted(txn.tables_written)),
        client=txn.client,
        data_start_ms=txn.batch.data_start_ms,
    )
