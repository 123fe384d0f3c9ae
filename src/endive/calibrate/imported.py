"""A configuration made of a table's history: what the history tells, what it cannot tell, and what is assumed for that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from endive.calibrate.classes import ObservedClass, client_of, observe_classes
from endive.calibrate.errors import InputError
from endive.calibrate.history import History, moment
from endive.calibrate.reports import CommitReport
from endive.table import PYICEBERG_OPERATIONS

Tree = dict[str, Any]
STORE_SCALE = "store_scale"
"""In an assumption's range: not a key of the file, but a factor on all latencies of the store."""
_VALIDATING = ("overwrite", "row_delta", "rewrite_files", "replace_partitions", "delete", "validated_overwrite")
_MINUTE_MS = 60_000
_MOST_FAILED = 0.97
_MOST_MS = 7 * 24 * 3_600_000
_PROPERTIES: dict[str, tuple[str, type, float, float]] = {
    "commit.retry.num-retries": ("transaction", int, 0, 1e6),
    "commit.retry.min-wait-ms": ("transaction", float, 0, 1e12),
    "commit.retry.max-wait-ms": ("transaction", float, 0, 1e12),
    "commit.retry.total-timeout-ms": ("transaction", float, 0, 1e12),
    "commit.manifest.min-count-to-merge": ("table", int, 2, 1e6),
    "commit.manifest.target-size-bytes": ("table", int, 1, 1e12),
    "commit.manifest-merge.enabled": ("table", bool, 0, 1),
}
"""Properties of a table that the configuration takes under the same names: section, type, least and greatest value."""
_ISOLATION = ("write.merge.isolation-level", "write.update.isolation-level", "write.delete.isolation-level")


@dataclass(frozen=True)
class Assumption:
    """Something that a history cannot tell. ``low`` and ``high`` are keys of the configuration at the ends of what may be."""

    about: str
    assumed: str
    low: Mapping[str, Any] = field(default_factory=dict)
    high: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """A configuration with what it rests on. ``tree`` is the document, ``start_ms`` the moment that is its time 0."""

    source: str
    tree: Tree
    classes: tuple[ObservedClass, ...]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    start_ms: float


def import_history(
    history: History,
    *,
    reports: Sequence[CommitReport] = (),
    provider: str | None = None,
    client: str | None = None,
) -> Imported:
    """Make a configuration of a history. Raises InputError where there are too few commits to tell a rate."""
    if len(history.commits) < 2:
        number = "no snapshot" if not history.commits else "one snapshot"
        raise InputError(f"{history.source}: has {number}; two are needed to tell how often it is written")
    if history.span_ms <= 0:
        raise InputError(f"{history.source}: all {len(history.commits)} snapshots have the same time, which tells no rate")
    start = history.commits[0].timestamp_ms // _MINUTE_MS * _MINUTE_MS
    path, why = (client, "as was said") if client else client_of(history)
    classes = observe_classes(history, start, path)
    durations = _durations(classes, reports)
    assumptions = [Assumption("the client", f"commit_path is {path!r}: {why}")] if client is None else []
    tree: Tree = {
        "simulation": {"duration_ms": float(_duration(history, start)), "seed": 1},
        "storage": {"provider": provider or "s3"},
        "catalog": {"num_tables": 1, "table_metadata_inlined": False},
        "table": _table(history, assumptions),
        "transaction": {"commit_path": path, "retry_policy": "iceberg"},
        "workload": {cls.name: _section(cls, path, _duration(history, start), durations.get(cls.name)) for cls in classes},
    }
    _add_expiry(tree, history, start, assumptions, path)
    _add_properties(tree, history, classes)
    _assume_appends(classes, assumptions)
    _assume_store(assumptions, provider, bool(reports))
    _assume_even_arrivals(classes, assumptions)
    _assume_failures(tree, classes, durations, assumptions)
    _assume_runtimes(tree, classes, assumptions)
    _assume_conflicts(tree, classes, history, assumptions)
    notes = [*history.notes, f"time 0 is {moment(start)}; the last commit is {moment(history.commits[-1].timestamp_ms)}"]
    notes += [f"class {cls.name}: {note}" for cls in classes for note in (*cls.process.notes, cls.guessed) if note]
    return Imported(history.source, tree, tuple(classes), tuple(assumptions), tuple(notes), float(start))


def _duration(history: History, start: int) -> int:
    span = history.commits[-1].timestamp_ms - start
    return min(max(math.ceil(span / _MINUTE_MS) * _MINUTE_MS, _MINUTE_MS), _MOST_MS)


def _durations(classes: Sequence[ObservedClass], reports: Sequence[CommitReport]) -> dict[str, list[CommitReport]]:
    """The reports of each class, by the snapshots they are about; reports without one go by their operation."""
    by_snapshot = {commit.snapshot_id: cls.name for cls in classes for commit in cls.commits}
    by_operation = {commit.operation: cls.name for cls in classes for commit in cls.commits[:1]}
    found: dict[str, list[CommitReport]] = {}
    for report in reports:
        name = by_snapshot.get(report.snapshot_id or -1) or by_operation.get(report.operation)
        if name is not None:
            found.setdefault(name, []).append(report)
    return found


def _section(cls: ObservedClass, path: str, duration_ms: float, reports: Sequence[CommitReport] | None) -> Tree:
    section: Tree = {"operation": cls.operation}
    if path == "pyiceberg" and cls.operation not in PYICEBERG_OPERATIONS:
        section["commit_path"] = "iceberg"
    keys = dict(cls.process.keys)
    hourly = keys.pop("hourly", None)
    if hourly is not None:
        section["schedule"] = _every_day(hourly, duration_ms)
    section |= keys
    if "periodic" in section and reports:
        commit_ms = min(report.duration_ms for report in reports)
        periodic = dict(section["periodic"])
        periodic["phase_ms"] = round((periodic["phase_ms"] - commit_ms) % periodic["interval_ms"], 3)
        section["periodic"] = periodic
    section["runtime"] = {"distribution": "fixed", "value": 0.0}
    if cls.delete_files:
        section["delete_files"] = cls.delete_files
    return section


def _every_day(hourly: Sequence[float], duration_ms: float) -> list[Tree]:
    """The steps of a schedule that goes through the hours of a day again and again."""
    hours = math.ceil(duration_ms / 3_600_000.0)
    return [{"from": hour * 3_600_000.0, "rate": hourly[hour % 24]} for hour in range(hours)]


def _table(history: History, assumptions: list[Assumption]) -> Tree:
    state = history.state
    table: Tree = {}
    for key in ("manifests", "delete_manifests", "metadata_bytes", "metadata_bytes_per_snapshot"):
        value = getattr(state, key)
        if value is not None:
            table[key] = value
    if state.snapshots:
        table["snapshots"] = state.snapshots
    if state.manifest_bytes:
        table["manifest_bytes"] = state.manifest_bytes
        table["manifest_header_bytes"] = min(6_900, int(0.97 * state.manifest_bytes))
    if state.manifest_list_bytes and state.manifests is not None:
        listed = state.manifests + (state.delete_manifests or 0)
        table["manifest_list_bytes"] = max(state.manifest_list_bytes - 42 * listed, 0)
    if state.manifests is None:
        guess = min(max(state.data_files or len(history.commits), 1), 100)
        table["manifests"] = guess
        text = f"the manifest list could not be read: {guess} manifests"
        assumptions.append(Assumption("manifests", text, {"table.manifests": 1}, {"table.manifests": max(guess, 100)}))
    return table


def _add_expiry(tree: Tree, history: History, start: int, assumptions: list[Assumption], path: str) -> None:
    """Metadata that changed without a snapshot is taken to be expiry."""
    count = len(history.other_changes_ms)
    if count < 2 or path != "iceberg":
        return
    from endive.calibrate.arrivals import recognise

    times = np.array(history.other_changes_ms, np.float64)
    last = float(max(times[-1], history.commits[-1].timestamp_ms))
    process = recognise(times, start, float(history.commits[0].timestamp_ms), last)
    keys = {key: value for key, value in process.keys.items() if key != "hourly"} or {"rate": process.per_s}
    section = {"operation": "expire_snapshots", "runtime": {"distribution": "fixed", "value": 0.0}, **keys}
    tree["workload"]["metadata_changes"] = section
    text = f"{count} changes of metadata made no snapshot: taken as expiry of snapshots, {process.words}"
    assumptions.append(Assumption("metadata changes", text))


def _add_properties(tree: Tree, history: History, classes: Sequence[ObservedClass]) -> None:
    """Take over the table's properties under Iceberg's names; values that are none are passed over."""
    for name, (section, kind, least, most) in _PROPERTIES.items():
        text = history.properties.get(name)
        if text is None:
            continue
        value = _value(text, kind)
        if value is not None and least <= value <= most:
            tree[section][name] = value
    levels = {history.properties[name] for name in _ISOLATION if name in history.properties}
    if len(levels) == 1 and levels <= {"snapshot", "serializable"}:
        for cls in classes:
            if cls.operation in ("overwrite", "row_delta"):
                tree["workload"][cls.name]["isolation"] = next(iter(levels))


def _value(text: str, kind: type) -> Any:
    if kind is bool:
        return {"true": True, "false": False}.get(text.strip().lower())
    try:
        return kind(text)
    except (ValueError, OverflowError):
        return None


def _assume_appends(classes: Sequence[ObservedClass], assumptions: list[Assumption]) -> None:
    """Whether an append merges manifests shows only where it did."""
    guessed = [cls for cls in classes if cls.operation == "merge_append" and cls.guessed]
    if guessed:
        low = {f"workload.{cls.name}.operation": "fast_append" for cls in guessed}
        assumptions.append(Assumption("appends", "taken to merge manifests, as batch jobs and Flink's sink do", low))


def _assume_store(assumptions: list[Assumption], provider: str | None, reported: bool) -> None:
    if reported:
        text = "scaled so that a commit lasts as long as reports say; a table that grew was faster then"
        assumptions.append(Assumption("latencies", text, {STORE_SCALE: 0.75}, {STORE_SCALE: 1.35}))
        return
    named = f"those of {provider}" if provider else "those of S3; say --provider for another store"
    assumptions.append(Assumption("latencies", f"not in a history: {named}", {STORE_SCALE: 0.5}, {STORE_SCALE: 2.0}))


def _assume_failures(
    tree: Tree, classes: Sequence[ObservedClass], reports: Mapping[str, Sequence[CommitReport]], assumptions: list[Assumption]
) -> None:
    """What failed left no snapshot: slots of a period that are empty, and attempts that were needed, tell of it."""
    most_attempts = int(tree["transaction"].get("commit.retry.num-retries", 4)) + 1
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    told = []
    for cls in classes:
        section = tree["workload"][cls.name]
        if "periodic" in section:
            told.append(f"{100 * cls.process.missed:.1f} % of the slots of {cls.name} are empty")
            continue
        own = reports.get(cls.name, ())
        failed = _failing_share([report.attempts for report in own], most_attempts)
        most = min(max(2.0 * failed, 0.05), _MOST_FAILED) if own else 0.2
        if own:
            told.append(f"{100 * failed:.2g} % of {cls.name} fail, by the attempts in reports")
        for share, into in ((0.0, low), (most, high)):
            key, value = _rate(cls.name, section, 1.0 / (1.0 - share))
            into[key] = value
        key, value = _rate(cls.name, section, 1.0 / (1.0 - failed))
        _put(tree, key, value)
    text = "; ".join(["operations that failed are not in a history", *(told or ["none are taken to have failed"])])
    assumptions.append(Assumption("failed operations", text, low, high))


def _failing_share(attempts: Sequence[int], most: int) -> float:
    """The share of operations that used up their attempts, if each attempt is lost with the same probability.

    Only successes are reported: their attempts are geometric, cut off at ``most``, and the probability follows from their mean.
    """
    if not attempts:
        return 0.0
    mean = float(np.mean(attempts))
    counts = np.arange(1, most + 1)

    def cut_mean(lost: float) -> float:
        weights = lost ** (counts - 1.0)
        return float((weights * counts).sum() / weights.sum())

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cut_mean(middle) < mean else (low, middle)
    return min(low**most, _MOST_FAILED)


def _assume_even_arrivals(classes: Sequence[ObservedClass], assumptions: list[Assumption]) -> None:
    """Commits of a busy table follow each other more evenly than their submissions, which are therefore taken to be at random."""
    low: dict[str, Any] = {}
    for cls in classes:
        if cls.process.even:
            low[f"workload.{cls.name}.inter_arrival"] = cls.process.even
    if low:
        text = "commits come more evenly than at random, which a busy table makes of any submissions: taken to be at random"
        assumptions.append(Assumption("arrivals", text, low))


def _rate(name: str, section: Tree, factor: float) -> tuple[str, Any]:
    """The key that says how often a class comes, and its value at so many times the rate."""
    if "rate" in section:
        return f"workload.{name}.rate", float(f"{section['rate'] * factor:.6g}")
    if "schedule" in section:
        steps = [{**step, "rate": float(f"{step['rate'] * factor:.6g}")} for step in section["schedule"]]
        return f"workload.{name}.schedule", steps
    return f"workload.{name}.inter_arrival.mean", float(f"{section['inter_arrival']['mean'] / factor:.6g}")


def _put(tree: Tree, key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree[part]
    tree[last] = value


def _assume_runtimes(tree: Tree, classes: Sequence[ObservedClass], assumptions: list[Assumption]) -> None:
    """The time from reading a table to committing matters to operations that validate, and is nowhere kept."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for cls in classes:
        if cls.operation not in _VALIDATING:
            continue
        interval_ms = 1e3 / max(cls.process.per_s, 1e-9)
        base = min(60_000.0, 0.2 * interval_ms)
        tree["workload"][cls.name]["runtime"] = {"distribution": "fixed", "value": float(f"{base:.4g}")}
        if "periodic" in tree["workload"][cls.name]:
            _shift_phase(tree["workload"][cls.name]["periodic"], base)
        low[f"workload.{cls.name}.runtime.value"] = 0.0
        high[f"workload.{cls.name}.runtime.value"] = float(f"{0.9 * interval_ms:.4g}")
    if low:
        text = (
            "not in a history: a fifth of the interval between its commits, at most a minute; from nothing to all of the interval"
        )
        assumptions.append(Assumption("runtimes of operations that validate", text, low, high))


def _shift_phase(periodic: Tree, runtime_ms: float) -> None:
    """Commits are seen, and submissions are meant: those lie a runtime earlier."""
    periodic["phase_ms"] = round((periodic["phase_ms"] - runtime_ms) % periodic["interval_ms"], 3)


def _assume_conflicts(tree: Tree, classes: Sequence[ObservedClass], history: History, assumptions: list[Assumption]) -> None:
    """Whether operations touch each other's rows is not in a history."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for cls in classes:
        if cls.operation in _VALIDATING:
            tree["workload"][cls.name]["real_conflict_probability"] = 0.0
            high[f"workload.{cls.name}.real_conflict_probability"] = 0.5
            low[f"workload.{cls.name}.real_conflict_probability"] = 0.0
    if history.partitioned:
        known = [cls for cls in classes if cls.partitions is not None]
        seen = {key for commit in history.commits for key in commit.summary if key.startswith("partitions.")}
        most = max((math.ceil(cls.partitions or 1.0) for cls in known), default=1)
        number = max(len(seen), most, 2)
        tree["catalog"]["partitions"] = {"num_partitions": number}
        for cls in known:
            tree["workload"][cls.name]["partitions_per_txn"] = float(f"{max(cls.partitions or 1.0, 1.0):.4g}")
        told = f"{len(seen)} that summaries name" if seen else f"{number}, the most that one commit changed (two at least)"
        assumptions.append(
            Assumption("partitions", f"not in metadata: {told}", {"catalog.partitions.num_partitions": max(number * 10, 100)})
        )
    if high:
        text = "refused commits leave no trace: no overlap is a real conflict; up to every second one"
        assumptions.append(Assumption("real conflicts", text, low, high))
