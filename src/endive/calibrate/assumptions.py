"""Make assumptions about facts that a table's history does not contain, each with the keys at both ends of its range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from endive.calibrate.arrival_fit import AS_AT_RANDOM
from endive.calibrate.observed_classes import ObservedClass
from endive.calibrate.reports import MOST_FAILED, CommitReport, estimate_failing_share
from endive.calibrate.table_history import History
from endive.config.arrival_keys import scale_arrivals
from endive.workload.arrivals import CLOSED_LOOP, INTER_ARRIVAL, PERIODIC_JOB

Tree = dict[str, Any]
STORE_SCALE = "store_scale"
"""Factor on all latencies of the object store; used in ranges; it is not a key of the file."""


@dataclass(frozen=True)
class Assumption:
    """An assumption. ``low`` and ``high`` are the configuration keys at the ends of the range."""

    about: str
    assumed: str
    low: Mapping[str, Any] = field(default_factory=dict)
    high: Mapping[str, Any] = field(default_factory=dict)


def assume(
    tree: Tree, history: History, classes: Sequence[ObservedClass], reports: Sequence[CommitReport], provider: str | None
) -> list[Assumption]:
    """Add assumptions to a configuration, and return them with their ranges."""
    return [
        *_appends(classes),
        _store(provider, bool(reports)),
        _failures(tree, classes, reports),
        *_runtimes(tree, classes),
        *_arrivals(tree, classes),
        *_conflicts(tree, classes, history),
    ]


def _appends(classes: Sequence[ObservedClass]) -> Iterator[Assumption]:
    """Assume merge appends if no summary shows whether manifests were merged."""
    guessed = [cls for cls in classes if cls.operation == "merge_append" and cls.guessed]
    if guessed:
        low = {f"workload.{cls.name}.operation": "fast_append" for cls in guessed}
        yield Assumption("appends", "merge appends, as in batch jobs and Flink's sink", low)


def _store(provider: str | None, reported: bool) -> Assumption:
    """Assume latencies, because only reports contain them."""
    if reported:
        text = "scaled to the duration of commits in the reports"
        return Assumption("latencies", text, {STORE_SCALE: 0.75}, {STORE_SCALE: 1.35})
    named = f"profile of {provider}" if provider else "profile of S3; set --provider for another object store"
    return Assumption("latencies", named, {STORE_SCALE: 0.5}, {STORE_SCALE: 2.0})


def _failures(tree: Tree, classes: Sequence[ObservedClass], reports: Sequence[CommitReport]) -> Assumption:
    """Assume a fraction of failed operations, from empty slots of periodic jobs and from attempts in reports."""
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
        most = min(max(2.0 * failed, 0.05), MOST_FAILED) if own else 0.2
        if own:
            texts.append(f"{100 * failed:.2g}% of the {cls.name} operations fail, estimated from the attempts in the reports")
        if CLOSED_LOOP.key in section and cls.loop is not None:  # the rate already includes them
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
    """Group reports by the class of their snapshot or, without a snapshot, of their operation."""
    by_snapshot = {commit.snapshot_id: cls.name for cls in classes for commit in cls.commits}
    by_operation = {commit.operation: cls.name for cls in classes for commit in cls.commits[:1]}
    found: dict[str, list[CommitReport]] = {}
    for report in reports:
        name = by_snapshot.get(report.snapshot_id or -1) or by_operation.get(report.operation)
        if name is not None:
            found.setdefault(name, []).append(report)
    return found


def _arrivals(tree: Tree, classes: Sequence[ObservedClass]) -> Iterator[Assumption]:
    """Assume open or closed arrivals if the history does not distinguish them."""
    low, high = Tree(), Tree()
    texts = []
    for cls in classes:
        key, loop = f"workload.{cls.name}.{CLOSED_LOOP.key}", cls.loop
        if loop is None:
            if cls.process.even:
                low[f"workload.{cls.name}.{INTER_ARRIVAL.key}"] = cls.process.even
                texts.append(
                    f"intervals between commits of {cls.name} vary slightly less than with Poisson arrivals, as on a busy table"
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
    """Return the key that sets the rate of a class, and its value at a multiple of the rate."""
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
    """Assume the job duration of operations that validate, which no source records."""
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
        if PERIODIC_JOB.key in section:  # the history contains commits; a submission is one job duration earlier
            periodic = section[PERIODIC_JOB.key]
            periodic["phase_ms"] = round((periodic["phase_ms"] - base) % periodic["interval_ms"], 3)
        low[f"workload.{cls.name}.runtime.value"] = 0.0
        high[f"workload.{cls.name}.runtime.value"] = float(f"{0.9 * interval_ms:.4g}")
    if low:
        text = "one fifth of the interval between commits, at most 1 min (range: 0 to the full interval)"
        yield Assumption("job durations of validating operations", text, low, high)


def _split_think(section: Tree, cls: ObservedClass, low: Tree, high: Tree) -> None:
    """Assume a fifth of a writer's time between commits as job duration; the range is 0 to the whole time."""
    assert cls.loop is not None
    free_ms = cls.loop.think_ms(cls.loop.clients)
    for share, into in ((0.0, low), (1.0, high)):
        into[f"workload.{cls.name}.runtime.value"] = float(f"{share * free_ms:.4g}")
        into[f"workload.{cls.name}.{CLOSED_LOOP.key}"] = cls.loop.keys(runtime_ms=share * free_ms)
    base = min(60_000.0, 0.2 * free_ms)
    section["runtime"] = {"distribution": "fixed", "value": float(f"{base:.4g}")}
    section[CLOSED_LOOP.key] = cls.loop.keys(runtime_ms=base)


def _conflicts(tree: Tree, classes: Sequence[ObservedClass], history: History) -> Iterator[Assumption]:
    """Assume how often operations change the same rows."""
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
        text = f"{number}, the maximum number that one commit changed (at least 2)"
        if number in (len(named), listed):
            text = f"{number}, the number {'in snapshot summaries' if number == len(named) else 'in the manifest list'}"
        yield Assumption("partitions", text, {"catalog.partitions.num_partitions": max(number * 10, 100)})
    if high:
        text = "0% of overlaps (range: 0 to 50%)"
        yield Assumption("real conflicts", text, low, high)
