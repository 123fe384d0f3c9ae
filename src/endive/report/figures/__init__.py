"""All figures of a study, by name.

What flows in: a ``Study``. What flows out: ``Figure`` values. A study that has no data for a figure does without it; who asks for
it by name learns why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from endive.report.errors import ReportError
from endive.report.figure import Figure
from endive.report.figures.curves import latency_throughput, overhead_load, retries_load, success_load
from endive.report.figures.missing import NotInStudyError
from endive.report.study import Study

Builder = Callable[[Study], Figure]
FIGURES: dict[str, Builder] = {
    "latency_throughput": latency_throughput,
    "success_load": success_load,
    "overhead": overhead_load,
    "retries": retries_load,
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
