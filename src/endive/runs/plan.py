"""Plan sweeps, and read and write the records of the studies in a directory.

A plan contains the experiments of a sweep, with the estimated effort of each. A sweep writes the study file and the plan before its
first run. Reports read the question and the scenarios from these files. ``endive experiments watch`` derives the progress from the
plan: a run is finished when its results exist.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, model_validator

from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.config.study import Precision
from endive.config.sweep_file import SCENARIO, KeptRows, Sweep
from endive.formatting import format_bytes
from endive.input_files import UnreadableError, leading_comment, read_toml, state
from endive.output_files import is_living, this_writer, write_text
from endive.runs.effort import Effort, estimate_effort
from endive.runs.identity import compute_experiment_hash
from endive.runs.layout import CONFIG, label_of, named_experiment, run_directory, study_file, study_plan, study_plans
from endive.runs.records import Count, ExperimentName, Record, RecordError, read_sealed_record, seal_record
from endive.runs.row_files import ONE_IN
from endive.runs.stored import StoredRun, find_experiments


@dataclass(frozen=True)
class SweepPoint:
    """Configuration of a sweep for one combination of axis values."""

    values: Mapping[str, Any]
    document: Document
    experiment: str
    """Hash of the experiment."""

    @cached_property
    def effort(self) -> Effort:
        """Estimated effort of one run."""
        return estimate_effort(self.document)

    def directory(self, root: Path) -> Path:
        """Return the directory of the runs of the configuration."""
        return named_experiment(root, self.document.experiment.label, self.experiment)


@dataclass(frozen=True)
class SweepPlan:
    """Configurations of a sweep, and the seeds of each configuration.

    Attributes:
        name: Label of the experiments.
        points: Points of the sweep.
        seeds: Seeds of each point; if a precision is set, the first seeds.
        rows: Rows to keep.
        precision: Precision that determines the number of seeds; None if the seeds are set.
        counts: Number of seeds of points that need more than ``seeds``, by experiment hash.
    """

    name: str
    points: tuple[SweepPoint, ...]
    seeds: tuple[int, ...]
    rows: KeptRows = "all"
    precision: Precision | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def seeds_of(self, point: SweepPoint) -> tuple[int, ...]:
        """Return the seeds of a configuration."""
        return tuple(range(self.counts[point.experiment])) if point.experiment in self.counts else self.seeds

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(len(self.seeds_of(point)) for point in self.points)


def plan_sweep(sweep: Sweep) -> SweepPlan:
    """Expand a sweep into its configurations, without duplicates. Raises ConfigError, which lists every problem.

    Two scenarios with equal configurations are an error, because one of them does not have the intended effect.
    """
    points: dict[str, SweepPoint] = {}
    same: dict[str, Problem] = {}
    for values, document in sweep.documents():
        experiment = compute_experiment_hash(document)
        point = points.setdefault(experiment, SweepPoint(values, document, experiment))
        name, first = document.experiment.scenario, point.document.experiment.scenario
        if name is not None and name != first:
            same.setdefault(name, Problem(f"scenario.{name}", f"gives the same configuration as {first!r}"))
    if same:
        raise ConfigError(str(sweep.path), same.values())
    if not points:
        raise ConfigError(str(sweep.path), [Problem("exclude", "excludes every point")])
    rows = sweep.rows or _rows_for(tuple(points.values()), len(sweep.seeds))
    return SweepPlan(sweep.name, tuple(points.values()), sweep.seeds, rows, sweep.precision)


MOST_BYTES = 20 * 2**30
"""Maximum estimated size of all rows of a sweep for which all rows are kept by default."""


KEPT_FRACTIONS: Mapping[KeptRows, float] = {"all": 1.0, "sample": 1.0 / ONE_IN, "none": 0.0}
"""Fraction of the rows that a sweep stores."""


def _rows_for(points: Sequence[SweepPoint], seeds: int) -> KeptRows:
    size = sum((point.effort for point in points), Effort()).disk_bytes * seeds
    return "all" if size <= MOST_BYTES else "sample"


def describe_rows(rows: KeptRows, is_default: bool) -> str:
    """Return a sentence that states which rows a sweep stores, and why."""
    kept = "the rows of one in 100 transactions" if rows == "sample" else "no rows"
    reason = f", because all rows would take more than {format_bytes(MOST_BYTES)}" if is_default else ""
    return f"the sweep keeps all summaries and metrics, but {kept}{reason}; use `--rows all` to keep all rows"


@dataclass(frozen=True)
class PlannedRun:
    """Configuration and seed of a run."""

    point: SweepPoint
    seed: int

    @property
    def effort(self) -> Effort:
        """Estimated effort of the run."""
        return self.point.effort

    def directory(self, root: Path) -> Path:
        """Return the directory of the run."""
        return run_directory(self.point.directory(root), self.seed)


@dataclass(frozen=True)
class Work:
    """Unfinished runs of a plan."""

    todo: tuple[PlannedRun, ...]
    finished: int = 0
    damaged: tuple[str, ...] = field(default=())
    """Runs with damaged files, each with its problem."""
    older: int = 0
    """Number of experiments with the same label and an older model version."""
    rows: KeptRows = "all"
    """Rows to keep."""
    points: tuple[SweepPoint, ...] = ()
    """All points of the plan."""

    @cached_property
    def effort(self) -> Effort:
        """Estimated effort of all runs."""
        return replace(sum((run.effort for run in self.todo), Effort()), kept=KEPT_FRACTIONS[self.rows])


def remaining_work(plan: SweepPlan, root: Path) -> Work:
    """Divide the runs of a plan into finished runs (with matching checksums) and unfinished runs."""
    runs = [PlannedRun(point, seed) for point in plan.points for seed in plan.seeds_of(point)]
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as pool:
        found = list(pool.map(lambda run: _state(StoredRun(run.directory(root)), plan.rows), runs))
    todo = tuple(run for run, state in zip(runs, found, strict=True) if state is not None)
    damaged = tuple(f"{run.point.experiment}/{run.seed}: {state}" for run, state in zip(runs, found, strict=True) if state)
    older = sum(each.label == plan.name and not each.of_this_version for each in find_experiments(root))
    return Work(todo, len(runs) - len(todo), damaged, older, plan.rows, plan.points)


def _state(stored: StoredRun, rows: KeptRows) -> str | None:
    """Return None if the run is complete, "" if it does not exist or has too few rows, and otherwise the problem of its files."""
    if not stored.directory.exists():
        return ""
    problem = stored.problem()
    if problem is None and not stored.keeps(rows):
        return ""
    return problem if problem is None or stored.results.exists() else ""


class PlannedExperiment(Record):
    """Experiment of a study: axis values, estimated CPU seconds per run, and number of seeds if it differs from the study's."""

    values: dict[str, Any]
    cpu_seconds: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    seeds: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of seeds, starting at 0, if a precision requires more seeds than the study has."""


_MOST_RUNS = 10**7
"""Maximum number of runs of a study, because displaying the progress looks up each run."""
Argument = Annotated[str, Field(pattern=r"^[A-Za-z0-9.,_=%-]{1,255}$")]
"""Argument that does not need quotes in a shell."""


class StudyRecord(Record):
    """Plan of a study. ``endive sweep`` with ``arguments`` reproduces it from the study file next to the plan."""

    label: ExperimentName
    question: str | None = None
    scenarios: list[str] = Field(default_factory=list)
    """Names of the scenarios, the baseline first."""
    seeds: list[Count]
    experiments: dict[ExperimentName, PlannedExperiment]
    arguments: list[Argument] = Field(default_factory=list)
    started: str = ""
    writer: str = ""
    """Process that runs the study, as named by ``endive.output_files``."""

    @model_validator(mode="after")
    def _check_run_count(self) -> StudyRecord:
        if sum(each.seeds or len(self.seeds) for each in self.experiments.values()) > _MOST_RUNS:
            raise ValueError(f"has more than {_MOST_RUNS:,} runs")
        return self

    def results(self, root: Path) -> dict[Path, float]:
        """Return the planned results with the estimated CPU seconds of each run."""
        return {
            StoredRun(run_directory(root / name, seed)).results: planned.cpu_seconds
            for name, planned in self.experiments.items()
            for seed in (self.seeds if planned.seeds is None else range(planned.seeds))
        }


def keep_study(root: Path, sweep: Sweep, plan: SweepPlan) -> None:
    """Write the file and the plan of a study to its directory."""
    record = StudyRecord(
        label=plan.name,
        question=sweep.question,
        scenarios=[each.name for each in sweep.scenarios],
        seeds=list(plan.seeds),
        experiments={
            point.directory(root).name: PlannedExperiment(
                values=dict(point.values), cpu_seconds=point.effort.cpu_seconds, seeds=plan.counts.get(point.experiment)
            )
            for point in plan.points
        },
        arguments=[
            *(["--quick"] if sweep.quick else []),
            *_seeds_arguments(plan),
            *([] if plan.rows == "all" else ["--rows", plan.rows]),
        ],
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        writer=this_writer(),
    )
    comment = leading_comment(sweep.path) if sweep.path.is_file() else ""
    heading = f"# {comment}\n\n" if comment else ""
    write_text(study_file(root, plan.name), heading + tomli_w.dumps(sweep.standalone()))
    sealed = seal_record(record.model_dump(mode="json"))
    write_text(study_plan(root, plan.name), json.dumps(sealed, indent=1, ensure_ascii=False) + "\n")
    keep_names(root, plan)


def _seeds_arguments(plan: SweepPlan) -> list[str]:
    """Return the options for a precision or for consecutive seeds. All other seeds are in the study file."""
    if plan.precision is not None:
        return ["--precision", str(plan.precision), "--max-seeds", str(plan.precision.most_seeds)]
    seeds = plan.seeds
    if list(seeds) != list(range(seeds[0], seeds[0] + len(seeds))):
        return []
    return ["--seeds", f"{seeds[0]}-{seeds[-1]}"]


def keep_names(root: Path, plan: SweepPlan) -> None:
    """Write the names of the plan's scenarios to the configurations of existing experiments."""
    for point in plan.points:
        file = point.directory(root) / CONFIG
        try:
            tree = read_toml(file)
        except UnreadableError:
            continue
        about = tree.setdefault("experiment", {})
        if about.get(SCENARIO) != point.document.experiment.scenario:
            about.pop(SCENARIO, None)
            about |= {} if point.document.experiment.scenario is None else {SCENARIO: point.document.experiment.scenario}
            write_text(file, tomli_w.dumps(tree))


def read_studies(root: Path) -> list[StudyRecord]:
    """Return the records of the studies in a directory, except damaged records."""
    found = []
    for path in study_plans(root):
        try:
            found.append(StudyRecord.model_validate(read_sealed_record(path, StudyRecord)))
        except RecordError:
            continue
    return found


def find_damaged_studies(root: Path, now: float) -> list[tuple[str, str]]:
    """Return the labels and problems of studies with damaged files or missing runs.

    The runs of a study that is still running are not missing. ``now`` is in seconds since the epoch.
    """
    problems = []
    for path in study_plans(root):
        try:
            record = StudyRecord.model_validate(read_sealed_record(path, StudyRecord))
            read_toml(study_file(root, record.label))
        except RecordError as error:
            problems.append((path.stem, f"damaged: {error}"))
            continue
        except UnreadableError as error:
            problems.append((path.stem, f"damaged: {state(study_file(root, record.label).name, str(error))}"))
        progress = progress_of(root, record, now)
        if progress.done < progress.total and not is_living(record.writer):
            missing = f"{progress.total - progress.done:,} of its {progress.total:,} runs have no results"
            problems.append((path.stem, f"incomplete: {missing}; run the same `endive sweep` command again"))
    return problems


def study_of(root: Path, experiments: Iterable[str]) -> StudyRecord | None:
    """Return the study that contains all these experiments, given by name; None if there is not exactly one."""
    labels = {label_of(root / name) for name in experiments}
    return next((each for each in read_studies(root) if {each.label} == labels), None)


State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True)
class StudyProgress:
    """Progress of a study. ``seconds_left`` is None before the first run has finished, or if no process runs the study."""

    label: str
    done: int
    total: int
    share: float
    """Fraction of the estimated effort that has been completed."""
    elapsed_seconds: float
    seconds_left: float | None
    state: State


def progress_of(root: Path, record: StudyRecord, now: float) -> StudyProgress:
    """Return the progress of a study from the names and times of its files. ``now`` is in seconds since the epoch."""
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
