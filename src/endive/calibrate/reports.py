"""Read commit reports of Iceberg's reporters and REST catalogs: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endive.calibrate import InputError
from endive.input_files import UnreadableError, in_short, read_content, unpacked

_MOST_BYTES = 512 * 2**20
_MOST_ATTEMPTS = 10**6
MOST_FAILED = 0.97
"""Maximum assumed fraction of failed operations."""
_UNITS_MS = {"nanoseconds": 1e-6, "microseconds": 1e-3, "milliseconds": 1.0, "seconds": 1e3}


@dataclass(frozen=True)
class CommitReport:
    """A client's report of a successful commit: its attempts and its duration."""

    snapshot_id: int | None
    operation: str
    attempts: int
    duration_ms: float


def read_reports(path: Path) -> tuple[CommitReport, ...]:
    """Read commit reports and skip reports of other kinds. Raises InputError."""
    try:
        content = read_content(path, _MOST_BYTES)
        text = (unpacked(content, _MOST_BYTES) if content[:2] == b"\x1f\x8b" else content).decode()
    except (OSError, UnicodeDecodeError, UnreadableError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    made = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}: line {number} is not JSON; a file of commit reports has one JSON object per line") from None
        made.append(_report(report, f"{path}: line {number}"))
    found = tuple(report for report in made if report is not None)
    if not found:
        raise InputError(f"{path} has no commit report (an object with metrics of total-duration and attempts)")
    return found


def _report(report: Any, where: str) -> CommitReport | None:
    if isinstance(report, dict) and isinstance(report.get("report"), dict):
        report = report["report"]
    if not isinstance(report, dict) or not isinstance(report.get("metrics"), dict) or "total-duration" not in report["metrics"]:
        return None
    metrics = report["metrics"]
    try:
        timer = metrics["total-duration"]
        duration = float(timer["total-duration"]) * _UNITS_MS[timer.get("time-unit", "nanoseconds")]
        attempts = int((metrics.get("attempts") or {"value": 1})["value"])
        identity = report.get("snapshot-id")
        if identity is not None and not -(2**63) <= int(identity) < 2**63:
            raise ValueError("a snapshot-id has 64 bits")
        found = CommitReport(None if identity is None else int(identity), str(report.get("operation", "")), attempts, duration)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{where} is not a commit report: {type(error).__name__} {in_short(str(error))}") from None
    if not 1 <= found.attempts <= _MOST_ATTEMPTS or not 0.0 <= found.duration_ms < 1e12:
        raise InputError(f"{where}: {in_short(str(found.attempts))} attempts in {found.duration_ms} ms cannot be")
    return found


def estimate_failing_share(attempts: Sequence[int], most: int) -> float:
    """Estimate the fraction of operations that exhausted their attempts, if each attempt fails with the same probability.

    Only successes are reported, so the number of attempts has a geometric distribution truncated at ``most``. The fraction is the
    posterior mean for a uniform prior of the failure probability of an attempt, so that a dozen reports with many attempts do not
    imply that nearly all operations fail.
    """
    if not attempts:
        return 0.0
    lost = (np.arange(2_000) + 0.5) / 2_000
    won_at_all = (1.0 - lost**most) / (1.0 - lost)
    likelihood = (sum(attempts) - len(attempts)) * np.log(lost) - len(attempts) * np.log(won_at_all)
    weights = np.exp(likelihood - likelihood.max())
    return min(float((weights * lost**most).sum() / weights.sum()), MOST_FAILED)
