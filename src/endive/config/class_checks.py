"""Check workload classes: arrivals, tables, retries, commit paths, protocols and committers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from endive.config.arrival_keys import TraceError, read_trace
from endive.config.errors import Problem
from endive.config.resolve import (
    ResolvedClass,
    follows_iceberg,
    lists_every_table,
    partitions_per_table,
    resolve_classes,
    spans_groups,
)
from endive.config.schema import CommitterSection, Document, Transactions
from endive.transaction.paths import DEFAULT_PATH, ICEBERG
from endive.transaction.policy import UNUSED_BY_KIND
from endive.transaction.protocol_path import SERVICE_POINTS, Protocol
from endive.workload.arrivals import INTER_ARRIVAL, SCHEDULE, TRACE, Submission
from endive.workload.classes import group_sizes


def check_classes(document: Document) -> Iterator[Problem]:
    """Check the arrivals and tables of classes, and check for keys without effect."""
    for resolved in resolve_classes(document):
        yield from _check_arrivals(resolved)
        yield from _useless(resolved, resolved.settings)
        if lists_every_table(document):
            yield from _access(resolved, document)


def check_submissions(document: Document) -> Iterator[Problem]:
    """Check arrivals against the length of the run, and traces against the tables."""
    for resolved in resolve_classes(document):
        yield from _check_times(resolved, document)
        if lists_every_table(document):
            yield from _check_trace(resolved, document, partitions_per_table(document))


def _check_arrivals(cls: ResolvedClass) -> Iterator[Problem]:
    """Check that a class has arrivals, and that not all intervals between them are 0."""
    key, intervals = cls.key(INTER_ARRIVAL.key), cls.arrivals.inter_arrival
    if cls.arrivals.kind is None:
        yield Problem(key, "is missing; set it or another key for arrivals, such as rate")
    elif intervals is not None and not any(
        (intervals.scale, intervals.mean, intervals.median, intervals.value, intervals.min, intervals.max)
    ):
        yield Problem(key, "must have a mean above 0", 0)


def _check_times(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check the arrivals of a class against the length of the run."""
    end_ms, schedule = document.simulation.duration_ms, cls.arrivals.schedule
    if cls.start_ms >= end_ms:
        message = f"must be below simulation.duration_ms = {end_ms:.12g}"
        yield Problem(cls.key("start_ms"), message, cls.start_ms)
    if schedule is not None and all(step.rate == 0.0 or step.from_ms >= end_ms for step in schedule):
        message = f"must have a rate above 0 before simulation.duration_ms = {end_ms:.12g}"
        yield Problem(cls.key(SCHEDULE.key), message)


def _check_trace(cls: ResolvedClass, document: Document, partitions: tuple[int, ...]) -> Iterator[Problem]:
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
"""Columns of a trace, and the keys that each column overrides if every row has a value."""


def _check_replaced_keys(cls: ResolvedClass, submissions: tuple[Submission, ...]) -> Iterator[Problem]:
    for column, keys in _REPLACED.items():
        if all(getattr(each, column) is not None for each in submissions):
            for key in sorted(set(keys) & cls.changed_keys):
                yield Problem(cls.key(key), f"has no effect: every row of the trace has a value for {column}")


def check_committers(document: Document) -> Iterator[Problem]:
    """Check the settings of committers, and check for keys that have no effect with a committer."""
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
        message = "has no effect unless the class has a fixed number of writers: set closed, or writers and every"
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
    """Check that a trace contains only times and runtimes, because the class determines what its committer commits."""
    try:
        submissions = read_trace(Path(path))
    except (TraceError, OSError):
        return  # reported by _check_trace
    for column in ("operation", "table", "partitions"):
        if any(getattr(each, column) is not None for each in submissions):
            message = f"must not have the column {column} with a committer, which commits for all writers; remove one of the two"
            yield Problem(cls.key(TRACE.key), message, path)


_EXPIRY = ("max_snapshot_age_ms", "min_snapshots_to_keep")


_JOBS = ("commits_per_job", "max_failed_commits")


_FILES = ("overwrite_by", "delete_files", "manifests_hit", "manifests_missed", "retain_snapshots", *_EXPIRY, *_JOBS)


def check_commit_paths(document: Document) -> Iterator[Problem]:
    """Check for keys and operations that the commit path of a class does not support."""
    if not follows_iceberg(document) and document.table.changed_keys:
        yield Problem(
            "table", f"has no effect with commit_path = {DEFAULT_PATH.name!r}; set commit_path, for example to {ICEBERG.name!r}"
        )
    for cls in resolve_classes(document):
        settings, given = cls.settings, cls.changed_keys
        if not cls.path.keeps_files:
            for key in _FILES:
                if key in given:
                    yield Problem(cls.key(key), f"has no effect with commit_path = {DEFAULT_PATH.name!r}", getattr(settings, key))
            continue
        where = f'commit_path = "{settings.commit_path}"'
        if document.transaction.manifest_list_mode == "append":
            yield Problem(
                cls.key("commit_path"),
                f"does not support ML+; use {DEFAULT_PATH.name!r}, or manifest_list_mode = 'rewrite'",
                settings.commit_path,
            )
        if settings.on_real_conflict == "merge" or (settings.conflicting_manifests and settings.on_real_conflict is None):
            yield Problem(
                cls.key("on_real_conflict"),
                f"is not supported with {where}: Iceberg aborts or restarts on a real conflict",
                "merge",
            )
        unknown = {name for name, weight in settings.operation_types if weight > 0.0} - cls.path.operations - {"read_only"}
        if unknown:
            allowed = ", ".join(sorted(cls.path.operations))
            message = f"{cls.path.client} does not support {', '.join(sorted(unknown))}; set operation to one of {allowed}"
            yield Problem(cls.key("commit_path"), message, cls.path.name)
        yield from _jobs(cls)
        for key in _EXPIRY:
            if {"retain_snapshots", key} <= given:
                yield Problem(cls.key(key), "has no effect with retain_snapshots; keep one of them", getattr(settings, key))
        if "manifests_per_concurrent_commit" in given:
            message = f"has no effect with {where}; [table] sets when manifests are merged"
            yield Problem(cls.key("manifests_per_concurrent_commit"), message, settings.manifests_per_concurrent_commit)


def _jobs(cls: ResolvedClass) -> Iterator[Problem]:
    """Check the keys of jobs with several commits."""
    settings = cls.settings
    if settings.commits_per_job == 1:
        if settings.max_failed_commits is not None:
            yield Problem(cls.key("max_failed_commits"), "has no effect without commits_per_job", settings.max_failed_commits)
        return
    key = cls.key("commits_per_job")
    rewrites = dict(settings.operation_types)["rewrite_files"] > 0.0
    if not rewrites and cls.arrivals.trace is None and "commits_per_job" in cls.changed_keys:
        yield Problem(key, "has no effect without the operation rewrite_files", settings.commits_per_job)
    if cls.path is not ICEBERG and rewrites:
        yield Problem(key, f"needs commit_path = {ICEBERG.name!r}", settings.commits_per_job)
    if settings.on_real_conflict == "restart":
        yield Problem(key, 'is not supported with on_real_conflict = "restart"', settings.commits_per_job)
    if cls.committer is not None:
        yield Problem(key, "is not supported with a committer", settings.commits_per_job)


def check_handles(document: Document) -> Iterator[Problem]:
    """Check for cached table handles that do not save any requests."""
    catalog = document.catalog
    on_service = catalog.type == "service"
    inlined = catalog.writes_metadata if on_service else catalog.table_metadata_inlined
    for cls in resolve_classes(document):
        if not inlined or cls.path.always_writes_metadata:
            continue
        if "table_handle" in cls.changed_keys and cls.settings.table_handle == "kept":
            key = "writes_metadata" if on_service else "table_metadata_inlined"
            message = f"has no effect unless catalog.{key} = false: the catalog returns table metadata"
            yield Problem(cls.key("table_handle"), message, "kept")


def _access(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check the tables and partitions of a class."""
    settings, own = cls.settings, cls.own
    partitions = partitions_per_table(document)
    outside = [table for table in own.tables or () if table >= len(partitions)] if own else []
    if outside:
        yield Problem(
            cls.key("tables"), f"must be below catalog.num_tables = {len(partitions)}; tables are numbered from 0", outside
        )
        return
    if own and own.tables is not None and len(set(own.tables)) != len(own.tables):
        yield Problem(cls.key("tables"), "contains duplicates", own.tables)
    tables = own.tables if own and own.tables is not None else range(len(partitions))
    if isinstance(settings.tables_per_txn, int) and settings.tables_per_txn > len(tables):
        yield Problem(cls.key("tables_per_txn"), f"must be at most {len(tables)}, the number of tables", settings.tables_per_txn)
    else:
        yield from _within_groups(cls, document)
    fewest = min(partitions[table] for table in tables)
    if own and own.partition_range is not None:
        first, end = own.partition_range
        if not first < end <= fewest:
            yield Problem(cls.key("partition_range"), f"must be [first, end] with first < end <= {fewest}", own.partition_range)
            return
        fewest = end - first
        if settings.partitions_per_txn is None:
            yield Problem(cls.key("partition_range"), "has no effect unless partitions_per_txn is set", own.partition_range)
    wanted = settings.partitions_per_txn
    if wanted is not None and wanted > fewest:
        yield Problem(cls.key("partitions_per_txn"), f"must be at most {fewest}, the number of partitions of a table", wanted)


def _within_groups(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check that the largest table group has enough tables, because a transaction never spans groups."""
    catalog, wanted = document.catalog, cls.settings.tables_per_txn
    if not 1 < catalog.pointers <= catalog.num_tables or spans_groups(document):
        return
    largest = group_sizes(catalog.num_tables, catalog.pointers, catalog.group_sizes)[0]
    if isinstance(wanted, int) and wanted > largest:
        yield Problem(cls.key("tables_per_txn"), f"must be at most {largest}, the size of the largest table group", wanted)
    elif not isinstance(wanted, int) and largest == 1:
        yield Problem(
            cls.key("tables_per_txn"), "has no effect: every table group has one table, and a transaction does not span groups"
        )


def _useless_waits(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    """Check for keys that the kind of backoff does not use. Such keys may have Iceberg's default values."""
    backoff = settings.retry_backoff
    if settings.retry_policy is None:
        for key in sorted(UNUSED_BY_KIND.get(backoff.kind, frozenset()) & backoff.changed_keys):
            yield Problem(cls.key(f"retry_backoff.{key}"), f'has no effect with kind = "{backoff.kind}"', getattr(backoff, key))


def check_retry_after(document: Document) -> Iterator[Problem]:
    """Check that ``retry_after`` is used only with a catalog service."""
    for cls in resolve_classes(document):
        if cls.settings.retry_backoff.kind == "retry_after" and document.catalog.type != "service":
            message = 'needs catalog.type = "service", which sends Retry-After (catalog.retry_after_ms)'
            yield Problem(cls.key("retry_backoff.kind"), message, "retry_after")


def _useless(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    given = cls.changed_keys
    yield from _useless_waits(cls, settings)
    if settings.partitions_per_txn is None and "partition_selection" in given:
        yield Problem(cls.key("partition_selection"), "has no effect unless partitions_per_txn is set")
    if settings.on_real_conflict != "restart" and "max_restarts" in given:
        yield Problem(cls.key("max_restarts"), 'has no effect unless on_real_conflict = "restart"', settings.max_restarts)
    if settings.on_real_conflict not in (None, "merge") and "conflicting_manifests" in given:
        yield Problem(cls.key("conflicting_manifests"), 'has no effect unless on_real_conflict = "merge"')
    if settings.conflict_detector != "probabilistic" and "real_conflict_probability" in given:
        value = settings.real_conflict_probability
        yield Problem(cls.key("real_conflict_probability"), 'has no effect unless conflict_detector = "probabilistic"', value)


_POINTER_TYPES = ("cas", "instant")
_ICEBERG_KEYS = ("overwrite_by", "delete_files", "manifests_missed", "isolation")
_TABLE_KEYS = {"files"}
_SERVICE_KEYS = ("writes_metadata", "transfer_ms_per_mib", "metadata_limit_bytes", "server_retries", "coalesce")


def check_protocols(document: Document) -> Iterator[Problem]:
    """Check that the protocols of the classes are compatible, and that no key contradicts a protocol."""
    classes = resolve_classes(document)
    following = [(cls, cls.protocol) for cls in classes if cls.protocol is not None]
    if not following:
        if "files" in document.table.changed_keys:
            yield Problem("table.files", "has no effect unless commit_path is a declarative protocol", document.table.files)
        return
    first, protocol = following[0]
    for cls in classes:
        if cls.protocol is None:
            message = f"cannot be combined with {protocol.name}, the protocol of class {first.name!r}: a table has one format"
            yield Problem(cls.key("commit_path"), message, cls.settings.commit_path)
        elif (cls.protocol.commit_point, cls.protocol.scope) != (protocol.commit_point, protocol.scope):
            message = f"has a different commit point from {protocol.name}, the protocol of class {first.name!r}"
            yield Problem(cls.key("commit_path"), message, cls.settings.commit_path)
    for key in sorted(document.table.changed_keys - _TABLE_KEYS):
        yield Problem(f"table.{key}", f"has no effect with {protocol.name}; use table.files", getattr(document.table, key))
    yield from _check_catalog(document, protocol)
    for cls, own in following:
        yield from _check_class(cls, own)


def _check_catalog(document: Document, protocol: Protocol) -> Iterator[Problem]:
    catalog, where = document.catalog, f"{protocol.name} commits by {protocol.commit_point}"
    kind = catalog.type or _POINTER_TYPES[0]
    if protocol.commit_point in SERVICE_POINTS and kind != "service":
        yield Problem("catalog.type", f'must be "service": {where}', kind)
    if protocol.commit_point == "put_if_absent" and kind not in _POINTER_TYPES:
        yield Problem("catalog.type", f'must be "cas": {where} in the object store', kind)
    if protocol.commit_point == "swap" and kind not in (*_POINTER_TYPES, "service"):
        yield Problem("catalog.type", f'must be "cas" or "service": {where}', kind)
    wanted = 1 if protocol.scope == "lake" else catalog.num_tables
    if catalog.pointers != wanted:
        order = "one counter orders all tables" if protocol.scope == "lake" else "each table has its own log or pointer"
        yield Problem("catalog.num_groups", f"must be {wanted}: with {protocol.name}, {order}", catalog.num_groups)
    for key in _SERVICE_KEYS:
        if key in catalog.changed_keys and getattr(catalog, key):
            yield Problem(f"catalog.{key}", f"has no effect with {protocol.name}: it belongs to Iceberg's REST catalogs")
    if document.transaction.manifest_list_mode == "append":
        yield Problem("transaction.manifest_list_mode", f"has no effect with {protocol.name}", "append")


def _check_class(cls: ResolvedClass, protocol: Protocol) -> Iterator[Problem]:
    settings = cls.settings
    if protocol.scope == "table" and settings.tables_per_txn != 1:
        message = f"must be 1 with {protocol.name}, which commits to one table at a time"
        yield Problem(cls.key("tables_per_txn"), message, settings.tables_per_txn)
    if settings.table_handle == "kept":
        message = f"has no effect with {protocol.name}: the steps of load describe the reads of a client with a cached table"
        yield Problem(cls.key("table_handle"), message, "kept")
    if settings.retry > 0 and not protocol.rebases:
        yield Problem(cls.key("retry"), f"must be 0 with {protocol.name}: it does not rebase (conflicts.rebases)", settings.retry)
    elif settings.retry > 0 and not protocol.discovers_again:
        message = f"must be 0 with {protocol.name}: no step shows the current version after a failed attempt"
        yield Problem(cls.key("retry"), message, settings.retry)
    for key in _ICEBERG_KEYS:
        if key in cls.changed_keys:
            yield Problem(cls.key(key), f"has no effect with {protocol.name}", getattr(settings, key))
