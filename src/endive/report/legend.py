"""What colours, marks and hatches of a figure mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from endive.report.figure import Figure
from endive.report.style import MOMENTS, PALETTE, QUIET, SHAPES, colours

BOX, LINE, DASHES = "box", "line", "dashes"
HATCHES = {"/": "url(#hatch-below-95)", "x": "url(#hatch-below-80)"}
"""Fills of cells by ``Figure.hatch``: patterns that pages and files define."""
HATCH_WORDS = {"/": "success below 95%", "x": "success below 80%"}
_BLACK = "#000000"


@dataclass(frozen=True)
class Entry:
    """A name with its colour and its sign: a shape of Vega, ``box``, ``line`` or ``dashes``; ``series``: readers may hide it."""

    name: str
    colour: str
    sign: str
    series: bool = True


def names_of(figure: Figure, column: str) -> list[str]:
    """The values of a column of names, in the order of their first appearance."""
    return [str(name) for name in pd.unique(figure.data[column].dropna())]


def series_column(figure: Figure) -> str | None:
    """The column that colours stand for."""
    return None if figure.kind == "heatmap" else figure.part if figure.part is not None else figure.series


def colours_of(figure: Figure, of_study: Mapping[str, str], ink: str = _BLACK) -> dict[str, str]:
    """The colour of each series; black is that of the text, so that it is seen in dark mode too."""
    column = series_column(figure)
    names = [] if column is None else names_of(figure, column)
    known = next((each for each in (figure.colours, of_study) if all(name in each for name in names)), colours(names))
    chosen = {name: known[name] for name in names} or {"": PALETTE[0]}
    return {name: ink if colour == _BLACK else colour for name, colour in chosen.items()}


def shape_of(figure: Figure, name: str) -> str:
    """The mark of a series, by its place in the study."""
    places = list(figure.colours) or ([] if figure.series is None else names_of(figure, figure.series))
    return SHAPES[places.index(name) % len(SHAPES)] if name in places else SHAPES[0]


def legend_of(figure: Figure, colours: Mapping[str, str]) -> list[Entry]:
    """Every name that the figure itself does not tell, in the order of the study."""
    column = series_column(figure)
    further = [Entry(each.label, colours.get(each.series or "", QUIET), DASHES, series=False) for each in figure.references]
    if figure.hatch is not None:
        present = [hatch for hatch in HATCHES if hatch in set(figure.data[figure.hatch])]
        return [Entry(HATCH_WORDS[hatch], HATCHES[hatch], BOX, series=False) for hatch in present]
    if column is None or column == figure.x.column:
        return further
    names = names_of(figure, column)
    if figure.kind == "swimlanes":
        names.sort(key=lambda name: list(figure.colours).index(name) if name in figure.colours else -1)
    if len(names) < 2 and not further:
        return []
    return [*(Entry(name, colours[name], _sign(figure, name)) for name in names), *further]


def _sign(figure: Figure, name: str) -> str:
    if figure.kind == "swimlanes":
        return MOMENTS.get(name, BOX)
    return BOX if figure.kind != "line" else LINE if figure.band else shape_of(figure, name)
