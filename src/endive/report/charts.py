"""Draw figures as Vega-Lite charts with Altair, for pages and for papers, and the charts of a calibration.

A chart refers to its data by name (``rows``), so that a page contains the data once, for the chart and for the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import altair as alt
import numpy as np
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode

from endive.report import encodings
from endive.report.encodings import (
    Panel,
    count_label_lines,
    draw_thresholds,
    encode_colour,
    encode_continuous,
    encode_discrete,
    encode_tooltip,
    escape_field,
    round_number,
)
from endive.report.figure import Axis, Figure, place_ticks
from endive.report.style import HATCHES, MOMENTS, PALETTE, SEQUENTIAL, Theme, list_names

if TYPE_CHECKING:
    from endive.calibrate.fit import Fit

_MOST_POINTS = 40
"""Maximum number of rows of a curve with a point for each row."""
_REACH = 700
"""Size of the disc around a point that reacts to the pointer."""
_WHEEL = "wheel![event.ctrlKey || event.metaKey]"
"""Event that zooms; the wheel alone scrolls the page."""
_LIGHT = 0.55
"""Position on the colour scale above which cells are light and have dark text."""


def make_panel_spec(panel: Panel) -> dict[str, Any]:
    """Return the Vega-Lite specification of a panel without its width, schema and configuration."""
    with debug_mode(False):  # validating every part and then the whole is slow; tests validate the whole
        spec = dict(_KINDS[panel.figure.kind](panel).to_dict(validate=False))
    return {name: value for name, value in spec.items() if name not in ("$schema", "config")}


def make_page_spec(panel: Panel) -> dict[str, Any]:
    """Return the specification of a panel for a page, as wide as its container."""
    figure = panel.figure
    return {
        "$schema": alt.SCHEMA_URL,
        "config": make_config(panel.theme),
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": "transparent",
        "description": f"{figure.title}. {figure.definition}",
        **make_panel_spec(panel),
    }


def encode_rows(data: pd.DataFrame) -> dict[str, Any]:
    """Return the data of a chart by column, with rounded numbers and dictionary-encoded text."""
    return {str(name): _encode_column(data[name]) for name in data.columns}


def _encode_column(values: pd.Series[Any]) -> Any:
    if pd.api.types.is_bool_dtype(values):
        values = values.map({True: "yes", False: "no"})
    if pd.api.types.is_numeric_dtype(values):
        return [None if pd.isna(value) else round_number(value) for value in values.tolist()]
    codes, names = pd.factorize(values)
    return {"values": [str(name) for name in names], "codes": codes.tolist()}


def _encode_tooltip(panel: Panel) -> dict[str, Any]:
    """Return the tooltip encoding of marks; nothing on paper."""
    return {"tooltip": encode_tooltip(panel.figure, panel.titles)} if panel.theme.live else {}


def _draw_lines(panel: Panel) -> Any:
    """Return a curve for each series, with points and intervals and, on a page, a tooltip near each point."""
    figure, theme = panel.figure, panel.theme
    base = panel.chart().encode(
        x=encode_continuous(panel, "x", alt.X), y=encode_continuous(panel, "y", alt.Y), color=encode_colour(panel)
    )
    numbers = "category" not in (figure.x.scale, figure.y.scale)
    follow = alt.Order(field=escape_field(figure.order or figure.x.column), type="quantitative")
    line = base.mark_line(strokeWidth=theme.size / 6, clip=True)
    layers = [
        *draw_thresholds(panel),
        *encodings.draw_references(panel),
        *encodings.draw_crossings(panel),
        *_draw_intervals(panel, base, "y", figure.low, figure.high),
        *_draw_intervals(panel, base, "x", figure.x_low, figure.x_high),
        line.encode(order=follow) if numbers else line,
        *(_draw_live_points(panel, base, zoom=numbers) if theme.live else _draw_points(panel, base)),
    ]
    return alt.layer(*layers).properties(height=panel.inner_height)


def _draw_points(panel: Panel, base: alt.Chart) -> list[Any]:
    if panel.figure.band or not _has_few_points(panel.figure):
        return []
    return [
        base.mark_point(filled=True, clip=True, opacity=1.0, size=3.2 * panel.theme.size).encode(
            shape=encodings.encode_shape(panel)
        )
    ]


def _draw_live_points(panel: Panel, base: alt.Chart, *, zoom: bool) -> list[Any]:
    """Return points that grow under the pointer, and invisible discs around them that show their tooltip."""
    near = alt.selection_point(name="near", on="pointerover", clear="pointerout", empty=False)
    opacity = 0.0 if panel.figure.band or not _has_few_points(panel.figure) else 1.0
    points = base.mark_point(filled=True, clip=True, tooltip=None).encode(
        shape=encodings.encode_shape(panel),
        size=alt.condition(near, alt.value(140), alt.value(50)),
        opacity=alt.condition(near, alt.value(1.0), alt.value(opacity)),
    )
    reach = base.mark_point(filled=True, clip=True, size=_REACH, opacity=0.0).encode(
        tooltip=encode_tooltip(panel.figure, panel.titles)
    )
    scales = [alt.selection_interval(name="zoom", bind="scales", zoom=_WHEEL)] if zoom else []
    return [points, reach.add_params(near, *scales)]


def _draw_intervals(panel: Panel, base: alt.Chart, along: str, low: str | None, high: str | None) -> Iterator[Any]:
    """Yield intervals along an axis: a line at each point, or a band along the curve.

    On a logarithmic axis, intervals that reach 0 are cut at the end of the axis.
    """
    if low is None or high is None:
        return
    figure = panel.figure
    axis, start = (figure.x if along == "x" else figure.y), escape_field(low)
    if axis.scale == "log":
        base = base.transform_calculate(_low=f"max(datum[{low!r}], {round_number(panel.span(along)[0])})")
        start = "_low"
    base = base.transform_filter(f"isValid(datum[{low!r}]) && isValid(datum[{high!r}])")
    ends = {
        along: {"x": alt.X, "y": alt.Y}[along](field=start, type="quantitative"),
        f"{along}2": {"x": alt.X2, "y": alt.Y2}[along](field=escape_field(high)),
    }
    if figure.band:
        several = 1 if figure.series is None else len(list_names(figure, figure.series))
        orient = "vertical" if along == "y" else "horizontal"
        yield base.mark_area(opacity=min(0.2, 0.6 / several), clip=True, orient=cast(Any, orient)).encode(**ends)
    else:
        yield base.mark_rule(strokeWidth=panel.theme.size / 8, opacity=0.7, clip=True).encode(**ends)


def _draw_bars(panel: Panel) -> Any:
    """Return horizontal bars with their numbers at the end. The x axis of the figure is vertical, so that long names fit.

    On a logarithmic axis, which has no zero, a point replaces the bar.
    """
    figure, theme = panel.figure, panel.theme
    base = panel.chart().encode(y=encode_discrete(panel, "x", alt.Y), **_encode_tooltip(panel))
    if figure.series is not None and figure.series != figure.x.column:
        base = base.encode(yOffset=alt.YOffset(field=escape_field(figure.series), type="nominal", sort=None))
        step = alt.Step(1.35 * theme.size, **{"for": "offset"})
    else:
        step = alt.Step((1.15 * count_label_lines(panel, figure.x) + 1.0) * theme.size)
    length = encode_continuous(panel, "y", alt.X)
    if figure.y.scale == "log":
        layers: list[Any] = [
            base.mark_point(filled=True, size=6 * theme.size, opacity=1.0).encode(x=length, color=encode_colour(panel))
        ]
    else:
        end = base.mark_tick(thickness=2).encode(x=length, color=encode_colour(panel))  # so that a bar of length 0 is visible
        layers = [base.mark_bar().encode(x=length, color=encode_colour(panel)), end]
    at = f"datum[{figure.y.column!r}]"
    if figure.low is not None and figure.high is not None:
        layers.append(_draw_bar_intervals(panel, base))
        at = f"(isValid(datum[{figure.high!r}]) ? datum[{figure.high!r}] : {at})"
    sign = "''" if figure.text is None else f"datum[{figure.text!r}]"
    written = f"{sign} + format(datum[{figure.y.column!r}], {_choose_format(figure.y)!r})"
    words = base.transform_filter(f"isValid(datum[{figure.y.column!r}])").transform_calculate(_end=at, _words=written)
    words = words.encode(x=alt.X(field="_end", type="quantitative"), text=alt.Text(field="_words"))
    layers += draw_thresholds(panel, turned=True)
    layers += _draw_legible_text(panel, words, align="left", dx=0.5 * theme.size)
    return alt.layer(*layers).properties(height=panel.height or step)


def _draw_legible_text(panel: Panel, words: alt.Chart, **place: Any) -> list[Any]:
    """Return text with an outline in the colour of the background, so that it is legible on lines and hatches."""
    theme = panel.theme
    ground = words.mark_text(
        fontSize=theme.size - 1, stroke=theme.paper, strokeWidth=4, strokeJoin="round", fill="transparent", **place
    )
    return [ground, words.mark_text(fontSize=theme.size - 1, color=theme.ink, **place)]


def _draw_bar_intervals(panel: Panel, base: alt.Chart) -> Any:
    """Return the intervals of bars."""
    figure = panel.figure
    base = base.transform_filter(f"isValid(datum[{figure.low!r}]) && isValid(datum[{figure.high!r}])")
    start = "_low" if figure.y.scale == "log" else escape_field(str(figure.low))
    if figure.y.scale == "log":
        base = base.transform_calculate(_low=f"max(datum[{figure.low!r}], {round_number(panel.span('y')[0])})")
    ends = {"x": alt.X(field=start, type="quantitative"), "x2": alt.X2(field=escape_field(str(figure.high)))}
    return base.mark_rule(strokeWidth=panel.theme.size / 7, color=panel.theme.ink).encode(**ends)


def _draw_stacked(panel: Panel) -> Any:
    """Return stacked horizontal bars, with components in the order of first appearance and an interval at the end of each."""
    figure, theme = panel.figure, panel.theme
    assert figure.part is not None
    place = f"indexof({list_names(figure, figure.part)!r}, datum[{figure.part!r}])"
    base = (
        panel.chart()
        .transform_calculate(_place=place)
        .transform_stack(
            stack=figure.y.column, groupby=[figure.x.column], sort=[alt.SortField("_place", "ascending")], as_=["_from", "_to"]
        )
        .encode(y=encode_discrete(panel, "x", alt.Y), **_encode_tooltip(panel))
    )
    length = encode_continuous(panel, "y", alt.X)
    length.field = "_from"
    layers: list[Any] = [
        base.mark_bar(stroke=theme.ink, strokeWidth=0.3).encode(x=length, x2=alt.X2(field="_to"), color=encode_colour(panel))
    ]
    far = "_to"
    if figure.low is not None and figure.high is not None:
        base = base.transform_calculate(
            _low=f"datum._from + datum[{figure.low!r}]",
            _high=f"isValid(datum[{figure.high!r}]) ? datum._from + datum[{figure.high!r}] : datum._to",
        ).transform_joinaggregate(_far="max(_high)", groupby=[figure.x.column])
        far = "_far"
        ends = base.transform_filter(f"isValid(datum[{figure.low!r}])")
        rule = ends.mark_rule(strokeWidth=theme.size / 9, color=theme.ink, opacity=0.8)
        layers.append(rule.encode(x=alt.X(field="_low", type="quantitative"), x2=alt.X2(field="_high")))
    if figure.text is not None:
        words = base.transform_filter(f"datum[{figure.text!r}] !== ''")
        words = words.encode(x=alt.X(field=far, type="quantitative"), text=alt.Text(field=escape_field(figure.text)))
        layers += _draw_legible_text(panel, words, align="left", dx=0.5 * theme.size)
    step = alt.Step((1.15 * count_label_lines(panel, figure.x) + 0.7) * theme.size)
    return alt.layer(*layers).properties(height=panel.height or step)


def _draw_heatmap(panel: Panel) -> Any:
    """Return a cell for each x and y with its number, hatched according to the column ``hatch``."""
    figure, theme = panel.figure, panel.theme
    assert figure.value is not None
    low, high = _find_value_span(figure, figure.value)
    logarithmic = figure.value.scale == "log" and low > 0.0
    shades = alt.Scale(type="log" if logarithmic else "linear", scheme=cast(Any, SEQUENTIAL), domain=[low, high])
    column = escape_field(figure.value.column)
    base = panel.chart().encode(
        x=encode_discrete(panel, "x", alt.X), y=encode_discrete(panel, "y", alt.Y, down=True), **_encode_tooltip(panel)
    )
    at = place_ticks(figure.value, (low, high)) if logarithmic else None
    bar = alt.Legend(
        orient="top",
        gradientLength=min((20 if figure.facet is None else 12) * theme.size, 0.7 * (theme.width or math.inf)),
        format=encodings.choose_number_format(figure.value),
        labelOverlap="greedy",
        labelSeparation=theme.size,
        titleLimit=0,
        offset=2 * theme.size,
        **({"tickCount": 4} if at is None else {"values": at}),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=0.6).encode(
        color=alt.Color(
            field=column,
            type="quantitative",
            title=figure.value.title,
            scale=shades,
            legend=bar if "value" in panel.titled else None,
        )
    )
    layers: list[Any] = [cells]
    if figure.hatch is not None:
        hatched = base.transform_filter(alt.FieldOneOfPredicate(field=escape_field(figure.hatch), oneOf=list(HATCHES)))
        patterns = alt.Scale(domain=list(HATCHES), range=list(HATCHES.values()))
        fill = alt.Fill(field=escape_field(figure.hatch), type="nominal", scale=patterns, legend=None)
        layers.append(hatched.mark_rect(opacity=0.55).encode(fill=fill))
    value = f"datum[{figure.value.column!r}]"
    share = f"(log({value}) - log({low})) / log({high / low})" if logarithmic else f"({value} - {low}) / {high - low}"
    words = (
        base.transform_filter(f"isValid({value})")
        .transform_calculate(_number=f"format({value}, {_choose_format(figure.value)!r})", _short=f"format({value}, '.2~s')")
        .transform_calculate(_words=_choose_fitting_text(panel, "_number", "_short"), _light=f"{share} > {_LIGHT}")
    )
    halo = alt.Stroke(field=column, type="quantitative", scale=shades, legend=None)
    layers.append(
        words.mark_text(fontSize=theme.size - 1, strokeWidth=4, strokeJoin="round").encode(
            text=alt.Text(field="_words"), stroke=halo, fill=alt.value("transparent")
        )
    )
    ink = alt.condition("datum._light", alt.value("black"), alt.value("white"))
    layers.append(words.mark_text(fontSize=theme.size - 1).encode(text=alt.Text(field="_words"), color=ink))
    if figure.text is not None:
        instead = base.transform_filter(f"!isValid({value}) && datum[{figure.text!r}] !== ''")
        layers += _draw_legible_text(panel, instead.encode(text=alt.Text(field=escape_field(figure.text))))
    return alt.layer(*layers).resolve_scale(color="independent").properties(height=panel.height or alt.Step(2.6 * theme.size))


def _choose_fitting_text(panel: Panel, *names: str) -> str:
    """Return a Vega expression for the text of the first of these fields that fits into a cell, or an empty text."""
    wide = "width" if panel.theme.width is None else str(panel.theme.width)
    room = f"{wide} / {panel.figure.data[panel.figure.x.column].nunique()} > {0.58 * panel.theme.size}"
    return "".join(f"{room} * length(datum.{name}) ? datum.{name} : " for name in names) + "''"


def _choose_format(axis: Axis) -> str:
    """Return the d3 format of a number beside its mark."""
    return ".4~p" if axis.percent else ",.3~r"


def _find_value_span(figure: Figure, value: Axis) -> tuple[float, float]:
    """Return the limits of the colour scale."""
    values = figure.data[value.column].dropna().astype(float)
    values = values[values > 0.0] if value.scale == "log" else values
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    low = low if value.scale == "log" else min(low, 0.0)
    return (low, high) if high > low else (low, 2.0 * high or 1.0)


def _draw_swimlanes(panel: Panel) -> Any:
    """Return horizontal spans in lanes, with event markers on top and labels beside the lanes."""
    figure, theme = panel.figure, panel.theme
    assert figure.x_end is not None
    base = panel.chart().encode(
        x=encode_continuous(panel, "x", alt.X),
        y=encode_discrete(panel, "y", alt.Y),
        color=encode_colour(panel),
        **_encode_tooltip(panel),
    )
    kind = None if figure.part is None else f"indexof({list(MOMENTS)!r}, datum[{figure.part!r}])"
    spans = base.mark_bar(height={"band": 0.62}, clip=True, stroke=theme.ink, strokeWidth=0.2)
    spans = spans.encode(x2=alt.X2(field=escape_field(figure.x_end)))
    if theme.live:
        spans = spans.add_params(alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom=_WHEEL))
    layers: list[Any] = [spans if kind is None else spans.transform_filter(f"{kind} < 0")]
    if kind is not None and figure.part is not None:
        marks = alt.Scale(domain=list(MOMENTS), range=list(MOMENTS.values()))
        moments = base.transform_filter(f"{kind} >= 0").mark_point(filled=True, opacity=1.0, stroke="white", strokeWidth=0.7)
        sign = alt.Shape(field=escape_field(figure.part), type="nominal", scale=marks, legend=None)
        layers.append(moments.encode(shape=sign, size=alt.value(6.5 * theme.size)))
    if figure.text is not None:
        words = panel.chart().transform_filter(f"datum[{figure.text!r}] !== ''")
        words = words.mark_text(align="left", dx=0.7 * theme.size, color=theme.ink, fontSize=theme.size - 1, clip=False)
        layers.append(
            words.encode(x=alt.value("width"), y=encode_discrete(panel, "y", alt.Y), text=alt.Text(field=escape_field(figure.text)))
        )
    step = alt.Step((1.15 * count_label_lines(panel, figure.y) + 0.65) * theme.size)
    return alt.layer(*layers).properties(height=panel.height or step)


_KINDS: Mapping[str, Callable[[Panel], Any]] = {
    "line": _draw_lines,
    "bars": _draw_bars,
    "stacked": _draw_stacked,
    "heatmap": _draw_heatmap,
    "swimlanes": _draw_swimlanes,
}


def _has_few_points(figure: Figure) -> bool:
    keys = [name for name in (figure.series, figure.facet, *figure.filters) if name is not None]
    most = figure.data.groupby(keys, dropna=False, observed=True).size().max() if keys else len(figure.data)
    return bool(most <= _MOST_POINTS)


def make_config(theme: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme: fonts and lines of all axes and legends."""
    text = {
        "labelColor": theme.ink,
        "titleColor": theme.ink,
        "labelFontSize": theme.size,
        "titleFontSize": theme.size,
        "titleFontWeight": "normal",
    }
    lines = {"domainColor": theme.ink, "tickColor": theme.ink, "gridColor": theme.ink}
    faint = {"gridOpacity": 0.12, "domainOpacity": 0.5, "tickOpacity": 0.5, "tickSize": 0.4 * theme.size}
    overlap = {"titleLimit": 0, "labelOverlap": "greedy", "labelSeparation": 0.5 * theme.size}
    return {
        "font": theme.font,
        "view": {"stroke": None},
        "axis": {**text, **lines, **faint, **overlap},
        "axisX": {"labelAngle": 0, "labelFlush": False},
        "legend": text,
    }


_MOST_QUANTILES = 200
_FIT_SIZE = 240


def draw_fit(fits: Sequence[Fit]) -> alt.VConcatChart:
    """Draw measured versus fitted quantiles (QQ) and the tail (1 − CDF) of each operation, on log axes."""
    rows = pd.concat([_compare_quantiles(fit) for fit in fits], ignore_index=True)
    operations = alt.Column("operation:N", title=None, sort=[fit.sample.operation for fit in fits])
    log = alt.Scale(type="log", nice=False)
    base = alt.Chart(rows).properties(width=_FIT_SIZE, height=_FIT_SIZE)
    line = base.mark_line(color="#888888", strokeDash=[4, 3]).encode(
        x=alt.X("fitted_ms:Q", scale=log), y=alt.Y("fitted_ms:Q", scale=log)
    )
    points = base.mark_point(filled=True, size=18, color=PALETTE[0]).encode(
        x=alt.X("fitted_ms:Q", scale=log, title="fitted quantile (ms)"),
        y=alt.Y("measured_ms:Q", scale=log, title="measured quantile (ms)"),
    )
    tails = rows.melt(["operation", "slower"], ["measured_ms", "fitted_ms"], var_name="which", value_name="latency_ms")
    tails["which"] = tails["which"].map({"measured_ms": "measured", "fitted_ms": "fitted"})
    tail = (
        alt.Chart(tails)
        .mark_line()
        .encode(
            x=alt.X("latency_ms:Q", scale=log, title="latency (ms)"),
            y=alt.Y("slower:Q", scale=log, title="fraction of slower requests (1 − CDF)"),
            color=alt.Color("which:N", title=None, scale=alt.Scale(domain=["measured", "fitted"], range=list(PALETTE[:2]))),
            column=operations,
        )
        .properties(width=_FIT_SIZE, height=_FIT_SIZE)
        .resolve_scale(x="independent")
    )
    quantiles = alt.layer(line, points).facet(column=operations).resolve_scale(x="independent", y="independent")
    return alt.vconcat(quantiles, tail)


def save_fit_chart(fits: Sequence[Fit], path: Path) -> Path:
    """Write the figure as SVG or PNG, depending on the suffix."""
    spec = draw_fit(fits).to_dict()
    if path.suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return path


def _compare_quantiles(fit: Fit) -> pd.DataFrame:
    ordered = np.sort(fit.at_no_size)
    places = np.unique(np.linspace(0, len(ordered) - 1, _MOST_QUANTILES).astype(int))
    places = np.unique(np.concatenate([places, np.arange(max(len(ordered) - 30, 0), len(ordered))]))
    p = (places + 0.5) / len(ordered)
    return pd.DataFrame(
        {
            "operation": fit.sample.operation,
            "slower": 1.0 - p,
            "measured_ms": ordered[places],
            "fitted_ms": fit.family.quantile(p),
        }
    )
