"""Keys of a class that say how its transactions arrive: one section and one constructor for each arrival kind."""

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
    """One transaction at phase, phase + interval, ..."""

    interval_ms: PositiveMs
    phase_ms: NonNegativeMs = 0.0


class Closed(Section):
    """Clients that each think, submit, wait for the end, and think again."""

    clients: Writers
    think_time: Interval = Field(default_factory=lambda: Interval(distribution="fixed", value=0.0))


class RateStep(Section):
    """A step of a schedule: the rate from a time on."""

    model_config = ConfigDict(populate_by_name=True)

    from_ms: NonNegativeMs = Field(alias="from", description="Start of the step, since the start of the run (also `from_ms`).")
    rate: Annotated[float, Field(ge=0, le=1e6)] = Field(description="Arrivals per second; 0 is a pause.")


class ArrivalKeys(Section):
    """Arrivals of a class: at most one of the arrival kinds, and the times between which the class is active."""

    rate: Rate | None = Field(None, description="Arrivals per second, exponential intervals.")
    inter_arrival: Interval | None = None
    periodic: Periodic | None = None
    closed: Closed | None = None
    writers: Writers | None = Field(None, description="Number of writers, each of which submits once in `every_ms`.")
    every_ms: PositiveMs | None = Field(None, description="Interval of each of `writers` (also `every`).")
    phase: Literal["random", "aligned", "staggered"] | None = Field(
        None, description="Phase of each of `writers` in the interval: random, all at its start, or evenly spread."
    )
    schedule: list[RateStep] | None = Field(None, description="Poisson arrivals at a rate that changes: steps in order of time.")
    trace: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="File of submissions (*.parquet, *.csv) that are replayed as they are."
    )
    start_ms: NonNegativeMs | None = Field(None, description="Start of the class (also `start`). Default 0.")
    end_ms: PositiveMs | None = Field(None, description="End of submissions (also `end`). Default: end of the run.")

    @property
    def kind(self) -> ArrivalKind | None:
        """Arrival kind of the class; None if no key selects one."""
        return kind_of(dict(self))

    @model_validator(mode="after")
    def _check_arrivals(self) -> Self:
        given = ARRIVAL_KINDS.keys() & self.model_fields_set
        if len(given) > 1:
            raise ValueError(f"arrivals are given twice: {', '.join(sorted(given))}. Keep one of them.")
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
                raise ValueError(f"{key} contradicts {self.kind.key}, which says itself when transactions arrive. Remove {key}.")
        start_ms, end_ms = self.start_ms or 0.0, self.end_ms
        if end_ms is not None and end_ms <= start_ms:
            raise ValueError(f"end_ms {end_ms:.12g} is not after start_ms {start_ms:.12g}")
        if self.schedule is not None and not self.schedule:
            raise ValueError('the schedule is empty. Add a step, such as schedule = [{ from = "0s", rate = 2.0 }].')
        for before, after in itertools.pairwise(self.schedule or ()):
            if after.from_ms <= before.from_ms:
                raise ValueError(
                    f"steps of the schedule are not in order of time: {after.from_ms:.12g} ms after {before.from_ms:.12g} ms"
                )


def build_arrivals(keys: ArrivalKeys) -> Arrivals:
    """Build the arrival process of checked keys."""
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
    """Return the keys of a class that set its load, by dotted key, with their values at ``factor`` times the load."""
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
