"""Real clients that write to one table at the same time, under injected latencies.

A client loads the table, works for a while (its runtime), and commits with its library's own retries at Iceberg's defaults. Both
libraries look alike here, so that modes two and three are written once.
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
"""Workers of a client library's pool. In life each client is a process with a pool of its own; here they share one."""
PYICEBERG_POOL = "PYICEBERG_MAX_WORKERS"
"""The environment variable that sets it for PyIceberg, before its first use."""


@dataclass(frozen=True)
class Work:
    """An operation of a client on a partition."""

    operation: str
    partition: int
    runtime_ms: float


@dataclass(frozen=True)
class Outcome:
    """How an operation ended."""

    committed: bool
    attempts: int
    conflict: bool = False
    """Whether it was given up because of a conflict, not of lost swaps."""


@dataclass
class Clock:
    """Makes a client's next operation begin where its last one ended, so that what it computes in between takes no time."""

    _last: Accesses | None = None

    def accesses(self, delays: Delays) -> Accesses:
        """Where to count the next operation."""
        self._last = Accesses(delays) if self._last is None else Accesses(delays, last_end=self._last.last_end)
        return self._last


class Client(Protocol):
    """One writer."""

    def run(self, work: Work) -> Outcome:
        """Load the table, work, commit."""


class SharedTable(Protocol):
    """A table that many clients write to."""

    def client(self, delays: Delays) -> AbstractContextManager[Client]:
        """A new client with a catalog of its own."""


@dataclass
class JavaClient:
    """A client of Iceberg Java. It loads the table for each operation, or keeps its handle on it and refreshes that."""

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
        """A handle on the table as it is now, and where its accesses are counted."""
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
        """Attempts since then; a kept handle counts all its operations in one place, each with a phase before its first attempt."""
        return accesses.attempts() - (before + 1 if before >= 0 else 0)


@dataclass
class SharedJavaTable:
    """A table of Iceberg Java with one manifest for each of its partitions and some more in the last."""

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
    """A client of PyIceberg."""

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
    """A table of PyIceberg with one manifest for each of its partitions and some more in the last.

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
