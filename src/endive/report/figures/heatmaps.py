"""Heatmaps over two parameters, hatched where transactions fail."""

from __future__ import annotations

import pandas as pd

from endive.report import words
from endive.report.figure import Axis, Figure
from endive.report.figures.common import MOST_FACETS, notes, place_label, study_axis, tidy
from endive.report.figures.missing import NotInStudyError
from endive.report.study import ALL, Series, Study

_FEW, _VERY_FEW = 0.95, 0.80
_HATCHING = "Hatched where success is below 95 %, cross-hatched below 80 %."


def heatmap_throughput(study: Study) -> Figure:
    """Throughput over two parameters."""
    value = Axis("throughput_per_s", "throughput (commits/s)")
    return _heatmap(study, value, name="heatmap_throughput", title="Throughput", definition="Commits per second, mean over seeds.")


def heatmap_latency(study: Study) -> Figure:
    """Latency over two parameters."""
    value = Axis("commit_latency_p95_ms", "p95 of the commit latency (ms)", "log")
    definition = "95th percentile of the commit latency of committed transactions, mean over seeds."
    return _heatmap(study, value, name="heatmap_latency", title="Commit latency", definition=definition)


def _heatmap(study: Study, value: Axis, *, name: str, title: str, definition: str) -> Figure:
    x = study_axis(study)
    vertical = _vertical(study.series)
    rows = study.experiments
    rows = rows[(rows["workload_class"] == ALL) & (rows["operation_type"] == ALL)].dropna(subset=["x"])
    by_label = {each.label: each for each in study.series}
    chosen = [by_label[label] for label in rows["series"]]
    rows = rows.assign(
        across=[place_label(study, place, named=False) for place in rows["x"]],
        down=[words.value(vertical, each.parameters[vertical]) for each in chosen],
        panel=[words.label({k: v for k, v in each.parameters.items() if k != vertical}) for each in chosen],
        rank=[list(by_label).index(each.label) for each in chosen],
        hatch=rows["success_rate"].map(_hatch),
    )
    panels = list(dict.fromkeys(rows.sort_values("rank")["panel"]))
    further = f"{MOST_FACETS} of {len(panels)} combinations of the other parameters are shown." if len(panels) > MOST_FACETS else ""
    rows = rows[rows["panel"].isin(panels[:MOST_FACETS])]
    ranks = rows.groupby("down")["rank"].transform("min")
    rows = rows.assign(rank=ranks).sort_values(["rank", "x"], kind="stable")
    metric = study.metric(value.column)
    assert study.axis is not None
    return Figure(
        name=name,
        title=f"{title} over {words.parameter(vertical)[0]} and {study.axis.title.partition(' (')[0]}",
        definition=f"{definition} {_HATCHING}",
        kind="heatmap",
        data=tidy(rows, ["across", "down", "panel", metric, f"{metric}_hw", "success_rate", "hatch"]),
        x=Axis("across", x.title, "category"),
        y=Axis("down", words.parameter_title(vertical), "category"),
        facet="panel" if len(panels) > 1 else None,
        value=value,
        hatch="hatch",
        filters=("panel",) if len(panels) > 1 else (),
        notes=tuple(note for note in notes(study, rows, further) if "are drawn" not in note),
    )


def _vertical(series: tuple[Series, ...]) -> str:
    """The parameter beside the axis that has most values."""
    names = list(series[0].parameters)
    if not names or len(series) < 2:
        raise NotInStudyError("it takes two parameters that vary, one of them a number")
    return max(names, key=lambda name: len({each.parameters[name] for each in series}))


def _hatch(success: float) -> str:
    if pd.isna(success) or success >= _FEW:
        return ""
    return "x" if success < _VERY_FEW else "/"
