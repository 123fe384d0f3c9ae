"""Analyze a study from end to end: ``python -m endive.saturation_analysis DIRECTORY``.

The module measures the runs of a directory that ``endive sweep`` wrote, and draws the figures, as ``endive metrics`` and ``endive
plot`` do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from endive.analysis.saturation import LoadPoint, Saturation, saturation
from endive.main import app

__all__ = ["LoadPoint", "Saturation", "analyse", "saturation"]


def analyse(directory: str | Path) -> None:
    """Measure the runs in a directory, and draw the figures into its subdirectory ``figures/``."""
    command = typer.main.get_command(app)
    for name in ("metrics", "plot"):
        command.main([name, str(directory)], prog_name="endive", standalone_mode=False)


if __name__ == "__main__":
    analyse(*sys.argv[1:])
