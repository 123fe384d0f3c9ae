"""Shapes rather than single numbers: how latencies are distributed, and how commits come over time."""

from __future__ import annotations

from typing import Any

import pandas as pd

from endive.report.figure import Axis, Figure
from endive.report.figures.common import (
    MOST_FACETS,
    fitting,
    has_axis,
    in_order,
    of_configurations,
    place_label,
    study_axis,
    tidy,
    with_interval,
)
from endive.report.figures.missing import NotInStudyError
from endive.report.study import ALL, Study
from endive.report.style import ramp


def latency_distribution(study: Study) -> Figure:
    """The share of transactions whose commit took longer, on logarithmic axes: the tail is to be seen."""
    rows, fields = _panels(study, study.distributions)
    supported = rows["slower_share"] * rows["committed"] >= 1.0
    rows = rows[supported | (rows["slower_share"] == 1.0)]
    if rows.empty:
        raise NotInStudyError("nothing was committed")
    latency = with_interval(rows, "commit_latency_ms")
    data = rows.assign(latency=latency["y"], latency_low=latency["low"], latency_high=latency["high"])
    data = data[data["latency"] > 0.0]
    if data.empty:
        raise NotInStudyError("no commit took any time")
    return of_configurations(
        study,
        rows,
        tidy(data, ["panel", "load", "slower_share", "latency", "latency_low", "latency_high"]),
        name="latency_distribution",
        title="Distribution of the commit latency",
        definition="The share of committed transactions whose commit took longer (one minus the cumulative distribution). "
        "Each quantile is a mean over seeds; bands are 95 % intervals. Shares of less than one transaction of a run are not drawn.",
        kind="line",
        x=Axis("latency", "commit latency (ms)", "log"),
        y=Axis("slower_share", "transactions that take longer (share)", "log"),
        low=None,
        high=None,
        x_low="latency_low",
        x_high="latency_high",
        order="slower_share",
        band=True,
        **fields,
    )


def commit_rate_time(study: Study) -> Figure:
    """Commits per second over the run."""
    rows, fields = _panels(study, study.over_time)
    if not (rows["commits_per_s"] > 0.0).any():
        raise NotInStudyError("nothing was committed")
    data = with_interval(rows, "commits_per_s")
    data = tidy(data.assign(time_s=(data["from_ms"] + data["to_ms"]) / 2000.0), ["panel", "load", "time_s", "y", "low", "high"])
    return of_configurations(
        study,
        rows,
        data,
        name="commit_rate_time",
        title="Commit rate over time",
        definition="Commits per second in sixty equal parts of the run, warm-up included: means over seeds with 95 % intervals.",
        kind="line",
        x=Axis("time_s", "time (s)"),
        y=fitting(Axis("y", "commit rate (commits/s)"), data),
        band=True,
        **fields,
    )


def _panels(study: Study, table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Rows with their panel, and what is drawn where: a panel for each load, or for each class where there is no load.

    Where loads are too many for that, a panel for each configuration, in which colours stand for loads.
    """
    if not has_axis(study):
        classes = (ALL, *study.classes) if len(study.classes) > 1 else (ALL,)
        parts = [study.rows(table, workload_class=name).assign(panel="all classes" if name == ALL else name) for name in classes]
        facet = "panel" if len(classes) > 1 else None
        return pd.concat(parts).assign(load=""), {"facet": facet, "filters": ("series", "panel") if facet else ("series",)}
    assert study.axis is not None
    rows = study.rows(table)
    labels = [place_label(study, x, named=True) for x in study.axis.values]
    rows = rows.assign(panel=[place_label(study, x, named=True) for x in rows["x"]])
    if len(labels) <= MOST_FACETS:
        return in_order(rows, "panel", labels).assign(load=""), {"facet": "panel", "filters": ("series", "panel")}
    loads = [place_label(study, x, named=False) for x in study.axis.values]
    rows = rows.assign(load=[place_label(study, x, named=False) for x in rows["x"]], panel=rows["series"])
    fields = {"series": "load", "series_title": study_axis(study).title, "colours": ramp(loads), "facet": "panel"}
    return in_order(rows, "load", loads), {**fields, "filters": ("series",)}
