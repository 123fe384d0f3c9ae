"""By operation and by workload class: success and latency; and the frontier beyond which a class can no longer commit."""

from __future__ import annotations

import pandas as pd

from endive.analysis.saturation import crossing
from endive.report import words
from endive.report.figure import Axis, Figure, Threshold
from endive.report.figures.common import INTERVAL, axis_word, notes, place_label, study_axis, tidy, with_interval
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study
from endive.runs.parameters import column_name

COMMITTABLE = 0.95
"""A class of which less is committed is counted as un-committable."""
_SUCCESS = ("success_rate", Axis("y", "success (%)", percent=True), "Committed transactions as a share of those that ended.", 1.0)
_LATENCY = (
    "commit_latency_p95_ms",
    Axis("y", "p95 of the commit latency (ms)", "log"),
    "95th percentile of the commit latency of committed transactions.",
    float("inf"),
)


def success_by_operation(study: Study) -> Figure:
    """Success of each operation."""
    return _by(study, "operation", *_SUCCESS, name="success_by_operation", title="Success by operation")


def latency_by_operation(study: Study) -> Figure:
    """Latency of each operation."""
    return _by(study, "operation", *_LATENCY, name="latency_by_operation", title="Commit latency by operation")


def success_by_class(study: Study) -> Figure:
    """Success of each workload class."""
    return _by(study, "class", *_SUCCESS, name="success_by_class", title="Success by workload class")


def latency_by_class(study: Study) -> Figure:
    """Latency of each workload class."""
    return _by(study, "class", *_LATENCY, name="latency_by_class", title="Commit latency by workload class")


def _by(study: Study, what: str, metric: str, y: Axis, definition: str, most: float, *, name: str, title: str) -> Figure:
    members = study.operations if what == "operation" else study.classes
    if len(members) < 2:
        kind = "operation" if what == "operation" else "workload class"
        raise NotInStudyError(f"there is one {kind} only ({', '.join(members) or 'none'})")
    parts = []
    for member in members:
        rows = study.totals(operation=member) if what == "operation" else study.totals(workload_class=member)
        parts.append(rows.assign(member=words.operation(member) if what == "operation" else member))
    every = pd.concat(parts)
    data = tidy(with_interval(every, study.metric(metric), most=most), ["member", "y", "low", "high"]).dropna(subset=["y"])
    if data.empty:
        raise NotInStudyError(f"no {what} has a value of {metric}")
    with_axis = study.axis is not None and len(study.axis.values) > 1
    return Figure(
        name=name,
        title=title,
        definition=f"{definition} {INTERVAL}",
        kind="line" if with_axis else "bars",
        data=data,
        x=study_axis(study) if with_axis else Axis("member", what if what == "operation" else "workload class", "category"),
        y=y if with_axis else Axis(y.column, y.title, percent=y.percent),
        series="series",
        series_title="configuration",
        facet="member" if with_axis else None,
        low="low",
        high="high",
        thresholds=(Threshold(COMMITTABLE, "95 %"),) if y.percent else (),
        colours=study.colours,
        filters=("series", "member"),
        notes=notes(study, every),
    )


def frontier(study: Study) -> Figure:
    """Success of the other classes against the rate of one: where they can no longer commit."""
    x = study_axis(study)
    assert study.axis is not None
    driving = words.class_of_load(study.axis.column) if study.axis.load is not None else None
    others = [name for name in study.classes if column_name(name) != column_name(driving or "")]
    if driving is None or len(others) == len(study.classes) or not others:
        raise NotInStudyError("it takes two workload classes, and a rate of one of them that varies")
    parts = [study.totals(workload_class=name).assign(member=name) for name in others]
    every = pd.concat(parts)
    data = tidy(with_interval(every, study.metric("success_rate"), most=1.0), ["member", "y", "low", "high"]).dropna(subset=["y"])
    if data.empty:
        raise NotInStudyError("no transaction of the other classes ended")
    return Figure(
        name="frontier",
        title=f"Who can still commit: {', '.join(others)}, by {axis_word(study)}",
        definition=f"Success of {', '.join(others)} (committed / (committed + aborted)) against the {axis_word(study)}. "
        f"Below 95 % a class counts as un-committable. {INTERVAL}",
        kind="line",
        data=data,
        x=x,
        y=Axis("y", "success (%)", percent=True),
        series="series",
        series_title="configuration",
        facet="member" if len(others) > 1 else None,
        low="low",
        high="high",
        thresholds=(Threshold(COMMITTABLE, "95 %"),),
        colours=study.colours,
        filters=("series", "member"),
        notes=notes(study, every, *_crossings(study, data)),
    )


def _crossings(study: Study, data: pd.DataFrame) -> list[str]:
    """Where each curve falls below the threshold, in words."""
    found = []
    for (member, series), curve in data.sort_values("x").groupby(["member", "series"], sort=False):
        where = crossing(list(curve["x"]), list(curve["y"]), COMMITTABLE)
        last = place_label(study, float(curve["x"].max()), named=True)
        if where is None:
            found.append(f"{member}, {series}: above 95 % up to {last}.")
        elif where[1]:
            found.append(f"{member}, {series}: below 95 % already at {place_label(study, where[0], named=True)}.")
        else:
            found.append(f"{member}, {series}: below 95 % from {place_label(study, where[0], named=True)}.")
    return found
