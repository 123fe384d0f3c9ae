"""Check a session for commits whose outcome is unknown to the client, and for duplicate commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from endive.lab.exchange import CATALOG
from endive.lab.observed_steps import classify
from endive.lab.recording import RecordedRequest

Problem = Literal["unknown", "repeated"]


@dataclass(frozen=True)
class Finding:
    """Commit whose outcome the client does not know, or duplicate commit.

    Attributes:
        problem: ``unknown``: the commit took effect, its response was lost, and the client did not send the same snapshot again.
            ``repeated``: after that, the client committed the same data again; in a catalog, the same amount of data in another
            snapshot.
        table: Table of the catalog, or folder of the objects that commits create or swap.
        client: Client.
        commit: Snapshot, or name and version of the object.
        again: Commit that repeats this commit; None for other problems.

    """

    problem: Problem
    table: str
    client: str
    commit: str
    again: str | None = None

    @property
    def sentence(self) -> str:
        """Description of the finding."""
        return f"{self.table}, {self.client}: {self.commit} {_SENTENCES[self.problem]}" + (f": {self.again}" if self.again else "")


_SENTENCES: Mapping[Problem, str] = {
    "unknown": "took effect, but its response was lost, so the client does not know the outcome",
    "repeated": "took effect, its response was lost, and the client committed the same amount of data again",
}


@dataclass(frozen=True)
class _Attempt:
    """A commit request, and whether the client wrote data files since its previous commit request."""

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
    """Return the commits whose outcome is unknown to the client, and the duplicate commits."""
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
    """Return the commit requests of each client to each table, in order."""
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
    """Return the client's next successful commit if it repeats the lost one: it adds no new files, or the same amount of data."""
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
    """Return whether both requests commit the same snapshot or object, so that the client learns the outcome of the first."""
    ours, theirs = one.request.event, other.request.event
    return (ours.snapshot_id, ours.target) == (theirs.snapshot_id, theirs.target)
