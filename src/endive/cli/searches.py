"""``endive frontier``, ``tune`` and ``screen``: searches over loads, settings and parameters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command, refuse
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
    seed_count,
)
from endive.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endive.analysis.halving import Plan
    from endive.analysis.load_search import Frontier
    from endive.studies.frontier import Question
    from endive.studies.measure import MetricsOptions
    from endive.studies.tuning import TuningQuestion


@app.command()
def frontier(
    config: Annotated[
        Path, typer.Argument(metavar="FILE", help="Configuration, or study with [frontier] (TOML).", show_default=False)
    ],
    vary: Annotated[str | None, typer.Option(metavar="KEY", help="Key of the load, such as workload.ingest.rate.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Condition to search for, such as "success(compaction) < 95%".')
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="LOAD", help="First load, such as 10 or 5min. Default: the value in the file."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="LOAD", help="Highest load. Default: 1,024 times the first load.")] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Relative width of the load interval at which the search stops. Default: 5%."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N|0-B", help="Number of seeds per load, such as 5 or 0-4. Default: 5.")
    ] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum number of seeds at a load whose interval contains the threshold. Default: 40, with --precision 100.",
            min=2,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Half width of the load interval at which the search stops, such as 5%. Replaces --tolerance and --seeds.",
        ),
    ] = None,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    set_: SetOption = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of the study, as defined in [quick].")] = False,
    out: Annotated[Path | None, output_option("Directory for the answer and the runs. Default: frontier/NAME.")] = None,
    dry_run: DryRunFlag = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Find the lowest load at which a condition is met, by bisection with replications.

    Print the load with its 95% interval, and write a figure and a record of the search. A second call reuses finished runs.
    """
    with command(json) as output:
        from endive.config.study import frontier_options
        from endive.studies.frontier import read_question

        asked = {
            "vary": vary,
            "until": until,
            "from": _given(from_),
            "to": _given(to),
            "seeds": seed_count(seeds),
            "max_seeds": max_seeds,
            "precision": precision,
        }
        given = frontier_options({**asked, "tolerance": None if tolerance is None else _share(tolerance)})
        question = read_question(config, given, overrides_of(set_), quick=quick)
        if dry_run:
            _show_search_plan(output, question)
            return
        answer(output, question, out or Path("frontier") / config.stem, warmup, cooldown)


def _show_search_plan(output: Output, question: Question) -> None:
    """Print the maximum number of runs of a search and their estimated time."""
    from endive.report.search_answer import format_load
    from endive.runs.effort import estimate_effort

    search = question.search
    ends = search.start, search.highest
    loads = math.ceil(math.log2(search.highest / search.start)) + math.ceil(math.log2(1.0 / search.tolerance))
    runs = max(1, loads) * search.seeds + 2 * max(0, search.max_seeds - search.seeds)
    seconds = [estimate_effort(question.document(load)).cpu_seconds for load in ends]
    plan = {"vary": question.vary, "until": question.condition.text, "from": ends[0], "to": ends[1], "most_runs": runs}
    output.result({**plan, "estimated_core_seconds_per_run": seconds, "estimated_core_seconds": runs * max(seconds)})
    first, last = (format_load(question, load) for load in ends)
    output.text(
        f"Search for {question.condition.text} over {question.vary}, from {first} to {last}: at most {runs} runs.",
        f"Estimated CPU time: {_seconds(seconds[0])} for a run at {first} and {_seconds(seconds[1])} at {last}, "
        f"at most {_seconds(runs * max(seconds))} in total.",
    )


def _seconds(seconds: float) -> str:
    from endive.formatting import format_duration

    return format_duration(1000.0 * seconds)


def answer(output: Output, question: Question, folder: Path, warmup: float | None = None, cooldown: float = 0.0) -> None:
    """Search, write the record and the figure, and print the result."""
    from endive.report.search_answer import answer_frontier
    from endive.studies.measure import MetricsOptions

    done = answer_frontier(question, folder, MetricsOptions(warmup, cooldown), output.note)
    output.result({**done.record, "files": [str(file) for file in done.files]})
    _show(output, question, done.found, done.record["window"])
    output.text("", f"{done.record['runs']} runs in {done.record['seconds']:.1f} s; {', '.join(str(file) for file in done.files)}")


def _share(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 10.0:
        refuse("--tolerance", f"{text!r} is not a fraction such as 5% or 0.05")
    return value


def _given(load: str | None) -> float | str | None:
    """Parse a load: a number, or a duration such as 5min."""
    try:
        return None if load is None else float(load)
    except ValueError:
        return load


def _show(output: Output, question: Question, found: Frontier, cut: Sequence[str]) -> None:
    from endive.analysis.conditions import format_metric
    from endive.analysis.estimates import CONFIDENCE
    from endive.report.search_answer import VERDICTS, describe_frontier, format_load

    output.text(*describe_frontier(question, found), *cut, "")
    rows = []
    for point in found.points:
        each = point.estimate
        values = (None, None, None) if each is None else (each.mean, each.low, each.high)
        numbers = (format_metric(question.condition.metric, value) for value in values)
        rows.append((format_load(question, point.load), *numbers, str(point.seeds), VERDICTS[point.verdict]))
    ends = (f"{100.0 * CONFIDENCE:g}% CI lower", f"{100.0 * CONFIDENCE:g}% CI upper")
    output.table("", (question.vary, str(question.condition.subject), *ends, "seeds", f"{question.condition.text}?"), rows)


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
        typer.Option("--vary", metavar="KEY=VALUES", help="Additional key to search: KEY=LOW..HIGH or KEY=a,b,c."),
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
    """Find the client and job settings that optimize a metric subject to conditions.

    Print the best settings, the 95% intervals of their advantage over the current settings and over Iceberg's defaults, the
    runner-up, and snippets to paste (table properties, checkpoint intervals, cron lines). A second call reuses finished runs.
    """
    with command(json) as output:
        from endive.analysis.halving import Plan
        from endive.analysis.replication_rule import is_share
        from endive.config.study import choose_precision
        from endive.studies.measure import MetricsOptions
        from endive.studies.tuning import check_precision, read_tuning

        overrides = overrides_of(set_)
        count = candidates or (_QUICK_CANDIDATES if quick else _CANDIDATES)
        final = seed_count(seeds) or (_QUICK_SEEDS if quick else _SEEDS)
        target = choose_precision(precision, seeds, max_seeds, "--")
        question = read_tuning(config, for_, subject_to, vary, overrides, count, seed, search=search)
        check_precision(question, target, "--precision")
        rounds, shares = _QUICK_ROUNDS if quick else _ROUNDS, is_share(question.objective.metric)
        plan = Plan(rounds, final_seeds=final, refined=count, precision=target, is_share=shares)
        if dry_run:
            _show_tuning_plan(output, question, plan)
            return
        _answer_tuning(output, question, plan, MetricsOptions(warmup, cooldown), out or Path("tune") / config.stem)


def _show_tuning_plan(output: Output, question: TuningQuestion, plan: Plan) -> None:
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


def _answer_tuning(output: Output, question: TuningQuestion, plan: Plan, options: MetricsOptions, folder: Path) -> None:
    """Search, write the record and print the result."""
    from endive.report.tuning_answer import answer_tuning
    from endive.report.verdicts import describe_precision

    done = answer_tuning(question, plan, options, folder, output.note)
    output.result({**done.record, "files": [str(each) for each in done.files]})
    output.text(*done.record["answer"], *done.record["window"])
    if plan.precision is not None and done.found.reached is not None:
        output.text(describe_precision(plan.precision, [done.found.reached]))
    output.text("")
    _show_candidates(output, question, done.record)
    for each in done.record["paste"]:
        output.text("", f"{each['where']}:")
        output.verbatim(each["text"])
    output.text("", f"{done.record['runs']} runs in {done.record['seconds']:.1f} s; {done.files[0]}")


def _show_candidates(output: Output, question: TuningQuestion, record: Mapping[str, Any]) -> None:
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


@app.command()
def screen(
    config: ConfigArgument,
    for_: Annotated[str, typer.Option("--for", metavar="METRIC", help='Metric, such as "success(compaction)".')],
    parameters: Annotated[
        list[str],
        typer.Option(
            metavar="KEY[=VALUES]",
            help="Parameter to vary: KEY=LOW..HIGH, KEY=a,b,c, or KEY for a range from half to twice its value. Default: all "
            "numbers in FILE.",
        ),
    ] = [],  # noqa: B006
    trajectories: Annotated[
        int, typer.Option(metavar="N", help="Number of trajectories of the Morris method.", min=2, max=1000)
    ] = 10,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds per point.", min=1, max=1000)] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for the choice of trajectories.", min=0)] = 0,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    set_: SetOption = [],  # noqa: B006
    out: Annotated[Path | None, output_option("Directory for the answer and the runs. Default: screen/NAME.")] = None,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Rank parameters by their effect on a metric with the Morris method.

    Print the ranking and write it as a figure. A second call reuses finished runs. Requires SALib: pip install 'endive[screen]'.
    """
    with command(json) as output:
        from endive.report.search_answer import answer_screening, format_effect, format_range
        from endive.studies.measure import MetricsOptions
        from endive.studies.screening import read_screening

        question = read_screening(config, for_, parameters, overrides_of(set_))
        folder = out or Path("screen") / config.stem
        done = answer_screening(question, trajectories, seeds, seed, MetricsOptions(warmup, cooldown), folder, output.note)
        output.result({**done.record, "files": [str(each) for each in done.files]})
        metric = question.objective.metric
        rows = [
            (
                each.parameter.name,
                format_range(each.parameter),
                *(format_effect(metric, value) for value in (each.size, each.half_width, each.deviation)),
                "increases" if each.mean > 0.0 else "decreases" if each.mean < 0.0 else "-",
            )
            for each in done.found.effects
        ]
        output.text(*done.record["answer"], "")
        output.table("", ("", "range", "effect", "±", "deviation", "direction"), rows)
        output.text("", f"{done.record['runs']} runs in {done.record['seconds']:.1f} s; {', '.join(map(str, done.files))}")
