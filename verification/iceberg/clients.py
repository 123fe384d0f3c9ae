"""Real clients that write to one table concurrently, under injected latencies.

A client loads the table, works for its runtime, and commits with its library's own retries at Iceberg's defaults. Both libraries
have the same interface here, so that modes two and three are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyiceberg.exceptions import CommitFailedException, ValidationException

from verification.iceberg import java_operations, python_cases
from verification.iceberg.accesses import Accesses, Delays
from verification.iceberg.java import JavaTable
from verification.iceberg.java_operations import Prepared
from verification.iceberg.python import NAME, CountingCatalog, append_manifests, make_table

WORKER_THREADS = 64
"""Number of worker threads of a client library. Real clients have a pool per process; here all clients share one."""
PYICEBERG_POOL = "PYICEBERG_MAX_WORKERS"
"""Environment variable that sets the pool size of PyIceberg; read at its first use."""


@dataclass(frozen=True)
class Work:
    """An operation of a client on a partition."""

    operation: str
    partition: int
    runtime_ms: float


@dataclass(frozen=True)
class Outcome:
    """Outcome of an operation."""

    committed: bool
    attempts: int
    conflict: bool = False
    """True if the operation aborted because of a conflict, not because of lost swaps."""


@dataclass
class Clock:
    """Clock that starts each operation of a client at the end of its previous one, so that CPU time in between is not counted."""

    _last: Accesses | None = None

    def accesses(self, delays: Delays) -> Accesses:
        """Return the counter of the next operation."""
        self._last = Accesses(delays) if self._last is None else Accesses(delays, last_end=self._last.last_end)
        return self._last


class Client(Protocol):
    """Writer."""

    def run(self, work: Work) -> Outcome:
        """Load the table, work, and commit."""


class SharedTable(Protocol):
    """Table that many clients write to."""

    def client(self, delays: Delays) -> AbstractContextManager[Client]:
        """Return a new client with a separate catalog."""


@dataclass
class JavaClient:
    """Client of Iceberg Java. It loads the table for each operation, or caches its table handle and refreshes it."""

    table: JavaTable
    delays: Delays
    keeps_handle: bool = False
    _clock: Clock = field(default_factory=Clock)
    _kept: tuple[Any, Accesses] | None = None

    def run(self, work: Work) -> Outcome:
        from py4j.protocol import Py4JJavaError

        handle, accesses = self._opened()
        before = accesses.attempts()
        files = [] if work.operation.endswith("append") else self.table.scanned(work.partition)
        prepared = Prepared(self.table, files, work.partition)
        operation = java_operations.OPERATIONS[work.operation](prepared, handle)
        accesses.work(work.runtime_ms)
        try:
            operation.commit()
        except Py4JJavaError as raised:
            error = raised.java_exception.getClass().getSimpleName()
            if error not in ("CommitFailedException", "ValidationException"):
                raise
            return Outcome(False, self._attempts(accesses, before), conflict=error == "ValidationException")
        return Outcome(True, self._attempts(accesses, before))

    def _opened(self) -> tuple[Any, Accesses]:
        """Return a handle on the current table, and its access counter."""
        if self._kept is not None:
            handle, accesses = self._kept
            handle.refresh()
            return self._kept
        accesses = self._clock.accesses(self.delays)
        handle = self.table.handle(accesses)
        if self.keeps_handle:
            self._kept = handle, accesses
        return handle, accesses

    def _attempts(self, accesses: Accesses, before: int) -> int:
        """Return the attempts since ``before``. A cached handle counts all operations in one counter, with a phase per load."""
        return accesses.attempts() - (before + 1 if before >= 0 else 0)


@dataclass
class SharedJavaTable:
    """Table of Iceberg Java with one manifest per partition and additional manifests in the last partition."""

    gateway: Any
    partitions: int
    more_manifests: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    keeps_handle: bool = False

    def __post_init__(self) -> None:
        self._table = JavaTable(self.gateway, self.properties)
        self._table.add_manifests(_members(self.partitions, self.more_manifests))

    @contextmanager
    def client(self, delays: Delays) -> Iterator[JavaClient]:
        yield JavaClient(self._table, delays, self.keeps_handle)


def _members(partitions: int, more: int) -> list[list[int]]:
    return [[partition] for partition in range(partitions)] + [[partitions - 1]] * more


@dataclass
class PythonClient:
    """Client of PyIceberg."""

    catalog: CountingCatalog
    delays: Delays
    _clock: Clock = field(default_factory=Clock)

    def run(self, work: Work) -> Outcome:
        accesses = self._clock.accesses(self.delays)
        self.catalog.count_into(accesses)
        transaction = self.catalog.load_table(NAME).transaction()
        accesses.work(work.runtime_ms)
        python_cases.OPERATIONS[work.operation].stage(transaction, work.partition)
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as raised:
            return Outcome(False, accesses.attempts(), conflict=isinstance(raised, ValidationException))
        return Outcome(True, accesses.attempts())


@dataclass
class SharedPythonTable:
    """Table of PyIceberg with one manifest per partition and additional manifests in the last partition.

    ``connect`` opens a catalog on it for each client: one in SQLite, unless another is given.
    """

    folder: Path
    partitions: int
    more_manifests: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    connect: Callable[[Path], CountingCatalog] = CountingCatalog

    def __post_init__(self) -> None:
        make_table(self.connect(self.folder), self.properties)
        with self.connect(self.folder).opened() as catalog, catalog.load_table(NAME).transaction() as transaction:
            append_manifests(transaction, [member for [member] in _members(self.partitions, self.more_manifests)])

    @contextmanager
    def client(self, delays: Delays) -> Iterator[PythonClient]:
        with self.connect(self.folder).opened() as catalog:
            yield PythonClient(catalog, delays)
