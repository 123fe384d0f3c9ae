"""Sweeps on Spark: the runs of a plan that are not there yet, the costliest first, cheap ones in chunks.

State is on disk alone: a run is finished when its results are there with their checksum, so a sweep can be killed at any moment and
begun again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endive.pipeline.jobs import cores, repartition_by_task, run_with_progress
from endive.pipeline.tasks import OUTCOME_SCHEMA, SPECS, simulate_runs
from endive.runs.outcome import Outcome, run_ahead
from endive.runs.plan import PlannedRun, SweepPoint, Work
from endive.runs.stored import StoredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from endive.pipeline.session import StartingSession

SECONDS_PER_TASK = 2.0
"""A Spark task costs some 50 ms; so much work in each makes that small."""
TASKS_PER_CORE = 4


def chunked(runs: Sequence[PlannedRun], cores: int) -> list[list[PlannedRun]]:
    """Tasks of about equal cost, the costliest runs first: cheap ones share a task."""
    ordered = sorted(runs, key=lambda run: (-run.effort.cpu_seconds, run.point.experiment, run.seed))
    total = sum(run.effort.cpu_seconds for run in ordered)
    size = max(SECONDS_PER_TASK, min(total / (cores * TASKS_PER_CORE), 10 * SECONDS_PER_TASK))
    tasks: list[list[PlannedRun]] = []
    room = 0.0
    for run in ordered:
        if not tasks or room < run.effort.cpu_seconds:
            tasks.append([])
            room = size
        tasks[-1].append(run)
        room -= run.effort.cpu_seconds
    return tasks


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come: runs, and the share of the whole effort that is done."""

    done: int
    total: int
    share: float


class Watch:
    """Looks every so many ``seconds`` which runs of a work have results, and reports it."""

    def __init__(self, work: Work, root: Path, report: Callable[[Progress], None], seconds: float = 0.5) -> None:
        self.seconds = seconds
        self._report = report
        self._total = len(work.todo)
        self._effort = max(work.effort.cpu_seconds, 1e-9)
        self._pending = {StoredRun(run.directory(root)).results: run.effort.cpu_seconds for run in work.todo}

    def look(self) -> None:
        """Look and report."""
        for file in [file for file in self._pending if file.exists()]:
            del self._pending[file]
        share = 1.0 - sum(self._pending.values()) / self._effort
        self._report(Progress(self._total - len(self._pending), self._total, share))


def run_study(starting: StartingSession, work: Work, root: Path, *, watch: Watch | None = None) -> tuple[Outcome, ...]:
    """Run what is to do on Spark; where that is this machine, quick runs are run here while it comes up."""
    begun: list[Outcome] = []
    if work.todo and starting.is_local:
        starting.begin()
        begun, work = run_ahead(work, root, lambda: starting.is_up, watch.look if watch else lambda: None)
    outcomes = run_sweep(starting.get(), work, root, watch=watch) if work.todo else ()
    return tuple(sorted((*begun, *outcomes), key=lambda outcome: (outcome.experiment, outcome.seed)))


def run_sweep(
    spark: SparkSession, work: Work, root: Path, *, tasks: int | None = None, watch: Watch | None = None
) -> tuple[Outcome, ...]:
    """Run what is to do on Spark; ``tasks`` sets their number (for tests)."""
    if not work.todo:
        return ()
    chunks = chunked(work.todo, cores(spark)) if tasks is None else _dealt(work.todo, tasks)
    documents = {run.point.experiment: _as_json(run.point) for run in work.todo}
    rows = [
        {
            "task": number,
            "seed": run.seed,
            "root": str(root.resolve()),
            "experiment": run.point.experiment,
            "document": documents[run.point.experiment],
        }
        for number, chunk in enumerate(chunks)
        for run in chunk
    ]
    frame = repartition_by_task(spark, pa.Table.from_pylist(rows, SPECS), len(chunks)).mapInArrow(simulate_runs, OUTCOME_SCHEMA)
    collected = _collected(spark, frame, watch)
    return tuple(Outcome(**row.asDict()) for row in sorted(collected, key=lambda row: (row.experiment, row.seed)))


def _as_json(point: SweepPoint) -> str:
    return json.dumps(point.document.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _dealt(runs: Sequence[PlannedRun], tasks: int) -> list[list[PlannedRun]]:
    return [list(runs[number::tasks]) for number in range(min(tasks, len(runs)))]


def _collected(spark: SparkSession, frame: Any, watch: Watch | None) -> list[Any]:
    """Collect the summary rows, looking meanwhile how many results there are."""
    if watch is None:
        rows: list[Any] = run_with_progress(spark, frame.collect, 0, None)
        return rows
    rows = run_with_progress(spark, frame.collect, 0, lambda *_: watch.look(), finished=lambda: 0, poll_seconds=watch.seconds)
    watch.look()
    return rows
