"""Build line charts: versus the load, distributions, the metric of the question, a frontier search, and over time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pandas as pd

from endive.analysis.conditions import Condition, Kind, format_metric, kind_of
from endive.analysis.estimates import CONFIDENCE
from endive.analysis.load_search import Frontier
from endive.analysis.metric import more_is_better
from endive.analysis.percentiles import PERCENTS
from endive.analysis.saturation import LEAST_SUCCESS
from endive.analysis.table_growth import DAY_MS, day_of_limit
from endive.analysis.theory import Curve, NotPredictableError
from endive.config import ConfigError, load_document
from endive.formatting import capitalize, format_bytes, format_number
from endive.report.figure import Axis, Figure, Reference, Scale, Threshold
from endive.report.figures import common
from endive.report.phrases import title_load
from endive.report.study_data import Study
from endive.report.verdicts import name_metric, name_subject
from endive.runs.identity import column_name
from endive.runs.layout import CONFIG
from endive.workload.arrivals import SCHEDULE

IDEAL = "ideal: every transaction commits"
_MOST_PREDICTED = 48
"""Maximum number of experiments with predictions; more would take too long."""


def build_throughput_load(study: Study) -> Figure:
    """Build throughput versus offered load; a configuration saturates at the load at which its curve flattens."""
    if study.axis is None or study.axis.load is None or len(study.axis.values) < 2:
        raise common.NotInStudyError("no arrival rate varies")
    offered = ("offered", "offered_low", "offered_high")
    rows = common.add_interval(study.totals(), "offered_per_s", offered)
    data = common.select_measure(rows, common.THROUGHPUT, offered)
    x = common.fit_scale(Axis("offered", "offered load (transactions/s)"), data)
    y = common.fit_scale(common.THROUGHPUT.y, data)
    scale: Scale = "log" if "log" in (x.scale, y.scale) and (data[["offered", "y"]] > 0.0).all(axis=None) else "linear"
    predictions = _predict_throughput(study)
    drawn = " Lines labelled theory: renewal approximation of optimistic retries." if predictions else ""
    ends = [float(data["offered"].min()) if scale == "log" else 0.0, float(data["offered"].max())]
    return common.make_figure(
        study,
        rows,
        data,
        name="throughput_load",
        title="Throughput versus offered load",
        definition="Commits per second versus the offered load (transactions that start committing per second), for each "
        f"{common.name_axis(study)}. Dashed: every transaction commits.{drawn} {common.INTERVAL}",
        kind="line",
        x=replace(x, scale=scale),
        y=replace(y, scale=scale),
        x_low="offered_low",
        x_high="offered_high",
        order="x",
        references=(Reference(IDEAL, pd.DataFrame({"x": ends, "y": ends})), *predictions),
    )


def _predict_throughput(study: Study) -> tuple[Reference, ...]:
    """Return the throughput that the renewal approximation predicts versus offered load, with a curve for each configuration.

    Configurations that the theory does not cover have no curve.
    """
    rows = study.totals()
    if study.kind != "sweep" or len(rows) > _MOST_PREDICTED:
        return ()
    curves = ((series.label, _predict_curve(study, rows[rows["series"] == series.label])) for series in study.visible_series)
    only = len(study.visible_series) == 1
    return tuple(Reference("theory" if only else f"{label}, theory", curve, label) for label, curve in curves if len(curve) > 1)


def _predict_curve(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted points of a configuration, by load."""
    points, curve = [], Curve()
    for experiment in rows["experiment"]:
        try:
            points.append(curve.point(load_document(study.path / str(experiment) / CONFIG)))
        except (ConfigError, NotPredictableError):
            continue
    return pd.DataFrame(sorted(points), columns=["x", "y"])


def build_latency_throughput(study: Study) -> Figure:
    """Build percentiles of the time to commit versus throughput: a panel for each percentile, a curve for each configuration."""
    common.require_axis(study)
    throughput = ("throughput", "throughput_low", "throughput_high")
    rows = common.add_interval(study.totals(), "throughput_per_s", throughput)
    panels = [common.add_interval(rows, f"time_to_commit_p{percent}_ms").assign(percentile=f"p{percent}") for percent in PERCENTS]
    data = common.select_columns(pd.concat(panels), ["percentile", *throughput, "y", "low", "high"]).dropna(subset=["y"])
    if data.empty:
        raise common.NotInStudyError("no percentile of the time to commit has a value")
    return common.make_figure(
        study,
        rows,
        data,
        name="latency_throughput",
        title="Time to commit versus throughput",
        definition="Percentiles of the time to commit of all transactions that started committing, versus commits per second. "
        f"Lines connect points in the order of {common.name_axis(study)}. Percentiles that are infinite (aborted) or "
        f"have only a lower bound are not shown. {common.INTERVAL}",
        kind="line",
        x=common.fit_scale(Axis("throughput", "throughput (commits/s)"), data),
        y=Axis("y", "time to commit (ms)", "log"),
        facet="percentile",
        x_low="throughput_low",
        x_high="throughput_high",
        order="x",
        filters=("series", "percentile"),
    )


def build_over_load(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build the figure of a metric of all transactions versus the axis of the study."""
    x = common.require_axis(study)
    rows = study.totals()
    data = common.select_measure(rows, measure).dropna(subset=["x"])
    return common.make_figure(
        study,
        rows,
        data,
        name=name,
        title=f"{measure.title} versus {common.name_axis(study)}",
        definition=f"{measure.definition} {common.INTERVAL}",
        kind="line",
        x=x,
        y=common.fit_scale(measure.y, data),
        thresholds=(Threshold(LEAST_SUCCESS, "99%"),) if measure is common.SUCCESS else (),
    )


def build_latency_distribution(study: Study) -> Figure:
    """Build the fraction of slower transactions (1 − CDF) versus commit latency, on logarithmic axes that show the tail."""
    rows, fields = common.split_by_load_or_class(study, study.distributions)
    supported = rows["slower_share"] * rows["committed"] >= 1.0
    rows = rows[supported | (rows["slower_share"] == 1.0)]
    if rows.empty:
        raise common.NotInStudyError("no transaction committed")
    latency = ("latency", "latency_low", "latency_high")
    data = common.add_interval(rows, "commit_latency_ms", latency)
    data = data[data["latency"] > 0.0]
    if data.empty:
        raise common.NotInStudyError("no commit took any time")
    return common.make_figure(
        study,
        rows,
        common.select_columns(data, ["panel", "load", "slower_share", *latency]),
        name="latency_distribution",
        title="Commit latency distribution",
        definition="Fraction of committed transactions with a longer commit latency (1 − CDF), mean across seeds. Bands: 95% "
        "intervals. Curves end at the fraction that corresponds to one transaction per run.",
        kind="line",
        x=Axis("latency", "commit latency (ms)", "log"),
        y=Axis("slower_share", "fraction of slower transactions (1 − CDF)", "log"),
        low=None,
        high=None,
        x_low="latency_low",
        x_high="latency_high",
        order="slower_share",
        band=True,
        **fields,
    )


_KNOWN = {
    measure.column: measure for measure in (common.SUCCESS, common.THROUGHPUT, common.LATENCY, common.OVERHEAD, common.RETRIES)
}
_UNITS: dict[Kind, str] = {"share": " (%)", "time": " (ms)", "rate": " (1/s)", "number": ""}


def build_question(study: Study) -> Figure:
    """Build the metric of the study's question for each configuration."""
    asked = study.question
    if asked is None:
        raise common.NotInStudyError("the study has no question (set [sweep] question)")
    rows = study.totals(asked.workload_class, asked.operation)
    measure = _KNOWN.get(asked.metric) or _make_measure(asked.metric)
    data = common.select_measure(rows, measure)
    lines = common.has_axis(study)
    if not lines:
        data = data.sort_values("y", ascending=more_is_better(asked.metric) is False, kind="stable").reset_index(drop=True)
    return common.make_figure(
        study,
        rows,
        data,
        name="question",
        title=capitalize(name_subject(asked)),
        definition=f"Primary metric of the study. {measure.definition} {common.INTERVAL}",
        kind="line" if lines else "bars",
        x=common.require_axis(study) if lines else Axis("series", "configuration", "category"),
        y=measure.y if lines else common.fit_scale(replace(measure.y, scale="linear"), data),
    )


def _make_measure(metric: str) -> common.Measure:
    kind, name = kind_of(metric), name_metric(metric)
    most = 1.0 if kind == "share" else float("inf")
    y = Axis("y", f"{name}{_UNITS[kind]}", "log" if kind == "time" else "linear", percent=kind == "share")
    return common.Measure(metric, name, y, f"{capitalize(name)}, mean across seeds.", most)


def build_search_figure(frontier: Frontier, vary: str, condition: Condition, name: str) -> Figure:
    """Build the figure of a frontier search: the metric at each load with its interval, and the load that meets the condition."""
    measured = [(point, point.estimate) for point in frontier.points if point.estimate is not None]
    data = pd.DataFrame(
        [(point.load, each.mean, each.low, each.high, each.n, point.verdict) for point, each in measured],
        columns=["load", "value", "low", "high", "seeds", "verdict"],
    )
    kind, subject = kind_of(condition.metric), name_subject(condition.subject)
    thresholds = [Threshold(condition.value, format_metric(condition.metric, condition.value))]
    if frontier.load is not None:
        thresholds.append(
            Threshold(frontier.load, format_number(float(f"{frontier.load:.3g}"), 4), "x", frontier.low, frontier.high)
        )
    title = title_load(column_name(vary))
    return Figure(
        name=name,
        title=f"{capitalize(subject)} versus {title.partition(' (')[0]}",
        definition=f"{capitalize(subject)} at each load of the search for {condition.text}: mean across seeds with its "
        f"{100.0 * CONFIDENCE:g}% interval.",
        kind="line",
        data=data,
        x=Axis("load", title, "log"),
        y=Axis("value", f"{subject}{_UNITS[kind]}", percent=kind == "share"),
        low="low",
        high="high",
        band=True,
        thresholds=tuple(thresholds),
    )


LIMIT = "param_catalog_metadata_limit_bytes"
"""Parameter of the maximum size of metadata.json that the catalog accepts."""
_FEWEST_PARTS = 0.1
"""Minimum fraction of the time bins of a run that have a value; curves with fewer values are not drawn."""
_MOST_MARKS = 12
_TIME_UNITS = (("s", 1000.0, 600_000.0), ("min", 60_000.0, 18_000_000.0), ("h", 3_600_000.0, float("inf")))
"""Units of the time axis: name, length in ms, and the longest run that is shown in it."""
_TIMES = re.compile(r"_(schedule|trace|start_ms|end_ms)$")
COMMIT_RATE = common.Measure("commits_per_s", "Commit rate", Axis("y", "commit rate (commits/s)"), "Commits per second.")
COMMITTING = common.Measure(
    "committing",
    "Transactions in flight",
    Axis("y", "in flight (transactions)"),
    "Mean number of transactions that are committing.",
)
TIME_TO_COMMIT = common.Measure(
    "time_to_commit_p50_ms",
    "Time to commit",
    Axis("y", "p50 time to commit (ms)"),
    "p50 of the time to commit of the transactions that started committing in a time interval. Unknown values are not shown.",
)


METADATA = common.Measure(
    "table_metadata_bytes",
    "Table metadata",
    Axis("y", "metadata.json (MB)"),
    "Mean size of metadata.json after the commits in a time interval.",
    unit=1e6,
)
MANIFESTS = common.Measure(
    "table_manifests",
    "Manifests",
    Axis("y", "manifests of a table"),
    "Mean number of manifests of a table after the commits in a time interval.",
)


def build_metadata_over_time(study: Study) -> Figure:
    """Build the size of metadata.json over time, with the limit of the catalog and the day on which it is reached."""
    figure = build_over_time(study, METADATA, "metadata_time")
    marks = tuple(Threshold(limit / METADATA.unit, label) for limit, label in describe_limits(study))
    return replace(figure, thresholds=(*figure.thresholds, *marks))


def describe_limits(study: Study) -> list[tuple[int, str]]:
    """Return the size limits of metadata.json, each with the first day on which an experiment reaches it."""
    totals: list[dict[Any, Any]] = study.totals().to_dict("records")
    first: dict[int, float] = {}
    for row in totals:
        limit = study.manifest.experiments[row["experiment"]].parameters.get(LIMIT)
        if isinstance(limit, int):
            first[limit] = min(first.get(limit, math.inf), day_of_limit(row, limit))
    days = study.experiments["duration_ms"].max() / DAY_MS
    return [(limit, f"limit of {format_bytes(limit)}{_name_day(day, days)}") for limit, day in sorted(first.items())]


def _name_day(day: float, simulated_days: float) -> str:
    if math.isinf(day):
        return ""
    return f", reached on day {math.ceil(day)}" + (" by linear growth" if day > simulated_days else "")


def build_over_time(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build a measure over time: a value per time bin, for the events or for the transactions that start committing in the bin."""
    rows, fields = common.split_by_load_or_class(study, study.over_time)
    if not (rows["commits_per_s"] > 0.0).any():
        raise common.NotInStudyError("no transaction committed")
    if measure in (METADATA, MANIFESTS) and (measure.column not in rows or rows[measure.column].isna().all()):
        raise common.NotInStudyError("table state is tracked only on Iceberg's commit paths")
    data = common.add_interval(rows, measure.column, most=measure.most)
    data[["y", "low", "high"]] /= measure.unit
    unit, length = next((unit, length) for unit, length, most in _TIME_UNITS if rows["to_ms"].max() <= most)
    time = f"time_{unit}"
    data = data.assign(**{time: (data["from_ms"] + data["to_ms"]) / 2.0 / length})
    data = common.select_columns(data, ["panel", "load", time, "y", "low", "high"]).dropna(subset=["y"])
    if len(data) < _FEWEST_PARTS * len(rows):
        raise common.NotInStudyError("too few transactions start committing in each interval")
    marks = tuple(replace(mark, value=mark.value / length) for mark in find_schedule(study))
    return common.make_figure(
        study,
        rows,
        data,
        name=name,
        title=f"{measure.title} over time",
        definition=f"{measure.definition} The run, including the warm-up, is divided into 60 equal intervals. Bands: 95% intervals "
        "across seeds." + (" Dashed: scheduled changes of the load." if marks else ""),
        kind="line",
        x=Axis(time, f"time ({unit})"),
        y=common.fit_scale(measure.y, data) if measure is TIME_TO_COMMIT else measure.y,  # a peak must stay visible
        band=True,
        thresholds=marks,
        **fields,
    )


def find_schedule(study: Study) -> tuple[Threshold, ...]:
    """Return the times (ms) of scheduled load changes; empty if configurations differ in them."""
    if any(_TIMES.search(column) for column in study.varying):
        return ()
    record = next(study.records(next(iter(study.manifest.experiments))), {})
    marks: dict[float, list[str]] = {}
    for name, keys in (record.get("parameters", {}).get("workload") or {}).items():
        if not isinstance(keys, dict):
            continue
        for step in keys.get(SCHEDULE.key) or ():
            if step["from_ms"] > 0.0:
                marks.setdefault(step["from_ms"], []).append(f"{name} {format_number(step['rate'], 4)}/s")
        for key, word in (("start_ms", "begins"), ("end_ms", "ends")):
            if keys.get(key):
                marks.setdefault(keys[key], []).append(f"{name} {word}")
    found = [Threshold(at, ", ".join(words), "x") for at, words in sorted(marks.items())]
    return tuple(found if len(found) <= _MOST_MARKS else (replace(mark, label="") for mark in found))
