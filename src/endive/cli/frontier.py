"""``endive frontier``: the lowest load at which a condition is met."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import (
    AllowCodeOption,
    CooldownOption,
    DryRunFlag,
    SetOption,
    WarmupOption,
    output_option,
    overrides_of,
    seed_count,
)
from endive.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.analysis.load_search import Frontier
    from endive.studies.frontier import Question


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
            "seeds": seed_count(seeds, 2),
            "max_seeds": max_seeds,
            "precision": precision,
        }
        given = frontier_options({**asked, "tolerance": None if tolerance is None else _share(tolerance)})
        question = read_question(config, given, overrides_of(set_), quick=quick)
        if dry_run:
            _show_plan(output, question)
            return
        answer(output, question, out or Path("frontier") / config.stem, warmup, cooldown)


def _show_plan(output: Output, question: Question) -> None:
    """Print the maximum number of runs of a search and their estimated time."""
    from endive.report.frontier_answer import format_load
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
    from endive.report.frontier_answer import answer_frontier
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
    from endive.analysis.load_search import CONFIDENCE
    from endive.report.frontier_answer import VERDICTS, describe_answer, format_load

    output.text(*describe_answer(question, found), *cut, "")
    rows = []
    for point in found.points:
        each = point.estimate
        values = (None, None, None) if each is None else (each.mean, each.low, each.high)
        numbers = (format_metric(question.condition.metric, value) for value in values)
        rows.append((format_load(question, point.load), *numbers, str(point.seeds), VERDICTS[point.verdict]))
    ends = (f"{100.0 * CONFIDENCE:g}% CI lower", f"{100.0 * CONFIDENCE:g}% CI upper")
    output.table("", (question.vary, str(question.condition.subject), *ends, "seeds", f"{question.condition.text}?"), rows)
