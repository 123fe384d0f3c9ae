"""Run the searches of ``endive frontier`` and ``endive screen``, state their results in sentences, and write records and figures.

``SearchDirectory`` stores the runs and the record of a search, also for ``endive tune``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from endive.analysis.conditions import format_bound, format_metric, kind_of
from endive.analysis.halving import Dimension
from endive.analysis.load_search import Frontier, Point, find_frontier
from endive.analysis.run_metrics import ALL
from endive.config import Document, compute_experiment_hash
from endive.config.values import is_time
from endive.formatting import format_count, format_duration, format_estimate, format_number, join_ends, join_names
from endive.output_files import check_writable, write_text
from endive.report.figure import Axis, Figure
from endive.report.figures.line_charts import build_search_figure
from endive.report.paper import save_figure
from endive.report.phrases import describe_drift, describe_window, note_compilation
from endive.report.style import PALETTE, QUIET
from endive.report.verdicts import name_subject
from endive.runs.identity import parameters
from endive.runs.layout import FRONTIER, REPLICATIONS_FOLDER, SCREENING
from endive.studies.frontier import Question, VariedFile, estimate_at
from endive.studies.measure import MetricsOptions, RunMetrics
from endive.studies.replicate import Replications
from endive.studies.screening import Effect, Screening, ScreeningQuestion, screen

Note = Callable[[str], None]
"""Function that prints a line of progress."""
QuestionT = TypeVar("QuestionT", bound=VariedFile)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class SearchAnswer(Generic[QuestionT, ResultT]):
    """Finished search: question, result, record, and the written files."""

    question: QuestionT
    found: ResultT
    record: dict[str, Any]
    files: tuple[Path, ...]


class SearchDirectory:
    """Directory of a search, with its runs and the record of its result."""

    def __init__(self, folder: Path, options: MetricsOptions, document: Document, note: Note) -> None:
        self._started = time.perf_counter()
        check_writable(folder)
        note_compilation(document, note)
        self.folder, self._options = folder, options
        self.replications = Replications(folder / REPLICATIONS_FOLDER, options)

    def write_record(self, name: str, question: VariedFile, content: Mapping[str, Any]) -> dict[str, Any]:
        """Write the result of a search to a JSON file, with the configuration and code version that reproduce the search."""
        record = {
            **content,
            "warmup_ms": self._options.warmup_ms,
            "cooldown_ms": self._options.cooldown_ms,
            "runs": self.replications.runs,
            "seconds": round(time.perf_counter() - self._started, 3),
            **question.describe_origin(),
        }
        write_text(self.folder / name, json.dumps(record, indent=2) + "\n")
        return record


VERDICTS = {"holds": "yes", "fails": "no", "open": "undecided"}
"""Words for whether a load meets the condition."""
_FORMATS = ("svg", "png")
_SIGN = re.compile(r"\s*(<=|>=|<|>)\s*")
_COUNTED = ("writers", "clients")
"""Last parts of keys whose values are counts."""


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
    record = search.write_record(FRONTIER, question, _frontier_record(question, found, search.replications))
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


def describe_frontier(question: Question, found: Frontier) -> list[str]:
    """Return the result in sentences."""
    text = question.condition.text
    nothing = [point.load for point in found.points if point.estimate is None]
    if len(nothing) == len(found.points):
        return [
            f"No answer for {text}: {question.condition.subject} could not be measured at any load from "
            f"{format_load(question, min(nothing))} to {format_load(question, max(nothing))}. Use longer runs or a different range."
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


def _frontier_record(question: Question, found: Frontier, replications: Replications) -> dict[str, Any]:
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
        "answer": describe_frontier(question, found),
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


ScreeningAnswer = SearchAnswer[ScreeningQuestion, Screening]
"""Effects of parameters on a metric."""


def answer_screening(
    question: ScreeningQuestion, trajectories: int, seeds: int, key: int, options: MetricsOptions, folder: Path, note: Note
) -> ScreeningAnswer:
    """Measure the effects of parameters on a metric, and write the record and the figure to a folder."""
    search = SearchDirectory(folder, options, question.make_document({}), note)
    runs = trajectories * (len(question.parameters) + 1) * seeds
    note(f"{len(question.parameters)} parameters, {trajectories} trajectories, {runs} runs; finished runs are reused")

    def report(done: int, points: int) -> None:
        if done % (len(question.parameters) + 1) == 0:
            note(f"  {done} of {points} configurations finished")

    found = screen(question, search.replications, trajectories, seeds, key, report)
    content = {
        "answer": describe_screening(question, found),
        "for": asdict(question.objective),
        "effects": [_effect_data(each) for each in found.effects],
        "trajectories": found.trajectories,
        "trajectories_dropped": found.dropped,
        "seeds": seeds,
        "key": key,
    }
    record = search.write_record(SCREENING, question, content)
    figure = build_screening_figure(question, found, Path(SCREENING).stem)
    return ScreeningAnswer(question, found, record, (folder / SCREENING, *save_figure(figure, folder, _FORMATS)))


def describe_screening(question: ScreeningQuestion, found: Screening) -> list[str]:
    """Return sentences about the parameters with and without a significant effect, the largest effect first."""
    subject = name_subject(question.objective)
    important = [each for each in found.effects if each.is_significant]
    sentences = [f"No parameter has a significant effect on {subject}."]
    if important:
        first, *rest = important
        metric = question.objective.metric
        size = f"{format_effect(metric, first.size)} ± {format_effect(metric, first.half_width)}"
        if kind_of(metric) == "share":
            size = f"{format_estimate(100.0 * first.size, 100.0 * first.half_width)} pp"
        sentences = [f"{first.parameter.name} has the largest effect on {subject}: {size} over its range."]
        if rest:
            sentences.append(f"Parameters with smaller significant effects: {join_names([each.parameter.name for each in rest])}.")
    silent = [each.parameter.name for each in found.effects if not each.is_significant]
    if silent and important:
        sentences.append(
            f"The effects of {join_names(silent)} are not significant."
            if len(silent) > 1
            else f"The effect of {silent[0]} is not significant."
        )
    if found.dropped:
        total = found.trajectories + found.dropped
        sentences.append(
            f"{found.dropped} of {total} trajectories are omitted, because the metric has no value in some of their runs."
        )
    return sentences


def format_effect(metric: str, value: float) -> str:
    """Format a change of a metric; changes of proportions are in percentage points."""
    return f"{100.0 * value:.3g} pp" if kind_of(metric) == "share" else format_metric(metric, value)


def format_range(parameter: Dimension) -> str:
    """Format the values of a parameter."""
    if parameter.choices:
        return ", ".join(map(str, parameter.choices))
    return f"{format_number(parameter.low)} to {format_number(parameter.high)}"


def _effect_data(each: Effect) -> dict[str, Any]:
    return {
        "parameter": each.parameter.name,
        "range": format_range(each.parameter),
        "effect": each.size,
        "half_width": each.half_width,
        "mean": each.mean,
        "deviation": each.deviation,
        "significant": each.is_significant,
    }


def build_screening_figure(question: ScreeningQuestion, found: Screening, name: str) -> Figure:
    """Build the figure of the effect of each parameter on the metric, with 95% intervals, the largest effect first."""
    kind = kind_of(question.objective.metric)
    factor, unit = {"share": (100.0, " (pp)"), "time": (1.0, " (ms)"), "rate": (1.0, " (1/s)"), "number": (1.0, "")}[kind]
    subject = name_subject(question.objective)
    rows = [
        {
            "parameter": each.parameter.name,
            "effect": factor * each.size,
            "low": factor * max(0.0, each.size - each.half_width),
            "high": factor * (each.size + each.half_width),
            "significance": "significant" if each.is_significant else "not significant",
        }
        for each in found.effects
    ]
    return Figure(
        name=name,
        title=f"Effect of parameters on {subject}",
        definition=f"Mean absolute change of {subject} over the range of each parameter. Error bars: 95% intervals.",
        kind="stacked",
        data=pd.DataFrame(rows),
        x=Axis("parameter", "parameter", "category"),
        y=Axis("effect", f"effect on {subject} over the range{unit}"),
        part="significance",
        low="low",
        high="high",
        colours={"significant": PALETTE[0], "not significant": QUIET},
    )
