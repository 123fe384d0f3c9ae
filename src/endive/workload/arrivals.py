"""Arrival processes: when the transactions of a class are submitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from endive.randomness import Purpose, transaction_streams
from endive.storage import LatencyDistribution, QuantileDistribution

if TYPE_CHECKING:
    from endive.transaction import Transaction

Phase = Literal["random", "aligned", "staggered"]


@dataclass(frozen=True)
class OpenArrivals:
    """Transactions come whatever happens to the earlier ones; the first comes after the first interval."""

    inter_arrival: LatencyDistribution


@dataclass(frozen=True)
class PeriodicArrivals:
    """One transaction at phase, phase + interval, phase + 2 x interval, ..."""

    interval_ms: float
    phase_ms: float = 0.0


@dataclass(frozen=True)
class WriterArrivals:
    """Writers that each submit once in an interval.

    ``phase`` says when in the interval: ``aligned`` all at its start, ``staggered`` evenly spread over it, ``random`` each at a
    moment of its own.
    """

    writers: int
    interval_ms: float
    phase: Phase = "random"

    def phase_ms(self, class_key: int, writer: int) -> float:
        """When a writer first submits."""
        if self.phase == "aligned":
            return 0.0
        if self.phase == "staggered":
            return self.interval_ms * writer / self.writers
        return self.interval_ms * transaction_streams(class_key, writer, 0).stream(Purpose.PHASE).random_sample()


@dataclass(frozen=True)
class ClosedArrivals:
    """Clients that each think, submit, wait for the end of their transaction, and think again."""

    clients: int
    think_time: LatencyDistribution


@dataclass(frozen=True)
class ScheduledArrivals:
    """A Poisson process whose rate changes: ``steps`` are (from so many ms on, so many arrivals per second), in order of time."""

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        starts = [start_ms for start_ms, _ in self.steps]
        if not starts or starts != sorted(set(starts)):
            raise ValueError(f"a schedule needs steps in order of time, not {self.steps}")

    @cached_property
    def flat(self) -> tuple[float, ...]:
        """The steps as ``arithmetic.costs.scheduled_delay_ms`` takes them: start, rate per ms, start, rate per ms, ..."""
        return tuple(number for start_ms, per_s in self.steps for number in (start_ms, per_s / 1000.0))


@dataclass(frozen=True, slots=True)
class Submission:
    """A transaction of a trace. What is None is drawn as the class says."""

    time_ms: float
    operation: type[Transaction] | None = None
    runtime_ms: float | None = None
    table: int | None = None
    partitions: frozenset[int] | None = None
    """The partitions of ``table`` that it writes."""


@dataclass(frozen=True)
class TraceArrivals:
    """Submissions that are replayed as they are, in order of time."""

    submissions: Sequence[Submission]

    def __post_init__(self) -> None:
        times = [submission.time_ms for submission in self.submissions]
        if not times or times != sorted(times):
            raise ValueError("a trace needs submissions in order of time")


Arrivals = OpenArrivals | PeriodicArrivals | WriterArrivals | ClosedArrivals | ScheduledArrivals | TraceArrivals


def writers_of(arrivals: Arrivals) -> int:
    """How many writers with a number of their own there are; 0 where submissions are nobody's."""
    if isinstance(arrivals, WriterArrivals):
        return arrivals.writers
    return arrivals.clients if isinstance(arrivals, ClosedArrivals) else 0


def expected_submissions(arrivals: Arrivals, duration_ms: float) -> float:
    """About how many transactions arrive within ``duration_ms``, where that does not depend on how long they take.

    Raises:
        TypeError: The arrivals are those of a closed loop.

    """
    if isinstance(arrivals, ClosedArrivals):
        raise TypeError("clients of a closed loop wait for their transactions")
    if isinstance(arrivals, PeriodicArrivals):
        return duration_ms / arrivals.interval_ms
    if isinstance(arrivals, WriterArrivals):
        return arrivals.writers * duration_ms / arrivals.interval_ms
    if isinstance(arrivals, TraceArrivals):
        return float(len(arrivals.submissions))
    if isinstance(arrivals, ScheduledArrivals):
        ends = [*(start_ms for start_ms, _ in arrivals.steps[1:]), math.inf]
        return sum(
            max(0.0, min(end_ms, duration_ms) - start_ms) * per_s / 1000.0
            for (start_ms, per_s), end_ms in zip(arrivals.steps, ends, strict=True)
        )
    return duration_ms / max(mean_ms(arrivals.inter_arrival), 1e-3)


_QUANTILES = 64


def mean_ms(distribution: LatencyDistribution) -> float:
    """About the mean of a distribution, in milliseconds: the mean of its quantiles; 1 s for one that has none."""
    if not isinstance(distribution, QuantileDistribution):
        return 1000.0
    return distribution.mean_of_quantiles_ms(_QUANTILES)
