"""What a table's metadata tells of its past: commits in order, properties, and how large things are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True)
class Commit:
    """One commit: when its snapshot was made, what it did, and what the summary says of it."""

    snapshot_id: int
    timestamp_ms: int
    operation: str
    """Iceberg's word: append, overwrite, delete, replace; empty where the snapshot has none."""
    summary: Mapping[str, str] = field(default_factory=dict)

    def count(self, *keys: str) -> int | None:
        """The first of these keys whose text in the summary is a number, as a number; None if there is none."""
        for key in keys:
            text = self.summary.get(key)
            if text is not None and text.strip().isascii() and text.strip().isdigit() and len(text) < 16:
                return int(text)
        return None

    @property
    def engine(self) -> str:
        """The engine that made it, if it says so."""
        for key, name in (("engine-name", ""), ("spark.app.id", "spark"), ("flink.job-id", "flink"), ("trino_query_id", "trino")):
            if key in self.summary:
                return name or self.summary[key].lower()
        return ""

    @property
    def application(self) -> str:
        """The job that made it, if it says so."""
        for key in ("flink.job-id", "spark.app.id", "app-id", "application", "kafka.connect.group-id", "writer"):
            if key in self.summary:
                return self.summary[key]
        return ""


@dataclass(frozen=True)
class TableState:
    """How large a table and its metadata are at the end of its history; None where nothing tells."""

    snapshots: int | None = None
    manifests: int | None = None
    delete_manifests: int | None = None
    manifest_bytes: int | None = None
    manifest_list_bytes: int | None = None
    metadata_bytes: int | None = None
    metadata_bytes_per_snapshot: int | None = None
    data_files: int | None = None
    partitions: int | None = None
    """Partitions that have a manifest of their own, by the bounds in the manifest list: there are at least so many."""


@dataclass(frozen=True)
class History:
    """The past of a table, oldest commit first.

    ``other_changes_ms`` are times at which metadata changed without a snapshot (expiry, properties). ``notes`` says what was found
    and what the source cannot tell.
    """

    source: str
    commits: tuple[Commit, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    state: TableState = TableState()
    other_changes_ms: tuple[int, ...] = ()
    expired: bool = False
    """Whether snapshots are missing that the table once had."""
    log_begins_ms: int | None = None
    """How far back the log of metadata files goes, which holds a hundred of them by default."""
    manifest_list: str | None = None
    """Where the manifest list of the current snapshot lies."""
    notes: tuple[str, ...] = ()

    def manifests_at_start(self) -> dict[str, int]:
        """How many data and delete manifests the table had when the history begins, as keys of ``[table]``, where it is known.

        Summaries count files; a manifest is taken to hold as many of them then as at the end.
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
        """From the first commit to the last."""
        return self.commits[-1].timestamp_ms - self.commits[0].timestamp_ms if self.commits else 0


def moment(timestamp_ms: float) -> str:
    """A time for people, in UTC; a number outside of the calendar as it is."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ms:.0f} ms"
