"""Predict optimistic retries without simulating them: the renewal approximation.

A commit invalidates every attempt that read before it, so only attempts that read afterwards can make the next commit. Let attempts
of kind i read as a Poisson process with rate ``v_i``, with a window of distribution ``F_i`` from read to swap. The number of
attempts that have swapped after a time t is Poisson with mean ``sum v_i * integral of F_i over [0, t]``, and the time T to the next
commit has

    P(T > t) = exp(-sum_i v_i * integral from 0 to t of F_i)
    throughput = 1 / E[T]
    fraction of attempts of kind i that succeed = integral of F_i P(T > t) dt / E[T]

The rates of attempts are a fixed point, which depends on the load, the success probability of attempts and the limit of attempts.
Inputs are samples of windows in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from endive.analysis import Floats

_HORIZON = 40.0
"""The time axis ends where P(T > t) = exp(-40)."""
_POINTS = 6_000
"""Points of the time axis, evenly spaced on a logarithmic scale: windows that include the job may be a million times longer."""
_ROUNDS = 30


@dataclass(frozen=True)
class Attempts:
    """Windows from the read that an attempt is based on to the linearization point of its swap, in milliseconds.

    Attributes:
        first_ms: Windows of first attempts.
        retry_ms: Windows of retries.
        unmoved_ms: Windows of first attempts without a concurrent commit during the job, if first attempts refresh the table before
            they swap.
        work_ms: Job durations, if first attempts refresh the table before they swap.
    """

    first_ms: Floats
    retry_ms: Floats
    unmoved_ms: Floats | None = None
    work_ms: Floats | None = None


@dataclass(frozen=True)
class Prediction:
    """Prediction for one commit pointer at a load; ``success`` is the fraction of transactions that commit."""

    throughput_per_s: float
    success: float
    attempts_per_transaction: float


class _Windows:
    """Empirical distribution of windows, and its integral."""

    def __init__(self, windows_ms: Floats) -> None:
        self._sorted = np.sort(np.asarray(windows_ms, np.float64)) / 1000.0
        self._sums = np.concatenate(([0.0], np.cumsum(self._sorted)))
        self.shortest_s = float(self._sorted[0])

    def share(self, t_s: Floats) -> Floats:
        """Return F(t)."""
        return np.asarray(np.searchsorted(self._sorted, t_s, side="right") / len(self._sorted))

    def integral(self, t_s: Floats) -> Floats:
        """Return the integral of F from 0 to t, which is the mean of max(t - window, 0)."""
        below = np.searchsorted(self._sorted, t_s, side="right")
        return np.asarray((below * t_s - self._sums[below]) / len(self._sorted))


@dataclass(frozen=True)
class _Renewal:
    """Distribution of the time between commits, and the fraction of attempts of each kind that succeed."""

    times_s: Floats
    survival: Floats
    mean_s: float
    success: tuple[float, ...]

    def unmoved(self, work_s: Floats) -> float:
        """Return the fraction of jobs without a concurrent commit, by the equilibrium distribution of the time to a commit."""
        steps = np.diff(self.times_s) * (self.survival[1:] + self.survival[:-1]) / 2.0
        beyond = np.concatenate((np.cumsum(steps[::-1])[::-1], [0.0])) / self.mean_s
        return float(np.interp(work_s, self.times_s, np.minimum(beyond, 1.0)).mean())


def _renewal(kinds: tuple[_Windows, ...], rates_per_s: tuple[float, ...]) -> _Renewal:
    def hazard(t_s: Floats) -> Floats:
        return sum((rate * kind.integral(t_s) for kind, rate in zip(kinds, rates_per_s, strict=True)), np.zeros_like(t_s))

    near = max(min(kind.shortest_s for kind in kinds), 1e-6) / 4.0
    far = 8.0 * near
    while hazard(np.array([far]))[0] < _HORIZON:
        far *= 2.0
    times = np.concatenate(([0.0], np.geomspace(near, far, _POINTS)))
    survival = np.exp(-hazard(times))
    mean = float(np.trapezoid(survival, times))
    success = tuple(float(np.trapezoid(kind.share(times) * survival, times)) / mean for kind in kinds)
    return _Renewal(times, survival, mean, success)


def predict_commits(rate_per_s: float, attempts: Attempts, max_retries: int) -> Prediction:
    """Predict the commits of one pointer under Poisson arrivals.

    Args:
        rate_per_s: Arrival rate of transactions.
        attempts: Windows of attempts.
        max_retries: Maximum number of retries per transaction.

    Raises:
        ValueError: If the rate is not positive, or there are no windows.
    """
    if not rate_per_s > 0.0:
        raise ValueError(f"the rate is {rate_per_s}, but must be greater than 0")
    unmoved = attempts.first_ms if attempts.unmoved_ms is None else attempts.unmoved_ms
    if not (len(attempts.first_ms) and len(attempts.retry_ms) and len(unmoved)):
        raise ValueError("there are no windows to predict from")
    kinds = (_Windows(unmoved), _Windows(attempts.first_ms), _Windows(attempts.retry_ms))
    work_s = None if attempts.work_ms is None else np.asarray(attempts.work_ms, np.float64) / 1000.0

    def at(retries_per_s: float) -> tuple[_Renewal, float]:
        """Return the renewal process at a rate of retries, and the fraction of first attempts that fail."""
        share = 0.0
        found = _renewal(kinds, (0.0, rate_per_s, retries_per_s))
        for _ in range(_ROUNDS if work_s is not None else 0):
            before, share = share, found.unmoved(work_s)  # type: ignore[arg-type]
            found = _renewal(kinds, (share * rate_per_s, (1.0 - share) * rate_per_s, retries_per_s))
            if abs(share - before) < 1e-6:
                break
        return found, 1.0 - share * found.success[0] - (1.0 - share) * found.success[1]

    def missing(retries_per_s: float) -> float:
        found, lost = at(retries_per_s)
        return rate_per_s * lost * _mean_attempts(found.success[2], max_retries) - retries_per_s

    most = rate_per_s * max_retries
    retries = 0.0
    if max_retries > 0 and missing(0.0) > 0.0:
        retries = most if missing(most) >= 0.0 else float(brentq(missing, 0.0, most, xtol=1e-9 * most, rtol=1e-9))
    found, lost = at(retries)
    throughput = min(1.0 / found.mean_s, rate_per_s)
    success = 1.0 - lost * (1.0 - found.success[2]) ** max_retries
    return Prediction(throughput, success, 1.0 + retries / rate_per_s)


def _mean_attempts(success: float, limit: int) -> float:
    """Return the mean number of attempts up to the first success, at most ``limit``, from the probability of success."""
    return float(limit) if success < 1e-12 else (1.0 - (1.0 - success) ** limit) / success
