"""A figure as a value: the numbers, what they mean, and how they are to be seen.

``charts`` turns a ``Figure`` into Vega-Lite, for the page and for papers, without looking anywhere else. ``data`` is tidy: one row
for each mark, and every number that is drawn stands in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from endive.report import ReportError

Kind = Literal["line", "bars", "stacked", "heatmap", "swimlanes"]
"""``line``: a curve for each series, with its interval. ``bars``: a bar for each x and series, with its interval. ``stacked``:
parts (``part``) on top of each other. ``heatmap``: a cell for each x and y, coloured by ``value``. ``swimlanes``: spans from
``x`` to ``x_end`` in the lane ``y``."""
Scale = Literal["linear", "log", "symlog", "category"]
"""``symlog`` is logarithmic with a zero."""


@dataclass(frozen=True)
class Axis:
    """A column of the data on an axis, with its title (unit included) and its scale. ``percent`` shows a share as a percentage."""

    column: str
    title: str
    scale: Scale = "linear"
    percent: bool = False


@dataclass(frozen=True)
class Threshold:
    """A line that means something: at ``value`` of y (or of x), with a word for it and, where it was measured, its interval."""

    value: float
    label: str
    along: Literal["x", "y"] = "y"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class CurveCrossing:
    """Where the curve of a series falls below ``y``: at ``x``, between ``low`` and ``high`` (None: beyond what was measured)."""

    series: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Reference:
    """A curve to compare with, such as a prediction of theory: drawn behind the points and named in the legend.

    ``data`` has the columns ``x`` and ``y`` in the units of the figure, in the order in which they are joined.
    """

    label: str
    data: pd.DataFrame
    series: str | None = None
    """The series that it is a prediction of, whose colour it has; None: of none, and grey."""


@dataclass(frozen=True)
class Figure:
    """One figure. ``series`` is the column that tells curves apart, coloured the same in every figure of a study."""

    name: str
    """Its file name and anchor, such as ``latency_throughput``."""
    title: str
    definition: str
    """What is drawn and how it was computed, in a sentence or two."""
    kind: Kind
    data: pd.DataFrame
    x: Axis
    y: Axis
    series: str | None = None
    series_title: str = ""
    facet: str | None = None
    """A column that splits the figure into small multiples."""
    low: str | None = None
    """Column with the lower end of the 95% interval of y; ``high`` is the upper one."""
    high: str | None = None
    part: str | None = None
    """For ``stacked``: the column that names the parts, drawn in the order of first appearance."""
    value: Axis | None = None
    """For ``heatmap``: what colours a cell."""
    hatch: str | None = None
    """For ``heatmap``: a column of "", "/" (success below 95%) or "x" (below 80%)."""
    x_end: str | None = None
    thresholds: tuple[Threshold, ...] = ()
    references: tuple[Reference, ...] = ()
    """For ``line``: curves behind those of the data."""
    crossings: tuple[CurveCrossing, ...] = ()
    """For ``line``: where curves cross a threshold."""
    filters: tuple[str, ...] = ()
    """Columns that a reader may filter by, such as operation_type, workload_class or a provider."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """The colour of each series (or part), the same in all figures of a study."""
    order: str | None = None
    """For ``line``: the column by which the points of a curve follow each other; None means x."""
    x_low: str | None = None
    """Column with the lower end of the 95% interval of x, where x is what was measured; ``x_high`` is the upper one."""
    x_high: str | None = None
    text: str | None = None
    """A column of short words: before the number of a bar (``bars``), at the end of a bar of parts (``stacked``), beside a lane
    (``swimlanes``), in a cell without a number (``heatmap``); empty where there is nothing to say."""
    band: bool = False
    """For ``line``: intervals as a band around the curve, for curves of many points, rather than a bar at each point."""
    notes: tuple[str, ...] = field(default=())
    """What to keep in mind: few seeds, runs that did not settle."""


def read_reference(file: Path) -> Reference:
    """Return the curve in a CSV file with the columns ``x`` and ``y``, named as the file. Raises ReportError."""
    try:
        data = pd.read_csv(file)[["x", "y"]].astype(float).dropna()
    except (OSError, ValueError, KeyError) as error:
        raise ReportError(f"{file}: a curve is a CSV file with columns x and y of numbers: {error}") from None
    if len(data) < 2:
        raise ReportError(f"{file}: a curve takes two points at least")
    return Reference(file.stem.replace("_", " "), data)
