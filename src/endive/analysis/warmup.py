"""MSER-5: how many of the first observations of a series to leave out.

White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BATCH = 5
_FEWEST_BATCHES = 10
_LEAST_TAIL_BATCHES = 5

Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Truncation:
    """Drop this many observations.

    ``anywhere`` is the best truncation of all; ``settled`` is false if it lies in the second half, or the series is short.
    """

    observations: int
    anywhere: int
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
        return Truncation(0, 0, settled=False)
    errors = mser(values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1))
    best = int(np.argmin(errors[: batches // 2 + 1]))
    anywhere = int(np.argmin(errors[: batches - _LEAST_TAIL_BATCHES + 1]))
    return Truncation(best * BATCH, anywhere * BATCH, settled=anywhere <= batches // 2)
