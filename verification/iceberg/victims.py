"""Third mode: one long operation with concurrent appends at a given rate on one table; measures its success."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from verification.iceberg.accesses import Delays
from verification.iceberg.clients import Outcome, SharedJavaTable, SharedTable, Work

VICTIM = 0
APPENDS = 1
MANY_MANIFESTS = 120
"""Number of manifests above 100, the number from which on Iceberg merges manifests."""
SETTLE_MS = 1_000.0
"""Time in ms by which appends start before the long operation."""


@dataclass(frozen=True)
class VictimCase:
    """Long operation, and the rate of concurrent appends."""

    operation: str
    appends_per_second: float
    access_ms: float = 50.0
    """Duration of each access to the catalog or to a file."""
    runtime_ms: float = 3_000.0
    """Time between loading the table and committing."""
    repetitions: int = 24

    def manifests(self) -> int:
        """Number of manifests of the table without files of the long operation."""
        return MANY_MANIFESTS if self.operation == "merge_append" else 1

    def delays(self) -> Delays:
        return Delays(self.access_ms, self.access_ms, self.access_ms, self.access_ms)


@dataclass(frozen=True)
class VictimResult:
    """Number of successes of the operation, and its attempts until success or abort."""

    commits: int
    repetitions: int
    attempts: int

    @property
    def success(self) -> float:
        return self.commits / self.repetitions

    @property
    def attempts_per_operation(self) -> float:
        return self.attempts / self.repetitions


CASES = (
    *(
        VictimCase(operation, rate)
        for operation in ("overwrite_serializable", "rewrite_files", "replace_partitions")
        for rate in (0.5, 1.0, 2.0)
    ),
    *(VictimCase("merge_append", rate, access_ms=20.0) for rate in (0.2, 0.5, 1.0)),
)
AT_ONCE = 6
"""Number of concurrent repetitions, each on a separate table."""


def measure(gateway: Any, case: VictimCase) -> VictimResult:
    """Run the long operation for the number of repetitions of the case."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda number: _repetition(gateway, case, number), range(case.repetitions)))
    commits = sum(outcome.committed for outcome in outcomes)
    return VictimResult(commits, case.repetitions, sum(outcome.attempts for outcome in outcomes))


def _repetition(gateway: Any, case: VictimCase, number: int) -> Outcome:
    table = SharedJavaTable(gateway, 2, case.manifests() - 1)
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        appending = pool.submit(_append_until, over, table, case, random.Random(f"{case.operation} {number}"))
        time.sleep(SETTLE_MS / 1000.0)
        try:
            with table.client(case.delays()) as client:
                return client.run(Work(case.operation, VICTIM, case.runtime_ms))
        finally:
            over.set()
            appending.result()


def _append_until(over: threading.Event, table: SharedTable, case: VictimCase, draws: random.Random) -> None:
    """Start appends at random times, independently of the end of earlier appends."""

    def append() -> None:
        with table.client(case.delays()) as client:
            client.run(Work("fast_append", APPENDS, 0.0))

    with ThreadPoolExecutor(64) as pool:
        running = []
        while not over.wait(draws.expovariate(case.appends_per_second)):
            running.append(pool.submit(append))
        for append_done in running:
            append_done.result()
