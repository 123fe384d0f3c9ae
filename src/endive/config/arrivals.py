"""Arrivals of classes: from their keys to arrival processes, and what can be wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endive.config.errors import Problem
from endive.config.resolve import ResolvedClass, Trace
from endive.config.schema import Closed, Document, Periodic
from endive.config.traces import TraceError, read_trace
from endive.config.values import Interval
from endive.workload import arrivals as processes
from endive.workload.arrivals import Arrivals, ScheduledArrivals, Submission


def build_arrivals(cls: ResolvedClass) -> Arrivals:
    """The arrival process of a checked class."""
    arrivals = cls.arrivals
    assert arrivals is not None
    if isinstance(arrivals, Periodic):
        return processes.PeriodicArrivals(arrivals.interval_ms, arrivals.phase_ms)
    if isinstance(arrivals, Closed):
        return processes.ClosedArrivals(arrivals.clients, arrivals.think_time.to_distribution())
    if isinstance(arrivals, Trace):
        return processes.TraceArrivals(read_trace(Path(arrivals.path)))
    return processes.OpenArrivals(arrivals.to_distribution()) if isinstance(arrivals, Interval) else arrivals


def check_arrivals(cls: ResolvedClass) -> Iterator[Problem]:
    """What is wrong with the arrivals of a class."""
    arrivals = cls.arrivals
    if arrivals is None:
        yield Problem(cls.key("inter_arrival"), "is missing: nothing says how often transactions arrive")
    if isinstance(arrivals, Interval) and not any(
        (arrivals.scale, arrivals.mean, arrivals.median, arrivals.value, arrivals.min, arrivals.max)
    ):
        yield Problem(cls.key("inter_arrival"), "is always 0, so that transactions would arrive without end", 0)


def check_times(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Arrivals against the length of the run."""
    end_ms, arrivals = document.simulation.duration_ms, cls.arrivals
    if cls.start_ms >= end_ms:
        message = f"is not before the end of the run, simulation.duration_ms = {end_ms:.12g}: nothing would arrive"
        yield Problem(cls.key("start_ms"), message, cls.start_ms)
    if isinstance(arrivals, ScheduledArrivals) and all(rate == 0.0 or from_ms >= end_ms for from_ms, rate in arrivals.steps):
        message = f"has no rate above 0 before the end of the run at {end_ms:.12g} ms: nothing would arrive"
        yield Problem(cls.key("schedule"), message)


def check_trace(cls: ResolvedClass, document: Document, partitions: tuple[int, ...]) -> Iterator[Problem]:
    """A trace against the run, the tables and the keys that it takes the place of."""
    if not isinstance(cls.arrivals, Trace):
        return
    key, path = cls.key("trace"), cls.arrivals.path
    try:
        submissions = read_trace(Path(path))
    except FileNotFoundError:
        yield Problem(key, "there is no such file", path)
        return
    except (TraceError, OSError) as error:
        yield Problem(key, str(error), path)
        return
    end_ms, last_ms = document.simulation.duration_ms, submissions[-1].time_ms
    if last_ms >= end_ms:
        row = next(number for number, each in enumerate(submissions, start=1) if each.time_ms >= end_ms)
        message = f"row {row} is at {submissions[row - 1].time_ms:.12g} ms, beyond the end of the run at {end_ms:.12g} ms; "
        yield Problem(key, message + f"with simulation.duration_ms = {last_ms + 1.0:.12g} all of it is replayed", path)
    yield from _outside(key, path, submissions, partitions)
    names = {each.operation.operation_type for each in submissions if each.operation is not None}
    unknown = sorted(names - cls.path.operations - {"read_only"})
    if unknown:
        message = f"{cls.path.client} has no {', '.join(unknown)}, which the trace has"
        yield Problem(cls.key("commit_path"), message, cls.path.name)
    yield from _replaced(cls, submissions)


def _outside(key: str, path: str, submissions: tuple[Submission, ...], partitions: tuple[int, ...]) -> Iterator[Problem]:
    """Tables and partitions that there are not."""
    for number, each in enumerate(submissions, start=1):
        if each.table is not None and each.table >= len(partitions):
            yield Problem(key, f"row {number}: there is no table {each.table}; tables are 0 to {len(partitions) - 1}", path)
            return
        if each.table is not None and each.partitions and max(each.partitions) >= partitions[each.table]:
            last = partitions[each.table] - 1
            message = f"row {number}: there is no partition {max(each.partitions)} of table {each.table}; they are 0 to {last}"
            yield Problem(key, message, path)
            return


_REPLACED = {
    "operation": ("operation", "operation_types"),
    "runtime_ms": ("runtime",),
    "table": ("tables", "tables_per_txn", "table_selection"),
    "partitions": ("partitions_per_txn", "partition_selection", "partition_range"),
}


def _replaced(cls: ResolvedClass, submissions: tuple[Submission, ...]) -> Iterator[Problem]:
    """Keys of a class that have no effect, because the trace says it of every submission."""
    assert cls.own is not None
    for column, keys in _REPLACED.items():
        if all(getattr(each, column) is not None for each in submissions):
            for key in sorted(set(keys) & cls.own.model_fields_set):
                yield Problem(cls.key(key), f"has no effect: the trace has a {column} for every submission")
