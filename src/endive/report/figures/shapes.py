"""Shapes rather than single numbers: how latencies are distributed, and how commits come over time."""

from __future__ import annotations

import pandas as pd

from endive.report.figure import Axis, Figure
from endive.report.figures.common import chosen_places, in_order, notes, place_label, tidy, with_interval
from endive.report.figures.missing import NotInStudyError
from endive.report.study import ALL, Study


def latency_distribution(study: Study) -> Figure:
    """The share of transactions whose commit took longer, on logarithmic axes: the tail is to be seen."""
    rows, facet = _panels(study, study.distributions)
    supported = rows["slower_share"] * rows["committed"] >= 1.0
    rows = rows[supported | (rows["slower_share"] == 1.0)]
    if rows.empty:
        raise NotInStudyError("nothing was committed")
    width = rows["commit_latency_ms_hw"].astype(float)
    latency = rows["commit_latency_ms"].astype(float)
    data = rows.assign(latency=latency, latency_low=(latency - width).clip(lower=0.0), latency_high=latency + width)
    data = data[data["latency"] > 0.0]
    if data.empty:
        raise NotInStudyError("no commit took any time")
    return Figure(
        name="latency_distribution",
        title="Distribution of the commit latency",
        definition="The share of committed transactions whose commit took longer (one minus the cumulative distribution). "
        "Each quantile is a mean over seeds; bands are 95 % intervals. Shares of less than one transaction of a run are not drawn.",
        kind="line",
        data=tidy(data, ["panel", "slower_share", "latency", "latency_low", "latency_high"]),
        x=Axis("latency", "commit latency (ms)", "log"),
        y=Axis("slower_share", "transactions that take longer (share)", "log"),
        series="series",
        series_title="configuration",
        facet=facet,
        x_low="latency_low",
        x_high="latency_high",
        order="slower_share",
        band=True,
        colours=study.colours,
        filters=_filters(facet),
        notes=notes(study, rows),
    )


def commit_rate_time(study: Study) -> Figure:
    """Commits per second over the run."""
    rows, facet = _panels(study, study.over_time)
    if not (rows["commits_per_s"] > 0.0).any():
        raise NotInStudyError("nothing was committed")
    data = with_interval(rows, "commits_per_s")
    data = data.assign(time_s=(data["from_ms"] + data["to_ms"]) / 2000.0)
    return Figure(
        name="commit_rate_time",
        title="Commit rate over time",
        definition="Commits per second in sixty equal parts of the run, warm-up included: means over seeds with 95 % intervals.",
        kind="line",
        data=tidy(data, ["panel", "time_s", "y", "low", "high"]),
        x=Axis("time_s", "time (s)"),
        y=Axis("y", "commit rate (commits/s)"),
        series="series",
        series_title="configuration",
        facet=facet,
        low="low",
        high="high",
        band=True,
        colours=study.colours,
        filters=_filters(facet),
        notes=notes(study, rows),
    )


def _filters(facet: str | None) -> tuple[str, ...]:
    return ("series",) if facet is None else ("series", facet)


def _panels(study: Study, table: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Rows with the panel they belong to: by some places on the axis, or by class where there is no axis."""
    if study.axis is not None and len(study.axis.values) > 1:
        rows = study.rows(table)
        places = chosen_places(study)
        rows = rows[rows["x"].isin(places)]
        rows = rows.assign(panel=[place_label(study, x, named=True) for x in rows["x"]])
        return in_order(rows, "panel", [place_label(study, x, named=True) for x in places]), "panel"
    classes = (ALL, *study.classes) if len(study.classes) > 1 else (ALL,)
    parts = [study.rows(table, workload_class=name).assign(panel="all classes" if name == ALL else name) for name in classes]
    return pd.concat(parts), "panel" if len(classes) > 1 else None
