"""Record the requests to the lab, and derive commits, their durations, commit reports, and duplicate commits from them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from endive.lab import LabError
from endive.lab.behavior import OTHER, object_kind
from endive.lab.exchange import CATALOG, COMMIT, LOAD, Connection, Event, Request
from endive.lab.objects import IF_MATCH, IF_NONE_MATCH
from endive.output_files import whole_file, write_text
from endive.storage import MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA
from endive.transaction.protocol_path import StepObject, StepOperation

REQUESTS, REPORTS = "requests.parquet", "reports.jsonl"
_MOST_REQUESTS = 5_000_000
_MOST_REPORTS = 200_000
_OPERATIONS: tuple[tuple[str, StepOperation], ...] = (
    ("List", "list"),
    ("Get", "read"),
    ("Head", "read"),
    ("Delete", "delete"),
    ("Abort", "delete"),
)
_OBJECTS: dict[str, StepObject] = {TABLE_METADATA: "metadata", MANIFEST_LIST: "log", MANIFEST_FILE: "manifest"}
_DATA = (".parquet", ".orc", ".lance", ".vortex", ".arrow", ".csv")
Token = tuple[StepOperation, StepObject | None]
COLUMNS = pa.schema(
    [
        pa.field(name, kind, nullable=name == "snapshot_id")
        for kind, names in (
            (pa.float64(), ("time_ms", "end_ms")),
            (pa.string(), ("client", "service", "operation", "object")),
            (pa.int64(), ("version", "size_bytes")),
            (pa.int32(), ("status",)),
            (pa.string(), ("outcome",)),
            (pa.int64(), ("snapshot_id",)),
            (pa.string(), ("detail", "change")),
        )
        for name in names
    ]
)
"""Columns of ``requests.parquet``; ``docs/guides/lab.md`` describes each column."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Request to the lab: times of arrival and response in ms since the start of the lab, client, operation, object and outcome."""

    time_ms: float
    end_ms: float
    client: str
    event: Event

    @property
    def is_commit(self) -> bool:
        """True for commits to the catalog, and for conditional writes to the object store."""
        return self.event.operation == COMMIT if self.event.service == CATALOG else self.event.detail in (IF_NONE_MATCH, IF_MATCH)


def classify(operation: str, service: str, target: str, folder: str | None) -> Token:
    """Return the operation and the kind of object of a request, in the terms of protocol steps.

    Args:
        operation: Operation in the recording.
        service: Server that received the request.
        target: Object or table.
        folder: Folder of the log, if commits create or swap objects in the object store.
    """
    if service == CATALOG:
        return "request", None
    verb: StepOperation = next((name for prefix, name in _OPERATIONS if operation.startswith(prefix)), "write")
    name = target.rpartition("/")[2].lower()
    if verb == "list":
        return verb, "log" if folder is not None and f"{target}/".startswith(folder) else "metadata"
    kind = _OBJECTS.get(object_kind(target))
    if kind is not None and folder is None:
        return verb, kind
    if "checkpoint" in name:
        return verb, "checkpoint"
    if folder is not None and target.rpartition("/")[0] == folder:
        return verb, "log"
    return verb, "data" if name.endswith(_DATA) else "manifest"


def read_requests(path: Path) -> list[RecordedRequest]:
    """Read the requests of a recording.

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
    """Requests and metrics reports of a lab session, in the order of the responses.

    Args:
        name: Function that returns the name of the client of a connection.
    """

    def __init__(self, name: Callable[[Connection], str]) -> None:
        self._name = name
        self._rows: list[tuple[float, float, Connection | str, Event]] = []
        self._reports: list[dict[str, Any]] = []
        self._start_s: float | None = None
        self._lock = threading.Lock()
        self.left_out = 0
        """Number of requests that exceed the maximum size of the recording."""

    def start(self, time_s: float) -> None:
        """Set the time of the event loop at which the recording starts."""
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
        """Record a metrics report that a client has sent."""
        with self._lock:
            if len(self._reports) < _MOST_REPORTS:
                self._reports.append(report)

    def requests(self, start: int = 0) -> list[RecordedRequest]:
        """Return the recorded requests, starting with number ``start``."""
        with self._lock:
            rows = self._rows[start:]
        return [
            RecordedRequest(begin * 1e3, end * 1e3, client if isinstance(client, str) else self._name(client), event)
            for begin, end, client, event in rows
        ]

    def reports(self) -> list[dict[str, Any]]:
        """Return the commit reports that clients have sent, and derived reports for all other commits."""
        with self._lock:
            own = list(self._reports)
        known = {report.get("snapshot-id") for report in own}
        observed = summarize_commits(self.requests())
        return own + [_as_report(commit) for commit in observed if commit.snapshot_id not in known and commit.is_committed]

    def write(self, directory: Path) -> tuple[Path, Path | None]:
        """Write the requests and, if there are commits, the commit reports to a directory. Return the paths."""
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
    """Commit of a client to a table, with all attempts to commit the same snapshot.

    Attributes:
        client: Client.
        table: Table.
        snapshot_id: Id of the snapshot.
        operation: Operation of the snapshot, such as ``append``.
        attempts: Number of commit requests.
        conflicts: Number of commit requests that lost the race (status 409).
        lost: Number of lost responses.
        is_committed: True if an attempt took effect.
        metadata_ms: Duration of the client's other requests for metadata (loads, manifests, manifest lists), in ms.
        commit_ms: Duration of the commit requests, in ms.
        other_ms: Remaining time (client CPU time, backoff, data files), in ms.
        duration_ms: Time from the client's first request for metadata to the last response, in ms.
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
    """Return the commits to tables of the catalog, ordered by their last attempts.

    Java and Python clients keep the snapshot id when they retry, so this id identifies all attempts of a commit.
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
    """Return the time during which at least one of the requests was in progress, in ms."""
    total, end = 0.0, float("-inf")
    for each in sorted(requests, key=lambda each: each.time_ms):
        total += max(0.0, each.end_ms - max(each.time_ms, end))
        end = max(end, each.end_ms)
    return total


def _as_report(commit: ObservedCommit) -> dict[str, Any]:
    """Return a commit in the format of Iceberg's commit reports."""
    duration = {"count": 1, "time-unit": "nanoseconds", "total-duration": round(commit.duration_ms * 1e6)}
    return {
        "report-type": "commit-report",
        "table-name": commit.table,
        "snapshot-id": commit.snapshot_id,
        "operation": commit.operation,
        "metrics": {"total-duration": duration, "attempts": {"unit": "count", "value": commit.attempts}},
    }


Problem = Literal["unknown", "repeated"]


@dataclass(frozen=True)
class Finding:
    """Commit whose response was lost, and whose outcome the client does not know or has misjudged.

    Attributes:
        problem: ``unknown`` if the client did not send the commit again; ``repeated`` if the client committed the same data again
            (in a catalog, the same amount of data in a different snapshot).
        table: Table of the catalog, or folder of the objects that commits create or swap.
        client: Client.
        commit: Snapshot, or name and version of the object.
        again: Second commit of the same data; None for an unknown outcome.
    """

    problem: Problem
    table: str
    client: str
    commit: str
    again: str | None = None

    @property
    def sentence(self) -> str:
        """Description of the problem for users."""
        return f"{self.table}, {self.client}: {self.commit} {_SENTENCES[self.problem]}" + (
            f", as {self.again}" if self.again else ""
        )


_SENTENCES: Mapping[Problem, str] = {
    "unknown": "took effect, but its response was lost, so the client does not know the outcome",
    "repeated": "took effect, its response was lost, and the client committed the same amount of data again",
}


@dataclass(frozen=True)
class _Attempt:
    """Commit request. ``has_new_data`` is True if the client has written data files since its previous commit request."""

    request: RecordedRequest
    has_new_data: bool

    @property
    def name(self) -> str:
        event = self.request.event
        if event.service == CATALOG:
            return f"snapshot {event.snapshot_id}"
        return f"{event.target.rpartition('/')[2]} (version {event.version})"

    @property
    def took_effect(self) -> bool:
        return self.request.event.status < 400


def check_history(requests: Iterable[RecordedRequest]) -> list[Finding]:
    """Return the commits whose outcome the client does not know, and the commits that the client made twice."""
    found = []
    for (client, table), attempts in _attempts(requests).items():
        for place, each in enumerate(attempts):
            if not each.took_effect or each.request.event.outcome != "lost":
                continue
            later = [other for other in attempts[place + 1 :] if other.request.event.outcome != "rejected"]
            again = _find_repetition(each, later)
            if again is not None:
                found.append(Finding("repeated", table, client, each.name, again.name))
            elif not any(_is_same(each, other) for other in later):
                found.append(Finding("unknown", table, client, each.name))
    return found


def _attempts(requests: Iterable[RecordedRequest]) -> dict[tuple[str, str], list[_Attempt]]:
    """Return the commit requests by client and table, in chronological order."""
    found: dict[tuple[str, str], list[_Attempt]] = {}
    writers: set[str] = set()
    for each in sorted(requests, key=lambda request: request.time_ms):
        event, client = each.event, each.client
        if event.service == CATALOG:
            if each.is_commit and event.snapshot_id is not None:
                found.setdefault((client, event.target), []).append(_Attempt(each, client in writers))
                writers.discard(client)
        elif each.is_commit:
            found.setdefault((client, event.target.rpartition("/")[0]), []).append(_Attempt(each, client in writers))
            writers.discard(client)
        elif event.status < 400 and classify(event.operation, event.service, event.target, None) == ("write", "data"):
            writers.add(client)
    return found


def _find_repetition(lost: _Attempt, later: Sequence[_Attempt]) -> _Attempt | None:
    """Return the next successful commit of the client if it contains the data of a commit whose response was lost."""
    event = lost.request.event
    if event.service == CATALOG:
        following = next((other for other in later if other.took_effect), None)
        if following is None or any(_is_same(lost, other) for other in later):
            return None
        other = following.request.event
        return following if (other.detail, other.change) == (event.detail, event.change) else None
    for following in later:
        if following.has_new_data:
            return None
        if following.took_effect:
            return following
    return None


def _is_same(one: _Attempt, other: _Attempt) -> bool:
    """Return whether two requests commit the same snapshot or object, so that the second response shows the first outcome."""
    ours, theirs = one.request.event, other.request.event
    return (ours.snapshot_id, ours.target) == (theirs.snapshot_id, theirs.target)
