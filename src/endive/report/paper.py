"""Write figures as files for papers: PNG, SVG and PDF of a given size.

SVG and PNG files are reproducible byte by byte; the order of resources in a PDF may differ.

One Vega-Lite specification combines the charts of a page with their titles and a legend. vl-convert renders it as SVG and converts
the SVG to the other formats. The font is Liberation Sans, which vl-convert includes. Text is not converted to paths. No network
access is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from endive.output_files import whole_file
from endive.report import ReportError
from endive.report.charts import make_config, make_panel_spec
from endive.report.encodings import ROWS, Panel, round_number, split_panels
from endive.report.figure import Figure
from endive.report.style import BOX, DASHES, LINE, Entry, Theme, choose_colours, estimate_text_width, make_legend, wrap_text

FORMATS = ("png", "svg", "pdf")
_LENGTH = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>in|cm|mm|pt)\s*$")
_UNITS = {"in": 1.0, "cm": 1.0 / 2.54, "mm": 1.0 / 25.4, "pt": 1.0 / 72.0}
POINTS = 72.0
"""Points per inch, the unit of charts."""
_PIXELS_PER_INCH = 200.0
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_INK = "#1a1c1f"
_SMALL, _LARGE = 7.0, 8.0
"""Font sizes, in points, of figures for one column and of wider figures."""
_TITLE = 1.3
"""Font size of the title, relative to the rest."""
_COLUMN = 4.0
"""Maximum width of a figure for one column, in inches."""
_LEAST_PANEL = 1.9
"""Minimum width of adjacent panels, in inches."""
_MOST_COLUMNS = 3
_TRIES = 8
_NEAR = 3.0
"""Tolerance of the size of a figure, in points; the margin fills the difference."""
_LEAST = 20.0
"""Minimum size of the plot area of a panel, in points."""


@dataclass(frozen=True)
class Size:
    """Size of a figure in inches; None for the natural size. ``titled`` adds the title above the figure."""

    width: float | None = None
    height: float | None = None
    titled: bool = True


@dataclass(frozen=True)
class Sheet:
    """Layout of a figure: rows of panels, with sizes in points."""

    figure: Figure
    panels: Sequence[Panel]
    columns: int
    width: float
    legend: Sequence[Entry]
    titled: bool

    @property
    def theme(self) -> Theme:
        """Theme of all panels."""
        return self.panels[0].theme


def parse_length(text: str, option: str) -> float:
    """Parse a length such as 3.3in, 84mm or 240pt into inches. Raises ReportError if the text is not a length."""
    found = _LENGTH.match(text)
    if found is None or float(found["number"]) <= 0.0:
        raise ReportError(f"{option} {text}: expected a number with in, cm, mm or pt, such as 3.3in")
    return float(found["number"]) * _UNITS[found["unit"]]


def save_figure(
    figure: Figure, folder: Path, formats: Sequence[str] = FORMATS, size: Size | None = None, *, name: str | None = None
) -> list[Path]:
    """Write a figure in these formats, each atomically, and return the files. By default, the file name is the name of the figure.

    Raises:
        ReportError: If the figure does not fit into the size.
    """
    svg = render_svg(figure, size or Size())
    written = []
    for kind in formats:
        path = folder / f"{name or figure.name}.{kind}"
        with whole_file(path) as temporary:
            temporary.write_bytes(_encode_svg(svg, kind))
        written.append(path)
    return written


def _encode_svg(svg: str, kind: str) -> bytes:
    if kind == "png":
        return bytes(vl_convert.svg_to_png(svg, ppi=_PIXELS_PER_INCH))
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    in_inches = re.sub(r'(width|height)="([\d.]+)"', lambda at: f'{at[1]}="{float(at[2]) / POINTS:.4g}in"', svg[: svg.index(">")])
    return (in_inches + svg[svg.index(">") :]).encode()


def render_svg(figure: Figure, size: Size) -> str:
    """Return a figure as SVG in points. Panels are resized until the whole has the requested size."""
    sheet = _lay_out(figure, size)
    spec, panels = _make_specification(sheet)
    target, tall = sheet.width, None if size.height is None else size.height * POINTS
    rows = math.ceil(len(panels) / sheet.columns)
    inner, height = sheet.theme.width or 0.0, sheet.panels[0].height
    for _ in range(_TRIES):
        for panel in panels:
            panel |= {"width": inner} if height is None else {"width": inner, "height": height}
        svg = str(vl_convert.vegalite_to_svg(spec, vl_version=find_vegalite_version(), allowed_base_urls=[]))
        wide, high = _read_size(svg)
        if 0.0 <= target - wide < _NEAR and (tall is None or 0.0 <= tall - high < _NEAR):
            break
        inner = max(_LEAST, inner + (target - 0.5 - wide) / sheet.columns)
        height = None if tall is None or height is None else max(_LEAST, height + (tall - 0.5 - high) / rows)
    else:
        if size.width is not None or tall is not None:
            asked = f"{target / POINTS:.3g}in" + ("" if tall is None else f" by {tall / POINTS:.3g}in")
            least = f"{max(wide, target) / POINTS:.2f}in by {max(high, tall or 0.0) / POINTS:.2f}in"
            raise ReportError(f"{figure.name} does not fit into {asked}; it needs at least {least}")
        target = wide
    return _frame_drawing(_renumber_ids(svg), target, tall or high, hatched=figure.hatch is not None)


def make_vegalite(figure: Figure) -> dict[str, Any]:
    """Return a figure as one Vega-Lite specification, data included, about as wide as a page."""
    sheet = _lay_out(figure, Size())
    spec, panels = _make_specification(sheet)
    for panel in panels:
        panel |= {"width": sheet.theme.width or 0.0}
    return spec


def _lay_out(figure: Figure, size: Size) -> Sheet:
    colours = choose_colours(figure, {})
    number = 1 if figure.facet is None else figure.data[figure.facet].nunique()
    inches = size.width or _choose_width(figure, number)
    columns = max(1, min(number, _MOST_COLUMNS, int(inches / _LEAST_PANEL)))
    columns = 2 if number == 4 and columns == 3 else columns
    letters = _SMALL if inches <= _COLUMN else _LARGE
    of_names = int(0.34 * inches / columns * POINTS / (0.55 * letters))
    theme = Theme(
        ink=_INK,
        paper="white",
        font=_FONT,
        size=letters,
        letters=of_names,
        height=min(240.0, 0.5 * inches * POINTS),
        small_height=min(150.0, 0.45 * inches * POINTS),
        width=0.75 * inches / columns * POINTS,
    )
    height = None if size.height is None else 0.5 * size.height * POINTS / math.ceil(number / columns)
    panels = [replace(panel, height=height) for panel in split_panels(figure, theme, colours, {})]
    edged = [
        replace(panel, rows=f"{ROWS}_{k}", titled=_choose_titled_axes(figure, k, len(panels), columns))
        for k, panel in enumerate(panels)
    ]
    return Sheet(figure, edged, columns, inches * POINTS, make_legend(figure, colours), size.titled)


def _choose_titled_axes(figure: Figure, place: int, panels: int, columns: int) -> frozenset[str]:
    """Return the axes that have a title in a panel: those at the lower and left edges. The first row has the legend of cells."""
    lowest, leftmost = place >= panels - columns, place % columns == 0
    turned = figure.kind in ("bars", "stacked")
    wanted = {"x": turned or lowest, "y": lowest if turned else leftmost, "value": place < columns}
    return frozenset(name for name, at in wanted.items() if at)


def _choose_width(figure: Figure, panels: int) -> float:
    if figure.kind == "swimlanes":
        return 8.6
    if figure.kind == "heatmap":
        return (1.0 if panels == 1 else 1.5) * max(4.6, 2.0 + 0.55 * figure.data[figure.x.column].nunique())
    return 5.0 if panels == 1 else 2.7 * (2 if panels in (2, 4) else _MOST_COLUMNS)


def _make_specification(sheet: Sheet) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the figure as one specification, data included, and its panels, whose size is set later."""
    theme = sheet.theme
    panels = [{**make_panel_spec(panel), **_make_panel_title(panel)} for panel in sheet.panels]
    legend = [_draw_legend(sheet)] if sheet.legend else []
    rows = [{"hconcat": panels[at : at + sheet.columns], "spacing": 2 * theme.size} for at in range(0, len(panels), sheet.columns)]
    data = {name: values for part in (*panels, *legend) for name, values in part.pop("datasets", {}).items()}
    spec = {
        "$schema": alt.SCHEMA_URL,
        "config": make_config(theme),
        "background": None,
        "padding": 3,
        "vconcat": [*rows, *legend],
        "spacing": 1.6 * theme.size,
        "datasets": {**data, **{panel.rows: _encode_values(panel.data) for panel in sheet.panels}},
    }
    if sheet.titled:
        letters = int(sheet.width / estimate_text_width("n", _TITLE * theme.size))
        spec["title"] = _make_title(wrap_text(sheet.figure.title, letters), theme, _TITLE * theme.size)
    return spec, panels


def _make_panel_title(panel: Panel) -> dict[str, Any]:
    if panel.name is None:
        return {}
    room = (panel.theme.width or 0.0) + 3 * panel.theme.size
    lines = wrap_text(panel.name, int(room / estimate_text_width("n", panel.theme.size)))
    return {"title": _make_title(lines, panel.theme, panel.theme.size)}


def _make_title(lines: list[str], theme: Theme, size: float) -> dict[str, Any]:
    """Return the title of a figure or panel."""
    words = {"text": lines, "anchor": "start", "fontSize": size, "fontWeight": "normal", "color": theme.ink}
    return {**words, "offset": 0.8 * theme.size}


def _draw_legend(sheet: Sheet) -> dict[str, Any]:
    """Return the legend: symbols and names, wrapped into lines."""
    theme = sheet.theme
    entries = list(_place_entries(sheet))
    data = alt.Chart(alt.InlineData(values=entries)).encode(y=alt.Y("y:Q", scale=None, axis=None))
    x = alt.X("x:Q", scale=None, axis=None)
    middle = alt.X("middle:Q", scale=None, axis=None)
    colour = {"color": alt.Color("colour:N", scale=None)}
    long = {"x": x, "x2": alt.X2("end:Q")}
    lined = "datum.line" if any(row["line"] for row in entries) else "false"
    layers = [
        data.transform_filter(f"{lined} && !datum.dashed").mark_rule(strokeWidth=1.4).encode(**long, **colour),
        data.transform_filter("datum.dashed").mark_rule(strokeWidth=1.4, strokeDash=[7, 3]).encode(**long, **colour),
        data.transform_filter("datum.shape !== ''")
        .mark_point(filled=True, opacity=1.0)
        .encode(x=middle, shape=alt.Shape("shape:N", scale=None), size=alt.Size("size:Q", scale=None), **colour),
        data.transform_filter("datum.box")
        .mark_point(shape="square", filled=True, opacity=1.0, size=0.9 * theme.size**2, stroke=theme.ink, strokeWidth=0.4)
        .encode(x=middle, fill=alt.Fill("colour:N", scale=None)),
        data.mark_text(align="left", baseline="middle", dx=0.5 * theme.size, fontSize=theme.size, color=theme.ink).encode(
            x=alt.X("end:Q", scale=None, axis=None), text="name:N"
        ),
    ]
    height = max(row["y"] for row in entries) + 0.8 * theme.size
    spec = alt.layer(*layers).properties(width=1, height=height).to_dict(validate=False)
    return {name: value for name, value in spec.items() if name not in ("$schema", "config")}


def _place_entries(sheet: Sheet) -> Iterator[dict[str, Any]]:
    """Yield the position of each legend entry, in columns as wide as the longest name."""
    size = sheet.theme.size
    lined = sheet.figure.kind == "line"
    sign = (2.2 if lined else 1.0) * size
    widest = sign + 2.5 * size + max(estimate_text_width(entry.name, size) for entry in sheet.legend)
    names = 0.35 if sheet.figure.x.scale == "category" or sheet.figure.kind == "swimlanes" else 0.15
    columns = max(1, int((1.0 - names) * sheet.width / widest))
    for place, entry in enumerate(sheet.legend):
        x, y = (place % columns) * widest, (place // columns) * 1.5 * size + 0.8 * size
        plain = entry.sign in (BOX, LINE, DASHES)
        yield {
            "name": entry.name,
            "colour": entry.colour,
            "x": x,
            "middle": x + sign / 2,
            "end": x + sign,
            "y": y,
            "shape": "" if plain else entry.sign,
            "size": 0.0 if plain else 0.6 * size**2,
            "line": lined and entry.sign != BOX,
            "dashed": entry.sign == DASHES,
            "box": entry.sign == BOX,
        }


def _encode_values(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for a chart, with rounded numbers and missing values as null."""
    records = data.astype(object).where(data.notna(), None).to_dict("records")
    return [
        {
            str(name): round_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
            for name, value in row.items()
        }
        for row in records
    ]


def _read_size(svg: str) -> tuple[float, float]:
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


def _renumber_ids(svg: str) -> str:
    """Renumber clips and gradients from 1, because Vega numbers them across drawings."""
    places: dict[str, int] = {}
    return re.sub(
        r'(id="|url\(#)([a-z_]+)(\d+)', lambda at: f"{at[1]}{at[2]}{places.setdefault(at[2] + at[3], len(places) + 1)}", svg
    )


def _frame_drawing(svg: str, width: float, height: float, *, hatched: bool) -> str:
    """Place a drawing on a white sheet of exactly this size, and add the hatch patterns that it uses."""
    size = f'width="{width:.6g}" height="{height:.6g}" viewBox="0 0 {width:.6g} {height:.6g}"'
    svg = re.sub(r'width="[\d.]+" height="[\d.]+" viewBox="[^"]*"', size, svg, count=1)
    end = svg.index(">") + 1
    return svg[:end] + '<rect width="100%" height="100%" fill="white"/>' + (read_patterns() if hatched else "") + svg[end:]


@cache
def find_vegalite_version() -> str:
    """Return the version of Vega-Lite that Altair targets, in the notation of vl-convert."""
    wanted = alt.SCHEMA_VERSION.removeprefix("v")
    return str(next(each for each in vl_convert.get_vegalite_versions() if wanted.startswith(each + ".")))


@cache
def read_patterns() -> str:
    """Return the hatch patterns of cells as SVG."""
    return (files("endive.report") / "assets" / "patterns.svg").read_text(encoding="utf-8")
