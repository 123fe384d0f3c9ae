"""Hand-overs of commits: how many there are, and how long they take from hand-over to commit.

Where a class has no committer, a transaction is its own hand-over, made when it was submitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from endive.analysis import Flags, Floats

BATCH_COLUMNS = ("batch_size", "batch_wait_ms", "batch_longest_wait_ms")
OLDEST = "oldest_handover"
"""Of the first hand-over of each commit: from its hand-over to the commit."""
HANDOVERS = ("handovers_per_s", "handovers_per_commit", "handover_mean_ms")


@dataclass(frozen=True)
class HandOvers:
    """Hand-overs of some transactions; ``oldest_ms`` has a value for each that committed."""

    in_window: int
    """Of commits in the window."""
    committed: int
    """Of commits of the cohort."""
    time_ms: float
    """The sum of their times from hand-over to commit."""
    oldest_ms: Floats


def count_handovers(columns: Sequence[npt.NDArray[np.generic]], in_window: Flags, done: Flags, latency_ms: Floats) -> HandOvers:
    """Count hand-overs, from ``BATCH_COLUMNS`` of transactions, and whether each committed in the window.

    Those that are ``done`` are of the cohort and committed; ``latency_ms`` is theirs, from the begin of the commit to its end.
    """
    size, (waited, longest) = columns[0], (np.asarray(each, np.float64) for each in columns[1:])
    sizes = size[done].astype(np.int64)
    return HandOvers(
        int(size[in_window].astype(np.int64).sum()),
        int(sizes.sum()),
        float((sizes * latency_ms).sum() + waited[done].sum()),
        latency_ms + longest[done],
    )


def waiting_handovers(columns: Sequence[npt.NDArray[np.generic]], entry_ms: Floats, edges_ms: Floats) -> Floats:
    """Return the mean number of file batches that wait for their commit to start, between consecutive edges.

    By Little's law, from the rate of hand-overs and the time for which the first of each commit waited: rows of commits say nothing
    of what was handed over and never committed, and so less and less of those who wait towards the end of a run. ``columns`` are
    ``BATCH_COLUMNS`` of the commits, ``entry_ms`` when each began.
    """
    longest = np.asarray(columns[2], np.float64)
    if not longest.any():
        return np.zeros(len(edges_ms) - 1)
    commits, handed, waited = (
        np.histogram(entry_ms, bins=edges_ms, weights=weights)[0] for weights in (None, np.asarray(columns[0], np.float64), longest)
    )
    mean = np.divide(waited, commits, out=np.zeros(len(commits)), where=commits > 0)
    return np.asarray(mean * handed / np.diff(edges_ms))


def handover_metrics(parts: Sequence[HandOvers], commits: int, seconds: float) -> dict[str, float | None]:
    """Put hand-overs together: a rate in the window, a mean number for each commit, and their mean time."""
    committed = sum(part.committed for part in parts)
    return {
        "handovers_per_s": sum(part.in_window for part in parts) / seconds,
        "handovers_per_commit": committed / commits if commits else None,
        "handover_mean_ms": sum(part.time_ms for part in parts) / committed if committed else None,
    }
