"""What a run is likely to cost, before it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.workload import ClosedArrivals, OpenArrivals, PeriodicArrivals

_QUANTILES = 100
_CPU_SECONDS_PER_RUN = 0.05
_CPU_SECONDS_PER_TRANSACTION = 1.05e-5
"""8,050 one-hour runs, 274 million transactions of many configurations, took 2,880 s of CPU with all that is written."""
_BYTES_PER_TRANSACTION = 110.0


@dataclass(frozen=True)
class Effort:
    """What a run, or several, will take."""

    transactions: float = 0.0
    cpu_seconds: float = 0.0
    disk_bytes: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(
            self.transactions + other.transactions, self.cpu_seconds + other.cpu_seconds, self.disk_bytes + other.disk_bytes
        )

    def times(self, runs: int) -> Effort:
        """Return the effort of so many runs like this one."""
        return Effort(self.transactions * runs, self.cpu_seconds * runs, self.disk_bytes * runs)


def estimate_effort(document: Document) -> Effort:
    """Estimate what one run of a configuration takes, from its arrivals. Nothing is run for it.

    This is the one place where estimates come in: who plans, guards or deals runs to tasks asks here.
    """
    transactions = expected_transactions(document)
    seconds = _CPU_SECONDS_PER_RUN + transactions * _CPU_SECONDS_PER_TRANSACTION
    return Effort(transactions, seconds, transactions * _BYTES_PER_TRANSACTION)


def expected_transactions(document: Document) -> float:
    """Return how many transactions a run is likely to have."""
    config = build_simulation_config(document, seed_override=0)
    total = 0.0
    for cls in config.workload.config.workload_classes:
        arrivals = cls.arrivals
        if isinstance(arrivals, PeriodicArrivals):
            total += config.duration_ms / arrivals.interval_ms
        elif isinstance(arrivals, OpenArrivals):
            total += config.duration_ms / max(_mean_ms(arrivals.inter_arrival), 1e-3)
        else:
            assert isinstance(arrivals, ClosedArrivals)
            total += arrivals.clients * config.duration_ms / max(_mean_ms(cls.runtime) + _mean_ms(arrivals.think_time), 1.0)
    return total


def _mean_ms(distribution: Any) -> float:
    """Return about the mean of a distribution: the mean of its quantiles."""
    return float(sum(distribution.at((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)) / _QUANTILES)
