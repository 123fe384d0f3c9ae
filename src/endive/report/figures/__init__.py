"""Build the figures of a study, by name. Reports omit figures without data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from endive.analysis.run_metrics import ALL
from endive.report import ReportError
from endive.report.figure import Figure
from endive.report.figures import bar_charts, breakdowns, line_charts
from endive.report.figures.common import LATENCY, OVERHEAD, RETRIES, SUCCESS, THROUGHPUT, NotInStudyError
from endive.report.study_data import Study

Builder = Callable[[Study], Figure]
_by_class = partial(breakdowns.build_by_group, what="workload class")
_by_operation = partial(breakdowns.build_by_group, what="operation")
FIGURES: dict[str, Builder] = {
    "question": line_charts.build_question,
    "frontier": breakdowns.build_frontier,
    "throughput_load": line_charts.build_throughput_load,
    "success_load": partial(line_charts.build_over_load, measure=SUCCESS, name="success_load"),
    "latency_throughput": line_charts.build_latency_throughput,
    "success_latency": breakdowns.build_success_latency,
    "success_by_class": partial(_by_class, measure=SUCCESS, name="success_by_class"),
    "commit_parts": bar_charts.build_commit_parts,
    "latency_by_class": partial(_by_class, measure=LATENCY, name="latency_by_class"),
    "latency_distribution": line_charts.build_latency_distribution,
    "commit_rate_time": partial(line_charts.build_over_time, measure=line_charts.COMMIT_RATE, name="commit_rate_time"),
    "committing_time": partial(line_charts.build_over_time, measure=line_charts.COMMITTING, name="committing_time"),
    "success_time": partial(line_charts.build_over_time, measure=SUCCESS, name="success_time"),
    "latency_time": partial(line_charts.build_over_time, measure=line_charts.TIME_TO_COMMIT, name="latency_time"),
    "retries_time": partial(line_charts.build_over_time, measure=RETRIES, name="retries_time"),
    "metadata_time": line_charts.build_metadata_over_time,
    "manifests_time": partial(line_charts.build_over_time, measure=line_charts.MANIFESTS, name="manifests_time"),
    "sustainable_throughput": bar_charts.build_sustainable_throughput,
    "cost": bar_charts.build_cost,
    "time_parts": bar_charts.build_time_parts,
    "retries": partial(line_charts.build_over_load, measure=RETRIES, name="retries"),
    "overhead": partial(line_charts.build_over_load, measure=OVERHEAD, name="overhead"),
    "catalogs_throughput": partial(bar_charts.build_catalog_designs, measure=THROUGHPUT, name="catalogs_throughput"),
    "catalogs_latency": partial(bar_charts.build_catalog_designs, measure=LATENCY, name="catalogs_latency"),
    "success_by_operation": partial(_by_operation, measure=SUCCESS, name="success_by_operation"),
    "latency_by_operation": partial(_by_operation, measure=LATENCY, name="latency_by_operation"),
    "heatmap_throughput": partial(breakdowns.build_heatmap, measure=THROUGHPUT, name="heatmap_throughput"),
    "heatmap_latency": partial(breakdowns.build_heatmap, measure=LATENCY, name="heatmap_latency"),
}
"""Builders of figures by name, the most informative first. A report begins with the first four figures that have data.

A builder raises NotInStudyError if there is no data for its figure."""
_THROUGH_TIME = ("success_time", "latency_time", "committing_time", "commit_rate_time", "retries_time", "metadata_time")
_FEW_CURVES = 4
"""Maximum number of configurations that curves show; a heatmap is drawn only for more configurations."""


def build_figures(study: Study) -> list[Figure]:
    """Build all figures that the study has data for."""
    return [figure for _, figure, _ in try_figures(study) if figure is not None]


def build_report_figures(study: Study) -> list[Figure]:
    """Build the figures of a report, the most informative first, without those that repeat another one.

    The figure of the study's question comes first; if the load follows a schedule, figures over time come next.
    """
    found = build_figures(study)
    repeated = set(_list_repeated(study, {figure.name for figure in found}))
    kept = [figure for figure in found if figure.name not in repeated]
    names = {figure.name for figure in kept}
    about = _list_question_figures(study, names)
    cells = ("heatmap_throughput",) if len(study.visible_series) < len(study.series) else ()  # curves omit configurations
    first = (*about[:1], *cells, *(_THROUGH_TIME if line_charts.find_schedule(study) else ()))
    last = ("success_by_class",) if "frontier" in names else ()  # the frontier contains all of its curves except one

    def place(figure: Figure) -> tuple[int, int]:
        if figure.name in first:
            return 0, first.index(figure.name)
        return (2, 0) if figure.name in last else (1, 0)

    return sorted(kept, key=place)


def _list_question_figures(study: Study, names: set[str]) -> tuple[str, ...]:
    """Return the names of the figures of the study's question, the most informative first."""
    if study.question is None:
        return ()
    workload_class, metric = study.question.workload_class, study.question.metric
    if study.question.operation != ALL:
        return tuple({"question"} & names)
    asks_total = workload_class == ALL or study.classes == (workload_class,)
    others = {"throughput_per_s": "throughput_load", "success_rate": "success_load"} if asks_total else {}
    if metric == "success_rate" and workload_class in study.classes and len(study.classes) == 2:
        others = {metric: "frontier"}
    return tuple(name for name in (others.get(metric), "question") if name in names)


def _list_repeated(study: Study, names: set[str]) -> Iterable[str]:
    """Yield the names of figures whose curves are also in another figure of the report."""
    yield from _list_question_figures(study, names)[1:]
    table = study.experiments
    split = table[(table["workload_class"] != ALL) & (table["operation_type"] != ALL)]
    pairs = set(zip(split["workload_class"], split["operation_type"], strict=True))
    if "success_by_class" in names and len(pairs) == len(study.classes) == len(study.operations):
        yield from ("success_by_operation", "latency_by_operation")
    if {"frontier", "success_by_class"} <= names:
        yield "success_load"
    if len(study.series) <= _FEW_CURVES:
        yield from ("heatmap_throughput", "heatmap_latency")
    if "throughput_load" in names:
        yield "catalogs_throughput"
    if len(study.manifest.experiments) > 1 and not line_charts.find_schedule(study):  # curves over the load show it
        yield from ("success_time", "latency_time", "retries_time", "manifests_time")


def try_figures(study: Study) -> Iterable[tuple[str, Figure | None, str]]:
    """Yield every figure by name: the figure, or the reason why it is missing."""
    for name, build in FIGURES.items():
        try:
            yield name, build(study), ""
        except NotInStudyError as error:
            yield name, None, str(error)


def build_figure(study: Study, name: str) -> Figure:
    """Build one figure.

    Raises:
        ReportError: If no figure has this name, or the study has no data for it.
    """
    if name not in FIGURES:
        raise ReportError(f"unknown figure {name!r}; figures are {', '.join(FIGURES)}")
    try:
        return FIGURES[name](study)
    except NotInStudyError as error:
        raise ReportError(f"{study.path}: {name} cannot be drawn: {error}") from None
