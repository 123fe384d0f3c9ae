"""What the attempts of commits that succeeded tell of those that did not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_FAILED = 0.97
"""No more than this share is ever taken to have failed."""


_PROBABILITIES = (np.arange(2_000) + 0.5) / 2_000


def failing_share(attempts: Sequence[int], most: int) -> float:
    """Return the share of operations that used up their attempts, if each attempt is lost with the same probability.

    Only successes are reported: their attempts are geometric, cut off at ``most``. Every probability of losing an attempt is taken
    for as likely before the reports are seen, and the share is the mean over what they leave: a dozen reports with many attempts do
    not say that nearly all fail.
    """
    if not attempts:
        return 0.0
    lost = _PROBABILITIES
    won_at_all = (1.0 - lost**most) / (1.0 - lost)
    likelihood = (sum(attempts) - len(attempts)) * np.log(lost) - len(attempts) * np.log(won_at_all)
    weights = np.exp(likelihood - likelihood.max())
    return min(float((weights * lost**most).sum() / weights.sum()), MOST_FAILED)
