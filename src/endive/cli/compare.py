"""``endive compare``: differences between configurations, experiments or scenarios, with intervals."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import EXIT_CONDITION, JsonFlag, app, command, refuse
from endive.cli.options import (
    AllowCodeOption,
    CooldownOption,
    JunitOption,
    MaxSeedsOption,
    PrecisionOption,
    SeedsOption,
    WarmupOption,
    check_junit,
    output_option,
    overrides_of,
)
from endive.cli.output import Output
from endive.formatting import finite, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.analysis.conditions import Condition, Subject
    from endive.report.comparison import Alternatives, Comparison, Ranking, Side

_SIDES = (
    "Two or more configurations (TOML), experiments (a directory, or ROOT#NAME) or runs. Or one study with "
    "scenarios (TOML, or the directory of its experiments)."
)


@app.command()
def compare(
    sources: Annotated[list[str], typer.Argument(metavar="[NAME=]SOURCE", help=_SIDES, show_default=False)],
    metric: Annotated[list[str], typer.Option("--metric", metavar="NAME", help="Metric to compare; may be repeated.")] = [],  # noqa: B006
    fail_if: Annotated[
        list[str],
        typer.Option(
            "--fail-if",
            metavar="CONDITION",
            help='Exit with 3 if B meets the condition, such as "success < 99%" or "p99 > 110% of A".',
        ),
    ] = [],  # noqa: B006
    junit: JunitOption = None,
    seeds: SeedsOption = None,
    precision: PrecisionOption = None,
    max_seeds: MaxSeedsOption = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of all configurations.")] = [],  # noqa: B006
    set_b: Annotated[
        list[str], typer.Option("--set-b", metavar="KEY=VALUE", help="Override a key of the second configuration (of two).")
    ] = [],  # noqa: B006
    question: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Metric to rank by, such as success(compaction). Default: the question of the study."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of the study, as defined in [quick].")] = False,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    out: Annotated[Path, output_option("Directory of runs.")] = Path("compare"),
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Compare configurations, experiments or scenarios with the first of them, with 95% intervals from paired seeds.

    Two of them are compared metric by metric. Three or more are ranked by each metric, with simultaneous intervals. --question
    ranks two as well.

    --precision applies to the differences in the metrics of --question or --metric (default: success and p95).

    Exit code: 3 if an alternative meets a condition of --fail-if, otherwise 0.
    """
    with command(json) as output:
        from endive.analysis.conditions import find_metric, parse_condition
        from endive.config.study import choose_precision, parse_seeds
        from endive.report.sides import find_question, make_sides, select_scenarios, select_sources
        from endive.report.verdicts import describe_precision
        from endive.studies.measure import MetricsOptions

        conditions = [parse_condition(text, "--fail-if", relative=True) for text in fail_if]
        check_junit(junit, fail_if)
        metrics = [find_metric(name, "--metric") for name in metric]
        if set_b and len(sources) != 2:
            refuse("--set-b", "needs exactly two sources")
        if quick and len(sources) != 1:
            refuse("--quick", "needs a study with scenarios")
        overrides = overrides_of(set_)
        if len(sources) == 1:
            chosen = select_scenarios(sources[0], overrides, quick=quick)
        else:
            chosen = select_sources(sources, overrides, overrides_of(set_b))
        wanted = None if seeds is None else parse_seeds(seeds)
        options, target = MetricsOptions(warmup, cooldown), choose_precision(precision, seeds, max_seeds, "--")
        text = question or chosen.question
        sides, reached = make_sides(chosen, wanted, target, metrics, text, options, out, output.note)
        if target is not None and reached is not None:
            output.note(describe_precision(target, [reached]))
        if len(sources) == 2:
            typed = (" ".join([sources[0], *set_]), " ".join([sources[1], *set_, *set_b]))
            sides = [replace(side, name=name, source=source) for side, name, source in zip(sides, "AB", typed, strict=True)]
        asked = find_question(text, sides, "--question" if question else "sweep.question")
        _show(output, sides, metrics, conditions, asked, text, junit)


def _show(
    output: Output,
    sides: Sequence[Side],
    metrics: Sequence[str],
    conditions: Sequence[Condition],
    asked: Subject | None,
    question: str | None,
    junit: Path | None,
) -> None:
    """Print the comparison of all alternatives with the baseline. Exits with 3 if any alternative meets a condition."""
    from endive.report.comparison import compare_all, judge_condition, pair_transactions
    from endive.report.judgements import judgement_as_data, write_junit
    from endive.report.phrases import describe_window, explain_ranges
    from endive.report.sides import describe_drifts
    from endive.report.verdicts import describe_pairs, explain_aborts, format_value, summarize_comparison

    found = compare_all(sides, asked, metrics)
    baseline, *others = sides
    pairings, window = found.pairings, describe_window(baseline.window)
    judgements = {each.name: [judge_condition(one, baseline, each, pairings[each.name]) for one in conditions] for each in others}
    if junit is not None:
        write_junit(junit, "endive compare", {f"{each.name} ({each.source})": judgements[each.name] for each in others})
    pairs = {each.name: pair_transactions(baseline, each, pairings[each.name]) or {} for each in others}
    outcomes = [text for name, classes in pairs.items() for text in describe_pairs(classes, baseline.name, name)]
    answer, reasons = summarize_comparison(found), explain_aborts(sides)
    judged = [{"alternative": name, **judgement_as_data(each, name)} for name in judgements for each in judgements[name]]
    output.result(
        {
            "baseline": found.baseline,
            "sides": [
                {"name": each.name, "source": each.source, "seeds": list(each.seeds), "code_version": each.code_version}
                for each in sides
            ],
            "question": question,
            "answer": [*answer, *reasons],
            "window": window,
            "warnings": list(found.warnings),
            "paired_seeds": {name: None if each.seeds is None else list(each.seeds) for name, each in pairings.items()},
            "simultaneous": found.corrected,
            "comparisons": [_comparison_data(name, each) for name, each in found.named_comparisons],
            "rankings": [_ranking_data(each) for each in found.rankings],
            "transactions": {
                name: {group: None if each is None else asdict(each) for group, each in classes.items()}
                for name, classes in pairs.items()
            },
            "pairs": outcomes,
            "conditions": judged,
        }
    )
    output.note(*found.warnings, *describe_drifts(sides))
    if len(others) == 1:
        output.text(
            *(f"{each.name}: {each.source} ({format_count(len(each.runs), 'seed')})" for each in sides),
            window,
            *answer,
            *outcomes,
            *reasons,
        )
        _print_differences(output, found)
    else:
        output.text(*answer, *reasons, window)
        _print_rankings(output, found)
    cells = (format_value(ranking.subject.metric, each.estimate) for ranking in found.rankings for each in ranking.sides)
    output.text(None if (ranges := explain_ranges(cells)) is None else f"\n{ranges}")
    several = len(others) > 1
    output.text(
        *([""] if judged else []), *(f"{each['alternative']}: {each['verdict']}" if several else each["verdict"] for each in judged)
    )
    if any(each["holds"] for each in judged):
        raise typer.Exit(EXIT_CONDITION)


def _print_differences(output: Output, found: Alternatives) -> None:
    """Print the metrics of the baseline and of one alternative side by side, in a table for each class."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for name, each in found.named_comparisons:
        title = "All transactions" if each.workload_class == "all" else f"Class {each.workload_class}"
        tables.setdefault(title, []).append(_difference_row(each, name))
    for title, rows in tables.items():
        a, b = found.baseline, *found.pairings
        output.table(f"\n{title}", ("", a, b, f"{b} - {a}", f"{b} / {a}", "verdict"), rows)


def _difference_row(each: Comparison, name: str) -> tuple[str, ...]:
    from endive.report.verdicts import describe_comparison, format_ratio_change, format_signed_change, format_value

    change, ratio = "-", "-"
    if each.difference is not None:
        change, ratio = format_signed_change(each.metric, each.difference), format_ratio_change(each.difference)
    values = (format_value(each.metric, side) for side in (each.a, each.b))
    return (each.metric, *values, change, ratio, describe_comparison(each, name))


def _print_rankings(output: Output, found: Alternatives) -> None:
    """Print all configurations from best to worst, in a table for each metric."""
    from endive.report.verdicts import describe_ranked_side, format_value, name_subject

    for ranking in found.rankings:
        title, metric = name_subject(ranking.subject), ranking.subject.metric
        rows = [(each.name, format_value(metric, each.estimate), describe_ranked_side(each)) for each in ranking.sides]
        output.table(f"\n{title[:1].upper()}{title[1:]}", ("", "", "verdict"), rows)
    intervals = "95% interval" if found.corrected == 1 else f"{found.corrected} simultaneous 95% intervals"
    output.text(f"\nDifferences from {found.baseline}, with {intervals}.")


def _comparison_data(name: str, each: Comparison) -> dict[str, Any]:
    from endive.report.verdicts import describe_comparison

    if each.difference is None:
        names = ("difference", "half_width", "ratio", "ratio_half_width")
        difference = {**dict.fromkeys(names), "n_a": each.a.n, "n_b": each.b.n}
    else:
        difference = {key: value for key, value in asdict(each.difference).items() if key not in ("a", "b")}
    return {
        "alternative": name,
        "metric": each.metric,
        "workload_class": each.workload_class,
        "operation_type": each.operation,
        "a": finite(each.a.mean),
        "b": finite(each.b.mean),
        "a_kind": each.a.kind,
        "b_kind": each.b.kind,
        **difference,
        "significant": each.is_significant,
        "better": each.better,
        "verdict": describe_comparison(each, name),
    }


def _ranking_data(ranking: Ranking) -> dict[str, Any]:
    from endive.report.verdicts import describe_ranked_side, format_value

    subject, best = ranking.subject, ranking.best
    return {
        "metric": subject.metric,
        "workload_class": subject.workload_class,
        "operation_type": subject.operation,
        "order": [
            {"name": each.name, "shown": format_value(subject.metric, each.estimate), "verdict": describe_ranked_side(each)}
            for each in ranking.sides
        ],
        "missing": list(ranking.missing),
        "best": None if best is None else asdict(best),
    }
