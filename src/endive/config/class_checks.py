"""Checks of the arrivals, traces and committers of classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endive.config.errors import Problem
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.schema import CommitterSection, Document
from endive.config.traces import TraceError, read_trace
from endive.workload.arrivals import INTER_ARRIVAL, SCHEDULE, TRACE, Submission


def check_arrivals(cls: ResolvedClass) -> Iterator[Problem]:
    """Check that a class has arrivals, and that they do not all come at once."""
    key, intervals = cls.key(INTER_ARRIVAL.key), cls.arrivals.inter_arrival
    if cls.arrivals.kind is None:
        yield Problem(key, "is missing: nothing says how often transactions arrive")
    elif intervals is not None and not any(
        (intervals.scale, intervals.mean, intervals.median, intervals.value, intervals.min, intervals.max)
    ):
        yield Problem(key, "is always 0, so that transactions would arrive without end", 0)


def check_times(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check the arrivals of a class against the length of the run."""
    end_ms, schedule = document.simulation.duration_ms, cls.arrivals.schedule
    if cls.start_ms >= end_ms:
        message = f"is not before the end of the run, simulation.duration_ms = {end_ms:.12g}: nothing would arrive"
        yield Problem(cls.key("start_ms"), message, cls.start_ms)
    if schedule is not None and all(step.rate == 0.0 or step.from_ms >= end_ms for step in schedule):
        message = f"has no rate above 0 before the end of the run at {end_ms:.12g} ms: nothing would arrive"
        yield Problem(cls.key(SCHEDULE.key), message)


def check_trace(cls: ResolvedClass, document: Document, partitions: tuple[int, ...]) -> Iterator[Problem]:
    """Check a trace against the run, the tables and the keys that it replaces."""
    key, path = cls.key(TRACE.key), cls.arrivals.trace
    if path is None:
        return
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
    yield from _check_tables(key, path, submissions, partitions)
    names = {each.operation.operation_type for each in submissions if each.operation is not None}
    unknown = sorted(names - cls.path.operations - {"read_only"})
    if unknown:
        message = f"{cls.path.client} has no {', '.join(unknown)}, which the trace has"
        yield Problem(cls.key("commit_path"), message, cls.path.name)
    yield from _check_replaced_keys(cls, submissions)


def _check_tables(key: str, path: str, submissions: tuple[Submission, ...], partitions: tuple[int, ...]) -> Iterator[Problem]:
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
"""Columns of a trace, and the keys that they replace if every row has a value."""


def _check_replaced_keys(cls: ResolvedClass, submissions: tuple[Submission, ...]) -> Iterator[Problem]:
    for column, keys in _REPLACED.items():
        if all(getattr(each, column) is not None for each in submissions):
            for key in sorted(set(keys) & cls.changed_keys):
                yield Problem(cls.key(key), f"has no effect: the trace has a {column} for every submission")


def check_committers(document: Document) -> Iterator[Problem]:
    """Check committers, and keys that have no effect beside them."""
    classes = resolve_classes(document)
    for cls in classes:
        if cls.committer is not None:
            yield from _check_committer(cls, cls.committer, document)
    if document.catalog.coalesce is not None and len(classes) == 1 and classes[0].committer is not None:
        message = "contradicts a committer: the only class commits one at a time, so that no two commits wait for each other; "
        yield Problem("catalog.coalesce", message + f"leave it out, or {classes[0].key('committer')}")


def _check_committer(cls: ResolvedClass, section: CommitterSection, document: Document) -> Iterator[Problem]:
    end_ms = document.simulation.duration_ms
    if section.max_in_flight is not None and cls.arrivals.writers is None and cls.arrivals.closed is None:
        message = "has an effect only where a class has writers (closed, or writers and every): other arrivals cannot wait"
        yield Problem(cls.key("committer.max_in_flight"), message, section.max_in_flight)
    if cls.start_ms + section.interval_ms >= end_ms and section.max_batch == 0:
        message = f"is not before the end of the run, simulation.duration_ms = {end_ms:.12g}: nothing would be committed"
        yield Problem(cls.key("committer.interval_ms"), message, section.interval_ms)
    if dict(cls.settings.operation_types)["read_only"] > 0.0:
        yield Problem(cls.key("committer"), "has nothing to commit where the class has read_only operations: give them a class")
    if cls.arrivals.trace is not None:
        yield from _check_committed_trace(cls, cls.arrivals.trace)


def _check_committed_trace(cls: ResolvedClass, path: str) -> Iterator[Problem]:
    """Check that a trace has times and runtimes only: what is committed follows from the class."""
    try:
        submissions = read_trace(Path(path))
    except (TraceError, OSError):
        return  # reported by check_trace
    for column in ("operation", "table", "partitions"):
        if any(getattr(each, column) is not None for each in submissions):
            message = f"has a column {column}, which a committer cannot follow: it commits for all; leave it out, or the committer"
            yield Problem(cls.key(TRACE.key), message, path)
