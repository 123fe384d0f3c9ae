"""Drawing by matplotlib: everything is to be seen, the same colours everywhere, the same bytes every time."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure as Canvas

from endive.report.figure import Figure
from endive.report.figures import figure_of, figures_of
from endive.report.matplotlib import FORMATS, render, save
from endive.report.study import Study
from endive.report.style import PALETTE
from endive.report.timeline import timeline

OKABE_ITO = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
DEUTERANOPIA = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]])
"""Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009, severity 1."""


def panels(canvas: Canvas) -> list[Axes]:
    return [axes for axes in canvas.axes if axes.get_visible() and axes.get_label() != "<colorbar>"]


@pytest.fixture(params=["mixed", "designs", "single"])
def study(request: pytest.FixtureRequest) -> Study:
    found: Study = request.getfixturevalue(request.param)
    return found


def test_the_palette_is_that_of_okabe_and_ito() -> None:
    assert set(PALETTE) <= OKABE_ITO
    assert len(set(PALETTE)) == len(PALETTE)


def linear(colour: str) -> npt.NDArray[np.float64]:
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def test_colours_are_told_apart_without_green_cones() -> None:
    seen = {colour: np.clip(DEUTERANOPIA @ linear(colour), 0.0, 1.0) ** (1 / 2.2) for colour in PALETTE}
    for one, other in combinations(PALETTE, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 0.12, (one, other)


def test_axes_are_titled_and_nothing_is_cut_off_or_covered(study: Study) -> None:
    for figure in figures_of(study):
        canvas = render(figure)
        canvas.draw_without_rendering()
        shown = {axes.get_xlabel() for axes in panels(canvas)} | {axes.get_ylabel() for axes in panels(canvas)}
        assert {figure.x.title, figure.y.title} <= shown, figure.name
        assert canvas.get_suptitle().replace("\n", " ") == figure.title
        box = canvas.get_tightbbox()
        width, height = canvas.get_size_inches()
        assert box.x0 >= -0.02, figure.name
        assert box.x1 <= width + 0.02, figure.name
        assert box.y0 >= -0.02, figure.name
        assert box.y1 <= height + 0.02, figure.name
        for legend in canvas.legends:
            assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in panels(canvas)), figure.name


def curves(figure: Figure) -> dict[str, npt.NDArray[np.float64]]:
    """What was drawn in a panel, by colour."""
    (axes,) = panels(render(figure))
    containers = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    return {to_hex(each.lines[0].get_color()).upper(): np.asarray(each.lines[0].get_xydata()) for each in containers}


def test_what_is_drawn_is_the_data(mixed: Study) -> None:
    figure = figure_of(mixed, "retries")
    drawn = curves(figure)
    assert set(drawn) == set(mixed.colours.values())
    for label, colour in mixed.colours.items():
        rows = figure.data[figure.data["series"] == label].sort_values("x")
        assert np.array_equal(drawn[colour], rows[["x", "y"]].to_numpy())


def test_intervals_are_drawn(mixed: Study) -> None:
    (axes,) = panels(render(figure_of(mixed, "retries")))
    for container in axes.containers:
        assert isinstance(container, ErrorbarContainer)
        assert container.has_yerr
        (bars,) = container.lines[2]
        assert any(np.ptp(segment[:, 1]) > 0.0 for segment in bars.get_segments())
    for name in ("latency_distribution", "commit_rate_time"):
        for axes in panels(render(figure_of(mixed, name))):
            assert len(axes.collections) == len(mixed.drawn)


def test_a_configuration_has_its_colour_in_every_picture(mixed: Study) -> None:
    expected = {colour.lower() for colour in mixed.colours.values()}
    for name in ("success_load", "overhead", "latency_throughput", "latency_distribution", "commit_rate_time", "frontier"):
        for axes in panels(render(figure_of(mixed, name))):
            drawn = {to_hex(line.get_color()) for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata())) > 2}
            assert drawn == expected, name


def test_cells_are_hatched(mixed: Study) -> None:
    figure = figure_of(mixed, "heatmap_throughput")
    (axes,) = panels(render(figure))
    hatched = [patch.get_hatch() for patch in axes.patches]
    assert len(hatched) == (figure.data["hatch"] != "").sum() > 0


def test_stacks_are_as_high_as_the_latency(mixed: Study) -> None:
    figure = figure_of(mixed, "time_parts")
    canvas = render(figure)
    highest = max(patch.get_y() + patch.get_height() for axes in panels(canvas) for patch in axes.patches)  # type: ignore[attr-defined]
    assert highest == pytest.approx(mixed.totals()["total_latency_mean_ms"].max(), rel=1e-9)


def test_swim_lanes_have_a_lane_for_each_transaction(single: Study) -> None:
    figure = timeline(single, at_ms=10_000.0, span_ms=2_000.0)
    (axes,) = panels(render(figure))
    assert [label.get_text() for label in axes.get_yticklabels()] == list(dict.fromkeys(figure.data["lane"]))
    assert any(text.get_text().startswith("by #") for text in axes.texts)


def test_files_are_the_same_every_time(mixed: Study, tmp_path: Path) -> None:
    for name in ("latency_throughput", "heatmap_latency"):
        first, second = (save(figure_of(mixed, name), tmp_path / folder) for folder in ("a", "b"))
        assert [path.suffix[1:] for path in first] == list(FORMATS)
        for one, other in zip(first, second, strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name


def test_files_have_their_fonts_and_no_dates(mixed: Study, tmp_path: Path) -> None:
    png, svg, pdf = save(figure_of(mixed, "success_load"), tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert b"/FontFile2" in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()
    assert "<dc:date>" not in svg.read_text()
    assert not list(tmp_path.glob(".*.tmp"))
