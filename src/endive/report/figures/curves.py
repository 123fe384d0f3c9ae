"""Curves over the load: latency, success, overhead and retries of whole configurations."""

from __future__ import annotations

import pandas as pd

from endive.analysis.saturation import LEAST_SUCCESS
from endive.report.figure import Axis, Figure, Threshold
from endive.report.figures.common import INTERVAL, axis_word, notes, study_axis, tidy, with_interval
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study
from endive.simulation.summary import PERCENTILES


def latency_throughput(study: Study) -> Figure:
    """Percentiles of commit latency against throughput: a panel for each percentile, a curve for each configuration."""
    study_axis(study)
    rows = study.totals()
    throughput = with_interval(rows, study.metric("throughput_per_s"))
    panels = []
    for percent in PERCENTILES:
        latency = with_interval(rows, study.metric(f"commit_latency_p{percent}_ms"))
        panels.append(
            latency.assign(
                percentile=f"p{percent}",
                throughput=throughput["y"],
                throughput_low=throughput["low"],
                throughput_high=throughput["high"],
            )
        )
    data = tidy(pd.concat(panels), ["percentile", "throughput", "throughput_low", "throughput_high", "y", "low", "high"]).dropna(
        subset=["y"]
    )
    if data.empty:
        raise NotInStudyError("nothing was committed")
    return Figure(
        name="latency_throughput",
        title="Commit latency against throughput",
        definition="Percentiles of the commit latency of committed transactions (from the end of the work to the commit) against "
        f"commits per second; points of a curve follow each other by {axis_word(study)}. {INTERVAL}",
        kind="line",
        data=data,
        x=Axis("throughput", "throughput (commits/s)"),
        y=Axis("y", "commit latency (ms)", "log"),
        series="series",
        series_title="configuration",
        facet="percentile",
        low="low",
        high="high",
        x_low="throughput_low",
        x_high="throughput_high",
        order="x",
        colours=study.colours,
        filters=("series", "percentile"),
        notes=notes(study, rows),
    )


def success_load(study: Study) -> Figure:
    """Success against the load."""
    return _curve(
        study,
        "success_rate",
        name="success_load",
        title="Success",
        y=Axis("y", "success (%)", percent=True),
        definition="Committed transactions as a share of those that ended (committed or aborted).",
        most=1.0,
        thresholds=(Threshold(LEAST_SUCCESS, "99 %"),),
    )


def overhead_load(study: Study) -> Figure:
    """Overhead against the load."""
    return _curve(
        study,
        "overhead",
        name="overhead",
        title="Overhead of committing",
        y=Axis("y", "commit latency / total latency (%)", percent=True),
        definition="Mean over committed transactions of the share of their total latency that went into committing.",
        most=1.0,
    )


def retries_load(study: Study) -> Figure:
    """Retries against the load."""
    return _curve(
        study,
        "retries_per_txn",
        name="retries",
        title="Retries",
        y=Axis("y", "retries (per transaction)"),
        definition="Commit attempts after the first, per transaction, whatever became of it.",
    )


def _curve(
    study: Study,
    metric: str,
    *,
    name: str,
    title: str,
    y: Axis,
    definition: str,
    most: float = float("inf"),
    thresholds: tuple[Threshold, ...] = (),
) -> Figure:
    """A metric of whole configurations against the axis of the study."""
    x = study_axis(study)
    rows = study.totals()
    data = tidy(with_interval(rows, study.metric(metric), most=most), ["y", "low", "high"]).dropna(subset=["x", "y"])
    if data.empty:
        raise NotInStudyError(f"no experiment has a value of {metric}")
    return Figure(
        name=name,
        title=f"{title} against {axis_word(study)}",
        definition=f"{definition} {INTERVAL}",
        kind="line",
        data=data,
        x=x,
        y=y,
        series="series",
        series_title="configuration",
        low="low",
        high="high",
        thresholds=thresholds,
        colours=study.colours,
        filters=("series",),
        notes=notes(study, rows),
    )
