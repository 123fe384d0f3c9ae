"""Run sweeps with a precision: first the pilot of all points, then the points that need more seeds.

After each job the points are measured as ``endive metrics`` measures them, and ``analysis.replication_rule`` determines the number
of seeds of each point. Scenarios at one point are compared seed by seed, so they get the same number of seeds. The state is on
disk: finished seeds count, and a sweep that was stopped continues with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from endive.analysis.conditions import Subject
from endive.analysis.replication_rule import Reached, count_seeds, measure_widths
from endive.config.study import Precision
from endive.pipeline.metrics import Sessions, current_tables
from endive.runs.plan import SweepPlan, SweepPoint
from endive.studies.measure import MetricsOptions
from endive.studies.tables import compared_experiments

Rows = Sequence[Mapping[str, Any]]


def plan_more_seeds(
    sessions: Sessions,
    plan: SweepPlan,
    root: Path,
    subjects: Sequence[Subject],
    options: MetricsOptions | None = None,
) -> tuple[SweepPlan, Mapping[str, Reached]]:
    """Measure the finished runs of a plan with a precision, and add the seeds that its points need.

    Args:
        sessions: Factory of the Spark session, or of the threads, for runs that no task has measured.
        plan: Plan whose runs are finished.
        root: Directory of experiments.
        subjects: Metrics that the precision applies to.
        options: Options of measuring; by default the options of the last measurement.

    Returns: The plan with the seeds of each point, which is unchanged if no point needs more, and the widths of each point by
    experiment hash.
    """
    precision = plan.precision
    if precision is None:
        return plan, {}
    study = current_tables(root, sessions, options)
    points = {point.directory(root).name: point for point in plan.points}
    rows = _group_rows(study.tables["runs"].to_pylist(), points)
    reached, counts = {}, dict(plan.counts)
    for names in compared_experiments(study.inventory.experiments):
        own = [points[name] for name in names if name in points]
        needed = 0
        for point in own:
            found = _measure_point(rows[point.experiment], subjects, precision)
            reached[point.experiment] = found
            needed = max(needed, count_seeds(found.widths, found.seeds, precision.most_seeds))
        counts |= {point.experiment: needed for point in own if needed > len(plan.seeds)}
    return replace(plan, counts=counts), reached


def _group_rows(rows: Rows, points: Mapping[str, SweepPoint]) -> dict[str, dict[int, list[Mapping[str, Any]]]]:
    """Return the rows of metrics of each point, by seed."""
    found: dict[str, dict[int, list[Mapping[str, Any]]]] = {point.experiment: {} for point in points.values()}
    for row in rows:
        if row["experiment"] in points:
            found[points[row["experiment"]].experiment].setdefault(row["seed"], []).append(row)
    return found


def _measure_point(by_seed: Mapping[int, Rows], subjects: Sequence[Subject], precision: Precision) -> Reached:
    """Return the widths of a point over the seeds 0, 1, ... that are finished."""
    seeds = next(seed for seed in count() if seed not in by_seed)

    def select(workload_class: str, operation: str) -> Rows:
        rows = (row for seed in range(seeds) for row in by_seed[seed])
        return [row for row in rows if (row["workload_class"], row["operation_type"]) == (workload_class, operation)]

    return Reached(seeds, tuple(measure_widths(select, subjects, precision)) if seeds > 1 else ())
