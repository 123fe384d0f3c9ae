"""Run ``endive screen``: measure effects, write the record and the figure, and state the ranking in a sentence."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.halving import Dimension
from endive.formatting import format_number, join_names
from endive.report.figure import Axis, Figure
from endive.report.paper import save_figure
from endive.report.search_answer import Note, SearchAnswer, SearchDirectory
from endive.report.style import PALETTE, QUIET
from endive.report.verdicts import name_subject
from endive.runs.layout import SCREENING
from endive.studies.measure import MetricsOptions
from endive.studies.screening import Effect, Screening, ScreeningQuestion, screen

ScreeningAnswer = SearchAnswer[ScreeningQuestion, Screening]
"""Effects of parameters on a metric."""
_FORMATS = ("svg", "png")


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
        size, half_width = (format_effect(question.objective.metric, value) for value in (first.size, first.half_width))
        sentences = [f"{first.parameter.name} has the largest effect on {subject}: {size} ± {half_width} over its range."]
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
        definition=f"Mean absolute change of {subject} over the range of each parameter. Lines: 95% intervals.",
        kind="stacked",
        data=pd.DataFrame(rows),
        x=Axis("parameter", "parameter", "category"),
        y=Axis("effect", f"effect on {subject} over the range{unit}"),
        part="significance",
        low="low",
        high="high",
        colours={"significant": PALETTE[0], "not significant": QUIET},
    )
