"""Compare the CPU time of studies with ``--precision`` and with a fixed number of seeds of the same precision.

The studies of the gallery run in their quick form, in this process, without ``groups`` and ``maintenance_paths``, whose runs are
the longest. Each study requests the tightest precision of ``PRECISIONS`` that all of its points reach with the default maximum
number of seeds, as a pilot predicts. With a looser precision, the pilot would be the largest part of the cost; with a tighter
one, the maximum. Points at which more seeds do not help are ignored.

The fixed number of seeds is the smallest number, the same at all points, with which all points have the precision. It follows from
the variance over all seeds of each point, and its CPU time from the CPU time of a run with the seeds of a pilot. The row also
contains the number of runs with the default seeds of a sweep, and with a precision of 1%.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from endive.analysis.conditions import Subject, parse_question
from endive.analysis.estimates import t_quantile
from endive.analysis.replication_rule import Reached, Width, choose_subjects, predict_seeds
from endive.config.study import MOST_SEEDS, PILOT_SEEDS, Precision, parse_precision, parse_seeds
from endive.config.sweep_file import DEFAULT_SEEDS, Sweep
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.sweep import plan_more_seeds, run_sweep
from endive.runs.plan import SweepPlan, plan_sweep, remaining_work

STUDIES = (
    "load_by_provider",
    "catalog_latency",
    "tables",
    "backoff",
    "catalog_designs",
    "inlining",
    "merge_append_starvation",
    "maintenance",
    "retries_where",
    "catalog_queue",
    "backoff_kinds",
    "one_committer",
    "lost_answers",
    "failing_requests",
    "compaction_interval",
    "formats",
    "iceberg_v4",
)
PRECISIONS = tuple(f"{step * 10.0**power:g}%" for power in (-1, 0, 1) for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
_TYPICAL = "1%"
_QUICK_STUDIES = ("failing_requests",)
_FEWEST = 2
_THREADS = LocalThreads()
_SUMS = ("precise_cpu_s", "fixed_cpu_s", "runs", "default_runs", "typical_runs")


def measure_precision(shorter: float) -> list[dict[str, Any]]:
    """Return a row for each study, and one for all of them."""
    rows = [_measure(name) for name in (STUDIES if shorter == 1.0 else _QUICK_STUDIES)]
    total = {name: sum(row[name] for row in rows) for name in _SUMS}
    return [*rows, {"case": "all", **total, "ratio": total["fixed_cpu_s"] / total["precise_cpu_s"]}]


def _measure(name: str) -> dict[str, Any]:
    path = ROOT / "examples" / "sweeps" / f"{name}.toml"
    plan = plan_sweep(Sweep(path, quick=True, seeds=str(PILOT_SEEDS)))
    subjects = _choose_subjects(path, plan)
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:  # compiles kernels
        run_sweep(_THREADS, remaining_work(replace(plan, seeds=(0,)), Path(folder)), Path(folder))
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        started = time.process_time()
        run_sweep(_THREADS, remaining_work(plan, Path(folder)), Path(folder))
        pilot_s = time.process_time() - started
        precision = _choose_precision(plan, Path(folder), subjects)
        typical = _plan_precise(plan, parse_precision(_TYPICAL, name), Path(folder), subjects)
    precise_s, precise, reached = _run_precise(plan, precision, subjects)
    fixed = _count_fixed(reached.values())
    fixed_s = pilot_s * fixed / PILOT_SEEDS
    return {
        "case": name,
        "points": len(plan.points),
        "precision": str(precision),
        "not_reached": sum(bool(each.wide) for each in reached.values()),
        "runs": precise.runs,
        "precise_cpu_s": precise_s,
        "fixed_seeds": fixed,
        "fixed_runs": fixed * len(plan.points),
        "fixed_cpu_s": fixed_s,
        "ratio": fixed_s / precise_s,
        "default_runs": len(parse_seeds(DEFAULT_SEEDS)) * len(plan.points),
        "typical_runs": typical.runs,
    }


def _choose_subjects(path: Path, plan: SweepPlan) -> tuple[Subject, ...]:
    question = Sweep(path).question
    classes = {each for point in plan.points for each in point.document.workload}
    asked = [] if question is None else [parse_question(question, classes, path.stem)]
    return choose_subjects(asked, parse_precision(_TYPICAL, path.stem), path.stem)


def _choose_precision(plan: SweepPlan, root: Path, subjects: tuple[Subject, ...]) -> Precision:
    """Return the tightest precision that all points are expected to reach with the default maximum number of seeds."""
    for text in PRECISIONS:
        wider = parse_precision(text, "benchmark", MOST_SEEDS + 1)
        planned = _plan_precise(plan, wider, root, subjects)
        if max(len(planned.seeds_of(point)) for point in plan.points) <= MOST_SEEDS:
            break
    return replace(wider, most_seeds=MOST_SEEDS)


def _plan_precise(plan: SweepPlan, precision: Precision, root: Path, subjects: tuple[Subject, ...]) -> SweepPlan:
    more, _ = plan_more_seeds(lambda: nullcontext(_THREADS), replace(plan, precision=precision), root, subjects)
    return more


def _run_precise(
    plan: SweepPlan, precision: Precision, subjects: tuple[Subject, ...]
) -> tuple[float, SweepPlan, Mapping[str, Reached]]:
    """Run a plan with the seeds that a precision needs; return the CPU time, the plan and the reached widths."""
    plan = replace(plan, precision=precision)
    started = time.process_time()
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        root = Path(folder)
        while True:
            run_sweep(_THREADS, remaining_work(plan, root), root)
            more, reached = plan_more_seeds(lambda: nullcontext(_THREADS), plan, root, subjects)
            if more.runs == plan.runs:
                return time.process_time() - started, plan, reached
            plan = more


def _count_fixed(reached: Iterable[Reached]) -> int:
    """Return the smallest number of seeds, the same at all points, with which all intervals are as narrow as requested."""
    return max(
        predict_seeds([_scale_to_fewest(width, each.seeds)], _FEWEST, MOST_SEEDS) for each in reached for width in each.widths
    )


def _scale_to_fewest(width: Width, seeds: int) -> Width:
    """Return the width of an interval with the same variance and the fewest seeds."""
    if width.half_width is None:
        return width
    factor = t_quantile(_FEWEST - 1) / t_quantile(seeds - 1) * math.sqrt(seeds / _FEWEST)
    return replace(width, half_width=width.fixed + (width.half_width - width.fixed) * factor)
