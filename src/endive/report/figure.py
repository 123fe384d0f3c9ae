"""Define the value that describes a figure: data, definitions and presentation.

``charts`` draws a ``Figure`` for pages and papers without any other input. ``data`` is tidy: one row per mark, with all
numbers of the figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
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

    ``data`` has the columns ``x`` and ``y`` in the units of the figure, in the order in which the line connects them.
    """

    label: str
    data: pd.DataFrame
    series: str | None = None
    """Series that the curve predicts and whose colour it has; None for a grey curve."""


@dataclass(frozen=True)
class Figure:
    """Data and presentation of a figure.

    ``series`` is the column that distinguishes curves. A series has the same colour in every figure of a study.
    """

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


Span = tuple[float, float]
Floats = npt.NDArray[np.float64]
HIDING = 20.0
"""Ratio of the maximum to the median above which a linear axis hides small values."""
_COMPARABLE = 3.0
"""Maximum ratio of the peaks of panels with a common axis."""
_REACH = 10.0
"""Lower end of a logarithmic axis as a fraction of the smallest value; intervals are cut there."""
_ROUND = 1000.0
"""Maximum ratio of the limits of a logarithmic axis with ticks at 1, 2 and 5; longer axes have ticks at powers of ten."""
_ROUND_MS = (
    *(step * 10.0**power for power in (-1, 0, 1, 2) for step in (1.0, 2.0, 5.0)),
    *(1_000.0 * seconds for seconds in (1, 2, 5, 10, 15, 30)),
    *(60_000.0 * minutes for minutes in (1, 2, 4, 10, 15, 30)),
    *(3_600_000.0 * hours for hours in (1, 2, 4, 12, 24, 48, 120, 240)),
)
"""Durations of ticks, in ms."""
_NEAR_THE_TOP = 0.9
_MOST_EXACT = 8
"""Maximum number of measured values with individual ticks."""
_MOST_DURATIONS = 5
"""Maximum number of steps of a linear axis of durations, which has long labels."""


def choose_scale(values: Iterable[float]) -> Scale:
    """Return a scale on which all values are visible: ``linear`` if possible, otherwise ``log``, or ``symlog`` with zeros."""
    known = np.array([value for value in values if not math.isnan(value)], np.float64)
    positive = known[known > 0.0]
    if len(positive) < 3 or positive.max() <= HIDING * float(np.median(positive)):
        return "linear"
    return "log" if len(positive) == len(known) else "symlog"


def list_axis_columns(figure: Figure, which: str) -> list[str]:
    """Return the columns that the axis ``x`` or ``y`` spans."""
    if which == "x":
        return [name for name in (figure.x.column, figure.x_low, figure.x_high, figure.x_end) if name is not None]
    return [name for name in (figure.y.column, figure.low, figure.high) if name is not None]


def shares_y(figure: Figure) -> bool:
    """Return whether panels have a common y axis, which they do unless the values of one panel would be invisible."""
    if figure.facet is None or figure.y.percent or figure.y.scale != "linear":
        return True
    lengths = _sum_bars(figure, figure.data) if figure.kind == "stacked" else figure.data.set_index(figure.facet)[figure.y.column]
    highest = lengths.groupby(level=0).max()
    return bool(highest.max() <= _COMPARABLE * highest.min())


def find_domain(figure: Figure, which: str, data: pd.DataFrame) -> Span:
    """Return the limits of the axis ``x`` or ``y`` for the rows of a panel: they enclose every value, interval and marked line."""
    axis = figure.x if which == "x" else figure.y
    if which == "y" and figure.kind == "stacked":
        beyond = 0.0 if figure.high is None else (data[figure.high] - data[figure.y.column]).max()
        return 0.0, 1.0 if axis.percent else float(_sum_bars(figure, data).max() + (0.0 if math.isnan(beyond) else beyond))
    curves = [reference.data[which].to_numpy(np.float64) for reference in figure.references]
    marked = [value for line in figure.thresholds if line.along == which for value in (line.value, line.low, line.high)]
    drawn = data[list_axis_columns(figure, which)].to_numpy(np.float64).ravel()
    values = np.concatenate([drawn, *curves, np.array([value for value in marked if value is not None], np.float64)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 1.0, 10.0
    if figure.kind == "swimlanes":
        return float(values.min()), float(values.max())
    if axis.scale == "log":
        return _find_log_span(values, data[axis.column].to_numpy(np.float64))
    return _find_linear_span(axis, values, tight=which == "x" and figure.band, bars=figure.kind == "bars")


def _find_log_span(values: Floats, middle: Floats) -> Span:
    least = middle[middle > 0.0].min(initial=math.inf)
    kept = values[(values > 0.0) & (values >= least / _REACH)]
    low, high = (float(kept.min()), float(kept.max())) if len(kept) else (1.0, 10.0)
    margin = max(1.08, (high / low) ** 0.04)
    return low / margin, high * margin


def _find_linear_span(axis: Axis, values: Floats, *, tight: bool, bars: bool) -> Span:
    """Return the limits of a linear axis. It begins at zero, unless all values are percentages near 100%."""
    low, high = float(values.min()), float(values.max())
    if axis.percent and low > _NEAR_THE_TOP and not bars:
        room = max(1.0 - low, 0.004)
        return low - 0.15 * room, 1.0 + 0.12 * room
    if axis.percent and high > 0.5:
        return 0.0, 1.0 if bars else 1.04
    return min(low, 0.0), (1.0 if tight or bars else 1.06) * high or 1.0


def place_ticks(axis: Axis, span: Span, exact: Iterable[float] = ()) -> list[float] | None:
    """Return the ticks of an axis; None for the default of Vega. If there are few ``exact`` values, each one gets a tick."""
    wanted = sorted(set(exact))
    if 0 < len(wanted) <= _MOST_EXACT:
        return wanted
    if is_duration(axis) and span[1] > 1.5 * span[0]:
        return _place_duration_ticks(axis, span)
    if axis.scale == "symlog":
        return [0.0, *_list_decades(span[1] / 1e4, span[1], (1.0,))]
    if axis.scale != "log" or span[1] <= 1.5 * span[0]:
        return None
    ratio = span[1] / span[0]
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if ratio <= 10.0 else (1.0, 2.0, 5.0) if ratio <= _ROUND else (1.0,)
    return _list_decades(*span, steps)


def is_duration(axis: Axis) -> bool:
    """Return whether an axis shows durations in ms."""
    return axis.title.endswith("(ms)")


def _place_duration_ticks(axis: Axis, span: Span) -> list[float]:
    """Return ticks at round durations: even steps on a linear axis, otherwise a few of the round durations in the span."""
    if axis.scale == "linear":
        step = next((each for each in _ROUND_MS if each >= (span[1] - span[0]) / _MOST_DURATIONS), span[1])
        return [step * k for k in range(math.ceil(span[0] / step), math.floor(span[1] / step) + 1)]
    inside = [each for each in _ROUND_MS if span[0] <= each <= span[1]]
    zero = [0.0] if axis.scale == "symlog" else []
    return [*zero, *inside[:: math.ceil(len(inside) / _MOST_EXACT) or 1]] if inside else [*zero, span[1]]


def _list_decades(low: float, high: float, steps: Sequence[float]) -> list[float]:
    low, first = max(low, 1e-12), math.floor(math.log10(max(low, 1e-12)))
    found = [step * 10.0**power for power in range(first, math.ceil(math.log10(high)) + 1) for step in steps]
    return [float(f"{value:.6g}") for value in found if low <= value <= high]


def _sum_bars(figure: Figure, data: pd.DataFrame) -> pd.Series[float]:
    """Return the length of each stacked bar."""
    within = [name for name in (figure.facet, figure.x.column) if name is not None]
    return data.groupby(within, observed=True, sort=False)[figure.y.column].sum()
