"""Costs of a transaction: kinds of file access, their counters, and the components of its latency."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from endive.storage import MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA
from endive.transaction.types import ConflictCost


class FileAccess(NamedTuple):
    """Kind of access to files of a table."""

    reading: bool
    kind: str
    size: str
    counter: str


METADATA_READ = FileAccess(True, TABLE_METADATA, "table_metadata_bytes", "metadata_reads")
METADATA_WRITE = FileAccess(False, TABLE_METADATA, "table_metadata_bytes", "metadata_writes")
LIST_READ = FileAccess(True, MANIFEST_LIST, "manifest_list_bytes", "manifest_list_reads")
LIST_WRITE = FileAccess(False, MANIFEST_LIST, "manifest_list_bytes", "manifest_list_writes")
FILE_READ = FileAccess(True, MANIFEST_FILE, "manifest_file_bytes", "manifest_file_reads")
FILE_WRITE = FileAccess(False, MANIFEST_FILE, "manifest_file_bytes", "manifest_file_writes")
FILE_DELETE = FileAccess(False, MANIFEST_FILE, "", "file_deletes")
LIST_APPENDS = "manifest_list_appends"
ACCESSES = (METADATA_READ, METADATA_WRITE, LIST_READ, LIST_WRITE, FILE_READ, FILE_WRITE, FILE_DELETE)
COUNTERS = (*(access.counter for access in ACCESSES), LIST_APPENDS)
PROTOCOL_COUNTERS = ("list_requests", "catalog_requests", "data_reads", "data_writes")
"""Counters of requests of declarative protocols."""

CATALOG_READ = "catalog_read_ms"
RUNTIME = "runtime_ms"
PER_ATTEMPT_IO = "per_attempt_io_ms"
CONFLICT_IO = "conflict_io_ms"
CATALOG_COMMIT = "catalog_commit_ms"
BACKOFF = "backoff_ms"
TIMES = (CATALOG_READ, RUNTIME, PER_ATTEMPT_IO, CONFLICT_IO, BACKOFF, CATALOG_COMMIT)
"""Components of the latency of a transaction; their sum is its total latency."""


Accesses = tuple[tuple[FileAccess, int], ...]


def in_order(cost: ConflictCost) -> tuple[Accesses, Accesses]:
    """Return the reads of a cost, from table metadata to manifests, and its writes, from manifests to the manifest list."""
    return (
        (METADATA_READ, cost.metadata_reads),
        (LIST_READ, cost.manifest_list_reads),
        (LIST_READ, cost.historical_ml_reads),
        (FILE_READ, cost.manifest_file_reads),
    ), ((FILE_WRITE, cost.manifest_file_writes), (LIST_WRITE, cost.manifest_list_writes))


def share(cost: ConflictCost, part: int, whole: int) -> ConflictCost:
    """Return the share of a cost for ``part`` of ``whole`` tables, rounded up."""
    return ConflictCost(**{field.name: -(-getattr(cost, field.name) * part // whole) for field in fields(cost)})
