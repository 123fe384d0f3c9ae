"""By operation and by workload class: success and latency; and the frontier beyond which a class can no longer commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from endive.analysis.crossings import Crossing, crossing
from endive.analysis.estimates import Estimate
from endive.report import words
from endive.report.figure import Axis, CurveCrossing, Figure, Threshold
from endive.report.figures.common import (
    INTERVAL,
    LATENCY,
    SUCCESS,
    Measure,
    axis_word,
    fitting,
    has_axis,
    measured,
    of_configurations,
    place_label,
    study_axis,
)
from endive.report.figures.missing import NotInStudyError
from endive.report.phrases import listed
from endive.report.study import Study
from endive.report.windows import percentile_in_words
from endive.runs.parameters import column_name

COMMITTABLE = 0.95
"""A class of which less is committed is counted as un-committable."""


def success_by_operation(study: Study) -> Figure:
    """Success of each operation."""
    return _by(study, "operation", SUCCESS, "success_by_operation")


def latency_by_operation(study: Study) -> Figure:
    """Latency of each operation."""
    return _by(study, "operation", LATENCY, "latency_by_operation")


def success_by_class(study: Study) -> Figure:
    """Success of each workload class."""
    return _by(study, "workload class", SUCCESS, "success_by_class")


def latency_by_class(study: Study) -> Figure:
    """Latency of each workload class."""
    return _by(study, "workload class", LATENCY, "latency_by_class")


def _by(study: Study, what: str, measure: Measure, name: str) -> Figure:
    """A measure of each operation or class: a panel for each if there is an axis, else a group of bars."""
    of_operations = what == "operation"
    members = study.operations if of_operations else study.classes
    if len(members) < 2:
        raise NotInStudyError(f"there is one {what} only ({', '.join(members) or 'none'})")
    every = pd.concat(
        study.totals(operation=member).assign(member=words.operation(member))
        if of_operations
        else study.totals(workload_class=member).assign(member=member)
        for member in members
    )
    data = measured(study, every, measure, ["member"])
    lines = has_axis(study)
    return of_configurations(
        study,
        every,
        data,
        further=_left_out(every, measure.column) if measure is LATENCY else (),
        name=name,
        title=f"{measure.title} by {what}",
        definition=f"{measure.definition} {INTERVAL}",
        kind="line" if lines else "bars",
        x=study_axis(study) if lines else Axis("member", what, "category"),
        y=measure.y if lines else fitting(replace(measure.y, scale="linear"), data),
        facet="member" if lines else None,
        thresholds=(Threshold(COMMITTABLE, "95 %"),) if measure is SUCCESS else (),
        filters=("series", "member"),
    )


_MOST_NAMED = 3
"""So many configurations are named in a note; of more, it counts the points."""
_REASONS = {"never": "is never reached, as too many fail", "-": "takes more transactions to tell", ">": "is longer than was seen"}
"""Why there is no number for a percentile, by the beginning of what is said instead."""


def _left_out(every: pd.DataFrame, metric: str) -> Iterator[str]:
    """What has no percentile to draw, by the reason."""
    found = [percentile_in_words(row, metric).partition(" ")[0] for row in every.to_dict("records")]
    rows = every[["member", "series"]].assign(why=found)
    for why, reason in _REASONS.items():
        named = [who for member in pd.unique(rows["member"]) if (who := _who(rows, str(member), why))]
        if named:
            yield f"Left out where it {reason}: {listed(named)}."


def _who(rows: pd.DataFrame, member: str, why: str) -> str:
    """A class or operation whose percentile is missing for this reason, and in which configurations; nothing if in none."""
    own = rows[rows["member"] == member]
    every, lost = Counter(own["series"]), Counter(own[own["why"] == why]["series"])
    if lost == every:
        return member
    if len(lost) > _MOST_NAMED:
        return f"{member} at {lost.total()} of {every.total()} points"
    parts = [f"{series}{'' if n == every[series] else f' at {n} of {every[series]} points'}" for series, n in lost.items()]
    return f"{member} with {listed(parts)}" if parts else ""


def frontier(study: Study) -> Figure:
    """Success of the other classes against the rate of one: where they can no longer commit."""
    x = study_axis(study)
    assert study.axis is not None
    driving = words.class_of_load(study.axis.column) if study.axis.load is not None else None
    others = [name for name in study.classes if column_name(name) != column_name(driving or "")]
    if driving is None or len(others) == len(study.classes) or not others:
        raise NotInStudyError("it takes two workload classes, and a rate of one of them that varies")
    every = pd.concat(study.totals(workload_class=name).assign(member=name) for name in others)
    data = measured(study, every, SUCCESS, ["member"])
    marks = tuple(_where_each(data)) if len(others) == 1 else ()
    marked = "; a tick on the line marks where, its shade is the 95 % interval" if marks else ""
    return of_configurations(
        study,
        every,
        data,
        further=_crossings(study, data),
        name="frontier",
        title=f"Who can still commit: {', '.join(others)}, by {axis_word(study)}",
        definition=f"Success of {', '.join(others)} (committed share of those that entered) against the {axis_word(study)}. "
        f"Below 95 % a class counts as un-committable{marked}. {INTERVAL}",
        kind="line",
        x=x,
        y=SUCCESS.y,
        facet="member" if len(others) > 1 else None,
        thresholds=(Threshold(COMMITTABLE, "95 %"), *_where(study, data)),
        crossings=marks,
        filters=("series", "member"),
    )


def _where(study: Study, data: pd.DataFrame) -> Iterator[Threshold]:
    """The load at which a lone curve falls below the threshold, with the loads at which the ends of its interval do."""
    if data.groupby(["member", "series"]).ngroups > 1:
        return
    found = _crossing(data)
    if found.bound == "crossed":
        yield Threshold(found.load, place_label(study, found.load, named=False), "x", found.low, found.high)


def _where_each(data: pd.DataFrame) -> Iterator[CurveCrossing]:
    """The same of each curve, where they are several."""
    curves = [(str(series), _crossing(curve)) for series, curve in data.sort_values("x").groupby("series", sort=False)]
    for series, found in curves if len(curves) > 1 else ():
        if found.bound == "crossed":
            yield CurveCrossing(series, found.load, COMMITTABLE, found.low, found.high)


def _crossing(curve: pd.DataFrame) -> Crossing:
    """Where a curve of success falls below the threshold, and where the ends of its interval do."""
    rows = curve[["x", "y", "low", "high"]].to_numpy(float)
    found = crossing([(x, Estimate(y, low, high, 2)) for x, y, low, high in rows], COMMITTABLE, falling=True)
    assert found is not None
    return found


def _crossings(study: Study, data: pd.DataFrame) -> list[str]:
    """Where each curve falls below the threshold, in words."""
    found = []
    for (member, series), curve in data.sort_values("x").groupby(["member", "series"], sort=False):
        where = _crossing(curve)
        at = place_label(study, where.load, named=True)
        if where.bound == "above":
            found.append(f"{member}, {series}: above 95 % up to {at}.")
        elif where.bound == "at_or_below":
            found.append(f"{member}, {series}: below 95 % already at {at}.")
        else:
            low, high = (None if end is None else place_label(study, end, named=False) for end in (where.low, where.high))
            within = f" (95 % interval {low or 'below all loads'} to {high or 'above all loads'})" if low or high else ""
            found.append(f"{member}, {series}: below 95 % from {at}{within}.")
    return found
