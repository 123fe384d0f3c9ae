"""Define colours, shapes, themes and legends: a configuration has the same colour and shape in all figures.

The palette of Okabe and Ito (2008) is distinguishable with any colour vision. Shapes distinguish configurations without colour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from endive.report.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe-Ito palette; yellow, which is pale on white, comes last."""
MOST_SERIES = len(PALETTE)
"""Maximum number of curves that can be distinguished."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
"""Shapes, as Vega names them."""
CROSS = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"
"""A diagonal cross, as an SVG path."""
MOMENTS = {"committed": "circle", "conflict": CROSS, "aborted": "square"}
"""Shapes of events in a timeline; everything else is a span."""
PART_COLOURS = {
    "catalog reads": "#56B4E9",
    "job duration": "#BBBBBB",
    "metadata I/O": "#009E73",
    "conflict I/O": "#D55E00",
    "backoff": "#F0E442",
    "catalog commits": "#0072B2",
}
"""Colours of the components of a transaction's time; the job duration, which is not overhead, is grey."""
SEQUENTIAL = "cividis"
"""Colour scheme of heatmaps, perceptually uniform with any colour vision."""
_RAMP = ("#00224E", "#2A3F6D", "#575C6D", "#7C7B78", "#A59C74", "#D2C060", "#FEE838")
"""Colour ramp of the same scheme, for ordered curves."""
QUIET = "#8A8A8A"
"""Colour of reference curves, visible on white and on black."""


@dataclass(frozen=True)
class Theme:
    """Style of charts on a page or on paper. Sizes are in pixels on a page and in points on paper."""

    ink: str
    """Colour of text and axes."""
    paper: str
    """Background colour."""
    font: str
    size: float
    """Font size."""
    letters: int
    """Maximum length of a line in the names of bars and lanes, in characters."""
    height: float
    small_height: float
    """Height of each panel of a figure with several panels; ``height`` is the height of a single panel."""
    width: float | None = None
    """Width; None for the width of the container."""
    live: bool = False
    """True if charts react to a pointer."""


PAGE = Theme(
    ink="currentColor",
    paper="var(--paper)",
    font="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    size=12,
    letters=26,
    height=320,
    small_height=240,
    live=True,
)
"""Theme of pages; text and axes have the colour of the page's text in light and in dark mode."""


def assign_colours(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour of the palette for each label, in order."""
    return {name: PALETTE[place % MOST_SERIES] for place, name in enumerate(labels)}


def assign_ramp(labels: Sequence[str]) -> dict[str, str]:
    """Return colours from dark to light for ordered labels, such as loads."""
    last = max(1, len(labels) - 1)
    return {name: _mix_ramp(place / last * (len(_RAMP) - 1)) for place, name in enumerate(labels)}


def _mix_ramp(place: float) -> str:
    first = min(int(place), len(_RAMP) - 2)
    ends = [[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in _RAMP[first : first + 2]]
    mixed = (round(a + (b - a) * (place - first)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{part:02X}" for part in mixed)


def wrap_text(name: str, letters: int) -> list[str]:
    """Wrap a name into lines of at most ``letters`` characters."""
    return textwrap.wrap(name, max(letters, 4)) or [""]


def estimate_text_width(text: str, size: float) -> float:
    """Estimate the width of a text in Liberation Sans or Arial, slightly too wide."""
    narrow, wide = "iljtfr.,:;|'!()[] ", "mwMW%@≥≤"
    ems = sum(0.33 if c in narrow else 0.88 if c in wide else 0.7 if c.isupper() else 0.57 for c in text)
    return ems * size


BOX, LINE, DASHES = "box", "line", "dashes"
HATCHES = {"/": "url(#hatch-below-95)", "x": "url(#hatch-below-80)"}
"""Fill patterns of cells by ``Figure.hatch``; pages and files define the patterns."""
HATCH_WORDS = {"/": "success below 95%", "x": "success below 80%"}
_BLACK = "#000000"


@dataclass(frozen=True)
class Entry:
    """Legend entry: name, colour and symbol (a Vega shape, ``box``, ``line`` or ``dashes``). Readers can hide a ``series``."""

    name: str
    colour: str
    sign: str
    series: bool = True


def list_names(figure: Figure, column: str) -> list[str]:
    """Return the distinct values of a column in the order of first appearance."""
    return [str(name) for name in pd.unique(figure.data[column].dropna())]


def find_series_column(figure: Figure) -> str | None:
    """Return the column that determines colours; None for a heatmap."""
    return None if figure.kind == "heatmap" else figure.part if figure.part is not None else figure.series


def choose_colours(figure: Figure, of_study: Mapping[str, str], ink: str = _BLACK) -> dict[str, str]:
    """Return the colour of each series; black becomes ``ink``, so that it is visible in dark mode."""
    column = find_series_column(figure)
    names = [] if column is None else list_names(figure, column)
    known = next((each for each in (figure.colours, of_study) if all(name in each for name in names)), assign_colours(names))
    chosen = {name: known[name] for name in names} or {"": PALETTE[0]}
    return {name: ink if colour == _BLACK else colour for name, colour in chosen.items()}


def choose_shape(figure: Figure, name: str) -> str:
    """Return the shape of a series, by its position in the study."""
    places = list(figure.colours) or ([] if figure.series is None else list_names(figure, figure.series))
    return SHAPES[places.index(name) % len(SHAPES)] if name in places else SHAPES[0]


def make_legend(figure: Figure, colours: Mapping[str, str]) -> list[Entry]:
    """Return the entries of the legend, which are all names that are not on an axis, in the order of the study."""
    column = find_series_column(figure)
    further = [Entry(each.label, colours.get(each.series or "", QUIET), DASHES, series=False) for each in figure.references]
    if figure.hatch is not None:
        present = [hatch for hatch in HATCHES if hatch in set(figure.data[figure.hatch])]
        return [Entry(HATCH_WORDS[hatch], HATCHES[hatch], BOX, series=False) for hatch in present]
    if column is None or column == figure.x.column:
        return further
    names = list_names(figure, column)
    if figure.kind == "swimlanes":
        names.sort(key=lambda name: list(figure.colours).index(name) if name in figure.colours else -1)
    if len(names) < 2 and not further:
        return []
    return [*(Entry(name, colours[name], _choose_sign(figure, name)) for name in names), *further]


def _choose_sign(figure: Figure, name: str) -> str:
    if figure.kind == "swimlanes":
        return MOMENTS.get(name, BOX)
    return BOX if figure.kind != "line" else LINE if figure.band else choose_shape(figure, name)
