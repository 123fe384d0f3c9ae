"""Record every request to the lab as a row of Parquet, and write commit reports for ``endive import`` and ``endive fidelity``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from endive.lab import LabError
from endive.lab.behavior import OTHER, object_kind
from endive.lab.exchange import CATALOG, COMMIT, LOAD, Connection, Event, Request
from endive.lab.objects import IF_MATCH, IF_NONE_MATCH
from endive.output_files import whole_file, write_text

REQUESTS, REPORTS = "requests.parquet", "reports.jsonl"
_MOST_REQUESTS = 5_000_000
_MOST_REPORTS = 200_000
COLUMNS = pa.schema(
    [
        pa.field("time_ms", pa.float64(), nullable=False),
        pa.field("end_ms", pa.float64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("service", pa.string(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("object", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("status", pa.int32(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64()),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("change", pa.string(), nullable=False),
    ]
)
"""Columns of ``requests.parquet``; docs/guides/lab.md describes them."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Request: times in milliseconds since the lab started, client, operation, target and outcome."""

    time_ms: float
    end_ms: float
    client: str
    event: Event

    @property
    def is_commit(self) -> bool:
        """True for commits to the catalog, and for conditional writes to the object store."""
        return self.event.operation == COMMIT if self.event.service == CATALOG else self.event.detail in (IF_NONE_MATCH, IF_MATCH)


def read_requests(path: Path) -> list[RecordedRequest]:
    """Return the requests of a recording.

    Raises:
        LabError: If the file is not a recording of the lab.
    """
    try:
        rows = pq.read_table(path, columns=COLUMNS.names).cast(COLUMNS).to_pylist()
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        raise LabError(f"{path}: not a recording of the lab: {str(error).splitlines()[0]}") from None
    made = []
    for row in rows:
        times = row.pop("time_ms"), row.pop("end_ms"), row.pop("client")
        made.append(RecordedRequest(*times, Event(target=row.pop("object"), **row)))
    return made


class Recording:
    """Requests and reports of a session, in the order of their responses.

    Args:
        name: Function that names the client of a connection.

    """

    def __init__(self, name: Callable[[Connection], str]) -> None:
        self._name = name
        self._rows: list[tuple[float, float, Connection | str, Event]] = []
        self._reports: list[dict[str, Any]] = []
        self._start_s: float | None = None
        self._lock = threading.Lock()
        self.left_out = 0
        """Number of requests that were not recorded because there were too many."""

    def start(self, time_s: float) -> None:
        """Set the event loop time that corresponds to 0 in the recording."""
        self._start_s = time_s

    def record(self, request: Request, event: Event, end_s: float) -> None:
        """Record a request."""
        if self._start_s is None:
            self._start_s = request.arrived_s
        with self._lock:
            if len(self._rows) >= _MOST_REQUESTS:
                self.left_out += 1
                return
            client = request.client or request.connection
            self._rows.append((request.arrived_s - self._start_s, end_s - self._start_s, client, event))

    def report(self, report: dict[str, Any]) -> None:
        """Record a metrics report of a client."""
        with self._lock:
            if len(self._reports) < _MOST_REPORTS:
                self._reports.append(report)

    def requests(self, start: int = 0) -> list[RecordedRequest]:
        """Return the requests so far, from number ``start`` on."""
        with self._lock:
            rows = self._rows[start:]
        return [RecordedRequest(begin * 1e3, end * 1e3, self._named(client), event) for begin, end, client, event in rows]

    def _named(self, client: Connection | str) -> str:
        return client if isinstance(client, str) else self._name(client)

    def reports(self) -> list[dict[str, Any]]:
        """Return the commit reports of clients, and reports derived from the recording for other commits."""
        with self._lock:
            own = list(self._reports)
        known = {report.get("snapshot-id") for report in own}
        observed = summarize_commits(self.requests())
        return own + [_as_report(commit) for commit in observed if commit.snapshot_id not in known and commit.is_committed]

    def write(self, directory: Path) -> tuple[Path, Path | None]:
        """Write requests and reports to a directory; return their paths. Without commits there are no reports."""
        requests = self.requests()
        names = [column for column in COLUMNS.names if column not in ("time_ms", "end_ms", "client", "object")]
        values = {name: [getattr(each.event, name) for each in requests] for name in names}
        values |= {
            "time_ms": [each.time_ms for each in requests],
            "end_ms": [each.end_ms for each in requests],
            "client": [each.client for each in requests],
            "object": [each.event.target for each in requests],
        }
        path, reports = directory / REQUESTS, directory / REPORTS
        with whole_file(path) as temporary:
            pq.write_table(pa.table(values, COLUMNS), temporary)
        lines = [json.dumps(report) for report in self.reports()]
        if not lines:
            reports.unlink(missing_ok=True)
            return path, None
        write_text(reports, "\n".join(lines) + "\n")
        return path, reports


@dataclass(frozen=True)
class ObservedCommit:
    """Commit of a client to a table, which consists of all attempts to commit one snapshot.

    Attributes:
        client: Client that committed.
        table: Table.
        snapshot_id: Snapshot that was to be added.
        operation: Operation of the snapshot, such as ``append``.
        attempts: Number of commit requests.
        conflicts: Number of commit requests that lost the race (409).
        lost: Number of lost responses.
        is_committed: True if one of the attempts took effect.
        metadata_ms: Time of the client's other requests for metadata: loads, manifests, manifest lists.
        commit_ms: Time of the commit requests.
        other_ms: Rest of the duration: client CPU time, backoff, data files.
        duration_ms: Time from the client's first request for metadata of this commit to the last response.

    """

    client: str
    table: str
    snapshot_id: int
    operation: str
    attempts: int
    conflicts: int
    lost: int
    is_committed: bool
    metadata_ms: float
    commit_ms: float
    other_ms: float
    duration_ms: float


def summarize_commits(requests: Iterable[RecordedRequest]) -> list[ObservedCommit]:
    """Return the commits of snapshots to tables of the catalog, ordered by last attempt.

    Both Java and Python clients keep the snapshot identifier across attempts, so that all attempts of a commit have the same
    identifier.
    """
    attempts: dict[int, list[RecordedRequest]] = {}
    metadata: dict[str, list[RecordedRequest]] = {}
    for each in requests:
        if each.is_commit and each.event.service == CATALOG:
            if each.event.snapshot_id is not None:
                attempts.setdefault(each.event.snapshot_id, []).append(each)
        elif each.event.operation == LOAD or (each.event.service != CATALOG and object_kind(each.event.target) != OTHER):
            metadata.setdefault(each.client, []).append(each)
    ended: dict[str, float] = {}
    made = []
    for snapshot_id, own in sorted(attempts.items(), key=lambda item: item[1][-1].end_ms):
        client, last = own[0].client, own[-1]
        before = ended.get(client, 0.0)
        around = [each for each in metadata.get(client, ()) if each.time_ms >= before and each.end_ms <= last.end_ms]
        made.append(_summarize(snapshot_id, own, around))
        ended[client] = last.end_ms
    return made


def _summarize(snapshot_id: int, own: Sequence[RecordedRequest], around: Sequence[RecordedRequest]) -> ObservedCommit:
    first, last = own[0], own[-1]
    start_ms = min(each.time_ms for each in (*own, *around))
    duration_ms = last.end_ms - start_ms
    commit_ms = sum(each.end_ms - each.time_ms for each in own)
    metadata_ms = _covered_ms(around)
    return ObservedCommit(
        client=first.client,
        table=first.event.target,
        snapshot_id=snapshot_id,
        operation=first.event.detail,
        attempts=len(own),
        conflicts=sum(each.event.status == 409 for each in own),
        lost=sum(each.event.outcome == "lost" for each in own),
        is_committed=any(each.event.status < 400 for each in own),
        metadata_ms=metadata_ms,
        commit_ms=commit_ms,
        other_ms=max(0.0, duration_ms - commit_ms - metadata_ms),
        duration_ms=duration_ms,
    )


def _covered_ms(requests: Iterable[RecordedRequest]) -> float:
    """Return the total time during which at least one of the requests was in progress."""
    total, end = 0.0, float("-inf")
    for each in sorted(requests, key=lambda each: each.time_ms):
        total += max(0.0, each.end_ms - max(each.time_ms, end))
        end = max(end, each.end_ms)
    return total


def _as_report(commit: ObservedCommit) -> dict[str, Any]:
    """Return a commit as a commit report of Iceberg."""
    duration = {"count": 1, "time-unit": "nanoseconds", "total-duration": round(commit.duration_ms * 1e6)}
    return {
        "report-type": "commit-report",
        "table-name": commit.table,
        "snapshot-id": commit.snapshot_id,
        "operation": commit.operation,
        "metrics": {"total-duration": duration, "attempts": {"unit": "count", "value": commit.attempts}},
    }


def as_data(commit: ObservedCommit) -> dict[str, Any]:
    """Return a commit as data, for JSON."""
    return asdict(commit)
