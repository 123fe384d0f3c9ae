"""Measure file batches handed to the committer: their number, and the time from handoff to commit.

Without a committer each transaction counts as one file batch, handed off at its submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats

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
        oldest_ms: Time from handoff to commit of the oldest file batch of each commit of the cohort.
    """

    in_window: int
    committed: int
    time_ms: float
    oldest_ms: Floats


def count_handovers(columns: Sequence[npt.NDArray[np.generic]], in_window: Flags, done: Flags, latency_ms: Floats) -> FileBatches:
    """Count file batches and sum their times.

    Args:
        columns: ``BATCH_COLUMNS`` of the transactions.
        in_window: Flags of the transactions that committed in the window.
        done: Flags of the committed transactions of the cohort.
        latency_ms: Total latency of the committed transactions of the cohort.
    """
    size, (waited, longest) = columns[0], (np.asarray(each, np.float64) for each in columns[1:])
    sizes = size[done].astype(np.int64)
    return FileBatches(
        int(size[in_window].astype(np.int64).sum()),
        int(sizes.sum()),
        float((sizes * latency_ms).sum() + waited[done].sum()),
        latency_ms + longest[done],
    )


def waiting_handovers(columns: Sequence[npt.NDArray[np.generic]], entry_ms: Floats, edges_ms: Floats) -> Floats:
    """Return the mean number of file batches that wait for their commit to start, between consecutive edges.

    The number follows from Little's law: rate of handoffs times the wait of the oldest file batch of each commit. Counting file
    batches directly would miss those that have no commit yet at the end of the run, because results have a row per commit.

    Args:
        columns: ``BATCH_COLUMNS`` of the commits.
        entry_ms: Start of each commit.
        edges_ms: Edges of the time bins.
    """
    longest = np.asarray(columns[2], np.float64)
    if not longest.any():
        return np.zeros(len(edges_ms) - 1)
    commits, handed, waited = (
        np.histogram(entry_ms, bins=edges_ms, weights=weights)[0] for weights in (None, np.asarray(columns[0], np.float64), longest)
    )
    mean = np.divide(waited, commits, out=np.zeros(len(commits)), where=commits > 0)
    return np.asarray(mean * handed / np.diff(edges_ms))


def handover_metrics(parts: Sequence[FileBatches], commits: int, seconds: float) -> dict[str, float | None]:
    """Return the metrics of file batches: rate in the window, mean number per commit, and mean time from handoff to commit."""
    committed = sum(part.committed for part in parts)
    return {
        "handovers_per_s": sum(part.in_window for part in parts) / seconds,
        "handovers_per_commit": committed / commits if commits else None,
        "handover_mean_ms": sum(part.time_ms for part in parts) / committed if committed else None,
    }
