"""Choose the window of a run that is measured: how much of its beginning and of its end is cut.

The warm-up lasts until transactions start committing at their stationary rate, and then until MSER-5 finds the number of committing
transactions stationary (White, *An effective truncation heuristic for bias reduction in simulation output*,
Simulation 69(6), 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from endive.analysis import Floats
from endive.storage import LatencyDistribution
from endive.storage.distributions import QuantileDistribution
from endive.workload.classes import WorkloadClass

BATCH = 5
_FEWEST_BATCHES = 10
_LEAST_TAIL_SHARE = 0.25
"""What is left has to be so much of the series: in a few batches nothing may happen by chance, which would look settled."""
_LEAST_GAIN = 0.2
"""A truncation that makes the squared error less smaller than this is one of noise, and nothing is cut."""


@dataclass(frozen=True)
class Truncation:
    """Drop this many observations.

    ``anywhere`` is the best truncation of all that leave a quarter of the series; ``settled`` is false if it lies in the second
    half, or the series is short.
    """

    observations: int
    anywhere: int
    settled: bool


def mser(batch_means: Floats) -> Floats:
    """For each truncation d the squared standard error of the mean of what is left, sum((x - mean)^2) / (n - d)^2."""
    centred = batch_means - batch_means.mean()
    left = np.arange(len(centred), 0, -1, dtype=np.float64)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    return np.asarray(np.maximum(squares - sums**2 / left, 0.0) / left**2)


def mser5(values: Floats) -> Truncation:
    """The truncation of a series by MSER-5: that of the first half of batches of five which makes the error least.

    Nothing is cut where that makes the error hardly smaller: a stationary series would be cut at random.
    """
    batches = len(values) // BATCH
    if batches < _FEWEST_BATCHES:
        return Truncation(0, 0, settled=False)
    errors = mser(values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1))
    best = _least(errors[: batches // 2 + 1])
    anywhere = _least(errors[: batches - math.ceil(_LEAST_TAIL_SHARE * batches) + 1])
    return Truncation(best * BATCH, anywhere * BATCH, settled=anywhere <= batches // 2)


def _least(errors: Floats) -> int:
    best = int(np.argmin(errors))
    return best if errors[best] < (1.0 - _LEAST_GAIN) * errors[0] else 0


STATIONARY_SHARE = 0.95
"""Of the stationary entry rate, before which warm-up does not end."""
SERIES_BINS = 300
"""Equal parts of a run in which the number of committing transactions is averaged for MSER-5."""
_MEAN_POINTS = 2_000

ChosenBy = Literal["given", "runtimes", "mser5", "schedule"]


@dataclass(frozen=True)
class Window:
    """The part ``[start_ms, end_ms]`` of a run of ``duration_ms``; transactions that enter in it are the cohort.

    ``settled`` is false if the number of committing transactions found no stationary part. ``needed_ms`` is how long the run should
    be, where warm-up takes more than half of it; otherwise None.
    """

    duration_ms: float
    start_ms: float
    end_ms: float
    chosen_by: ChosenBy
    settled: bool = True
    needed_ms: float | None = None

    @property
    def length_ms(self) -> float:
        """Its length."""
        return self.end_ms - self.start_ms


def given_window(duration_ms: float, warmup_ms: float, cooldown_ms: float = 0.0) -> Window:
    """The window that was asked for. Raises ValueError if it is empty."""
    if warmup_ms + cooldown_ms >= duration_ms:
        raise ValueError(f"warm-up {warmup_ms:g} ms and cool-down {cooldown_ms:g} ms leave nothing of {duration_ms:g} ms")
    return Window(duration_ms, warmup_ms, duration_ms - cooldown_ms, "given")


def find_window(duration_ms: float, cooldown_ms: float, entry_warmup_ms: float | None, committing: Floats) -> Window:
    """The window of the runs of a configuration.

    ``entry_warmup_ms`` is when entries are stationary (see ``entry_warmup_ms``), None if the workload changes by plan and is
    measured whole. ``committing`` is the number of committing transactions in equal parts of ``[0, duration - cooldown]``, summed
    over runs.
    """
    end = duration_ms - cooldown_ms
    if entry_warmup_ms is None:
        return Window(duration_ms, 0.0, end, "schedule")
    half = end / 2.0
    if entry_warmup_ms > half:
        return Window(duration_ms, half, end, "runtimes", settled=False, needed_ms=2.0 * entry_warmup_ms + cooldown_ms)
    width = end / len(committing)
    first = int(np.ceil(entry_warmup_ms / width - 1e-9))
    found = mser5(np.round(committing[first:], 6))  # sums of runs in another order are the same number
    start = (first + found.observations) * width if found.observations else entry_warmup_ms
    if start > half or not found.settled:
        latest = max(start, (first + found.anywhere) * width)
        return Window(duration_ms, min(start, half), end, "mser5", settled=False, needed_ms=2.0 * latest + cooldown_ms)
    return Window(duration_ms, start, end, "mser5" if found.observations else "runtimes")


def common_window(windows: Sequence[Window]) -> Window:
    """The window for runs that are compared: the longest warm-up, the shortest run. Raises ValueError if nothing is left."""
    start, end = max(each.start_ms for each in windows), min(each.end_ms for each in windows)
    if start >= end:
        raise ValueError(f"warm-up ends at {start:g} ms, but the shortest run ends at {end:g} ms")
    latest = max(windows, key=lambda each: each.start_ms)
    needed = [each.needed_ms for each in windows if each.needed_ms is not None]
    shortest = min(each.duration_ms for each in windows)
    settled = all(each.settled for each in windows)
    return Window(shortest, start, end, latest.chosen_by, settled, max(needed, default=None))


def entry_warmup_ms(classes: Sequence[WorkloadClass]) -> float | None:
    """When ``sum rate x P(runtime <= t)`` reaches 95 % of the sum of rates, in ms; None if the workload changes by plan.

    A class whose runtimes are of a distribution of the user's own, without quantiles, is left out of it.
    """
    if any(_is_scheduled(cls) for cls in classes):
        return None
    rates = [(_rate_per_ms(cls), cls.runtime) for cls in classes if isinstance(cls.runtime, QuantileDistribution)]
    rates = [(per_ms, runtime) for per_ms, runtime in rates if per_ms > 0.0]
    enough = STATIONARY_SHARE * sum(per_ms for per_ms, _ in rates)
    latest = max((runtime.at(STATIONARY_SHARE) for _, runtime in rates), default=0.0)
    return _first(lambda t: sum(per_ms * _below(runtime, t) for per_ms, runtime in rates) >= enough, 0.0, latest)


def _is_scheduled(cls: WorkloadClass) -> bool:
    """Whether the load of a class changes by plan: a schedule, a trace, a start, an end, or a phase beyond the first interval."""
    period_ms = cls.arrivals.period_ms
    late = period_ms is not None and cls.arrivals.first_ms(0, 0) > period_ms
    return late or not cls.is_steady


def _rate_per_ms(cls: WorkloadClass) -> float:
    """The stationary rate of submissions; of a closed class that of clients whose commits take no time."""
    return cls.arrivals.submissions_per_ms(_mean_ms, _mean_ms(cls.runtime))


def _mean_ms(distribution: LatencyDistribution) -> float:
    """The mean of a distribution with quantiles, from equally likely values; 0 of others."""
    if not isinstance(distribution, QuantileDistribution):
        return 0.0
    return distribution.mean_of_quantiles_ms(_MEAN_POINTS)


def _below(distribution: QuantileDistribution, value_ms: float) -> float:
    """P(X <= value), by bisection of the quantiles."""
    if distribution.at(1e-12) > value_ms:
        return 0.0
    return _first(lambda u: distribution.at(u) > value_ms, 0.0, 1.0 - 1e-12)


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition begins to hold between two values, if it holds at all from some value on; the upper one if it does not."""
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
