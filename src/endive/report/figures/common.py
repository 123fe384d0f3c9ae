"""Provide the measures, intervals, axes and notes that all figures use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from endive.analysis.run_metrics import ALL
from endive.formatting import format_number, format_quantity
from endive.report.figure import Axis, Figure, choose_scale
from endive.report.study_data import Study
from endive.report.style import assign_ramp

INTERVAL = "Error bars: 95% intervals across seeds."
MOST_FACETS = 9
"""Maximum number of small multiples of a figure."""


class NotInStudyError(Exception):
    """Raised if the study has no data for a figure; the message describes the missing data."""


@dataclass(frozen=True)
class Measure:
    """Metric of a figure: its column, title, axis, definition, maximum value, and the unit of the axis."""

    column: str
    title: str
    y: Axis
    definition: str
    most: float = float("inf")
    unit: float = 1.0
    """Value of the metric at 1 on the axis."""


SUCCESS = Measure(
    "success_rate",
    "Success",
    Axis("y", "success (%)", percent=True),
    "Fraction of transactions that commit, of all that started committing. The intervals account for transactions in flight at the "
    "end of the run.",
    most=1.0,
)
LATENCY = Measure(
    "time_to_commit_p95_ms",
    "Time to commit",
    Axis("y", "p95 time to commit (ms)", "log"),
    "p95 of the time to commit of all transactions that started committing. The time of an aborted transaction is infinite.",
)
THROUGHPUT = Measure("throughput_per_s", "Throughput", Axis("y", "throughput (commits/s)"), "Commits per second.")
OVERHEAD = Measure(
    "overhead",
    "Commit overhead",
    Axis("y", "commit latency / total latency (%)", percent=True),
    "Commit latency divided by total latency, averaged over committed transactions.",
    most=1.0,
)
RETRIES = Measure(
    "retries_per_txn",
    "Retries",
    Axis("y", "retries/txn"),
    "Mean number of commit attempts after the first, per transaction, including aborted transactions.",
)


def make_figure(study: Study, rows: pd.DataFrame, data: pd.DataFrame, *, further: Iterable[str] = (), **fields: Any) -> Figure:
    """Return a figure with a series for each configuration of the study, and the intervals of y in ``low`` and ``high``.

    ``rows`` are the rows that the notes are about; ``fields`` are further fields of ``Figure``.
    """
    usual: dict[str, Any] = {
        "series": "series",
        "series_title": "configuration",
        "low": "low",
        "high": "high",
        "colours": study.colours,
        "filters": ("series",),
    }
    return Figure(data=data, notes=write_notes(study, rows, *further), **{**usual, **fields})


def make_stacked_figure(study: Study, rows: pd.DataFrame, data: pd.DataFrame, **fields: Any) -> Figure:
    """Return a figure of stacked bars, one per configuration or per axis value.

    ``data`` has the columns of ``add_place``, and ``part``, ``y``, ``low``, ``high``, ``total`` and ``text`` of each component.
    """
    facet = "series" if has_axis(study) else None
    usual: dict[str, Any] = {"kind": "stacked", "x": make_place_axis(study), "series": None, "series_title": "", "facet": facet}
    data = select_columns(data, ["where", "part", "y", "low", "high", "total", "text"])
    return make_figure(study, rows, data, part="part", text="text", **usual, **fields)


def fit_scale(axis: Axis, data: pd.DataFrame) -> Axis:
    """Return the axis, with a logarithmic scale if small values would be invisible on a linear scale."""
    if axis.percent or axis.scale != "linear":
        return axis
    return replace(axis, scale=choose_scale(data[axis.column].astype(float)))


def select_measure(rows: pd.DataFrame, measure: Measure, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows that have a value of a measure, with the columns ``y``, ``low`` and ``high``.

    Raises:
        NotInStudyError: If no row has a value.
    """
    data = add_interval(rows, measure.column, most=measure.most)
    data = select_columns(data, [*columns, "y", "low", "high"]).dropna(subset=["y"])
    if data.empty:
        raise NotInStudyError(f"{measure.column} has no value in any experiment")
    return data


def has_axis(study: Study) -> bool:
    """Return whether a numeric parameter varies."""
    return study.axis is not None and len(study.axis.values) > 1


def require_axis(study: Study) -> Axis:
    """Return the horizontal axis. Raises NotInStudyError if no numeric parameter varies."""
    if study.axis is None or not has_axis(study):
        raise NotInStudyError("no numeric parameter varies in this study")
    return Axis("x", study.axis.title, study.axis.scale)


def make_place_axis(study: Study) -> Axis:
    """Return the axis of the column ``where``: values on the study's axis, or configurations if no numeric parameter varies."""
    return Axis("where", require_axis(study).title if has_axis(study) else "configuration", "category")


def add_place(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """Add the column ``where``: the axis value as text, or the configuration if no numeric parameter varies."""
    along = has_axis(study)
    return rows.assign(where=[format_place(study, x, named=False) for x in rows["x"]] if along else rows["series"])


def add_interval(
    rows: pd.DataFrame, metric: str, names: Sequence[str] = ("y", "low", "high"), most: float = float("inf")
) -> pd.DataFrame:
    """Add a metric and the bounds of its interval as columns with these names. With one seed there is no interval."""
    rows, y = rows.copy(), rows[metric].astype(float)  # a copy is contiguous, so that adding columns is fast
    if f"{metric}_low" in rows.columns:
        low, high = rows[f"{metric}_low"].astype(float), rows[f"{metric}_high"].astype(float)
    else:
        width = rows[f"{metric}_hw"].astype(float)
        low, high = (y - width).clip(lower=0.0), (y + width).clip(upper=most)
    return rows.assign(**dict(zip(names, (y, low, high), strict=True)))


def name_axis(study: Study) -> str:
    """Return the title of the axis without its unit."""
    return "" if study.axis is None else study.axis.title.partition(" (")[0]


def format_place(study: Study, x: float, *, named: bool) -> str:
    """Return an axis value as text, with or without the name of the axis."""
    if study.axis is None:
        return ""
    unit = study.axis.title.partition(" (")[2].rstrip(")")
    return f"{name_axis(study)} = {format_quantity(x, unit)}" if named else format_number(x, 4)


def sort_by_label(frame: pd.DataFrame, column: str, labels: Iterable[str]) -> pd.DataFrame:
    """Sort rows by a column of labels in the given order; charts keep the order of first appearance."""
    order = {label: place for place, label in enumerate(labels)}
    return frame.sort_values(column, key=lambda values: values.map(order), kind="stable")


def split_by_load_or_class(study: Study, table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Add the column ``panel``, and return the fields of the figure: a panel for each load, or for each class without loads.

    With many loads, there is a panel for each configuration instead, and colours represent loads.
    """
    if not has_axis(study):
        classes = (ALL, *study.classes) if len(study.classes) > 1 else (ALL,)
        parts = [study.rows(table, workload_class=name).assign(panel="all classes" if name == ALL else name) for name in classes]
        facet = "panel" if len(classes) > 1 else None
        return pd.concat(parts).assign(load=""), {"facet": facet, "filters": ("series", "panel") if facet else ("series",)}
    assert study.axis is not None
    rows = study.rows(table)
    labels = [format_place(study, x, named=True) for x in study.axis.values]
    rows = rows.assign(panel=[format_place(study, x, named=True) for x in rows["x"]])
    if len(labels) <= MOST_FACETS:
        return sort_by_label(rows, "panel", labels).assign(load=""), {"facet": "panel", "filters": ("series", "panel")}
    loads = [format_place(study, x, named=False) for x in study.axis.values]
    rows = rows.assign(load=[format_place(study, x, named=False) for x in rows["x"]], panel=rows["series"])
    fields = {"series": "load", "series_title": require_axis(study).title, "colours": assign_ramp(loads), "facet": "panel"}
    return sort_by_label(rows, "load", loads), {**fields, "filters": ("series",)}


def write_notes(study: Study, rows: pd.DataFrame, *further: str) -> tuple[str, ...]:
    """Return notes on few seeds, missing steady states and configurations that are not drawn."""
    found: list[str] = []
    if len(study.visible_series) < len(study.series):
        number = f"{len(study.visible_series)} of {len(study.series)} configurations"
        found.append(f"The figure shows {number}, sampled from the highest to the lowest peak throughput.")
    if "n_seeds" in rows.columns and len(rows):
        fewest = int(rows["n_seeds"].min())
        if fewest < 2:
            found.append("Values from a single seed have no interval.")
        elif fewest < 3:
            found.append("Intervals from fewer than 3 seeds are not reliable.")
    if "warmup_settled" in rows.columns:
        unsettled = int((~rows["warmup_settled"].astype(bool)).sum())
        if unsettled:
            verb = "comes" if unsettled == 1 else "come"
            found.append(f"{unsettled} of {len(rows)} values {verb} from runs that are too short or have no steady state.")
    return (*found, *(text for text in further if text))


def select_columns(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the columns that a figure shows and the columns that identify a row."""
    identity = ("experiment", "series", "x", "workload_class", "operation_type", "n_seeds")
    names = dict.fromkeys([*(name for name in identity if name in rows.columns and not rows[name].isna().all()), *columns])
    return rows[list(names)].reset_index(drop=True)
