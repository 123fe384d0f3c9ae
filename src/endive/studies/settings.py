"""Define the settings that ``endive tune`` searches: their keys, their classes, the values to try, and how to set them.

A setting applies to a class only if the class has the corresponding arrival kind or operation. All values can be used in practice:
integer properties, and intervals that a scheduler can express.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from endive.config import Document
from endive.config.load import EXPIRY_PROPERTIES
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.schema import CLASS_KEYS
from endive.formatting import format_duration
from endive.transaction.paths import ICEBERG_RETRY_PROPERTIES
from endive.workload.arrivals import CLOSED_LOOP, PERIODIC_JOB, WRITERS

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
_INTERVALS = (
    *(SECOND * each for each in (1, 2, 5, 10, 15, 30)),
    *(MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR * each for each in (1, 2, 3, 6, 12, 24)),
)
"""Intervals to try, in milliseconds."""
_RANGE = 10.0
"""Maximum factor between the current interval and the intervals to try."""
FEWEST_INTERVALS = 20
"""Minimum number of intervals in a run."""
_MEASURED = 0.75
"""Expected fraction of a run that remains after the warm-up."""

_INTERVAL_KEY = PERIODIC_JOB.numbers[0].path
_PHASE_KEY = f"{PERIODIC_JOB.key}.phase_ms"
_CLIENTS_KEY = CLOSED_LOOP.numbers[0].path
_EVERY_KEY = WRITERS.companions[0]
_WRITERS_PHASE_KEY = WRITERS.companions[1]


@dataclass(frozen=True)
class Snippet:
    """Text to paste, and where to paste it."""

    where: str
    text: str


@dataclass(frozen=True)
class Scope:
    """Workload class to tune, with its configuration and the number of transactions that it should have in a run."""

    document: Document
    resolved: ResolvedClass
    transactions: int = 0

    @property
    def operations(self) -> set[str]:
        """Operations of the class."""
        return {name for name, weight in self.resolved.settings.operation_types.model_dump().items() if weight > 0.0}

    @property
    def section(self) -> str:
        """Section of the class in the configuration file."""
        return "transaction" if self.resolved.own is None else f"workload.{self.resolved.name}"


@dataclass(frozen=True)
class Setting:
    """Setting to search.

    Attributes:
        group: Name of the setting in ``--search``.
        key: Key of the class.
        applies: Function that returns whether a class has the setting.
        values: Function that returns the values to try.
        changes_load: Whether the setting changes how often the class commits.
        property: Corresponding Iceberg table property, or None.
        paste: Function that returns the snippets that set the value of the class.
    """

    group: str
    key: str
    applies: Callable[[Scope], bool]
    values: Callable[[Scope], Sequence[Any]]
    changes_load: bool = False
    property: str | None = None
    paste: Callable[[Scope], Sequence[Snippet]] = lambda scope: ()

    def choices(self, scope: Scope) -> tuple[Any, ...]:
        """Return the values to try, including the current value. Numbers are in ascending order."""
        now = current_value(self.key, scope.resolved)
        found = [*dict.fromkeys((*self.values(scope), now))]
        known = [each for each in found if each is not None]
        ordered = sorted(known) if all(isinstance(each, int | float) for each in known) else known
        return (*(each for each in found if each is None), *ordered)


def current_value(key: str, resolved: ResolvedClass) -> Any:
    """Return the value of a key of a class; None if the key does not apply, such as a key of backoff without backoff."""
    first, *rest = key.split(".")
    if first == "retry_backoff" and not resolved.settings.retry_backoff.enabled:
        return None
    sources = (resolved.settings, resolved.arrivals, resolved.own)
    value: Any = next((getattr(each, first) for each in sources if hasattr(each, first)), None)
    for name in rest:
        value = getattr(value, name, None)
    return value


def _always(*values: Any) -> Callable[[Scope], Sequence[Any]]:
    return lambda scope: values


def _has(operation: str) -> Callable[[Scope], bool]:
    return lambda scope: scope.operations == {operation}


def _intervals(now: float, scope: Scope, per_interval: int) -> list[int]:
    """Return intervals that are near the current one and occur often enough in a run."""
    duration = scope.document.simulation.duration_ms * _MEASURED
    longest = min(_RANGE * now, duration / FEWEST_INTERVALS)
    if scope.transactions:
        longest = min(longest, duration * per_interval / scope.transactions)
    return [each for each in _INTERVALS if now / _RANGE <= each <= longest]


def _writer_intervals(scope: Scope) -> list[int]:
    arrivals = scope.resolved.arrivals
    per_interval = 1 if scope.resolved.committer is not None else arrivals.writers or 1
    return _intervals(arrivals.every_ms or 0.0, scope, per_interval)


def _job_intervals(scope: Scope) -> list[int]:
    periodic = scope.resolved.arrivals.periodic
    assert periodic is not None
    found = _intervals(periodic.interval_ms, scope, 1)
    return [each for each in found if each >= MINUTE or periodic.interval_ms < MINUTE]


def _job_phases(scope: Scope) -> list[float]:
    periodic = scope.resolved.arrivals.periodic
    assert periodic is not None
    return [quarter * periodic.interval_ms / 4.0 for quarter in range(4)]


def _has_periodic_rivals(scope: Scope) -> bool:
    """Return whether another class commits at fixed times, so that the phase of a job matters."""
    others = [each for each in resolve_classes(scope.document) if each.name != scope.resolved.name]
    return any(each.arrivals.periodic is not None or each.arrivals.phase not in (None, "random") for each in others)


def _list_fewer_writers(count: int | None) -> list[int]:
    """Return numbers of writers to try, up to the current number."""
    return sorted({math.ceil((count or 1) / factor) for factor in (1, 2, 4, 8)})


def _paste_interval(scope: Scope) -> list[Snippet]:
    every = scope.resolved.arrivals.every_ms or 0.0
    if scope.resolved.committer is not None:
        return [
            Snippet("Flink", f"SET 'execution.checkpointing.interval' = '{every:.0f} ms';"),
            Snippet("Kafka Connect", f"iceberg.control.commit.interval-ms={every:.0f}"),
        ]
    trigger = Snippet("Spark Structured Streaming", f'.trigger(processingTime="{every / SECOND:g} seconds")')
    return [trigger, *_paste_cron(every, 0.0)]


def _paste_stagger(scope: Scope) -> list[Snippet]:
    arrivals = scope.resolved.arrivals
    writers, every = arrivals.writers or 1, arrivals.every_ms or 0.0
    if arrivals.phase != "staggered":
        return [Snippet("scheduler", f"start all {writers} writers of {scope.resolved.name} at the same time")]
    step = format_duration(every / writers)
    return [Snippet("scheduler", f"start each of the {writers} writers of {scope.resolved.name} {step} after the previous one")]


def _paste_job(scope: Scope) -> list[Snippet]:
    periodic = scope.resolved.arrivals.periodic
    assert periodic is not None
    return _paste_cron(periodic.interval_ms, periodic.phase_ms)


def _paste_cron(interval_ms: float, phase_ms: float) -> list[Snippet]:
    line = cron_line(interval_ms, phase_ms)
    if line is None:
        return [Snippet("scheduler", f"every {format_duration(interval_ms)}, which cron cannot express")]
    return [Snippet("cron", line)]


def _paste_partial_progress(scope: Scope) -> list[Snippet]:
    commits = current_value(_COMMITS_PER_JOB, scope.resolved) or 1
    options = f"'partial-progress.enabled', '{str(commits > 1).lower()}', 'partial-progress.max-commits', '{commits}'"
    return [Snippet("Spark SQL", f"CALL catalog.system.rewrite_data_files(table => 'db.table', options => map({options}));")]


def _paste_retain(scope: Scope) -> list[Snippet]:
    retained = scope.resolved.settings.retain_snapshots
    return [Snippet("Spark SQL", f"CALL catalog.system.expire_snapshots(table => 'db.table', retain_last => {retained});")]


def cron_line(interval_ms: float, phase_ms: float = 0.0) -> str | None:
    """Return the cron expression of a periodic job; None if cron cannot express the interval."""
    minutes, rest = divmod(interval_ms, MINUTE)
    if rest or minutes < 1 or minutes > 24 * 60:
        return None
    step, start = int(minutes), round(phase_ms / MINUTE) % int(minutes)
    if step <= 60:
        return None if 60 % step else f"{_cron_field(step, start, 60)} * * * *"
    hours, odd = divmod(step, 60)
    return None if odd or 24 % hours else f"{start % 60} {_cron_field(hours, start // 60, 24)} * * *"


def _cron_field(step: int, start: int, size: int) -> str:
    """Return a field of a cron expression for every ``step`` units, starting at ``start``."""
    if step == size:
        return str(start)
    if step == 1:
        return "*"
    return f"*/{step}" if not start else f"{start}-{size - 1}/{step}"


_COMMITS_PER_JOB = "commits_per_job"
_RETRY_VALUES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "retry": (4, 8, 16, 32, 64),
        "retry_backoff.base_ms": (50, 100, 250, 500, 1_000, 2_500, 5_000),
        "retry_backoff.max_ms": (5_000, 15_000, 60_000),
        "total_timeout_ms": (600_000, 1_800_000, 7_200_000),
    }
)
RETRIES = "retries"
ICEBERG_RETRY_SETTINGS = tuple(
    Setting(RETRIES, key, lambda scope: scope.resolved.path.is_iceberg, _always(*_RETRY_VALUES[key]), property=name)
    for name, key in ICEBERG_RETRY_PROPERTIES.items()
)
"""Retry settings of Iceberg's clients that are table properties. The client fixes multiplier and jitter."""
CLASS_SETTINGS = (
    Setting(
        "interval",
        _EVERY_KEY,
        lambda scope: scope.resolved.arrivals.kind is WRITERS,
        _writer_intervals,
        changes_load=True,
        paste=_paste_interval,
    ),
    Setting(
        "interval",
        _INTERVAL_KEY,
        lambda scope: scope.resolved.arrivals.kind is PERIODIC_JOB,
        _job_intervals,
        changes_load=True,
        paste=_paste_job,
    ),
    Setting(
        "phase",
        _WRITERS_PHASE_KEY,
        lambda scope: scope.resolved.arrivals.kind is WRITERS and scope.resolved.committer is None,
        _always("aligned", "staggered"),
        paste=_paste_stagger,
    ),
    Setting(
        "phase",
        _PHASE_KEY,
        lambda scope: scope.resolved.arrivals.kind is PERIODIC_JOB and _has_periodic_rivals(scope),
        _job_phases,
        paste=_paste_job,
    ),
    Setting(
        "partial_progress",
        _COMMITS_PER_JOB,
        lambda scope: _COMMITS_PER_JOB in CLASS_KEYS and _has("rewrite_files")(scope),
        _always(1, 2, 5, 10, 20),
        paste=_paste_partial_progress,
    ),
    *(
        Setting(
            "expiry",
            key,
            lambda scope: _has("expire_snapshots")(scope) and scope.resolved.settings.retain_snapshots is None,
            _always(*values),
            property=name,
        )
        for (name, key), values in zip(
            EXPIRY_PROPERTIES.items(), ((HOUR, 6 * HOUR, DAY, 3 * DAY, 5 * DAY), (1, 10, 100)), strict=True
        )
    ),
    Setting(
        "expiry",
        "retain_snapshots",
        lambda scope: _has("expire_snapshots")(scope) and scope.resolved.settings.retain_snapshots is not None,
        _always(1, 10, 100, 1_000),
        paste=_paste_retain,
    ),
    Setting(
        "writers",
        WRITERS.key,
        lambda scope: scope.resolved.arrivals.kind is WRITERS,
        lambda scope: _list_fewer_writers(scope.resolved.arrivals.writers),
        changes_load=True,
    ),
    Setting(
        "writers",
        _CLIENTS_KEY,
        lambda scope: scope.resolved.arrivals.kind is CLOSED_LOOP,
        lambda scope: _list_fewer_writers(scope.resolved.arrivals.closed.clients if scope.resolved.arrivals.closed else 1),
        changes_load=True,
    ),
)
"""Settings of individual classes, in the order in which recommendations list them."""
GROUPS = tuple(dict.fromkeys(each.group for each in (*ICEBERG_RETRY_SETTINGS, *CLASS_SETTINGS)))
"""Names of settings in ``--search``."""
_ASKED_ONLY = "writers"
"""Setting that is searched only on request, because the model does not know how much data a writer can handle."""


def default_groups(*, constrained: bool) -> tuple[str, ...]:
    """Return the settings to search by default.

    Settings that change the commit rate of a class are searched only if there is a condition (``constrained``), because the lowest
    rate would otherwise always be the best.
    """
    load = {each.group for each in CLASS_SETTINGS if each.changes_load}
    return tuple(group for group in GROUPS if group != _ASKED_ONLY and (constrained or group not in load))
