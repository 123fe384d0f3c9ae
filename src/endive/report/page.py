"""Render a report as one self-contained HTML file.

The file contains the text, the data of the figures, the styles, the scripts and the chart libraries (Vega, Vega-Lite and
Vega-Embed), so that it needs no network. The content security policy allows only these scripts, by hash; expressions in charts are
interpreted, not evaluated.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from endive import __version__
from endive.cache_directory import cache_root
from endive.formatting import bind_units
from endive.output_files import write_text
from endive.report.charts import encode_rows, make_page_spec
from endive.report.encodings import DIGITS, find_percent_columns, has_numbers, name_column, split_panels, title_columns
from endive.report.figure import Figure, shares_y
from endive.report.paper import find_vegalite_version, read_patterns
from endive.report.phrases import name_operation
from endive.report.style import BOX, CROSS, DASHES, LINE, PAGE, choose_colours, find_series_column, list_names, make_legend

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
"""Legend symbols as characters, because printers may omit backgrounds."""
_LONG_HEADLINE = 120
"""Length in characters from which a headline is set in a smaller font."""
_TITLES = {
    "operation_type": "operation",
    "workload_class": "class",
    "series": "configuration",
    "panel": "series",
    "member": "series",
    "part": "component",
    "mean_ms": "mean (ms)",
    "delay_ms": "delay (ms)",
    "txn": "transaction ID",
    "text": "label",
    "n_seeds": "seeds",
}


@dataclass(frozen=True)
class Reproduction:
    """Commands that reproduce the results, and the configuration file (empty if that file refers to other files)."""

    commands: str = ""
    file: str = ""
    text: str = ""


@dataclass(frozen=True)
class Page:
    """Contents of a report. ``answer`` comes first; ``colours`` maps labels of configurations to colours."""

    title: str
    about: str
    answer: Sequence[str]
    warnings: Sequence[str]
    figures: Sequence[Figure]
    """Figures, the most informative first."""
    colours: Mapping[str, str]
    configuration: str
    """Parameters that are equal in all configurations, as TOML."""
    varied: Mapping[str, str] = field(default_factory=dict)
    """Values of the parameters that differ between configurations, by key."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    reproduction: Reproduction = Reproduction()
    runs: Sequence[Mapping[str, str]] = ()
    made: str = ""
    dimensions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Parameter values of each configuration, by parameter name; used as filters on the page."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of columns that figures do not set."""
    first: int = 4
    """Number of figures that are visible when the page opens; the others can be expanded."""


def render_page(page: Page) -> str:
    """Return the report as HTML."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["format_prose"] = _format_prose
    template = environment.from_string(_read_asset("page.html"))
    data = json.dumps([encode_figure(figure, page) for figure in page.figures], separators=(",", ":"), allow_nan=False)
    scripts = {"libraries": bundle_libraries(), "script": f"\n{_read_asset('page.js')}"}
    return template.render(
        **vars(page),
        version=__version__,
        digits=DIGITS,
        long=_LONG_HEADLINE,
        css=_mark_trusted(_read_asset("page.css")),
        patterns=_mark_trusted(read_patterns()),
        data=_mark_trusted(data.replace("<", "\\u003c")),
        policy=" ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts.values()
        ),
        **{name: _mark_trusted(text) for name, text in scripts.items()},
    )


def _format_prose(text: str) -> Markup:
    """Return a sentence as HTML, with names in backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(bind_units(text)))))


def encode_figure(figure: Figure, page: Page) -> dict[str, Any]:
    """Return a figure as JSON data for the script of the page: charts, rows, legend and filters."""
    colours = choose_colours(figure, page.colours, PAGE.ink)
    titles = {**_TITLES, **page.titles}
    panels = split_panels(figure, PAGE, colours, titles)
    specs = [
        make_page_spec(panel) for panel in (panels[:1] if shares_y(figure) else panels)
    ]  # panels that share axes share a chart
    places = [{"value": panel.name, "spec": min(place, len(specs) - 1)} for place, panel in enumerate(panels)]
    return {
        "name": figure.name,
        "specs": specs,
        "panels": places,
        "facet": figure.facet,
        "rows": encode_rows(figure.data),
        "series": find_series_column(figure),
        "legend": {
            "title": figure.series_title if find_series_column(figure) == figure.series else "",
            "entries": [
                {"name": entry.name, "colour": entry.colour, "glyph": _GLYPHS[entry.sign], "series": entry.series}
                for entry in make_legend(figure, colours)
            ],
        },
        "filters": list(_list_filters(figure, page.dimensions, titles)),
        "columns": [_describe_column(figure, name, titles) for name in _list_columns(figure, titles)],
    }


def _list_filters(
    figure: Figure, dimensions: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the filters of a figure. Configurations have a filter for each parameter that varies."""
    for column in figure.filters:
        chosen = _list_values(figure, column)
        known = {title: labels for title, labels in dimensions.items() if all(name in labels for name in chosen["values"])}
        if column != "series" or not known:
            if len(chosen["values"]) > 1:
                yield {"column": column, "title": titles.get(column) or name_column(column), "of": None, **chosen}
            continue
        for title, labels in known.items():
            values = list(dict.fromkeys(labels[name] for name in chosen["values"]))
            if len(values) > 1:
                words = {value: value for value in values}
                yield {"column": column, "title": title, "of": dict(labels), "values": values, "words": words}


def _list_values(figure: Figure, column: str) -> dict[str, Any]:
    """Return the values of a column and their names."""
    values = list_names(figure, column)
    if "all" in values:
        values = ["all", *(value for value in values if value != "all")]
    return {"values": values, "words": {value: name_operation(value) if column == "operation_type" else value for value in values}}


_IDENTITY = ("experiment", "series", "workload_class", "operation_type")
"""Columns that are in every table, also if they have the same values."""


def _list_columns(figure: Figure, titles: Mapping[str, str]) -> list[str]:
    """Return the columns of the table of a figure, without empty columns and without names that repeat an earlier column."""
    titled = title_columns(figure, titles)
    kept: list[str] = []
    for name in map(str, figure.data.columns):
        values = figure.data[name]
        repeated = titled[name] in [titled[other] for other in kept] or any(values.equals(figure.data[other]) for other in kept)
        is_redundant = not has_numbers(figure, name) and (repeated or (values.astype(str) == "").all())
        if name in _IDENTITY or not (is_redundant or name in (figure.hatch, figure.text)):
            kept.append(name)
    return kept


def _describe_column(figure: Figure, name: str, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return the name, title and format of a column in the data table of a figure."""
    title = title_columns(figure, titles)[name]
    return {"name": name, "title": title, "number": has_numbers(figure, name), "percent": name in find_percent_columns(figure)}


@cache
def bundle_libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, in the versions that Altair targets.

    Bundling takes about 2 s, so the script is cached by version.
    """
    version = f"{find_vegalite_version()}-{metadata.version('vl-convert-python')}"
    try:
        kept = cache_root() / "libraries" / f"vega-lite-{version}.js"
        if not kept.is_file():
            write_text(kept, _make_bundle())
        return kept.read_text(encoding="utf-8")
    except OSError:  # the cache is not writable
        return _make_bundle()


def _make_bundle() -> str:
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=find_vegalite_version())
    return f"(() => {{{bundle}\n}})();"


def _read_asset(name: str) -> str:
    return (files("endive.report") / "assets" / name).read_text(encoding="utf-8")


def _mark_trusted(text: str) -> Markup:
    """Mark text of an asset as safe. The text must not contain the end tag of the surrounding element."""
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("the text would close its element")
    return Markup(text)
