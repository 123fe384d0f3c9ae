"""Sweeps on Spark: the runs of a plan that are not there yet, the costliest first, cheap ones in chunks.

What flows in: a plan and a directory. What flows out: experiment directories, and one summary row for each run. State is on disk
alone: a run is finished when its results are there with their checksum, so a sweep can be killed at any moment and begun again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endive.config.build import build_simulation_config
from endive.pipeline.jobs import cores, watched, without_pandas_warning
from endive.pipeline.plan import Plan, Point
from endive.pipeline.tasks import OUTCOME_SCHEMA, SPEC_SCHEMA, run_tasks
from endive.runs.layout import experiment_directory, run_directory
from endive.runs.stored import StoredRun
from endive.simulation import Simulation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_PER_TASK = 2.0
"""A Spark task costs some 50 ms; so much work in each makes that small."""
TASKS_PER_CORE = 4
_CALIBRATION_TRANSACTIONS = 20_000.0
_CALIBRATED_POINTS = 6
_BYTES_PER_ROW = 110.0


@dataclass(frozen=True)
class Run:
    """A point with a seed, and what it is likely to cost."""

    point: Point
    seed: int
    seconds: float = 0.0
    transactions: float = 0.0


@dataclass(frozen=True)
class Work:
    """What a plan still has to do."""

    todo: tuple[Run, ...]
    finished: int
    damaged: tuple[str, ...] = ()
    """Runs whose files were there but not whole."""

    @property
    def seconds(self) -> float:
        """Seconds of one core."""
        return sum(run.seconds for run in self.todo)

    @property
    def transactions(self) -> float:
        """Transactions to simulate."""
        return sum(run.transactions for run in self.todo)

    @property
    def bytes_on_disk(self) -> float:
        """Disk that the results will take."""
        return self.transactions * _BYTES_PER_ROW


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    experiment: str
    seed: int
    state: str
    rows: int
    seconds: float
    error: str | None


def directory_of(point: Point, seed: int, root: Path) -> Path:
    """Where a run is written."""
    return run_directory(experiment_directory(point.document, root), seed)


def look(plan: Plan, root: Path) -> Work:
    """Which runs are finished, by their checksums, and which are still to do."""
    runs = [Run(point, seed) for point in plan.points for seed in plan.seeds]
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as pool:
        found = list(pool.map(lambda run: _state(StoredRun(directory_of(run.point, run.seed, root))), runs))
    todo = tuple(run for run, state in zip(runs, found, strict=True) if state is not None)
    damaged = tuple(
        f"{run.point.experiment}/{run.seed}: {state}" for run, state in zip(runs, found, strict=True) if state not in (None, "")
    )
    return Work(todo, len(runs) - len(todo), damaged)


def _state(stored: StoredRun) -> str | None:
    """None if the run is whole, nothing to say if it was never run, and otherwise what is wrong with it."""
    if not stored.directory.exists():
        return ""
    problem = stored.problem()
    return problem if problem is None or stored.results.exists() else ""


def estimate(work: Work) -> Work:
    """The work with what it is likely to cost, from short runs of a few points on this machine."""
    if not work.todo:
        return work
    expected = {run.point.experiment: run.point.expected_transactions for run in work.todo}
    points = sorted({run.point.experiment: run.point for run in work.todo}.values(), key=lambda p: expected[p.experiment])
    step = max(1, len(points) // _CALIBRATED_POINTS)
    sample = [points[-1], *points[::step][:_CALIBRATED_POINTS]]
    _measure(sample[0])  # the first run may compile
    cost = {point.experiment: _measure(point) for point in sample}
    costliest = max(cost.values())

    def seconds(run: Run) -> float:
        return expected[run.point.experiment] * cost.get(run.point.experiment, costliest)

    todo = tuple(replace(run, seconds=seconds(run), transactions=expected[run.point.experiment]) for run in work.todo)
    return replace(work, todo=todo)


def _measure(point: Point) -> float:
    """Seconds per transaction of a short run."""
    config = build_simulation_config(point.document, seed_override=0)
    share = min(1.0, _CALIBRATION_TRANSACTIONS / max(point.expected_transactions, 1.0))
    rows = 0

    def count(batch: Any) -> None:
        nonlocal rows
        rows += batch.num_rows

    started = time.perf_counter()
    Simulation(replace(config, duration_ms=config.duration_ms * share)).stream(count)
    return (time.perf_counter() - started) / max(rows, 1)


def chunked(runs: Sequence[Run], cores: int) -> list[list[Run]]:
    """Tasks of about equal cost, the costliest runs first: cheap ones share a task."""
    ordered = sorted(runs, key=lambda run: (-run.seconds, run.point.experiment, run.seed))
    total = sum(run.seconds for run in ordered)
    size = max(SECONDS_PER_TASK, min(total / (cores * TASKS_PER_CORE), 10 * SECONDS_PER_TASK))
    tasks: list[list[Run]] = []
    room = 0.0
    for run in ordered:
        if not tasks or room < run.seconds:
            tasks.append([])
            room = size
        tasks[-1].append(run)
        room -= run.seconds
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
        frame = _placed(specs, len(chunks)).mapInArrow(run_tasks, OUTCOME_SCHEMA)
        collected = _collected(spark, frame, work.todo, root, watch)
    return tuple(Outcome(**row.asDict()) for row in sorted(collected, key=lambda row: (row.experiment, row.seed)))


def _as_json(point: Point) -> str:
    return json.dumps(point.document.model_dump(mode="json", exclude_unset=True, exclude_none=True))


def _dealt(runs: Sequence[Run], tasks: int) -> list[list[Run]]:
    return [list(runs[number::tasks]) for number in range(min(tasks, len(runs)))]


def _placed(specs: Any, tasks: int) -> Any:
    """One partition for each task, in order, so that the costliest start first."""
    from pyspark.sql import functions as F  # noqa: N812

    return specs.repartitionById(tasks, F.col("task").cast("int"))


def _collected(spark: SparkSession, frame: Any, todo: Sequence[Run], root: Path, watch: Watch | None) -> list[Any]:
    """Collect the summary rows, looking meanwhile how many results there are."""
    files = [StoredRun(directory_of(run.point, run.seed, root)).results for run in todo]
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
