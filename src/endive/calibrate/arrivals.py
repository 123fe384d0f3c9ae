"""Arrival processes recognised from the times of commits: periodic, Poisson, in bursts, with a daily profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from endive.analysis import Floats
from endive.workload.arrivals import INTER_ARRIVAL, PERIODIC_JOB, RATE

_HOUR_MS = 3_600_000.0
_DAY_MS = 24 * _HOUR_MS
_LEAST_PERIODIC = 6
_MOST_MISSED = 30.0
"""So many slots of a period may pass for each commit."""
_STEPS = 400
_DRIFT = 1e-4
_ENOUGH = 1_000
"""So many commits tell an interval."""
_MOST_TIMES = 1_000
"""Nobody chooses more than so many times a round interval; and a gap of decades has no end of them."""
_TWICE = 0.02
"""How likely a slot has a second commit: one that began in the slot before and was held up."""
_TOGETHER, _STEADY = 0.8, 0.15
"""How close commits lie in their slots, and how little gaps vary, where there is nothing to tell an interval from alike gaps."""
_CLEARLY, _MUCH = 7.0, 20.0
"""The logarithms of how many times likelier an interval has to make what was seen: than chance, and than a round interval."""
_IN_WINDOW = 0.75
"""The part of a job's commits that are taken not to be held up."""
_SILENT = 5
"""So many empty slots at the end of a history are worth a word."""
_LEAST_PER_S = 1e-8  # once in three years
_OF_SIXTY = (1, 2, 3, 5, 10, 15, 20, 30)
_ROUND_MS = sorted(
    count * unit for unit, counts in ((1e3, _OF_SIXTY), (6e4, _OF_SIXTY), (36e5, (1, 2, 3, 4, 6, 8, 12, 24))) for count in counts
)
"""Intervals that people choose."""


@dataclass(frozen=True)
class Process:
    """How commits of a class come. ``keys`` go into its section; ``missed`` is the share of a period's slots without a commit."""

    words: str
    keys: dict[str, Any]
    per_s: float
    missed: float = 0.0
    notes: tuple[str, ...] = ()
    even: dict[str, Any] | None = None
    """The distribution of intervals, where they vary less than at random."""


def recognise(times_ms: Floats, zero_ms: float, first_ms: float, end_ms: float, durations_ms: Floats | None = None) -> Process:
    """Say how commits at these times come, in a history from ``first_ms`` to ``end_ms``; phases count from ``zero_ms``.

    Where it is known how long each commit took, periods are looked for in the moments at which commits began.
    """
    per_s = max(1e3 * len(times_ms) / max(end_ms - first_ms, 1.0), _LEAST_PER_S)
    periodic = _periodic(times_ms if durations_ms is None else np.sort(times_ms - durations_ms), zero_ms, end_ms)
    return periodic or _daily(times_ms, zero_ms, end_ms, per_s) or _renewal(times_ms, per_s)


def _periodic(times_ms: Floats, zero_ms: float, end_ms: float) -> Process | None:
    """Find an interval on whose slots nearly all commits lie; slots may be empty, and commits later than their slot."""
    interval = _interval(times_ms) if len(times_ms) >= _LEAST_PERIODIC else None
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
    keys = {PERIODIC_JOB.key: {"interval_ms": float(f"{interval:.9g}"), "phase_ms": round(earliest, 3)}}
    return Process(words, keys, 1e3 / interval, missed, notes)


def _interval(times_ms: Floats) -> float | None:
    """The interval that explains times best, if it does so better than commits at random: one that people choose, or any other.

    Of many that are tried one fits by chance, so that each has to fit the better the more there are; a multiple of a round interval
    has to fit better than a round one, and any other interval much better than those.
    """
    gaps = np.diff(times_ms)
    mean = float(gaps.mean())
    if mean <= 0.0:
        return None
    own = _searched(times_ms, float(np.median(gaps)))
    times_ms = times_ms[-_ENOUGH:]
    tried = _multiples(mean / _MOST_MISSED, 1.3 * mean)
    likelihoods = {each: _likelihood(times_ms, each) - math.log(len(_ROUND_MS) * times) for each, times in tried.items()}
    nicest = max(likelihoods, key=likelihoods.__getitem__, default=own)
    likelihoods.setdefault(own, _likelihood(times_ms, own) - math.log(_STEPS))
    own = nicest if abs(own / nicest - 1.0) < _DRIFT else own  # a table that grows makes each commit a little later
    clear = [each for each in (nicest, own) if _is_clear(likelihoods, each, times_ms)]
    return own if own in clear and likelihoods[own] > likelihoods[nicest] + _MUCH else next(iter(clear), None)


def _is_clear(likelihoods: Mapping[float, float], interval: float, times_ms: Floats) -> bool:
    gaps = np.diff(times_ms)
    steady = _concentration(times_ms, interval) > _TOGETHER and float(gaps.std()) < _STEADY * float(gaps.mean())
    return likelihoods[interval] - _likelihood_otherwise(gaps, steady) > _CLEARLY


def _multiples(shortest: float, longest: float) -> dict[float, int]:
    """Round intervals and their multiples within bounds; for each the smallest number of times that it is one of them."""
    found: dict[float, int] = {}
    for each in reversed(_ROUND_MS):
        for times in range(max(1, math.ceil(shortest / each)), min(math.floor(longest / each), _MOST_TIMES) + 1):
            found[times * each] = min(times, found.get(times * each, times))
    return found


def _likelihood(times_ms: Floats, interval: float) -> float:
    """The logarithm of how likely times are if slots of an interval are filled or empty by chance.

    Three of four commits lie in the narrowest window of their slot that holds so many, the others anywhere in it; a second commit
    in a slot is rare.
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
    """The same for commits that come at random, or in gaps as alike as these: what follows its last commit after some time.

    Gaps that hardly vary, of commits that keep to their slots, are those of an interval.
    """
    at_random = -len(gaps_ms) * (1.0 + math.log(max(float(gaps_ms.mean()), 1.0)))
    logarithms = np.log(np.maximum(gaps_ms, 1.0))
    spread = max(float(logarithms.std()), 1e-3)
    alike = -float(logarithms.sum()) - len(gaps_ms) * (0.5 * math.log(2.0 * math.pi) + math.log(spread) + 0.5)
    return at_random if steady else max(at_random, alike)


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
    whole, rest = divmod(end_ms - start_ms, _DAY_MS)
    seen = whole * _HOUR_MS + np.clip(rest - np.arange(24) * _HOUR_MS, 0.0, _HOUR_MS)
    return np.asarray(np.maximum(seen, 1.0))


def _renewal(times_ms: Floats, per_s: float) -> Process:
    """Independent intervals: exponential, or lognormal where they vary more (bursts) or less than that."""
    few = () if len(times_ms) >= 20 else (f"only {len(times_ms)} commits tell its rate",)
    gaps = np.diff(times_ms)
    mean = 1e3 / per_s
    if len(gaps) < 20:
        return Process(f"{per_s:.4g} per second", {RATE.key: float(f"{per_s:.6g}")}, per_s, notes=few)
    variation = float(gaps.std() / max(gaps.mean(), 1e-9))
    error = 2.0 / math.sqrt(len(gaps))
    if abs(variation - 1.0) <= max(error, 0.15):
        return Process(f"{per_s:.4g} per second, at random", {RATE.key: float(f"{per_s:.6g}")}, per_s, notes=few)
    sigma = math.sqrt(math.log1p(variation * variation))
    intervals = {"distribution": "lognormal", "mean": float(f"{mean:.6g}"), "sigma": float(f"{sigma:.4g}")}
    vary = f"(intervals vary by {variation:.2f} of their mean)"
    if variation > 1.0:
        return Process(f"{per_s:.4g} per second, in bursts {vary}", {INTER_ARRIVAL.key: intervals}, per_s)
    words = f"{per_s:.4g} per second, more evenly than at random {vary}"
    at_random = {"distribution": "exponential", "mean": float(f"{mean:.6g}")}
    return Process(words, {INTER_ARRIVAL.key: at_random}, per_s, even=intervals)
