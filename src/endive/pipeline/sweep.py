"""Run sweeps on Spark: the unfinished runs of a plan, the costliest first, with several cheap runs per task.

A task that simulates all runs of a measurement unit also measures them, from the files that it has just written, so that metrics
and reports need no second job. Units so large that other cores would be idle are divided into several tasks, and measured by
``endive metrics`` or ``endive report``.

All state is on disk. A run is finished when its results exist and match their checksum, so a sweep can be killed at any time and
started again. Tasks write results to files, so rows never pass through Spark. A run that fails is reported with its error, and the
other runs of its task continue.

A sweep with a precision first runs a few seeds of all points, and then more seeds at the points that need them. After each job,
``plan_more_seeds`` measures the points as ``endive metrics`` does. Scenarios at one point are compared seed by seed, so they get
the same number of seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import TypeAdapter

from endive.config.components import allow_code
from endive.config.schema import Document
from endive.config.sweep_file import KeptRows
from endive.pipeline.jobs import LocalThreads, cores, read_specs, run_tasks
from endive.pipeline.metrics import last_options
from endive.runs.execute import Outcome, complete_run, discard_scratch, transfer_run
from endive.runs.identity import flat_parameters, parameters
from endive.runs.layout import hash_of, scratch_directory
from endive.runs.plan import PlannedRun, Work
from endive.runs.stored import Experiment, PipelineError, RecordedRun, StoredRun, take_inventory
from endive.studies.measure import PLAIN_COLUMNS, MetricsOptions
from endive.studies.tables import MeasureUnit, compared_experiments, keep_unit, measure_unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from itertools import count
from typing import Any

from endive.analysis.conditions import Subject
from endive.analysis.replication_rule import Reached, count_seeds, measure_widths
from endive.config.study import Precision
from endive.pipeline.metrics import Sessions, current_rows
from endive.runs.plan import SweepPlan, SweepPoint

SECONDS_PER_TASK = 2.0
"""Minimum work per task, in CPU seconds. The overhead of a Spark task is about 50 ms."""
TASKS_PER_CORE = 4
_LARGEST_SHARE = 1.5
"""Cost above which a measurement unit is divided into several tasks, as a multiple of the mean cost per core."""
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
    """Specification of a run, which the driver sends to a task.

    Attributes:
        document: Configuration as JSON.
        experiment: Hash of the experiment, as the plan computed it.
        rows: Rows to keep.
    """

    root: str
    document: str
    experiment: str
    seed: int
    rows: KeptRows = "all"


@dataclass(frozen=True)
class KeepSpec:
    """Runs in the scratch directory that a task measures together and then moves to the study, and the rows to keep."""

    target: str
    unit: MeasureUnit
    rows: KeptRows


_SPEC: TypeAdapter[RunSpec | MeasureUnit | KeepSpec] = TypeAdapter(RunSpec | MeasureUnit | KeepSpec)


@dataclass(frozen=True)
class RunGroup:
    """Runs that a task simulates, and the measurement unit that the task then measures."""

    runs: tuple[PlannedRun, ...]
    unit: MeasureUnit | None = None

    @property
    def cpu_seconds(self) -> float:
        """Estimated cost of the runs."""
        return sum(run.effort.cpu_seconds for run in self.runs)


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep: finished runs, and their fraction of the total cost."""

    done: int
    total: int
    share: float


class ProgressMonitor:
    """Monitor that counts the planned runs with results, and reports the progress."""

    def __init__(self, work: Work, root: Path, report: Callable[[Progress], None]) -> None:
        self._report = report
        self._total = len(work.todo)
        self._effort = max(work.effort.cpu_seconds, 1e-9)
        self._pending = {StoredRun(run.directory(root)).results: run.effort.cpu_seconds for run in work.todo}

    def update(self) -> None:
        """Count the new results, and report the progress."""
        for file in [file for file in self._pending if file.exists()]:
            del self._pending[file]
        share = 1.0 - sum(self._pending.values()) / self._effort
        self._report(Progress(self._total - len(self._pending), self._total, share))


def divide_groups(groups: Sequence[RunGroup], cores: int) -> list[list[RunGroup]]:
    """Distribute groups of runs over tasks of about equal cost, the costliest first. A task can simulate several cheap groups."""
    ordered = sorted(groups, key=lambda group: (-group.cpu_seconds, group.runs[0].point.experiment, group.runs[0].seed))
    total = sum(group.cpu_seconds for group in ordered)
    size = max(SECONDS_PER_TASK, min(total / (cores * TASKS_PER_CORE), 10 * SECONDS_PER_TASK))
    tasks: list[list[RunGroup]] = []
    room = 0.0
    for group in ordered:
        if not tasks or room < group.cpu_seconds:
            tasks.append([])
            room = size
        tasks[-1].append(group)
        room -= group.cpu_seconds
    return tasks


def group_runs(work: Work, root: Path, cores: int) -> list[RunGroup]:
    """Group runs by measurement unit, and divide units that are too large for one task.

    If the study does not keep all rows, all runs of a unit are simulated. A divided unit then gets a group without runs, which a
    second job measures.
    """
    runs = work.todo
    points = {point.directory(root).name: point for point in work.points}
    planned: dict[str, list[PlannedRun]] = {}
    for run in runs:
        planned.setdefault(run.point.directory(root).name, []).append(run)
    experiments = _experiments_after(planned, root)
    total = sum(run.effort.cpu_seconds for run in runs)
    options, limit = last_options(root), max(5 * SECONDS_PER_TASK, _LARGEST_SHARE * total / cores)
    groups = []
    for names in compared_experiments(experiments):
        own = [run for name in names for run in planned.get(name, [])]
        if own and work.rows != "all":
            names = [name for name in names if name in points]
            own = [PlannedRun(points[name], seed) for name in names for seed in experiments[name].seeds]
        seeds = {name: experiments[name].seeds for name in names}
        durations = {name: experiments[name].duration_ms for name in names}
        is_open = all(options.problem_with(duration_ms) is None for duration_ms in durations.values())
        todo = {(run.point.directory(root).name, run.seed) for run in own}
        measured = {name: tuple(seed for seed in of_name if (name, seed) not in todo) for name, of_name in seeds.items()}
        unit = MeasureUnit(str(root.resolve()), seeds, durations, options if is_open else MetricsOptions(), measured)
        group = RunGroup(tuple(own), unit if is_open or work.rows != "all" else None)
        is_whole = group.cpu_seconds <= limit
        groups += [group] if own and is_whole else [RunGroup((run,)) for run in own]
        groups += [RunGroup((), unit)] if own and not is_whole and work.rows != "all" else []
    return groups


def _experiments_after(planned: Mapping[str, Sequence[PlannedRun]], root: Path) -> dict[str, Experiment]:
    """Return the experiments that a directory will contain after the planned runs."""
    try:
        found = dict(take_inventory(root).experiments)
    except PipelineError:  # no experiment exists yet
        found = {}
    for name, runs in planned.items():
        point = runs[0].point
        document = point.document
        seeds = {*(run.seed for run in runs), *(found[name].seeds if name in found else ())}
        found[name] = Experiment(
            document.experiment.label or "",
            point.experiment,
            "",
            document.simulation.duration_ms,
            flat_parameters(
                parameters(document),
                point.directory(root),
                document.model_dump(mode="json", exclude_unset=True, exclude_none=True),
            ),
            tuple(RecordedRun(seed, 0, "") for seed in sorted(seeds)),
        )
    return dict(sorted(found.items()))


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
        spark: Spark session, or threads of this process.
        work: Unfinished runs.
        root: Directory of experiments.
        tasks: Number of tasks; by default, determined from the estimated cost.
        monitor: Monitor, which is updated during the runs.

    Returns:
        The outcomes, ordered by experiment and seed.
    """
    if not work.todo:
        return ()
    late: list[RunGroup] = []
    if tasks is None or work.rows != "all":
        groups = group_runs(work, root, cores(spark))
        late = [group for group in groups if not group.runs]
        chunks = divide_groups([group for group in groups if group.runs], cores(spark))
    else:
        chunks = [
            [RunGroup((run,)) for run in chunk]
            for chunk in (work.todo[number::tasks] for number in range(min(tasks, len(work.todo))))
        ]
    report = None if monitor is None else lambda *_: monitor.update()
    simulate = complete_runs if isinstance(spark, LocalThreads) else simulate_runs
    outcomes: list[Outcome] = []
    for job in (chunks, [[group] for group in late]):
        specs = [[spec for group in chunk for spec in _describe_group(group, root, work.rows)] for chunk in job]
        rows = run_tasks(spark, specs, simulate, _OUTCOME_DDL, report).to_pylist() if specs else []
        outcomes += [Outcome(**row) for row in rows]
    discard_scratch(root)
    if monitor is not None:
        monitor.update()
    return tuple(sorted(outcomes, key=lambda outcome: (outcome.experiment, outcome.seed)))


def simulate_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Simulate runs in a Spark task, one after the other. Each row specifies one run."""
    allow_code()  # the user has allowed it on the driver; otherwise, there would be no plan
    yield from complete_runs(batches)


def complete_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Simulate the specified runs that have no results. When all specified runs are finished, measure them together."""
    for text in read_specs(batches):
        spec = _SPEC.validate_json(text)
        if isinstance(spec, MeasureUnit):
            with suppress(Exception):  # `endive metrics` measures again and reports the error
                keep_unit(spec, measure_unit(spec, is_checked=True))
            continue
        if isinstance(spec, KeepSpec):
            yield _to_batch(_keep(spec))
            continue
        document = Document.model_validate(json.loads(spec.document))
        outcome = complete_run(document, spec.seed, Path(spec.root), spec.experiment, spec.rows)
        yield _to_batch([outcome])


def _to_batch(outcomes: Iterable[Outcome]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([asdict(outcome) for outcome in outcomes], schema=_OUTCOME_SCHEMA)


def _keep(spec: KeepSpec) -> Iterator[Outcome]:
    """Measure runs in the scratch directory and move them to the study. Yield the outcomes of failed runs.

    If a run fails, all runs of its measurement unit stay in the scratch directory.
    """
    root, scratch = Path(spec.target), Path(spec.unit.root)
    try:
        measured = measure_unit(spec.unit, is_checked=True)
        if measured.damaged:
            return
        keep_unit(replace(spec.unit, root=spec.target), measured, scratch)
        for name, seeds in spec.unit.experiments.items():
            for seed in seeds:
                transfer_run(root, name, seed, spec.rows)
    except Exception as error:
        for name, seeds in spec.unit.experiments.items():
            text = f"{type(error).__name__}: {error}"
            yield from (Outcome(hash_of(name) or name, seed, "failed", error=text) for seed in seeds)


def describe_run(run: PlannedRun, root: Path, rows: KeptRows = "all") -> str:
    """Return the specification of a run for a task."""
    document = json.dumps(run.point.document.model_dump(mode="json", exclude_unset=True, exclude_none=True))
    return _SPEC.dump_json(RunSpec(str(root.resolve()), document, run.point.experiment, run.seed, rows)).decode()


def _describe_group(group: RunGroup, root: Path, rows: KeptRows) -> Iterator[str]:
    yield from (describe_run(run, root, rows) for run in group.runs)
    if group.unit is not None:
        place = root if rows == "all" else scratch_directory(root)
        unit = replace(group.unit, root=str(place.resolve()))
        yield _SPEC.dump_json(unit if rows == "all" else KeepSpec(group.unit.root, unit, rows)).decode()


Rows = Sequence[Mapping[str, Any]]


def plan_more_seeds(
    sessions: Sessions,
    plan: SweepPlan,
    root: Path,
    subjects: Sequence[Subject],
    options: MetricsOptions | None = None,
) -> tuple[SweepPlan, Mapping[str, Reached]]:
    """Measure the finished runs of a plan, and add the seeds with which each configuration reaches the precision.

    Args:
        sessions: Factory of the Spark session or the threads that measure runs which no task has measured.
        plan: Plan whose runs are finished.
        root: Directory of experiments.
        subjects: Metrics to which the precision applies.
        options: Options of the measurement; by default, those of the last measurement.

    Returns: The plan with the seeds of each point, which is unchanged if no point needs more, and the widths of each point by
    experiment hash.
    """
    precision = plan.precision
    if precision is None:
        return plan, {}
    inventory, measured = current_rows(root, sessions, options)
    points = {point.directory(root).name: point for point in plan.points}
    rows = _group_rows(measured.select(PLAIN_COLUMNS).to_pylist(), points)
    reached, counts = {}, dict(plan.counts)
    for names in compared_experiments(inventory.experiments):
        own = [points[name] for name in names if name in points]
        needed = 0
        for point in own:
            found = _measure_point(rows[point.experiment], subjects, precision)
            reached[point.experiment] = found
            needed = max(needed, count_seeds(found.widths, found.seeds, precision.most_seeds))
        counts |= {point.experiment: needed for point in own if needed > len(plan.seeds)}
    return replace(plan, counts=counts), reached


def _group_rows(rows: Rows, points: Mapping[str, SweepPoint]) -> dict[str, dict[int, list[Mapping[str, Any]]]]:
    """Return the rows of metrics of each configuration, by seed."""
    found: dict[str, dict[int, list[Mapping[str, Any]]]] = {point.experiment: {} for point in points.values()}
    for row in rows:
        if row["experiment"] in points:
            found[points[row["experiment"]].experiment].setdefault(row["seed"], []).append(row)
    return found


def _measure_point(by_seed: Mapping[int, Rows], subjects: Sequence[Subject], precision: Precision) -> Reached:
    """Return the widths of the intervals of a configuration across its finished seeds."""
    seeds = next(seed for seed in count() if seed not in by_seed)

    def select(workload_class: str, operation: str) -> Rows:
        rows = (row for seed in range(seeds) for row in by_seed[seed])
        return [row for row in rows if (row["workload_class"], row["operation_type"]) == (workload_class, operation)]

    return Reached(seeds, tuple(measure_widths(select, subjects, precision)) if seeds > 1 else ())
