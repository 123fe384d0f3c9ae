"""Parse the ``metadata.json`` of an Iceberg table (format versions 1 to 3) into a history: commits, properties and sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from endive.calibrate import InputError
from endive.formatting import format_count
from endive.input_files import UnreadableError, unpacked


@dataclass(frozen=True)
class Commit:
    """Commit of a table: time, operation and summary of its snapshot."""

    snapshot_id: int
    timestamp_ms: int
    operation: str
    """Iceberg's snapshot operation: append, overwrite, delete or replace; empty if the snapshot has none."""
    summary: Mapping[str, str] = field(default_factory=dict)

    def count(self, *keys: str) -> int | None:
        """Return the value of the first of these keys in the snapshot summary that is a number, or None."""
        for key in keys:
            text = self.summary.get(key)
            if text is not None and text.strip().isascii() and text.strip().isdigit() and len(text) < 16:
                return int(text)
        return None

    @property
    def engine(self) -> str:
        """Engine in the snapshot summary, such as ``spark``; empty if the summary names no engine."""
        for key, name in (("engine-name", ""), ("spark.app.id", "spark"), ("flink.job-id", "flink"), ("trino_query_id", "trino")):
            if key in self.summary:
                return name or self.summary[key].lower()
        return ""

    @property
    def application(self) -> str:
        """Application or job in the snapshot summary; empty if the summary names none."""
        for key in ("flink.job-id", "spark.app.id", "app-id", "application", "kafka.connect.group-id", "writer"):
            if key in self.summary:
                return self.summary[key]
        return ""


@dataclass(frozen=True)
class TableState:
    """Numbers and sizes of a table's metadata at the end of its history; None for an unknown value."""

    snapshots: int | None = None
    manifests: int | None = None
    delete_manifests: int | None = None
    manifest_bytes: int | None = None
    manifest_list_bytes: int | None = None
    metadata_bytes: int | None = None
    metadata_bytes_per_snapshot: int | None = None
    data_files: int | None = None
    partitions: int | None = None
    """Number of partitions that have a separate manifest, from the bounds in the manifest list. It is a lower bound."""


@dataclass(frozen=True)
class History:
    """History of a table, with the oldest commit first.

    ``other_changes_ms`` are the times of metadata changes that create no snapshot, such as snapshot expiry or new properties.
    ``notes`` tells users how the import reads the source.
    """

    source: str
    commits: tuple[Commit, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    state: TableState = TableState()
    other_changes_ms: tuple[int, ...] = ()
    expired: bool = False
    """True if snapshots of the table have expired."""
    log_begins_ms: int | None = None
    """Time of the oldest entry of the metadata log, which has 100 entries by default."""
    manifest_list: str | None = None
    """Location of the manifest list of the current snapshot."""
    notes: tuple[str, ...] = ()
    client: str | None = None
    """Protocol that wrote most commits of a Delta table; None for Iceberg."""

    def manifests_at_start(self) -> dict[str, int]:
        """Return the numbers of data and delete manifests at the start of the history, as keys of ``[table]``.

        Snapshot summaries contain numbers of files. The number of files per manifest is assumed to be constant.
        """
        found = {}
        for key, files in (("manifests", "total-data-files"), ("delete_manifests", "total-delete-files")):
            last: int | None = getattr(self.state, key)
            counts = [count for count in (commit.count(files) for commit in self.commits) if count is not None]
            if last is not None and len(counts) > 1 and counts[-1] > 0:
                found[key] = min(round(last * counts[0] / counts[-1]), last)
        return found

    @property
    def span_ms(self) -> int:
        """Time from the first to the last commit, in ms."""
        return self.commits[-1].timestamp_ms - self.commits[0].timestamp_ms if self.commits else 0


def moment(timestamp_ms: float) -> str:
    """Format a timestamp in UTC, or in milliseconds if it is outside of the calendar."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ms:.0f} ms"


_MOST_MS = 253_402_300_799_999  # the year 9999
_NEAR_MS = 2_000
"""Maximum time between the delete and the append of a PyIceberg overwrite."""


def parse_metadata(content: bytes, where: str) -> History:
    """Parse the content of a metadata file, which may be compressed with gzip.

    Raises:
        InputError: If the content is not the metadata of an Iceberg table.
    """
    plain = _decompress(content, where)
    try:
        document = json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {str(error)[:120]}") from None
    if not isinstance(document, dict) or "format-version" not in document:
        raise InputError(f"{where} is not the metadata of an Iceberg table, because it has no format-version")
    version = document["format-version"]
    if version not in (1, 2, 3, 4) or isinstance(version, bool):
        raise InputError(f"{where}: format-version is {version!r}, but must be 1, 2 or 3")
    snapshots = _items(document, "snapshots", where)
    commits = sorted((_commit(item, where) for item in snapshots), key=lambda commit: commit.timestamp_ms)
    updates = _update_times(document, where)
    commits, joined = _join_parts(commits, updates)
    notes = []
    if joined:
        notes.append(
            f"{format_count(joined, 'commit')} created two snapshots, like overwrites of PyIceberg; "
            f"the import counts the two snapshots as one overwrite"
        )
    branches = _branches(document)
    if branches:
        notes.append(
            f"the import counts commits to all branches ({', '.join(['main', *branches])}), because all branches share the commit "
            f"pointer of the table"
        )
    changed = _changes_without_snapshot(commits, updates)
    expired = _lacks_snapshots(document, snapshots)
    if changed and not expired:
        notes.append(
            f"{format_count(len(changed), 'metadata change')} created no snapshot; "
            f"the model omits these changes, because no snapshots have expired"
        )
    return History(
        source=where,
        commits=tuple(commits),
        properties=_properties(document),
        partitioned=_is_partitioned(document),
        state=_state(document, snapshots, len(plain), commits),
        other_changes_ms=changed,
        expired=expired,
        log_begins_ms=updates[0] if updates else None,
        manifest_list=_manifest_list(document, snapshots),
        notes=tuple(notes),
    )


_MOST_BYTES = 512 * 2**20
"""Maximum size of a metadata file, enough for about a million snapshots."""


def _decompress(content: bytes, where: str) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return unpacked(content, _MOST_BYTES)
    except UnreadableError as error:
        raise InputError(f"{where}: {error}") from None


def _items(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"{where}: `{key}` must be a list of objects")
    return value


def _whole(item: Mapping[str, Any], key: str, where: str, most: int) -> int:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InputError(f"{where}: {key} is {str(value)[:60]!r}, but must be a whole number from 0 to {most}")
    return value


def _commit(item: Mapping[str, Any], where: str) -> Commit:
    identity = _whole(item, "snapshot-id", f"{where}: snapshots", 2**63 - 1)
    at = f"{where}: snapshot {identity}"
    summary = item.get("summary") or {}
    if not isinstance(summary, dict):
        raise InputError(f"{at}: summary is {str(summary)[:60]!r}, but must be an object")
    texts = {str(key): str(value) for key, value in summary.items() if isinstance(value, str | int | float)}
    return Commit(identity, _whole(item, "timestamp-ms", at, _MOST_MS), texts.get("operation", ""), texts)


def _update_times(document: Mapping[str, Any], where: str) -> list[int]:
    """Return the timestamps of all metadata files in the metadata log, oldest first."""
    times = [_whole(item, "timestamp-ms", f"{where}: metadata-log", _MOST_MS) for item in _items(document, "metadata-log", where)]
    if "last-updated-ms" in document:
        times.append(_whole(document, "last-updated-ms", where, _MOST_MS))
    return sorted(times)


def _join_parts(commits: list[Commit], updates: list[int]) -> tuple[list[Commit], int]:
    """Combine the delete and the append of a PyIceberg overwrite, which creates two snapshots with one metadata file."""
    made: list[Commit] = []
    joined = 0
    written = set(updates)
    for commit in commits:
        last = made[-1] if made else None
        if (
            last is not None
            and (last.operation, commit.operation) in (("delete", "append"), ("overwrite", "append"))
            and commit.timestamp_ms - last.timestamp_ms <= _NEAR_MS
            and updates
            and updates[0] <= last.timestamp_ms
            and last.timestamp_ms not in written
        ):
            made[-1] = Commit(commit.snapshot_id, commit.timestamp_ms, "overwrite", {**last.summary, **commit.summary})
            joined += 1
        else:
            made.append(commit)
    return made, joined


def _changes_without_snapshot(commits: list[Commit], updates: list[int]) -> tuple[int, ...]:
    """Return the timestamps of metadata files that created no snapshot, after the first commit."""
    if not commits:
        return ()
    taken = {commit.timestamp_ms for commit in commits}
    first = commits[0].timestamp_ms
    return tuple(time for time in updates if time > first and time not in taken)


def _lacks_snapshots(document: Mapping[str, Any], snapshots: list[Mapping[str, Any]]) -> bool:
    """Return whether snapshots have expired, which missing sequence numbers or (in version 1) missing parent snapshots indicate."""
    numbers = {number for item in snapshots if isinstance(number := item.get("sequence-number"), int) and number > 0}
    if numbers:
        last = document.get("last-sequence-number")
        return len(numbers) < max(max(numbers), last if isinstance(last, int) else 0)
    known = {item.get("snapshot-id") for item in snapshots}
    return any(item.get("parent-snapshot-id", -1) not in (None, -1, *known) for item in snapshots)


def _manifest_list(document: Mapping[str, Any], snapshots: list[Mapping[str, Any]]) -> str | None:
    current = document.get("current-snapshot-id")
    lists = [item.get("manifest-list") for item in snapshots if item.get("snapshot-id") == current]
    return lists[0] if lists and isinstance(lists[0], str) else None


def _branches(document: Mapping[str, Any]) -> list[str]:
    refs = document.get("refs")
    if not isinstance(refs, dict):
        return []
    return sorted(
        str(name) for name, ref in refs.items() if name != "main" and isinstance(ref, dict) and ref.get("type") == "branch"
    )


def _properties(document: Mapping[str, Any]) -> dict[str, str]:
    properties = document.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {str(key): str(value) for key, value in properties.items() if isinstance(value, str | int | float | bool)}


def _is_partitioned(document: Mapping[str, Any]) -> bool:
    """Return whether the default partition spec has fields."""
    specs = document.get("partition-specs")
    if isinstance(specs, list):
        chosen = document.get("default-spec-id", 0)
        return any(isinstance(spec, dict) and spec.get("spec-id") == chosen and bool(spec.get("fields")) for spec in specs)
    return bool(document.get("partition-spec"))


def _state(document: Mapping[str, Any], snapshots: list[Mapping[str, Any]], size_bytes: int, commits: list[Commit]) -> TableState:
    per_snapshot = sum(len(json.dumps(item, separators=(",", ":"))) + 1 for item in snapshots) // max(len(snapshots), 1)
    current = document.get("current-snapshot-id")
    last = next((commit for commit in commits if commit.snapshot_id == current), commits[-1] if commits else None)
    kept = None if last is None else last.count("manifests-kept")
    created = None if last is None else last.count("manifests-created")
    return TableState(
        snapshots=len(snapshots),
        manifests=None if kept is None or created is None else kept + created,
        metadata_bytes=max(size_bytes - per_snapshot * len(snapshots), 0),
        metadata_bytes_per_snapshot=per_snapshot,
        data_files=None if last is None else last.count("total-data-files"),
    )
