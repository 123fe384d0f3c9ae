"""``endive tune``: the settings that optimize a metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import (
    AllowCodeOption,
    ConfigArgument,
    CooldownOption,
    DryRunFlag,
    MaxSeedsOption,
    PrecisionOption,
    SetOption,
    WarmupOption,
    output_option,
    overrides_of,
    precision_of,
    seed_count,
)
from endive.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endive.analysis.halving import Plan
    from endive.studies.measure import MetricsOptions
    from endive.studies.tuning import TuningQuestion

_CANDIDATES, _QUICK_CANDIDATES = 24, 8
_SEEDS, _QUICK_SEEDS = 10, 6
_ROUNDS, _QUICK_ROUNDS = (2, 4, 8), (2, 4)


@app.command()
def tune(
    config: ConfigArgument,
    for_: Annotated[str, typer.Option("--for", metavar="METRIC", help='Metric to optimize, such as "time_to_commit_p99(ingest)".')],
    subject_to: Annotated[
        list[str],
        typer.Option(metavar="CONDITION", help='Condition that the settings must meet, such as "success(compaction) >= 95%".'),
    ] = [],  # noqa: B006
    search: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Settings to search: retries, interval, phase, partial_progress, expiry, writers. Default: all that apply, except "
            "writers; interval only with --subject-to.",
        ),
    ] = [],  # noqa: B006
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="KEY=VALUES", help="Key to search as well: KEY=LOW..HIGH or KEY=a,b,c."),
    ] = [],  # noqa: B006
    candidates: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Number of candidates to try. Default: {_CANDIDATES}, with --quick {_QUICK_CANDIDATES}.", min=1
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|0-B",
            help=f"Number of seeds of the final comparison, such as 10 or 0-9. Default: {_SEEDS}, with --quick {_QUICK_SEEDS}.",
        ),
    ] = None,
    precision: PrecisionOption = None,
    max_seeds: MaxSeedsOption = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for the choice of candidates.", min=0)] = 0,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    set_: SetOption = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Try fewer candidates, in fewer rounds, with fewer seeds.")] = False,
    out: Annotated[Path | None, output_option("Directory for the answer and the runs. Default: tune/NAME.")] = None,
    dry_run: DryRunFlag = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Find the settings of clients and jobs that optimize a metric under conditions.

    Print the best settings, the 95% intervals of their advantage over the current settings and over Iceberg's defaults, the
    runner-up, and snippets to paste (table properties, checkpoint intervals, cron lines). A second call reuses finished runs.
    """
    with command(json) as output:
        from endive.analysis.halving import Plan
        from endive.analysis.replication_rule import is_share
        from endive.studies.measure import MetricsOptions
        from endive.studies.tuning import check_precision, read_tuning

        overrides = overrides_of(set_)
        count = candidates or (_QUICK_CANDIDATES if quick else _CANDIDATES)
        final = seed_count(seeds, 2) or (_QUICK_SEEDS if quick else _SEEDS)
        target = precision_of(precision, seeds, max_seeds, ())
        question = read_tuning(config, for_, subject_to, vary, overrides, count, seed, search=search)
        check_precision(question, target, "--precision")
        rounds, shares = _QUICK_ROUNDS if quick else _ROUNDS, is_share(question.objective.metric)
        plan = Plan(rounds, final_seeds=final, refined=count, precision=target, is_share=shares)
        if dry_run:
            _show_plan(output, question, plan)
            return
        _answer(output, question, plan, MetricsOptions(warmup, cooldown), out or Path("tune") / config.stem)


def _show_plan(output: Output, question: TuningQuestion, plan: Plan) -> None:
    """Print the settings to try, the maximum number of runs and their estimated time."""
    from endive.formatting import format_duration
    from endive.report.tuning_answer import count_most_runs, list_settings
    from endive.runs.effort import estimate_effort

    candidates, most = range(len(question.candidates)), count_most_runs(question, plan)
    seconds = sum(estimate_effort(each.document).cpu_seconds for each in question.candidates) / len(candidates)
    settings = {question.candidates[candidate].name: list_settings(question, candidate) for candidate in candidates}
    output.result(
        {"for": str(question.objective), "settings": settings, "most_runs": most, "estimated_core_seconds": most * seconds}
    )
    output.table("", ("", "settings"), list(settings.items()))
    output.text("", f"At most {most} runs. Estimated CPU time: {format_duration(1000.0 * most * seconds)}.")


def _answer(output: Output, question: TuningQuestion, plan: Plan, options: MetricsOptions, folder: Path) -> None:
    """Search, write the record and print the result."""
    from endive.report.precision_answer import describe_precision
    from endive.report.tuning_answer import answer_tuning

    done = answer_tuning(question, plan, options, folder, output.note)
    output.result({**done.record, "files": [str(done.file)]})
    output.text(*done.record["answer"], *done.record["window"])
    if plan.precision is not None and done.found.reached is not None:
        output.text(describe_precision(plan.precision, [done.found.reached]))
    output.text("")
    _table(output, question, done.record)
    for each in done.record["paste"]:
        output.text("", f"{each['where']}:")
        output.verbatim(each["text"])
    output.text("", f"{done.record['runs']} runs in {done.record['seconds']:.1f} s; {done.file}")


def _table(output: Output, question: TuningQuestion, record: Mapping[str, Any]) -> None:
    from endive.analysis.conditions import format_bound, format_metric

    metric = question.objective.metric
    rows = []
    for each in record["last_comparison"]:
        number = format_bound(metric, each["low"]) if each["kind"] == "bound" else format_metric(metric, each["mean"])
        number = "aborted" if each["kind"] == "never" else number
        ends = (format_metric(metric, each["low"]), format_metric(metric, each["high"])) if each["kind"] == "number" else ("-", "-")
        verdicts = ({"holds": "yes", "fails": "no"}.get(verdict, "open") for verdict in each["conditions"])
        rows.append((each["name"], number, *ends, *verdicts, each["settings"]))
    conditions = [each.text for each in question.conditions]
    output.table("", ("", str(question.objective), "95% CI lower", "95% CI upper", *conditions, "settings"), rows)
