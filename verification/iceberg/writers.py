"""Second mode: n real writers in a closed loop on one table, each on a separate partition, without real conflicts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from verification.iceberg.accesses import Delays
from verification.iceberg.clients import Outcome, SharedJavaTable, SharedPythonTable, SharedTable, Work
from verification.iceberg.postgres import PostgresCatalog
from verification.iceberg.python import CountingCatalog

NO_MERGES = {"commit.manifest-merge.enabled": "false"}
WRITERS = (1, 2, 4, 8, 16)
AT_ONCE = 16
"""Maximum number of concurrent writers of all cases."""


@dataclass(frozen=True)
class WritersCase:
    """Writers that start the next operation as soon as the previous one has ended."""

    client: str
    operation: str
    writers: int
    access_ms: float = 50.0
    """Duration of each access to the catalog or to a file."""
    runtime_ms: tuple[float, float] = (100.0, 500.0)
    """Bounds of the uniformly distributed time between loading the table and committing."""
    duration_ms: float = 45_000.0
    """Time in which operations start; operations in flight at its end are finished."""
    keeps_handle: bool = False
    """True if a writer caches its table handle, as in Flink and Kafka Connect (Java)."""
    on_postgres: bool = False
    """True if the catalog is PyIceberg's SqlCatalog on PostgreSQL, with real statement times."""

    def delays(self) -> Delays:
        catalog_ms = 0.0 if self.on_postgres else self.access_ms
        return Delays(catalog_ms, catalog_ms, self.access_ms, self.access_ms)


@dataclass(frozen=True)
class WritersResult:
    """Results of the writers of a case."""

    operations: int
    commits: int
    attempts: int
    commits_in_time: int
    """Number of commits that ended within ``duration_ms``."""
    seconds: float
    """Time in which operations started."""

    @property
    def attempts_per_commit(self) -> float:
        """Number of attempts per commit, including attempts of aborted operations."""
        return self.attempts / self.commits if self.commits else float("inf")

    @property
    def success(self) -> float:
        """Fraction of operations that committed."""
        return self.commits / self.operations

    @property
    def commits_per_second(self) -> float:
        return self.commits_in_time / self.seconds


ACCESS_MS = {"java": 50.0, "pyiceberg": 100.0}
"""Duration of an access, long enough for the CPU time of sixteen clients; PyIceberg clients are threads of one process."""
CASES = tuple(
    WritersCase(client, operation, writers, access_ms)
    for client, access_ms in ACCESS_MS.items()
    for operation in ("fast_append", "overwrite_serializable")
    for writers in WRITERS
)
HANDLE_CASES = tuple(
    WritersCase("java", operation, writers, ACCESS_MS["java"], keeps_handle=True)
    for operation in ("fast_append", "overwrite_serializable")
    for writers in WRITERS[:4]
)
POSTGRES_CASES = tuple(
    WritersCase("pyiceberg", "fast_append", writers, ACCESS_MS["pyiceberg"], on_postgres=True) for writers in WRITERS[:4]
)


@dataclass(frozen=True)
class Backends:
    """Services of the clients: a JVM with Iceberg, or a database."""

    gateway: Any = None
    postgres_uri: str = ""

    @contextmanager
    def table(self, case: WritersCase) -> Iterator[SharedTable]:
        """Return a new table for the writers of a case."""
        if case.client == "java":
            yield SharedJavaTable(self.gateway, case.writers, properties=NO_MERGES, keeps_handle=case.keeps_handle)
            return
        with TemporaryDirectory() as folder:
            connect = partial(PostgresCatalog, uri=self.postgres_uri) if case.on_postgres else CountingCatalog
            yield SharedPythonTable(Path(folder), case.writers, connect=connect)


def measure(backends: Backends, case: WritersCase) -> WritersResult:
    """Run the writers of a case."""
    ended: list[tuple[float, Outcome]] = []
    with backends.table(case) as table:
        deadline = time.monotonic() + case.duration_ms / 1000.0

        def write(number: int) -> None:
            draws = random.Random(number)
            with table.client(case.delays()) as client:
                while time.monotonic() < deadline:
                    outcome = client.run(Work(case.operation, number, draws.uniform(*case.runtime_ms)))
                    ended.append((time.monotonic(), outcome))

        _call_in_threads(write, range(case.writers))
    return WritersResult(
        operations=len(ended),
        commits=sum(outcome.committed for _, outcome in ended),
        attempts=sum(outcome.attempts for _, outcome in ended),
        commits_in_time=sum(outcome.committed for moment, outcome in ended if moment < deadline),
        seconds=case.duration_ms / 1000.0,
    )


def measure_all(backends: Backends, cases: Sequence[WritersCase]) -> Iterator[tuple[WritersCase, WritersResult]]:
    """Run cases, small ones concurrently, each on a separate table."""
    for batch in _batches(cases):
        results: dict[int, WritersResult] = {}

        def run(number: int, batch: Sequence[WritersCase] = batch, results: dict[int, WritersResult] = results) -> None:
            results[number] = measure(backends, batch[number])

        _call_in_threads(run, range(len(batch)))
        for number, case in enumerate(batch):
            yield case, results[number]


def _batches(cases: Sequence[WritersCase]) -> Iterator[list[WritersCase]]:
    batch: list[WritersCase] = []
    for case in cases:
        if batch and sum(member.writers for member in batch) + case.writers > AT_ONCE:
            yield batch
            batch = []
        batch.append(case)
    yield batch


def _call_in_threads(call: Callable[[int], None], numbers: Sequence[int]) -> None:
    """Call a function with each number in a separate thread; raise the first exception."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        list(pool.map(call, numbers))
