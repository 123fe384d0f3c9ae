"""Arrival keys of a class, and the arrival processes that they describe."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from endive.config.traces import read_trace
from endive.config.values import Interval, NonNegativeMs, PositiveMs, Rate, Section, Writers, duration_ms
from endive.storage import ExponentialLatency
from endive.workload import arrivals as processes
from endive.workload.arrivals import ARRIVAL_KINDS, ArrivalKind, Arrivals, kind_of


class Periodic(Section):
    """Periodic job: one transaction at phase, phase + interval, ..."""

    interval_ms: PositiveMs = Field(description="Interval between submissions.")
    phase_ms: NonNegativeMs = Field(0.0, description="Time of the first submission.")


class Closed(Section):
    """Closed loop: each client thinks, submits a transaction, and waits for its end."""

    clients: Writers = Field(description="Number of clients.")
    think_time: Interval = Field(
        default_factory=lambda: Interval(distribution="fixed", value=0.0),
        description="Think time of a client before each submission.",
    )


class RateStep(Section):
    """Step of a schedule."""

    model_config = ConfigDict(populate_by_name=True)

    from_ms: NonNegativeMs = Field(
        alias="from", description="Start of the step, relative to the start of the run (alias: `from_ms`)."
    )
    rate: Annotated[float, Field(ge=0, le=1e6)] = Field(description="Arrivals per second; 0: no arrivals.")


class ArrivalKeys(Section):
    """Arrivals of a class: at most one arrival kind, and the start and end of the class."""

    rate: Rate | None = Field(None, description="Arrivals per second, as a Poisson process.")
    inter_arrival: Interval | None = Field(None, description="Interval between arrivals; replaces `rate`.")
    periodic: Periodic | None = Field(None, description="Arrivals at fixed intervals.")
    closed: Closed | None = Field(
        None, description="Closed loop: each client waits for its transaction before it submits the next one."
    )
    writers: Writers | None = Field(
        None,
        description="Number of writers. Each submits one transaction per `every_ms`, and waits until the "
        "previous one has finished.",
    )
    every_ms: PositiveMs | None = Field(None, description="Interval between submissions of a writer (alias: `every`).")
    phase: Literal["random", "aligned", "staggered"] | None = Field(
        None,
        description="Phases of the writers within the interval: random, all at its start (aligned), or evenly spaced (staggered).",
    )
    schedule: list[RateStep] | None = Field(
        None, description="Poisson arrivals at a rate that varies over time: a list of steps in chronological order."
    )
    trace: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="File of submissions to replay (*.parquet or *.csv)."
    )
    start_ms: NonNegativeMs | None = Field(None, description="Start of submissions (alias: `start`). Default: 0.")
    end_ms: PositiveMs | None = Field(None, description="End of submissions (alias: `end`). Default: end of the run.")

    @property
    def kind(self) -> ArrivalKind | None:
        """Arrival kind of the class; None if no key selects one."""
        return kind_of(dict(self))

    @model_validator(mode="after")
    def _check_arrivals(self) -> Self:
        given = ARRIVAL_KINDS.keys() & self.model_fields_set
        if len(given) > 1:
            raise ValueError(f"{' and '.join(sorted(given))} exclude each other; keep one of them")
        for kind in ARRIVAL_KINDS.values():
            for key in kind.companions:
                if getattr(self, kind.key) is None and getattr(self, key) is not None:
                    raise ValueError(f"{key} needs {kind.key}, such as {kind.key} = 1")
        if self.writers is not None and self.every_ms is None:
            raise ValueError('writers needs every, such as every = "10s"')
        self._check_times()
        return self

    def _check_times(self) -> None:
        for key in ("start_ms", "end_ms"):
            if getattr(self, key) is not None and self.kind is not None and self.kind.has_own_times:
                raise ValueError(f"{key} has no effect with {self.kind.key}, which sets the submission times; remove {key}")
        start_ms, end_ms = self.start_ms or 0.0, self.end_ms
        if end_ms is not None and end_ms <= start_ms:
            raise ValueError(f"end_ms {end_ms:.12g} must be above start_ms {start_ms:.12g}")
        if self.schedule is not None and not self.schedule:
            raise ValueError('schedule must have at least one step, such as schedule = [{ from = "0s", rate = 2.0 }]')
        for before, after in itertools.pairwise(self.schedule or ()):
            if after.from_ms <= before.from_ms:
                raise ValueError(
                    f"the steps of schedule must be in chronological order, but {after.from_ms:.12g} ms follows "
                    f"{before.from_ms:.12g} ms"
                )


def build_arrivals(keys: ArrivalKeys) -> Arrivals:
    """Return the arrival process that checked keys describe."""
    if keys.rate is not None:
        return processes.OpenArrivals(ExponentialLatency(1000.0 / keys.rate))
    if keys.periodic is not None:
        return processes.PeriodicArrivals(keys.periodic.interval_ms, keys.periodic.phase_ms)
    if keys.closed is not None:
        return processes.ClosedArrivals(keys.closed.clients, keys.closed.think_time.to_distribution())
    if keys.writers is not None and keys.every_ms is not None:
        return processes.WriterArrivals(keys.writers, keys.every_ms, keys.phase or "random")
    if keys.schedule is not None:
        return processes.ScheduledArrivals(tuple((step.from_ms, step.rate) for step in keys.schedule))
    if keys.trace is not None:
        return processes.TraceArrivals(read_trace(Path(keys.trace)))
    assert keys.inter_arrival is not None
    return processes.OpenArrivals(keys.inter_arrival.to_distribution())


def scale_arrivals(section: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the keys that set the load of a class, by dotted key, with their values at ``factor`` times the load."""
    kind = kind_of(section)
    changes: dict[str, Any] = {}
    for number in kind.numbers if kind is not None else ():
        first, *rest = number.path.split(".")
        if number.sets_load and rest[:1] == ["*"]:
            changes[first] = [{**item, rest[1]: _scaled(item[rest[1]], number.quantity, factor)} for item in section[first]]
            continue
        value = section.get(first)
        for part in rest:
            value = value.get(part) if isinstance(value, Mapping) else None
        if number.sets_load and value is not None:
            changes[number.path] = _scaled(value, number.quantity, factor)
    return changes


def _scaled(value: Any, quantity: processes.Quantity, factor: float) -> Any:
    if quantity == "rate":
        return value * factor
    return duration_ms(value) / factor if quantity == "interval" else max(1, round(value * factor))
