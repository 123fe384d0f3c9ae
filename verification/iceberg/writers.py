"""Second mode: n real writers in a closed loop on one table, each on a partition of its own, so that nothing really conflicts."""

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
"""Writers, of all cases together, that run at the same time."""


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
    duration_ms: float = 45_000.0
    """For how long operations are begun; those under way then are finished."""
    keeps_handle: bool = False
    """Whether a writer keeps its handle on the table, as Flink's and Kafka Connect's do (Java)."""
    on_postgres: bool = False
    """Whether the catalog is PyIceberg's on PostgreSQL, whose statements take the time that they take."""

    def delays(self) -> Delays:
        catalog_ms = 0.0 if self.on_postgres else self.access_ms
        return Delays(catalog_ms, catalog_ms, self.access_ms, self.access_ms)


@dataclass(frozen=True)
class WritersResult:
    """What came of it."""

    operations: int
    commits: int
    attempts: int
    commits_in_time: int
    """Those that ended while operations were still begun."""
    seconds: float
    """For how long operations were begun."""

    @property
    def attempts_per_commit(self) -> float:
        """Attempts, those of operations that gave up included, for each commit."""
        return self.attempts / self.commits if self.commits else float("inf")

    @property
    def success(self) -> float:
        """The share of operations that committed."""
        return self.commits / self.operations

    @property
    def commits_per_second(self) -> float:
        return self.commits_in_time / self.seconds


ACCESS_MS = {"java": 50.0, "pyiceberg": 100.0}
"""Long enough for the computing of sixteen clients to fit in; PyIceberg's are threads of one Python."""
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
    """What clients need: a JVM with Iceberg, or a database."""

    gateway: Any = None
    postgres_uri: str = ""

    @contextmanager
    def table(self, case: WritersCase) -> Iterator[SharedTable]:
        """A new table for the writers of a case."""
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
    """Run cases, small ones at the same time, each on a table of its own."""
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
    """Call a function with each number in a thread of its own; raise what any of them raised."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        list(pool.map(call, numbers))
