"""Run the search of ``endive frontier``, state the result in sentences, and write the record and the figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from endive.analysis.conditions import format_bound, format_metric
from endive.analysis.load_search import Frontier, Point, find_frontier
from endive.analysis.run_metrics import ALL
from endive.config import compute_experiment_hash
from endive.config.values import is_time
from endive.formatting import format_count, format_duration, format_number, join_ends
from endive.report.figures.load_curves import build_search_figure
from endive.report.paper import save_figure
from endive.report.phrases import describe_drift, describe_window
from endive.report.search_answer import Note, SearchAnswer, SearchDirectory
from endive.runs.identity import parameters
from endive.runs.layout import FRONTIER
from endive.studies.frontier import Question, estimate_at
from endive.studies.measure import MetricsOptions, RunMetrics
from endive.studies.replicate import Replications

VERDICTS = {"holds": "yes", "fails": "no", "open": "undecided"}
"""Words that print whether a load meets the condition."""
_FORMATS = ("svg", "png")
_SIGN = re.compile(r"\s*(<=|>=|<|>)\s*")
_COUNTED = ("writers", "clients")
"""Keys that are counts."""


FrontierAnswer = SearchAnswer[Question, Frontier]
"""Load at which a condition is first met."""


def answer_frontier(question: Question, folder: Path, options: MetricsOptions, note: Note) -> FrontierAnswer:
    """Search for the load at which a condition is first met, and write the record and the figure to a folder."""
    search = SearchDirectory(folder, options, question.document(question.search.start), note)
    ends = format_load(question, question.search.start), format_load(question, question.search.highest)
    note(f"searching for the lowest load with {question.condition.text} over {question.vary}, from {ends[0]} to {ends[1]}")
    found = find_frontier(
        partial(estimate_at, question, search.replications),
        question.condition,
        question.search,
        lambda point: note(_describe_point(question, point)),
    )
    record = search.write_record(FRONTIER, question, _record(question, found, search.replications))
    files = [folder / FRONTIER]
    if any(point.estimate is not None for point in found.points):
        files += save_figure(build_search_figure(found, question.vary, question.condition, "frontier"), folder, _FORMATS)
    return FrontierAnswer(question, found, record, tuple(files))


def format_load(question: Question, load: float) -> str:
    """Return a load with the unit of the varied key: ``8/s``, ``20 writers``, ``10 s``."""
    last = question.vary.rpartition(".")[2]
    if last in _COUNTED:
        return format_count(round(load), last.removesuffix("s"))
    if is_time(question.vary):
        return format_duration(load)
    return f"{format_number(load, 4)}/s" if last == "rate" else format_number(load, 4)


def _describe_point(question: Question, point: Point) -> str:
    metric, found = question.condition.metric, point.estimate
    if found is None:
        measured = "not measured"
    else:
        mean, low, high = (format_metric(metric, value) for value in (found.mean, found.low, found.high))
        measured = f"{mean} ({join_ends(low, high)})"
        measured = {"number": measured, "bound": format_bound(metric, found.low), "never": mean}[found.kind]
    load, seeds, text = format_load(question, point.load), format_count(point.seeds, "seed"), question.condition.text
    return f"{load}: {_SIGN.split(text)[0]} {measured}, {seeds}; {text}: {VERDICTS[point.verdict]}"


def describe_answer(question: Question, found: Frontier) -> list[str]:
    """Return the result in sentences."""
    text = question.condition.text
    nothing = [point.load for point in found.points if point.estimate is None]
    if len(nothing) == len(found.points):
        return [
            f"No answer for {text}: {question.condition.subject} could not be measured at any load from "
            f"{format_load(question, min(nothing))} to {format_load(question, max(nothing))}. Use longer runs or another range."
        ]
    if found.bound == "above":
        return [f"{text} is not met up to {format_load(question, question.search.highest)}, the highest load of the search."]
    if found.bound == "at_or_below":
        return [f"{text} is already met at the lowest load of the search, {format_load(question, question.search.lowest)}."]
    wider = "Raise --max-seeds or simulation.duration_ms to narrow the interval."
    if found.low is None and found.high is None:
        lowest, highest = (format_load(question, point.load) for point in (found.points[0], found.points[-1]))
        return [f"No answer for {text} at any load from {lowest} to {highest}: the intervals are too wide. {wider}"]
    above = [load for load in nothing if found.high is None and load > (found.low or 0.0)]
    if above:
        reached, lost = format_load(question, found.low or min(above)), format_load(question, min(above))
        return [
            f"{text} is not met up to {reached}; {question.condition.subject} could not be measured at {lost} and above. "
            "Raise simulation.duration_ms."
        ]
    if found.low is None and found.high is not None:
        met = f"{text} is met at {format_load(question, float(f'{found.high:.3g}'))} and above"
        return [f"{met}. At lower loads, the intervals include the threshold. {wider}"]
    if found.high is None and found.low is not None:
        unmet = f"{text} is not met up to {format_load(question, float(f'{found.low:.3g}'))}"
        return [f"{unmet}. At higher loads, the intervals include the threshold. {wider}"]
    digits = question.search.digits
    low, load, high = (None if each is None else float(f"{each:.{digits}g}") for each in (found.low, found.load, found.high))
    interval = join_ends(format_load(question, low or 0.0), format_load(question, high or 0.0))
    at = "an unknown load" if load is None else format_load(question, load)
    answer = [f"{_describe_crossing(text)} at {at} (95% interval: {interval})."]
    if not found.narrow:
        answer.append(f"The interval is wider than the tolerance of {100.0 * question.search.tolerance:g}%. {wider}")
    return answer


def _describe_crossing(condition: str) -> str:
    """Return a condition as an event: ``success falls below 95%`` for ``success < 95%``."""
    subject, sign, threshold = _SIGN.split(condition, maxsplit=1)
    return f"{subject} {'falls below' if sign.startswith('<') else 'exceeds'} {threshold}"


def describe_windows(loads: Sequence[Sequence[RunMetrics]]) -> list[str]:
    """Return a sentence about the measured windows of all loads, and a warning if runs are too short or tables grow."""
    windows = [runs[0].window for runs in loads]
    cuts = sorted({window.start_ms for window in windows})
    if len({format_duration(cut) for cut in cuts}) == 1:
        excluded = describe_window(windows[0])
    else:
        ends = join_ends(format_duration(cuts[0]), format_duration(cuts[-1]))
        excluded = f"The first {ends} are excluded as warm-up, depending on the load."
    drifts = [describe_drift([run.select(ALL, ALL) for run in runs]) for runs in loads]
    warnings = [warning for warning in drifts if warning is not None]
    return (
        [
            excluded,
            warnings[0]
            if len(warnings) == len(loads)
            else f"At {len(warnings)} of {len(loads)} loads, {warnings[0][:1].lower()}{warnings[0][1:]}",
        ]
        if warnings
        else [excluded]
    )


def _record(question: Question, found: Frontier, replications: Replications) -> dict[str, Any]:
    """Return the record of a search: the answer, and the metrics at each load."""
    points, loads = [], []
    for point in found.points:
        document = question.document(point.load)
        runs = replications.measure(document, range(point.seeds))
        loads.append(runs)
        asked = question.condition
        names = (asked.metric, "transactions", "committed", "aborted", "in_flight")
        rows = {str(run.seed): run.select(asked.workload_class, asked.operation) for run in runs}
        points.append(
            {
                "load": point.load,
                "verdict": point.verdict,
                "estimate": None if point.estimate is None else point.estimate.as_data(),
                "experiment": compute_experiment_hash(document),
                "seeds": {seed: {name: row.get(name) for name in names} for seed, row in rows.items()},
            }
        )
    return {
        "answer": describe_answer(question, found),
        "window": describe_windows(loads),
        "bound": found.bound,
        "load": found.load,
        "low": found.low,
        "high": found.high,
        "narrow": found.narrow,
        "vary": question.vary,
        "until": question.condition.text,
        "search": asdict(question.search),
        "points": points,
        "parameters": parameters(question.document(question.search.start)),
    }
