"""Compare the advice of ``endive tune`` with an exhaustive search on small systems.

There are two sets of ten systems. The method and the conditions of the first set, ``development``, were adjusted after results were
known. The second set, ``held out``, was written down before any of its results were known, with the method as it was. One objective
was changed before it had a result: ``tune`` rejected a p95 of freshness, because runs have too few transactions for it.

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
from endive.report.tuning_answer import list_settings
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications
from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator, read_tuning

RESULTS = Path(__file__).parent / "results/tune_regret.json"
LIMIT = 0.05
"""Maximum accepted regret."""
FRESH, CHECK = range(100, 104), range(200, 212)
"""Seeds that select the best point of the grid, and seeds that compare it with the advice. No search uses them."""
PLAN = Plan((2, 4), final_seeds=4, refined=10)
CANDIDATES = 10
_FILE = """
[simulation]
duration_ms = 600_000

[storage]
provider = "{store}"

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
_REST = """
[catalog]
type = "service"
workers = 4
network = { median = 1.0 }
load = { median = 8.0, sigma = 0.5 }
commit = { median = 15.0, sigma = 0.5 }
check = { median = 4.0 }
"""
_GLUE = """
[catalog]
type = "service"
writes_metadata = false
network = { median = 3.0 }
load = { median = 25.0, sigma = 0.4 }
commit = { median = 60.0, sigma = 0.4 }
check = { median = 40.0 }
"""
_JDBC = """
[catalog]
type = "service"
writes_metadata = false
workers = 8
lock = "table"
network = { median = 0.5 }
load = { median = 0.5 }
commit = { median = 4.0, sigma = 0.5 }
check = { median = 0.5 }
"""


@dataclass(frozen=True)
class System:
    """System, and the question to ``tune``.

    Attributes:
        name: Name in the results.
        classes: Classes of the workload, as TOML.
        goal: Metric to improve.
        conditions: Conditions to meet.
        search: Groups of settings.
        vary: Further settings, or those of a group in other values.
        store: Object store.
    """

    name: str
    classes: str
    goal: str
    conditions: tuple[str, ...] = ()
    search: tuple[str, ...] = ("phase",)
    vary: tuple[str, ...] = ()
    store: str = "s3"


_RETRY = ("retry=2,4,8,16", "retry_backoff.base_ms=50,100,500,2500", "retry_backoff.max_ms=5000,60000")


def _retries(*classes: str) -> tuple[str, ...]:
    return tuple(f"workload.{name}.{each}" for name in classes for each in _RETRY)


DEVELOPMENT = (
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


HELD_OUT = (
    System(
        "REST, merge appends of a fleet",
        _REST + _FLEET.format(writers=20, every="15s", phase="random", operation="merge_append"),
        "freshness_p95(fleet)",
        ("success(fleet) >= 99%",),
        ("phase", "interval"),
        ("workload.fleet.retry=4,16",),
    ),
    System(
        "Glue, compaction beside appends",
        _GLUE
        + _STREAM.format(rate=1, operation="fast_append")
        + _JOB.format(name="compaction", interval=30_000, operation="rewrite_files", work=10_000),
        "success(compaction)",
        ("p95(ingest) <= 5s", "success(ingest) >= 98%"),
        ("interval",),
        ("workload.compaction.retry=2,4,8,16", "workload.compaction.commits_per_job=1,2,5"),
    ),
    System(
        "JDBC with locks, aligned fleet and a delete job",
        _JDBC
        + _FLEET.format(writers=10, every="20s", phase="aligned", operation="fast_append")
        + _JOB.format(name="deletes", interval=20_000, operation="row_delta", work=3_000),
        "p95(fleet)",
        ("success(fleet) >= 99%", "success(deletes) >= 90%"),
        ("phase",),
        ("workload.deletes.retry=2,4,8,16", "workload.fleet.retry=2,4,8,16"),
    ),
    System(
        "S3 Express, appends near the capacity",
        _STREAM.format(rate=10, operation="fast_append"),
        "p99",
        ("success >= 99%",),
        vary=_retries("ingest"),
        store="s3x",
    ),
    System(
        "committer of a fleet beside overwrites",
        _REST
        + _FLEET.format(writers=12, every="30s", phase="aligned", operation="merge_append")
        + 'committer = { round = "all_writers", timeout_ms = "10s" }\n'
        + _JOB.format(name="overwrites", interval=30_000, operation="overwrite", work=5_000),
        "freshness_p50(fleet)",
        ("success(overwrites) >= 80%", "success(fleet) >= 99%"),
        ("interval",),
        (
            "workload.fleet.every_ms=15000,30000,60000",
            "workload.overwrites.periodic.interval_ms=30000,60000",
            "workload.overwrites.retry=4,16",
            "workload.overwrites.isolation=serializable,snapshot",
        ),
    ),
    System(
        "REST, cost of compaction and expiry beside appends",
        _REST
        + _STREAM.format(rate=0.5, operation="merge_append")
        + _JOB.format(name="compaction", interval=60_000, operation="rewrite_files", work=5_000)
        + _JOB.format(name="expiry", interval=60_000, operation="expire_snapshots", work=1_000)
        + "max_snapshot_age_ms = 60_000\n",
        "cost_per_month",
        ("success(compaction) >= 90%", "p95(ingest) <= 3s"),
        ("interval",),
        (
            "workload.compaction.periodic.interval_ms=20000,30000,60000,120000",
            "workload.expiry.periodic.interval_ms=30000,60000,120000",
            "workload.ingest.retry=4,16",
        ),
    ),
    System(
        "Glue, two overwriting jobs beside a stream",
        _GLUE
        + _STREAM.format(rate=0.3, operation="fast_append")
        + _JOB.format(name="early", interval=30_000, operation="overwrite", work=6_000)
        + _JOB.format(name="late", interval=30_000, operation="overwrite", work=6_000),
        "success(early)",
        ("success(late) >= 60%",),
        ("phase",),
        ("workload.early.retry=2,4,16", "workload.late.retry=2,4,16"),
    ),
    System(
        "REST, closed loop of clients",
        _REST
        + "\n[workload.clients]\nclosed = { clients = 12, think_time = { mean = 500 } }\n"
        + 'operation = "fast_append"\n',
        "throughput",
        ("p95 <= 3s", "success >= 95%"),
        ("writers",),
        ("workload.clients.retry=2,4,16", "workload.clients.retry_backoff.base_ms=50,100,500"),
    ),
    System(
        "JDBC, four tables",
        _JDBC
        + "num_tables = 4\n"
        + _STREAM.format(rate=6, operation="merge_append"),
        "mean_committing",
        ("success >= 99%", "p95 <= 3s"),
        vary=_retries("ingest"),
    ),
    System(
        "Azure, partial progress of compaction beside deletes",
        _FLEET.format(writers=6, every="30s", phase="random", operation="row_delta")
        + _JOB.format(name="compaction", interval=60_000, operation="rewrite_files", work=20_000),
        "success(compaction)",
        ("success(fleet) >= 95%",),
        ("phase",),
        ("workload.compaction.commits_per_job=1,2,5,10", "workload.compaction.retry=2,4,8,16"),
        store="azure",
    ),
)  # fmt: skip
SETS = {"development": DEVELOPMENT, "held out": HELD_OUT}


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
    path.write_text(_FILE.format(classes=system.classes, store=system.store))
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
    """Run the comparison, print it, and write it if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="systems or sets to measure; all by default")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args(arguments)
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    agreed = True
    for label, systems in SETS.items():
        known = {each["name"]: each for each in recorded.get(label, [])}
        for system in systems:
            if not options.names or {label, system.name} & set(options.names):
                known[system.name] = last = _measure_anew(system)
                agreed = agreed and last["agrees"]
        recorded[label] = [known[system.name] for system in systems if system.name in known]
    if options.write:
        RESULTS.write_text(json.dumps({**recorded, "limit": LIMIT}, indent=2) + "\n")
    return 0 if agreed else 1


def _measure_anew(system: System) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = measure_regret(system, Path(folder))
    print(f"{system.name}: regret {found['regret']}, {found['tried']} of {found['grid']} settings", flush=True)
    print(f"  advice {found['advice']}\n  best   {found['best']}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
