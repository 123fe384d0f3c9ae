"""``endive tune``: the settings that optimize a metric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import (
    AllowCodeOption,
    ConfigArgument,
    CooldownOption,
    DryRunFlag,
    SetOption,
    WarmupOption,
    output_option,
    overrides_of,
    seed_count,
)
from endive.cli.output import Output, finite
from endive.runs.layout import REPLICATIONS_FOLDER, TUNING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endive.analysis.halving import Advantage, Measured, Plan, Tuned
    from endive.studies.measure import MetricsOptions
    from endive.studies.tuning import CostEvaluator, TuningQuestion

_CANDIDATES, _QUICK_CANDIDATES = 24, 8
_SEEDS, _QUICK_SEEDS = 10, 6
_ROUNDS, _QUICK_ROUNDS = (2, 4, 8), (2, 4)


@app.command()
def tune(
    config: ConfigArgument,
    for_: Annotated[str, typer.Option("--for", metavar="METRIC", help='Metric to improve, such as "time_to_commit_p99(ingest)".')],
    subject_to: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Condition to meet, such as "success(compaction) >= 95%".')
    ] = None,
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="KEY=VALUES", help="Also search a key: LOW..HIGH, or a,b,c."),
    ] = [],  # noqa: B006
    candidates: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Settings to try. Default: {_CANDIDATES}, with --quick {_QUICK_CANDIDATES}.", min=1),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|0-B", help=f"Seeds of the final comparison: 10 or 0-9. Default: {_SEEDS}, with --quick {_QUICK_SEEDS}."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed for choosing settings.", min=0)] = 0,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    set_: SetOption = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Try fewer settings, in fewer rounds, with fewer seeds.")] = False,
    out: Annotated[Path | None, output_option("Directory to write the answer and the runs to. Default: tune/NAME.")] = None,
    dry_run: DryRunFlag = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Find the retry settings, and values of other keys, that optimize a metric.

    Prints the best with a 95% interval of its advantage over the current settings and over Iceberg's defaults. A second call reuses
    finished runs.
    """
    with command(json) as output:
        from endive.analysis.halving import Plan
        from endive.studies.measure import MetricsOptions
        from endive.studies.tuning import read_tuning

        overrides = overrides_of(set_)
        count = candidates or (_QUICK_CANDIDATES if quick else _CANDIDATES)
        plan = Plan(_QUICK_ROUNDS if quick else _ROUNDS, final_seeds=seed_count(seeds, 2) or (_QUICK_SEEDS if quick else _SEEDS))
        question = read_tuning(config, for_, subject_to, vary, overrides, count, seed)
        if dry_run:
            _show_plan(output, question, plan)
            return
        _answer(output, question, plan, MetricsOptions(warmup, cooldown), out or Path("tune") / config.stem)


def _most_runs(question: TuningQuestion, plan: Plan) -> int:
    """Return the largest number of runs that a search takes."""
    from endive.studies.replicate import WINDOW_SEEDS
    from endive.studies.tuning import ICEBERG, TODAY

    references = len({TODAY, ICEBERG})
    return plan.most_runs(len(question.candidates), references) + references * max(0, WINDOW_SEEDS - plan.rounds[0])


def _show_plan(output: Output, question: TuningQuestion, plan: Plan) -> None:
    """Print the settings to try, the largest number of runs and their estimated time."""
    from endive.formatting import format_duration
    from endive.report.advice import list_settings, name_objective
    from endive.runs.effort import estimate_effort

    candidates, most = range(len(question.candidates)), _most_runs(question, plan)
    seconds = sum(estimate_effort(each.document).cpu_seconds for each in question.candidates) / len(candidates)
    settings = {question.candidates[candidate].name: list_settings(question, candidate) for candidate in candidates}
    output.result(
        {"for": name_objective(question), "settings": settings, "most_runs": most, "estimated_core_seconds": most * seconds}
    )
    output.table("", ("", "settings"), list(settings.items()))
    output.text("", f"At most {most} runs, about {format_duration(1000.0 * most * seconds)} of one core.")


def _answer(output: Output, question: TuningQuestion, plan: Plan, options: MetricsOptions, folder: Path) -> None:
    """Search, write the record and print the answer."""
    from json import dumps

    from endive.analysis.halving import tune as search
    from endive.cli.run import announce_compilation
    from endive.output_files import check_writable, write_text
    from endive.report.advice import describe_outcome
    from endive.report.phrases import describe_short_run, describe_window
    from endive.runs.execute import prepare_run
    from endive.studies.measure import check_window
    from endive.studies.replicate import Replications
    from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator

    started = time.perf_counter()
    check_writable(folder)
    for candidate in question.candidates:
        check_window(candidate.document, options)
    references = [TODAY, ICEBERG]
    most = _most_runs(question, plan)
    announce_compilation(output, prepare_run(question.candidates[TODAY].document, seed=0, among_many=True).simulation)
    output.note(f"{len(question.candidates)} settings, at most {most} runs; finished runs are reused")
    replications = Replications(folder / REPLICATIONS_FOLDER, options)
    evaluate = CostEvaluator(question, replications)

    def evaluated(candidate: int, seeds: Any) -> Measured:
        found = evaluate(candidate, seeds)
        name = question.candidates[candidate].name
        output.note(f"  {name}: {describe_outcome(question, found)}, {len(seeds)} seeds; {replications.runs} of {most} runs")
        return found

    def announced(number: int, size: int) -> None:
        what = f"round {number} of {len(plan.rounds)}" if number else "final comparison, with new seeds"
        output.note(f"{what}: {size} settings")

    found = search(evaluated, len(question.candidates), references, plan, announced)
    window = [line for line in (describe_window(evaluate.window), describe_short_run(evaluate.window)) if line is not None]
    record = {
        **_record(question, found, plan, evaluate),
        "window": window,
        "most_runs": most,
        "runs": replications.runs,
        "warmup_ms": options.warmup_ms,
        "cooldown_ms": options.cooldown_ms,
        "seconds": round(time.perf_counter() - started, 3),
    }
    file = folder / TUNING
    write_text(file, dumps(record, indent=2) + "\n")
    output.result({**record, "files": [str(file)]})
    output.text(*record["answer"], *window, "")
    _table(output, question, record)
    output.text("", f"{replications.runs} runs in {record['seconds']:.1f} s; {file}")


def _record(question: TuningQuestion, found: Tuned, plan: Plan, evaluate: CostEvaluator) -> dict[str, Any]:
    """Return the record of the search, by which the answer can be reproduced."""
    from dataclasses import asdict

    from endive.cli.frontier import origin_of
    from endive.report.advice import describe_tuning, name_objective
    from endive.studies.tuning import ICEBERG, TODAY

    best = found.best
    return {
        "answer": describe_tuning(question, found),
        "for": name_objective(question),
        "subject_to": None if question.condition is None else question.condition.text,
        "best": None if best is None else question.candidates[best].name,
        "settings": None if best is None else dict(question.candidates[best].settings),
        "clear": found.clear_over(TODAY),
        "today_is_iceberg": question.same_references,
        "over_today": _advantage(found.advantages.get(TODAY)),
        "over_iceberg": _advantage(found.advantages.get(ICEBERG)),
        "last_comparison": [_final(question, found, candidate, plan, evaluate) for candidate in found.finals],
        "candidates": [_tried(question, found, candidate) for candidate in range(len(question.candidates))],
        "plan": asdict(plan),
        **origin_of(question),
    }


def _advantage(found: Advantage | None) -> dict[str, Any] | None:
    if found is None:
        return None
    size, width = (None, None) if found.difference is None else (found.difference.difference, found.difference.half_width)
    low, high = (None, None) if size is None or width is None else (size - width, size + width)
    return {
        "clear": found.clear,
        "advantage": size,
        "low": low,
        "high": high,
        "wins": found.wins,
        "losses": found.losses,
        "seeds": found.seeds,
    }


def _final(question: TuningQuestion, found: Tuned, candidate: int, plan: Plan, evaluate: CostEvaluator) -> dict[str, Any]:
    from endive.analysis.estimates import estimate_metric
    from endive.report.advice import list_settings

    objective, measured = question.objective, found.finals[candidate]
    runs = evaluate.runs(candidate, plan.fresh)
    rows = [run.select(objective.workload_class, objective.operation) for run in runs]
    estimate = estimate_metric(rows, objective.metric)
    return {
        "name": question.candidates[candidate].name,
        "settings": list_settings(question, candidate),
        **{name: finite(getattr(estimate, name, None)) for name in ("mean", "low", "high")},
        "kind": None if estimate is None else estimate.kind,
        "condition": measured.allowed if question.condition is not None else None,
        "seeds": {str(run.seed): row.get(objective.metric) for run, row in zip(runs, rows, strict=True)},
        "over": _advantage(found.advantages.get(candidate)),
    }


def _tried(question: TuningQuestion, found: Tuned, candidate: int) -> dict[str, Any]:
    from endive.config import compute_experiment_hash
    from endive.report.advice import describe_outcome

    each, measured = question.candidates[candidate], found.chosen_by[candidate]
    return {
        "name": each.name,
        "settings": dict(each.settings),
        "experiment": compute_experiment_hash(each.document),
        "rounds": found.last_round[candidate],
        "seeds": len(measured.costs),
        "outcome": describe_outcome(question, measured),
    }


def _table(output: Output, question: TuningQuestion, record: Mapping[str, Any]) -> None:
    from endive.analysis.conditions import format_metric
    from endive.report.advice import name_objective

    metric = question.objective.metric
    rows = []
    for each in record["last_comparison"]:
        number = {"never": "aborted", "bound": f"> {format_metric(metric, each['low'])}"}.get(
            each["kind"], format_metric(metric, each["mean"])
        )
        ends = (format_metric(metric, each["low"]), format_metric(metric, each["high"])) if each["kind"] == "number" else ("-", "-")
        condition = [] if question.condition is None else [{"holds": "yes", "fails": "no"}.get(each["condition"], "open")]
        rows.append((each["name"], number, *ends, *condition, each["settings"]))
    condition = [] if question.condition is None else [question.condition.text]
    output.table("", ("", name_objective(question), "95% low", "high", *condition, "settings"), rows)
