"""The figure of a frontier: a metric over the load, and where it crosses its threshold."""

from __future__ import annotations

import pandas as pd

from endive.analysis.conditions import Condition, format_metric, kind_of
from endive.analysis.load_search import CONFIDENCE, Frontier
from endive.formatting import format_number
from endive.report.figure import Axis, Figure, Threshold
from endive.report.phrases import title_load
from endive.runs.parameters import column_name

_UNITS = {"time": " (ms)", "rate": " (transactions/s)", "share": " (%)", "number": ""}


def frontier_figure(frontier: Frontier, vary: str, condition: Condition, name: str) -> Figure:
    """Every load that was looked at, with the interval by which it was judged, and the load at which the condition begins."""
    measured = [(point, point.estimate) for point in frontier.points if point.estimate is not None]
    data = pd.DataFrame(
        [(point.load, each.mean, each.low, each.high, each.n, point.verdict) for point, each in measured],
        columns=["load", "value", "low", "high", "seeds", "verdict"],
    )
    kind = kind_of(condition.metric)
    subject = condition.metric.removesuffix("_ms").removesuffix("_per_s").removesuffix("_rate").replace("_", " ")
    group = [each for each in (condition.workload_class, condition.operation) if each != "all"]
    of = f" of {' '.join(group).replace('_', ' ')}" if group else ""
    thresholds = [Threshold(condition.value, format_metric(condition.metric, condition.value))]
    if frontier.load is not None:
        thresholds.append(
            Threshold(frontier.load, format_number(float(f"{frontier.load:.3g}"), 4), "x", frontier.low, frontier.high)
        )
    title = title_load(column_name(vary))
    return Figure(
        name=name,
        title=f"{subject.capitalize()}{of} over {title.partition(' (')[0]}",
        definition=f"{subject.capitalize()}{of} at every load that was looked at, as a mean over seeds with its "
        f"{100.0 * CONFIDENCE:g}% interval, by which the search for {condition.text} went.",
        kind="line",
        data=data,
        x=Axis("load", title, "log"),
        y=Axis("value", f"{subject}{of}{_UNITS[kind]}", percent=kind == "share"),
        low="low",
        high="high",
        band=True,
        thresholds=tuple(thresholds),
    )
