"""Requests of a client as steps of a protocol: their kinds, their phases, and how their number depends on the versions behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

import numpy as np

from endive.lab.behavior import object_kind
from endive.lab.exchange import CATALOG
from endive.lab.recording import RecordedRequest
from endive.storage import MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA
from endive.transaction.protocol import StepObject, StepOperation

ObservedPhase = Literal["load", "attempt", "after_loss", "after_success"]
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
_TOLERANCE = 1e-6
_ALMOST_ONE, _ONCE = 0.995, 0.01
"""A request that a client makes once if it is behind at all: 0.995 + 0.01 k, rounded down, is 0 for k = 0 and 1 up to k = 100."""


@dataclass(frozen=True)
class Trial:
    """One observed commit: versions of the table before it, rivals that came between, and its requests in order.

    ``place`` is where the rivals came: ``data`` before the first data file was written, ``commit`` before the first commit request.
    """

    place: Literal["data", "commit"]
    rivals: int
    versions: int
    requests: tuple[RecordedRequest, ...]


@dataclass(frozen=True)
class Run:
    """Consecutive requests of one kind: their number, median size, and whether they overlapped in time."""

    token: Token
    count: int
    size_bytes: int = 0
    overlaps: bool = False


@dataclass(frozen=True)
class ObservedStep:
    """Step of a phase: its number of requests is ``count + per_version_behind * k + per_log_entry * v``, rounded down.

    ``is_exact`` is True if that is the number in every trial.
    """

    token: Token
    count: float
    per_version_behind: float
    per_log_entry: float
    size_bytes: int
    parallel: bool
    is_exact: bool
    counts: tuple[int, ...]

    def predict(self, rivals: int, versions: int) -> int:
        """Return the number of requests of a client that is ``rivals`` versions behind, on a table of ``versions`` versions."""
        return math.floor(self.count + self.per_version_behind * rivals + self.per_log_entry * versions + _TOLERANCE)


def commit_folder(requests: Iterable[RecordedRequest]) -> str | None:
    """Return the folder of the object that a conditional write creates or swaps; None if commits go to the catalog."""
    for each in requests:
        if each.is_commit:
            return None if each.event.service == CATALOG else each.event.target.rpartition("/")[0]
    return None


def classify(operation: str, service: str, target: str, folder: str | None) -> Token:
    """Return operation and kind of object of a request, by the name of its object."""
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


def split_phases(trial: Trial, folder: str | None) -> dict[ObservedPhase, list[RecordedRequest]]:
    """Split the requests of a trial at the first data file and at its commit requests; requests for data are left out."""
    ordered = sorted(trial.requests, key=lambda each: each.time_ms)
    commits = [place for place, each in enumerate(ordered) if each.is_commit]
    if not commits:
        return {}
    tokens = [classify(each.event.operation, each.event.service, each.event.target, folder) for each in ordered]
    first = commits[0]
    data = next((place for place in range(first) if tokens[place] == ("write", "data")), first)

    def between(start: int, end: int) -> list[RecordedRequest]:
        return [ordered[place] for place in range(start, end) if tokens[place][1] != "data"]

    found: dict[ObservedPhase, list[RecordedRequest]] = {"load": between(0, data), "attempt": between(data, first)}
    if len(commits) > 1:
        found["after_loss"] = between(first + 1, commits[1])
    found["after_success"] = between(commits[-1] + 1, len(ordered))
    return found


def group_runs(requests: Sequence[RecordedRequest], folder: str | None) -> list[Run]:
    """Join consecutive requests of one kind."""
    groups: list[tuple[Token, list[RecordedRequest]]] = []
    for each in requests:
        token = classify(each.event.operation, each.event.service, each.event.target, folder)
        if groups and groups[-1][0] == token:
            groups[-1][1].append(each)
        else:
            groups.append((token, [each]))
    return [_run(token, group) for token, group in groups]


def _run(token: Token, group: Sequence[RecordedRequest]) -> Run:
    overlaps = any(after.time_ms < before.end_ms - 0.5 for before, after in pairwise(group))
    return Run(token, len(group), int(median(each.event.size_bytes for each in group)), overlaps)


def fit_steps(runs: Sequence[Sequence[Run]], rivals: Sequence[int], versions: Sequence[int]) -> list[ObservedStep]:
    """Return the steps whose numbers of requests explain those of all trials.

    Args:
        runs: Runs of a phase, by trial.
        rivals: Versions that the client was behind in that phase, by trial.
        versions: Versions of the table before the trial.

    """
    if not runs:
        return []
    template = max(runs, key=len)
    aligned = [_align(each, template) for each in runs]
    if any(each is None for each in aligned):  # another order of requests: join all of one kind
        merged = [_merge(each) for each in runs]
        tokens = list(dict.fromkeys(run.token for each in merged for run in each))
        template = [Run(token, 0) for token in tokens]
        aligned = [_align([run for token in tokens for run in each if run.token == token], template) for each in merged]
    complete = [each for each in aligned if each is not None]
    return [_fit_step([each[place] for each in complete], rivals, versions) for place in range(len(template))]


def _merge(runs: Sequence[Run]) -> list[Run]:
    tokens = dict.fromkeys(run.token for run in runs)
    groups = [[run for run in runs if run.token == token] for token in tokens]
    return [
        Run(group[0].token, sum(run.count for run in group), group[0].size_bytes, any(run.overlaps for run in group))
        for group in groups
    ]


def _align(runs: Sequence[Run], template: Sequence[Run]) -> list[Run] | None:
    """Return a run for each of the template, with no requests where there is none; None if the order differs."""
    place, found = 0, []
    for wanted in template:
        if place < len(runs) and runs[place].token == wanted.token:
            found.append(runs[place])
            place += 1
        else:
            found.append(Run(wanted.token, 0))
    return found if place == len(runs) else None


def _fit_step(runs: Sequence[Run], rivals: Sequence[int], versions: Sequence[int]) -> ObservedStep:
    counts = np.array([run.count for run in runs], np.float64)
    columns = {"per_version_behind": np.array(rivals, np.float64), "per_log_entry": np.array(versions, np.float64)}
    best, is_exact = _solve(counts, columns, ("per_version_behind",)), False
    behind = columns["per_version_behind"] > 0
    if np.array_equal(counts, counts.min() + behind) and behind.any():
        best, is_exact = {"count": counts.min() + _ALMOST_ONE, "per_version_behind": _ONCE}, True
    for names in ((), ("per_version_behind",), ("per_log_entry",), ("per_version_behind", "per_log_entry")):
        solution = _solve(counts, columns, names)
        predicted = solution["count"] + sum(solution[name] * columns[name] for name in names)
        if np.abs(predicted - counts).max() < _TOLERANCE and min(solution.values()) > -_TOLERANCE:
            best, is_exact = solution, True
            break
    made = [run for run in runs if run.count]
    return ObservedStep(
        token=runs[0].token,
        count=max(0.0, best["count"]),
        per_version_behind=max(0.0, best.get("per_version_behind", 0.0)),
        per_log_entry=max(0.0, best.get("per_log_entry", 0.0)),
        size_bytes=int(median(run.size_bytes for run in made)) if made else 0,
        parallel=sum(run.overlaps for run in made) * 2 > len(made),
        is_exact=is_exact,
        counts=tuple(run.count for run in runs),
    )


def _solve(counts: np.ndarray, columns: dict[str, np.ndarray], names: tuple[str, ...]) -> dict[str, float]:
    """Return the least-squares coefficients, rounded to what a protocol file can say."""
    matrix = np.column_stack([np.ones_like(counts), *(columns[name] for name in names)])
    solution, *_ = np.linalg.lstsq(matrix, counts, rcond=None)
    return {name: round(float(value), 4) for name, value in zip(("count", *names), solution, strict=True)}
