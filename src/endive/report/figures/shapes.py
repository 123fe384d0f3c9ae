"""How latencies are distributed."""

from __future__ import annotations

from endive.report.figure import Axis, Figure
from endive.report.figures.common import by_load_or_class, of_configurations, tidy, with_interval
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study


def latency_distribution(study: Study) -> Figure:
    """The share of transactions whose commit took longer, on logarithmic axes: the tail is to be seen."""
    rows, fields = by_load_or_class(study, study.distributions)
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
