"""Group the commits in a table's history into workload classes, and make assumptions about information that is missing there.

The commits of a class have the same operation, engine and application, and add similar numbers of files.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from endive.analysis import Floats
from endive.calibrate.arrival_fit import (
    AS_AT_RANDOM,
    Loop,
    Process,
    find_loop_by_evenness,
    find_loop_by_overlap,
    recognize_arrivals,
)
from endive.calibrate.measurements import CommitReport
from endive.calibrate.sources import path_of_engine
from endive.calibrate.table_history import Commit, History
from endive.config.arrival_keys import scale_arrivals
from endive.config.resolve import find_path
from endive.table.operations import VALIDATING
from endive.transaction.paths import ICEBERG, PYICEBERG
from endive.workload.arrivals import CLOSED_LOOP, INTER_ARRIVAL, PERIODIC_JOB

_LEAST = 8
"""Minimum number of commits of a workload class."""
_GAP = 8.0
"""Minimum ratio between the numbers of files added by large and small commits."""
_MOST_FAILED = 0.97
"""Maximum assumed fraction of failed operations."""
_JAVA_ENGINES = ("spark", "flink", "trino", "hive", "presto", "dremio", "impala", "kafka")


@dataclass(frozen=True)
class ObservedClass:
    """Workload class in a table's history: its commits, their arrivals, and the operation that represents them in the model."""

    name: str
    operation: str
    commits: tuple[Commit, ...]
    process: Process
    partitions: float | None
    """Mean number of partitions that a commit changes; None if no snapshot summary contains this number."""
    delete_files: str | None = None
    """Kind of delete files of a row delta."""
    guessed: str = ""
    """Remark for users if the operation is uncertain, otherwise empty."""
    loop: Loop | None = None
    """Closed loop of the writers; None without evidence of a closed loop."""
    client: str = ICEBERG.name
    """Commit path of the client library."""
    isolation: str | None = None
    """Isolation level if the engine determines it, otherwise None."""

    @property
    def validates(self) -> bool:
        """True if the operation validates against concurrent commits."""
        return self.operation in VALIDATING and self.isolation != "none"


def client_of(history: History) -> tuple[str, str]:
    """Return the commit path of the clients that wrote a table, and the reason for choosing it."""
    if history.client is not None:
        makers = Counter(commit.engine for commit in history.commits)
        named = ", ".join(f"{maker} ({count:,} commits)" for maker, count in makers.most_common(5))
        return history.client, f"engineInfo names {named}; the model treats every writer except delta-rs as delta-spark"
    java = [commit for commit in history.commits if _names_java(commit)]
    python = [commit for commit in history.commits if _names_pyiceberg(commit)]
    if python and len(python) * 2 >= len(history.commits):
        return PYICEBERG.name, "snapshot summaries name PyIceberg"
    nameless = len(_find_unnamed_snapshots(history))
    if nameless:
        why = (
            f"snapshot summaries name Iceberg's Java library; {nameless:,} later summaries name no engine, like those of "
            f"PyIceberg (commit_path = {PYICEBERG.name!r})"
        )
        return ICEBERG.name, why
    if java:
        return ICEBERG.name, "snapshot summaries name Iceberg's Java library, or an engine that uses it"
    if any(c.operation == "replace" or _deletes_with([c]) for c in history.commits):
        return ICEBERG.name, "the history contains compactions or delete files, which PyIceberg does not write"
    return PYICEBERG.name, "snapshot summaries name no engine, like those of PyIceberg; for another client, set --client iceberg"


def _find_unnamed_snapshots(history: History) -> set[int]:
    """Return the snapshots whose summaries name no library although an earlier summary names one.

    Summaries before the first with a name are ignored, because old releases of Iceberg's Java library write no name.
    """
    named = [commit.timestamp_ms for commit in history.commits if _names_java(commit)]
    since = min(named, default=math.inf)
    return {commit.snapshot_id for commit in history.commits if commit.timestamp_ms > since and not _names_java(commit)}


def _names_java(commit: Commit) -> bool:
    """Return whether a snapshot summary indicates Iceberg's Java library."""
    known = bool(commit.engine) or "iceberg-version" in commit.summary or "manifests-created" in commit.summary
    return known and not _names_pyiceberg(commit)


def _names_pyiceberg(commit: Commit) -> bool:
    return any(PYICEBERG.name in text for text in (commit.summary.get("iceberg-version", "").lower(), commit.engine))


def observe_classes(
    history: History, start_ms: float, client: str, reports: Sequence[CommitReport] = (), *, split_clients: bool = True
) -> list[ObservedClass]:
    """Group the commits of a history into workload classes.

    Args:
        history: History of the table.
        start_ms: Time that corresponds to time 0 of the simulation.
        client: Commit path of the client that wrote the table.
        reports: Commit reports of the table.
        split_clients: Whether to attribute commits without a library in their summary to PyIceberg if other summaries name a
            library.
    """
    known = {report.snapshot_id: report for report in reports}
    retries = history.properties.get("commit.retry.num-retries", "")
    most_attempts = 1 + (int(retries) if retries.isascii() and retries.isdigit() and len(retries) < 7 else 4)
    nameless = _find_unnamed_snapshots(history) if split_clients else set()
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
                found.append(_make_class(name, part, (start_ms, first_ms, end_ms), path, own_reports, most_attempts))
    return found


def _durations_ms(commits: Sequence[Commit], reports: Sequence[CommitReport]) -> Floats | None:
    """Return the duration of each commit. A commit without a report gets the median duration.

    Return None if more than half of the commits have no report.
    """
    if not commits or 2 * len(reports) < len(commits):
        return None
    known = {report.snapshot_id: report.duration_ms for report in reports}
    usual = float(np.median(list(known.values())))
    return np.array([known.get(commit.snapshot_id, usual) for commit in commits], np.float64)


def _by_application(commits: list[Commit]) -> list[tuple[str, list[Commit]]]:
    """Split commits by application, if each application made several commits."""
    names = Counter(commit.application for commit in commits)
    if len(names) < 2 or any(count < _LEAST for count in names.values()):
        return [("", commits)]
    return [(name, [commit for commit in commits if commit.application == name]) for name in sorted(names)]


def _by_added_files(commits: list[Commit]) -> list[tuple[str, list[Commit]]]:
    """Split commits into small and large ones if a wide gap separates the numbers of files that they add."""
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


def _make_class(
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


def estimate_failing_share(attempts: Sequence[int], most: int) -> float:
    """Estimate the fraction of operations that fail after ``most`` attempts, from the attempts of successful operations.

    Each attempt is assumed to fail with the same probability, so the number of attempts of successful operations has a truncated
    geometric distribution. The result is the posterior mean for a uniform prior of this probability. It is therefore well below 1
    if there are only a dozen reports with many attempts.
    """
    if not attempts:
        return 0.0
    lost = (np.arange(2_000) + 0.5) / 2_000
    won_at_all = (1.0 - lost**most) / (1.0 - lost)
    likelihood = (sum(attempts) - len(attempts)) * np.log(lost) - len(attempts) * np.log(won_at_all)
    weights = np.exp(likelihood - likelihood.max())
    return min(float((weights * lost**most).sum() / weights.sum()), _MOST_FAILED)


def _is_streaming_upsert(commits: Sequence[Commit], deletes: str | None) -> bool:
    """Return whether streaming sinks (Flink, Kafka Connect), which do not validate, made these row deltas.

    Only streaming sinks write equality deletes.
    """
    return deletes == "equality" or all("flink" in commit.engine or "kafka" in commit.engine for commit in commits)


def _operation(commits: Sequence[Commit], client: str) -> tuple[str, str | None, str]:
    """Return the operation of the model, the kind of delete files, and a remark if the operation is uncertain."""
    first, known = commits[0].operation or "", find_path(client).operations
    deletes = _deletes_with(commits)
    if first == "replace":
        return "rewrite_files", None, ""
    if first == "overwrite" and any(commit.summary.get("replace-partitions") == "true" for commit in commits):
        return "replace_partitions", None, ""
    if first in ("overwrite", "delete"):
        return ("row_delta", deletes, "") if deletes and "row_delta" in known else (first, None, "")
    guessed = "" if first == "append" else f"the import treats the unknown operation {first!r} as an append"
    if "merge_append" not in known:
        return "fast_append", None, guessed
    if any((commit.count("manifests-replaced") or 0) > 0 for commit in commits):
        return "merge_append", None, guessed
    engine = commits[0].engine
    if any(name in engine for name in _JAVA_ENGINES):
        return "merge_append", None, guessed or f"appends of {engine} merge manifests (but not those of Spark streaming jobs)"
    return "fast_append", None, guessed


def _deletes_with(commits: Sequence[Commit]) -> str | None:
    def any_of(*keys: str) -> bool:
        return any((commit.count(key) or 0) > 0 for commit in commits for key in keys)

    if any_of("added-dvs"):
        return "vectors"
    if any_of("added-equality-deletes", "added-equality-delete-files"):
        return "equality"
    return "position" if any_of("added-delete-files", "added-position-deletes", "added-position-delete-files") else None


Tree = dict[str, Any]
STORE_SCALE = "store_scale"
"""Name of the factor on all latencies of the object store in the ranges of assumptions; not a configuration key."""


@dataclass(frozen=True)
class Assumption:
    """Assumption about a fact that the history lacks, with the values of configuration keys at both ends of its range."""

    about: str
    assumed: str
    low: Mapping[str, Any] = field(default_factory=dict)
    high: Mapping[str, Any] = field(default_factory=dict)


def assume(
    tree: Tree, history: History, classes: Sequence[ObservedClass], reports: Sequence[CommitReport], provider: str | None
) -> list[Assumption]:
    """Add the assumed values to a configuration, and return the assumptions with their ranges."""
    return [
        *_appends(classes),
        _store(provider, bool(reports)),
        _failures(tree, classes, reports),
        *_runtimes(tree, classes),
        *_arrivals(tree, classes),
        *_conflicts(tree, classes, history),
    ]


def _appends(classes: Sequence[ObservedClass]) -> Iterator[Assumption]:
    """Assume that appends merge manifests, if no snapshot summary contains the number of merged manifests."""
    guessed = [cls for cls in classes if cls.operation == "merge_append" and cls.guessed]
    if guessed:
        low = {f"workload.{cls.name}.operation": "fast_append" for cls in guessed}
        yield Assumption("appends", "merge appends, as in batch jobs and Flink's sink", low)


def _store(provider: str | None, reported: bool) -> Assumption:
    """Assume the latencies of the object store, or their uncertainty if commit reports determine them."""
    if reported:
        text = "latency profile, scaled to the commit durations in the reports"
        return Assumption("latencies", text, {STORE_SCALE: 0.75}, {STORE_SCALE: 1.35})
    named = f"latency profile of {provider}" if provider else "latency profile of S3; for another object store, set --provider"
    return Assumption("latencies", named, {STORE_SCALE: 0.5}, {STORE_SCALE: 2.0})


def _failures(tree: Tree, classes: Sequence[ObservedClass], reports: Sequence[CommitReport]) -> Assumption:
    """Assume the fraction of failed operations, from missing scheduled commits and from the attempts in commit reports."""
    most_attempts = int(tree["transaction"].get("commit.retry.num-retries", 4)) + 1
    by_class = _reports_by_class(classes, reports)
    low, high = Tree(), Tree()
    texts = []
    for cls in classes:
        section = tree["workload"][cls.name]
        if PERIODIC_JOB.key in section:
            texts.append(f"{100 * cls.process.missed:.1f}% of the scheduled commits of {cls.name} are missing")
            continue
        own = by_class.get(cls.name, ())
        failed = estimate_failing_share([report.attempts for report in own], most_attempts)
        most = min(max(2.0 * failed, 0.05), _MOST_FAILED) if own else 0.2
        if own:
            texts.append(f"{100 * failed:.2g}% of the {cls.name} operations fail, estimated from the attempts in the reports")
        if CLOSED_LOOP.key in section and cls.loop is not None:  # the rate of a closed loop includes failed operations
            high[f"workload.{cls.name}.{CLOSED_LOOP.key}"] = cls.loop.keys(per_s_factor=(1.0 - failed) / (1.0 - most))
            continue
        for share, into in ((0.0, low), (most, high)):
            key, value = _rate(cls.name, section, 1.0 / (1.0 - share))
            into[key] = value
        key, value = _rate(cls.name, section, 1.0 / (1.0 - failed))
        _put(tree, key, value)
    text = "; ".join(texts or ["none"])
    return Assumption("failed operations", text, low, high)


def _reports_by_class(classes: Sequence[ObservedClass], reports: Sequence[CommitReport]) -> dict[str, list[CommitReport]]:
    """Group commit reports by the workload class of their snapshot or, if the snapshot has expired, of their operation."""
    by_snapshot = {commit.snapshot_id: cls.name for cls in classes for commit in cls.commits}
    by_operation = {commit.operation: cls.name for cls in classes for commit in cls.commits[:1]}
    found: dict[str, list[CommitReport]] = {}
    for report in reports:
        name = by_snapshot.get(report.snapshot_id or -1) or by_operation.get(report.operation)
        if name is not None:
            found.setdefault(name, []).append(report)
    return found


def _arrivals(tree: Tree, classes: Sequence[ObservedClass]) -> Iterator[Assumption]:
    """Assume Poisson arrivals or a closed loop, if the history fits both."""
    low, high = Tree(), Tree()
    texts = []
    for cls in classes:
        key, loop = f"workload.{cls.name}.{CLOSED_LOOP.key}", cls.loop
        if loop is None:
            if cls.process.even:
                low[f"workload.{cls.name}.{INTER_ARRIVAL.key}"] = cls.process.even
                texts.append(
                    f"{cls.name}: Poisson arrivals, although the intervals between commits vary slightly less, as on a busy table"
                )
        elif CLOSED_LOOP.key in tree["workload"][cls.name]:
            texts.append(f"{cls.name}: {loop.reason()}")
            if loop.fewest < loop.clients:
                low[key] = loop.keys(loop.fewest)
            if loop.most is None or loop.most > loop.clients:
                high[key] = loop.keys(loop.most or AS_AT_RANDOM)
        else:
            low[key] = loop.keys(loop.clients)
            texts.append(f"{cls.name}: {loop.reason()}; Poisson arrivals are assumed")
    if texts:
        yield Assumption("arrivals", "; ".join(texts), low, high)


def _rate(name: str, section: Tree, factor: float) -> tuple[str, Any]:
    """Return the configuration key of the arrival rate of a class, and its value at a multiple of the rate."""
    (key, value) = next(iter(scale_arrivals(section, factor).items()))
    if isinstance(value, list):
        return f"workload.{name}.{key}", [{**step, "rate": float(f"{step['rate']:.6g}")} for step in value]
    return f"workload.{name}.{key}", float(f"{value:.6g}")


def _put(tree: Tree, key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree[part]
    tree[last] = value


def _runtimes(tree: Tree, classes: Sequence[ObservedClass]) -> Iterator[Assumption]:
    """Assume the job duration of operations that validate, because neither histories nor reports contain this duration."""
    low, high = Tree(), Tree()
    for cls in classes:
        if not cls.validates:
            continue
        section = tree["workload"][cls.name]
        if CLOSED_LOOP.key in section and cls.loop is not None:
            _split_think(section, cls, low, high)
            continue
        interval_ms = 1e3 / max(cls.process.per_s, 1e-9)
        base = min(60_000.0, 0.2 * interval_ms)
        section["runtime"] = {"distribution": "fixed", "value": float(f"{base:.4g}")}
        if PERIODIC_JOB.key in section:  # the job starts one runtime before its commit
            periodic = section[PERIODIC_JOB.key]
            periodic["phase_ms"] = round((periodic["phase_ms"] - base) % periodic["interval_ms"], 3)
        low[f"workload.{cls.name}.runtime.value"] = 0.0
        high[f"workload.{cls.name}.runtime.value"] = float(f"{0.9 * interval_ms:.4g}")
    if low:
        text = "one fifth of the interval between commits, at most 1 min (range: 0 to the full interval)"
        yield Assumption("job durations of validating operations", text, low, high)


def _split_think(section: Tree, cls: ObservedClass, low: Tree, high: Tree) -> None:
    """Assume that the job takes a fifth of the time between commits of a closed-loop writer (range: 0 to the whole time)."""
    assert cls.loop is not None
    free_ms = cls.loop.think_ms(cls.loop.clients)
    for share, into in ((0.0, low), (1.0, high)):
        into[f"workload.{cls.name}.runtime.value"] = float(f"{share * free_ms:.4g}")
        into[f"workload.{cls.name}.{CLOSED_LOOP.key}"] = cls.loop.keys(runtime_ms=share * free_ms)
    base = min(60_000.0, 0.2 * free_ms)
    section["runtime"] = {"distribution": "fixed", "value": float(f"{base:.4g}")}
    section[CLOSED_LOOP.key] = cls.loop.keys(runtime_ms=base)


def _conflicts(tree: Tree, classes: Sequence[ObservedClass], history: History) -> Iterator[Assumption]:
    """Assume the probability that overlapping changes are real conflicts, and the number of partitions."""
    low, high = Tree(), Tree()
    for cls in classes:
        if cls.validates:
            tree["workload"][cls.name]["real_conflict_probability"] = 0.0
            high[f"workload.{cls.name}.real_conflict_probability"] = 0.5
            low[f"workload.{cls.name}.real_conflict_probability"] = 0.0
    if history.partitioned:
        known = [cls for cls in classes if cls.partitions is not None]
        named = {key for commit in history.commits for key in commit.summary if key.startswith("partitions.")}
        most = max((math.ceil(cls.partitions or 1.0) for cls in known), default=1)
        listed = history.state.partitions or 0
        number = max(len(named), listed, most, 2)
        tree["catalog"]["partitions"] = {"num_partitions": number}
        for cls in known:
            tree["workload"][cls.name]["partitions_per_txn"] = float(f"{max(cls.partitions or 1.0, 1.0):.4g}")
        text = f"{number}, the largest number of partitions that one commit changed (at least 2)"
        if number in (len(named), listed):
            text = f"{number}, as listed in {'snapshot summaries' if number == len(named) else 'the manifest list'}"
        yield Assumption("partitions", text, {"catalog.partitions.num_partitions": max(number * 10, 100)})
    if high:
        text = "0% of overlapping changes (range: 0 to 50%)"
        yield Assumption("real conflicts", text, low, high)
