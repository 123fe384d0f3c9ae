"""``endive frontier``: the load from which on a condition is met."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from endive.cli.output import Output, finite
from endive.runs.layout import FRONTIER, REPLICATIONS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endive.analysis.load_search import Frontier, Point
    from endive.analysis.warmup import Window
    from endive.studies.frontier import Question
    from endive.studies.measure import MetricsOptions
    from endive.studies.replicate import Replications
    from endive.studies.tuning import TuningQuestion

_FORMATS = ("svg", "png")
_VERDICTS = {"holds": "yes", "fails": "no", "open": "open"}
_COUNTED = ("writers", "clients")
"""Keys that are counts, printed with their noun."""


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
        typer.Option("--from", metavar="LOAD", help="First load, such as 10 or 5min. Default: that of the file."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="LOAD", help="Highest load. Default: 1,024 times the first.")] = None,
    tolerance: Annotated[str | None, typer.Option(metavar="SHARE", help="Width of the interval to reach. Default: 5%.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N|0-B", help="Seeds at each load: 5 or 0-4. Default: 5.")] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Maximum number of seeds at a load whose interval contains the threshold. Default: 40.", min=2
        ),
    ] = None,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    set_: SetOption = [],  # noqa: B006
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of the study's [quick].")] = False,
    out: Annotated[Path | None, output_option("Directory to write the answer and the runs to. Default: frontier/NAME.")] = None,
    dry_run: DryRunFlag = False,
    allow_code: AllowCodeOption = False,
    json: JsonFlag = False,
) -> None:
    """Find the lowest load at which a condition is met, by bisection with replications.

    Prints the load with its 95% interval, and writes a figure and a record of the search. A second call reuses finished runs.
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
        }
        given = frontier_options({**asked, "tolerance": None if tolerance is None else _share(tolerance)})
        question = read_question(config, given, overrides_of(set_), quick=quick)
        if dry_run:
            _show_plan(output, question)
            return
        answer(output, question, out or Path("frontier") / config.stem, warmup, cooldown)


def _show_plan(output: Output, question: Question) -> None:
    """Print the largest number of runs that a search takes, and their estimated time."""
    from endive.runs.effort import estimate_effort

    search = question.search
    ends = search.start, search.highest
    loads = math.ceil(math.log2(search.highest / search.start)) + math.ceil(math.log2(1.0 / search.tolerance))
    runs = max(1, loads) * search.seeds + 2 * max(0, search.max_seeds - search.seeds)
    seconds = [estimate_effort(question.document(load)).cpu_seconds for load in ends]
    plan = {"vary": question.vary, "until": question.condition.text, "from": ends[0], "to": ends[1], "most_runs": runs}
    output.result({**plan, "estimated_core_seconds_per_run": seconds, "estimated_core_seconds": runs * max(seconds)})
    first, last = (_load(question, load) for load in ends)
    output.text(
        f"Search for {question.condition.text} over {question.vary}, from {first} to {last}: at most {runs} runs.",
        f"Time of one core: about {_seconds(seconds[0])} for a run at {first}, {_seconds(seconds[1])} at {last}; "
        f"at most {_seconds(runs * max(seconds))} in total.",
    )


def _seconds(seconds: float) -> str:
    from endive.formatting import format_duration

    return format_duration(1000.0 * seconds)


def answer(output: Output, question: Question, folder: Path, warmup: float | None = None, cooldown: float = 0.0) -> None:
    """Search, write the record and the figure, and print the answer."""
    from endive.analysis.load_search import find_frontier
    from endive.cli.run import announce_compilation
    from endive.output_files import check_writable
    from endive.runs.execute import prepare_run
    from endive.studies.frontier import estimate_at
    from endive.studies.measure import MetricsOptions
    from endive.studies.replicate import Replications

    started = time.perf_counter()
    check_writable(folder)
    options = MetricsOptions(warmup, cooldown)
    replications = Replications(folder / REPLICATIONS_FOLDER, options)
    announce_compilation(output, prepare_run(question.document(question.search.start), seed=0, among_many=True).simulation)
    ends = _load(question, question.search.start), _load(question, question.search.highest)
    output.note(f"searching for {question.condition.text} over {question.vary}, from {ends[0]} to {ends[1]}")
    found = find_frontier(
        partial(estimate_at, question, replications),
        question.condition,
        question.search,
        lambda point: output.note(_progress(question, point)),
    )
    record = _record(question, found, replications, options, time.perf_counter() - started)
    files = _write(folder, question, found, record)
    output.result({**record, "files": [str(file) for file in files]})
    _show(output, question, found, record["window"])
    output.text("", f"{replications.runs} runs in {record['seconds']:.1f} s; {', '.join(str(file) for file in files)}")


def _share(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 10.0:
        refuse("--tolerance", f"{text!r} is not a share such as 5% or 0.05")
    return value


def _given(load: str | None) -> float | str | None:
    """Return a load as it was typed: a number, or text such as 5min."""
    try:
        return None if load is None else float(load)
    except ValueError:
        return load


def _load(question: Question, load: float) -> str:
    """Return a load with the unit of its key; counts are whole numbers."""
    from endive.config.values import is_time
    from endive.formatting import format_count, format_duration, format_number

    last = question.vary.rpartition(".")[2]
    if last in _COUNTED:
        return format_count(round(load), last.removesuffix("s"))
    if is_time(question.vary):
        return format_duration(load)
    return f"{format_number(load, 4)}/s" if last == "rate" else format_number(load, 4)


def _progress(question: Question, point: Point) -> str:
    from endive.analysis.conditions import format_metric
    from endive.formatting import join_ends

    metric, found = question.condition.metric, point.estimate
    if found is None:
        measured = "not measured"
    else:
        mean, low, high = (format_metric(metric, value) for value in (found.mean, found.low, found.high))
        measured = f"{mean} ({join_ends(low, high)})"
        measured = {"number": measured, "bound": f"> {low}", "never": mean}[found.kind]
    return f"{_load(question, point.load)}: {measured}, {point.seeds} seeds; {question.condition.text}? {_VERDICTS[point.verdict]}"


def describe_answer(question: Question, found: Frontier) -> list[str]:
    """Return the answer in sentences."""
    from endive.formatting import join_ends

    text = question.condition.text
    nothing = [point.load for point in found.points if point.estimate is None]
    if len(nothing) == len(found.points):
        return [
            f"No answer for {text}: {question.condition.subject} could not be measured at any load from "
            f"{_load(question, min(nothing))} to {_load(question, max(nothing))}. Try longer runs or another range."
        ]
    if found.bound == "above":
        return [f"{text} is not met up to {_load(question, question.search.highest)}, the highest load of the search."]
    if found.bound == "at_or_below":
        return [f"{text} is met at {_load(question, question.search.lowest)} already, the lowest load of the search."]
    wider = "More seeds (--max-seeds) or longer runs narrow the interval."
    if found.low is None and found.high is None:
        lowest, highest = (_load(question, point.load) for point in (found.points[0], found.points[-1]))
        return [f"No answer for {text} at any load from {lowest} to {highest}: the intervals are too wide. {wider}"]
    above = [load for load in nothing if found.high is None and load > (found.low or 0.0)]
    if above:
        return [
            f"{text} is not met up to {_load(question, found.low or min(above))}; from {_load(question, min(above))} on "
            f"{question.condition.subject} could not be measured. Try longer runs."
        ]
    if found.low is None and found.high is not None:
        return [f"{text} is met from {_load(question, found.high)} on; below that the intervals are too wide. {wider}"]
    if found.high is None and found.low is not None:
        return [f"{text} is not met up to {_load(question, found.low)}; above that the intervals are too wide. {wider}"]
    digits = question.search.digits
    low, load, high = (None if each is None else float(f"{each:.{digits}g}") for each in (found.low, found.load, found.high))
    interval = join_ends(_load(question, low or 0.0), _load(question, high or 0.0))
    at = "an unknown load" if load is None else _load(question, load)
    answer = [f"{text} is met from {at} on (95% interval: {interval})."]
    if not found.narrow:
        answer.append(f"The interval is wider than the tolerance of {100.0 * question.search.tolerance:g}%. {wider}")
    return answer


def describe_windows(windows: Sequence[Window]) -> list[str]:
    """Return the measurement windows of all loads in a sentence, and a warning if runs were too short."""
    from endive.formatting import format_duration, join_ends
    from endive.report.phrases import describe_short_run, describe_window

    cuts = sorted({window.start_ms for window in windows})
    if len({format_duration(cut) for cut in cuts}) == 1:
        excluded = describe_window(windows[0])
    else:
        excluded = f"The first {join_ends(format_duration(cuts[0]), format_duration(cuts[-1]))} are excluded as warm-up, by load."
    warnings = [warning for window in windows if (warning := describe_short_run(window)) is not None]
    return [excluded, f"At {len(warnings)} of {len(windows)} loads: {warnings[0]}"] if warnings else [excluded]


def _show(output: Output, question: Question, found: Frontier, cut: Sequence[str]) -> None:
    from endive.analysis.conditions import format_metric
    from endive.analysis.load_search import CONFIDENCE

    output.text(*describe_answer(question, found), *cut, "")
    rows = []
    for point in found.points:
        each = point.estimate
        values = (None, None, None) if each is None else (each.mean, each.low, each.high)
        numbers = (format_metric(question.condition.metric, value) for value in values)
        rows.append((_load(question, point.load), *numbers, str(point.seeds), _VERDICTS[point.verdict]))
    ends = (f"{100.0 * CONFIDENCE:g}% low", "high")
    output.table("", (question.vary, question.condition.subject, *ends, "seeds", f"{question.condition.text}?"), rows)


def _record(
    question: Question, found: Frontier, replications: Replications, options: MetricsOptions, seconds: float
) -> dict[str, Any]:
    """Return the record of the search, by which the answer can be reproduced."""
    from dataclasses import asdict

    from endive.config import compute_experiment_hash
    from endive.runs.identity import parameters

    points, windows = [], []
    for point in found.points:
        document = question.document(point.load)
        runs = replications.measure(document, range(point.seeds))
        windows.append(runs[0].window)
        metric, group, operation = question.condition.metric, question.condition.workload_class, question.condition.operation
        points.append(
            {
                "load": point.load,
                "verdict": point.verdict,
                "estimate": None if point.estimate is None else _plain(asdict(point.estimate)),
                "experiment": compute_experiment_hash(document),
                "seeds": {str(run.seed): _select(run.select(group, operation), metric) for run in runs},
            }
        )
    return {
        "answer": describe_answer(question, found),
        "window": describe_windows(windows),
        "bound": found.bound,
        "load": found.load,
        "low": found.low,
        "high": found.high,
        "narrow": found.narrow,
        "vary": question.vary,
        "until": question.condition.text,
        "search": asdict(question.search),
        "warmup_ms": options.warmup_ms,
        "cooldown_ms": options.cooldown_ms,
        "points": points,
        "runs": replications.runs,
        "seconds": round(seconds, 3),
        **origin_of(question),
        "parameters": parameters(question.document(question.search.start)),
    }


def _select(row: Any, metric: str) -> dict[str, Any]:
    return {name: row.get(name) for name in (metric, "transactions", "committed", "aborted", "in_flight")}


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else finite(value) for name, value in numbers.items()}


def origin_of(question: Question | TuningQuestion) -> dict[str, Any]:
    """Return the code, file and overrides that an answer was made with."""
    from endive import __version__
    from endive.runs.identity import code_version
    from endive.version import get_git_sha

    return {
        "endive_version": __version__,
        "code_version": code_version(),
        "git_commit": get_git_sha(),
        "source": question.source,
        "overrides": dict(question.overrides),
        "configuration": question.tree,
    }


def _write(folder: Path, question: Question, found: Frontier, record: dict[str, Any]) -> list[Path]:
    from json import dumps

    from endive.output_files import write_text
    from endive.report.figures.load_curves import build_search_figure
    from endive.report.paper import save_figure

    files = [folder / FRONTIER]
    write_text(files[0], dumps(record, indent=2) + "\n")
    if any(point.estimate is not None for point in found.points):
        files += save_figure(build_search_figure(found, question.vary, question.condition, "frontier"), folder, _FORMATS)
    return files
