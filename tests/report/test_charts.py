"""Figures as Vega-Lite charts: every kind compiles, draws the numbers of its figure, and shows intervals and units."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd
import pytest
import vl_convert

from endive.report.charts import encode_rows, make_page_spec
from endive.report.encodings import DIGITS, ROWS, split_panels
from endive.report.figure import Axis, Figure, Reference, Threshold
from endive.report.figures import build_figures
from endive.report.page import encode_figure
from endive.report.study_data import Study
from endive.report.style import PAGE, PALETTE, choose_colours, make_legend
from tests.report.synthetic import kinds, page_with

KINDS = [pytest.param(figure, id=figure.name) for figure in kinds()]


def decoded(column: Any) -> list[Any]:
    """A column as the page's script reads it."""
    if isinstance(column, list):
        return column
    return [None if code < 0 else column["values"][code] for code in column["codes"]]


def frame(rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: decoded(column) for name, column in rows.items()})


def spec_of(figure: Figure) -> dict[str, Any]:
    """The specification of the first panel."""
    return make_page_spec(split_panels(figure, PAGE, choose_colours(figure, {}, PAGE.ink), {})[0])


def with_data(figure: Figure) -> dict[str, Any]:
    """The specification with its rows in it, as the page makes it."""
    spec = spec_of(figure)
    rows = frame(encode_rows(figure.data)).astype(object)
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
def test_a_specification_is_one_of_vega_lite(figure: Figure) -> None:
    """Altair checks it as a whole; while it is put together, checks of its pieces are off."""
    alt.Chart.from_dict({name: value for name, value in with_data(figure).items() if name != "datasets"}, validate=True)


@pytest.mark.parametrize("figure", KINDS)
def test_a_chart_of_each_kind_is_drawn(figure: Figure) -> None:
    svg = svg_of(figure)
    assert svg.count("<path") > len(figure.data) / 2
    for axis in (figure.x, figure.y):
        assert axis.title in svg


@pytest.mark.parametrize("figure", KINDS)
def test_the_rows_are_those_of_the_figure(figure: Figure) -> None:
    assert_equal_to_the_figure(encode_rows(figure.data), figure)


@pytest.mark.parametrize("figure", KINDS)
def test_a_chart_holds_no_numbers_of_its_own(figure: Figure) -> None:
    """They would be a second place that may say something else; only the lines that mean something are in it."""
    spec = spec_of(figure)
    own = [row["value"] for rows in spec.get("datasets", {}).values() for row in rows if "value" in row]
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


def test_points_of_a_curve_are_connected_in_the_order_of_the_figure() -> None:
    lines = next(figure for figure in kinds() if figure.name == "lines")
    line = next(layer for layer in spec_of(lines)["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["order"]["field"] == "load"


def test_parts_are_stacked_in_their_order_with_their_intervals() -> None:
    stacked = next(figure for figure in kinds() if figure.kind == "stacked")
    vega = vl_convert.vegalite_to_vega(with_data(stacked))
    assert "stack" in json.dumps(vega["data"])
    assert marks(spec_of(stacked)) == ["bar", "rule"]
    labelled = replace(stacked, text="series")
    assert marks(spec_of(labelled)) == ["bar", "rule", "text", "text"]  # an outline behind the text


def test_evenly_spaced_labels_stay_even_when_they_overlap() -> None:
    stacked = next(figure for figure in kinds() if figure.kind == "stacked")
    bars = next(layer for layer in spec_of(stacked)["layer"] if layer["mark"]["type"] == "bar")
    assert bars["encoding"]["x"]["axis"]["labelOverlap"] == "parity"


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


def test_black_becomes_the_text_colour_for_dark_mode() -> None:
    lines = next(figure for figure in kinds() if figure.name == "lines")
    given = {"S3": "#000000", "S3 Express": "#0072B2"}
    assert choose_colours(lines, given, PAGE.ink) == {"S3": "currentColor", "S3 Express": "#0072B2"}


def line(values: list[float], **more: Any) -> Figure:
    data = pd.DataFrame({"series": "S3", "x": range(1, len(values) + 1), "y": values})
    return Figure("made", "Made", "Made.", "line", data, Axis("x", "load (1/s)"), Axis("y", "time (ms)"), series="series", **more)


def test_a_reference_curve_is_behind_the_points_and_in_the_legend() -> None:
    theory = Reference("M/M/1", pd.DataFrame({"x": [1.0, 3.0], "y": [5.0, 9.0]}))
    figure = line([1.0, 2.0, 3.0], references=(theory,))
    kinds_of_marks = marks(spec_of(figure))
    assert kinds_of_marks.index("line") < kinds_of_marks.index("point")
    assert kinds_of_marks.count("line") == 2
    assert [(entry.name, entry.series) for entry in make_legend(figure, {"S3": PALETTE[0]})] == [("S3", True), ("M/M/1", False)]
    assert svg_of(figure).count("stroke-dasharray") == 1


def test_a_line_that_was_measured_has_its_interval() -> None:
    with_interval = line([1.0, 2.0, 3.0], thresholds=(Threshold(2.0, "2", "x", 1.5, 2.5),))
    assert "rect" in marks(spec_of(with_interval))
    assert "rect" not in marks(spec_of(line([1.0, 2.0, 3.0], thresholds=(Threshold(2.0, "2", "x"),))))


def test_a_bar_of_zero_has_a_tick_and_a_label() -> None:
    data = pd.DataFrame({"member": ["ingest", "upkeep"], "y": [1.0, 0.0]})
    figure = Figure("b", "B", "B.", "bars", data, Axis("member", "class", "category"), Axis("y", "success (%)", percent=True))
    svg = svg_of(figure)
    assert ">0%<" in svg
    assert ">100%<" in svg
    assert svg.count('aria-roledescription="tick"') == 2


def test_bars_on_a_logarithmic_axis_are_points() -> None:
    bars = next(figure for figure in kinds() if figure.kind == "bars")
    assert "bar" not in marks(spec_of(replace(bars, y=replace(bars.y, scale="log"))))


def test_cells_have_their_numbers() -> None:
    heat = next(figure for figure in kinds() if figure.kind == "heatmap")
    svg = svg_of(heat)
    for value in heat.data["value"]:
        assert f">{100 * value}%<" in svg


def test_long_names_are_broken_into_lines_and_whole() -> None:
    bars = next(figure for figure in kinds() if figure.kind == "bars")
    name = "S3 Express, lists rewritten, table metadata not inlined"
    svg = svg_of(replace(bars, data=bars.data.assign(series=["S3", name])))
    assert "tspan" in svg
    assert all(word in svg for word in name.split())
    assert "\u2026" not in svg


def test_every_figure_of_a_study_has_its_numbers_in_the_page(mixed: Study, designs: Study, single: Study) -> None:
    for study in (mixed, designs, single):
        for figure in build_figures(study):
            sent = encode_figure(figure, page_with([figure], colours=study.colours))
            assert_equal_to_the_figure(sent["rows"], figure)
    for figure in build_figures(single):
        svg_of(figure)


def test_a_configuration_has_one_colour_and_one_sign_in_all_charts(mixed: Study) -> None:
    page = page_with(build_figures(mixed), colours=mixed.colours)
    seen: dict[str, set[str]] = {}
    signs: dict[str, set[str]] = {}
    for figure in page.figures:
        sent = encode_figure(figure, page)
        if sent["series"] == "series":
            for entry in sent["legend"]["entries"]:
                if entry["series"]:
                    seen.setdefault(entry["name"], set()).add(entry["colour"])
                    if figure.kind == "line" and not figure.band:
                        signs.setdefault(entry["name"], set()).add(entry["glyph"])
    assert seen == {label: {colour} for label, colour in mixed.colours.items()}
    assert all(len(found) == 1 for found in signs.values())
    assert len(set.union(*signs.values())) == len(signs)
