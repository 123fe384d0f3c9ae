"""``endive compare``: which of two configurations is better, and by how much."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import EXIT_CONDITION, JsonFlag, app, command, refuse
from endive.cli.options import AllowCodeOption, CooldownOption, SeedsOption, WarmupOption, output_option, overrides_of
from endive.cli.output import Output, finite
from endive.runs.layout import REPLICATIONS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.analysis.conditions import Condition
    from endive.config import Document
    from endive.report.comparison import Comparison, Judgement, Pairing, Side
    from endive.studies.measure import MetricsOptions

_SEEDS = 10
_SIDES = (
    "Configurations (TOML), experiments (a directory, or ROOT#NAME) or runs, also as NAME=...; or one study with scenarios (TOML, "
    "or the directory of its experiments)."
)


@app.command()
def compare(
    sources: Annotated[list[str], typer.Argument(metavar="[NAME=]SOURCE", help=_SIDES, show_default=False)],
    metric: Annotated[list[str], typer.Option("--metric", metavar="NAME", help="Metric to compare; may be repeated.")] = [],  # noqa: B006
    fail_if: Annotated[
        list[str],
        typer.Option("--fail-if", metavar="CONDITION", help='Exit with 3 if it holds for B: "success < 99%", "p99 > 110% of A".'),
    ] = [],  # noqa: B006
    seeds: SeedsOption = None,
    set_: Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key in the configurations.")] = [],  # noqa: B006
    set_b: Annotated[list[str], typer.Option("--set-b", metavar="KEY=VALUE", help="Override a key in that of B.")] = [],  # noqa: B006
    question: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="What several are compared by, such as success(compaction). Default: the study's."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The short form that the [quick] of a study describes.")] = False,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    out: Annotated[Path, output_option("Directory of runs.")] = Path("compare"),
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Compare two configurations, or the runs of two experiments, metric by metric, with 95 % intervals over paired seeds.

    Three or more, or the scenarios of one study, are each compared with the first, or with the study's baseline; their intervals
    hold together, however many there are.

    Exit codes: 3 if a condition of --fail-if holds for B, or for any of several, otherwise 0.
    """
    with command(json) as output:
        from endive.analysis.conditions import find_metric, parse_condition
        from endive.analysis.run_metrics import RATES
        from endive.cli.alternatives import Asked, compare_alternatives
        from endive.config.study import parse_seeds
        from endive.report.comparison import METRICS
        from endive.studies.measure import MetricsOptions

        conditions = [parse_condition(text, RATES, "--fail-if", relative=True) for text in fail_if]
        metrics = [find_metric(name, RATES, "--metric") for name in metric]
        options, wanted = MetricsOptions(warmup, cooldown), None if seeds is None else parse_seeds(seeds)
        if len(sources) != 2 or question is not None:
            if set_b:
                refuse("--set-b", "is for two: several have files of their own, or are scenarios of a study")
            asked = Asked(sources, question, metrics, conditions, wanted, overrides_of(set_), quick)
            compare_alternatives(output, asked, options, out)
            return
        if quick:
            refuse("--quick", "is for a study with scenarios")
        a, b = sources
        both = overrides_of(set_)
        documents = (document_of(a, both), document_of(b, {**both, **overrides_of(set_b)}))
        names = (" ".join([a, *set_]), " ".join([b, *set_, *set_b]))
        first, second = make_sides(output, (a, b), names, documents, wanted, options, out)
        _tell(output, first, second, metrics or METRICS, conditions)


def document_of(source: str, overrides: dict[str, Any]) -> Document | None:
    """The configuration, if the source is one."""
    from endive.config.load import load_document

    if source.endswith(".toml"):
        return load_document(source, overrides)
    if overrides:
        refuse("--set", f"{source} is no configuration: its runs are what they are")
    return None


def make_sides(
    output: Output,
    sources: Sequence[str],
    names: Sequence[str],
    documents: Sequence[Document | None],
    seeds: Sequence[int] | None,
    options: MetricsOptions,
    out: Path,
) -> list[Side]:
    """All sides in one window; what is a configuration is run, with the seeds of a stored one if there is any."""
    from endive.analysis.warmup import common_window
    from endive.cli.run import announce_compilation
    from endive.output_files import check_writable
    from endive.report.comparison import Side, stored_side
    from endive.runs.execute import prepare_run
    from endive.runs.identity import code_version
    from endive.studies.replicate import Replications

    if any(document is not None for document in documents):
        check_writable(out)
    stored = {place: stored_side(sources[place], options) for place, each in enumerate(documents) if each is None}
    wanted: Sequence[int] = range(_SEEDS)
    if seeds is not None:
        wanted = seeds
    elif stored:
        wanted = next(iter(stored.values())).seeds
    replications = Replications(out / REPLICATIONS_FOLDER, options, keep_rows=True)
    windows = []
    for place, document in enumerate(documents):
        if document is None:
            windows.append(stored[place].window)
            continue
        announce_compilation(output, prepare_run(document, seed=0, among_many=True).simulation)
        windows.append(replications.window(document, wanted))
    try:
        window = common_window(windows)
    except ValueError as error:
        refuse("--warmup", f"there is no window that all have: {error}")
    found = []
    for place, (name, document) in enumerate(zip(names, documents, strict=True)):
        if document is None:
            found.append(stored[place] if window == windows[place] else stored_side(sources[place], options, window))
        else:
            before = replications.runs
            runs = replications.measure(document, wanted, window)
            output.note(f"{name}: {len(runs)} seeds, {replications.runs - before} run now")
            found.append(Side(name, Path(sources[place]).stem, runs, code_version(), partial(replications.submitted, document)))
    return found


def _tell(output: Output, a: Side, b: Side, metrics: Sequence[str], conditions: Sequence[Condition]) -> None:
    from endive.report.comparison import all_subjects, compare_sides, judge, pair_transactions
    from endive.report.phrases import describe_short_run, describe_window, explain_ranges
    from endive.report.verdicts import describe_judgement, describe_pairs, explain_aborts, summarize_comparison

    first, second = replace(a, name="A"), replace(b, name="B")
    found = compare_sides((first, second), all_subjects((a, b), metrics), corrected=1)
    pairing, comparisons = found.pairings["B"], found.comparisons
    judgements = [judge(condition, first, second, pairing) for condition in conditions]
    pairs = pair_transactions(a, b, pairing) or {}
    answer = [*summarize_comparison(found), *describe_pairs(pairs), *explain_aborts((first, second))]
    window = describe_window(a.window)
    transactions = {name: None if each is None else asdict(each) for name, each in pairs.items()}
    more = {"transactions": transactions, "pairs": describe_pairs(pairs), "window": window}
    output.result({**_data(a, b, pairing, comparisons, judgements, answer[0]), **more})
    output.note(*pairing.warnings, describe_short_run(a.window))
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
    from endive.report.verdicts import describe_comparison, describe_judgement

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
                "told": each.is_significant,
                "better": each.better,
                "verdict": describe_comparison(each),
            }
            for each in comparisons
        ],
        "conditions": [
            {
                "condition": each.condition.text,
                "holds": each.holds,
                "clear": each.clear,
                "value": None if each.estimate is None else each.estimate.mean,
                "low": None if each.estimate is None else finite(each.estimate.low),
                "high": None if each.estimate is None else finite(each.estimate.high),
                "verdict": describe_judgement(each),
            }
            for each in judgements
        ],
    }


def _difference_data(each: Comparison) -> dict[str, Any]:
    if each.difference is None:
        return {"difference": None, "half_width": None, "ratio": None, "ratio_half_width": None, "n_a": each.a.n, "n_b": each.b.n}
    return {name: value for name, value in asdict(each.difference).items() if name not in ("a", "b")}
