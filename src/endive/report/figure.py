"""Define the value that describes a figure: data, definitions and presentation.

``charts`` draws a ``Figure`` for pages and papers without any other input. ``data`` is tidy: one row per mark, with all
numbers of the figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from endive.report import ReportError

Kind = Literal["line", "bars", "stacked", "heatmap", "swimlanes"]
"""Kind of a figure.

``line``: a curve for each series, with its interval. ``bars``: a bar for each x and series, with its interval. ``stacked``:
components (``part``) on top of each other. ``heatmap``: a cell for each x and y, coloured by ``value``. ``swimlanes``: spans from
``x`` to ``x_end`` in the lane ``y``.
"""
Scale = Literal["linear", "log", "symlog", "category"]
"""``symlog`` is logarithmic with a zero."""


@dataclass(frozen=True)
class Axis:
    """A column of the data on an axis, with its title (unit included) and its scale.

    ``percent`` shows a proportion as a percentage.
    """

    column: str
    title: str
    scale: Scale = "linear"
    percent: bool = False


@dataclass(frozen=True)
class Threshold:
    """A marked line at ``value`` of y (or of x), with a label and, if it was measured, its interval."""

    value: float
    label: str
    along: Literal["x", "y"] = "y"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class CurveCrossing:
    """Point ``x`` at which the curve of a series falls below ``y``, with its interval (None: outside of the measured range)."""

    series: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Reference:
    """Reference curve, such as a prediction of theory: drawn behind the points and listed in the legend.

    ``data`` has the columns ``x`` and ``y`` in the units of the figure, in the order in which they are joined.
    """

    label: str
    data: pd.DataFrame
    series: str | None = None
    """Series that the curve predicts and whose colour it has; None for a grey curve."""


@dataclass(frozen=True)
class Figure:
    """Figure. ``series`` is the column that distinguishes curves, with the same colours in every figure of a study."""

    name: str
    """Name of the file and of the HTML anchor, such as ``latency_throughput``."""
    title: str
    definition: str
    """Description of the values and how they are computed, in one or two sentences."""
    kind: Kind
    data: pd.DataFrame
    x: Axis
    y: Axis
    series: str | None = None
    series_title: str = ""
    facet: str | None = None
    """Column that splits the figure into small multiples."""
    low: str | None = None
    """Column with the lower end of the 95% interval of y; ``high`` has the upper end."""
    high: str | None = None
    part: str | None = None
    """For ``stacked``: column with the names of the components, drawn in the order of first appearance."""
    value: Axis | None = None
    """For ``heatmap``: value that colours a cell."""
    hatch: str | None = None
    """For ``heatmap``: column with the hatch: "", "/" (success below 95%) or "x" (below 80%)."""
    x_end: str | None = None
    thresholds: tuple[Threshold, ...] = ()
    references: tuple[Reference, ...] = ()
    """For ``line``: reference curves behind the curves of the data."""
    crossings: tuple[CurveCrossing, ...] = ()
    """For ``line``: points at which curves cross a threshold."""
    filters: tuple[str, ...] = ()
    """Columns that the page can filter by, such as operation_type, workload_class or a provider."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colour of each series or component, the same in all figures of a study."""
    order: str | None = None
    """For ``line``: column by which the points of a curve are connected; None for x."""
    x_low: str | None = None
    """Column with the lower end of the 95% interval of x, if x was measured; ``x_high`` has the upper end."""
    x_high: str | None = None
    text: str | None = None
    """Column of short texts: before the number of a bar (``bars``), at the end of a bar (``stacked``), beside a lane
    (``swimlanes``) or in a cell without a number (``heatmap``)."""
    band: bool = False
    """For ``line``: draw intervals as a band around the curve instead of a bar at each point."""
    notes: tuple[str, ...] = field(default=())
    """Caveats, such as few seeds or runs without a steady state."""


def read_reference(file: Path) -> Reference:
    """Read a curve from a CSV file with the columns ``x`` and ``y``; its label is the name of the file.

    Raises:
        ReportError: If the file cannot be read, or has fewer than two points.
    """
    try:
        data = pd.read_csv(file)[["x", "y"]].astype(float).dropna()
    except (OSError, ValueError, KeyError) as error:
        raise ReportError(f"{file}: expected a CSV file with numeric columns x and y: {error}") from None
    if len(data) < 2:
        raise ReportError(f"{file}: a curve needs at least two points")
    return Reference(file.stem.replace("_", " "), data)
