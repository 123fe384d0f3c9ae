"""The report: one HTML file that needs nothing else.

It holds the words, the data of the figures, the style, the scripts and the libraries that draw (Vega, Vega-Lite and Vega-Embed,
once). Whoever opens it needs no network. Its policy lets nothing run but these scripts, by their hashes: expressions of charts are
interpreted rather than compiled, so that nothing is evaluated.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from endive import __version__
from endive.cache_directory import cache_root
from endive.formatting import bind_units
from endive.output_files import write_text
from endive.report.charts import page_spec, rows_of
from endive.report.encodings import DIGITS, column_titles, is_number, panels_of, percent_columns, readable
from endive.report.figure import Figure
from endive.report.paper import patterns, vegalite_version
from endive.report.phrases import name_operation
from endive.report.scales import shares_y
from endive.report.style import BOX, CROSS, DASHES, LINE, PAGE, colours_of, legend_of, names_of, series_column

_GLYPHS = {
    "circle": "\u25cf",
    "square": "\u25a0",
    "triangle-up": "\u25b2",
    "diamond": "\u25c6",
    "triangle-down": "\u25bc",
    "cross": "\u271a",
    "triangle-right": "\u25b6",
    "triangle-left": "\u25c0",
    CROSS: "\u2716",
    BOX: "\u25a0",
    LINE: "\u2501",
    DASHES: "\u2505",
}
"""Signs of the legend as letters, which are printed where backgrounds are not."""
_LONG_HEADLINE = 120
"""Headlines of more letters are set smaller."""
_TITLES = {
    "operation_type": "operation",
    "workload_class": "class",
    "series": "configuration",
    "panel": "shown",
    "member": "shown",
    "n_seeds": "seeds",
}


@dataclass(frozen=True)
class Repetition:
    """What to type to get the numbers again, and the file to have for it; none where the commands name files that lie elsewhere."""

    commands: str = ""
    file: str = ""
    text: str = ""


@dataclass(frozen=True)
class Page:
    """All that a report says. ``answer`` opens it; the colours are those of the study's configurations by their label."""

    title: str
    about: str
    answer: Sequence[str]
    warnings: Sequence[str]
    figures: Sequence[Figure]
    """Those that tell most first."""
    colours: Mapping[str, str]
    configuration: str
    """What all configurations have in common, as TOML."""
    varied: Mapping[str, str] = field(default_factory=dict)
    """What they differ in: values by key."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    repeat: Repetition = Repetition()
    runs: Sequence[Mapping[str, str]] = ()
    made: str = ""
    dimensions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What configurations differ in, such as the store: by its name the value of each configuration. Readers filter by them."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Words for columns that figures have no words for."""
    first: int = 4
    """So many figures are seen at once; the others are behind a line that opens."""


def html_of(page: Page) -> str:
    """Return the page as a file's text."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["bind_units"] = bind_units
    template = environment.from_string(_asset("page.html"))
    data = json.dumps([drawn(figure, page) for figure in page.figures], separators=(",", ":"), allow_nan=False)
    scripts = {"libraries": libraries(), "script": f"\n{_asset('page.js')}"}
    return template.render(
        **vars(page),
        version=__version__,
        digits=DIGITS,
        long=_LONG_HEADLINE,
        css=_trusted(_asset("page.css")),
        patterns=_trusted(patterns()),
        data=_trusted(data.replace("<", "\\u003c")),
        policy=" ".join(f"'sha256-{_digest(text)}'" for text in scripts.values()),
        **{name: _trusted(text) for name, text in scripts.items()},
    )


def drawn(figure: Figure, page: Page) -> dict[str, Any]:
    """Return a figure as the script of the page takes it: its charts, its rows, and what a reader may choose."""
    colours = colours_of(figure, page.colours, PAGE.ink)
    titles = {**_TITLES, **page.titles}
    panels = panels_of(figure, PAGE, colours, titles)
    specs = [page_spec(panel) for panel in (panels[:1] if shares_y(figure) else panels)]  # panels with the same axes are the same
    places = [{"value": panel.name, "spec": min(place, len(specs) - 1)} for place, panel in enumerate(panels)]
    return {
        "name": figure.name,
        "specs": specs,
        "panels": places,
        "facet": figure.facet,
        "rows": rows_of(figure.data),
        "series": series_column(figure),
        "legend": {
            "title": figure.series_title if series_column(figure) == figure.series else "",
            "entries": [
                {"name": entry.name, "colour": entry.colour, "glyph": _GLYPHS[entry.sign], "series": entry.series}
                for entry in legend_of(figure, colours)
            ],
        },
        "filters": list(_filters(figure, page.dimensions, titles)),
        "columns": [
            _described(figure, str(name), titles) for name in figure.data.columns if name not in (figure.hatch, figure.text)
        ],
    }


def _filters(figure: Figure, dimensions: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Return what a reader may choose among: for configurations, each of the dimensions they differ in."""
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
    """Return the values of a column as the script compares them, and the words for them."""
    values = names_of(figure, column)
    if "all" in values:
        values = ["all", *(value for value in values if value != "all")]
    return {"values": values, "words": {value: name_operation(value) if column == "operation_type" else value for value in values}}


def _described(figure: Figure, name: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return a column of the table behind a figure."""
    title = column_titles(figure, titles)[name]
    return {"name": name, "title": title, "number": is_number(figure, name), "percent": name in percent_columns(figure)}


@cache
def libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed, of the version that Altair writes for; in a scope of their own.

    To put them together takes a second or two, so they are kept in the cache, one text for each version.
    """
    version = f"{vegalite_version()}-{metadata.version('vl-convert-python')}"
    try:
        kept = cache_root() / "libraries" / f"vega-lite-{version}.js"
        if not kept.is_file():
            write_text(kept, _bundle())
        return kept.read_text(encoding="utf-8")
    except OSError:  # a cache that cannot be used
        return _bundle()


def _bundle() -> str:
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vegalite_version())
    return f"(() => {{{bundle}\n}})();"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("endive.report") / "assets" / name).read_text(encoding="utf-8")


def _trusted(text: str) -> Markup:
    """Text of our own that is no HTML to escape. It must not close the element that it stands in."""
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("text that would close its element")
    return Markup(text)
