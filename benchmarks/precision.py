"""Compare the CPU time of studies with ``--precision`` and with a fixed number of seeds of the same precision.

Studies of the gallery run in their quick form, in this process. With a fixed number of seeds, every point gets the maximum number
of seeds that a point needs, so intervals are equal or narrower. The row also contains the seeds of the file and their widest
interval, in multiples of the precision.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from endive.analysis.conditions import Subject, parse_question
from endive.analysis.replication_rule import Reached, choose_subjects
from endive.config.study import Precision, parse_precision
from endive.config.sweep_file import Sweep
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.sweep import plan_more_seeds, run_sweep
from endive.runs.plan import SweepPlan, plan_sweep, remaining_work

STUDIES = (
    "backoff_kinds",
    "catalog_queue",
    "failing_requests",
    "formats",
    "lost_answers",
    "merge_append_starvation",
    "operation_mix",
    "retries_where",
)
PRECISION = parse_precision("2%", "benchmark", most_seeds=40)
_FILE_SEEDS = 5


def measure_precision(shorter: float) -> list[dict[str, Any]]:
    """Return a row for each study, and one for all of them."""
    studies = STUDIES if shorter == 1.0 else STUDIES[2:3]
    rows = [_measure(name) for name in studies]
    precise, fixed, file = (sum(row[name] for row in rows) for name in ("precise_cpu_s", "fixed_cpu_s", "file_cpu_s"))
    total = {"case": "all", "precise_cpu_s": precise, "fixed_cpu_s": fixed, "ratio": fixed / precise, "file_cpu_s": file}
    return [*rows, total]


def _measure(name: str) -> dict[str, Any]:
    reader = Sweep(
        ROOT / "examples" / "sweeps" / f"{name}.toml", quick=True, precision=str(PRECISION), max_seeds=PRECISION.most_seeds
    )
    plan = plan_sweep(reader)
    asked = []
    if reader.question is not None:
        asked = [parse_question(reader.question, {each for point in plan.points for each in point.document.workload}, name)]
    subjects = choose_subjects(asked, PRECISION, name)
    _run(replace(plan, seeds=(0,), precision=None), subjects)  # compiles kernels
    precise_s, precise, reached = _run(plan, subjects)
    most = max(len(precise.seeds_of(point)) for point in plan.points)
    fixed_s, _, _ = _run(_with_seeds(plan, most), subjects)
    file_s, _, of_file = _run(_with_seeds(plan, _FILE_SEEDS), subjects)
    return {
        "case": name,
        "points": len(plan.points),
        "precision": str(PRECISION),
        "not_reached": sum(bool(each.wide) for each in reached.values()),
        "runs": precise.runs,
        "precise_cpu_s": precise_s,
        "fixed_seeds": most,
        "fixed_runs": most * len(plan.points),
        "fixed_cpu_s": fixed_s,
        "ratio": fixed_s / precise_s,
        "file_seeds": _FILE_SEEDS,
        "file_cpu_s": file_s,
        "file_widest": _widest(of_file),
    }


def _with_seeds(plan: SweepPlan, seeds: int) -> SweepPlan:
    """Return a plan with a fixed number of seeds, measured by the same precision."""
    bound = Precision(PRECISION.value, PRECISION.shares_only, seeds)
    return replace(plan, seeds=tuple(range(seeds)), precision=bound, counts={})


def _widest(reached: Mapping[str, Reached]) -> float:
    widths = [width for each in reached.values() for width in each.widths if width.half_width is not None and width.wanted > 0.0]
    return max(width.half_width / width.wanted for width in widths if width.half_width is not None)


def _run(plan: SweepPlan, subjects: tuple[Subject, ...]) -> tuple[float, SweepPlan, Mapping[str, Reached]]:
    """Run a plan with the seeds that it needs; return the CPU time, the plan and the reached precision."""
    threads = LocalThreads()
    started = time.process_time()
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        root = Path(folder)
        while True:
            run_sweep(threads, remaining_work(plan, root), root)
            more, reached = plan_more_seeds(lambda: nullcontext(threads), plan, root, subjects)
            if more.runs == plan.runs:
                return time.process_time() - started, plan, reached
            plan = more
