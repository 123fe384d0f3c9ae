"""Writers that wait for their own commits, told from operations that come whatever the earlier ones do.

Both leave the same number of snapshots; they differ in what is never seen. So many writers have at most so many commits under way
at once, however long the history; of operations that come at random, more are under way now and then. Where commit reports say how
long commits took, this decides (``by_overlap``). Without them there is one more sign (``by_evenness``): over stretches of many
commits, numbers of commits vary less than those of random arrivals do. A table near its limit evens out commits as well, so that
this alone is an assumption, with random arrivals at the other end of its range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from endive.analysis import Floats

_LEAST = 15
"""Fewer commits tell nothing of how writers wait."""
_PART = 0.9
"""The part of a commit that counts as under way, before its snapshot's time, which lies a little before the end of the commit. A
smaller part would count too little: of commits that meet one is tried again, so that their ends are apart."""
_LIKELY = math.log(0.01)
"""Log-likelihood of random arrivals below which writers that wait are assumed; down to the next, both are in the range."""
_DECIDED = math.log(1e-4)
_POSSIBLE = math.log(0.05)
_MOST_CLIENTS = 64
_BUSY = 0.5
"""From so many commits under way on average on, a table evens out commits by itself."""
_WINDOW = 10
"""Commits in a stretch over which numbers are compared, on average."""
_EVEN = 0.5
AS_AT_RANDOM = 200
"""So many clients that think at random arrive as good as at random."""


@dataclass(frozen=True)
class Loop:
    """Writers in a closed loop: each thinks for ``think_ms`` on average, commits, and begins again.

    ``fewest`` and ``most`` bound their number; ``most`` is None where random arrivals are not out of the question. ``certain`` says
    whether these writers are far likelier.
    """

    clients: int
    fewest: int
    most: int | None
    certain: bool
    per_s: float
    """Operations per second, those that failed included."""
    commit_ms: float
    """How long a commit takes on average, as far as reports tell."""
    variation: float
    """Standard deviation of a writer's think time, as a part of its mean."""

    def think_ms(self, clients: int, per_s_factor: float = 1.0) -> float:
        """What is left of a writer's cycle beside its commit, if there are so many writers, at so many times the rate."""
        return max(1e3 * clients / (self.per_s * per_s_factor) - self.commit_ms, 0.0)

    def keys(self, clients: int | None = None, *, per_s_factor: float = 1.0, runtime_ms: float = 0.0) -> dict[str, Any]:
        """The key ``closed`` for so many writers, at so many times the rate, of whose time ``runtime_ms`` is work."""
        count = clients or self.clients
        think = max(self.think_ms(count, per_s_factor) - runtime_ms, 0.0)
        return {"clients": count, "think_time": _distribution(think, 1.0 if count >= AS_AT_RANDOM else self.variation)}

    def words(self) -> str:
        """The loop in a few words."""
        writers = "one writer that waits for its commits" if self.clients == 1 else f"{self.clients} writers that wait for theirs"
        return f"{self.per_s:.4g} per second, by {writers} and {self.think_ms(self.clients) / 1e3:.3g} s more"

    def reason(self) -> str:
        """Why they are taken for writers that wait, and how sure that is."""
        most = f"never more than {self.fewest} of its commits {'was' if self.fewest == 1 else 'were'} under way at once"
        waiting = "one writer that waits for its" if self.clients == 1 else f"{self.clients} writers that wait for their"
        if self.certain and self.commit_ms:
            others = f" (or up to {self.most})" if self.most else "; random arrivals may be, too"
            bound = "" if self.most == self.clients else others
            return f"{most}, which random arrivals would hardly keep to: {waiting} commits{bound}"
        if self.commit_ms:
            return f"random arrivals, or {waiting} commits ({most})"
        text = "commits come more evenly over long stretches than at random: writers that wait for their commits, or a table at its"
        return f"{text} limit, which evens out random arrivals; reports would tell"


def _distribution(mean_ms: float, variation: float) -> dict[str, Any]:
    mean = float(f"{mean_ms:.6g}")
    if mean <= 0.0 or variation < 0.05:
        return {"distribution": "fixed", "value": mean}
    if abs(variation - 1.0) < 0.15:
        return {"distribution": "exponential", "mean": mean}
    sigma = math.sqrt(math.log1p(variation * variation))
    return {"distribution": "lognormal", "mean": mean, "sigma": float(f"{sigma:.4g}")}


def by_overlap(times_ms: Floats, durations_ms: Floats, failing: float = 0.0, most_attempts: int = 5) -> Loop | None:
    """Find closed writers from when commits ended and how long they took; None where there are too few commits to tell.

    ``failing`` is the share of operations that failed, which were under way too and have no report. An operation has at most
    ``most_attempts``, and of those that succeed one wins each time: no more than about so many are under way at once whatever
    their arrivals are, so that only a smaller number tells of writers.
    """
    span = float(times_ms[-1] - times_ms[0]) if len(times_ms) else 0.0
    if len(times_ms) < _LEAST or span <= 0.0:
        return None
    busy = _PART * float(durations_ms.sum()) / span
    seen = most_at_once(times_ms - _PART * durations_ms, times_ms)
    looks = len(times_ms) / max(busy, 1.0)
    at_random = looks * math.log(max(float(stats.poisson.cdf(seen - 1, busy)), 1e-300))
    certain = at_random < _LIKELY and seen < max(most_attempts, 2)
    even = busy < _BUSY and _evenness(times_ms) is not None
    per_s = 1e3 * len(times_ms) / span / (1.0 - failing)
    clients = seen
    most = _most_clients(seen, busy, looks) if certain and at_random < _DECIDED else None
    if even and not certain:
        clients = max(clients, _by_short_windows(times_ms))
    commit_ms = float(durations_ms.mean())
    if failing > 0.02:  # those that failed took all attempts
        commit_ms += failing * (float(np.quantile(durations_ms, 0.95)) - commit_ms)
    spread = _think_variation(times_ms, durations_ms, clients, 1e3 * clients / per_s, commit_ms)
    return Loop(clients, seen, most, certain or even, per_s, commit_ms, spread)


def by_evenness(times_ms: Floats) -> Loop | None:
    """Find closed writers from the times of commits alone; None where numbers of commits vary as at random."""
    if len(times_ms) < 2 * _LEAST or _evenness(times_ms) is None:
        return None
    per_s = 1e3 * len(times_ms) / float(times_ms[-1] - times_ms[0])
    clients = _by_short_windows(times_ms)
    spread = math.sqrt(_dispersion(times_ms, 4.0 * clients) or 0.0)
    return Loop(clients, 1, None, False, per_s, 0.0, min(spread, 1.0))


def most_at_once(starts_ms: Floats, ends_ms: Floats) -> int:
    """How many of these intervals overlap at most; those that touch do not."""
    moments = np.concatenate([ends_ms, starts_ms])
    steps = np.concatenate([np.full(len(ends_ms), -1), np.full(len(starts_ms), 1)])
    order = np.lexsort((steps, moments))
    return int(np.cumsum(steps[order]).max(initial=0))


def _most_clients(seen: int, busy: float, looks: float) -> int:
    """The most clients of which no more than ``seen`` would be under way at once, in so many looks, once in twenty times."""
    found = seen
    for clients in range(seen + 1, _MOST_CLIENTS + 1):
        share = min(busy / clients, 1.0)
        if looks * math.log(max(float(stats.binom.cdf(seen - 1, clients - 1, share)), 1e-300)) < _POSSIBLE:
            break
        found = clients
    return found


def _dispersion(times_ms: Floats, commits: float) -> float | None:
    """Variance over mean of the number of commits in stretches with so many on average; None with fewer than 5 stretches."""
    width = commits * float(times_ms[-1] - times_ms[0]) / len(times_ms)
    edges = np.arange(times_ms[0], times_ms[-1] + 1e-6, width) if width > 0.0 else np.zeros(0)
    if len(edges) < 6:
        return None
    counts = np.histogram(times_ms, edges)[0]
    return float(counts.var(ddof=1) / counts.mean())


def _evenness(times_ms: Floats) -> float | None:
    """The dispersion over long stretches, where it is far below that of random arrivals."""
    found = _dispersion(times_ms, _WINDOW)
    stretches = len(times_ms) / _WINDOW - 1.0
    if found is None or found > _EVEN or stats.chi2.cdf(stretches * found, stretches) > 1e-4:
        return None
    return found


def _by_short_windows(times_ms: Floats) -> int:
    """How many writers there are, if none commits twice within a mean interval: dispersion there is 1 - 1 / writers."""
    found = _dispersion(times_ms, 1.0)
    return 1 if found is None else min(max(round(1.0 / max(1.0 - found, 1.0 / _MOST_CLIENTS)), 1), _MOST_CLIENTS)


def _think_variation(times_ms: Floats, durations_ms: Floats, clients: int, cycle_ms: float, commit_ms: float) -> float:
    """How much think times vary: of one writer they are seen; of several, numbers over long stretches tell it of their cycles."""
    think = max(cycle_ms - commit_ms, 0.0)
    if think <= 0.0:
        return 0.0
    if clients == 1:
        waits = np.maximum(np.diff(times_ms) - durations_ms[1:], 0.0)
        return float(waits.std() / max(float(waits.mean()), 1e-9))
    dispersion = _dispersion(times_ms, 4.0 * clients)
    if dispersion is None:
        return 1.0
    variance = max(dispersion * cycle_ms**2 - float(durations_ms.var()), 0.0)
    return min(math.sqrt(variance) / think, 2.0)
