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


def recognise(times_ms: Floats, start_ms: float, end_ms: float) -> Process:
    """Say how commits at these times come, in a history that goes from ``start_ms`` to ``end_ms``; phases count from its start."""
    per_s = 1e3 * len(times_ms) / max(end_ms - start_ms, 1.0)
    periodic = _periodic(times_ms, start_ms, per_s)
    if periodic is not None:
        return periodic
    scheduled = _daily(times_ms, start_ms, end_ms, per_s)
    if scheduled is not None:
        return scheduled
    return _renewal(times_ms, per_s)


def _periodic(times_ms: Floats, start_ms: float, per_s: float) -> Process | None:
    if len(times_ms) < _LEAST_PERIODIC:
        return None
    interval = float(np.median(np.diff(times_ms)))
    if interval <= 0.0:
        return None
    slots = np.zeros(len(times_ms))
    offset = float(times_ms[0])
    for _ in range(4):
        steps = np.maximum(np.round(np.diff(times_ms) / interval), 1.0)
        slots = np.concatenate([[0.0], np.cumsum(steps)])
        line = stats.theilslopes(times_ms, slots) if len(times_ms) <= 400 else stats.linregress(slots, times_ms)
        interval, offset = float(line.slope), float(line.intercept)
        if interval <= 0.0:
            return None
    late = times_ms - (offset + interval * slots)
    spread = float(np.quantile(late, 0.9) - np.quantile(late, 0.1)) / interval
    kept = len(times_ms) / (float(slots[-1]) + 1.0)
    if spread > 0.3 or kept < 0.5:
        return None
    interval = _rounded(interval, len(times_ms), float(late.std()))
    since = np.sort((times_ms - start_ms) % interval)
    earliest = _earliest(since, interval)
    late_ms = float(np.median((times_ms - start_ms - earliest) % interval))
    missed = 1.0 - kept
    words = f"every {interval / 1000.0:g} s, first at {earliest / 1000.0:.3f} s"
    if missed > 0.005:
        words += f", {100 * missed:.1f} % of the slots without a commit"
    phase = round(earliest, 3)
    return Process(
        words, {"periodic": {"interval_ms": float(f"{interval:.9g}"), "phase_ms": phase}}, 1e3 / interval, missed, late_ms
    )


def _rounded(interval: float, count: int, deviation: float) -> float:
    """The round interval next to it, if it lies within the error of the estimate."""
    nearest = min(_ROUND_MS, key=lambda each: abs(math.log(each / interval)))
    error = 4.0 * deviation * math.sqrt(12.0) / count**1.5 + 1.0 / count
    return nearest if abs(nearest - interval) < max(error, 1e-4 * interval) else interval


def _earliest(since: Floats, interval: float) -> float:
    """The first of times on a circle: where the largest gap ends."""
    gaps = np.diff(np.append(since, since[0] + interval))
    return float(since[(int(np.argmax(gaps)) + 1) % len(since)])


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
    keys = {"inter_arrival": {"distribution": "lognormal", "mean": float(f"{mean:.6g}"), "sigma": float(f"{sigma:.4g}")}}
    kind = "in bursts" if variation > 1.0 else "more evenly than at random"
    return Process(f"{per_s:.4g} per second, {kind} (intervals vary by {variation:.2f} of their mean)", keys, per_s)
