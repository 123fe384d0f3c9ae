"""Curves over the load: throughput, latency, success, overhead and retries of whole configurations."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from endive.analysis.percentiles import PERCENTS
from endive.analysis.saturation import LEAST_SUCCESS
from endive.report.figure import Axis, Figure, Reference, Scale, Threshold
from endive.report.figures.common import (
    INTERVAL,
    OVERHEAD,
    RETRIES,
    SUCCESS,
    THROUGHPUT,
    Measure,
    axis_word,
    fitting,
    measured,
    of_configurations,
    study_axis,
    tidy,
    with_interval,
)
from endive.report.figures.missing import NotInStudyError
from endive.report.predictions import predicted_throughput
from endive.report.study import Study

EVERYTHING_COMMITS = "everything commits"


def throughput_load(study: Study) -> Figure:
    """Throughput against the load that was offered: where it bends, a configuration is saturated."""
    if study.axis is None or study.axis.load is None or len(study.axis.values) < 2:
        raise NotInStudyError("no rate of arrivals varies")
    rows = study.totals()
    offered = with_interval(rows, study.metric("offered_per_s"))
    rows = rows.assign(offered=offered["y"], offered_low=offered["low"], offered_high=offered["high"])
    data = measured(study, rows, THROUGHPUT, ["offered", "offered_low", "offered_high"])
    x = fitting(Axis("offered", "offered load (transactions/s)"), data)
    y = fitting(THROUGHPUT.y, data)
    scale: Scale = "log" if "log" in (x.scale, y.scale) and (data[["offered", "y"]] > 0.0).all(axis=None) else "linear"
    predictions = predicted_throughput(study)
    ends = [float(data["offered"].min()) if scale == "log" else 0.0, float(data["offered"].max())]
    return of_configurations(
        study,
        rows,
        data,
        name="throughput_load",
        title="Throughput against offered load",
        definition=f"Commits per second against the transactions per second that begin to commit, by {axis_word(study)}. "
        f"On the dashed line everything commits{_predictions_are_drawn(predictions)}. {INTERVAL}",
        kind="line",
        x=replace(x, scale=scale),
        y=replace(y, scale=scale),
        x_low="offered_low",
        x_high="offered_high",
        order="x",
        references=(Reference(EVERYTHING_COMMITS, pd.DataFrame({"x": ends, "y": ends})), *predictions),
    )


def _predictions_are_drawn(predictions: tuple[Reference, ...]) -> str:
    return "; what theory predicts (renewal of optimistic retries) is drawn behind the points" if predictions else ""


def latency_throughput(study: Study) -> Figure:
    """Percentiles of the time to commit against throughput: a panel for each percentile, a curve for each configuration."""
    study_axis(study)
    rows = study.totals()
    throughput = with_interval(rows, study.metric("throughput_per_s"))
    rows = rows.assign(throughput=throughput["y"], throughput_low=throughput["low"], throughput_high=throughput["high"])
    panels = [
        with_interval(rows, study.metric(f"time_to_commit_p{percent}_ms")).assign(percentile=f"p{percent}") for percent in PERCENTS
    ]
    columns = ["percentile", "throughput", "throughput_low", "throughput_high", "y", "low", "high"]
    data = tidy(pd.concat(panels), columns).dropna(subset=["y"])
    if data.empty:
        raise NotInStudyError("no percentile of the time to commit is a number")
    return of_configurations(
        study,
        rows,
        data,
        name="latency_throughput",
        title="Time to commit against throughput",
        definition="Percentiles of the time to commit over all transactions that entered, an abort counting as never, against "
        f"commits per second; points of a curve follow each other by {axis_word(study)}. Percentiles that are never reached, or "
        f"of which only a bound is known, are left out. {INTERVAL}",
        kind="line",
        x=fitting(Axis("throughput", "throughput (commits/s)"), data),
        y=Axis("y", "time to commit (ms)", "log"),
        facet="percentile",
        x_low="throughput_low",
        x_high="throughput_high",
        order="x",
        filters=("series", "percentile"),
    )


def success_load(study: Study) -> Figure:
    """Success against the load."""
    return _curve(study, SUCCESS, "success_load", (Threshold(LEAST_SUCCESS, "99 %"),))


def overhead_load(study: Study) -> Figure:
    """Overhead against the load."""
    return _curve(study, OVERHEAD, "overhead")


def retries_load(study: Study) -> Figure:
    """Retries against the load."""
    return _curve(study, RETRIES, "retries")


def _curve(study: Study, measure: Measure, name: str, thresholds: tuple[Threshold, ...] = ()) -> Figure:
    """A measure of whole configurations against the axis of the study."""
    x = study_axis(study)
    rows = study.totals()
    data = measured(study, rows, measure).dropna(subset=["x"])
    return of_configurations(
        study,
        rows,
        data,
        name=name,
        title=f"{measure.title} against {axis_word(study)}",
        definition=f"{measure.definition} {INTERVAL}",
        kind="line",
        x=x,
        y=fitting(measure.y, data),
        thresholds=thresholds,
    )
