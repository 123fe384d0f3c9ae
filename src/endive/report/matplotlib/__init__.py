"""Figures for papers, by matplotlib.

What flows in: a ``Figure``. What flows out: PNG, SVG and PDF files, the same bytes for the same figure. Nothing is shown on a
screen: the Agg canvas is used, and pyplot, which keeps figures for itself, is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from endive.files import whole_file
from endive.report.figure import Figure
from endive.report.matplotlib.layout import draw
from endive.report.matplotlib.rc import RC

FORMATS = ("png", "svg", "pdf")
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "endive"},
    "pdf": {"CreationDate": None, "Producer": "endive", "Creator": "endive"},
}
"""Without dates, and without the version of matplotlib."""


def render(figure: Figure) -> Canvas:
    """The figure as matplotlib has it."""
    with mpl.rc_context(RC):
        canvas = Canvas(layout="constrained")
        FigureCanvasAgg(canvas)
        draw(figure, canvas)
        return canvas


def save(figure: Figure, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure in these formats, each whole or not at all; returns the files."""
    written = []
    with mpl.rc_context(RC):
        canvas = render(figure)
        for kind in formats:
            path = folder / f"{figure.name}.{kind}"
            with whole_file(path) as temporary:
                canvas.savefig(temporary, format=kind, metadata=_METADATA[kind])
            written.append(path)
    return written
