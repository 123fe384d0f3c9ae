"""The figure of what a study is about: the metric of its question, by configuration or along its axis."""

from __future__ import annotations

from dataclasses import replace

from endive.analysis.conditions import Kind, kind_of
from endive.analysis.metric import more_is_better
from endive.formatting import capitalize
from endive.report.figure import Axis, Figure
from endive.report.figures import common
from endive.report.study import Study
from endive.report.verdicts import name_metric, name_subject

_KNOWN = {
    measure.column: measure for measure in (common.SUCCESS, common.THROUGHPUT, common.LATENCY, common.OVERHEAD, common.RETRIES)
}
_UNITS: dict[Kind, str] = {"share": " (%)", "time": " (ms)", "rate": " (per second)", "number": ""}


def question(study: Study) -> Figure:
    """Return the metric that the study is about, of each configuration."""
    asked = study.question
    if asked is None:
        raise common.NotInStudyError("its file has no question ([sweep] question)")
    rows = study.totals(asked.workload_class, asked.operation)
    measure = _KNOWN.get(asked.metric) or _measure(asked.metric)
    data = common.measured(rows, measure)
    lines = common.has_axis(study)
    if not lines:
        data = data.sort_values("y", ascending=more_is_better(asked.metric) is False, kind="stable").reset_index(drop=True)
    return common.of_configurations(
        study,
        rows,
        data,
        name="question",
        title=capitalize(name_subject(asked)),
        definition=f"What this study is about. {measure.definition} {common.INTERVAL}",
        kind="line" if lines else "bars",
        x=common.study_axis(study) if lines else Axis("series", "configuration", "category"),
        y=measure.y if lines else common.fitting(replace(measure.y, scale="linear"), data),
    )


def _measure(metric: str) -> common.Measure:
    kind, name = kind_of(metric), name_metric(metric)
    most = 1.0 if kind == "share" else float("inf")
    y = Axis("y", f"{name}{_UNITS[kind]}", "log" if kind == "time" else "linear", percent=kind == "share")
    return common.Measure(metric, name, y, f"{capitalize(name)}, mean over seeds.", most)
