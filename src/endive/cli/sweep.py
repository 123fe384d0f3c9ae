"""``endive sweep``: run all combinations of parameter values and seeds on Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import EXIT_FAILED, JsonFlag, app, command, fail, progress, refuse
from endive.cli.options import (
    ROOT,
    AllowCodeOption,
    DryRunFlag,
    MasterOption,
    MaxSeedsOption,
    PreciseForOption,
    PrecisionOption,
    RemoteOption,
    RowsOption,
    SeedsOption,
    ShipOption,
    output_option,
    precise_subjects,
)
from endive.cli.output import Output
from endive.formatting import format_count, format_duration

if TYPE_CHECKING:
    from endive.analysis.conditions import Subject
    from endive.analysis.replication_rule import Reached
    from endive.config.sweep_file import Sweep
    from endive.pipeline import sweep as sweeps
    from endive.pipeline.session import StartingSession
    from endive.pipeline.sweep import ProgressMonitor
    from endive.runs.execute import Outcome
    from endive.runs.plan import SweepPlan, Work

_MANY_RUNS = 100_000
_MANY_POINTS = 300
"""Number of points whose estimates take about 10 s."""


@app.command()
def sweep(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Sweep (TOML).", show_default=False)],
    out: Annotated[Path, output_option("Directory of experiments.")] = ROOT,
    seeds: SeedsOption = None,
    precision: PrecisionOption = None,
    max_seeds: MaxSeedsOption = None,
    for_: PreciseForOption = [],  # noqa: B006
    rows: RowsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of the sweep, as defined in [quick].")] = False,
    dry_run: DryRunFlag = False,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"Run the sweep even if it exceeds {_MANY_RUNS:,} runs, a day, or the free disk space.")
    ] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Run all unfinished points of a sweep. The same command resumes a stopped sweep."""
    with command(json) as output:
        from endive.config.sweep_file import Sweep, parse_rows
        from endive.output_files import check_writable, remove_leftovers
        from endive.pipeline.session import SparkOptions, starting_session
        from endive.runs.effort import objections
        from endive.runs.plan import describe_rows, keep_study, plan_sweep, remaining_work

        is_new = not out.exists()
        reader = Sweep(path, quick=quick, seeds=seeds, precision=precision, max_seeds=max_seeds, rows=parse_rows(rows))
        if for_ and reader.precision is None:
            refuse("--for", "has no effect without --precision")
        if not dry_run:
            check_writable(out)
        runs = reader.combinations * len(reader.seeds)
        if runs > _MANY_RUNS and not yes:
            fail(output, f"{path}: {runs:,} runs; pass --yes to run them")
        with starting_session(SparkOptions(master, remote, ship_code)) as starting:
            if not dry_run and is_new:
                starting.begin()  # no run can be finished, so Spark starts while the sweep is planned
            if reader.combinations >= _MANY_POINTS:
                output.note(f"estimating the work of {reader.combinations:,} points with short simulations")
            plan = plan_sweep(reader)
            question = check_question(reader, plan)
            subjects = precise_subjects(for_, [question] if question else [], plan.precision)
            work = remaining_work(plan, out)
            output.note(*(f"{damaged}; this run is repeated" for damaged in work.damaged))
            if work.older:
                output.note(
                    f"{format_count(work.older, 'experiment')} of an older model version: the results in {out} are kept, and the "
                    f"points are run again. `endive experiments remove {out} --old` removes the old results."
                )
            objected = list(objections(work.effort, out, os.cpu_count() if starting.is_local else None))
            if plan.rows != "all":
                output.note(describe_rows(plan.rows, reader.rows is None))
            if dry_run:
                _show_plan(output, plan, work)
                output.note(*objected)
                return
            if objected and not yes:
                fail(output, f"{path}: {'; '.join(objected)}; pass --yes to run it")
            keep_study(out, reader, plan)
            cleared = remove_leftovers(out)
            if cleared:
                output.note(f"removed {len(cleared)} temporary files of killed processes")
            _run(output, plan, work, out, starting, Stages(reader, subjects, is_forced=yes))


def check_question(reader: Sweep, plan: SweepPlan) -> Subject | None:
    """Return the metric that a sweep names as its question.

    Raises ConfigError if there is no such metric, or if no point has its class.
    """
    from endive.analysis.conditions import parse_question

    if reader.question is None:
        return None
    classes = {name for point in plan.points for name in point.document.workload}
    return parse_question(reader.question, classes, f"{reader.path}: sweep.question")


@dataclass(frozen=True)
class Stages:
    """Settings of the later stages of a sweep with a precision: its file, the metrics, and whether any cost is accepted."""

    reader: Sweep
    subjects: tuple[Subject, ...]
    is_forced: bool


def _run(output: Output, plan: SweepPlan, work: Work, out: Path, starting: StartingSession, stages: Stages) -> None:
    """Run a plan and, with a precision, the further seeds that its points need."""
    from endive.pipeline.sweep import plan_more_seeds, run_sweep
    from endive.runs.plan import keep_study, remaining_work

    started, finished = time.perf_counter(), work.finished
    outcomes: list[Outcome] = []
    reached: Mapping[str, Reached] = {}
    while True:
        with watching(output, work, out) as monitor:
            outcomes += run_sweep(starting.get(), work, out, monitor=monitor) if work.todo else ()
        if plan.precision is None or any(outcome.state == "failed" for outcome in outcomes):
            break
        more, reached = plan_more_seeds(lambda: nullcontext(starting.get()), plan, out, stages.subjects)
        keep_study(out, stages.reader, more)
        if more.runs == plan.runs:
            break
        before, plan = plan, more
        work = remaining_work(plan, out)
        _check_stage(output, before, plan, work, out, starting, stages)
    _report(output, plan, finished, outcomes, time.perf_counter() - started, out, reached)
    if any(outcome.state == "failed" for outcome in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _check_stage(
    output: Output, before: SweepPlan, plan: SweepPlan, work: Work, out: Path, starting: StartingSession, stages: Stages
) -> None:
    """Print how many points need more seeds; fail if they cost more than the user has accepted."""
    from endive.runs.effort import objections

    points = sum(len(plan.seeds_of(point)) > len(before.seeds_of(point)) for point in plan.points)
    output.note(f"{points} of {len(plan.points)} points need more seeds for {plan.precision}: {len(work.todo)} more runs")
    objected = list(objections(work.effort, out, os.cpu_count() if starting.is_local else None))
    if plan.runs > _MANY_RUNS:
        objected.append(f"{plan.runs:,} runs")
    if objected and not stages.is_forced:
        fail(output, f"{stages.reader.path}: {'; '.join(objected)}; pass --yes to run it, or choose a lower precision")


@contextmanager
def watching(output: Output, work: Work, out: Path) -> Iterator[ProgressMonitor]:
    """Show the progress of a sweep: as a bar on a terminal, elsewhere as lines."""
    from endive.pipeline.sweep import ProgressMonitor

    with progress(output, "runs", len(work.todo)) as bar:
        yield ProgressMonitor(work, out, ProgressLines(output.note).update if bar is None else lambda now: bar(now.done))


_ESTIMATE_FROM = 0.05
"""Fraction of the work after which the remaining time is estimated; before that, Spark's start dominates."""


class ProgressLines:
    """Printer of progress lines at an interval; shorter sweeps print none."""

    def __init__(
        self, write: Callable[[str], None], every_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._every, self._clock = write, every_seconds, clock
        self._started = self._printed = clock()

    def update(self, progress: sweeps.Progress) -> None:
        """Print the finished runs and the estimated time left, if the interval has passed."""
        now = self._clock()
        if now - self._printed < self._every or progress.done == progress.total:
            return
        self._printed = now
        left = (now - self._started) * (1.0 - progress.share) / progress.share if progress.share >= _ESTIMATE_FROM else None
        rest = "" if left is None else f", about {format_duration(round(left) * 1000.0)} remaining"
        self._write(
            f"{progress.done:,} of {progress.total:,} runs after {format_duration(round(now - self._started) * 1000.0)}{rest}"
        )


def _show_plan(output: Output, plan: SweepPlan, work: Work) -> None:
    output.result(
        {
            "points": len(plan.points),
            "seeds": list(plan.seeds),
            "runs": plan.runs,
            "finished": work.finished,
            "to_do": len(work.todo),
            "estimated_transactions": work.effort.transactions,
            "estimated_core_seconds": work.effort.cpu_seconds,
            "estimated_bytes": work.effort.disk_bytes,
            "plan": [{"experiment": point.experiment, **point.values} for point in plan.points],
        }
    )
    keys = list(dict.fromkeys(key for point in plan.points for key in point.values))
    rows = [[point.experiment, *(str(point.values.get(key, "")) for key in keys)] for point in plan.points[:50]]
    output.table(f"{plan.name}: {format_count(len(plan.points), 'point')}", ["experiment", *keys], rows)
    if len(plan.points) > 50:
        output.text(f"... and {len(plan.points) - 50} more")
    output.text(
        "",
        f"{format_count(plan.runs, 'run')} ({format_count(len(plan.seeds), 'seed')}), {work.finished} finished, {len(work.todo)} "
        "remaining",
        None
        if plan.precision is None
        else f"These are the first runs; points with intervals wider than {plan.precision} get up to "
        f"{plan.precision.most_seeds} seeds.",
        f"estimate: {work.effort.transactions:,.0f} transactions, {work.effort.cpu_seconds:,.0f} s of CPU time, "
        f"{work.effort.disk_bytes / 2**20:,.0f} MiB on disk",
    )


def _report(
    output: Output,
    plan: SweepPlan,
    finished: int,
    outcomes: Sequence[Outcome],
    seconds: float,
    out: Path,
    reached: Mapping[str, Reached],
) -> None:
    from endive.report.verdicts import describe_precision, precision_as_data

    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    values = {point.experiment: dict(point.values) for point in plan.points}
    summary: dict[str, Any] = {
        "runs": plan.runs,
        "finished_before": finished,
        "done": sum(outcome.state == "done" for outcome in outcomes),
        "found": sum(outcome.state == "found" for outcome in outcomes),
        "failed": [{"experiment": f.experiment, "seed": f.seed, "error": f.error, "values": values[f.experiment]} for f in failed],
        "rows": sum(outcome.rows for outcome in outcomes),
        "engine_seconds": sum(outcome.seconds for outcome in outcomes),
        "wall_seconds": seconds,
        "rows_kept": plan.rows,
        "directory": str(out),
    }
    if plan.precision is not None and reached:
        summary |= precision_as_data(plan.precision, reached.values())
        summary["seeds"] = {
            point.directory(out).name: reached[point.experiment].seeds for point in plan.points if point.experiment in reached
        }
    output.result(summary)
    for failure in failed:
        shown = ", ".join(f"{key} = {value!r}" for key, value in values[failure.experiment].items())
        output.error(f"{failure.experiment} seed {failure.seed} ({shown}): {failure.error}")
    output.text(
        f"{format_count(plan.runs, 'run')}: {finished} already finished, {summary['done'] + summary['found']} new, {len(failed)} "
        f"failed; {summary['rows']:,} rows in {seconds:.1f} s, written to {out}"
    )
    if plan.precision is not None and reached:
        output.text(describe_precision(plan.precision, reached.values()))
