"""Bars: the load that a configuration sustains, where the time goes, and catalogs side by side."""

from __future__ import annotations

import pandas as pd

from endive.report import words
from endive.report.figure import Axis, Figure
from endive.report.figures.common import INTERVAL, axis_word, chosen_places, notes, place_label, tidy, with_interval
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study
from endive.report.style import PART_COLOURS
from endive.runs.parameters import PREFIX

DESIGN = tuple(f"{PREFIX}{name}" for name in ("catalog_type", "transaction_manifest_list_mode", "catalog_table_metadata_inlined"))
"""The parameters of the factorial design of catalogs."""
_BOUNDS = {"above": "\u2265", "at_or_below": "\u2264", "crossed": ""}


def sustainable_throughput(study: Study) -> Figure:
    """The load at which each configuration saturates."""
    if study.axis is None or study.axis.load is None:
        raise NotInStudyError("no rate of arrivals varies, so no saturation was measured")
    labels = [each.label for each in study.drawn]
    rows = study.saturation[study.saturation["series"].isin(labels)]
    rows = rows.sort_values("series", key=lambda column: column.map(labels.index))
    if rows.empty or rows["n_loads"].max() < 2:
        raise NotInStudyError("every configuration was measured at one load only")
    data = rows.assign(
        y=rows["saturation_load"],
        low=rows["saturation_low"],
        high=rows["saturation_high"],
        bound_sign=rows["bound"].map(_BOUNDS),
    )
    unit = study.axis.title.partition(" (")[2].rstrip(")")
    columns = ["y", "low", "high", "bound", "bound_sign", "reason", "lowest_load", "highest_load", "peak_throughput_per_s"]
    return Figure(
        name="sustainable_throughput",
        title=f"Sustainable {axis_word(study)} by configuration",
        definition=f"The first {axis_word(study)} at which success falls below 99 % or throughput below 95 % of the offered load, "
        "interpolated between the loads that were measured. Lines are 95 % intervals over seeds, left out where the loads do not "
        "bound them. \u2265: not reached at the highest load; \u2264: already at the lowest.",
        kind="bars",
        data=tidy(data, columns),
        x=Axis("series", "configuration", "category"),
        y=Axis("y", f"sustainable {axis_word(study)}" + (f" ({unit})" if unit else "")),
        series="series",
        series_title="configuration",
        low="low",
        high="high",
        text="bound_sign",
        colours=study.colours,
        filters=("series",),
        notes=notes(study, rows),
    )


def time_parts(study: Study) -> Figure:
    """The mean total latency of a committed transaction, by what it was spent on."""
    return _stacked(
        study,
        tuple(words.TIME_PARTS),
        name="time_parts",
        title="Where the time of a transaction goes",
        definition="Mean total latency of committed transactions by what it was spent on; the parts add up to it.",
        y="mean time per transaction (ms)",
    )


def commit_parts(study: Study) -> Figure:
    """The same without the work itself."""
    return _stacked(
        study,
        tuple(name for name in words.TIME_PARTS if name != "t_runtime"),
        name="commit_parts",
        title="What committing costs",
        definition="Mean time of committed transactions by what it was spent on, without the runtime: all that metadata and "
        "concurrency control add.",
        y="mean time beside the runtime (ms)",
    )


def _stacked(study: Study, parts: tuple[str, ...], *, name: str, title: str, definition: str, y: str) -> Figure:
    rows = study.totals().dropna(subset=["mean_t_runtime"])
    if rows.empty:
        raise NotInStudyError("nothing was committed")
    with_axis = study.axis is not None and len(study.axis.values) > 1
    if with_axis:
        rows = rows[rows["x"].isin(chosen_places(study))].sort_values("x", kind="stable")
    where = [place_label(study, x, named=False) for x in rows["x"]] if with_axis else rows["series"]
    stacked = []
    for part in parts:
        mean, width = rows[f"mean_{part}"].astype(float), rows[f"mean_{part}_hw"].astype(float)
        stacked.append(
            rows.assign(where=where, part=words.TIME_PARTS[part], y=mean, low=(mean - width).clip(lower=0.0), high=mean + width)
        )
    labels = [each.label for each in study.drawn]
    data = pd.concat([part for part in stacked if (part["y"] > 0.0).any()])
    if with_axis:
        data = data.sort_values("series", key=lambda column: column.map(labels.index), kind="stable")
    assert study.axis is not None or not with_axis
    return Figure(
        name=name,
        title=title,
        definition=f"{definition} The lines on the boxes are 95 % intervals of the part over seeds.",
        kind="stacked",
        data=tidy(data, ["where", "part", "y", "low", "high"]),
        x=Axis("where", study.axis.title if with_axis and study.axis is not None else "configuration", "category"),
        y=Axis("y", y),
        facet="series" if with_axis else None,
        low="low",
        high="high",
        part="part",
        colours=PART_COLOURS,
        filters=("series",),
        notes=notes(study, rows),
    )


def catalogs_throughput(study: Study) -> Figure:
    """Throughput of catalog designs side by side."""
    return _designs(
        study,
        "throughput_per_s",
        name="catalogs_throughput",
        title="Catalog designs: throughput",
        y=Axis("y", "throughput (commits/s)"),
        definition="Commits per second.",
    )


def catalogs_latency(study: Study) -> Figure:
    """Latency of catalog designs side by side."""
    return _designs(
        study,
        "commit_latency_p95_ms",
        name="catalogs_latency",
        title="Catalog designs: commit latency",
        y=Axis("y", "p95 of the commit latency (ms)"),
        definition="95th percentile of the commit latency of committed transactions.",
    )


def _designs(study: Study, metric: str, *, name: str, title: str, y: Axis, definition: str) -> Figure:
    design = [column for column in DESIGN if column in study.varying]
    if not design:
        raise NotInStudyError("neither the type of the catalog nor the mode of manifest lists nor inlining varies")
    rows = study.totals()
    with_axis = study.axis is not None and len(study.axis.values) > 1
    if with_axis:
        rows = rows[rows["x"].isin(chosen_places(study))]
    others = {each.label: {k: v for k, v in each.parameters.items() if k not in design} for each in study.drawn}
    panel = rows["series"].map({label: words.label(rest) for label, rest in others.items()})
    where = [place_label(study, x, named=False) for x in rows["x"]] if with_axis else rows["series"]
    data = with_interval(rows, study.metric(metric)).assign(where=where, panel=panel)
    data = data.sort_values("x", kind="stable") if with_axis else data
    return Figure(
        name=name,
        title=title,
        definition=f"{definition} Factors: {', '.join(words.parameter(column)[0] for column in design)}. {INTERVAL}",
        kind="bars",
        data=tidy(data, ["where", "panel", "y", "low", "high"]),
        x=Axis("where", study.axis.title if with_axis and study.axis is not None else "configuration", "category"),
        y=y,
        series="series",
        series_title="catalog design",
        facet="panel" if panel.nunique() > 1 else None,
        low="low",
        high="high",
        colours=study.colours,
        filters=("series",),
        notes=notes(study, rows),
    )
