"""Measure file batches handed to the committer: their number, and the time from handoff to commit.

Without a committer each transaction counts as one file batch, handed off at its submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from endive.analysis import Floats

BATCH_COLUMNS = ("batch_size", "batch_wait_ms", "batch_longest_wait_ms")
OLDEST = "oldest_handover"
"""Name of the metric of the oldest file batch of each commit: time from handoff to commit."""
HANDOVERS = ("handovers_per_s", "handovers_per_commit", "handover_mean_ms")


@dataclass(frozen=True)
class FileBatches:
    """File batches of some transactions.

    Attributes:
        in_window: Number of file batches of the commits in the window.
        committed: Number of file batches of the commits of the cohort.
        time_ms: Sum of the times from handoff to commit of the file batches of the cohort.
    """

    in_window: int
    committed: int
    time_ms: float


def waiting_of_counts(commits: Floats, handed: Floats, longest_ms: Floats, widths_ms: Floats) -> Floats:
    """Return the mean number of waiting file batches from the commits, their file batches and the sum of their longest waits."""
    mean = np.divide(longest_ms, commits, out=np.zeros(commits.shape), where=commits > 0)
    return np.asarray(mean * handed / widths_ms)


def handover_metrics(parts: Sequence[FileBatches], commits: int, seconds: float) -> dict[str, float | None]:
    """Return the metrics of file batches: rate in the window, mean number per commit, and mean time from handoff to commit."""
    committed = sum(part.committed for part in parts)
    return {
        "handovers_per_s": sum(part.in_window for part in parts) / seconds,
        "handovers_per_commit": committed / commits if commits else None,
        "handover_mean_ms": sum(part.time_ms for part in parts) / committed if committed else None,
    }
