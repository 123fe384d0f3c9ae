"""Define the kinds of arrivals of workload classes.

Each record of ``ARRIVAL_KINDS`` contains the key in ``[workload.NAME]``, the arrival process, the label in reports and the controls
of the live page.

A source submits the transactions of a class, or of one writer of a class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from endive.arithmetic.costs import scheduled_delay_ms
from endive.randomness import Purpose, RandomSource, transaction_streams
from endive.storage import ExponentialLatency, FixedLatency, LatencyDistribution, QuantileDistribution

if TYPE_CHECKING:
    from endive.transaction import Transaction

Phase = Literal["random", "aligned", "staggered"]
OPEN, PERIODIC, CLOSED, SCHEDULED, TRACED = range(5)
"""Codes of the arrival processes in the compiled engine."""
_LEAST_INTERVAL_MS = 1e-3


@dataclass(frozen=True, slots=True)
class Submission:
    """Transaction of a trace.

    If a field is None, the simulation draws its value from the distributions of the class.
    """

    time_ms: float
    operation: type[Transaction] | None = None
    runtime_ms: float | None = None
    table: int | None = None
    partitions: frozenset[int] | None = None
    """Partitions of ``table`` that the transaction writes."""


class Arrivals(ABC):
    """Arrival process of a workload class."""

    code: ClassVar[int]
    """Code of the arrival process in the compiled engine."""
    waits: ClassVar[bool] = False
    """True if a source submits its next transaction only after the previous one has ended."""
    paced: ClassVar[bool] = False
    """True if a source runs one transaction at a time, at scheduled times. After a missed time, the source starts late."""
    is_steady: ClassVar[bool] = True
    """True if the rate of arrivals does not change during a run."""

    @property
    @abstractmethod
    def interval(self) -> LatencyDistribution:
        """Distribution of the time between two submissions of a source, or of the think time in a closed loop."""

    @property
    def numbered_writers(self) -> int:
        """Number of writers that have a number in the results; 0 if submissions have no writer."""
        return 0

    @property
    def period_ms(self) -> float | None:
        """Interval of a periodic process in ms, otherwise None."""
        return None

    @property
    def flat_steps(self) -> tuple[float, ...]:
        """Start times and rates of the steps of a varying rate, for ``arithmetic.costs.scheduled_delay_ms``."""
        return ()

    @property
    def traced(self) -> Sequence[Submission]:
        """Submissions of a trace; empty for other processes."""
        return ()

    def first_ms(self, class_key: int, writer: int) -> float:
        """Return the time from the start of the class to the start of a source, in ms."""
        return 0.0

    def delay_ms(self, now_ms: float, ordinal: int, start_ms: float, rng: RandomSource) -> float:
        """Return the time from ``now_ms`` to the next submission, in ms. The time is infinite after the last submission.

        Args:
            now_ms: Time of the last submission, or the end of that transaction in a closed loop; 0 before the first submission.
            ordinal: Number of submissions so far.
            start_ms: Time at which the source starts.
            rng: Random stream of the next transaction.
        """
        delay = self.interval.sample(rng)
        return delay if ordinal else start_ms + delay

    def traced_ms(self, ordinal: int) -> float | None:
        """Return the time of submission number ``ordinal`` of a trace, in ms. The time is infinite after the last submission.

        Returns:
            The time, or None for other processes.
        """
        return None

    def submissions_per_ms(self, mean_ms: Callable[[LatencyDistribution], float], job_ms: float) -> float:
        """Return the mean number of submissions per millisecond.

        In a closed loop, this rate depends on ``job_ms``, the mean duration of a transaction.
        """
        return self.expected_submissions(1.0)

    @abstractmethod
    def expected_submissions(self, duration_ms: float) -> float:
        """Estimate the number of submissions in ``duration_ms``.

        Raises:
            TypeError: If the number depends on the latency of transactions.

        """


@dataclass(frozen=True)
class OpenArrivals(Arrivals):
    """Open arrivals with independent intervals. The first arrival comes after the first interval."""

    code = OPEN
    inter_arrival: LatencyDistribution

    @property
    def interval(self) -> LatencyDistribution:
        """Distribution of the time between two arrivals."""
        return self.inter_arrival

    def submissions_per_ms(self, mean_ms: Callable[[LatencyDistribution], float], job_ms: float) -> float:
        """Return the mean number of arrivals per millisecond."""
        mean = mean_ms(self.inter_arrival)
        return 1.0 / mean if mean > 0.0 else 0.0

    def expected_submissions(self, duration_ms: float) -> float:
        """Estimate the number of submissions in ``duration_ms``."""
        return duration_ms / max(mean_ms(self.inter_arrival), _LEAST_INTERVAL_MS)


@dataclass(frozen=True)
class PeriodicArrivals(Arrivals):
    """Periodic arrivals of one transaction at phase, phase + interval, phase + 2 x interval and so on."""

    code = PERIODIC
    interval_ms: float
    phase_ms: float = 0.0

    @property
    def interval(self) -> LatencyDistribution:
        """Constant time between two arrivals."""
        return FixedLatency(self.interval_ms)

    @property
    def period_ms(self) -> float:
        """Interval in ms."""
        return self.interval_ms

    def first_ms(self, class_key: int, writer: int) -> float:
        """Return the phase in ms."""
        return self.phase_ms

    def delay_ms(self, now_ms: float, ordinal: int, start_ms: float, rng: RandomSource) -> float:
        """Return the time from ``now_ms`` to the next submission, in ms."""
        return self.interval_ms if ordinal else start_ms

    def expected_submissions(self, duration_ms: float) -> float:
        """Return the number of intervals in ``duration_ms``."""
        return duration_ms / self.interval_ms


@dataclass(frozen=True)
class WriterArrivals(Arrivals):
    """Writers that each submit one transaction per interval.

    ``phase`` determines the first submission of each writer. With ``aligned``, all writers submit at the start of the interval.
    With ``staggered``, the writers are evenly spaced. With ``random``, each writer has an independent uniform phase.

    A writer runs one transaction at a time. If a transaction has not ended at the next scheduled time of its writer, the writer
    misses that time. The writer then starts once when the transaction ends, and continues at its next scheduled time.
    """

    code = PERIODIC
    paced = True
    writers: int
    interval_ms: float
    phase: Phase = "random"

    @property
    def interval(self) -> LatencyDistribution:
        """Constant interval of one writer."""
        return FixedLatency(self.interval_ms)

    @property
    def numbered_writers(self) -> int:
        """Number of writers."""
        return self.writers

    @property
    def period_ms(self) -> float:
        """Interval of one writer in ms."""
        return self.interval_ms

    def first_ms(self, class_key: int, writer: int) -> float:
        """Return the phase of a writer in ms."""
        if self.phase == "aligned":
            return 0.0
        if self.phase == "staggered":
            return self.interval_ms * writer / self.writers
        return self.interval_ms * transaction_streams(class_key, writer, 0).stream(Purpose.PHASE).random_sample()

    def delay_ms(self, now_ms: float, ordinal: int, start_ms: float, rng: RandomSource) -> float:
        """Return the time from ``now_ms`` to the next submission of the writer, in ms."""
        return self.interval_ms if ordinal else start_ms

    def submissions_per_ms(self, mean_ms: Callable[[LatencyDistribution], float], job_ms: float) -> float:
        """Return the mean number of submissions per millisecond.

        If transactions take longer than the interval, a writer starts each transaction when the previous one ends.
        """
        return self.writers / max(self.interval_ms, job_ms)

    def expected_submissions(self, duration_ms: float) -> float:
        """Return the number of intervals of all writers in ``duration_ms``."""
        return self.writers * duration_ms / self.interval_ms


@dataclass
class SlotCounters:
    """Counter of the scheduled times that periodic writers missed."""

    slots_missed: int = 0
    """Number of scheduled times at which the previous transaction of the writer had not ended."""


@dataclass(frozen=True)
class ClosedArrivals(Arrivals):
    """Closed loop. Each client thinks, submits a transaction, and waits until the transaction ends."""

    code = CLOSED
    waits = True
    clients: int
    think_time: LatencyDistribution

    @property
    def interval(self) -> LatencyDistribution:
        """Distribution of the think time."""
        return self.think_time

    @property
    def numbered_writers(self) -> int:
        """Number of clients."""
        return self.clients

    def submissions_per_ms(self, mean_ms: Callable[[LatencyDistribution], float], job_ms: float) -> float:
        """Return the mean number of submissions per millisecond, if transactions take ``job_ms``."""
        cycle_ms = mean_ms(self.think_time) + job_ms
        return self.clients / cycle_ms if cycle_ms > 0.0 else float(self.clients)

    def expected_submissions(self, duration_ms: float) -> float:
        """Raise TypeError, because the number of submissions depends on the latency of transactions."""
        raise TypeError("the number of submissions of a closed loop depends on the latency of its transactions")


@dataclass(frozen=True)
class ScheduledArrivals(Arrivals):
    """Poisson arrivals with a varying rate.

    ``steps`` contains pairs of a start time in milliseconds and a rate in arrivals per second.
    """

    code = SCHEDULED
    is_steady = False
    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        starts = [start_ms for start_ms, _ in self.steps]
        if not starts or starts != sorted(set(starts)):
            raise ValueError(f"the times of a schedule must increase, and it needs at least one step; its steps are {self.steps}")

    @property
    def interval(self) -> LatencyDistribution:
        """Distribution of the time between two arrivals at rate 1."""
        return _UNIT

    @cached_property
    def flat_steps(self) -> tuple[float, ...]:
        """Start times in ms and rates per ms, alternating: start, rate, start, rate and so on."""
        return tuple(number for start_ms, per_s in self.steps for number in (start_ms, per_s / 1000.0))

    def delay_ms(self, now_ms: float, ordinal: int, start_ms: float, rng: RandomSource) -> float:
        """Return the time from ``now_ms`` to the next submission, in ms. The time is infinite if the rate stays 0."""
        return scheduled_delay_ms(now_ms, _UNIT.sample(rng), self.flat_steps, len(self.steps))

    def expected_submissions(self, duration_ms: float) -> float:
        """Return the mean number of submissions in ``duration_ms``."""
        ends = [*(start_ms for start_ms, _ in self.steps[1:]), math.inf]
        return sum(
            max(0.0, min(end_ms, duration_ms) - start_ms) * per_s / 1000.0
            for (start_ms, per_s), end_ms in zip(self.steps, ends, strict=True)
        )


@dataclass(frozen=True)
class TraceArrivals(Arrivals):
    """Replay of the submissions of a trace in chronological order."""

    code = TRACED
    is_steady = False
    submissions: Sequence[Submission]

    def __post_init__(self) -> None:
        times = [submission.time_ms for submission in self.submissions]
        if not times or times != sorted(times):
            raise ValueError("a trace must contain at least one submission, and submissions must be in chronological order")

    @property
    def interval(self) -> LatencyDistribution:
        """Placeholder distribution. It is not used, because a trace contains the time of every submission."""
        return _UNIT

    @property
    def traced(self) -> Sequence[Submission]:
        """Submissions of the trace."""
        return self.submissions

    def delay_ms(self, now_ms: float, ordinal: int, start_ms: float, rng: RandomSource) -> float:
        """Return the time from ``now_ms`` to the next submission, in ms. The time is infinite after the last submission."""
        return self.traced_ms(ordinal) - now_ms

    def traced_ms(self, ordinal: int) -> float:
        """Return the time of a submission in ms. The time is infinite after the last submission."""
        return self.submissions[ordinal].time_ms if ordinal < len(self.submissions) else math.inf

    def expected_submissions(self, duration_ms: float) -> float:
        """Return the number of submissions of the trace."""
        return float(len(self.submissions))


_UNIT = ExponentialLatency(1.0)
_QUANTILES = 64


def mean_ms(distribution: LatencyDistribution) -> float:
    """Estimate the mean of a distribution from its quantiles, in ms.

    For a custom distribution, which has no quantiles, the estimate is 1 s.
    """
    if not isinstance(distribution, QuantileDistribution):
        return 1000.0
    return distribution.mean_of_quantiles_ms(_QUANTILES)


Quantity = Literal["rate", "interval", "count"]


@dataclass(frozen=True, slots=True)
class ArrivalNumber:
    """Numeric key of a kind of arrivals."""

    path: str
    """Key within the section of the class, with dots. ``*`` stands for each item of a list."""
    quantity: Quantity
    label: str = ""
    """Label of the control on the live page. Without a label, the page has no control for the key."""
    sets_load: bool = True
    """True if a change of the load changes the value of this key."""


@dataclass(frozen=True, slots=True)
class ArrivalKind:
    """Kind of arrivals of a workload class."""

    key: str
    """Key of ``[workload.NAME]`` that selects the kind."""
    process: type[Arrivals]
    label: str
    """Name of the kind in reports and on the live page."""
    numbers: tuple[ArrivalNumber, ...] = ()
    companions: tuple[str, ...] = ()
    """Other keys that are valid only together with ``key``."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Initial keys and values on the live page. The page does not offer a kind without an example."""
    has_own_times: bool = False
    """True if the kind defines its start and end. The keys ``start_ms`` and ``end_ms`` are not allowed with such a kind."""


RATE = ArrivalKind(
    "rate", OpenArrivals, "Poisson, per second", (ArrivalNumber("rate", "rate", "rate (per second)"),), example={"rate": 1.0}
)
INTER_ARRIVAL = ArrivalKind(
    "inter_arrival",
    OpenArrivals,
    "random intervals",
    (
        *(ArrivalNumber(f"inter_arrival.{key}", "interval", "mean interval") for key in ("scale", "mean", "value", "median")),
        *(ArrivalNumber(f"inter_arrival.{key}", "interval") for key in ("stddev", "min", "max")),
    ),
)
PERIODIC_JOB = ArrivalKind(
    "periodic",
    PeriodicArrivals,
    "one periodic job",
    (ArrivalNumber("periodic.interval_ms", "interval", "interval", sets_load=False),),
    example={"periodic": {"interval_ms": "10min"}},
)
CLOSED_LOOP = ArrivalKind(
    "closed",
    ClosedArrivals,
    "closed loop (clients)",
    (ArrivalNumber("closed.clients", "count", "clients"),),
    example={"closed": {"clients": 10}},
)
WRITERS = ArrivalKind(
    "writers",
    WriterArrivals,
    "periodic writers",
    (
        ArrivalNumber("writers", "count", "writers", sets_load=False),
        ArrivalNumber("every_ms", "interval", "interval"),
    ),
    companions=("every_ms", "phase"),
    example={"writers": 10, "every_ms": "10s"},
)
SCHEDULE = ArrivalKind("schedule", ScheduledArrivals, "schedule", (ArrivalNumber("schedule.*.rate", "rate"),), has_own_times=True)
TRACE = ArrivalKind("trace", TraceArrivals, "trace file", has_own_times=True)

ARRIVAL_KINDS: Mapping[str, ArrivalKind] = MappingProxyType(
    {kind.key: kind for kind in (RATE, INTER_ARRIVAL, PERIODIC_JOB, CLOSED_LOOP, WRITERS, SCHEDULE, TRACE)}
)
"""Kinds of arrivals, by key. A workload class has at most one of these keys."""


def kind_of(section: Mapping[str, Any]) -> ArrivalKind | None:
    """Return the kind of arrivals that the keys of a class select, or None if they select no kind."""
    return next((kind for key, kind in ARRIVAL_KINDS.items() if section.get(key) is not None), None)
