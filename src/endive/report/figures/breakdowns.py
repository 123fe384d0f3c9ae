"""Build figures of success and latency by operation and by workload class, and of the load above which a class fails to commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

import pandas as pd

from endive.analysis.crossings import Crossing, crossing
from endive.analysis.estimates import Estimate
from endive.analysis.run_metrics import ALL
from endive.formatting import format_interval, join_names
from endive.report import phrases
from endive.report.configurations import Series
from endive.report.figure import Axis, CurveCrossing, Figure, Threshold
from endive.report.figures import common
from endive.report.phrases import format_bounded
from endive.report.study_data import Study
from endive.runs.identity import column_name

COMMITTABLE = 0.95
"""Success rate below which a class counts as unable to commit."""


def build_by_group(study: Study, what: Literal["operation", "workload class"], measure: common.Measure, name: str) -> Figure:
    """Build the figure of a metric by operation or class: a panel for each if there is an axis, otherwise a group of bars."""
    of_operations = what == "operation"
    members = study.operations if of_operations else study.classes
    if len(members) < 2:
        raise common.NotInStudyError(f"there is only one {what} ({', '.join(members) or 'none'})")
    every = pd.concat(
        study.totals(operation=member).assign(member=phrases.name_operation(member))
        if of_operations
        else study.totals(workload_class=member).assign(member=member)
        for member in members
    )
    data = common.select_measure(every, measure, ["member"])
    lines = common.has_axis(study)
    return common.make_figure(
        study,
        every,
        data,
        further=_note_missing(study, every, measure.column) if measure is common.LATENCY else (),
        name=name,
        title=f"{measure.title} by {what}",
        definition=f"{measure.definition} {common.INTERVAL}",
        kind="line" if lines else "bars",
        x=common.require_axis(study) if lines else Axis("member", what, "category"),
        y=measure.y if lines else common.fit_scale(replace(measure.y, scale="linear"), data),
        facet="member" if lines else None,
        thresholds=(Threshold(COMMITTABLE, "95%"),) if measure is common.SUCCESS else (),
        filters=("series", "member"),
    )


_MOST_NAMED = 3
"""Maximum number of configurations listed in a note; longer lists are replaced by a count."""
_REASONS = {
    "aborted": "transactions abort, so the percentile is infinite",
    "-": "there are too few transactions",
    ">": "the percentile exceeds the duration of the run",
}
"""Reason for a missing percentile, by the first word of its formatted value."""


def _note_missing(study: Study, every: pd.DataFrame, metric: str) -> Iterator[str]:
    """Yield a note for each reason for missing percentiles."""
    found = [format_bounded(row, metric).partition(" ")[0] for row in every.to_dict("records")]
    rows = every[["member", "series"]].assign(why=found)
    for why, reason in _REASONS.items():
        named = [who for member in pd.unique(rows["member"]) if (who := _name_missing(study, rows, str(member), why))]
        if named:
            yield f"Not shown because {reason}: {'; '.join(named)}."


def _name_missing(study: Study, rows: pd.DataFrame, member: str, why: str) -> str:
    """Return the labels of the points at which the percentile of a class or operation is missing for this reason."""
    own = rows[rows["member"] == member]
    every, lost = Counter(own["series"]), Counter(own[own["why"] == why]["series"])
    if lost == every:
        return member
    if lost and (len(lost) > _MOST_NAMED or len(every) == 1):
        return f"{member} ({lost.total()} of {every.total()} points)"
    parts = [
        f"{phrases.phrase_label(series, study.scenarios)}{'' if n == every[series] else f' ({n} of {every[series]} points)'}"
        for series, n in lost.items()
    ]
    return f"{member} {phrases.choose_preposition(study.scenarios)} {join_names(parts)}" if parts else ""


def build_success_latency(study: Study) -> Figure:
    """Build success versus p99 of the time to commit, a point for each configuration; the best are at the upper left."""
    if len(study.visible_series) < 2 or common.has_axis(study):
        raise common.NotInStudyError("needs two or more configurations without a numeric axis")
    asked = study.question
    workload_class = ALL if asked is None or asked.workload_class not in study.classes else asked.workload_class
    latency = ("latency", "latency_low", "latency_high")
    rows = common.add_interval(study.totals(workload_class=workload_class), "time_to_commit_p99_ms", latency)
    data = common.select_measure(rows.dropna(subset=["latency"]), common.SUCCESS, latency)
    return common.make_figure(
        study,
        rows,
        data,
        further=_note_missing(study, rows.assign(member="p99"), "time_to_commit_p99_ms"),
        name="success_latency",
        title=f"Success versus p99 of {'all transactions' if workload_class == ALL else workload_class}",
        definition="Success versus the p99 of the time to commit of all transactions that started committing. Better "
        f"configurations are at the upper left. {common.INTERVAL}",
        kind="line",
        x=common.fit_scale(Axis("latency", "p99 time to commit (ms)"), data),
        y=common.SUCCESS.y,
        x_low="latency_low",
        x_high="latency_high",
    )


def build_frontier(study: Study) -> Figure:
    """Build the success of classes versus the rate of another class, and mark the rate at which each falls below the threshold."""
    x = common.require_axis(study)
    assert study.axis is not None
    driving = phrases.find_load_class(study.axis.column) if study.axis.load is not None else None
    others = [name for name in study.classes if column_name(name) != column_name(driving or "")]
    if driving is None or len(others) == len(study.classes) or not others:
        raise common.NotInStudyError("needs two workload classes, one of them with a varying rate")
    every = pd.concat(study.totals(workload_class=name).assign(member=name) for name in others)
    data = common.select_measure(every, common.SUCCESS, ["member"])
    curves = data.sort_values("x").groupby(["member", "series"], sort=False)
    found = {(str(member), str(series)): _find_crossing(curve) for (member, series), curve in curves}
    lines, marks = [Threshold(COMMITTABLE, "95%")], []
    for (_, series), at in found.items():
        if at.bound == "crossed" and len(found) == 1:
            lines.append(Threshold(at.load, common.format_place(study, at.load, named=False), "x", at.low, at.high))
        elif at.bound == "crossed" and len(others) == 1:
            marks.append(CurveCrossing(series, at.load, COMMITTABLE, at.low, at.high))
    marked = "; ticks mark the crossing, shaded areas its 95% interval" if marks else ""
    return common.make_figure(
        study,
        every,
        data,
        further=_note_crossings(study, found),
        name="frontier",
        title=f"Success of {join_names(others)} versus {common.name_axis(study)}",
        definition=f"Fraction of {join_names(others)} transactions that commit, versus {common.name_axis(study)}. Dashed: 95%"
        f"{marked}. {common.INTERVAL}",
        kind="line",
        x=x,
        y=common.SUCCESS.y,
        facet="member" if len(others) > 1 else None,
        thresholds=tuple(lines),
        crossings=tuple(marks),
        filters=("series", "member"),
    )


def _find_crossing(curve: pd.DataFrame) -> Crossing:
    """Return the load, with its interval, at which success falls below the threshold."""
    rows = curve[["x", "y", "low", "high"]].to_numpy(float)
    found = crossing([(x, Estimate(y, low, high, 2)) for x, y, low, high in rows], COMMITTABLE, falling=True)
    assert found is not None
    return found


def _note_crossings(study: Study, curves: Mapping[tuple[str, str], Crossing]) -> Iterator[str]:
    """Yield a note on the load at which each curve falls below the threshold."""
    for (member, series), where in curves.items():
        label = f" {phrases.choose_preposition(study.scenarios)} {phrases.phrase_label(series, study.scenarios)}"
        who = f"Success of {member}{label if len(study.series) > 1 else ''}"
        at = phrases.phrase_label(common.format_place(study, float(f"{where.load:.3g}"), named=True))
        if where.bound == "above":
            yield f"{who} is above 95% up to {at}."
        elif where.bound == "at_or_below":
            yield f"{who} is below 95% at the lowest load, {at}."
        else:
            interval = format_interval(where.low, where.high)
            yield f"{who} falls below 95% at {at}{f' (95% interval: {interval})' if interval else ''}."


_FEW, _VERY_FEW = 0.95, 0.80
_HATCHING = "Cells with success below 95% are hatched, and cells with success below 80% are cross-hatched."
_NO_NUMBER = " In cells without a number, the percentile is infinite (aborted) or there are too few transactions (-)."


def build_heatmap(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build the heatmap of a measure over two parameters. Raises NotInStudyError if fewer than two parameters vary."""
    x = common.require_axis(study)
    vertical = _choose_vertical(study.series)
    rows, panels = _make_cells(study, vertical)
    metric, most, timed = measure.column, common.MOST_FACETS, measure is common.LATENCY
    further = f"The figure shows {most} of {len(panels)} combinations of the other parameters." if len(panels) > most else ""
    rows = rows.assign(instead=[format_bounded(row, metric) if timed else "" for row in rows.to_dict("records")])
    data = common.select_columns(rows, ["across", "down", "panel", metric, "success_rate", "hatch", "instead"])
    value = common.fit_scale(replace(measure.y, column=metric), data)
    return Figure(
        name=name,
        title=f"{measure.title} over {phrases.name_parameter(vertical)[0]} and {common.name_axis(study)}",
        definition=f"{measure.definition} Means across seeds. {_HATCHING}{_NO_NUMBER if timed else ''}",
        kind="heatmap",
        data=data,
        x=Axis("across", x.title, "category"),
        y=Axis("down", phrases.title_parameter(vertical), "category"),
        facet="panel" if len(panels) > 1 else None,
        value=value if value.scale == "log" else replace(value, scale="linear"),
        hatch="hatch",
        text="instead",
        filters=("panel",) if len(panels) > 1 else (),
        notes=tuple(note for note in common.write_notes(study, rows, further) if "peak throughput" not in note),
    )


def _make_cells(study: Study, vertical: str) -> tuple[pd.DataFrame, list[str]]:
    """Return a row for each cell, in order, of the first few panels, and the names of all panels."""
    rows = study.experiments
    rows = rows[(rows["workload_class"] == ALL) & (rows["operation_type"] == ALL)].dropna(subset=["x"])
    by_label = {each.label: each for each in study.series}
    chosen = [by_label[label] for label in rows["series"]]
    title = f"{phrases.name_parameter(vertical)[0]} = "
    rows = rows.assign(
        across=[common.format_place(study, place, named=False) for place in rows["x"]],
        down=[phrases.name_value(vertical, each.parameters[vertical]).removeprefix(title) for each in chosen],
        panel=[phrases.label_configuration({k: v for k, v in each.parameters.items() if k != vertical}) for each in chosen],
        rank=[list(by_label).index(each.label) for each in chosen],
        hatch=rows["success_rate"].map(_choose_hatch),
    )
    panels = list(dict.fromkeys(rows.sort_values("rank")["panel"]))
    rows = rows[rows["panel"].isin(panels[: common.MOST_FACETS])]
    places = rows["panel"].map({panel: place for place, panel in enumerate(panels)})
    ranks = rows.groupby("down")["rank"].transform("min")
    return rows.assign(rank=ranks, place=places).sort_values(["x", "place", "rank"], kind="stable"), panels


def _choose_vertical(series: tuple[Series, ...]) -> str:
    """Return the parameter with the most values, except for the axis."""
    names = list(series[0].parameters)
    if not names or len(series) < 2:
        raise common.NotInStudyError("needs two varying parameters, one of them numeric")
    return max(names, key=lambda name: len({each.parameters[name] for each in series}))


def _choose_hatch(success: float) -> str:
    if pd.isna(success) or success >= _FEW:
        return ""
    return "x" if success < _VERY_FEW else "/"
