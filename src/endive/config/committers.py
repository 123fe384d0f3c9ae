"""Committers of classes: from their keys to settings, and what contradicts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endive.config.errors import Problem
from endive.config.resolve import ResolvedClass, Trace, resolve_classes
from endive.config.schema import Closed, CommitterSection, Document
from endive.config.traces import TraceError, read_trace
from endive.workload import CommitterSettings, WriterArrivals


def build_committer(cls: ResolvedClass) -> CommitterSettings | None:
    """The committer of a checked class, if it has one."""
    section = _section(cls)
    return None if section is None else CommitterSettings(**section.model_dump())


def _section(cls: ResolvedClass) -> CommitterSection | None:
    return None if cls.own is None else cls.own.committer


def check_committers(document: Document) -> Iterator[Problem]:
    """What is wrong with committers, and with keys that have no effect beside them."""
    classes = resolve_classes(document)
    for cls in classes:
        section = _section(cls)
        if section is not None:
            yield from _check(cls, section, document)
    if document.catalog.coalesce is not None and len(classes) == 1 and _section(classes[0]) is not None:
        message = "contradicts a committer: the only class commits one at a time, so that no two commits wait for each other; "
        yield Problem("catalog.coalesce", message + f"leave it out, or {classes[0].key('committer')}")


def _check(cls: ResolvedClass, section: CommitterSection, document: Document) -> Iterator[Problem]:
    end_ms = document.simulation.duration_ms
    if section.max_in_flight is not None and not isinstance(cls.arrivals, Closed | WriterArrivals):
        message = "has an effect only where a class has writers (closed, or writers and every): other arrivals cannot wait"
        yield Problem(cls.key("committer.max_in_flight"), message, section.max_in_flight)
    if cls.start_ms + section.interval_ms >= end_ms and section.max_batch == 0:
        message = f"is not before the end of the run, simulation.duration_ms = {end_ms:.12g}: nothing would be committed"
        yield Problem(cls.key("committer.interval_ms"), message, section.interval_ms)
    if dict(cls.settings.operation_types)["read_only"] > 0.0:
        yield Problem(cls.key("committer"), "has nothing to commit where the class has read_only operations: give them a class")
    if isinstance(cls.arrivals, Trace):
        yield from _trace(cls, cls.arrivals.path)


def _trace(cls: ResolvedClass, path: str) -> Iterator[Problem]:
    """Hand-overs have a time and a work; what is committed follows from the class."""
    try:
        submissions = read_trace(Path(path))
    except (TraceError, OSError):
        return  # which the check of arrivals tells
    for column in ("operation", "table", "partitions"):
        if any(getattr(each, column) is not None for each in submissions):
            message = f"has a column {column}, which a committer cannot follow: it commits for all; leave it out, or the committer"
            yield Problem(cls.key("trace"), message, path)
