"""The report: one HTML file that needs nothing else.

What flows in: a ``Page``, which is words, figures and where they come from. What flows out: HTML with the data, the style, the
scripts and the libraries that draw in it (Vega, Vega-Lite and Vega-Embed, once). Whoever opens it needs no network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from endive import __version__
from endive.report.charts import chart_of, rows_of
from endive.report.encodings import (
    DIGITS,
    INK,
    column_titles,
    is_number,
    names_of,
    percent_columns,
    readable,
    series_column,
    shared_columns,
)
from endive.report.figure import Figure
from endive.report.style import PALETTE, colours_for
from endive.report.words import operation

_BLACK = "#000000"
_TITLES = {
    "operation_type": "operation",
    "workload_class": "class",
    "series": "configuration",
    "panel": "shown",
    "member": "shown",
    "n_seeds": "seeds",
}


@dataclass(frozen=True)
class Page:
    """All that a report says. ``answer`` opens it; the colours are those of the study's configurations by their label."""

    title: str
    about: str
    answer: Sequence[str]
    warnings: Sequence[str]
    figures: Sequence[Figure]
    colours: Mapping[str, str]
    configuration: str
    """What all configurations have in common, as TOML."""
    varied: Mapping[str, str] = field(default_factory=dict)
    """What they differ in: values by key."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    commands: str = ""
    runs: Sequence[Mapping[str, str]] = ()
    made: str = ""
    dimensions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What configurations differ in, such as the store: by its name the value of each configuration. Readers filter by them."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Words for columns that figures have no words for."""


def html_of(page: Page) -> str:
    """The page as a file's text."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(_asset("page.html"))
    data = json.dumps([drawn(figure, page) for figure in page.figures], separators=(",", ":"), allow_nan=False)
    return template.render(
        **vars(page),
        version=__version__,
        digits=DIGITS,
        css=_trusted(_asset("page.css")),
        script=_trusted(_asset("page.js")),
        libraries=_trusted(_libraries()),
        data=_trusted(data.replace("<", "\\u003c")),
    )


def drawn(figure: Figure, page: Page) -> dict[str, Any]:
    """A figure as the script of the page takes it: the chart, its rows, and what a reader may choose."""
    colours = colours_of(figure, page.colours)
    titles = {**_TITLES, **page.titles}
    return {
        "name": figure.name,
        "spec": chart_of(figure, colours, titles),
        "rows": rows_of(figure),
        "series": _series(figure, colours),
        "facet": None if figure.facet is None else {"column": figure.facet, **_values(figure, figure.facet)},
        "filters": list(_filters(figure, page.dimensions, titles)),
        "shared": shared_columns(figure),
        "stacked": [figure.x.column, figure.facet] if figure.kind == "stacked" else None,
        "columns": [_described(figure, str(name), titles) for name in figure.data.columns if name != figure.hatch],
    }


def colours_of(figure: Figure, of_study: Mapping[str, str]) -> dict[str, str]:
    """The colour of each series; black is that of the text, so that it is seen in dark mode too."""
    column = series_column(figure)
    names = [] if column is None else names_of(figure, column)
    if all(name in figure.colours for name in names):
        chosen = {name: figure.colours[name] for name in names}
    else:
        chosen = colours_for(names, of_study)
    chosen = chosen or {"": PALETTE[0]}
    return {name: INK if colour == _BLACK else colour for name, colour in chosen.items()}


def _series(figure: Figure, colours: Mapping[str, str]) -> dict[str, Any] | None:
    column = series_column(figure)
    if column is None:
        return None
    title = "" if column == figure.part else figure.series_title
    return {"column": column, "title": title, "names": list(colours.items())}


def _filters(figure: Figure, dimensions: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What a reader may choose among: for configurations, each of the dimensions they differ in."""
    for column in figure.filters:
        chosen = _values(figure, column)
        known = {title: of for title, of in dimensions.items() if all(name in of for name in chosen["values"])}
        if column != "series" or not known:
            if len(chosen["values"]) > 1:
                yield {"column": column, "title": titles.get(column) or readable(column), "of": None, **chosen}
            continue
        for title, of in known.items():
            values = list(dict.fromkeys(of[name] for name in chosen["values"]))
            if len(values) > 1:
                words = {value: value for value in values}
                yield {"column": column, "title": title, "of": dict(of), "values": values, "words": words}


def _values(figure: Figure, column: str) -> dict[str, Any]:
    """The values of a column as the script compares them, and the words for them."""
    values = names_of(figure, column)
    if "all" in values:
        values = ["all", *(value for value in values if value != "all")]
    return {"values": values, "words": {value: operation(value) if column == "operation_type" else value for value in values}}


def _described(figure: Figure, name: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """A column of the table behind a figure."""
    title = column_titles(figure, titles)[name]
    return {"name": name, "title": title, "number": is_number(figure, name), "percent": name in percent_columns(figure)}


@cache
def _libraries() -> str:
    """Vega, Vega-Lite and Vega-Embed, of the version that Altair writes for; in a scope of their own."""
    wanted = alt.SCHEMA_VERSION.removeprefix("v")
    version = next(each for each in vl_convert.get_vegalite_versions() if wanted.startswith(each + "."))
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return f"(() => {{{bundle}\n}})();"


def _asset(name: str) -> str:
    return (files("endive.report") / "assets" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Markup:
    """Text of our own that is no HTML to escape. It must not close the element that it stands in."""
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("text that would close its element")
    return Markup(text)
