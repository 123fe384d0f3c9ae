"""Plan sweeps: their experiments, the estimated effort of each experiment, and the finished runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.config.study import Precision
from endive.config.sweep_file import KeptRows, Sweep
from endive.formatting import format_bytes
from endive.runs.effort import Effort, estimate_effort
from endive.runs.identity import compute_experiment_hash
from endive.runs.layout import named_experiment, run_directory
from endive.runs.stored import StoredRun, find_experiments


@dataclass(frozen=True)
class SweepPoint:
    """One configuration of a sweep: axis values, and the resulting document."""

    values: Mapping[str, Any]
    document: Document
    experiment: str
    """Hash of the experiment."""

    @cached_property
    def effort(self) -> Effort:
        """Estimated effort of one run."""
        return estimate_effort(self.document)

    def directory(self, root: Path) -> Path:
        """Return the directory of the runs of the point."""
        return named_experiment(root, self.document.experiment.label, self.experiment)


@dataclass(frozen=True)
class SweepPlan:
    """All points of a sweep, and the seeds of each point.

    Attributes:
        name: Label of the experiments.
        points: Points of the sweep.
        seeds: Seeds of each point; with a precision, the seeds of the pilot.
        rows: Rows to keep.
        precision: Precision that determines the number of seeds; None if the seeds are given.
        counts: Number of seeds of points that need more than the pilot, by experiment hash.
    """

    name: str
    points: tuple[SweepPoint, ...]
    seeds: tuple[int, ...]
    rows: KeptRows = "all"
    precision: Precision | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def seeds_of(self, point: SweepPoint) -> tuple[int, ...]:
        """Return the seeds of a point."""
        return tuple(range(self.counts[point.experiment])) if point.experiment in self.counts else self.seeds

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(len(self.seeds_of(point)) for point in self.points)


def plan_sweep(sweep: Sweep) -> SweepPlan:
    """Expand a sweep; equal configurations are one point. Raises ConfigError with all problems.

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
"""Estimated size of all rows of a sweep up to which they are kept by default."""


def _rows_for(points: Sequence[SweepPoint], seeds: int) -> KeptRows:
    size = sum((point.effort for point in points), Effort()).disk_bytes * seeds
    return "all" if size <= MOST_BYTES else "sample"


def describe_rows(rows: KeptRows, is_default: bool) -> str:
    """Return a sentence about the rows of a sweep that are kept, with the reason."""
    kept = "one in 100 transactions is" if rows == "sample" else "no rows are"
    reason = f": all would take more than {format_bytes(MOST_BYTES)}" if is_default else ""
    return f"{kept} kept, in addition to summaries and metrics{reason}; use `--rows all` to keep all rows"


@dataclass(frozen=True)
class PlannedRun:
    """A point with a seed."""

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
    """Experiments with the same label and an older model version."""
    rows: KeptRows = "all"
    """Rows to keep."""
    points: tuple[SweepPoint, ...] = ()
    """All points of the plan."""

    @cached_property
    def effort(self) -> Effort:
        """Estimated effort of all runs."""
        return sum((run.effort for run in self.todo), Effort())


def remaining_work(plan: SweepPlan, root: Path) -> Work:
    """Divide runs into finished runs (with matching checksums) and unfinished runs."""
    runs = [PlannedRun(point, seed) for point in plan.points for seed in plan.seeds_of(point)]
    with ThreadPoolExecutor(min(16, 4 * (os.cpu_count() or 1))) as pool:
        found = list(pool.map(lambda run: _state(StoredRun(run.directory(root)), plan.rows), runs))
    todo = tuple(run for run, state in zip(runs, found, strict=True) if state is not None)
    damaged = tuple(f"{run.point.experiment}/{run.seed}: {state}" for run, state in zip(runs, found, strict=True) if state)
    older = sum(each.label == plan.name and not each.of_this_version for each in find_experiments(root))
    return Work(todo, len(runs) - len(todo), damaged, older, plan.rows, plan.points)


def _state(stored: StoredRun, rows: KeptRows) -> str | None:
    """Return None if the run is complete, "" if it was never run or has fewer rows than requested, and otherwise the problem."""
    if not stored.directory.exists():
        return ""
    problem = stored.problem()
    if problem is None and not stored.keeps(rows):
        return ""
    return problem if problem is None or stored.results.exists() else ""
