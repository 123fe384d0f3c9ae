"""Check of a session for commits whose outcome the client cannot know, and for data that was committed twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from endive.lab.exchange import CATALOG
from endive.lab.recording import RecordedRequest

Problem = Literal["unknown", "repeated"]


@dataclass(frozen=True)
class Finding:
    """A commit whose outcome differs from what its client can know.

    Attributes:
        problem: ``unknown``: the commit took effect, its response was lost, and the client did not send the same snapshot again.
            ``repeated``: after that, the client committed another snapshot that adds as much data: probably the same data twice.
        table: Table.
        client: Client.
        snapshot_id: Snapshot of the commit.
        again: Snapshot that repeats it; None for other problems.

    """

    problem: Problem
    table: str
    client: str
    snapshot_id: int
    again: int | None = None


Summaries = Mapping[int, Mapping[str, str]]
_ADDED = ("operation", "added-records", "added-data-files", "deleted-records", "deleted-data-files")


def check_history(requests: Iterable[RecordedRequest], summaries: Summaries) -> list[Finding]:
    """Return the commits whose outcome their clients cannot know, and those that were committed twice.

    Args:
        requests: Recorded requests.
        summaries: Summaries of all snapshots that took effect, by snapshot.

    """
    own: dict[tuple[str, str], list[RecordedRequest]] = {}
    for each in requests:
        if each.is_commit and each.event.service == CATALOG and each.event.snapshot_id is not None:
            own.setdefault((each.client, each.event.target), []).append(each)
    found = []
    for (client, table), attempts in own.items():
        for place, each in enumerate(attempts):
            snapshot_id = each.event.snapshot_id
            assert snapshot_id is not None
            if each.event.status >= 400:
                continue
            later = [other for other in attempts[place + 1 :] if other.event.outcome != "rejected"]
            if each.event.outcome != "lost" or any(other.event.snapshot_id == snapshot_id for other in later):
                continue
            again = _repetition(snapshot_id, later, summaries)
            found.append(Finding("unknown" if again is None else "repeated", table, client, snapshot_id, again))
    return found


def _repetition(snapshot_id: int, later: Iterable[RecordedRequest], known: Summaries) -> int | None:
    """Return the next snapshot of the client, if it took effect and adds as much data."""
    wanted = known.get(snapshot_id, {})
    for each in later:
        if each.event.status < 400 and each.event.snapshot_id is not None:
            summary = known.get(each.event.snapshot_id, {})
            alike = all(summary.get(key) == wanted.get(key) for key in _ADDED)
            return each.event.snapshot_id if alike else None
    return None


SENTENCES: Mapping[Problem, str] = {
    "unknown": "took effect, but its response was lost: the client cannot know",
    "repeated": "took effect, its response was lost, and the client committed as much data again",
}
"""Description of each problem."""
