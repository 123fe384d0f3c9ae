"""Figures as Vega-Lite charts.

What flows in: a ``Figure`` and a colour for each series. What flows out: a Vega-Lite specification, made by Altair, and the rows it
draws. The specification names its data (``rows``) and does not hold them, so that a page has every number once, for the chart and
for the table behind it. What is neither data nor series is drawn in ``currentColor``: charts follow the page into dark mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import altair as alt
import pandas as pd

from endive.report.encodings import (
    INK,
    colour,
    discrete,
    field,
    names_of,
    number_format,
    position,
    rounded,
    shared_columns,
    thresholds,
    tooltip,
)
from endive.report.figure import Figure
from endive.report.style import SEQUENTIAL

ROWS = "rows"
"""The name of the data of every chart."""
HATCHES = {"/": "url(#hatch-below-95)", "x": "url(#hatch-below-80)"}
"""Fills of cells by ``Figure.hatch``: patterns that the page defines."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_HEIGHT = 320
_SMALL_HEIGHT = 240
_BAR = 16
_LONE_BAR = 26
_LANE = 22
_CELL = 36
"""Heights in pixels."""
_MOST_POINTS = 40
"""A curve with more rows than this is drawn without a point for each."""
_LABEL_LIMIT = "containerSize()[0] * 0.35"
"""Names of bars take this much of the width."""
_REACH = 700
"""Size of the disc around a point in which it answers to the pointer."""
_WHEEL = "wheel![event.ctrlKey || event.metaKey]"
"""What zooms: the bare wheel scrolls the page."""


def chart_of(figure: Figure, colours: Mapping[str, str], titles: Mapping[str, str]) -> dict[str, Any]:
    """The Vega-Lite specification of a figure; of one of its small multiples if it has a ``facet``.

    ``titles`` are words for columns that the figure itself has none for.
    """
    chart = _KINDS[figure.kind](figure, colours, tooltip(figure, titles)).properties(
        width="container",
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        background="transparent",
        description=f"{figure.title}. {figure.definition}",
    )
    return dict(_styled(chart).to_dict())


def rows_of(figure: Figure) -> dict[str, Any]:
    """The data of a figure by column, numbers rounded. Text is given as its values and the place of each row's among them."""
    return {str(name): _column(figure.data[name]) for name in figure.data.columns}


def _column(values: pd.Series[Any]) -> Any:
    if pd.api.types.is_bool_dtype(values):
        values = values.map({True: "yes", False: "no"})
    if pd.api.types.is_numeric_dtype(values):
        return [None if pd.isna(value) else rounded(value) for value in values.tolist()]
    codes, names = pd.factorize(values)
    return {"values": [str(name) for name in names], "codes": codes.tolist()}


def _lines(figure: Figure, colours: Mapping[str, str], told: list[alt.Tooltip]) -> Any:
    """A curve for each series with points and intervals; what is near the pointer is told."""
    x, y = position(figure, figure.x, alt.X, "x"), position(figure, figure.y, alt.Y, "y")
    base = alt.Chart(alt.NamedData(ROWS)).encode(x=x, y=y, color=colour(figure, colours))
    follow = alt.Order(field=field(figure.order or figure.x.column), type="quantitative")
    near = alt.selection_point(name="near", on="pointerover", clear="pointerout", empty=False)
    points = base.mark_point(filled=True, clip=True, tooltip=None).encode(
        size=alt.condition(near, alt.value(130), alt.value(45)),
        opacity=alt.condition(near, alt.value(1.0), alt.value(1.0 if _few_points(figure) else 0.0)),
    )
    reach = base.mark_point(filled=True, clip=True, size=_REACH, opacity=0.0).encode(tooltip=told)
    continuous = "category" not in (figure.x.scale, figure.y.scale)
    zoom = [alt.selection_interval(name="zoom", bind="scales", zoom=_WHEEL)] if continuous else []
    line = base.mark_line(strokeWidth=2, clip=True)
    layers = [
        *thresholds(figure),
        *_intervals(figure, base, figure.low, figure.high, along="y"),
        *_intervals(figure, base, figure.x_low, figure.x_high, along="x"),
        line.encode(order=follow) if continuous else line,
        points,
        reach.add_params(near, *zoom),
    ]
    height = _HEIGHT if figure.facet is None else _SMALL_HEIGHT
    return alt.layer(*layers).properties(height=height).add_params(*_domains(figure))


def _intervals(figure: Figure, base: alt.Chart, low: str | None, high: str | None, *, along: str) -> Iterator[Any]:
    """Intervals along an axis: a line at each point, or a band along the curve."""
    if low is None or high is None:
        return
    start = {"x": alt.X, "y": alt.Y}[along](field=field(low), type="quantitative")
    end = {"x": alt.X2, "y": alt.Y2}[along](field=field(high))
    if figure.band:
        several = 1 if figure.series is None else len(names_of(figure, figure.series))
        yield base.mark_area(
            opacity=min(0.2, 0.6 / several), clip=True, orient="vertical" if along == "y" else "horizontal"
        ).encode(**{along: start, f"{along}2": end})
    else:
        yield base.mark_rule(strokeWidth=1.5, opacity=0.7, clip=True).encode(**{along: start, f"{along}2": end})


def _bars(figure: Figure, colours: Mapping[str, str], told: list[alt.Tooltip]) -> Any:
    """Horizontal bars, so that names can be read: the x of the figure goes down the page."""
    base = alt.Chart(alt.NamedData(ROWS)).encode(y=discrete(figure, figure.x, alt.Y), tooltip=told)
    step = alt.Step(_LONE_BAR)
    if figure.series is not None and figure.series != figure.x.column:
        base = base.encode(yOffset=alt.YOffset(field=field(figure.series), type="nominal", sort=None))
        step = alt.Step(_BAR, **{"for": "offset"})
    length = position(figure, figure.y, alt.X, "y")
    layers: list[Any] = [base.mark_bar().encode(x=length, color=colour(figure, colours))]
    if figure.low is not None and figure.high is not None:
        ends = {"x": alt.X(field=field(figure.low), type="quantitative"), "x2": alt.X2(field=field(figure.high))}
        layers.append(base.mark_rule(strokeWidth=2, color=INK).encode(**ends))
    if figure.text is not None:
        words = base.mark_text(align="left", dx=6, color=INK, fontSize=12)
        layers.append(words.encode(x=length, text=alt.Text(field=field(figure.text))))
    layers += thresholds(figure, turned=True)
    return alt.layer(*layers).properties(height=step).add_params(*_domains(figure))


def _stacked(figure: Figure, colours: Mapping[str, str], told: list[alt.Tooltip]) -> Any:
    """Horizontal bars made of parts, in the order of their first appearance; each part has the interval of its end."""
    assert figure.part is not None
    place = f"indexof({names_of(figure, figure.part)!r}, datum[{figure.part!r}])"
    order = [alt.SortField("_place", "ascending")]
    base = (
        alt.Chart(alt.NamedData(ROWS))
        .transform_calculate(_place=place)
        .transform_stack(stack=figure.y.column, groupby=[figure.x.column], sort=order, as_=["_from", "_to"])
        .encode(y=discrete(figure, figure.x, alt.Y), tooltip=told)
    )
    length = position(figure, figure.y, alt.X, "y")
    length.field = "_from"
    layers: list[Any] = [base.mark_bar().encode(x=length, x2=alt.X2(field="_to"), color=colour(figure, colours))]
    if figure.low is not None and figure.high is not None:
        ends = base.transform_calculate(_low=f"datum._from + datum[{figure.low!r}]", _high=f"datum._from + datum[{figure.high!r}]")
        rule = ends.mark_rule(strokeWidth=1.5, color="black", opacity=0.75)
        layers.append(rule.encode(x=alt.X(field="_low", type="quantitative"), x2=alt.X2(field="_high")))
    return alt.layer(*layers).properties(height=alt.Step(_LONE_BAR)).add_params(*_domains(figure))


def _heatmap(figure: Figure, colours: Mapping[str, str], told: list[alt.Tooltip]) -> Any:
    """A cell for each x and y, hatched where ``hatch`` says so."""
    assert figure.value is not None
    scale: dict[str, Any] = {"type": "log" if figure.value.scale == "log" else "linear"}
    if shared_columns(figure):
        scale["domain"] = alt.ExprRef("value_domain")
    shade = alt.Color(
        field=field(figure.value.column),
        type="quantitative",
        title=figure.value.title,
        scale=alt.Scale(scheme=cast(Any, SEQUENTIAL), **scale),
        legend=alt.Legend(
            orient="top", gradientLength=220 if figure.facet is None else 130, format=number_format(figure.value), titleLimit=320
        ),
    )
    across, up = discrete(figure, figure.x, alt.X), discrete(figure, figure.y, alt.Y, down=True)
    base = alt.Chart(alt.NamedData(ROWS)).encode(x=across, y=up, tooltip=told)
    layers = [base.mark_rect().encode(color=shade)]
    if figure.hatch is not None:
        hatched = base.transform_filter(alt.FieldOneOfPredicate(field=field(figure.hatch), oneOf=list(HATCHES)))
        patterns = alt.Scale(domain=list(HATCHES), range=list(HATCHES.values()))
        layers.append(
            hatched.mark_rect().encode(fill=alt.Fill(field=field(figure.hatch), type="nominal", scale=patterns, legend=None))
        )
    return alt.layer(*layers).properties(height=alt.Step(_CELL)).add_params(*_domains(figure))


def _swimlanes(figure: Figure, colours: Mapping[str, str], told: list[alt.Tooltip]) -> Any:
    """Spans in lanes."""
    assert figure.x_end is not None
    spans = alt.Chart(alt.NamedData(ROWS)).mark_bar(height={"band": 0.7}, clip=True)
    chart = spans.encode(
        x=position(figure, figure.x, alt.X, "x", zero=False),
        x2=alt.X2(field=field(figure.x_end)),
        y=discrete(figure, figure.y, alt.Y),
        color=colour(figure, colours),
        tooltip=told,
    )
    zoom = alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom=_WHEEL)
    if figure.text is not None:
        words = alt.Chart(alt.NamedData(ROWS)).mark_text(align="left", dx=3, color="black", fontSize=10, clip=True)
        words = words.encode(x=position(figure, figure.x, alt.X, "x", zero=False), y=discrete(figure, figure.y, alt.Y))
        chart = alt.layer(chart.add_params(zoom), words.encode(text=alt.Text(field=field(figure.text))))
        return chart.properties(height=alt.Step(_LANE))
    return chart.properties(height=alt.Step(_LANE)).add_params(zoom)


_KINDS: Mapping[str, Callable[[Figure, Mapping[str, str], list[alt.Tooltip]], Any]] = {
    "line": _lines,
    "bars": _bars,
    "stacked": _stacked,
    "heatmap": _heatmap,
    "swimlanes": _swimlanes,
}


def _domains(figure: Figure) -> list[alt.Parameter]:
    return [alt.param(name=name, value=[1e-3, 1.0]) for name, _, _ in shared_columns(figure)]


def _few_points(figure: Figure) -> bool:
    keys = [name for name in (figure.series, figure.facet, *figure.filters) if name is not None]
    most = figure.data.groupby(keys, dropna=False, observed=True).size().max() if keys else len(figure.data)
    return bool(most <= _MOST_POINTS)


def _styled(chart: Any) -> Any:
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.12, "domainOpacity": 0.4, "tickOpacity": 0.4}
    return (
        chart.configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(**text, **lines, labelLimit=alt.ExprRef(_LABEL_LIMIT), labelOverlap="greedy", labelSeparation=6)
        .configure_axisX(labelAngle=0)
        .configure_legend(**text)
    )
