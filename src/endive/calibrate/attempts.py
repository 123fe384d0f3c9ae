"""What the attempts of commits that succeeded tell of those that did not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_FAILED = 0.97
"""No more than this share is ever taken to have failed."""


def failing_share(attempts: Sequence[int], most: int) -> float:
    """The share of operations that used up their attempts, if each attempt is lost with the same probability.

    Only successes are reported: their attempts are geometric, cut off at ``most``, and the probability follows from their mean.
    """
    if not attempts:
        return 0.0
    mean = float(np.mean(attempts))
    counts = np.arange(1, most + 1)

    def cut_mean(lost: float) -> float:
        weights = lost ** (counts - 1.0)
        return float((weights * counts).sum() / weights.sum())

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cut_mean(middle) < mean else (low, middle)
    return min(low**most, MOST_FAILED)
