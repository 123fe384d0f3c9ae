"""An observed client as the text of a protocol file, with what was exact and what was not."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from typing import Any

import tomli_w

from endive.formatting import format_duration
from endive.lab import LabError
from endive.lab.observe import Observation
from endive.lab.observed_steps import ObservedStep
from endive.protocols.reader import parse_protocol

_CPU_MS = 60.0
"""Longest gap between requests that is taken for client CPU time, not for a backoff."""
_LONG_MS = 20_000.0
"""Time of lost attempts from which on a time limit is as likely as a number of retries."""
_DISCOVERING = ("list", "request", "read")


def protocol_text(observation: Observation, name: str, command: Sequence[str], operation: str) -> str:
    """Return the protocol of a client as TOML. Raises LabError if it is no valid protocol.

    Args:
        observation: What was observed.
        name: Name of the protocol.
        command: Command that was observed.
        operation: Operation that the command commits, such as ``fast_append``.

    """
    retries = observation.retries is None or observation.retries > 0
    phases: dict[str, list[dict[str, Any]]] = {
        "load": _steps(observation.steps["load"], discovers=True),
        "attempt": _steps(observation.steps["attempt"]),
        "after_loss": _steps(observation.steps["after_loss"], discovers=True) if retries else [],
        "after_success": _steps(observation.steps["after_success"]),
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
        raise LabError(f"what was observed is no valid protocol: {error}") from None
    return text


def _join_attempts(phases: dict[str, list[dict[str, Any]]], observation: Observation, retries: bool) -> None:
    """Say that each attempt does the same, where a retry was like a first attempt; otherwise the steps are those of the first."""
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
    """Return whether a retry, which is at least one version behind, has the requests of a first attempt."""
    if [step.token for step in first] != [step.token for step in again]:
        return False
    cases = [(rivals, versions) for rivals in range(1, 20) for versions in (1, 10, 100)]
    return all(one.predict(*case) == other.predict(*case) for one, other in zip(first, again, strict=True) for case in cases)


def _steps(steps: Sequence[ObservedStep], *, discovers: bool = False) -> list[dict[str, Any]]:
    made = []
    for step in steps:
        if not any((step.count, step.per_version_behind, step.per_log_entry)):
            continue
        verb, kind = step.token
        table: dict[str, Any] = {"operation": verb}
        if kind is not None:
            table["object"] = kind
            if step.size_bytes and verb in ("read", "write"):
                table["bytes"] = step.size_bytes
        factors = {"per_version_behind": step.per_version_behind, "per_log_entry": step.per_log_entry}
        table |= {key: _number(value) for key, value in factors.items() if value}
        if step.count != 1.0 or len(table.keys() & factors.keys()):
            table["count"] = _number(step.count)
        if step.parallel and kind is not None:
            table["parallel"] = True
        made.append(table)
    if discovers:
        mark_discovery(made)
    return made


def mark_discovery(steps: list[dict[str, Any]]) -> None:
    """Mark the request that shows the current version: the first single list or catalog request, otherwise the first read.

    A run of several such requests is split, because a single one shows the version.
    """
    for verb in _DISCOVERING:
        for place, step in enumerate(steps):
            if step["operation"] != verb or "per_version_behind" in step or "per_log_entry" in step:
                continue
            number = step.get("count", 1)
            if number < 1:
                continue
            single = {key: value for key, value in step.items() if key not in ("count", "parallel")} | {"discovers": True}
            rest = [] if number == 1 else [{**step, "count": number - 1}]
            if rest and rest[0]["count"] == 1:
                del rest[0]["count"]
            steps[place : place + 1] = [single, *rest]
            return


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
    """Return sentences on what was observed, what was exact, and what was not."""
    rivals = sorted({trial.rivals for trial in observation.trials})
    lines = [
        f"Observed in {len(observation.trials)} commits with {', '.join(map(str, rivals))} rival commits between load and commit.",
        "Requests for data files are part of the job and left out.",
    ]
    inexact = [(phase, step) for phase, steps in observation.steps.items() for step in steps if not step.is_exact]
    if not inexact:
        lines.append("Exact: the number of requests of every kind, in every phase of every observed commit.")
    for phase, step in inexact:
        name = " ".join(part for part in step.token if part)
        lines.append(f"Not exact: {phase}, {name}: {', '.join(map(str, step.counts))} requests; the step is a least-squares fit.")
    if observation.retries is None:
        lines.append("Not exact: the client did not abort within 30 retries; retries.limit is an assumption.")
    elif observation.retries_ms > _LONG_MS:
        elapsed = format_duration(observation.retries_ms)
        lines.append(
            f"Not exact: the client aborted after {observation.retries} retries and {elapsed}, most of it for rivals to start;"
            " a time limit of the client may have ended it earlier than its number of retries."
        )
    if any(wait > _CPU_MS for wait in observation.waits_ms):
        waits = ", ".join(f"{wait:.0f}" for wait in observation.waits_ms[:12])
        lines.append(f"Not exact: backoff, fitted to waits of {waits} ms, which include client CPU time.")
    lines.append("Not observed: conflicts of operations, checkpoints, timeouts.")
    return lines
