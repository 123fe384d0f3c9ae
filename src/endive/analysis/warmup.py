"""How much of a run's beginning to leave out: MSER-5.

What flows in: a series of observations in order of time. What flows out: how many of the first ones to drop, and whether the rest
has settled. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BATCH = 5
_FEWEST_BATCHES = 10
_LEAST_TAIL_BATCHES = 5
THROUGHPUT_BINS = 500
"""Bins of time for the series of commits: a hundred batches of five."""

Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Truncation:
    """Drop this many observations. ``settled`` is false if the best truncation lies in the second half, or the series is short."""

    observations: int
    settled: bool


@dataclass(frozen=True)
class Warmup:
    """How long a run warmed up, in milliseconds. ``settled`` is false if the run was too short to tell."""

    ms: float
    settled: bool


def mser(batch_means: Series) -> Series:
    """For each truncation d the squared standard error of the mean of what is left, sum((x - mean)^2) / (n - d)^2."""
    centred = batch_means - batch_means.mean()
    left = np.arange(len(centred), 0, -1, dtype=np.float64)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    return np.asarray(np.maximum(squares - sums**2 / left, 0.0) / left**2)


def mser5(values: Series) -> Truncation:
    """The truncation of a series by MSER-5: that of the first half of batches of five which makes the error least."""
    batches = len(values) // BATCH
    if batches < _FEWEST_BATCHES:
        return Truncation(0, settled=False)
    errors = mser(values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1))
    best = int(np.argmin(errors[: batches // 2 + 1]))
    anywhere = int(np.argmin(errors[: batches - _LEAST_TAIL_BATCHES + 1]))
    return Truncation(best * BATCH, settled=anywhere <= batches // 2)


def run_warmup(t_submit: Series, t_commit: Series, commit_latency: Series, end_ms: float) -> Warmup:
    """The warm-up of a run from its committed transactions, at most half of the time until ``end_ms``.

    Both of two series have to settle: commit latencies in order of submission, and commits in equal bins of time. The second
    sees what the first does not: that nothing commits until the first transactions have done their work.
    """
    order = np.lexsort((t_commit, t_submit))
    latency = mser5(commit_latency[order])
    by_latency = float(t_submit[order[latency.observations]]) if latency.observations else 0.0
    if len(order) < _FEWEST_BATCHES * BATCH:
        return Warmup(0.0, settled=False)
    counts, _ = np.histogram(t_commit, bins=THROUGHPUT_BINS, range=(0.0, end_ms))
    commits = mser5(counts.astype(np.float64))
    by_commits = commits.observations * end_ms / THROUGHPUT_BINS
    found = max(by_latency, by_commits)
    return Warmup(min(found, end_ms / 2.0), latency.settled and commits.settled and found <= end_ms / 2.0)
