"""Real table on local files with concurrent writers of Iceberg Java, PyIceberg, or both, and its commit reports.

Clients of both libraries use a SQLite catalog created by PyIceberg; Java reads and swaps the pointer by statements on its table.
Each access takes its delay (`Accesses`). State: files and the database, in a folder; reports, owned by `Written`.
"""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException, ValidationException

from verification.iceberg import java_operations, python_cases
from verification.iceberg.accesses import Accesses, Delays
from verification.iceberg.java import JavaTable, Pointer
from verification.iceberg.java_operations import Prepared
from verification.iceberg.python import NAME, CountingCatalog, append_manifests, make_table

EXPIRY = "expire_snapshots"
PROPERTIES = {"commit.manifest-merge.enabled": "false", "write.metadata.previous-versions-max": "1000"}
SNAPSHOT_KINDS = {
    "fast_append": "append",
    "rewrite_files": "replace",
    "row_delta_serializable": "overwrite",
    "overwrite_serializable": "overwrite",
    "delete": "delete",
}


@dataclass(frozen=True)
class Job:
    """Writers of one kind: in a closed loop with a pause between operations, or one writer with a fixed interval."""

    client: str
    operation: str
    writers: int = 1
    pause_ms: tuple[float, float] = (0.0, 0.0)
    every_ms: float | None = None
    runtime_ms: float = 0.0
    """Time between loading the table and committing."""
    operations: int | None = None
    """Number of operations after which a writer stops; None until the end of the run."""


@dataclass
class Written:
    """Table, reports and failures of the clients, whose threads add to them in parallel.

    The table is read while all clients still write, so it does not contain operations that end later.
    """

    metadata_location: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def reports_text(self) -> str:
        """Return the reports as JSON lines."""
        return "".join(json.dumps(report) + "\n" for report in self.reports)


class SqlPointer(Pointer):
    """Pointer of the table in PyIceberg's SQLite catalog, read and swapped as in a JDBC catalog."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "catalog.db"

    def read(self) -> str:
        with closing(self._connect()) as connection:
            return str(connection.execute("SELECT metadata_location FROM iceberg_tables").fetchone()[0])

    def swap(self, expected: str, new: str) -> bool:
        statement = "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE metadata_location = ?"
        with closing(self._connect()) as connection, connection:
            return connection.execute(statement, (new, expected, expected)).rowcount == 1

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30.0)
        connection.execute("PRAGMA synchronous = OFF")
        return connection


@dataclass
class JavaFileTable(JavaTable):
    """Table accessed by Iceberg Java: files on disk, pointer in PyIceberg's catalog."""

    folder: Path = Path()

    def __post_init__(self) -> None:
        jvm = self.gateway.jvm
        self.files = jvm.org.apache.iceberg.hadoop.HadoopFileIO(jvm.org.apache.hadoop.conf.Configuration())
        self.adopt(SqlPointer(self.folder))


def make_real_table(gateway: Any, folder: Path, jobs: Sequence[Job], delays: Delays, seconds: float, kept_s: float) -> Written:
    """Run all jobs for this time; expiry retains the snapshots of the last ``kept_s`` seconds."""
    make_table(CountingCatalog(folder), PROPERTIES)
    writers = [(job, partition) for partition, job in enumerate(job for job in jobs for _ in range(job.writers))]
    with CountingCatalog(folder).opened() as catalog, catalog.load_table(NAME).transaction() as transaction:
        append_manifests(transaction, [partition for job, partition in writers if job.client == "pyiceberg"])
    java = JavaFileTable(gateway, folder=folder) if any(job.client == "java" for job in jobs) else None
    if java is not None:
        java.add_manifests([[partition] for job, partition in writers if job.client == "java"])
    written = Written()
    begin = time.monotonic()
    stop = threading.Event()

    def write(place: int) -> None:
        job, partition = writers[place]
        clock = _Clock(job, begin, random.Random(place))
        runner: Callable[[], None]
        with CountingCatalog(folder).opened() as catalog:
            if job.client == "java":
                assert java is not None
                runner = _JavaJob(job, partition, delays, written, kept_s, java).run
            else:
                runner = _PythonJob(job, partition, delays, written, kept_s, catalog).run
            for _ in range(job.operations) if job.operations else itertools.count():
                if clock.wait() >= begin + seconds or stop.is_set():
                    break
                try:
                    runner()
                except BaseException:
                    stop.set()
                    raise

    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(write, place) for place in range(len(writers))]
        wait(running, begin + seconds - time.monotonic())
        written.metadata_location, reports = SqlPointer(folder).read(), list(written.reports)
        for each in running:
            each.result()
    written.reports = reports
    return written


@dataclass
class _Clock:
    """Schedule of the operations of a writer."""

    job: Job
    begin: float
    draws: random.Random

    def wait(self) -> float:
        """Wait for the next operation, and return its start."""
        now = time.monotonic()
        if self.job.every_ms is None:
            end = now + self.draws.uniform(*self.job.pause_ms) / 1e3
        else:
            interval = self.job.every_ms / 1e3
            end = self.begin + interval * (1 + int((now - self.begin) / interval))
        time.sleep(end - now)
        return end


class _Reporter:
    """Iceberg's MetricsReporter, which stores Java's commit reports as JSON."""

    def __init__(self, gateway: Any) -> None:
        self._parser = gateway.jvm.org.apache.iceberg.metrics.CommitReportParser
        self.found: list[dict[str, Any]] = []

    def report(self, report: Any) -> None:
        if "CommitReport" in report.getClass().getSimpleName():
            self.found.append(json.loads(self._parser.toJson(report)))

    def initialize(self, _properties: Any) -> None:
        pass

    class Java:
        implements = ("org.apache.iceberg.metrics.MetricsReporter",)


@dataclass
class _Work:
    """Operation of a client, and the destination of its outcome."""

    job: Job
    partition: int
    delays: Delays
    written: Written
    kept_s: float

    def failed(self, why: str) -> None:
        self.written.failures.append(f"{self.job.operation}: {why}")


@dataclass
class _JavaJob(_Work):
    table: JavaFileTable

    def run(self) -> None:
        from py4j.protocol import Py4JJavaError

        accesses = Accesses(self.delays)
        removes = self.job.operation in ("rewrite_files", "row_delta_serializable")
        prepared = Prepared(self.table, self.table.scanned(self.partition) if removes else [], self.partition)
        reporter = _Reporter(self.table.gateway)
        handle = self.table.handle(accesses, reporter=reporter)
        accesses.last_end = time.monotonic()
        if self.job.operation == EXPIRY:
            handle.expireSnapshots().expireOlderThan(int(1e3 * (time.time() - self.kept_s))).retainLast(20).commit()
            return
        operation = java_operations.OPERATIONS[self.job.operation](prepared, handle)
        accesses.work(self.job.runtime_ms)
        try:
            operation.commit()
        except Py4JJavaError as raised:
            self.failed(raised.java_exception.getClass().getSimpleName())
            return
        self.written.reports += reporter.found


@dataclass
class _PythonJob(_Work):
    catalog: CountingCatalog

    def run(self) -> None:
        accesses = Accesses(self.delays)
        self.catalog.count_into(accesses)
        table = self.catalog.load_table(NAME)
        if self.job.operation == EXPIRY:
            with suppress(CommitFailedException):  # PyIceberg makes one attempt
                table.maintenance.expire_snapshots().older_than(datetime.now(UTC) - timedelta(seconds=self.kept_s)).commit()
            return
        transaction = table.transaction()
        accesses.work(self.job.runtime_ms)
        begin = time.perf_counter()
        python_cases.OPERATIONS[self.job.operation].stage(transaction, self.partition)
        try:
            made = transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as raised:
            self.failed(type(raised).__name__)
            return
        took = time.perf_counter() - begin
        snapshot = made.current_snapshot()
        assert snapshot is not None
        metrics = {
            "total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": int(1e9 * took)},
            "attempts": {"unit": "count", "value": accesses.attempts()},
        }
        operation = SNAPSHOT_KINDS[self.job.operation]
        self.written.reports.append({"snapshot-id": snapshot.snapshot_id, "operation": operation, "metrics": metrics})
