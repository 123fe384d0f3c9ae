"""A figure on a page: panels, titles, and a legend that covers nothing."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from endive.report.figure import Figure
from endive.report.matplotlib.kinds import draw_bars, draw_heatmap, draw_lines, draw_stacked, lies_down, shares_y
from endive.report.matplotlib.rc import PANEL_HEIGHT, PANEL_WIDTH, SINGLE_HEIGHT, SINGLE_WIDTH
from endive.report.matplotlib.swimlanes import draw_swimlanes, part_handles
from endive.report.style import MARKS, colours_for

_KINDS: dict[str, Callable[[Axes, Figure, pd.DataFrame], None]] = {
    "line": draw_lines,
    "bars": draw_bars,
    "stacked": draw_stacked,
    "heatmap": draw_heatmap,
    "swimlanes": draw_swimlanes,
}
_MOST_COLUMNS = 3
_HATCHES = (("/", "success below 95 %"), ("x", "success below 80 %"))
_LEGEND_ROW = 0.19
_LETTER, _TITLE_LETTER = 0.063, 0.094
"""Inches."""


def draw(figure: Figure, canvas: Canvas) -> None:
    """Draw a figure on an empty canvas."""
    facets = [None] if figure.facet is None else list(dict.fromkeys(figure.data[figure.facet]))
    columns = min(len(facets), 2 if len(facets) == 4 else _MOST_COLUMNS)
    rows = math.ceil(len(facets) / columns)
    width, height = _panel_size(figure, len(facets))
    handles = _handles(figure)
    fitting = _fitting(handles, width * columns)
    legend_rows = math.ceil(len(handles) / fitting) if handles else 0
    canvas.set_size_inches(width * columns, height * rows + 0.35 + _LEGEND_ROW * legend_rows)
    share_y: Literal["row"] | bool = "row" if shares_y(figure) else False
    grid = canvas.subplots(rows, columns, squeeze=False, sharex=False, sharey=share_y)
    panels = list(grid.flat)
    for axes, facet in zip(panels, facets, strict=False):
        data = figure.data if facet is None else figure.data[figure.data[figure.facet] == facet]
        _KINDS[figure.kind](axes, figure, data)
        if facet is not None:
            axes.set_title(textwrap.fill(str(facet), int(width / _LETTER)))
    for axes in panels[len(facets) :]:
        axes.set_visible(False)
    _titles(figure, canvas, panels, len(facets), columns)
    if handles:
        canvas.legend(handles=handles, loc="outside lower left", ncols=fitting)


def _fitting(handles: list[Line2D | Patch], width: float) -> int:
    """How many entries of the legend fit in a row."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=1)
    return max(1, min(len(handles) or 1, int(width / (0.55 + _LETTER * longest))))


def _panel_size(figure: Figure, panels: int) -> tuple[float, float]:
    if figure.kind == "heatmap":
        rows, columns = figure.data[figure.y.column].nunique(), figure.data[figure.x.column].nunique()
        return max(4.0, 2.2 + 0.6 * columns), max(2.2, 1.3 + 0.36 * rows)
    if figure.kind == "swimlanes":
        return 8.6, max(2.4, 0.8 + 0.29 * figure.data[figure.y.column].nunique())
    if panels == 1:
        bars = figure.data[figure.x.column].nunique() if figure.kind in ("bars", "stacked") else 0
        if lies_down(figure):
            longest = figure.data[figure.x.column].astype(str).map(len).max()
            return 3.6 + _LETTER * longest, 1.0 + 0.3 * bars
        return max(SINGLE_WIDTH, 1.2 + 0.55 * bars), SINGLE_HEIGHT
    return PANEL_WIDTH, PANEL_HEIGHT


def _titles(figure: Figure, canvas: Canvas, panels: list[Axes], used: int, columns: int) -> None:
    """Titles of axes at the edges only: below the lowest panel of a column, left of the first of a row."""
    across, down = (figure.y.title, figure.x.title) if lies_down(figure) else (figure.x.title, figure.y.title)
    for place, axes in enumerate(panels[:used]):
        if place + columns >= used:
            axes.set_xlabel(across)
        if place % columns == 0:
            axes.set_ylabel(down)
    letters = int(canvas.get_size_inches()[0] / _TITLE_LETTER)
    canvas.suptitle(textwrap.fill(figure.title, letters), x=0.01, ha="left", fontweight="bold")


def _handles(figure: Figure) -> list[Line2D | Patch]:
    """What colours and hatches mean; nothing if that is plain."""
    if figure.kind == "heatmap":
        present = set(figure.data[figure.hatch]) if figure.hatch else set()
        shown = [(hatch, label) for hatch, label in _HATCHES if hatch in present]
        return [Patch(facecolor="white", edgecolor="black", hatch=hatch * 3, label=label) for hatch, label in shown]
    if figure.part is not None:
        return part_handles(figure)
    if figure.series is None or figure.series == figure.x.column:
        return []
    names = list(dict.fromkeys(figure.data[figure.series]))
    colours = colours_for(names, figure.colours)
    places = list(figure.colours) or names
    if len(names) < 2:
        return []
    if figure.kind != "line":
        return [Patch(facecolor=colours[name], label=name) for name in names]
    marks = ["" if figure.band else MARKS[places.index(name) % len(MARKS)] for name in names]
    return [Line2D([], [], color=colours[name], marker=mark, label=name) for name, mark in zip(names, marks, strict=True)]
