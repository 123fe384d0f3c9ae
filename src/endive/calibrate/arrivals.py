"""Arrival processes recognised from the times of commits: periodic, Poisson, in bursts, with a daily profile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

_HOUR_MS = 3_600_000.0
_DAY_MS = 24 * _HOUR_MS
_LEAST_PERIODIC = 6
_MOST_MISSED = 30.0
"""So many slots of a period may pass for each commit."""
_STEPS = 400
_SMALL_ARC = 0.02
"""The part of an interval within which commits of a job lie that are never held up."""
_SILENT = 5
"""So many empty slots at the end of a history are worth a word."""
_LEAST_PER_S = 1e-8  # once in three years
_OF_SIXTY = (1, 2, 3, 5, 10, 15, 20, 30)
_ROUND_MS = sorted(
    count * unit
    for unit, counts in (
        (1e3, (1, 2, 3, 5, 10, 15, 20, 30)),
        (6e4, (1, 2, 3, 5, 10, 15, 20, 30)),
        (36e5, (1, 2, 3, 4, 6, 8, 12, 24)),
    )
    for count in counts
)
"""Intervals that people choose."""


@dataclass(frozen=True)
class Process:
    """How commits of a class come. ``keys`` go into its section; ``missed`` is the share of a period's slots without a commit."""

    words: str
    keys: dict[str, Any]
    per_s: float
    missed: float = 0.0
    late_ms: float = 0.0
    """Periodic: how much later than its slot the median commit is."""
    notes: tuple[str, ...] = field(default=())
    even: dict[str, Any] | None = None
    """The distribution of intervals, where they vary less than at random."""


def recognise(times_ms: Floats, zero_ms: float, first_ms: float, end_ms: float, durations_ms: Floats | None = None) -> Process:
    """Say how commits at these times come, in a history from ``first_ms`` to ``end_ms``; phases count from ``zero_ms``.

    Where it is known how long each commit took, periods are looked for in the moments at which commits began.
    """
    per_s = max(1e3 * len(times_ms) / max(end_ms - first_ms, 1.0), _LEAST_PER_S)
    periodic = _periodic(times_ms if durations_ms is None else np.sort(times_ms - durations_ms), zero_ms, end_ms)
    if periodic is not None:
        return periodic
    scheduled = _daily(times_ms, zero_ms, end_ms, per_s)
    if scheduled is not None:
        return scheduled
    return _renewal(times_ms, per_s)


def _periodic(times_ms: Floats, zero_ms: float, end_ms: float) -> Process | None:
    """Find an interval on whose slots nearly all commits lie; slots may be empty, and commits later than their slot."""
    if len(times_ms) < _LEAST_PERIODIC:
        return None
    interval = _interval(times_ms)
    if interval is None:
        return None
    since = times_ms - zero_ms
    earliest = _leading_edge(np.sort(since % interval), interval)
    late = (since - earliest) % interval
    late = np.where(late > 0.97 * interval, late - interval, late)  # a little before the edge
    slots = np.unique(np.round((since - earliest - late) / interval))
    last = max(math.floor((end_ms - zero_ms - earliest) / interval - 0.5), int(slots[-1]))  # the slot under way may still commit
    missed = 1.0 - len(slots) / (last - float(slots[0]) + 1.0)
    silent = last - int(slots[-1])
    notes = (f"no commit in its last {silent} slots: it has ended, or fails since then",) if silent >= _SILENT else ()
    words = f"every {interval / 1000.0:g} s, first at {earliest / 1000.0:.3f} s"
    if missed > 0.005:
        words += f", {100 * missed:.1f} % of the slots without a commit"
    keys = {"periodic": {"interval_ms": float(f"{interval:.9g}"), "phase_ms": round(earliest, 3)}}
    return Process(words, keys, 1e3 / interval, missed, float(np.median(late)), notes)


def _interval(times_ms: Floats) -> float | None:
    """The interval at which times, folded, lie closest together, if they lie closer than chance would have them."""
    gaps = np.diff(times_ms)
    mean = float(gaps.mean())
    if mean <= 0.0:
        return None
    steady = float(gaps.std()) < 0.15 * mean
    lengths = {each: _concentration(times_ms, each) for each in _ROUND_MS if mean / _MOST_MISSED <= each <= 1.3 * mean}
    most = max(lengths.values(), default=0.0)
    if most > 0.6:
        found = max(each for each, length in lengths.items() if length >= most - 0.005)  # parts of an interval fold as well
        if steady or _significance(times_ms, found) > math.log(len(lengths)) + 5.0:
            return _whole(times_ms, found, 1.3 * mean)
    own = _searched(times_ms, float(np.median(gaps)))
    significant = _significance(times_ms, own) > math.log(_STEPS) + 7.0
    return own if _concentration(times_ms, own) > 0.8 and (significant or steady) else None


def _significance(times_ms: Floats, interval: float) -> float:
    """How unlikely it is that times at random, folded by an interval, lie as close: minus the logarithm of the probability.

    By Rayleigh's test, or, where all lie within a small arc, by that.
    """
    count = len(times_ms)
    phases = np.sort((times_ms % interval) / interval)
    arc = 1.0 - float(np.diff(phases, append=phases[0] + 1.0).max())
    if arc < _SMALL_ARC:
        return -math.log(count) - (count - 1) * math.log(max(arc, 1e-6))
    return float(count * _concentration(times_ms, interval) ** 2)


def _whole(times_ms: Floats, part: float, longest: float) -> float:
    """The largest multiple of an interval by which times fold as well, and do so not by chance: 45 s rather than its third."""
    length, found = _concentration(times_ms, part), part
    for times in range(2, math.floor(longest / part) + 1):
        if _concentration(times_ms, times * part) >= length - 0.005 and (len(times_ms) - 1) * math.log(times) > 7.0:
            found = times * part
    return found


def _concentration(times_ms: Floats, interval: float) -> float:
    """How close times lie when folded by an interval: 1 all at one point, near 0 at random."""
    return float(abs(np.exp(2j * np.pi * ((times_ms - times_ms[0]) % interval) / interval).mean()))


def _searched(times_ms: Floats, near: float) -> float:
    """The interval near a first guess at which times lie closest; the window narrows as more of the history is taken."""
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
    """Where on the circle the densest cluster begins: commits that were not held up."""
    window = 0.1 * interval
    twice = np.concatenate([phases, phases + interval])
    counts = np.searchsorted(twice, phases + window, side="right") - np.arange(len(phases))
    return float(phases[int(np.argmax(counts))])


def _daily(times_ms: Floats, start_ms: float, end_ms: float, per_s: float) -> Process | None:
    """A rate for each hour of the day, where there are two days and hours differ more than chance."""
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
    words = f"{per_s:.4g} per second with a daily profile, from {quietest:.3g} to {busiest:.3g}"
    return Process(words, {"hourly": [float(f"{rate:.6g}") for rate in rates]}, per_s)


def _exposure(start_ms: float, end_ms: float) -> Floats:
    """How long each hour after the start was seen."""
    exposure = np.zeros(24)
    whole, rest = divmod(end_ms - start_ms, _DAY_MS)
    exposure += whole * _HOUR_MS
    for hour in range(24):
        exposure[hour] += min(max(rest - hour * _HOUR_MS, 0.0), _HOUR_MS)
    return np.maximum(exposure, 1.0)


def _renewal(times_ms: Floats, per_s: float) -> Process:
    """Independent intervals: exponential, or lognormal where they vary more (bursts) or less than that."""
    few = () if len(times_ms) >= 20 else (f"only {len(times_ms)} commits tell its rate",)
    gaps = np.array([b - a for a, b in pairwise(times_ms)])
    mean = 1e3 / per_s
    if len(gaps) < 20:
        return Process(f"{per_s:.4g} per second", {"rate": float(f"{per_s:.6g}")}, per_s, notes=few)
    variation = float(gaps.std() / max(gaps.mean(), 1e-9))
    error = 2.0 / math.sqrt(len(gaps))
    if abs(variation - 1.0) <= max(error, 0.15):
        return Process(f"{per_s:.4g} per second, at random", {"rate": float(f"{per_s:.6g}")}, per_s, notes=few)
    sigma = math.sqrt(math.log1p(variation * variation))
    intervals = {"distribution": "lognormal", "mean": float(f"{mean:.6g}"), "sigma": float(f"{sigma:.4g}")}
    vary = f"(intervals vary by {variation:.2f} of their mean)"
    if variation > 1.0:
        return Process(f"{per_s:.4g} per second, in bursts {vary}", {"inter_arrival": intervals}, per_s)
    words = f"{per_s:.4g} per second, more evenly than at random {vary}"
    at_random = {"distribution": "exponential", "mean": float(f"{mean:.6g}")}
    return Process(words, {"inter_arrival": at_random}, per_s, even=intervals)
