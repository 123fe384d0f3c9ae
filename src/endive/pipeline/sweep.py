"""Sweeps on Spark: the runs of a plan that are not there yet, the costliest first, cheap ones in chunks.

State is on disk alone: a run is finished when its results are there with their checksum, so a sweep can be killed at any moment and
begun again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endive.pipeline.jobs import cores, watched, without_pandas_warning
from endive.pipeline.tasks import OUTCOME_SCHEMA, SPEC_SCHEMA, simulate_runs
from endive.runs.plan import PlannedRun, SweepPoint, Work
from endive.runs.stored import StoredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_PER_TASK = 2.0
"""A Spark task costs some 50 ms; so much work in each makes that small."""
TASKS_PER_CORE = 4


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    experiment: str
    seed: int
    state: str
    rows: int
    seconds: float
    error: str | None


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


@dataclass
class Watch:
    """How far a sweep has come: told by whoever waits for it."""

    report: Callable[[int, int], None]
    seconds: float = 0.5
    _last: int = field(default=-1, init=False)

    def tell(self, done: int, total: int) -> None:
        """Report, if there is something new."""
        if done != self._last:
            self._last = done
            self.report(done, total)


def run_sweep(
    spark: SparkSession, work: Work, root: Path, *, tasks: int | None = None, watch: Watch | None = None
) -> tuple[Outcome, ...]:
    """Run what is to do on Spark; ``tasks`` sets their number (for tests)."""
    if not work.todo:
        return ()
    chunks = chunked(work.todo, cores(spark)) if tasks is None else _dealt(work.todo, tasks)
    documents = {run.point.experiment: _as_json(run.point) for run in work.todo}
    rows = [
        (number, run.seed, str(root.resolve()), run.point.experiment, documents[run.point.experiment])
        for number, chunk in enumerate(chunks)
        for run in chunk
    ]
    with without_pandas_warning():
        specs = spark.createDataFrame(rows, SPEC_SCHEMA)
        frame = _placed(specs, len(chunks)).mapInArrow(simulate_runs, OUTCOME_SCHEMA)
        collected = _collected(spark, frame, work.todo, root, watch)
    return tuple(Outcome(**row.asDict()) for row in sorted(collected, key=lambda row: (row.experiment, row.seed)))


def _as_json(point: SweepPoint) -> str:
    return json.dumps(point.document.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _dealt(runs: Sequence[PlannedRun], tasks: int) -> list[list[PlannedRun]]:
    return [list(runs[number::tasks]) for number in range(min(tasks, len(runs)))]


def _placed(specs: Any, tasks: int) -> Any:
    """One partition for each task, in order, so that the costliest start first."""
    from pyspark.sql import functions as F  # noqa: N812

    return specs.repartitionById(tasks, F.col("task").cast("int"))


def _collected(spark: SparkSession, frame: Any, todo: Sequence[PlannedRun], root: Path, watch: Watch | None) -> list[Any]:
    """Collect the summary rows, looking meanwhile how many results there are."""
    files = [StoredRun(run.directory(root)).results for run in todo]
    watch = watch or Watch(lambda done, total: None)
    rows: list[Any] = watched(
        spark,
        frame.collect,
        len(files),
        watch.tell,
        finished=lambda: sum(file.exists() for file in files),
        poll_seconds=watch.seconds,
    )
    return rows
