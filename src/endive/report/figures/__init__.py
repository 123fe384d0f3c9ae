"""All figures of a study, by name.

What flows in: a ``Study``. What flows out: ``Figure`` values. A study that has no data for a figure does without it; who asks for
it by name learns why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from endive.report.errors import ReportError
from endive.report.figure import Figure
from endive.report.figures.bars import catalogs_latency, catalogs_throughput, commit_parts, sustainable_throughput, time_parts
from endive.report.figures.breakdowns import (
    frontier,
    latency_by_class,
    latency_by_operation,
    success_by_class,
    success_by_operation,
)
from endive.report.figures.curves import latency_throughput, overhead_load, retries_load, success_load
from endive.report.figures.heatmaps import heatmap_latency, heatmap_throughput
from endive.report.figures.missing import NotInStudyError
from endive.report.figures.shapes import commit_rate_time, latency_distribution
from endive.report.study import Study

Builder = Callable[[Study], Figure]
FIGURES: dict[str, Builder] = {
    "sustainable_throughput": sustainable_throughput,
    "latency_throughput": latency_throughput,
    "success_load": success_load,
    "frontier": frontier,
    "overhead": overhead_load,
    "time_parts": time_parts,
    "commit_parts": commit_parts,
    "retries": retries_load,
    "latency_distribution": latency_distribution,
    "commit_rate_time": commit_rate_time,
    "heatmap_throughput": heatmap_throughput,
    "heatmap_latency": heatmap_latency,
    "catalogs_throughput": catalogs_throughput,
    "catalogs_latency": catalogs_latency,
    "success_by_operation": success_by_operation,
    "latency_by_operation": latency_by_operation,
    "success_by_class": success_by_class,
    "latency_by_class": latency_by_class,
}
"""Figures by name, in the order in which a report shows them. A builder raises NotInStudyError if there is no data for it."""


def figures_of(study: Study) -> list[Figure]:
    """All figures that the study has data for."""
    return [figure for _, figure, _ in catalogue(study) if figure is not None]


def catalogue(study: Study) -> Iterable[tuple[str, Figure | None, str]]:
    """Every figure by name: as a value, or why the study does not have it."""
    for name, build in FIGURES.items():
        try:
            yield name, build(study), ""
        except NotInStudyError as error:
            yield name, None, str(error)


def figure_of(study: Study, name: str) -> Figure:
    """One figure. Raises ReportError if there is no such figure, or the study has no data for it."""
    if name not in FIGURES:
        raise ReportError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    try:
        return FIGURES[name](study)
    except NotInStudyError as error:
        raise ReportError(f"{study.path}: {name} cannot be drawn: {error}") from None


__all__ = ["FIGURES", "NotInStudyError", "catalogue", "figure_of", "figures_of"]
