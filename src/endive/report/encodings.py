"""How columns of a figure become channels of a chart: axes, colours, what a mark tells, lines that mean something."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from endive.report.figure import Axis, Figure

INK = "currentColor"
"""The colour of the page's text, in light and in dark mode."""
DIGITS = 6
"""Significant digits of the numbers that are sent to a page."""
_TICKS = 6
_UNTOLD = ("experiment",)
"""Columns that are for tables, too long for a mark to tell."""
_MARGIN = 8
_NUMBER = ",.4~r"
_PERCENT = ".3~%"


def field(name: str) -> str:
    """A column's name, safe from being read as a path."""
    return name.replace(".", r"\.").replace("[", r"\[").replace("]", r"\]")


def names_of(figure: Figure, column: str) -> list[str]:
    """The values of a column of names, in the order of their first appearance."""
    return [str(name) for name in pd.unique(figure.data[column].dropna())]


def readable(name: str) -> str:
    """A column in words."""
    return name.removeprefix("param_").replace("_", " ").strip()


def rounded(value: float) -> float:
    """A number as a page has it."""
    if isinstance(value, int):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2.0**53 else short


def is_number(figure: Figure, column: str) -> bool:
    """Whether a column holds numbers."""
    values = figure.data[column]
    return bool(pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values))


def shared_columns(figure: Figure) -> list[tuple[str, str, list[str]]]:
    """For small multiples: the channels on one scale, as name of the parameter, scale and the columns that it has to span."""
    if figure.facet is None or figure.kind == "swimlanes":
        return []
    if figure.value is not None:
        return [("value_domain", "log" if figure.value.scale == "log" else "colour", [figure.value.column])]
    axes = [("x", figure.x), ("y", figure.y)] if figure.kind == "line" else [("y", figure.y)]
    spans = {
        "x": [name for name in (figure.x.column, figure.x_low, figure.x_high) if name is not None],
        "y": [name for name in (figure.y.column, figure.low, figure.high) if name is not None],
    }
    return [(f"{channel}_domain", axis.scale, spans[channel]) for channel, axis in axes if axis.scale != "category"]


def position(figure: Figure, axis: Axis, channel: type[Any], of: str, *, zero: bool = True) -> Any:
    """A column on an axis. Small multiples take their domains from the page, which knows all of them."""
    if axis.scale == "category":
        return channel(field=field(axis.column), type="nominal", sort=None, title=axis.title)
    scale: dict[str, Any] = {"type": "linear", "nice": True, "zero": zero}
    if figure.kind == "line":
        scale = {"type": axis.scale, "nice": False, "padding": _MARGIN}  # room for points at the edge
        scale |= {"zero": zero} if axis.scale == "linear" else {}
    if any(name == f"{of}_domain" for name, _, _ in shared_columns(figure)):
        scale = {**scale, "domain": alt.ExprRef(f"{of}_domain"), "zero": alt.Undefined}
    drawn = alt.Axis(format=number_format(axis), tickCount=_ticks(figure, axis))
    return channel(field=field(axis.column), type="quantitative", title=axis.title, scale=alt.Scale(**scale), axis=drawn)


def discrete(figure: Figure, axis: Axis, channel: type[Any], *, down: bool = False) -> Any:
    """A column whose values stand beside each other: numbers by size (upwards on y), names as they come."""
    values = pd.unique(figure.data[axis.column].dropna()).tolist()
    if is_number(figure, axis.column):
        values = [rounded(value) for value in sorted(values, reverse=down)]
    shown: dict[str, Any] = {"grid": False}
    if is_number(figure, axis.column):
        shown["format"] = number_format(axis)
    if channel is alt.Y:  # lanes may be few: the title lies above them
        shown |= {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -6}
    return channel(field=field(axis.column), type="ordinal", title=axis.title, sort=values, axis=alt.Axis(**shown))


def number_format(axis: Axis) -> str:
    """How d3 is to write the numbers of an axis."""
    return _PERCENT if axis.percent else _NUMBER


def _ticks(figure: Figure, axis: Axis) -> float:
    """How many ticks to ask for: on a long logarithmic axis only powers of ten."""
    values = figure.data[axis.column]
    if axis.scale != "log" or not (values > 0).any():
        return _TICKS
    decades = math.log10(values.max() / values[values > 0].min())
    return _TICKS if decades < 2.0 else decades


def series_column(figure: Figure) -> str | None:
    """The column that colours stand for."""
    return figure.part if figure.kind == "stacked" else None if figure.kind == "heatmap" else figure.series


def colour(figure: Figure, colours: Mapping[str, str]) -> Any:
    """The colours of the series; the legend is the page's."""
    column = series_column(figure)
    if column is None:
        return alt.value(next(iter(colours.values())))
    names = names_of(figure, column)
    scale = alt.Scale(domain=names, range=[colours[name] for name in names])
    return alt.Color(field=field(column), type="nominal", scale=scale, legend=None)


def thresholds(figure: Figure, *, turned: bool = False) -> list[Any]:
    """Dashed lines with their words, across the chart. ``turned``: the y of the figure goes along the page."""
    layers: list[Any] = []
    for threshold in figure.thresholds:
        data = alt.Chart(alt.InlineData(values=[{"value": threshold.value, "label": threshold.label}]))
        rule = data.mark_rule(strokeDash=[5, 4], color=INK, opacity=0.6, clip=True)
        if (threshold.along == "y") != turned:
            at: dict[str, Any] = {"y": alt.Y(field="value", type="quantitative")}
            words = data.mark_text(color=INK, fontSize=11, clip=True, align="right", baseline="top", dx=-4, dy=4)
            words = words.encode(**at, x=alt.value("width"), text=alt.Text(field="label"))
        else:
            at = {"x": alt.X(field="value", type="quantitative")}
            words = data.mark_text(color=INK, fontSize=11, clip=True, align="left", baseline="top", dx=4, dy=3)
            words = words.encode(**at, y=alt.value(0), text=alt.Text(field="label"))
        layers += [rule.encode(**at), words]
    return layers


def tooltip(figure: Figure, titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """What a mark tells: first what it is, then its numbers with the interval."""
    named = column_titles(figure, titles)
    names = [figure.series, figure.part, figure.facet, *figure.filters, figure.x.column, figure.x_low, figure.x_high, figure.x_end]
    names += [figure.y.column, figure.low, figure.high, None if figure.value is None else figure.value.column]
    others = [str(name) for name in figure.data.columns if name not in (*names, *_UNTOLD, figure.hatch, figure.text)]
    others = [name for name in others if figure.data[name].nunique(dropna=False) > 1]
    told = dict.fromkeys(name for name in (*names, *others) if name is not None)
    percents = percent_columns(figure)
    return [
        alt.Tooltip(field=field(name), type="quantitative", title=named[name], format=_PERCENT if name in percents else _NUMBER)
        if is_number(figure, name)
        else alt.Tooltip(field=field(name), type="nominal", title=named[name])
        for name in told
    ]


def column_titles(figure: Figure, titles: Mapping[str, str]) -> dict[str, str]:
    """What each column of the data is, in words: as the figure says, as the study says, or else as it is called."""
    named = {str(name): titles.get(str(name)) or readable(str(name)) for name in figure.data.columns}
    if figure.series is not None and figure.series_title:
        named[figure.series] = figure.series_title
    if figure.x_end is not None:
        named[figure.x_end] = f"{figure.x.title}, end"
    named |= {axis.column: axis.title for axis in (figure.x, figure.y, figure.value) if axis is not None}
    of_x = f"{figure.x.title}, " if figure.low is not None else ""
    ends = {figure.low: "95 % interval, from", figure.high: "95 % interval, to"}
    ends |= {figure.x_low: f"{of_x}95 % interval, from", figure.x_high: f"{of_x}95 % interval, to"}
    return named | {name: title for name, title in ends.items() if name is not None}


def percent_columns(figure: Figure) -> set[str]:
    """The columns whose numbers are shares, to be shown as percentages."""
    shares = {axis.column for axis in (figure.x, figure.y, figure.value) if axis is not None and axis.percent}
    ends = [(figure.low, figure.y), (figure.high, figure.y), (figure.x_low, figure.x), (figure.x_high, figure.x)]
    return shares | {name for name, axis in ends if name is not None and axis.percent}
