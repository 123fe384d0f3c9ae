"""Determine the measurement window of a run, which excludes the warm-up and the cool-down.

The warm-up lasts until transactions start committing at their stationary rate and, according to MSER-5, the number of committing
transactions is stationary (White, *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69(6),
1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from endive.analysis import Floats
from endive.formatting import format_duration
from endive.storage import LatencyDistribution
from endive.storage.distributions import QuantileDistribution
from endive.workload.classes import WorkloadClass

BATCH = 5
_FEWEST_BATCHES = 10
_LEAST_TAIL_SHARE = 0.25
"""Minimum fraction of the series that remains after truncation, because a few batches at the end may be similar by chance."""
_LEAST_GAIN = 0.2
"""Minimum relative reduction of the squared error by truncation. Smaller reductions are noise."""


@dataclass(frozen=True)
class Truncation:
    """Truncation of a series.

    Attributes:
        observations: Number of observations to truncate, at most half of the series.
        anywhere: Best truncation that keeps at least a quarter of the series.
        settled: False if ``anywhere`` is in the second half, or the series is too short.
    """

    observations: int
    anywhere: int
    settled: bool


def mser(batch_means: Floats) -> Floats:
    """Return, for each truncation ``d``, the squared standard error of the remaining mean, ``sum((x - mean)^2) / (n - d)^2``."""
    centred = batch_means - batch_means.mean()
    left = np.arange(len(centred), 0, -1, dtype=np.float64)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    return np.asarray(np.maximum(squares - sums**2 / left, 0.0) / left**2)


def mser5(values: Floats) -> Truncation:
    """Truncate a series by MSER-5, at a batch of five values in the first half of the series.

    The series is not truncated if this reduces the error by less than a fifth, because a stationary series would otherwise be
    truncated at a random point.
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
"""Fraction of the stationary rate of commit starts at which the warm-up can end."""
SERIES_BINS = 300
"""Number of equal parts of a run in which the number of committing transactions is averaged for MSER-5."""
TIME_BINS = 60
"""Number of time bins of a run, unless its load is periodic."""
_MOST_TIME_BINS, _FEWEST_TIME_BINS = 120, 30
_MEAN_POINTS = 2_000
_TREND_PARTS = 12
_TREND_ERROR = 0.01
_LEAST_TREND = 0.5
"""Growth in the second half, as a fraction of the growth in the first half, above which a series does not settle."""

ChosenBy = Literal["given", "runtimes", "mser5", "schedule", "growth"]


@dataclass(frozen=True)
class Window:
    """Measured part of a run. The transactions that start committing in the window are the cohort.

    Attributes:
        duration_ms: Length of the run.
        start_ms: End of the warm-up.
        end_ms: Start of the cool-down, or the end of the run.
        chosen_by: Rule that determined the warm-up.
        settled: False if no part of the run is stationary.
        needed_ms: Recommended length of the run if it is too short; None if it is long enough or has no steady state.
        time_bins: Number of equal time bins of the whole run, chosen so that they do not alias with the period of the load.
    """

    duration_ms: float
    start_ms: float
    end_ms: float
    chosen_by: ChosenBy
    settled: bool = True
    needed_ms: float | None = None
    time_bins: int = TIME_BINS

    @property
    def length_ms(self) -> float:
        """Length of the window."""
        return self.end_ms - self.start_ms

    @property
    def is_drifting(self) -> bool:
        """True if the system has no steady state, so that a longer run would not settle."""
        return not self.settled and self.needed_ms is None


@dataclass(frozen=True)
class LoadPattern:
    """Load of a workload over time.

    Attributes:
        entry_warmup_ms: Time after which transactions start committing at their stationary rate; None if the configured load
            changes over time.
        periods_ms: Periods of transactions that are submitted at fixed times.
    """

    entry_warmup_ms: float | None
    periods_ms: tuple[float, ...] = ()

    def common_period_ms(self, longest_ms: float) -> float | None:
        """Return the least common multiple of the periods up to ``longest_ms``.

        If the multiple exceeds a fifth of ``longest_ms``, a window aligned to it would exclude too much, so the longest period is
        returned instead.
        """
        periods = [round(1000.0 * period) for period in self.periods_ms if 0.001 <= period <= longest_ms]
        if not periods:
            return None
        common = math.lcm(*periods) / 1000.0
        return common if common <= longest_ms / 5.0 else max(periods) / 1000.0


def load_pattern(classes: Sequence[WorkloadClass]) -> LoadPattern:
    """Return the load of some workload classes over time."""
    periods = {cls.arrivals.period_ms for cls in classes if _is_bunched(cls)}
    return LoadPattern(entry_warmup_ms(classes), tuple(sorted(period for period in periods if period is not None)))


def _is_bunched(cls: WorkloadClass) -> bool:
    """Return whether all writers of a class submit at the same times."""
    arrivals = cls.arrivals
    return arrivals.numbered_writers <= 1 or arrivals.first_ms(0, 0) == arrivals.first_ms(0, 1)


def given_window(duration_ms: float, warmup_ms: float, cooldown_ms: float = 0.0) -> Window:
    """Return the window for a given warm-up and cool-down. Raises ValueError if it is empty."""
    if warmup_ms + cooldown_ms >= duration_ms:
        raise ValueError(f"warm-up ({warmup_ms:g} ms) plus cool-down ({cooldown_ms:g} ms) exceed the run of {duration_ms:g} ms")
    return Window(duration_ms, warmup_ms, duration_ms - cooldown_ms, "given")


def find_window(
    duration_ms: float,
    cooldown_ms: float,
    pattern: LoadPattern,
    committing: Floats,
    tables_grow: Callable[[], bool] = lambda: False,
) -> Window:
    """Determine the window for the runs of a configuration.

    A run that does not settle and whose tables grow has no steady state. Its window starts when transactions start committing at
    their stationary rate.

    Args:
        duration_ms: Length of the runs.
        cooldown_ms: Time to exclude at the end.
        pattern: Pattern of the load; see ``load_pattern``.
        committing: Number of committing transactions in equal parts of ``[0, duration - cooldown]``, summed over runs.
        tables_grow: Function that returns whether tables grow during the run; called only if the run does not settle.
    """
    found = _find_window(duration_ms, cooldown_ms, pattern.entry_warmup_ms, committing)
    if pattern.entry_warmup_ms is not None and found.chosen_by == "mser5" and not found.settled and tables_grow():
        found = Window(duration_ms, pattern.entry_warmup_ms, found.end_ms, "growth", settled=False)
    longest_ms = found.end_ms / 2.0
    period_ms = pattern.common_period_ms(longest_ms)
    if period_ms is None:
        return found
    found = replace(found, time_bins=_count_time_bins(duration_ms / period_ms))
    start_ms = math.ceil(found.start_ms / period_ms - 1e-9) * period_ms
    if found.chosen_by == "schedule" or start_ms > longest_ms:
        return found
    periods = math.floor((found.end_ms - start_ms) / period_ms + 1e-9)
    return replace(found, start_ms=start_ms, end_ms=start_ms + periods * period_ms)


def _count_time_bins(periods: float) -> int:
    """Return a number of time bins near the default for which each bin contains whole periods, or each period whole bins."""
    whole = round(periods)
    if not whole or not math.isclose(periods, whole, rel_tol=1e-9):
        return TIME_BINS
    fitting = [bins for bins in range(_FEWEST_TIME_BINS, _MOST_TIME_BINS + 1) if bins % whole == 0 or whole % bins == 0]
    return min(fitting, key=lambda bins: (abs(bins - TIME_BINS), bins), default=TIME_BINS)


def _find_window(duration_ms: float, cooldown_ms: float, entry_warmup_ms: float | None, committing: Floats) -> Window:
    end = duration_ms - cooldown_ms
    if entry_warmup_ms is None:
        return Window(duration_ms, 0.0, end, "schedule")
    half = end / 2.0
    if entry_warmup_ms > half:
        return Window(duration_ms, half, end, "runtimes", settled=False, needed_ms=2.0 * entry_warmup_ms + cooldown_ms)
    width = end / len(committing)
    first = int(np.ceil(entry_warmup_ms / width - 1e-9))
    series = np.round(committing[first:], 6)  # makes the result independent of the order in which runs are summed
    found = mser5(series)
    start = (first + found.observations) * width if found.observations else entry_warmup_ms
    if start > half or not found.settled:
        latest = max(start, (first + found.anywhere) * width)
        needed = None if _keeps_growing(series) else 2.0 * latest + cooldown_ms
        return Window(duration_ms, min(start, half), end, "mser5", settled=False, needed_ms=needed)
    return Window(duration_ms, start, end, "mser5" if found.observations else "runtimes")


def _keeps_growing(series: Floats) -> bool:
    """Return whether a series keeps growing until its end.

    Two conditions must hold. Kendall's tau of twelve parts of the second half is significant (99%). The growth from the third to
    the fourth quarter is at least half of the growth from the first to the second quarter.
    """
    if len(series) < 2 * _TREND_PARTS:
        return False
    quarters = [float(part.mean()) for part in np.array_split(series, 4)]
    if quarters[3] - quarters[2] < _LEAST_TREND * (quarters[1] - quarters[0]):
        return False
    from scipy import stats  # slow to import, and rarely needed

    parts = [part.mean() for part in np.array_split(series[len(series) // 2 :], _TREND_PARTS)]
    return bool(stats.kendalltau(np.arange(_TREND_PARTS), parts, alternative="greater").pvalue < _TREND_ERROR)


def common_window(windows: Sequence[Window]) -> Window:
    """Return the common window of runs to compare: the longest warm-up and the earliest end.

    Raises ValueError if it is empty.
    """
    start, end = max(each.start_ms for each in windows), min(each.end_ms for each in windows)
    if start >= end:
        raise ValueError(
            f"the warm-up ends at {format_duration(start)}, and the shortest run at {format_duration(end)}. "
            "Use one duration for all runs (simulation.duration_ms)"
        )
    latest = max(windows, key=lambda each: each.start_ms)
    needed = [each.needed_ms for each in windows if each.needed_ms is not None]
    shortest = min(each.duration_ms for each in windows)
    settled, drifting = all(each.settled for each in windows), any(each.is_drifting for each in windows)
    needs = None if drifting else max(needed, default=None)
    return Window(shortest, start, end, latest.chosen_by, settled, needs, latest.time_bins)


def entry_warmup_ms(classes: Sequence[WorkloadClass]) -> float | None:
    """Return the time in ms at which ``sum rate * P(runtime <= t)`` reaches 95% of the sum of rates.

    Return None if the configured load changes over time. Classes with a custom runtime distribution that has no quantiles are
    ignored.
    """
    if any(_is_scheduled(cls) for cls in classes):
        return None
    rates = [(_rate_per_ms(cls), cls.runtime) for cls in classes if isinstance(cls.runtime, QuantileDistribution)]
    rates = [(per_ms, runtime) for per_ms, runtime in rates if per_ms > 0.0]
    enough = STATIONARY_SHARE * sum(per_ms for per_ms, _ in rates)
    latest = max((runtime.at(STATIONARY_SHARE) for _, runtime in rates), default=0.0)
    return _first(lambda t: sum(per_ms * _below(runtime, t) for per_ms, runtime in rates) >= enough, 0.0, latest)


def _is_scheduled(cls: WorkloadClass) -> bool:
    """Return whether the load of a class changes over time, due to a schedule, trace, start, end, or phase after the first
    interval.
    """
    period_ms = cls.arrivals.period_ms
    late = period_ms is not None and cls.arrivals.first_ms(0, 0) > period_ms
    return late or not cls.is_steady


def _rate_per_ms(cls: WorkloadClass) -> float:
    """Return the stationary rate of submissions. For a closed loop, this is the rate at which commits would take no time."""
    return cls.arrivals.submissions_per_ms(_mean_ms, _mean_ms(cls.runtime))


def _mean_ms(distribution: LatencyDistribution) -> float:
    """Return the mean of a distribution, as the mean of evenly spaced quantiles; 0 if it has no quantiles."""
    if not isinstance(distribution, QuantileDistribution):
        return 0.0
    return distribution.mean_of_quantiles_ms(_MEAN_POINTS)


def _below(distribution: QuantileDistribution, value_ms: float) -> float:
    """Return P(X <= value), by bisection of the quantiles."""
    if distribution.at(1e-12) > value_ms:
        return 0.0
    return _first(lambda u: distribution.at(u) > value_ms, 0.0, 1.0 - 1e-12)


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Find the least value between two values at which a condition is met; the upper value if it is not met."""
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
