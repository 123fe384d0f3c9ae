"""Second mode: n real writers in a closed loop on one table, each on a partition of its own, so that nothing really conflicts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from verification.iceberg.accesses import Delays
from verification.iceberg.clients import Outcome, SharedJavaTable, SharedPythonTable, SharedTable, Work

NO_MERGES = {"commit.manifest-merge.enabled": "false"}
WRITERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class WritersCase:
    """Writers that begin the next operation as soon as the last has ended, for a while."""

    client: str
    operation: str
    writers: int
    access_ms: float = 50.0
    """What each access to the catalog or to a file takes."""
    runtime_ms: tuple[float, float] = (100.0, 500.0)
    """How long a writer works between loading the table and committing: uniform between these."""
    duration_ms: float = 40_000.0
    """For how long operations are begun; those under way then are finished."""

    def delays(self) -> Delays:
        return Delays(self.access_ms, self.access_ms, self.access_ms, self.access_ms)


@dataclass(frozen=True)
class WritersResult:
    """What came of it."""

    operations: int
    commits: int
    attempts: int
    elapsed_ms: float
    """Until the last operation ended."""

    @property
    def attempts_per_commit(self) -> float:
        """Swaps tried, those of operations that gave up included, for each commit."""
        return self.attempts / self.commits if self.commits else float("inf")

    @property
    def success(self) -> float:
        """The share of operations that committed."""
        return self.commits / self.operations

    @property
    def commits_per_second(self) -> float:
        return 1000.0 * self.commits / self.elapsed_ms


CASES = tuple(
    WritersCase(client, operation, writers)
    for client in ("java", "pyiceberg")
    for operation in ("fast_append", "overwrite_serializable")
    for writers in WRITERS
)


@contextmanager
def shared_table(client: str, gateway: Any, partitions: int, more: int = 0) -> Iterator[SharedTable]:
    """A table for the clients of a library."""
    if client == "java":
        yield SharedJavaTable(gateway, partitions, more, NO_MERGES)
        return
    with TemporaryDirectory() as folder:
        yield SharedPythonTable(Path(folder), partitions, more)


def measure(gateway: Any, case: WritersCase, seed: int = 0) -> WritersResult:
    """Run the writers of a case."""
    outcomes: list[Outcome] = []
    with shared_table(case.client, gateway, case.writers) as table:
        began = time.monotonic()
        deadline = began + case.duration_ms / 1000.0

        def write(number: int) -> None:
            draws = random.Random(f"{seed} {number}")
            with table.client(case.delays()) as client:
                while time.monotonic() < deadline:
                    outcomes.append(client.run(Work(case.operation, number, draws.uniform(*case.runtime_ms))))

        run_all(write, case.writers)
        elapsed_ms = 1000.0 * (time.monotonic() - began)
    commits = sum(outcome.committed for outcome in outcomes)
    return WritersResult(len(outcomes), commits, sum(outcome.attempts for outcome in outcomes), elapsed_ms)


def run_all(work: Any, count: int) -> None:
    """Call a function with 0, 1, ... count - 1, each in a thread, and raise what any of them raised."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(work, range(count)):
            pass
