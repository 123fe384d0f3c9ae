"""MSER-5: how many of the first observations of a series to leave out.

White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from endive.analysis.arrays import Floats

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
