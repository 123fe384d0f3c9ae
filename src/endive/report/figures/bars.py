"""Bars: the load that a configuration sustains, where the time goes, and catalogs side by side."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from endive.formatting import join_names
from endive.report import phrases
from endive.report.figure import Axis, Figure
from endive.report.figures import common
from endive.report.scales import HIDING
from endive.report.study import Study
from endive.report.style import PART_COLOURS
from endive.runs.parameters import PREFIX

DESIGN = tuple(f"{PREFIX}{name}" for name in ("catalog_type", "transaction_manifest_list_mode", "catalog_table_metadata_inlined"))
"""The parameters of the factorial design of catalogs."""
_BOUNDS = {"above": "\u2265 ", "at_or_below": "\u2264 ", "crossed": ""}
_MOST_GROUPS = 4
"""Designs at more loads than this are curves rather than groups of bars."""


def sustainable_throughput(study: Study) -> Figure:
    """The load at which each configuration saturates."""
    if study.axis is None or study.axis.load is None:
        raise common.NotInStudyError("no rate of arrivals varies, so no saturation was measured")
    labels = [each.label for each in study.drawn]
    rows = common.in_order(study.saturation[study.saturation["series"].isin(labels)], "series", labels)
    if rows.empty or rows["n_loads"].max() < 2:
        raise common.NotInStudyError("every configuration was measured at one load only")
    signs = rows["bound"].map(_BOUNDS)
    rows = rows.assign(y=rows["saturation_load"], low=rows["saturation_low"], high=rows["saturation_high"], bound_sign=signs)
    columns = ["y", "low", "high", "bound", "bound_sign", "reason", "lowest_load", "highest_load", "peak_throughput_per_s"]
    data = common.tidy(rows, columns)
    load, unit = common.axis_word(study), study.axis.title.partition(" (")[2].rstrip(")")
    return common.of_configurations(
        study,
        rows,
        data,
        name="sustainable_throughput",
        title=f"Sustainable {load} by configuration",
        definition=f"The first {load} at which success falls below 99%, throughput below 95% of the offered load, or "
        "the number that is committing grows, interpolated between the loads that were measured. Lines are 95% intervals, left "
        "out where the loads do not bound them. \u2265: not reached at the highest load; \u2264: already at the lowest.",
        kind="bars",
        x=Axis("series", "configuration", "category"),
        y=common.fitting(Axis("y", f"sustainable {load}" + (f" ({unit})" if unit else "")), data),
        text="bound_sign",
    )


def time_parts(study: Study) -> Figure:
    """The mean total latency of a committed transaction, by what it was spent on."""
    return _stacked(
        study,
        tuple(phrases.TIME_PARTS),
        "time_parts",
        "Where the time of a transaction goes",
        "Mean total latency of committed transactions by what it was spent on; the parts add up to it.",
        "mean time per transaction",
    )


def commit_parts(study: Study) -> Figure:
    """The same without the work itself."""
    return _stacked(
        study,
        tuple(name for name in phrases.TIME_PARTS if name != "t_runtime"),
        "commit_parts",
        "What committing costs",
        "Mean time of committed transactions by what it was spent on, without the runtime: all that metadata and concurrency "
        "control add.",
        "mean time beside the runtime",
    )


def _stacked(study: Study, parts: tuple[str, ...], name: str, title: str, definition: str, y: str) -> Figure:
    rows = study.totals().dropna(subset=["mean_t_runtime"])
    if rows.empty:
        raise common.NotInStudyError("nothing was committed")
    rows = common.with_place(study, rows).assign(total=sum(rows[f"mean_{part}"].astype(float) for part in parts))
    shares = rows["total"].max() > HIDING * rows["total"].median() and (rows["total"] > 0.0).all()
    more = " Bars are shares, so that none hides the others; the time itself stands at their ends." if shares else ""
    return common.of_parts(
        study,
        rows,
        _parts(rows, parts, rows["total"] if shares else 1.0),
        name=name,
        title=title,
        definition=f"{definition} The lines on the boxes are 95% intervals of the part over seeds.{more}",
        y=Axis("y", "share of the time (%)", percent=True) if shares else Axis("y", f"{y} (ms)"),
        colours=PART_COLOURS,
    )


def _parts(rows: pd.DataFrame, parts: tuple[str, ...], unit: pd.Series[float] | float) -> pd.DataFrame:
    """A row for each part that takes any time, in units of ``unit``; the last one of a bar says how long the bar is."""
    shown = [part for part in parts if (rows[f"mean_{part}"].astype(float) > 0.0).any()]
    found = []
    for part in shown:
        mean, width = rows[f"mean_{part}"].astype(float), rows[f"mean_{part}_hw"].astype(float)
        text = [f"{total:,.0f} ms" if total >= 10.0 else f"{total:.2g} ms" for total in rows["total"]] if part == shown[-1] else ""
        ends = {"y": mean / unit, "low": (mean - width).clip(lower=0.0) / unit, "high": (mean + width) / unit}
        found.append(rows.assign(part=phrases.TIME_PARTS[part], text=text, **ends))
    return common.in_order(pd.concat(found), "series", list(dict.fromkeys(rows["series"])))


def catalog_designs(study: Study, measure: common.Measure, name: str) -> Figure:
    """A measure of catalog designs side by side."""
    design = [column for column in DESIGN if column in study.varying]
    if not design:
        raise common.NotInStudyError("neither the type of the catalog nor the mode of manifest lists nor inlining varies")
    rows = study.totals()
    others = {each.label: {k: v for k, v in each.parameters.items() if k not in design} for each in study.drawn}
    panel = rows["series"].map({label: phrases.label_configuration(rest) for label, rest in others.items()})
    along = common.has_axis(study)
    lines = along and study.axis is not None and len(study.axis.values) > _MOST_GROUPS
    data = common.measured(common.with_place(study, rows).assign(panel=panel), measure, ["where", "panel"])
    factors = join_names([phrases.name_parameter(column)[0] for column in design])
    return common.of_configurations(
        study,
        rows,
        data.sort_values("x", kind="stable") if along else data,
        name=name,
        title=f"Catalog designs: {measure.title.lower()}",
        definition=f"{measure.definition} Designs differ in {factors}. {common.INTERVAL}",
        kind="line" if lines else "bars",
        x=common.study_axis(study) if lines else common.place_axis(study),
        y=common.fitting(measure.y if lines else replace(measure.y, scale="linear"), data),
        series_title="catalog design",
        facet="panel" if panel.nunique() > 1 else None,
    )
