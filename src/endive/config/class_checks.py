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
    """Check that a class has arrivals, and that their intervals are not all 0."""
    key, intervals = cls.key(INTER_ARRIVAL.key), cls.arrivals.inter_arrival
    if cls.arrivals.kind is None:
        yield Problem(key, "is missing; set it or another key for arrivals, such as rate")
    elif intervals is not None and not any(
        (intervals.scale, intervals.mean, intervals.median, intervals.value, intervals.min, intervals.max)
    ):
        yield Problem(key, "must have a mean above 0", 0)


def check_times(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check the arrivals of a class against the length of the run."""
    end_ms, schedule = document.simulation.duration_ms, cls.arrivals.schedule
    if cls.start_ms >= end_ms:
        message = f"must be below simulation.duration_ms = {end_ms:.12g}"
        yield Problem(cls.key("start_ms"), message, cls.start_ms)
    if schedule is not None and all(step.rate == 0.0 or step.from_ms >= end_ms for step in schedule):
        message = f"must have a rate above 0 before simulation.duration_ms = {end_ms:.12g}"
        yield Problem(cls.key(SCHEDULE.key), message)


def check_trace(cls: ResolvedClass, document: Document, partitions: tuple[int, ...]) -> Iterator[Problem]:
    """Check a trace against the length of the run, the tables and the keys that it overrides."""
    key, path = cls.key(TRACE.key), cls.arrivals.trace
    if path is None:
        return
    try:
        submissions = read_trace(Path(path))
    except FileNotFoundError:
        yield Problem(key, "no such file", path)
        return
    except (TraceError, OSError) as error:
        yield Problem(key, str(error), path)
        return
    end_ms, last_ms = document.simulation.duration_ms, submissions[-1].time_ms
    if last_ms >= end_ms:
        row = next(number for number, each in enumerate(submissions, start=1) if each.time_ms >= end_ms)
        message = f"row {row} is at {submissions[row - 1].time_ms:.12g} ms, after the end of the run at {end_ms:.12g} ms; "
        yield Problem(key, message + f"set simulation.duration_ms = {last_ms + 1.0:.12g} to replay the whole trace", path)
    yield from _check_tables(key, path, submissions, partitions)
    names = {each.operation.operation_type for each in submissions if each.operation is not None}
    unknown = sorted(names - cls.path.operations - {"read_only"})
    if unknown:
        message = f"{cls.path.client} does not support {', '.join(unknown)}, which the trace contains"
        yield Problem(cls.key("commit_path"), message, cls.path.name)
    yield from _check_replaced_keys(cls, submissions)


def _check_tables(key: str, path: str, submissions: tuple[Submission, ...], partitions: tuple[int, ...]) -> Iterator[Problem]:
    for number, each in enumerate(submissions, start=1):
        if each.table is not None and each.table >= len(partitions):
            yield Problem(key, f"row {number}: table must be from 0 to {len(partitions) - 1}, not {each.table}", path)
            return
        if each.table is not None and each.partitions and max(each.partitions) >= partitions[each.table]:
            last = partitions[each.table] - 1
            message = f"row {number}: partitions of table {each.table} must be from 0 to {last}, not {max(each.partitions)}"
            yield Problem(key, message, path)
            return


_REPLACED = {
    "operation": ("operation", "operation_types"),
    "runtime_ms": ("runtime",),
    "table": ("tables", "tables_per_txn", "table_selection"),
    "partitions": ("partitions_per_txn", "partition_selection", "partition_range"),
}
"""Columns of a trace, and the keys that they override if every row has a value."""


def _check_replaced_keys(cls: ResolvedClass, submissions: tuple[Submission, ...]) -> Iterator[Problem]:
    for column, keys in _REPLACED.items():
        if all(getattr(each, column) is not None for each in submissions):
            for key in sorted(set(keys) & cls.changed_keys):
                yield Problem(cls.key(key), f"has no effect: every row of the trace has a value for {column}")


def check_committers(document: Document) -> Iterator[Problem]:
    """Check committers, and keys that have no effect together with one."""
    classes = resolve_classes(document)
    for cls in classes:
        if cls.committer is not None:
            yield from _check_committer(cls, cls.committer, document)
    if document.catalog.coalesce is not None and len(classes) == 1 and classes[0].committer is not None:
        message = "has no effect with a committer, which commits one batch at a time; "
        yield Problem("catalog.coalesce", message + f"remove it or {classes[0].key('committer')}")


def _check_committer(cls: ResolvedClass, section: CommitterSection, document: Document) -> Iterator[Problem]:
    end_ms = document.simulation.duration_ms
    if section.max_in_flight is not None and cls.arrivals.writers is None and cls.arrivals.closed is None:
        message = "has no effect unless the class has numbered writers: set closed, or writers and every"
        yield Problem(cls.key("committer.max_in_flight"), message, section.max_in_flight)
    yield from _check_round(cls, section)
    if cls.start_ms + section.interval_ms >= end_ms and section.max_batch == 0:
        message = f"must be below simulation.duration_ms = {end_ms:.12g}, or nothing is committed"
        yield Problem(cls.key("committer.interval_ms"), message, section.interval_ms)
    if dict(cls.settings.operation_types)["read_only"] > 0.0:
        yield Problem(cls.key("committer"), "cannot commit read_only operations; move them to another class")
    if cls.arrivals.trace is not None:
        yield from _check_committed_trace(cls, cls.arrivals.trace)


def _check_round(cls: ResolvedClass, section: CommitterSection) -> Iterator[Problem]:
    """Check the keys of rounds, which end when all writers have delivered."""
    if section.round == "queue":
        if section.timeout_ms is not None:
            yield Problem(cls.key("committer.timeout_ms"), 'has no effect without round = "all_writers"', section.timeout_ms)
        return
    if section.timeout_ms is None:
        yield Problem(cls.key("committer.timeout_ms"), 'is missing; round = "all_writers" needs it, such as timeout_ms = "30s"')
    if cls.arrivals.writers is None or cls.arrivals.phase != "aligned":
        message = 'needs writers that start together: set writers, every and phase = "aligned"'
        yield Problem(cls.key("committer.round"), message, section.round)
    for key in ("interval_ms", "max_batch"):
        if getattr(section, key) > 0:
            message = 'has no effect with round = "all_writers", where `every` of the writers sets the interval'
            yield Problem(cls.key(f"committer.{key}"), message, getattr(section, key))


def _check_committed_trace(cls: ResolvedClass, path: str) -> Iterator[Problem]:
    """Check that a trace has only times and runtimes: the class determines what its committer commits."""
    try:
        submissions = read_trace(Path(path))
    except (TraceError, OSError):
        return  # reported by check_trace
    for column in ("operation", "table", "partitions"):
        if any(getattr(each, column) is not None for each in submissions):
            message = f"must not have the column {column} with a committer, which commits for all writers; remove one of the two"
            yield Problem(cls.key(TRACE.key), message, path)
