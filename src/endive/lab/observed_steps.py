"""Derive the steps of a protocol from the requests of observed commits.

A step is a number of requests of one kind. This number depends on the versions by which the client is behind, on the versions of
the table, and on lost attempts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import numpy as np

from endive.lab.behavior import object_kind
from endive.lab.exchange import CATALOG
from endive.lab.objects import IF_MATCH
from endive.lab.recording import RecordedRequest, Token, classify
from endive.storage import TABLE_METADATA

ObservedPhase = Literal["load", "attempt", "after_loss", "after_success"]
_TOLERANCE = 1e-6
_OVERLAP_MS = 0.5
"""Minimum overlap of two concurrent requests, in ms."""
_EXPLANATIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("per_version_behind",),
    ("per_log_entry",),
    ("per_attempt",),
    ("if_behind",),
    ("per_version_behind", "per_log_entry"),
    ("per_version_behind", "if_behind"),
    ("per_attempt", "if_behind"),
)
"""Sets of quantities that, together with a constant, may explain a number of requests, the simplest set first."""


@dataclass(frozen=True)
class Trial:
    """Observed commit of a client while other writers commit.

    Attributes:
        place: Time of the concurrent commits: before the client writes its first data file (``data``), or before its first commit
            request (``commit``).
        rivals: Number of concurrent commits.
        versions: Number of versions of the table before the commit.
        requests: Requests of the client, in chronological order.
    """

    place: Literal["data", "commit"]
    rivals: int
    versions: int
    requests: tuple[RecordedRequest, ...]


@dataclass(frozen=True)
class Run:
    """Consecutive requests of one kind.

    ``overlaps`` is True if they overlap in time. ``beside`` contains the other kinds of requests that overlap with them.
    """

    token: Token
    count: int
    size_bytes: int = 0
    overlaps: bool = False
    beside: frozenset[Token] = frozenset()


@dataclass(frozen=True)
class Situation:
    """Facts that determine the number of requests of a client in a phase of its commit.

    Attributes:
        behind: Number of versions by which the client is behind.
        versions: Number of versions of the table.
        losses: Number of lost attempts.
    """

    behind: int = 0
    versions: int = 0
    losses: int = 0


@dataclass(frozen=True)
class ObservedStep:
    """Step of a protocol: a number of requests of one kind.

    The number is ``count`` plus the sum of each factor times its quantity, rounded down. The requests of ``if_behind`` occur only
    if the client is behind. ``beside`` contains the kinds of requests that overlap with this one in time. ``is_exact`` is True if
    the number is correct for every observed commit.
    """

    token: Token
    count: float
    per_version_behind: float = 0.0
    per_log_entry: float = 0.0
    per_attempt: float = 0.0
    if_behind: float = 0.0
    size_bytes: int = 0
    parallel: bool = False
    beside: frozenset[Token] = frozenset()
    is_exact: bool = True
    counts: tuple[int, ...] = ()

    def predict(self, at: Situation) -> int:
        """Return the number of requests in a situation."""
        factors = (
            self.per_version_behind * at.behind,
            self.per_log_entry * at.versions,
            self.per_attempt * at.losses,
            self.if_behind * (at.behind > 0),
        )
        return math.floor(self.count + sum(factors) + _TOLERANCE)


def commit_folder(requests: Iterable[RecordedRequest]) -> str | None:
    """Return the folder of the object that commits create or swap, or None if commits go to a catalog."""
    for each in requests:
        if each.is_commit:
            is_catalog = each.event.service == CATALOG or object_kind(each.event.target) == TABLE_METADATA
            return None if is_catalog else each.event.target.rpartition("/")[0]
    return None


def writes_metadata(operation: str, target: str) -> bool:
    """Return whether a request completes writing an Iceberg metadata file, which precedes a commit to an external catalog."""
    return operation in ("PutObject", "CompleteMultipartUpload") and object_kind(target) == TABLE_METADATA


def mark_metadata(requests: Iterable[RecordedRequest]) -> tuple[RecordedRequest, ...]:
    """Mark writes of metadata files as commits, because the lab cannot observe an external catalog."""
    return tuple(
        replace(each, event=replace(each.event, detail=IF_MATCH))
        if writes_metadata(each.event.operation, each.event.target)
        else each
        for each in requests
    )


def split_phases(trial: Trial, folder: str | None) -> dict[ObservedPhase, list[RecordedRequest]]:
    """Split the requests of a commit into the phases of a protocol, without requests for data files.

    Phases end at the first data file (or, without data files, at the first write) and at each commit request.
    """
    ordered = sorted(trial.requests, key=lambda each: each.time_ms)
    commits = [place for place, each in enumerate(ordered) if each.is_commit]
    if not commits:
        return {}
    tokens = [classify(each.event.operation, each.event.service, each.event.target, folder) for each in ordered]
    first = commits[0]
    writes = [place for place in range(first) if tokens[place][0] == "write"]
    data = next((place for place in writes if tokens[place][1] == "data"), writes[0] if writes else first)

    def between(start: int, end: int) -> list[RecordedRequest]:
        return [ordered[place] for place in range(start, end) if tokens[place][1] != "data"]

    found: dict[ObservedPhase, list[RecordedRequest]] = {"load": between(0, data), "attempt": between(data, first)}
    if len(commits) > 1:
        found["after_loss"] = between(first + 1, commits[1])
    if ordered[commits[-1]].event.status < 400:
        found["after_success"] = between(commits[-1] + 1, len(ordered))
    return found


def group_runs(requests: Sequence[RecordedRequest], folder: str | None) -> list[Run]:
    """Group consecutive requests of the same kind."""
    tokens = [classify(each.event.operation, each.event.service, each.event.target, folder) for each in requests]
    groups: list[tuple[Token, list[int]]] = []
    for place, token in enumerate(tokens):
        if groups and groups[-1][0] == token:
            groups[-1][1].append(place)
        else:
            groups.append((token, [place]))
    return [_run(token, places, requests, tokens) for token, places in groups]


def _run(token: Token, places: Sequence[int], requests: Sequence[RecordedRequest], tokens: Sequence[Token]) -> Run:
    group = [requests[place] for place in places]
    beside = {
        tokens[other]
        for place in places
        for other in range(len(requests))
        if tokens[other] != token and _overlap(requests[place], requests[other])
    }
    overlaps = any(_overlap(before, after) for before, after in pairwise(group))
    return Run(token, len(group), int(median(each.event.size_bytes for each in group)), overlaps, frozenset(beside))


def _overlap(one: RecordedRequest, other: RecordedRequest) -> bool:
    return min(one.end_ms, other.end_ms) - max(one.time_ms, other.time_ms) > _OVERLAP_MS


def fit_steps(runs: Sequence[Sequence[Run]], situations: Sequence[Situation]) -> list[ObservedStep]:
    """Return the steps that explain the numbers of requests of all trials in a phase.

    The order of overlapping requests differs between trials. If no fixed order explains the numbers, the function combines all
    requests of one kind.

    Args:
        runs: Groups of requests in this phase, by trial.
        situations: Situation of the client in this phase, by trial.
    """
    if not runs:
        return []
    ordered = _fit_runs(runs, max(runs, key=len), situations)
    if ordered is not None and all(step.is_exact for step in ordered):
        return ordered
    merged = [_merge(each) for each in runs]
    tokens = list(dict.fromkeys(run.token for each in sorted(merged, key=len, reverse=True) for run in each))
    template = [Run(token, 0) for token in tokens]
    joined = [[run for token in tokens for run in each if run.token == token] for each in merged]
    return _fit_runs(joined, template, situations) or []


def _fit_runs(runs: Sequence[Sequence[Run]], template: Sequence[Run], situations: Sequence[Situation]) -> list[ObservedStep] | None:
    """Return a step for each group of requests in the template, or None if a trial has a different order."""
    aligned = [_align(each, template) for each in runs]
    complete = [each for each in aligned if each is not None]
    if len(complete) < len(aligned):
        return None
    return [_fit_step([each[place] for each in complete], situations) for place in range(len(template))]


def _merge(runs: Sequence[Run]) -> list[Run]:
    groups = [[run for run in runs if run.token == token] for token in dict.fromkeys(run.token for run in runs)]
    return [
        Run(
            group[0].token,
            sum(run.count for run in group),
            int(median(run.size_bytes for run in group)),
            any(run.overlaps for run in group),
            frozenset().union(*(run.beside for run in group)),
        )
        for group in groups
    ]


def _align(runs: Sequence[Run], template: Sequence[Run]) -> list[Run] | None:
    """Return the group of requests for each group in the template, empty if it is missing. Return None if the order differs."""
    place, found = 0, []
    for wanted in template:
        if place < len(runs) and runs[place].token == wanted.token:
            found.append(runs[place])
            place += 1
        else:
            found.append(Run(wanted.token, 0))
    return found if place == len(runs) else None


def _fit_step(runs: Sequence[Run], situations: Sequence[Situation]) -> ObservedStep:
    counts = np.array([run.count for run in runs], np.float64)
    made = [run for run in runs if run.count]
    beside = [token for run in made for token in run.beside]
    solution, is_exact = _explain(counts, situations)
    return ObservedStep(
        token=runs[0].token,
        **{name: max(0.0, value) for name, value in solution.items()},
        size_bytes=int(median(run.size_bytes for run in made)) if made else 0,
        parallel=sum(run.overlaps for run in made) * 2 > len(made),
        beside=frozenset(token for token in beside if beside.count(token) * 2 > len(made)),
        is_exact=is_exact,
        counts=tuple(run.count for run in runs),
    )


def _explain(counts: np.ndarray, situations: Sequence[Situation]) -> tuple[dict[str, Any], bool]:
    """Return the simplest step that explains the numbers of requests, and whether it explains them exactly."""
    behind = np.array([at.behind for at in situations], np.float64)
    columns = {
        "per_version_behind": behind,
        "per_log_entry": np.array([at.versions for at in situations], np.float64),
        "per_attempt": np.array([at.losses for at in situations], np.float64),
        "if_behind": (behind > 0).astype(np.float64),
    }
    for names in _EXPLANATIONS:
        solution = _solve(counts, columns, names)
        predicted = solution["count"] + sum(solution[name] * columns[name] for name in names)
        if np.abs(predicted - counts).max() < _TOLERANCE and min(solution.values()) > -_TOLERANCE:
            return solution, True
    return _solve(counts, columns, ("per_version_behind",)), False


def _solve(counts: np.ndarray, columns: dict[str, np.ndarray], names: tuple[str, ...]) -> dict[str, float]:
    """Return least-squares coefficients with the precision of protocol files."""
    matrix = np.column_stack([np.ones_like(counts), *(columns[name] for name in names)])
    solution, *_ = np.linalg.lstsq(matrix, counts, rcond=None)
    return {name: round(float(value), 4) for name, value in zip(("count", *names), solution, strict=True)}
