"""Files for papers: of the size that was asked for, with all words and marks, real text, the same bytes every time."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from endive.report import ReportError
from endive.report.encodings import title_axis
from endive.report.figure import Figure, Reference
from endive.report.figures import build_figure, build_figures
from endive.report.paper import FORMATS, Size, parse_length, render_svg, save_figure
from endive.report.study_data import Study
from endive.report.style import PALETTE, assign_ramp, wrap_text
from endive.report.timeline import build_timeline
from tests.report.synthetic import kinds

OKABE_ITO = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
DEUTERANOPIA = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]])
"""Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009, severity 1."""
KINDS = [pytest.param(figure, id=figure.name) for figure in kinds()]


def words_of(svg: str) -> str:
    """All text of a drawing, broken lines joined."""
    return " ".join(re.sub(r"<[^>]*>", " ", part) for part in re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def linear(colour: str) -> npt.NDArray[np.float64]:
    parts = np.array([int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def test_the_palette_is_that_of_okabe_and_ito() -> None:
    assert set(PALETTE) <= OKABE_ITO
    assert len(set(PALETTE)) == len(PALETTE)


def test_colours_are_reported_apart_without_green_cones() -> None:
    seen = {colour: np.clip(DEUTERANOPIA @ linear(colour), 0.0, 1.0) ** (1 / 2.2) for colour in PALETTE}
    for one, other in combinations(PALETTE, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 0.12, (one, other)


def test_ordered_colours_grow_lighter() -> None:
    lightness = [float(linear(colour) @ (0.2126, 0.7152, 0.0722)) for colour in assign_ramp([str(k) for k in range(12)]).values()]
    assert lightness == sorted(lightness)
    assert len(set(lightness)) == 12


@pytest.mark.parametrize("figure", KINDS)
@pytest.mark.parametrize("size", [Size(), Size(3.3, titled=False), Size(3.3, 3.0)], ids=["usual", "column", "fixed"])
def test_a_figure_has_the_requested_size_and_all_of_its_text(figure: Figure, size: Size) -> None:
    svg = render_svg(figure, size)
    found = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found is not None
    width, height, *box = (float(part) for part in found.groups())
    assert [width, height] == box
    assert size.width is None or width == pytest.approx(72.0 * size.width)
    assert size.height is None or height == pytest.approx(72.0 * size.height)
    text = plain(words_of(svg))
    for axis in (figure.x, figure.y):
        assert title_axis(axis) in text
    assert (figure.title in text) == size.titled
    assert "\u2026" not in text  # nothing was cut
    for name in [] if figure.series is None else figure.data[figure.series].unique():
        assert name in text


def test_a_figure_that_does_not_fit_is_an_error_with_the_minimum_size() -> None:
    with pytest.raises(ReportError, match=r"lines does not fit into 0\.3in; it needs at least \d\.\d\din by"):
        render_svg(kinds()[0], Size(0.3))


@pytest.mark.parametrize(("text", "length"), [("3.3in", 3.3), ("84 mm", 84 / 25.4), ("8.4cm", 8.4 / 2.54), ("72pt", 1.0)])
def test_lengths(text: str, length: float) -> None:
    assert parse_length(text, "--width") == pytest.approx(length)


@pytest.mark.parametrize("text", ["3.3", "wide", "0in", "-1in", "3px"])
def test_invalid_lengths_are_rejected(text: str) -> None:
    with pytest.raises(ReportError, match=f"--width {text}: expected a number with in, cm, mm or pt"):
        parse_length(text, "--width")


def test_every_curve_has_a_point_for_each_number_in_its_colour(mixed: Study) -> None:
    figure = build_figure(mixed, "retries")
    svg = render_svg(figure, Size())
    for label, colour in mixed.colours.items():
        drawn = re.findall(
            rf'aria-label="[^"]*series: {re.escape(label)}"[^>]*aria-roledescription="point"[^>]*fill="{colour}"', svg
        )
        assert len(drawn) == (figure.data["series"] == label).sum() == 3


def test_panels_have_titles_and_axes_are_titled_at_the_edges(mixed: Study) -> None:
    text = words_of(render_svg(build_figure(mixed, "success_by_class"), Size()))
    assert text.count("success (%)") == 1
    assert text.count("ingest rate (transactions/s)") == 2
    assert "ingest" in text
    assert "upkeep" in text


def test_a_curve_to_compare_with_is_in_the_legend(mixed: Study) -> None:
    figure = build_figure(mixed, "throughput_load")
    theory = Reference("M/D/1", pd.DataFrame({"x": [1.0, 5.0], "y": [1.0, 4.0]}))
    text = words_of(render_svg(replace(figure, references=(*figure.references, theory)), Size(3.3)))
    assert "M/D/1" in text
    assert "ideal: every transaction commits" in text


def test_a_timeline_names_the_invalidating_transactions(single: Study) -> None:
    figure = build_timeline(single, at_ms=10_000.0, span_ms=2_000.0)
    svg = render_svg(figure, Size())
    text = plain(words_of(svg))
    answer = [words for words in figure.data["losses"] if words]
    assert len(answer) > 3
    for words in answer:
        assert words in text
    for lane in figure.data["lane"].unique():
        assert lane in text
    moments = figure.data["part"].isin(["committed", "conflict", "aborted"]).sum()
    assert svg.count('aria-roledescription="point"') >= moments > 3


def test_svg_and_png_are_the_same_every_time_and_no_file_has_a_date(mixed: Study, tmp_path: Path) -> None:
    figure = build_figure(mixed, "heatmap_latency")
    first, second = (save_figure(figure, tmp_path / folder) for folder in ("a", "b"))
    assert [path.suffix[1:] for path in first] == list(FORMATS)
    for one, other in zip(first[:2], second[:2], strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert b"CreationDate" not in first[2].read_bytes()
    assert not list((tmp_path / "a").glob(".*"))


def test_text_is_text_and_sizes_are_those_of_the_paper(mixed: Study, tmp_path: Path) -> None:
    png, svg, pdf = save_figure(build_figure(mixed, "success_load"), tmp_path, FORMATS, Size(3.3, 2.4))
    drawing = svg.read_text()
    assert 'width="3.3in" height="2.4in"' in drawing
    assert "Liberation Sans" in drawing
    assert b"LiberationSans" in pdf.read_bytes()
    assert b"/FontFile" in pdf.read_bytes()
    assert re.search(rb"/MediaBox\s*\[\s*0 0 237\.6\d* 172\.8\d*\s*\]", pdf.read_bytes())
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert (width, height) == (round(3.3 * 200), round(2.4 * 200))


def test_every_figure_of_a_study_fits_into_a_column(designs: Study) -> None:
    """Of the study with the longest names."""
    for figure in build_figures(designs):
        text = plain(words_of(render_svg(figure, Size(3.3, titled=False))))
        for axis in (figure.x, figure.y):
            assert title_axis(axis) in text, (figure.name, axis.title)
        assert "\u2026" not in text


def test_names_are_broken_between_words() -> None:
    assert wrap_text("S3 Express, lists rewritten", 12) == ["S3 Express,", "lists", "rewritten"]
    assert wrap_text("", 12) == [""]
