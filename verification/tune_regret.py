"""Compare the advice of ``endive tune`` with an exhaustive search on small systems.

Usage:

    python -m verification.tune_regret [--write] [NAME ...]

Each system has a grid of settings that can be tried as a whole. ``tune`` tries a part of it; every point of the grid is then
measured with seeds that the search did not use. The regret is the relative loss of the advice against the best point of the grid
that meets the conditions, on seeds that neither used: the best of many points is partly the luckiest.
Results are in ``verification/results/tune_regret.json``. Takes a few minutes of one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from endive.analysis.halving import Measured, Moves, Plan, tune
from endive.report.advice import list_settings
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications
from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator, read_tuning

RESULTS = Path(__file__).parent / "results/tune_regret.json"
LIMIT = 0.05
"""Largest regret that is accepted."""
FRESH, CHECK = range(100, 104), range(200, 212)
"""Seeds by which the best of the grid is chosen, and seeds on which it is compared with the advice. No search uses them."""
PLAN = Plan((2, 4), final_seeds=4, refined=10)
CANDIDATES = 10
_FILE = """
[simulation]
duration_ms = 600_000

[storage]
provider = "s3"

[transaction]
commit_path = "iceberg"
retry_policy = "iceberg"
runtime = {{ mean = 500, sigma = 0.5 }}
{classes}
"""
_STREAM = '\n[workload.ingest]\nrate = {rate}\noperation = "{operation}"\n'
_FLEET = '\n[workload.fleet]\nwriters = {writers}\nevery = "{every}"\nphase = "{phase}"\noperation = "{operation}"\n'
_JOB = (
    '\n[workload.{name}]\nperiodic = {{ interval_ms = {interval} }}\noperation = "{operation}"\n'
    "runtime = {{ mean = {work}, sigma = 0.3 }}\n"
)


@dataclass(frozen=True)
class System:
    """A system, and the question that is asked of it.

    Attributes:
        name: Name in the results.
        classes: Classes of the workload, as TOML.
        goal: Metric to improve.
        conditions: Conditions to meet.
        search: Groups of settings.
        vary: Further settings, or those of a group in other values.
    """

    name: str
    classes: str
    goal: str
    conditions: tuple[str, ...] = ()
    search: tuple[str, ...] = ("phase",)
    vary: tuple[str, ...] = ()


_RETRY = ("retry=2,4,8,16", "retry_backoff.base_ms=50,100,500,2500", "retry_backoff.max_ms=5000,60000")


def _retries(*classes: str) -> tuple[str, ...]:
    return tuple(f"workload.{name}.{each}" for name in classes for each in _RETRY)


SYSTEMS = (
    System("appends beyond the capacity", _STREAM.format(rate=4, operation="fast_append"), "success", vary=_retries("ingest")),
    System("fast appends", _STREAM.format(rate=2, operation="fast_append"), "p95", ("success >= 99%",), vary=_retries("ingest")),
    System("merge appends", _STREAM.format(rate=1, operation="merge_append"), "p95", ("success >= 95%",), vary=_retries("ingest")),
    System(
        "aligned writers",
        _FLEET.format(writers=12, every="30s", phase="aligned", operation="fast_append"),
        "p95(fleet)",
        ("success(fleet) >= 99%",),
        ("phase", "interval"),
        ("workload.fleet.retry=4,16",),
    ),
    System(
        "number of commits of writers",
        _FLEET.format(writers=8, every="10s", phase="random", operation="fast_append"),
        "cost_per_month",
        ("throughput >= 0.5/s",),
        ("phase", "interval"),
        ("workload.fleet.retry=4,16",),
    ),
    System(
        "overwrites beside appends",
        _STREAM.format(rate=1, operation="fast_append")
        + _JOB.format(name="job", interval=15_000, operation="overwrite", work=2_000),
        "success(job)",
        ("success(ingest) >= 98%",),
        ("interval",),
        ("workload.job.retry=4,8,16", "workload.job.isolation=serializable,snapshot"),
    ),
    System(
        "compaction beside aligned writers",
        _FLEET.format(writers=8, every="30s", phase="aligned", operation="row_delta")
        + _JOB.format(name="job", interval=30_000, operation="rewrite_files", work=3_000),
        "success(fleet)",
        ("success(job) >= 50%",),
        ("phase",),
        ("workload.job.periodic.phase_ms=0,7500,15000,22500", "workload.fleet.retry=2,4,16", "workload.job.retry=4,16"),
    ),
    System(
        "two jobs at the same time",
        _JOB.format(name="early", interval=20_000, operation="overwrite", work=4_000)
        + _JOB.format(name="late", interval=20_000, operation="overwrite", work=4_000),
        "success",
        (),
        ("phase",),
        ("workload.late.retry=2,8",),
    ),
    System(
        "catalog that is busy",
        "\n[catalog]\ntype = \"service\"\nworkers = 1\ncommit = { median = 150, sigma = 0.4 }\n"
        + _FLEET.format(writers=16, every="10s", phase="random", operation="fast_append"),
        "p95(fleet)",
        ("success(fleet) >= 95%", "throughput >= 0.4/s"),
        ("phase", "interval"),
        ("workload.fleet.retry=4,16",),
    ),
    System(
        "deletes beside appends",
        _STREAM.format(rate=0.3, operation="fast_append")
        + _JOB.format(name="job", interval=10_000, operation="row_delta", work=1_000),
        "mean_committing",
        ("success(job) >= 80%", "success(ingest) >= 90%"),
        ("interval",),
        ("workload.ingest.retry=2,4,16", "workload.job.retry=2,4,16"),
    ),
)  # fmt: skip


def measure_regret(
    system: System,
    folder: Path,
    plan: Plan = PLAN,
    fresh: Sequence[int] = FRESH,
    check: Sequence[int] = CHECK,
    candidates: int = CANDIDATES,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Search a system, measure its whole grid, and return the regret of the advice.

    Args:
        system: System and question.
        folder: Folder of the runs.
        plan: Plan of the search.
        fresh: Seeds that the grid is measured with.
        check: Seeds that the best of the grid and the advice are compared on.
        candidates: Number of settings that the search starts with.
        overrides: Keys to override in the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "system.toml"
    path.write_text(_FILE.format(classes=system.classes))
    changes = overrides or {}
    question = read_tuning(path, system.goal, system.conditions, system.vary, changes, candidates, 0, search=system.search)
    replications = Replications(folder / "runs", MetricsOptions())
    evaluate = CostEvaluator(question, replications)
    found = tune(evaluate, len(question.candidates), [TODAY, ICEBERG], plan, moves=Moves(question.neighbours, question.simpler))
    tried = len(found.chosen_by)
    grid = [question.find(question.space.reduce(point)) for point in _all_points(question.space.dimensions)]
    measured = {each: evaluate(each, fresh) for each in {TODAY, *grid, *([] if found.best is None else [found.best])}}
    allowed = {each: costs for each, costs in measured.items() if costs.kept and costs.mean is not None}
    best = min(allowed, key=lambda each: _mean(allowed[each])) if allowed else None
    compared = {each: evaluate(each, check) for each in (TODAY, best, found.best) if each is not None}
    regret = None
    if best is not None and found.best is not None and compared[found.best].allowed != "fails":
        regret = _regret(compared[found.best], compared[best])
    return {
        **asdict(system),
        "grid": len(measured),
        "tried": tried,
        "runs": replications.runs,
        "advice": None if found.best is None else list_settings(question, found.best),
        "best": None if best is None else list_settings(question, best),
        "advice_cost": None if found.best is None else compared[found.best].mean,
        "best_cost": None if best is None else compared[best].mean,
        "today_cost": compared[TODAY].mean,
        "today_verdict": compared[TODAY].allowed,
        "regret": regret,
        "agrees": regret is not None and regret <= LIMIT if best is not None else found.best is None,
    }


def _all_points(dimensions: Sequence[Any]) -> list[Mapping[str, Any]]:
    names = [each.name for each in dimensions]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(each.choices for each in dimensions))]


def _mean(measured: Measured) -> float:
    assert measured.mean is not None
    return measured.mean


def _regret(advice: Measured, best: Measured) -> float:
    return (_mean(advice) - _mean(best)) / abs(_mean(best)) if _mean(best) else _mean(advice) - _mean(best)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="systems to measure; all by default")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    results = []
    for system in SYSTEMS:
        if options.names and system.name not in options.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure_regret(system, Path(folder)))
        last = results[-1]
        print(f"{system.name}: regret {last['regret']}, {last['tried']} of {last['grid']} settings", flush=True)
        print(f"  advice {last['advice']}\n  best   {last['best']}", flush=True)
    if options.write:
        before = {} if not RESULTS.exists() else {each["name"]: each for each in json.loads(RESULTS.read_text())["systems"]}
        known = {**before, **{each["name"]: each for each in results}}
        ordered = [known[system.name] for system in SYSTEMS if system.name in known]
        RESULTS.write_text(json.dumps({"limit": LIMIT, "systems": ordered}, indent=2) + "\n")
    return 0 if all(each["agrees"] for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
