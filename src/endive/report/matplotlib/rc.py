"""The one style of all figures: sizes for a page of a paper, fonts embedded as such, nothing that changes from day to day."""

from __future__ import annotations

from typing import Any

RC: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.5,
    "figure.titlesize": 10.5,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "endive",
    "path.simplify": False,
}
"""Type 42 is TrueType: text in a PDF stays text. SVG text is drawn as paths, so it looks the same without the font."""

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.6
"""Inches, of one panel of several."""
SINGLE_WIDTH, SINGLE_HEIGHT = 5.0, 3.3
"""Inches, of a figure of one panel."""
