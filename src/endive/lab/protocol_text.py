"""Write an observed commit protocol as a protocol file, and describe its accuracy."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from typing import Any

import tomli_w

from endive.formatting import format_duration
from endive.lab import LabError
from endive.lab.observe import Observation
from endive.lab.observed_steps import ObservedStep, Situation
from endive.protocols.reader import parse_protocol

_CPU_MS = 60.0
"""Longest pause between requests that is attributed to client CPU time instead of backoff, in ms."""
_LONG_MS = 20_000.0
"""Total time of lost attempts above which a timeout may have caused the abort, in ms."""
_DISCOVERING = ("list", "request", "read")
_FIXED = {"operation", "object", "bytes", "count"}
"""Keys of a protocol step with a constant number of requests."""
_ONCE_IF_BEHIND = {"count": 0.995, "per_version_behind": 0.01}
"""Keys of a request that only a stale client makes: 0.995 + 0.01 k, rounded down, is 0 for k = 0 and 1 for k from 1 to 100."""


def protocol_text(observation: Observation, name: str, command: Sequence[str], operation: str) -> str:
    """Return an observed protocol as TOML.

    Args:
        observation: Observed protocol.
        name: Name of the protocol.
        command: Command that was observed.
        operation: Operation of the commits, such as ``fast_append``.

    Raises:
        LabError: If the protocol is invalid.
    """
    retries = observation.retries is None or observation.retries > 0
    phases: dict[str, list[dict[str, Any]]] = {
        "load": list_step_tables(observation.steps["load"], discovers=True),
        "attempt": list_step_tables(observation.steps["attempt"]),
        "after_loss": list_step_tables(observation.steps["after_loss"], discovers=True) if retries else [],
        "after_success": list_step_tables(observation.steps["after_success"]),
    }
    _join_attempts(phases, observation, retries)
    tree: dict[str, Any] = {
        "name": name,
        "version": "",
        "source": f"endive observe -- {shlex.join(command)}",
        "date": datetime.datetime.now(tz=datetime.UTC).date(),
        "status": "observed",
        "description": "\n".join(describe(observation)) + "\n",
        "operations": [operation],
        "commit": {"point": observation.commit_point},
        **{phase: steps for phase, steps in phases.items() if steps},
        "retries": _retries(observation),
    }
    text = tomli_w.dumps(tree, multiline_strings=True)
    from endive.config.errors import ConfigError

    try:
        parse_protocol(text, name, name)
    except ConfigError as error:
        raise LabError(f"the observed protocol is not valid: {error}") from None
    return text


def _join_attempts(phases: dict[str, list[dict[str, Any]]], observation: Observation, retries: bool) -> None:
    """If retries make the same requests as the first attempt, make them repeat its steps; otherwise, separate the steps."""
    first, again = observation.steps["attempt"], observation.steps["after_loss"]
    if first and _are_alike(first, again):
        phases["after_loss"] = []
        mark_discovery(phases["attempt"])
    elif retries:
        for step in phases["attempt"]:
            step["attempts"] = "first"
    if any("per_version_behind" in step for step in phases["attempt"]) and not any(
        step.get("discovers") for step in phases["attempt"]
    ):
        mark_discovery(phases["attempt"])


def _are_alike(first: Sequence[ObservedStep], again: Sequence[ObservedStep]) -> bool:
    """Return whether a retry makes the requests of a first attempt, for every number of stale versions above 0."""
    if [step.token for step in first] != [step.token for step in again]:
        return False
    cases = [Situation(behind, versions) for behind in range(1, 20) for versions in (1, 10, 100)]
    return all(one.predict(case) == other.predict(case) for one, other in zip(first, again, strict=True) for case in cases)


def list_step_tables(steps: Sequence[ObservedStep], *, discovers: bool = False) -> list[dict[str, Any]]:
    """Return the TOML tables of steps. Two steps whose requests overlap in time become pairs of requests."""
    groups = [_tables(step) for step in steps]
    made: list[dict[str, Any]] = []
    while groups:
        step, group = steps[-len(groups)], groups.pop(0)
        paired = _pair(group, groups[0]) if groups and steps[-len(groups)].token in step.beside else None
        if paired is not None:
            group = paired
            groups.pop(0)
        made += group
    if discovers:
        mark_discovery(made)
    return made


def _tables(step: ObservedStep) -> list[dict[str, Any]]:
    """Return the TOML tables of a step, with separate tables for requests that only a stale client makes."""
    verb, kind = step.token
    table: dict[str, Any] = {"operation": verb}
    if kind is not None:
        table["object"] = kind
        if step.size_bytes and verb in ("read", "write"):
            table["bytes"] = step.size_bytes
    if step.parallel and kind is not None:
        table["parallel"] = True
    factors = {name: getattr(step, name) for name in ("per_version_behind", "per_log_entry", "per_attempt")}
    made = [{**table, **_ONCE_IF_BEHIND} for _ in range(round(step.if_behind))]
    if step.count or any(factors.values()):
        own = table | {key: _number(value) for key, value in factors.items() if value}
        if step.count != 1.0 or any(factors.values()):
            own["count"] = _number(step.count)
        made.insert(0, own)
    return made


def _pair(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the TOML tables of two steps with paired requests, or None if their numbers of requests are not constant."""
    both = [*first, *second]
    if len(first) != 1 or len(second) != 1 or any(not table.keys() <= _FIXED or "object" not in table for table in both):
        return None
    numbers = [table.get("count", 1) for table in both]
    if not all(isinstance(number, int) for number in numbers):
        return None
    single = [{key: value for key, value in table.items() if key != "count"} for table in both]
    longer, rest = single[numbers[0] < numbers[1]], abs(numbers[0] - numbers[1])
    pairs = [table for _ in range(min(numbers)) for table in ({**single[0], "with_next": True}, dict(single[1]))]
    return [*pairs, *([longer if rest == 1 else {**longer, "count": rest}] if rest else [])]


def mark_discovery(steps: list[dict[str, Any]]) -> None:
    """Mark the request with which the client learns the current version of the table.

    This is the first list request; without one, the last request to the catalog; otherwise, the first read. The last request to the
    catalog is the load, because clients request the configuration of the catalog before. The marked request becomes a separate
    step.
    """
    for verb in _DISCOVERING:
        places = [place for place, step in enumerate(steps) if step["operation"] == verb and _is_single(steps, place)]
        if not places:
            continue
        place = places[-1] if verb == "request" else places[0]
        step, number = steps[place], steps[place].get("count", 1)
        single = {key: value for key, value in step.items() if key not in ("count", "parallel")}
        rest = [] if number == 1 else [single if number == 2 else {**step, "count": number - 1}]
        found = {**single, "discovers": True}
        steps[place : place + 1] = [*rest, found] if verb == "request" else [found, *rest]
        return


def _is_single(steps: Sequence[dict[str, Any]], place: int) -> bool:
    """Return whether a step always makes at least one request, and its requests do not overlap with those of another step."""
    step = steps[place]
    is_paired = "with_next" in step or (place > 0 and "with_next" in steps[place - 1])
    return not is_paired and not {"per_version_behind", "per_log_entry", "per_attempt"} & step.keys() and step.get("count", 1) >= 1


def _retries(observation: Observation) -> dict[str, Any]:
    limit = observation.retries if observation.retries is not None else 1_000
    found: dict[str, Any] = {"limit": limit}
    waits = [wait for wait in observation.waits_ms if wait > _CPU_MS]
    if limit and len(waits) * 2 > len(observation.waits_ms) and waits:
        base = round(waits[0], 1)
        growth = (waits[-1] / waits[0]) ** (1.0 / (len(waits) - 1)) if len(waits) > 1 else 1.0
        found["backoff"] = {
            "enabled": True,
            "base_ms": base,
            "multiplier": max(1.0, round(growth, 2)),
            "max_ms": round(max(waits), 1),
        }
    return found


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def describe(observation: Observation) -> list[str]:
    """Describe an observed protocol: the observed commits, and which parts of the protocol are exact."""
    rivals = sorted({trial.rivals for trial in observation.trials})
    lines = [
        f"Derived from {len(observation.trials)} commits, with {', '.join(map(str, rivals))} concurrent commits after the load.",
        "Requests for data files are omitted, because they are part of the job.",
    ]
    inexact = [(phase, step) for phase, steps in observation.steps.items() for step in steps if not step.is_exact]
    if not inexact:
        lines.append("Exact: the protocol predicts the number of requests of every kind in every phase of every observed commit.")
    for phase, step in inexact:
        name = " ".join(part for part in step.token if part)
        lines.append(
            f"Not exact: {phase}, {name}: {', '.join(map(str, step.counts))} requests per commit; the step is a least-squares fit."
        )
    if observation.retries is None:
        lines.append("Not exact: the client did not abort within 30 retries; retries.limit is an assumption.")
    elif observation.retries_ms > _LONG_MS:
        elapsed = format_duration(observation.retries_ms)
        lines.append(
            f"Not exact: the client aborted after {observation.retries} retries and {elapsed}. It waited for the concurrent "
            "writers most of this time, so a timeout, and not the maximum number of retries, may have ended them."
        )
    if any(wait > _CPU_MS for wait in observation.waits_ms):
        waits = ", ".join(f"{wait:.0f}" for wait in observation.waits_ms[:12])
        lines.append(f"Not exact: the backoff is fitted to waits of {waits} ms, which include CPU time of the client.")
    lines.append("Not observed: conflicts between operations, checkpoints, timeouts.")
    return lines
