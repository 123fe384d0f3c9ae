"""``endive screen``: the parameters that matter most for a metric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, command
from endive.cli.options import (
    AllowCodeOption,
    ConfigArgument,
    CooldownOption,
    SetOption,
    WarmupOption,
    output_option,
    overrides_of,
)


@app.command()
def screen(
    config: ConfigArgument,
    for_: Annotated[str, typer.Option("--for", metavar="METRIC", help='Metric, such as "success(compaction)".')],
    parameters: Annotated[
        list[str],
        typer.Option(
            metavar="KEY[=VALUES]",
            help="Parameter to vary: KEY=LOW..HIGH, KEY=a,b,c, or KEY for the range from half to double its "
            "value. Default: all numbers in FILE.",
        ),
    ] = [],  # noqa: B006
    trajectories: Annotated[
        int, typer.Option(metavar="N", help="Number of trajectories of the method of Morris.", min=2, max=1000)
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
    """Rank parameters by their effect on a metric, with the method of Morris.

    Print the ranking and write it as a figure. A second call reuses finished runs. Requires SALib: pip install 'endive[screen]'.
    """
    with command(json) as output:
        from endive.report.screening_answer import answer_screening, format_effect, format_range
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
