"""Swim lanes: a lane for each transaction, spans for what it did, marks for how its attempts ended."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from endive.report.figure import Figure
from endive.report.matplotlib.axes import set_axis, set_categories

_HEIGHT = 0.62
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
    """Spans and marks of a timeline; rows of no length are marks, with their text beside them."""
    assert figure.part is not None
    assert figure.x_end is not None
    lanes = list(dict.fromkeys(figure.data[figure.y.column].astype(str)))
    for row in data.to_dict("records"):
        lane, start, end = lanes.index(str(row[figure.y.column])), row[figure.x.column], row[figure.x_end]
        colour = figure.colours[row[figure.part]]
        if end > start:
            axes.barh(lane, end - start, _HEIGHT, left=start, color=colour, edgecolor="#666666", linewidth=0.3, zorder=2)
            continue
        mark = MARKS.get(row[figure.part], "|")
        axes.plot(
            [start], [lane], marker=mark, color=colour, markersize=6.5, markeredgecolor="white", markeredgewidth=0.6, zorder=4
        )
        if figure.text is not None and row[figure.text]:
            axes.annotate(
                row[figure.text], (start, lane), (5, 5.5), textcoords="offset points", fontsize=6.5, color="#222222", zorder=5
            )
    set_categories(axes, "y", lanes)
    axes.invert_yaxis()
    set_axis(axes, "x", figure.x, [*data[figure.x.column], *data[figure.x_end]])
    axes.grid(visible=False, axis="y")
    for threshold in figure.thresholds:
        axes.axvline(threshold.value, color="#666666", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
