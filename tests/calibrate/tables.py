"""Tables for tests: metadata written by PyIceberg from the commits of a simulated run, and commit reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile, write_manifest_list
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.types import LongType, NestedField

START_MS = 1_780_000_020_000  # a whole minute
SNAPSHOT_OPERATIONS = {
    "fast_append": "append",
    "merge_append": "append",
    "overwrite": "overwrite",
    "row_delta": "overwrite",
    "rewrite_files": "replace",
    "delete": "delete",
}


@dataclass(frozen=True)
class WrittenTable:
    """Files of a table."""

    metadata: Path
    reports: Path


def write_table(
    folder: Path, rows: pd.DataFrame, *, properties: dict[str, str], manifests: int, delete_manifests: int = 0
) -> WrittenTable:
    """Write the commits of a run as a table: one snapshot per commit at its time, with the class as application name."""
    committed = rows[rows["status"] == "committed"].sort_values("t_commit")
    folder.mkdir(parents=True, exist_ok=True)
    location = f"file://{folder}"
    metadata = new_table_metadata(
        Schema(NestedField(1, "id", LongType(), required=False)), PartitionSpec(), SortOrder(), location, properties
    )
    records: list[dict[str, Any]] = committed.to_dict("records")  # type: ignore[assignment]
    snapshots = [_snapshot(place, row, location) for place, row in enumerate(records, 1)]
    snapshots[-1] = snapshots[-1].model_copy(
        update={"manifest_list": _manifest_list(folder, snapshots[-1], manifests, delete_manifests)}
    )
    updates: list[Any] = [AddSnapshotUpdate(snapshot=snapshot) for snapshot in snapshots]
    head = {"ref-name": "main", "type": "branch", "snapshot-id": snapshots[-1].snapshot_id}
    updates.append(SetSnapshotRefUpdate.model_validate(head))
    made = update_table_metadata(metadata, tuple(updates))
    path = folder / "v1.metadata.json"
    path.write_text(made.model_dump_json(by_alias=True, exclude_none=True))
    reports = folder / "reports.jsonl"
    reports.write_text("".join(json.dumps(_report(row, place)) + "\n" for place, row in enumerate(records, 1)))
    return WrittenTable(path, reports)


def _snapshot(place: int, row: dict[str, Any], location: str) -> Snapshot:
    extra = {"iceberg-version": "Apache Iceberg 1.10.0", "app-id": str(row["workload_class"])}
    if row["operation_type"] == "row_delta":
        extra["added-delete-files"] = "1"
    if row["operation_type"] == "merge_append":
        extra["manifests-replaced"] = "1"
    return Snapshot(
        snapshot_id=place,
        parent_snapshot_id=place - 1 if place > 1 else None,
        sequence_number=place,
        timestamp_ms=START_MS + round(row["t_commit"]),
        manifest_list=f"{location}/none-{place}.avro",
        summary=Summary(Operation(SNAPSHOT_OPERATIONS[row["operation_type"]]), **extra),
    )


def _manifest_list(folder: Path, snapshot: Snapshot, manifests: int, deletes: int) -> str:
    path = f"file://{folder}/snap-last.avro"
    with write_manifest_list(
        2, PyArrowFileIO().new_output(path), snapshot.snapshot_id, None, snapshot.sequence_number, "null"
    ) as writer:
        writer.add_manifests([_manifest(place, place >= manifests, snapshot) for place in range(manifests + deletes)])
    return path


def _manifest(place: int, deletes: bool, snapshot: Snapshot) -> ManifestFile:
    content = ManifestContent.DELETES if deletes else ManifestContent.DATA
    counts: dict[str, Any] = dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"), 1)
    rows: dict[str, Any] = dict.fromkeys(("added_rows_count", "existing_rows_count", "deleted_rows_count"), 1)
    return ManifestFile.from_args(
        manifest_path=f"m{place}.avro",
        manifest_length=7_000,
        partition_spec_id=0,
        content=content,
        sequence_number=snapshot.sequence_number,
        min_sequence_number=1,
        added_snapshot_id=snapshot.snapshot_id,
        partitions=[],
        key_metadata=None,
        **counts,
        **rows,
    )


def _report(row: dict[str, Any], place: int) -> dict[str, Any]:
    timer = {"count": 1, "time-unit": "nanoseconds", "total-duration": int(row["commit_latency"] * 1e6)}
    attempts = {"unit": "count", "value": int(row["n_retries"]) + 1}
    return {
        "report-type": "commit-report",
        "table-name": "db.t",
        "snapshot-id": place,
        "sequence-number": place,
        "operation": SNAPSHOT_OPERATIONS[row["operation_type"]],
        "metrics": {"total-duration": timer, "attempts": attempts},
        "metadata": {},
    }


def metadata_document(times_ms: Sequence[int], **changes: Any) -> dict[str, Any]:
    """Return a metadata.json of version 2 with appends at these times."""
    snapshots = [
        {
            "snapshot-id": place,
            "timestamp-ms": time,
            "sequence-number": place,
            "manifest-list": f"s3://nowhere/{place}.avro",
            "summary": {"operation": "append", "added-data-files": "1"},
        }
        for place, time in enumerate(times_ms, 1)
    ]
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://nowhere",
        "last-sequence-number": len(times_ms),
        "last-updated-ms": times_ms[-1] if times_ms else 0,
        "last-column-id": 1,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "properties": {},
        "current-snapshot-id": len(times_ms) or -1,
        "snapshots": snapshots,
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": len(times_ms), "type": "branch"}},
        **changes,
    }
