"""Run sweeps on Spark: the unfinished runs of a plan, the costliest first, cheap ones in chunks.

All state is on disk: a run is finished when its results exist with their checksum, so a sweep can be killed at any time and started
again. Tasks write results to files; results never pass through Spark. A run that fails is reported with its error, and the other
runs of its task continue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import TypeAdapter

from endive.config.components import allow_code
from endive.config.schema import Document
from endive.pipeline.jobs import LocalThreads, cores, read_specs, run_tasks
from endive.runs.execute import Outcome, complete_run
from endive.runs.plan import PlannedRun, Work
from endive.runs.stored import StoredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_PER_TASK = 2.0
"""Smallest work of a task; the overhead of a Spark task is about 50 ms."""
TASKS_PER_CORE = 4
_OUTCOME_DDL = "experiment string, seed long, state string, rows long, seconds double, error string"
_OUTCOME_SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("seed", pa.int64()),
        ("state", pa.string()),
        ("rows", pa.int64()),
        ("seconds", pa.float64()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run of a sweep for a task.

    Attributes:
        document: The configuration as JSON.
        experiment: Hash of the experiment, as the plan computed it.
    """

    root: str
    document: str
    experiment: str
    seed: int


_SPEC = TypeAdapter(RunSpec)


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep: finished runs, and their share of the total cost."""

    done: int
    total: int
    share: float


class ProgressMonitor:
    """Counts the runs of a work that have results, and reports them."""

    def __init__(self, work: Work, root: Path, report: Callable[[Progress], None]) -> None:
        self._report = report
        self._total = len(work.todo)
        self._effort = max(work.effort.cpu_seconds, 1e-9)
        self._pending = {StoredRun(run.directory(root)).results: run.effort.cpu_seconds for run in work.todo}

    def update(self) -> None:
        """Count the results that have appeared, and report."""
        for file in [file for file in self._pending if file.exists()]:
            del self._pending[file]
        share = 1.0 - sum(self._pending.values()) / self._effort
        self._report(Progress(self._total - len(self._pending), self._total, share))


def divide_runs(runs: Sequence[PlannedRun], cores: int) -> list[list[PlannedRun]]:
    """Divide runs into tasks of about equal cost, the costliest runs first; cheap ones share a task."""
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


def run_sweep(
    spark: SparkSession | LocalThreads,
    work: Work,
    root: Path,
    *,
    tasks: int | None = None,
    monitor: ProgressMonitor | None = None,
) -> tuple[Outcome, ...]:
    """Run the unfinished runs of a plan.

    Args:
        spark: Session that runs it, or threads of this process.
        work: The runs to do.
        root: Directory of experiments.
        tasks: Number of tasks; by default it follows from the effort.
        monitor: Updated while the runs go on.

    Returns:
        The outcomes, by experiment and seed.
    """
    if not work.todo:
        return ()
    chunks = divide_runs(work.todo, cores(spark)) if tasks is None else _deal_evenly(work.todo, tasks)
    specs = [[describe_run(run, root) for run in chunk] for chunk in chunks]
    report = None if monitor is None else lambda *_: monitor.update()
    simulate = complete_runs if isinstance(spark, LocalThreads) else simulate_runs
    rows = run_tasks(spark, specs, simulate, _OUTCOME_DDL, report)
    if monitor is not None:
        monitor.update()
    outcomes = [Outcome(**row) for row in rows.to_pylist()]
    return tuple(sorted(outcomes, key=lambda outcome: (outcome.experiment, outcome.seed)))


def simulate_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the specifications of the rows one after the other; runs on executors."""
    allow_code()  # the user allowed it on the driver, or the plan would not exist
    yield from complete_runs(batches)


def complete_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the specifications of the rows that have no results yet."""
    for text in read_specs(batches):
        spec = _SPEC.validate_json(text)
        document = Document.model_validate(json.loads(spec.document))
        outcome = complete_run(document, spec.seed, Path(spec.root), spec.experiment)
        yield pa.RecordBatch.from_pylist([asdict(outcome)], schema=_OUTCOME_SCHEMA)


def describe_run(run: PlannedRun, root: Path) -> str:
    """Return the specification of a run for a task."""
    document = json.dumps(run.point.document.model_dump(mode="json", exclude_unset=True, exclude_none=True))
    return _SPEC.dump_json(RunSpec(str(root.resolve()), document, run.point.experiment, run.seed)).decode()


def _deal_evenly(runs: Sequence[PlannedRun], tasks: int) -> list[list[PlannedRun]]:
    return [list(runs[number::tasks]) for number in range(min(tasks, len(runs)))]
