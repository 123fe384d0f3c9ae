"""Run ``endive screen``: measure effects, write the record and the figure, and state the ranking in a sentence."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.halving import Dimension
from endive.formatting import format_number, join_names
from endive.output_files import check_writable, whole_file, write_text
from endive.report.frontier_answer import Note
from endive.report.phrases import note_compilation
from endive.report.style import PALETTE, QUIET
from endive.report.verdicts import name_subject
from endive.runs.layout import REPLICATIONS_FOLDER, SCREENING
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications
from endive.studies.screening import Effect, Screening, ScreeningQuestion, screen

_WIDTH, _BAR_HEIGHT = 360, 22


@dataclass(frozen=True)
class ScreeningAnswer:
    """Finished screening: effects, record and written files."""

    found: Screening
    record: dict[str, Any]
    files: tuple[Path, ...]


def answer_screening(
    question: ScreeningQuestion, trajectories: int, seeds: int, key: int, options: MetricsOptions, folder: Path, note: Note
) -> ScreeningAnswer:
    """Screen parameters, and write the record and the figure to a folder."""
    started = time.perf_counter()
    check_writable(folder)
    replications = Replications(folder / REPLICATIONS_FOLDER, options)
    note_compilation(question.make_document({}), note)
    runs = trajectories * (len(question.parameters) + 1) * seeds
    note(f"{len(question.parameters)} parameters, {trajectories} trajectories, {runs} runs; finished runs are reused")

    def report(done: int, points: int) -> None:
        if done % (len(question.parameters) + 1) == 0:
            note(f"  {done} of {points} points finished")

    found = screen(question, replications, trajectories, seeds, key, report)
    record = {
        "answer": describe_screening(question, found),
        "for": asdict(question.objective),
        "effects": [_effect_data(each) for each in found.effects],
        "trajectories": found.trajectories,
        "trajectories_dropped": found.dropped,
        "seeds": seeds,
        "key": key,
        "runs": replications.runs,
        "seconds": round(time.perf_counter() - started, 3),
        **question.describe_origin(),
    }
    file = folder / SCREENING
    write_text(file, json.dumps(record, indent=2) + "\n")
    return ScreeningAnswer(found, record, (file, *_save_chart(question, found, folder)))


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
            sentences.append(f"Smaller significant effects: {join_names([each.parameter.name for each in rest])}.")
    silent = [each.parameter.name for each in found.effects if not each.is_significant]
    if silent and important:
        sentences.append(f"No significant effect: {join_names(silent)}.")
    if found.dropped:
        total = found.trajectories + found.dropped
        sentences.append(f"{found.dropped} of {total} trajectories are omitted because the metric has no value on them.")
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


def _save_chart(question: ScreeningQuestion, found: Screening, folder: Path) -> list[Path]:
    """Write the ranking as SVG and PNG."""
    spec = draw_screening(question, found).to_dict()
    files = []
    for kind, data in (("svg", vl_convert.vegalite_to_svg(spec).encode()), ("png", vl_convert.vegalite_to_png(spec, scale=2))):
        path = folder / f"{Path(SCREENING).stem}.{kind}"
        with whole_file(path) as temporary:
            temporary.write_bytes(data)
        files.append(path)
    return files


def draw_screening(question: ScreeningQuestion, found: Screening) -> alt.LayerChart | alt.FacetChart:
    """Draw the effect of each parameter with its 95% interval, the largest first."""
    factor, unit = (100.0, " (pp)") if kind_of(question.objective.metric) == "share" else (1.0, "")
    rows = pd.DataFrame(
        {
            "parameter": [each.parameter.name for each in found.effects],
            "effect": [factor * each.size for each in found.effects],
            "low": [factor * max(0.0, each.size - each.half_width) for each in found.effects],
            "high": [factor * (each.size + each.half_width) for each in found.effects],
            "significant": [each.is_significant for each in found.effects],
        }
    )
    title = f"effect on {name_subject(question.objective)} over the range{unit}"
    base = alt.Chart(rows).encode(y=alt.Y("parameter:N", sort=list(rows["parameter"]), title=None, axis=alt.Axis(labelLimit=400)))
    bars = base.mark_bar().encode(
        x=alt.X("effect:Q", title=title),
        color=alt.condition("datum.significant", alt.value(PALETTE[0]), alt.value(QUIET)),
    )
    intervals = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    return alt.layer(bars, intervals).properties(width=_WIDTH, height=_BAR_HEIGHT * len(rows))
