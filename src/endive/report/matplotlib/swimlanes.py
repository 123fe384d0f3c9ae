"""Swim lanes: a lane for each transaction, spans for what it did, marks for how its attempts ended."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from endive.report.figure import Figure
from endive.report.matplotlib.axes import set_axis, set_categories

_HEIGHT = 0.56
_LETTER, _LANE_WIDTH = 0.053, 7.2
"""Inches."""
MARKS = {"committed": "o", "refused": "X", "aborted": "s"}
"""Moments, by what they are; everything else is a span."""


def part_handles(figure: Figure) -> list[Line2D | Patch]:
    """A box for each part that takes time, a mark for each that does not."""
    named = list(dict.fromkeys(figure.data[figure.part]))
    if figure.kind == "swimlanes":
        named.sort(key=list(figure.colours).index)
    handles: list[Line2D | Patch] = []
    for name in named:
        if figure.kind == "swimlanes" and name in MARKS:
            handles.append(Line2D([], [], linestyle="", marker=MARKS[name], color=figure.colours[name], label=name))
        else:
            handles.append(Patch(facecolor=figure.colours[name], edgecolor="#666666", linewidth=0.4, label=name))
    return handles


def draw_swimlanes(axes: Axes, figure: Figure, data: pd.DataFrame) -> None:
    """Spans and marks of a timeline; rows of no length are marks, with their text beside them where there is room."""
    assert figure.part is not None
    assert figure.x_end is not None
    lanes = list(dict.fromkeys(figure.data[figure.y.column].astype(str)))
    start, end = float(data[figure.x.column].min()), float(data[figure.x_end].max())
    for lane, name in enumerate(lanes):
        rows = data[data[figure.y.column].astype(str) == name].to_dict("records")
        for row in rows:
            left, right, colour = row[figure.x.column], row[figure.x_end], figure.colours[row[figure.part]]
            if row[figure.part] not in MARKS:
                axes.barh(lane, right - left, _HEIGHT, left=left, color=colour, edgecolor="#666666", linewidth=0.3, zorder=2)
        marks = [row for row in rows if row[figure.part] in MARKS]
        for row, following in zip(marks, [*marks[1:], None], strict=False):
            _draw_mark(axes, figure, lane, row)
            room = (end if following is None else following[figure.x.column]) - row[figure.x.column]
            _draw_text(axes, figure, lane, row, room / (end - start))
    set_categories(axes, "y", lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.8)
    axes.set_xlim(start, end)
    set_axis(axes, "x", figure.x, [start, end])
    axes.grid(visible=False, axis="y")


def _draw_mark(axes: Axes, figure: Figure, lane: int, row: dict[Any, Any]) -> None:
    style: Any = {"markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.6, "zorder": 4, "clip_on": False}
    axes.plot([row[figure.x.column]], [lane], marker=MARKS[row[figure.part]], color=figure.colours[row[figure.part]], **style)


def _draw_text(axes: Axes, figure: Figure, lane: int, row: dict[Any, Any], room: float) -> None:
    """As much of the text, cut at its comma or its bracket, as fits before the next mark; ``room`` is a share of the width."""
    text = "" if figure.text is None else str(row[figure.text])
    for shorter in (text, text.partition(",")[0], text.partition(" (")[0]):
        if shorter and len(shorter) * _LETTER <= room * _LANE_WIDTH:
            where = (row[figure.x.column], lane)
            axes.annotate(shorter, where, (4, 7.5), textcoords="offset points", fontsize=6.0, color="#222222", zorder=5)
            return
