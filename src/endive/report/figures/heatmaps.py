"""Build heatmaps over two parameters; cells with low success are hatched."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from endive.analysis.run_metrics import ALL
from endive.report import phrases
from endive.report.configurations import Series
from endive.report.figure import Axis, Figure
from endive.report.figures import common
from endive.report.phrases import format_bounded
from endive.report.study_data import Study

_FEW, _VERY_FEW = 0.95, 0.80
_HATCHING = "Hatched where success is below 95%, cross-hatched below 80%."
_NO_NUMBER = " aborted: the percentile is infinite because transactions abort; -: too few transactions."


def build_heatmap(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build the heatmap of a measure over two parameters. Raises NotInStudyError if fewer than two parameters vary."""
    x = common.require_axis(study)
    vertical = _choose_vertical(study.series)
    rows, panels = _make_cells(study, vertical)
    metric, most, timed = measure.column, common.MOST_FACETS, measure is common.LATENCY
    further = f"{most} of {len(panels)} combinations of the other parameters are shown." if len(panels) > most else ""
    rows = rows.assign(instead=[format_bounded(row, metric) if timed else "" for row in rows.to_dict("records")])
    data = common.select_columns(rows, ["across", "down", "panel", metric, "success_rate", "hatch", "instead"])
    value = common.fit_scale(replace(measure.y, column=metric), data)
    return Figure(
        name=name,
        title=f"{measure.title} over {phrases.name_parameter(vertical)[0]} and {common.name_axis(study)}",
        definition=f"{measure.definition} Means over seeds. {_HATCHING}{_NO_NUMBER if timed else ''}",
        kind="heatmap",
        data=data,
        x=Axis("across", x.title, "category"),
        y=Axis("down", phrases.title_parameter(vertical), "category"),
        facet="panel" if len(panels) > 1 else None,
        value=value if value.scale == "log" else replace(value, scale="linear"),
        hatch="hatch",
        text="instead",
        filters=("panel",) if len(panels) > 1 else (),
        notes=tuple(note for note in common.write_notes(study, rows, further) if "are shown" not in note),
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
