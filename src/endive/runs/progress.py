"""How far a study is, from its files alone: which of the runs that it plans have results, and whether anybody is at it.

A sweep writes what it plans before it begins (``endive.runs.study_records``); results appear whole, so that a look at names and
times of files tells all. Nothing is asked of the process that runs it, which may be on another machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from endive.output_files import is_living
from endive.runs.study_records import StudyRecord

State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is. ``seconds_left`` is None until something is done to tell it by, and where nobody is at it."""

    label: str
    done: int
    total: int
    share: float
    """The part of the whole effort that is done."""
    elapsed_seconds: float
    seconds_left: float | None
    state: State


def progress_of(root: Path, record: StudyRecord, now: float) -> StudyProgress:
    """Look at the results of a study. ``now`` is in seconds since the epoch."""
    begun = _seconds(record.started)
    effort = done_effort = fresh = 0.0
    done = total = 0
    last = begun
    for path, cpu_seconds in record.results(root).items():
        cost = max(cpu_seconds, 1e-6)
        total += 1
        effort += cost
        try:
            written = path.stat().st_mtime
        except OSError:
            continue
        done += 1
        done_effort += cost
        fresh += cost if written >= begun - 1.0 else 0.0
        last = max(last, written)
    state: State = "finished" if done == total else "stopped" if is_living(record.writer) is False else "running"
    elapsed = max(0.0, (now if state == "running" else last) - begun)
    left = elapsed * (effort - done_effort) / fresh if state == "running" and fresh > 0.0 else None
    return StudyProgress(record.label, done, total, done_effort / effort if effort else 1.0, elapsed, left, state)


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
