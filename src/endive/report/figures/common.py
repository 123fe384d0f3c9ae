"""What the builders of figures share: intervals, notes, and the axis of the study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from endive.report.figure import Axis
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study
from endive.report.words import number

INTERVAL = "Bars are 95 % intervals over seeds."
MOST_FACETS = 6


def study_axis(study: Study) -> Axis:
    """The axis from left to right. Raises NotInStudyError if no number varies."""
    if study.axis is None or len(study.axis.values) < 2:
        raise NotInStudyError("no load and no other number varies in this study")
    return Axis("x", study.axis.title, study.axis.scale)


def with_interval(rows: pd.DataFrame, metric: str, *, least: float = 0.0, most: float = float("inf")) -> pd.DataFrame:
    """The columns ``y``, ``low`` and ``high`` of a metric. Where there is one seed, there is no interval."""
    width = rows[f"{metric}_hw"].astype(float)
    y = rows[metric].astype(float)
    return rows.assign(y=y, low=(y - width).clip(lower=least), high=(y + width).clip(upper=most))


def axis_word(study: Study) -> str:
    """The axis without its unit."""
    return "" if study.axis is None else study.axis.title.partition(" (")[0]


def place_label(study: Study, x: float, *, named: bool) -> str:
    """A place on the axis in words, with the name of the axis or without."""
    if study.axis is None:
        return ""
    unit = study.axis.title.partition(" (")[2].rstrip(")")
    short = "/s" if unit == "transactions/s" else f" {unit}" if unit else ""
    return f"{axis_word(study)} = {number(x)}{short}" if named else number(x)


def in_order(frame: pd.DataFrame, column: str, labels: Iterable[str]) -> pd.DataFrame:
    """Rows sorted by a column of labels in the order given; renderers keep the order of first appearance."""
    order = {label: place for place, label in enumerate(labels)}
    return frame.sort_values(column, key=lambda values: values.map(order), kind="stable")


def chosen_places(study: Study) -> tuple[float, ...]:
    """Some places on the axis, the first and the last among them, for figures that show a few."""
    values = () if study.axis is None else study.axis.values
    if len(values) <= MOST_FACETS:
        return values
    return tuple(values[round(k * (len(values) - 1) / (MOST_FACETS - 1))] for k in range(MOST_FACETS))


def notes(study: Study, rows: pd.DataFrame, *further: str) -> tuple[str, ...]:
    """What a reader has to keep in mind of these rows."""
    found: list[str] = []
    if len(study.drawn) < len(study.series):
        found.append(
            f"{len(study.drawn)} of {len(study.series)} configurations are drawn, from the highest peak throughput to the lowest."
        )
    if "n_seeds" in rows.columns and len(rows):
        fewest = int(rows["n_seeds"].min())
        if fewest < 2:
            found.append("Some points have one seed only, and so no interval.")
        elif fewest < 3:
            found.append("Some points have fewer than 3 seeds: their intervals say little.")
    if "warmup_settled" in rows.columns:
        unsettled = int((~rows["warmup_settled"].astype(bool)).sum())
        if unsettled:
            found.append(f"{unsettled} of {len(rows)} points have runs that did not settle, or are too short to tell.")
    return (*found, *(text for text in further if text))


def identity(rows: pd.DataFrame) -> list[str]:
    """The columns that say what a row is of."""
    return [name for name in ("experiment", "series", "x", "workload_class", "operation_type", "n_seeds") if name in rows.columns]


def tidy(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The columns that a figure draws, and those that say what a row is of."""
    names = list(dict.fromkeys([*identity(rows), *columns]))
    return rows[names].reset_index(drop=True)
