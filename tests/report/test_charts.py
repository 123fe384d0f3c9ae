"""Figures as Vega-Lite charts: every kind compiles, draws the numbers of its figure, and shows intervals and units."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest
import vl_convert

from endive.report.charts import ROWS, chart_of, rows_of
from endive.report.encodings import DIGITS
from endive.report.figure import Figure
from endive.report.figures import figures_of
from endive.report.page import Page, colours_of, drawn
from endive.report.study import Study
from tests.report.made_up import kinds, page_with

KINDS = [pytest.param(figure, id=figure.name) for figure in kinds()]


def decoded(column: Any) -> list[Any]:
    """A column as the page's script reads it."""
    if isinstance(column, list):
        return column
    return [None if code < 0 else column["values"][code] for code in column["codes"]]


def frame(rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: decoded(column) for name, column in rows.items()})


def spec_of(figure: Figure, page: Page | None = None) -> dict[str, Any]:
    return chart_of(figure, colours_of(figure, {} if page is None else page.colours), {})


def with_data(figure: Figure) -> dict[str, Any]:
    """The specification with its rows in it, as the page makes it."""
    spec = spec_of(figure)
    rows = frame(rows_of(figure)).astype(object)
    values = rows.where(rows.notna(), None).to_dict("records")
    return {**spec, "datasets": {**spec.get("datasets", {}), ROWS: values}, "width": 400}


def svg_of(figure: Figure) -> str:
    return str(vl_convert.vegalite_to_svg(with_data(figure)))


def marks(spec: dict[str, Any]) -> list[str]:
    return [layer["mark"]["type"] for layer in spec.get("layer", [spec]) if "mark" in layer]


def assert_equal_to_the_figure(rows: dict[str, Any], figure: Figure) -> None:
    """Every number, to the digits that a page has; every word."""
    assert list(rows) == [str(name) for name in figure.data.columns]
    for name in figure.data.columns:
        for sent, own in zip(decoded(rows[str(name)]), figure.data[name].tolist(), strict=True):
            if pd.isna(own):
                assert sent is None
            elif isinstance(own, bool):
                assert sent == ("yes" if own else "no")
            elif isinstance(own, int | float):
                assert math.isclose(sent, own, rel_tol=0.5 * 10.0 ** (1 - DIGITS)), name
            else:
                assert sent == str(own)


@pytest.mark.parametrize("figure", KINDS)
def test_a_chart_of_each_kind_is_drawn(figure: Figure) -> None:
    svg = svg_of(figure)
    assert svg.count("<path") > len(figure.data) / 2
    for axis in (figure.x, figure.y):
        assert axis.title in svg


@pytest.mark.parametrize("figure", KINDS)
def test_the_rows_are_those_of_the_figure(figure: Figure) -> None:
    assert_equal_to_the_figure(rows_of(figure), figure)


@pytest.mark.parametrize("figure", KINDS)
def test_a_chart_holds_no_numbers_of_its_own(figure: Figure) -> None:
    """They would be a second place that may say something else; only the lines that mean something are in it."""
    spec = spec_of(figure)
    own = [row["value"] for rows in spec.get("datasets", {}).values() for row in rows]
    assert sorted(own) == sorted(threshold.value for threshold in figure.thresholds)


@pytest.mark.parametrize("figure", KINDS)
def test_charts_follow_the_page(figure: Figure) -> None:
    spec = spec_of(figure)
    assert spec["width"] == "container"
    assert spec["background"] == "transparent"
    assert spec["config"]["axis"]["labelColor"] == "currentColor"
    assert spec["description"] == f"{figure.title}. {figure.definition}"


def test_intervals_are_drawn_along_both_axes() -> None:
    lines = next(figure for figure in kinds() if figure.name == "lines")
    assert marks(spec_of(lines)).count("rule") == 1 + 2  # the threshold, and intervals of x and of y
    band = next(figure for figure in kinds() if figure.name == "band")
    assert "area" in marks(spec_of(band))
    bars = next(figure for figure in kinds() if figure.name == "bars")
    assert {"bar", "rule", "text"} <= set(marks(spec_of(bars)))


def test_points_of_a_curve_follow_each_other_as_the_figure_says() -> None:
    lines = next(figure for figure in kinds() if figure.name == "lines")
    line = next(layer for layer in spec_of(lines)["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["order"]["field"] == "load"


def test_parts_are_stacked_in_their_order_with_their_intervals() -> None:
    stacked = next(figure for figure in kinds() if figure.kind == "stacked")
    vega = vl_convert.vegalite_to_vega(with_data(stacked))
    assert "stack" in json.dumps(vega["data"])
    assert marks(spec_of(stacked)) == ["bar", "rule"]


def test_cells_are_hatched() -> None:
    heat = next(figure for figure in kinds() if figure.kind == "heatmap")
    svg = svg_of(heat)
    assert svg.count("url(#hatch-below-95)") == (heat.data["hatch"] == "/").sum() > 0
    assert svg.count("url(#hatch-below-80)") == (heat.data["hatch"] == "x").sum() > 0


def test_names_of_columns_may_hold_dots_and_brackets() -> None:
    data = pd.DataFrame({"a.b[0]": [1.0, 2.0], "y": [1.0, 2.0]})
    lines = next(figure for figure in kinds() if figure.name == "lines")
    figure = Figure(
        "odd", "Odd", "Names.", "line", data, x=lines.x.__class__("a.b[0]", "x (s)"), y=lines.y.__class__("y", "y (ms)")
    )
    assert svg_of(figure).count("<path") > 2


def test_black_is_the_colour_of_the_text_so_that_it_is_seen_in_the_dark() -> None:
    lines = next(figure for figure in kinds() if figure.name == "lines")
    assert colours_of(lines, {"S3": "#000000", "S3 Express": "#0072B2"}) == {"S3": "currentColor", "S3 Express": "#0072B2"}


def test_every_figure_of_a_study_has_its_numbers_in_the_page(mixed: Study, designs: Study, single: Study) -> None:
    for study in (mixed, designs, single):
        for figure in figures_of(study):
            sent = drawn(figure, page_with([figure], colours=study.colours))
            assert_equal_to_the_figure(sent["rows"], figure)
            svg_of(figure)


def test_a_configuration_has_one_colour_in_all_charts(mixed: Study) -> None:
    page = page_with(figures_of(mixed), colours=mixed.colours)
    seen: dict[str, set[str]] = {}
    for figure in page.figures:
        series = drawn(figure, page)["series"]
        if series is not None and series["column"] == "series":
            for name, colour in series["names"]:
                seen.setdefault(name, set()).add(colour)
    assert seen == {label: {colour} for label, colour in mixed.colours.items()}
