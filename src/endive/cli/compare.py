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
    precision_of,
)
from endive.cli.output import Output
from endive.formatting import finite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endive.analysis.conditions import Condition
    from endive.report.comparison import Alternatives, Comparison, Pairing, RankedSide, Ranking, Side
    from endive.report.judgements import Judgement

_SIDES = (
    "Two or more configurations (TOML), experiments (a directory, or ROOT#NAME) or runs; or one study with scenarios (TOML, or the "
    "directory of its experiments)."
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
    set_b: Annotated[list[str], typer.Option("--set-b", metavar="KEY=VALUE", help="Override a key of the second of two.")] = [],  # noqa: B006
    question: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="Metric to rank by, such as success(compaction). Default: that of the study."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of the study, as defined in [quick].")] = False,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    out: Annotated[Path, output_option("Directory of runs.")] = Path("compare"),
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Compare configurations, experiments or scenarios with the first, with 95% intervals over paired seeds.

    Two sources are compared metric by metric. More sources, or the scenarios of a study, are ranked, with simultaneous intervals.

    --precision applies to the differences in --question or --metric (default: success and p95).

    Exit codes: 3 if a condition of --fail-if is met by any alternative, otherwise 0.
    """
    with command(json) as output:
        from endive.analysis.conditions import find_metric, parse_condition
        from endive.analysis.run_metrics import RATES
        from endive.config.study import parse_seeds
        from endive.report.comparison import METRICS
        from endive.report.precision_answer import describe_precision
        from endive.report.sides import make_precise_sides, make_sides, select_scenarios, select_sources
        from endive.studies.measure import MetricsOptions

        conditions = [parse_condition(text, RATES, "--fail-if", relative=True) for text in fail_if]
        check_junit(junit, fail_if)
        metrics = [find_metric(name, RATES, "--metric") for name in metric]
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
        options, target = MetricsOptions(warmup, cooldown), precision_of(precision, seeds, max_seeds, ())
        if target is None:
            sides = make_sides(chosen, wanted, options, out, output.note)
        else:
            text = question or chosen.question
            sides, reached = make_precise_sides(chosen, target, metrics, text, options, out, output.note)
            output.note(describe_precision(target, [reached]))
        if len(sources) == 2 and question is None:
            typed = (" ".join([sources[0], *set_]), " ".join([sources[1], *set_, *set_b]))
            first, second = (replace(side, source=source) for side, source in zip(sides, typed, strict=True))
            _show_pair(output, first, second, metrics or METRICS, conditions, junit)
        else:
            _rank(output, sides, metrics, conditions, question, chosen.question, junit)


def _rank(
    output: Output,
    sides: Sequence[Side],
    metrics: Sequence[str],
    conditions: Sequence[Condition],
    asked: str | None,
    of_study: str | None,
    junit: Path | None,
) -> None:
    """Rank sides by the question, or by the metrics, against the first. Exits with 3 if any meets a condition."""
    from endive.analysis.conditions import parse_question
    from endive.report.comparison import choose_subjects, compare_sides, judge_condition
    from endive.report.judgements import write_junit

    question, text = None, asked or of_study
    if text is not None:
        classes = {name for side in sides for name, _ in side.groups}
        question = parse_question(text, classes, "--question" if asked else "sweep.question")
    found = compare_sides(sides, choose_subjects(sides, question, metrics))
    baseline, *others = sides
    judgements = {
        side.name: [judge_condition(each, baseline, side, found.pairings[side.name]) for each in conditions] for side in others
    }
    if junit is not None:
        write_junit(junit, "endive compare", judgements)
    _show_ranking(output, found, sides, judgements, text)


def _show_pair(
    output: Output, a: Side, b: Side, metrics: Sequence[str], conditions: Sequence[Condition], junit: Path | None
) -> None:
    from endive.report.comparison import compare_sides, judge_condition, list_subjects, pair_transactions
    from endive.report.judgements import describe_judgement, write_junit
    from endive.report.phrases import describe_window, explain_ranges
    from endive.report.sides import describe_drifts
    from endive.report.verdicts import describe_pairs, explain_aborts, summarize_comparison

    first, second = replace(a, name="A"), replace(b, name="B")
    found = compare_sides((first, second), list_subjects((a, b), metrics), corrected=1)
    pairing, comparisons = found.pairings["B"], found.comparisons
    judgements = [judge_condition(condition, first, second, pairing) for condition in conditions]
    if junit is not None:
        write_junit(junit, "endive compare", {b.source: judgements})
    pairs = pair_transactions(a, b, pairing) or {}
    answer = [*summarize_comparison(found), *describe_pairs(pairs), *explain_aborts((first, second))]
    window = describe_window(a.window)
    transactions = {name: None if each is None else asdict(each) for name, each in pairs.items()}
    more = {"transactions": transactions, "pairs": describe_pairs(pairs), "window": window}
    output.result({**_data(a, b, pairing, comparisons, judgements, answer[0]), **more})
    output.note(*pairing.warnings, *describe_drifts((a, b)))
    output.text(f"A: {a.source} ({len(a.runs)} seeds)", f"B: {b.source} ({len(b.runs)} seeds)", window, *answer)
    ranges: str | None = None
    for workload_class in dict.fromkeys(each.workload_class for each in comparisons):
        rows = [_row(each) for each in comparisons if each.workload_class == workload_class]
        title = "\nAll transactions" if workload_class == "all" else f"\nClass {workload_class}"
        output.table(title, ("", "A", "B", "B - A", "B / A", "verdict"), rows)
        ranges = ranges or explain_ranges(cell for row in rows for cell in row)
    if ranges is not None:
        output.text(f"\n{ranges}")
    if judgements:
        output.text("", *map(describe_judgement, judgements))
    if any(judgement.holds for judgement in judgements):
        raise typer.Exit(EXIT_CONDITION)


def _show_ranking(
    output: Output, found: Alternatives, sides: Sequence[Side], judgements: Mapping[str, Sequence[Judgement]], question: str | None
) -> None:
    from endive.report.judgements import judgement_as_data
    from endive.report.phrases import describe_window, explain_ranges
    from endive.report.sides import describe_drifts
    from endive.report.verdicts import (
        describe_ranked_side,
        explain_aborts,
        format_value,
        name_subject,
        summarize_comparison,
    )

    answer, window = [*summarize_comparison(found), *explain_aborts(sides)], describe_window(sides[0].window)
    conditions = [{"alternative": name, **judgement_as_data(each, name)} for name, judged in judgements.items() for each in judged]
    output.result(
        {
            "baseline": found.baseline,
            "alternatives": [
                {"name": side.name, "source": side.source, "seeds": list(side.seeds), "code_version": side.code_version}
                for side in sides
            ],
            "question": question,
            "answer": answer,
            "window": window,
            "warnings": list(found.warnings),
            "comparisons": found.corrected,
            "rankings": [_ranking_data(each) for each in found.rankings],
            "conditions": conditions,
        }
    )
    output.note(*found.warnings, *describe_drifts(sides))
    output.text(*answer, window)
    for ranking in found.rankings:
        title, metric = name_subject(ranking.subject), ranking.subject.metric
        rows = [(each.name, format_value(metric, each.estimate), describe_ranked_side(each)) for each in ranking.sides]
        output.table(f"\n{title[:1].upper()}{title[1:]}", ("", "", "verdict"), rows)
    intervals = "95% interval" if found.corrected == 1 else f"{found.corrected} simultaneous 95% intervals"
    output.text(f"\nDifferences from {found.baseline}, with {intervals}.")
    output.text(
        explain_ranges(format_value(ranking.subject.metric, each.estimate) for ranking in found.rankings for each in ranking.sides)
    )
    output.text(*(f"{each['alternative']}: {each['verdict']}" for each in conditions))
    if any(each["holds"] for each in conditions):
        raise typer.Exit(EXIT_CONDITION)


def _row(each: Comparison) -> tuple[str, ...]:
    from endive.report.verdicts import describe_comparison, format_ratio_change, format_signed_change, format_value

    sides = tuple(format_value(each.metric, side) for side in (each.a, each.b))
    change, ratio = "-", "-"
    if each.difference is not None:
        change, ratio = format_signed_change(each.metric, each.difference), format_ratio_change(each.difference)
    return (each.metric, *sides, change, ratio, describe_comparison(each))


def _data(
    a: Side, b: Side, pairing: Pairing, comparisons: Sequence[Comparison], judgements: Sequence[Judgement], short: str
) -> dict[str, Any]:
    from endive.report.judgements import judgement_as_data
    from endive.report.verdicts import describe_comparison

    return {
        "a": {"source": a.source, "name": a.name, "seeds": list(a.seeds), "code_version": a.code_version},
        "b": {"source": b.source, "name": b.name, "seeds": list(b.seeds), "code_version": b.code_version},
        "paired": pairing.paired,
        "seeds": None if pairing.seeds is None else list(pairing.seeds),
        "warnings": list(pairing.warnings),
        "answer": short,
        "comparisons": [
            {
                "metric": each.metric,
                "workload_class": each.workload_class,
                "operation_type": each.operation,
                "a": finite(each.a.mean),
                "b": finite(each.b.mean),
                "a_kind": each.a.kind,
                "b_kind": each.b.kind,
                **_difference_data(each),
                "significant": each.is_significant,
                "better": each.better,
                "verdict": describe_comparison(each),
            }
            for each in comparisons
        ],
        "conditions": [judgement_as_data(each) for each in judgements],
    }


def _difference_data(each: Comparison) -> dict[str, Any]:
    if each.difference is None:
        return {"difference": None, "half_width": None, "ratio": None, "ratio_half_width": None, "n_a": each.a.n, "n_b": each.b.n}
    return {name: value for name, value in asdict(each.difference).items() if name not in ("a", "b")}


def _ranking_data(ranking: Ranking) -> dict[str, Any]:
    subject, best = ranking.subject, ranking.best
    return {
        "metric": subject.metric,
        "workload_class": subject.workload_class,
        "operation_type": subject.operation,
        "order": [_standing_data(subject.metric, each) for each in ranking.sides],
        "missing": list(ranking.missing),
        "best": None if best is None else {"name": best.name, "clear": best.clear, "rivals": list(best.rivals)},
    }


def _standing_data(metric: str, each: RankedSide) -> dict[str, Any]:
    from endive.report.verdicts import describe_ranked_side, format_value

    compared = each.comparison
    data: dict[str, Any] = {"name": each.name, "shown": format_value(metric, each.estimate), "verdict": describe_ranked_side(each)}
    if compared is None:
        return data
    return {
        **data,
        "value": finite(compared.b.mean),
        "kind": compared.b.kind,
        "significant": compared.is_significant,
        "better": compared.better,
        "difference": None if compared.difference is None else asdict(compared.difference),
    }
