"""Encode columns of a figure as channels of a chart: axes, colours, shapes, tooltips and marked lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import pandas as pd

from endive.report.figure import Axis, Figure, Span, find_domain, is_duration, place_ticks, shares_y
from endive.report.style import QUIET, Theme, choose_shape, estimate_text_width, find_series_column, list_names, wrap_text

ROWS = "rows"
"""Name of the data set of every chart."""
DIGITS = 6
"""Number of significant digits of the numbers on a page."""
_TICKS = 6
_TABLE_ONLY = ("experiment",)
"""Columns that are shown in tables but not in tooltips."""
_NUMBER = ",.4~r"
_PERCENT = ".3~%"


@dataclass(frozen=True)
class Panel:
    """Panel of a figure with small multiples, or the whole figure: rows, theme, and the axes that have a title."""

    figure: Figure
    data: pd.DataFrame
    theme: Theme
    colours: Mapping[str, str]
    titles: Mapping[str, str]
    """Titles of columns that the figure does not set."""
    name: str | None = None
    """Value of the column ``figure.facet`` in this panel."""
    rows: str = ROWS
    titled: frozenset[str] = frozenset(("x", "y", "value"))
    """Axes with a title, and ``value`` if the cell colours have a legend. On paper, only panels at the edges have titles."""
    height: float | None = None
    """Height in pixels or points; None for the default of the kind of figure."""

    def span(self, which: str) -> Span:
        """Return the limits of an axis; panels with comparable values share them."""
        shared = which == "x" or shares_y(self.figure)
        return find_domain(self.figure, which, self.figure.data if shared else self.data)

    def chart(self) -> alt.Chart:
        """Return an empty chart of the named rows."""
        return alt.Chart(alt.NamedData(self.rows))

    @property
    def inner_height(self) -> float:
        """Height of a panel with continuous axes."""
        return self.height or (self.theme.height if self.figure.facet is None else self.theme.small_height)


def split_panels(figure: Figure, theme: Theme, colours: Mapping[str, str], titles: Mapping[str, str]) -> list[Panel]:
    """Return the panels of a figure in order; a single panel for a figure without small multiples."""
    whole = Panel(figure, figure.data, theme, colours, titles)
    if figure.facet is None:
        return [whole]
    column = figure.data[figure.facet].astype(str)
    return [replace(whole, name=name, data=figure.data[column == name]) for name in list_names(figure, figure.facet)]


def escape_field(name: str) -> str:
    """Return the name of a column with the characters escaped that Vega reads as a path."""
    return name.replace(".", r"\.").replace("[", r"\[").replace("]", r"\]")


def name_column(name: str) -> str:
    """Return the default title of a column."""
    return name.removeprefix("param_").replace("_", " ").strip()


def round_number(value: float) -> float:
    """Round a number to the digits that pages show."""
    if isinstance(value, int):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2.0**53 else short


def has_numbers(figure: Figure, column: str) -> bool:
    """Return whether a column contains numbers."""
    values = figure.data[column]
    return bool(pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values))


def encode_continuous(panel: Panel, which: str, channel: type[Any]) -> Any:
    """Encode a column of numbers on a channel. ``which`` is the axis of the figure; bars swap the axes."""
    figure, theme = panel.figure, panel.theme
    axis = figure.x if which == "x" else figure.y
    if axis.scale == "category":
        return channel(field=escape_field(axis.column), type="nominal", sort=None, title=axis.title)
    span = panel.span(which)
    scale: dict[str, Any] = {"type": axis.scale, "domain": list(span), "nice": False}
    scale |= {"zero": False} if axis.scale == "linear" else {}
    if axis.scale == "symlog":
        column = figure.data[axis.column]
        scale |= {"constant": round_number(float(column[column > 0.0].min()))}
    is_parameter = figure.kind == "line" and which == "x" and axis.column == "x"  # a parameter of the study, not a measurement
    values = figure.data[axis.column].dropna().tolist() if is_parameter else []
    at = place_ticks(axis, span, values)
    options: dict[str, Any] = {"format": choose_number_format(axis), **({"tickCount": _TICKS} if at is None else {"values": at})}
    if axis.scale == "linear" and (at is None or not values):  # evenly spaced ticks stay even when labels overlap
        options["labelOverlap"] = "parity"
    return channel(
        field=escape_field(axis.column),
        type="quantitative",
        title=_wrap_axis_title(panel, which, axis, channel),
        scale=alt.Scale(**scale),
        axis=alt.Axis(**options, **format_duration_ticks(axis), titlePadding=0.6 * theme.size),
    )


def _wrap_axis_title(panel: Panel, which: str, axis: Axis, channel: type[Any]) -> Any:
    """Return the title of an axis, wrapped if it is too long; None if another panel shows the title."""
    if which not in panel.titled:
        return None
    room, title = panel.inner_height if channel is alt.Y else panel.theme.width, title_axis(axis)
    if room is None or estimate_text_width(title, panel.theme.size) <= room:
        return title
    return wrap_text(title, int(len(title) * room / estimate_text_width(title, panel.theme.size)))


def encode_discrete(panel: Panel, which: str, channel: type[Any], *, down: bool = False) -> Any:
    """Encode a column of discrete values: numbers in ascending order (upwards on y), names in the order of first appearance."""
    figure, theme = panel.figure, panel.theme
    axis = figure.x if which == "x" else figure.y
    values = pd.unique((panel.data if figure.kind == "swimlanes" else figure.data)[axis.column].dropna()).tolist()
    shown: dict[str, Any] = {"grid": False, "labelLimit": 0}
    if has_numbers(figure, axis.column):
        values = [round_number(value) for value in sorted(values, reverse=down)]
        shown["format"] = choose_number_format(axis)
    if channel is alt.Y:  # there may be few lanes, so the title is above them
        shown |= {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -6}
        lines = {str(name): wrap_text(str(name), theme.letters) for name in values}
        if any(len(parts) > 1 for parts in lines.values()):
            shown["labelExpr"] = f"({json.dumps(lines)})[datum.label] || datum.label"
    title = axis.title if which in panel.titled or channel is alt.Y else None
    return channel(field=escape_field(axis.column), type="ordinal", title=title, sort=values, axis=alt.Axis(**shown))


def count_label_lines(panel: Panel, axis: Axis) -> int:
    """Return the number of lines of the longest name on an axis."""
    return max((len(wrap_text(name, panel.theme.letters)) for name in list_names(panel.figure, axis.column)), default=1)


def encode_colour(panel: Panel) -> Any:
    """Encode the colours of the series, without a legend."""
    column = find_series_column(panel.figure)
    if column is None:
        return alt.value(next(iter(panel.colours.values())))
    names = list_names(panel.figure, column)
    scale = alt.Scale(domain=names, range=[panel.colours[name] for name in names])
    return alt.Color(field=escape_field(column), type="nominal", scale=scale, legend=None)


def encode_shape(panel: Panel) -> Any:
    """Encode the shapes of the series, without a legend."""
    figure = panel.figure
    if figure.series is None:
        return alt.value("circle")
    names = list_names(figure, figure.series)
    scale = alt.Scale(domain=names, range=[choose_shape(figure, name) for name in names])
    return alt.Shape(field=escape_field(figure.series), type="nominal", scale=scale, legend=None)


def draw_thresholds(panel: Panel, *, turned: bool = False) -> list[Any]:
    """Return dashed lines across the chart with labels beside the plot. ``turned`` means that the y axis is horizontal.

    Labels above the chart alternate between two rows, so that the labels of adjacent lines do not overlap.
    """
    layers: list[Any] = []
    above = 0
    ink, size = panel.theme.ink, panel.theme.size - 1
    for line in panel.figure.thresholds:
        row = {"value": line.value, "label": line.label, "low": line.low, "high": line.high}
        data = alt.Chart(alt.InlineData(values=[{name: value for name, value in row.items() if value is not None}]))
        across = (line.along == "y") != turned
        name, channel, second = ("y", alt.Y, alt.Y2) if across else ("x", alt.X, alt.X2)
        if line.low is not None and line.high is not None:
            ends = {name: channel(field="low", type="quantitative"), f"{name}2": second(field="high")}
            layers.append(data.mark_rect(color=QUIET, opacity=0.25, clip=True).encode(**ends))
        at = {name: channel(field="value", type="quantitative")}
        layers.append(data.mark_rule(strokeDash=[5, 4], color=ink, opacity=0.6, clip=True).encode(**at))
        if line.label and across:
            words = data.mark_text(color=ink, fontSize=size, align="left", baseline="middle", dx=4, clip=False)
            layers.append(words.encode(**at, x=alt.value("width"), text=alt.Text(field="label")))
        elif line.label:
            up = -3 - 1.25 * size * (above % 2)
            words = data.mark_text(color=ink, fontSize=size, align="center", baseline="bottom", dy=up, clip=False)
            layers.append(words.encode(**at, y=alt.value(0), text=alt.Text(field="label")))
            above += 1
    return layers


def draw_references(panel: Panel) -> list[Any]:
    """Return the layers of the reference curves, behind all other layers."""
    return [
        alt.Chart(alt.InlineData(values=_list_points(reference.data)))
        .mark_line(color=panel.colours.get(reference.series or "", QUIET), strokeDash=[7, 3], strokeWidth=1.6, clip=True)
        .encode(x=alt.X(field="x", type="quantitative"), y=alt.Y(field="y", type="quantitative"), order=alt.Order(field="place"))
        for reference in panel.figure.references
    ]


def draw_crossings(panel: Panel) -> list[Any]:
    """Return a tick at the threshold crossing of each curve, in the colour of the curve, with a line for the interval."""
    low, high = panel.span("x")
    layers: list[Any] = []
    for each in panel.figure.crossings:
        reach = {"low": low if each.low is None else each.low, "high": high if each.high is None else each.high}
        data = alt.Chart(alt.InlineData(values=[{"x": each.x, "y": each.y, **reach}]))
        data = data.encode(y=alt.Y(field="y", type="quantitative"))
        size, paint = panel.theme.size, panel.colours.get(each.series, QUIET)
        ends = {"x": alt.X(field="low", type="quantitative"), "x2": alt.X2(field="high")}
        layers.append(data.mark_rule(strokeWidth=size / 2, opacity=0.35, color=paint, clip=True).encode(**ends))
        tick = data.mark_tick(orient="vertical", size=1.2 * size, thickness=2, color=paint, clip=True)
        layers.append(tick.encode(x=alt.X(field="x", type="quantitative")))
    return layers


def _list_points(data: pd.DataFrame) -> list[dict[str, float]]:
    return [
        {"place": place, "x": round_number(float(x)), "y": round_number(float(y))}
        for place, (x, y) in enumerate(zip(data["x"], data["y"], strict=True))
    ]


_DURATION_LABEL = (
    "datum.value == 0 ? '0' : "
    "datum.value >= 3600000 ? format(datum.value / 3600000, '.3~r') + ' h' : "
    "datum.value >= 60000 ? format(datum.value / 60000, '.3~r') + ' min' : "
    "datum.value >= 1000 ? format(datum.value / 1000, '.3~r') + ' s' : format(datum.value, '.3~r') + ' ms'"
)
"""Label of a tick in milliseconds, as a Vega expression: ``15 s``, ``4 min``."""


def format_duration_ticks(axis: Axis) -> dict[str, Any]:
    """Return the option that labels the ticks of an axis in milliseconds as durations; nothing for other axes."""
    return {"labelExpr": _DURATION_LABEL} if is_duration(axis) else {}


def title_axis(axis: Axis) -> str:
    """Return the title of an axis, without a unit for durations, whose ticks have units."""
    return axis.title.removesuffix(" (ms)")


def choose_number_format(axis: Axis) -> str:
    """Return the d3 format of the numbers of an axis."""
    return _PERCENT if axis.percent else _NUMBER


def encode_tooltip(figure: Figure, titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """Encode the tooltip of a mark: the names, then the numbers with their interval."""
    named = title_columns(figure, titles)
    names = [figure.series, figure.part, figure.facet, *figure.filters, figure.x.column, figure.x_low, figure.x_high, figure.x_end]
    names += [figure.y.column, figure.low, figure.high, None if figure.value is None else figure.value.column]
    others = [str(name) for name in figure.data.columns if name not in (*names, *_TABLE_ONLY, figure.hatch, figure.text)]
    others = [name for name in others if figure.data[name].nunique(dropna=False) > 1]
    named_columns = dict.fromkeys(name for name in (*names, *others) if name is not None)
    shown = [name for name in named_columns if not figure.data[name].isna().all()]  # one seed has no intervals
    percents = find_percent_columns(figure)
    return [
        alt.Tooltip(
            field=escape_field(name), type="quantitative", title=named[name], format=_PERCENT if name in percents else _NUMBER
        )
        if has_numbers(figure, name)
        else alt.Tooltip(field=escape_field(name), type="nominal", title=named[name])
        for name in shown
    ]


def title_columns(figure: Figure, titles: Mapping[str, str]) -> dict[str, str]:
    """Return the title of each column: from the figure, from the study, or derived from the column name."""
    named = {str(name): titles.get(str(name)) or name_column(str(name)) for name in figure.data.columns}
    if figure.series is not None and figure.series_title:
        named[figure.series] = figure.series_title
    if figure.x_end is not None:
        named[figure.x_end] = f"{figure.x.title}, end"
    named |= {axis.column: axis.title for axis in (figure.x, figure.y, figure.value) if axis is not None}
    of_x = f"{figure.x.title}, " if figure.low is not None else ""
    ends = {figure.low: "95% CI lower", figure.high: "95% CI upper"}
    ends |= {figure.x_low: f"{of_x}95% CI lower", figure.x_high: f"{of_x}95% CI upper"}
    return named | {name: title for name, title in ends.items() if name is not None}


def find_percent_columns(figure: Figure) -> set[str]:
    """Return the columns of proportions, which are shown as percentages."""
    shares = {axis.column for axis in (figure.x, figure.y, figure.value) if axis is not None and axis.percent}
    ends = [(figure.low, figure.y), (figure.high, figure.y), (figure.x_low, figure.x), (figure.x_high, figure.x)]
    return shares | {name for name, axis in ends if name is not None and axis.percent}
