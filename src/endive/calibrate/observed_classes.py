"""Group commits of a history into workload classes by operation, engine, application and size."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from endive.analysis import Floats
from endive.calibrate.arrival_fit import Loop, Process, find_loop_by_evenness, find_loop_by_overlap, recognize_arrivals
from endive.calibrate.delta_log import path_of_engine
from endive.calibrate.reports import CommitReport, estimate_failing_share
from endive.calibrate.table_history import Commit, History
from endive.config.resolve import find_path
from endive.table.operations import VALIDATING
from endive.transaction.paths import ICEBERG, PYICEBERG
from endive.workload.arrivals import CLOSED_LOOP, PERIODIC_JOB

_LEAST = 8
"""Minimum number of commits in each group of a split."""
_GAP = 8.0
"""Minimum gap (ratio) in the numbers of added files that separates two kinds of jobs."""
_JAVA_ENGINES = ("spark", "flink", "trino", "hive", "presto", "dremio", "impala", "kafka")


@dataclass(frozen=True)
class ObservedClass:
    """Commits of one kind, with the corresponding operation of the simulator."""

    name: str
    operation: str
    commits: tuple[Commit, ...]
    process: Process
    partitions: float | None
    """Mean number of partitions that a commit changes; None if no summary contains it."""
    delete_files: str | None = None
    """Kind of delete files of a row delta."""
    guessed: str = ""
    """Reason for the choice of the operation if the history does not record it."""
    loop: Loop | None = None
    """Closed loop of writers that wait for their commits; None if no loop was detected."""
    client: str = ICEBERG.name
    """Commit path of the library that made the commits."""
    isolation: str | None = None
    """Isolation level, if the writer determines it."""

    @property
    def validates(self) -> bool:
        """True if the operation validates concurrent commits."""
        return self.operation in VALIDATING and self.isolation != "none"


def client_of(history: History) -> tuple[str, str]:
    """Return the commit path of the clients that wrote a history, and the reason for this choice."""
    if history.client is not None:
        makers = Counter(commit.engine for commit in history.commits)
        named = ", ".join(f"{maker} ({count:,} commits)" for maker, count in makers.most_common(5))
        return history.client, f"engineInfo names {named}; writers other than delta-rs are taken as delta-spark"
    java = [commit for commit in history.commits if _names_java(commit)]
    python = [commit for commit in history.commits if _names_pyiceberg(commit)]
    if python and len(python) * 2 >= len(history.commits):
        return PYICEBERG.name, "snapshot summaries name PyIceberg"
    nameless = len(_nameless(history))
    if nameless:
        why = (
            f"snapshot summaries name Iceberg's Java library; {nameless:,} summaries name no engine, as with "
            f"PyIceberg (commit_path = {PYICEBERG.name!r})"
        )
        return ICEBERG.name, why
    if java:
        return ICEBERG.name, "snapshot summaries name Iceberg's Java library, or an engine that uses it"
    if any(c.operation == "replace" or _deletes_with([c]) for c in history.commits):
        return ICEBERG.name, "the history contains compactions or delete files, which PyIceberg does not write"
    return PYICEBERG.name, "snapshot summaries name no engine, as with PyIceberg; set --client iceberg for another client"


def _nameless(history: History) -> set[int]:
    """Return the snapshots without a library name that follow the first snapshot with a name.

    Earlier snapshots are left out, because old releases of the Java library write no name.
    """
    named = [commit.timestamp_ms for commit in history.commits if _names_java(commit)]
    since = min(named, default=math.inf)
    return {commit.snapshot_id for commit in history.commits if commit.timestamp_ms > since and not _names_java(commit)}


def _names_java(commit: Commit) -> bool:
    """Return whether a summary contains the name of Iceberg's Java library."""
    known = bool(commit.engine) or "iceberg-version" in commit.summary or "manifests-created" in commit.summary
    return known and not _names_pyiceberg(commit)


def _names_pyiceberg(commit: Commit) -> bool:
    return any(PYICEBERG.name in text for text in (commit.summary.get("iceberg-version", "").lower(), commit.engine))


def observe_classes(
    history: History, start_ms: float, client: str, reports: Sequence[CommitReport] = (), *, split_clients: bool = True
) -> list[ObservedClass]:
    """Group the commits of a history, with their reports, into classes; times count from ``start_ms``.

    ``split_clients``: commits without a library name form separate classes on PyIceberg's path, if other commits have a name.
    """
    known = {report.snapshot_id: report for report in reports}
    retries = history.properties.get("commit.retry.num-retries", "")
    most_attempts = 1 + (int(retries) if retries.isascii() and retries.isdigit() and len(retries) < 7 else 4)
    nameless = _nameless(history) if split_clients else set()
    groups: dict[tuple[str, str], list[Commit]] = {}
    for commit in history.commits:
        maker = commit.engine or (PYICEBERG.name if commit.snapshot_id in nameless else "")
        groups.setdefault((commit.operation or "append", maker), []).append(commit)
    end_ms = history.commits[-1].timestamp_ms + history.span_ms / max(len(history.commits) - 1, 1)
    first_ms = float(history.commits[0].timestamp_ms)
    found: list[ObservedClass] = []
    for (operation, engine), commits in sorted(groups.items()):
        for application, own in _by_application(commits):
            for size, part in _by_added_files(own):
                name = _name(operation, engine, application, size, {each.name for each in found})
                own_reports = [known[commit.snapshot_id] for commit in part if commit.snapshot_id in known]
                path = PYICEBERG.name if engine == PYICEBERG.name else client if history.client is None else path_of_engine(engine)
                found.append(_observed(name, part, (start_ms, first_ms, end_ms), path, own_reports, most_attempts))
    return found


def _durations_ms(commits: Sequence[Commit], reports: Sequence[CommitReport]) -> Floats | None:
    """Return the duration of each commit, or the median for commits without a report; None if half of them have no report."""
    if not commits or 2 * len(reports) < len(commits):
        return None
    known = {report.snapshot_id: report.duration_ms for report in reports}
    usual = float(np.median(list(known.values())))
    return np.array([known.get(commit.snapshot_id, usual) for commit in commits], np.float64)


def _by_application(commits: list[Commit]) -> list[tuple[str, list[Commit]]]:
    """Split commits by job, if a few jobs commit repeatedly; jobs with a single commit form one group."""
    names = Counter(commit.application for commit in commits)
    if len(names) < 2 or any(count < _LEAST for count in names.values()):
        return [("", commits)]
    return [(name, [commit for commit in commits if commit.application == name]) for name in sorted(names)]


def _by_added_files(commits: list[Commit]) -> list[tuple[str, list[Commit]]]:
    """Split commits at a large gap in the numbers of added files."""
    added = [commit.count("added-data-files", "added-delete-files") or 0 for commit in commits]
    ordered = np.sort(np.maximum(np.array(added, np.float64), 1.0))
    if len(ordered) < 2 * _LEAST:
        return [("", commits)]
    ratios = ordered[1:] / ordered[:-1]
    place = int(np.argmax(ratios))
    if ratios[place] < _GAP or not _LEAST <= place + 1 <= len(ordered) - _LEAST:
        return [("", commits)]
    bound = float(ordered[place])
    small = [commit for commit, count in zip(commits, added, strict=True) if count <= bound]
    large = [commit for commit, count in zip(commits, added, strict=True) if count > bound]
    return [("small", small), ("large", large)]


def _name(operation: str, engine: str, application: str, size: str, taken: set[str]) -> str:
    parts = [re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-")[:24] for part in (engine, application, operation, size)]
    name = "_".join(part for part in parts if part) or "commits"
    number = 2
    while name in taken:
        name = f"{name.rstrip('0123456789').rstrip('-')}-{number}"
        number += 1
    return name


def _observed(
    name: str, commits: Sequence[Commit], span: tuple[float, float, float], client: str, reports: Sequence[CommitReport], most: int
) -> ObservedClass:
    times = np.array([commit.timestamp_ms for commit in commits], np.float64)
    operation, deletes, guessed = _operation(commits, client)
    changed = [count for count in (commit.count("changed-partition-count") for commit in commits) if count is not None]
    partitions = float(np.mean(changed)) if changed and np.mean(changed) >= 1.0 else None
    durations = _durations_ms(commits, reports)
    process = recognize_arrivals(times, *span, durations)
    loop = None
    if not {PERIODIC_JOB.key, "hourly"} & process.keys.keys():
        failing = estimate_failing_share([report.attempts for report in reports], most)
        loop = find_loop_by_evenness(times) if durations is None else find_loop_by_overlap(times, durations, failing, most)
    if loop is not None and (loop.certain or durations is None):
        process = Process(loop.words(), {CLOSED_LOOP.key: loop.keys()}, process.per_s, notes=process.notes)
    path = client if operation in find_path(client).operations else ICEBERG.name
    isolation = "none" if operation == "row_delta" and _is_streaming_upsert(commits, deletes) else None
    return ObservedClass(name, operation, tuple(commits), process, partitions, deletes, guessed, loop, path, isolation)


def _is_streaming_upsert(commits: Sequence[Commit], deletes: str | None) -> bool:
    """Return whether a sink of Flink or Kafka Connect, which does not validate, made these row deltas.

    No other engine writes equality deletes.
    """
    return deletes == "equality" or all("flink" in commit.engine or "kafka" in commit.engine for commit in commits)


def _operation(commits: Sequence[Commit], client: str) -> tuple[str, str | None, str]:
    """Return the simulator's operation, its kind of delete files, and the reason for a guess."""
    first, known = commits[0].operation or "", find_path(client).operations
    deletes = _deletes_with(commits)
    if first == "replace":
        return "rewrite_files", None, ""
    if first == "overwrite" and any(commit.summary.get("replace-partitions") == "true" for commit in commits):
        return "replace_partitions", None, ""
    if first in ("overwrite", "delete"):
        return ("row_delta", deletes, "") if deletes and "row_delta" in known else (first, None, "")
    guessed = "" if first == "append" else f"operation {first!r} is taken as an append"
    if "merge_append" not in known:
        return "fast_append", None, guessed
    if any((commit.count("manifests-replaced") or 0) > 0 for commit in commits):
        return "merge_append", None, guessed
    engine = commits[0].engine
    if any(name in engine for name in _JAVA_ENGINES):
        return "merge_append", None, guessed or f"{engine} appends with merging (a streaming job of Spark does not)"
    return "fast_append", None, guessed


def _deletes_with(commits: Sequence[Commit]) -> str | None:
    def any_of(*keys: str) -> bool:
        return any((commit.count(key) or 0) > 0 for commit in commits for key in keys)

    if any_of("added-dvs"):
        return "vectors"
    if any_of("added-equality-deletes", "added-equality-delete-files"):
        return "equality"
    return "position" if any_of("added-delete-files", "added-position-deletes", "added-position-delete-files") else None
