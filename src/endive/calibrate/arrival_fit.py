"""Infer the arrival process of a workload class from the times of its commits.

The arrivals are periodic, a Poisson process, bursts, a daily profile, or a closed loop. Writers of a closed loop wait for their own
commits, so N writers never have more than N commits in flight. If commit reports contain the durations of commits,
``find_loop_by_overlap`` compares the maximum number of commits in flight with the number that Poisson arrivals would cause. Without
reports, ``find_loop_by_evenness`` checks whether the number of commits per period varies less than with Poisson arrivals. A
saturated table has the same effect, so the result is only an assumption, and its range includes Poisson arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from endive.analysis import Floats
from endive.formatting import format_count
from endive.workload.arrivals import INTER_ARRIVAL, PERIODIC_JOB, RATE

_HOUR_MS = 3_600_000.0
_DAY_MS = 24 * _HOUR_MS
_LEAST_PERIODIC = 6
_MOST_MISSED = 30.0
"""Maximum ratio of scheduled commits to actual commits of a periodic job."""
_STEPS = 400
_DRIFT = 1e-4
_ENOUGH = 1_000
"""Maximum number of commits from which the interval of a schedule is determined."""
_MOST_TIMES = 1_000
"""Largest tested multiple of a round interval."""
_TWICE = 0.02
"""Assumed probability that an interval contains two commits, because the previous commit was late."""
_TOGETHER, _STEADY = 0.8, 0.15
"""For a strict schedule: minimum concentration, and maximum coefficient of variation of the time between commits."""
_CLEARLY, _MUCH = 7.0, 20.0
"""Minimum log-likelihood ratios of an interval, compared with random arrivals and compared with a round interval."""
_IN_WINDOW = 0.75
"""Assumed fraction of punctual commits of a periodic job."""
_SILENT = 5
"""Minimum number of missing commits at the end of a history for the import to report that a periodic job has ended."""
_LEAST_PER_S = 1e-8  # one commit in three years
_OF_SIXTY = (1, 2, 3, 5, 10, 15, 20, 30)
_ROUND_MS = sorted(
    count * unit for unit, counts in ((1e3, _OF_SIXTY), (6e4, _OF_SIXTY), (36e5, (1, 2, 3, 4, 6, 8, 12, 24))) for count in counts
)
"""Common intervals of schedules, in ms."""


@dataclass(frozen=True)
class Process:
    """Arrivals of a workload class.

    ``keys`` are the arrival keys of its configuration section. ``missed`` is the fraction of scheduled commits of a periodic job
    that are missing in the history.
    """

    words: str
    keys: dict[str, Any]
    per_s: float
    missed: float = 0.0
    notes: tuple[str, ...] = ()
    even: dict[str, Any] | None = None
    """Fitted distribution of the time between commits, if this time varies less than with Poisson arrivals; otherwise None."""


def recognize_arrivals(
    times_ms: Floats, zero_ms: float, first_ms: float, end_ms: float, durations_ms: Floats | None = None
) -> Process:
    """Infer the arrivals of a workload class from the times of its commits.

    Args:
        times_ms: Times of the commits, in ms and in ascending order.
        zero_ms: Time that corresponds to time 0 of the simulation. Phases of periodic jobs are relative to this time.
        first_ms: Start of the history.
        end_ms: End of the history.
        durations_ms: Durations of the commits. If they are known, periodic jobs are recognized from the start times of commits.
    """
    per_s = max(1e3 * len(times_ms) / max(end_ms - first_ms, 1.0), _LEAST_PER_S)
    periodic = _periodic(times_ms if durations_ms is None else np.sort(times_ms - durations_ms), zero_ms, end_ms)
    return periodic or _daily(times_ms, zero_ms, end_ms, per_s) or _renewal(times_ms, per_s)


def _periodic(times_ms: Floats, zero_ms: float, end_ms: float) -> Process | None:
    """Return a periodic job if nearly all commits follow a fixed schedule. Scheduled commits can be late or missing."""
    interval = _interval(times_ms) if len(times_ms) >= _LEAST_PERIODIC else None
    if interval is None:
        return None
    since = times_ms - zero_ms
    earliest = _leading_edge(np.sort(since % interval), interval)
    late = (since - earliest) % interval
    late = np.where(late > 0.97 * interval, late - interval, late)  # these commits are early
    slots = np.unique(np.round((since - earliest - late) / interval))
    last = max(
        math.floor((end_ms - zero_ms - earliest) / interval - 0.5), int(slots[-1])
    )  # the last scheduled commit may still follow
    missed = 1.0 - len(slots) / (last - float(slots[0]) + 1.0)
    silent = last - int(slots[-1])
    notes = (f"no commit in the last {silent} intervals; the job has ended or has failed since then",) if silent >= _SILENT else ()
    words = f"every {interval / 1000.0:g} s, first at {earliest / 1000.0:.3f} s"
    if missed > 0.005:
        words += f", {100 * missed:.1f}% of the intervals without a commit"
    keys = {PERIODIC_JOB.key: {"interval_ms": float(f"{interval:.9g}"), "phase_ms": round(earliest, 3)}}
    return Process(words, keys, 1e3 / interval, missed, notes)


def _interval(times_ms: Floats) -> float | None:
    """Return the interval of a schedule that explains the commit times better than random arrivals; None if there is none.

    The likelihood is reduced according to the number of tested intervals, because one of many intervals fits by chance. A multiple
    of a round interval must fit better than a round interval, and any other interval must fit much better than a round one.
    """
    gaps = np.diff(times_ms)
    mean = float(gaps.mean())
    if mean <= 0.0:
        return None
    own = _refine_interval(times_ms, float(np.median(gaps)))
    times_ms = times_ms[-_ENOUGH:]
    tried = list_multiples(mean / _MOST_MISSED, 1.3 * mean)
    likelihoods = {each: _likelihood(times_ms, each) - math.log(len(_ROUND_MS) * times) for each, times in tried.items()}
    nicest = max(likelihoods, key=likelihoods.__getitem__, default=own)
    likelihoods.setdefault(own, _likelihood(times_ms, own) - math.log(_STEPS))
    own = nicest if abs(own / nicest - 1.0) < _DRIFT else own  # commits to a growing table take increasingly longer
    clear = [each for each in (nicest, own) if _is_clear(likelihoods, each, times_ms)]
    return own if own in clear and likelihoods[own] > likelihoods[nicest] + _MUCH else next(iter(clear), None)


def _is_clear(likelihoods: Mapping[float, float], interval: float, times_ms: Floats) -> bool:
    gaps = np.diff(times_ms)
    steady = _concentration(times_ms, interval) > _TOGETHER and float(gaps.std()) < _STEADY * float(gaps.mean())
    return likelihoods[interval] - _likelihood_otherwise(gaps, steady) > _CLEARLY


def list_multiples(shortest: float, longest: float) -> dict[float, int]:
    """Return the round intervals and their multiples within bounds, in ms, each with its smallest multiplier."""
    found: dict[float, int] = {}
    for each in reversed(_ROUND_MS):
        for times in range(max(1, math.ceil(shortest / each)), min(math.floor(longest / each), _MOST_TIMES) + 1):
            found[times * each] = min(times, found.get(times * each, times))
    return found


def _likelihood(times_ms: Floats, interval: float) -> float:
    """Return the log-likelihood of the commit times under a schedule with this interval. Some commits may be missing.

    The density of a commit within its interval is the sum of a narrow window, which contains three of four commits, and a uniform
    density for late commits. A second commit in an interval is rare.
    """
    count = len(times_ms)
    inside = math.ceil(_IN_WINDOW * count)
    phases = np.sort(times_ms % interval)
    around = np.concatenate([phases, phases + interval])
    widths = around[inside - 1 : inside - 1 + count] - phases
    begin = int(np.argmin(widths))
    places = np.floor((times_ms - phases[begin]) / interval)
    slots, filled = places[-1] - places[0] + 1.0, float(len(np.unique(places)))
    share = min(filled / slots, 1.0 - 1e-9)
    within = inside * math.log(inside / count / max(float(widths[begin]), 1.0))
    beside = (count - inside) * math.log(max(1.0 - inside / count, 1e-9) / interval)
    chance = filled * math.log(share) + (slots - filled) * math.log(1.0 - share) + (count - filled) * math.log(_TWICE)
    return float(within + beside + chance)


def _likelihood_otherwise(gaps_ms: Floats, steady: bool) -> float:
    """Return the log-likelihood of the commit times without a schedule: Poisson arrivals, or lognormal times between commits.

    If the times between commits are nearly constant and fit a schedule, Poisson arrivals are the only alternative.
    """
    at_random = -len(gaps_ms) * (1.0 + math.log(max(float(gaps_ms.mean()), 1.0)))
    logarithms = np.log(np.maximum(gaps_ms, 1.0))
    spread = max(float(logarithms.std()), 1e-3)
    alike = -float(logarithms.sum()) - len(gaps_ms) * (0.5 * math.log(2.0 * math.pi) + math.log(spread) + 0.5)
    return at_random if steady else max(at_random, alike)


def _concentration(times_ms: Floats, interval: float) -> float:
    """Return the concentration of commit times within an interval, from 0 (uniform) to 1 (always at the same phase)."""
    return float(abs(np.exp(2j * np.pi * ((times_ms - times_ms[0]) % interval) / interval).mean()))


def _refine_interval(times_ms: Floats, near: float) -> float:
    """Return the interval near ``near`` with the highest concentration of commit times, in ms.

    With each step, the search uses more commits and tests a narrower range.
    """
    width = 0.05
    found = near
    for count in (12, 48, 192, 768, len(times_ms)):
        part = times_ms[:count]
        tried = found * np.linspace(1.0 - width, 1.0 + width, _STEPS)
        found = float(tried[int(np.argmax([_concentration(part, float(each)) for each in tried]))])
        width = min(width, 0.5 * found / max(float(part[-1] - part[0]), found))
        if count >= len(times_ms):
            break
    return found


def _leading_edge(phases: Floats, interval: float) -> float:
    """Return the phase of punctual commits: the start of the tenth of the interval that contains the most commits."""
    window = 0.1 * interval
    twice = np.concatenate([phases, phases + interval])
    counts = np.searchsorted(twice, phases + window, side="right") - np.arange(len(phases))
    return float(phases[int(np.argmax(counts))])


def _daily(times_ms: Floats, start_ms: float, end_ms: float, per_s: float) -> Process | None:
    """Return a rate for each hour of the day if the history covers two days and the hours differ significantly."""
    if end_ms - start_ms < 2 * _DAY_MS or len(times_ms) < 200:
        return None
    hours = ((times_ms - start_ms) % _DAY_MS // _HOUR_MS).astype(int)
    counts = np.bincount(hours, minlength=24)
    exposure = _exposure(start_ms, end_ms)
    expected = exposure / exposure.sum() * counts.sum()
    if stats.chisquare(counts, expected).pvalue > 1e-6:
        return None
    rates = 1e3 * counts / exposure
    busiest, quietest = float(rates.max()), float(rates.min())
    words = f"{per_s:.4g} per second with a daily profile from {quietest:.3g} to {busiest:.3g} per second"
    return Process(words, {"hourly": [float(f"{rate:.6g}") for rate in rates]}, per_s)


def _exposure(start_ms: float, end_ms: float) -> Floats:
    """Return how much of each hour of the day the history covers, in ms. The first hour starts with the history."""
    whole, rest = divmod(end_ms - start_ms, _DAY_MS)
    observed = whole * _HOUR_MS + np.clip(rest - np.arange(24) * _HOUR_MS, 0.0, _HOUR_MS)
    return np.asarray(np.maximum(observed, 1.0))


def _renewal(times_ms: Floats, per_s: float) -> Process:
    """Fit independent intervals: exponential, or lognormal if their coefficient of variation is significantly above or below 1."""
    few = () if len(times_ms) >= 20 else (f"the rate is estimated from only {format_count(len(times_ms), 'commit')}",)
    gaps = np.diff(times_ms)
    mean = 1e3 / per_s
    if len(gaps) < 20:
        return Process(f"{per_s:.4g} per second", {RATE.key: float(f"{per_s:.6g}")}, per_s, notes=few)
    variation = float(gaps.std() / max(gaps.mean(), 1e-9))
    error = 2.0 / math.sqrt(len(gaps))
    if abs(variation - 1.0) <= max(error, 0.15):
        return Process(f"{per_s:.4g} per second (Poisson)", {RATE.key: float(f"{per_s:.6g}")}, per_s, notes=few)
    sigma = math.sqrt(math.log1p(variation * variation))
    intervals = {"distribution": "lognormal", "mean": float(f"{mean:.6g}"), "sigma": float(f"{sigma:.4g}")}
    vary = f"(coefficient of variation of the intervals: {variation:.2f})"
    if variation > 1.0:
        return Process(f"{per_s:.4g} per second, in bursts {vary}", {INTER_ARRIVAL.key: intervals}, per_s)
    words = f"{per_s:.4g} per second, with less variation than Poisson arrivals {vary}"
    at_random = {"distribution": "exponential", "mean": float(f"{mean:.6g}")}
    return Process(words, {INTER_ARRIVAL.key: at_random}, per_s, even=intervals)


_LEAST = 15
"""Minimum number of commits for recognizing a closed loop."""
_PART = 0.9
"""Fraction of the duration of a commit, up to its snapshot, during which the commit counts as in flight. The client writes the
snapshot shortly before the end of the commit. A smaller fraction would miss overlaps, because one of two overlapping commits is
retried, so that the two commits end at different times."""
_LIKELY = math.log(0.01)
"""Log-likelihood of Poisson arrivals below which the import assumes a closed loop. Above ``_DECIDED``, both are in the range."""
_DECIDED = math.log(1e-4)
_POSSIBLE = math.log(0.05)
_MOST_CLIENTS = 64
_BUSY = 0.5
"""Mean number of commits in flight above which contention makes the times between commits regular."""
_WINDOW = 10
"""Mean number of commits per period in the comparison with Poisson arrivals."""
_EVEN = 0.5
AS_AT_RANDOM = 200
"""Number of closed-loop clients with random think times from which on arrivals are practically Poisson."""


@dataclass(frozen=True)
class Loop:
    """Writers in a closed loop: each thinks for ``think_ms`` on average, commits, and starts again.

    The number of writers is between ``fewest`` and ``most``. ``most`` is None if Poisson arrivals are possible. ``certain`` is True
    if a closed loop is much more likely than Poisson arrivals.
    """

    clients: int
    fewest: int
    most: int | None
    certain: bool
    per_s: float
    """Operations per second, including failed operations."""
    commit_ms: float
    """Mean duration of a commit, from commit reports, in ms."""
    variation: float
    """Standard deviation of the think time divided by its mean."""

    def think_ms(self, clients: int, per_s_factor: float = 1.0) -> float:
        """Return the mean think time with which ``clients`` writers reach a multiple of the observed commit rate, in ms."""
        return max(1e3 * clients / (self.per_s * per_s_factor) - self.commit_ms, 0.0)

    def keys(self, clients: int | None = None, *, per_s_factor: float = 1.0, runtime_ms: float = 0.0) -> dict[str, Any]:
        """Return the value of the configuration key ``closed``.

        Args:
            clients: Number of writers.
            per_s_factor: Multiple of the observed commit rate.
            runtime_ms: Job duration, which is not part of the think time.
        """
        count = clients or self.clients
        think = max(self.think_ms(count, per_s_factor) - runtime_ms, 0.0)
        return {"clients": count, "think_time": _distribution(think, 1.0 if count >= AS_AT_RANDOM else self.variation)}

    def words(self) -> str:
        """Describe the closed loop for users."""
        writers = "one writer in a closed loop" if self.clients == 1 else f"{self.clients} writers in a closed loop"
        return f"{self.per_s:.4g} per second, by {writers} with a think time of {self.think_ms(self.clients) / 1e3:.3g} s"

    def reason(self) -> str:
        """Return the reason why the import assumes a closed loop, with the alternatives."""
        loop = "one writer" if self.clients == 1 else f"{self.clients} writers"
        overlap = f"at most {format_count(self.fewest, 'commit')} of the class at the same time"
        if self.certain and self.commit_ms:
            possible = f"; up to {self.most} writers are possible" if self.most else "; Poisson arrivals are possible"
            bound = "" if self.most == self.clients else possible
            return f"{loop} in a closed loop, because the reports show {overlap}, which is unlikely with Poisson arrivals{bound}"
        if self.commit_ms:
            return f"Poisson arrivals, or {loop} in a closed loop (the reports show {overlap})"
        return (
            "the number of commits per period varies less than with Poisson arrivals: the writers form a closed loop, or the table "
            "is saturated; import with --reports to distinguish the two cases"
        )


def _distribution(mean_ms: float, variation: float) -> dict[str, Any]:
    mean = float(f"{mean_ms:.6g}")
    if mean <= 0.0 or variation < 0.05:
        return {"distribution": "fixed", "value": mean}
    if abs(variation - 1.0) < 0.15:
        return {"distribution": "exponential", "mean": mean}
    sigma = math.sqrt(math.log1p(variation * variation))
    return {"distribution": "lognormal", "mean": mean, "sigma": float(f"{sigma:.4g}")}


def find_loop_by_overlap(times_ms: Floats, durations_ms: Floats, failing: float = 0.0, most_attempts: int = 5) -> Loop | None:
    """Find a closed loop from the end times and durations of commits; return None for too few commits.

    A successful operation makes at most ``most_attempts`` attempts, each of which, except the last, loses the race to another
    commit. With Poisson arrivals, about ``most_attempts`` commits can therefore be in flight at the same time. Only a
    smaller number indicates a closed loop.

    Args:
        times_ms: End times of commits, in ascending order.
        durations_ms: Durations of commits.
        failing: Fraction of operations that fail. These were also in flight, but have no report.
        most_attempts: Maximum number of attempts of an operation.
    """
    span = float(times_ms[-1] - times_ms[0]) if len(times_ms) else 0.0
    if len(times_ms) < _LEAST or span <= 0.0:
        return None
    busy = _PART * float(durations_ms.sum()) / span
    observed = most_at_once(times_ms - _PART * durations_ms, times_ms)
    looks = len(times_ms) / max(busy, 1.0)
    at_random = looks * math.log(max(float(stats.poisson.cdf(observed - 1, busy)), 1e-300))
    certain = at_random < _LIKELY and observed < max(most_attempts, 2)
    even = busy < _BUSY and _evenness(times_ms) is not None
    per_s = 1e3 * len(times_ms) / span / (1.0 - failing)
    clients = observed
    most = _most_clients(observed, busy, looks) if certain and at_random < _DECIDED else None
    if even and not certain:
        clients = max(clients, _by_short_windows(times_ms))
    commit_ms = float(durations_ms.mean())
    if failing > 0.02:  # failed operations exhaust their attempts and take longer
        commit_ms += failing * (float(np.quantile(durations_ms, 0.95)) - commit_ms)
    spread = _think_variation(times_ms, durations_ms, clients, 1e3 * clients / per_s, commit_ms)
    return Loop(clients, observed, most, certain or even, per_s, commit_ms, spread)


def find_loop_by_evenness(times_ms: Floats) -> Loop | None:
    """Find a closed loop from the times of commits alone.

    Return None for too few commits, or if the number of commits per period varies as much as with Poisson arrivals.
    """
    if len(times_ms) < 2 * _LEAST or _evenness(times_ms) is None:
        return None
    per_s = 1e3 * len(times_ms) / float(times_ms[-1] - times_ms[0])
    clients = _by_short_windows(times_ms)
    spread = math.sqrt(_dispersion(times_ms, 4.0 * clients) or 0.0)
    return Loop(clients, 1, None, False, per_s, 0.0, min(spread, 1.0))


def most_at_once(starts_ms: Floats, ends_ms: Floats) -> int:
    """Return the maximum number of simultaneous intervals. An interval does not include its end."""
    moments = np.concatenate([ends_ms, starts_ms])
    steps = np.concatenate([np.full(len(ends_ms), -1), np.full(len(starts_ms), 1)])
    order = np.lexsort((steps, moments))
    return int(np.cumsum(steps[order]).max(initial=0))


def _most_clients(observed: int, busy: float, looks: float) -> int:
    """Return the largest number of writers for which at most ``observed`` commits in flight have a probability of at least 5%."""
    found = observed
    for clients in range(observed + 1, _MOST_CLIENTS + 1):
        share = min(busy / clients, 1.0)
        if looks * math.log(max(float(stats.binom.cdf(observed - 1, clients - 1, share)), 1e-300)) < _POSSIBLE:
            break
        found = clients
    return found


def _dispersion(times_ms: Floats, commits: float) -> float | None:
    """Return the variance of the number of commits per period, divided by its mean; None with fewer than 5 periods."""
    width = commits * float(times_ms[-1] - times_ms[0]) / len(times_ms)
    edges = np.arange(times_ms[0], times_ms[-1] + 1e-6, width) if width > 0.0 else np.zeros(0)
    if len(edges) < 6:
        return None
    counts = np.histogram(times_ms, edges)[0]
    return float(counts.var(ddof=1) / counts.mean())


def _evenness(times_ms: Floats) -> float | None:
    """Return the dispersion over long periods if it is significantly below that of Poisson arrivals, otherwise None."""
    found = _dispersion(times_ms, _WINDOW)
    stretches = len(times_ms) / _WINDOW - 1.0
    if found is None or found > _EVEN or stats.chi2.cdf(stretches * found, stretches) > 1e-4:
        return None
    return found


def _by_short_windows(times_ms: Floats) -> int:
    """Estimate the number of writers. If no writer commits twice per period, the dispersion is 1 - 1 / writers."""
    found = _dispersion(times_ms, 1.0)
    return 1 if found is None else min(max(round(1.0 / max(1.0 - found, 1.0 / _MOST_CLIENTS)), 1), _MOST_CLIENTS)


def _think_variation(times_ms: Floats, durations_ms: Floats, clients: int, cycle_ms: float, commit_ms: float) -> float:
    """Estimate the coefficient of variation of think times.

    The estimate uses the pauses between commits for one writer, and the number of commits per period for several writers.
    """
    think = max(cycle_ms - commit_ms, 0.0)
    if think <= 0.0:
        return 0.0
    if clients == 1:
        waits = np.maximum(np.diff(times_ms) - durations_ms[1:], 0.0)
        return float(waits.std() / max(float(waits.mean()), 1e-9))
    dispersion = _dispersion(times_ms, 4.0 * clients)
    if dispersion is None:
        return 1.0
    variance = max(dispersion * cycle_ms**2 - float(durations_ms.var()), 0.0)
    return min(math.sqrt(variance) / think, 2.0)
