"""One function for each kind of figure: marks on the axes of a panel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from endive.report.figure import Figure
from endive.report.matplotlib.axes import set_axis, set_categories
from endive.report.style import MARKS, SEQUENTIAL, colours_for
from endive.report.words import number

_ERROR: Any = {"elinewidth": 1.0, "capsize": 2.2, "capthick": 1.0}
Floats = npt.NDArray[np.float64]
_LONG_NAME = 14
_COMPARABLE = 3.0
"""Panels whose peaks differ by more each have an axis of their own."""


def _column(data: pd.DataFrame, name: str) -> Floats:
    return data[name].to_numpy(np.float64)


def _arms(data: pd.DataFrame, middle: str, low: str | None, high: str | None) -> Floats | None:
    """Lengths of the arms of error bars, down and up; None if there is no interval at all."""
    if low is None or high is None:
        return None
    centre = _column(data, middle)
    arms = np.stack([centre - _column(data, low), _column(data, high) - centre])
    return None if np.isnan(arms).all() else np.clip(np.nan_to_num(arms), 0.0, None)


def draw_lines(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Curves with their intervals."""
    names = list(dict.fromkeys(figure.data[figure.series])) if figure.series else [""]
    colours = colours_for(names, figure.colours)
    places = list(figure.colours) or names
    for name in names:
        curve = data[data[figure.series] == name] if figure.series else data
        if curve.empty:
            continue
        curve = curve.sort_values(figure.order or figure.x.column, kind="stable")
        mark = MARKS[places.index(name) % len(MARKS)] if name in places else "o"
        _draw_curve(axes, figure, curve, colours[name], mark)
    for threshold in figure.thresholds:
        line = axes.axhline if threshold.along == "y" else axes.axvline
        line(threshold.value, color="#666666", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        of_y = threshold.along == "y"
        axes.annotate(
            threshold.label,
            (1.0, threshold.value) if of_y else (threshold.value, 1.0),
            xycoords=axes.get_yaxis_transform() if of_y else axes.get_xaxis_transform(),
            xytext=(3, 0) if of_y else (0, 3),
            textcoords="offset points",
            ha="left" if of_y else "center",
            va="center" if of_y else "bottom",
            fontsize=7.5,
            color="#555555",
        )
    measured_x = figure.x_low is not None
    set_axis(axes, "x", figure.x, list(figure.data[figure.x.column]), exact=not (figure.band or measured_x))
    set_axis(axes, "y", figure.y, _drawn(data, figure))
    if figure.y.scale == "linear":
        _limits(axes, figure, figure.data if shares_y(figure) else data)


def _drawn(data: pd.DataFrame, figure: Figure) -> list[float]:
    """All values that a panel shows on its vertical axis."""
    columns = [name for name in (figure.y.column, figure.low, figure.high) if name is not None]
    values = data[columns].to_numpy(np.float64).ravel()
    return [float(value) for value in values[~np.isnan(values)]]


def shares_y(figure: Figure) -> bool:
    """Whether panels share their vertical axis: not where one of them would be too small to be seen."""
    if figure.kind not in ("line", "bars", "stacked") or figure.facet is None or figure.facet == "percentile":
        return False
    if figure.y.percent or figure.y.column == "slower_share":
        return True
    within = [figure.facet, figure.x.column] if figure.kind == "stacked" else [figure.facet]
    peaks = figure.data.groupby(within)[figure.y.column]
    highest = (peaks.sum() if figure.kind == "stacked" else peaks.max()).groupby(figure.facet).max()
    return bool(highest.max() <= _COMPARABLE * highest.min())


def _draw_curve(axes: Axes, figure: Figure, curve: pd.DataFrame, colour: str, mark: str) -> None:
    x, y = _column(curve, figure.x.column), _column(curve, figure.y.column)
    if figure.band:
        axes.plot(x, y, color=colour)
        if figure.low is not None and figure.high is not None:
            axes.fill_between(x, _column(curve, figure.low), _column(curve, figure.high), color=colour, alpha=0.18, linewidth=0)
        if figure.x_low is not None and figure.x_high is not None:
            least = x.min() * 1e-3 if figure.x.scale == "log" else -np.inf
            left, right = np.maximum(_column(curve, figure.x_low), least), _column(curve, figure.x_high)
            axes.fill_betweenx(y, left, right, color=colour, alpha=0.18, linewidth=0)
        if figure.x.scale == "log":
            axes.set_xlim(left=figure.data[figure.x.column].min() / 1.3)
        return
    down_up = _arms(curve, figure.y.column, figure.low, figure.high)
    if down_up is not None and figure.y.scale == "log":
        down_up[0] = np.minimum(down_up[0], y * 0.9)
    sideways = _arms(curve, figure.x.column, figure.x_low, figure.x_high)
    axes.errorbar(x, y, yerr=down_up, xerr=sideways, color=colour, marker=mark, **_ERROR)


def _limits(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Rates, counts and shares begin at zero; shares that all lie near the top do not."""
    columns = [name for name in (figure.y.column, figure.low, figure.high) if name is not None]
    values = data[columns].to_numpy(np.float64)
    marked = [threshold.value for threshold in figure.thresholds if threshold.along == "y"]
    lowest, highest = float(np.nanmin([np.nanmin(values), *marked])), float(np.nanmax([np.nanmax(values), *marked]))
    if figure.y.percent and lowest > 0.9:
        span = max(1.0 - lowest, 0.004)
        axes.set_ylim(lowest - 0.15 * span, 1.0 + 0.12 * span)
    elif figure.y.percent and highest > 0.5:
        axes.set_ylim(0.0, 1.04)
    else:
        axes.set_ylim(0.0, 1.06 * highest or 1.0)


def lies_down(figure: Figure) -> bool:
    """Whether bars go from left to right, because their names are long."""
    names = figure.data[figure.x.column].astype(str)
    return figure.kind == "bars" and figure.series == figure.x.column and names.map(len).max() > _LONG_NAME


def draw_bars(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Bars, side by side if there are several series."""
    categories = list(dict.fromkeys(figure.data[figure.x.column].astype(str)))
    alone = figure.series is None or figure.series == figure.x.column
    names = [""] if alone else list(dict.fromkeys(figure.data[figure.series]))
    colours = colours_for(categories if alone else names, figure.colours)
    width = 0.62 if alone else 0.82 / len(names)
    down = lies_down(figure)
    for place, name in enumerate(names):
        bars = data if alone else data[data[figure.series] == name]
        at = np.array([categories.index(str(label)) for label in bars[figure.x.column]], np.float64)
        if not alone:
            at += (place - (len(names) - 1) / 2) * width
        shown = [colours[str(label)] for label in bars[figure.x.column]] if alone else [colours[name]] * len(bars)
        heights = _column(bars, figure.y.column)
        arms = _arms(bars, figure.y.column, figure.low, figure.high)
        style = {"elinewidth": 1.0, "capsize": 2.2, "ecolor": "#222222"}
        if down:
            axes.barh(at, heights, width * 0.94, color=shown, xerr=arms, error_kw=style)
        else:
            axes.bar(at, heights, width * 0.94, color=shown, yerr=arms, error_kw=style)
        if figure.text is not None:
            for x, height, sign in zip(at, heights, bars[figure.text], strict=True):
                where = (height, x) if down else (x, height)
                axes.annotate(f"{sign}{number(float(f'{height:.3g}'))}", where, (4, 2), textcoords="offset points")
    set_categories(axes, "y" if down else "x", categories)
    set_axis(axes, "x" if down else "y", figure.y, list(figure.data[figure.y.column]))
    if down:
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
    elif figure.y.scale == "linear":
        _limits(axes, figure, figure.data)


def draw_stacked(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Boxes on top of each other, each with the interval of its own part."""
    assert figure.part is not None
    categories = list(dict.fromkeys(figure.data[figure.x.column].astype(str)))
    base = np.zeros(len(categories))
    for part in dict.fromkeys(figure.data[figure.part]):
        boxes = data[data[figure.part] == part]
        at = np.array([categories.index(str(label)) for label in boxes[figure.x.column]], np.int64)
        heights = _column(boxes, figure.y.column)
        arms = _arms(boxes, figure.y.column, figure.low, figure.high)
        style = {"elinewidth": 0.7, "capsize": 1.5, "ecolor": "#333333"}
        axes.bar(
            at,
            heights,
            0.7,
            bottom=base[at],
            color=figure.colours[part],
            edgecolor="#666666",
            linewidth=0.3,
            yerr=arms,
            error_kw=style,
        )
        base[at] += heights
    set_categories(axes, "x", categories)
    set_axis(axes, "y", figure.y, list(base))
    shown = figure.data if shares_y(figure) else data
    within = [figure.x.column] if figure.facet is None else [figure.facet, figure.x.column]
    axes.set_ylim(0.0, 1.06 * shown.groupby(within)[figure.y.column].sum().max())


def draw_heatmap(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Cells coloured by their value, which is written in them, hatched where it is asked for."""
    assert figure.value is not None
    across = list(dict.fromkeys(figure.data.sort_values("x", kind="stable")[figure.x.column].astype(str)))
    down = list(dict.fromkeys(figure.data[figure.y.column].astype(str)))
    cells = np.full((len(down), len(across)), np.nan)
    hatches = {}
    for row in data.to_dict("records"):
        at = (down.index(str(row[figure.y.column])), across.index(str(row[figure.x.column])))
        cells[at] = row[figure.value.column]
        hatches[at] = row[figure.hatch] if figure.hatch else ""
    every = _column(figure.data, figure.value.column)
    least, most = float(np.nanmin(every)), float(np.nanmax(every))
    norm = LogNorm(least, most) if figure.value.scale == "log" and 0.0 < least < most else Normalize(min(least, 0.0), most)
    image = axes.imshow(np.ma.masked_invalid(cells), cmap=SEQUENTIAL, norm=norm, aspect="auto", origin="lower")
    for (row_at, column_at), hatch in hatches.items():
        value = cells[row_at, column_at]
        if np.isnan(value):
            continue
        dark = norm(value) < 0.55
        if hatch:
            ink = "white" if dark else "black"
            box = Rectangle(
                (column_at - 0.5, row_at - 0.5), 1, 1, fill=False, hatch=hatch * 3, edgecolor=ink, linewidth=0.0, alpha=0.65
            )
            axes.add_patch(box)
        back = {"boxstyle": "round,pad=0.15", "facecolor": image.cmap(norm(value)), "edgecolor": "none"} if hatch else None
        text = number(float(f"{value:.3g}"))
        axes.text(column_at, row_at, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black", bbox=back)
    set_categories(axes, "x", across)
    set_categories(axes, "y", down)
    axes.grid(visible=False)
    bar = axes.figure.colorbar(image, ax=axes, label=figure.value.title)
    set_axis(bar.ax, "y", figure.value, list(every), scaled=True)
