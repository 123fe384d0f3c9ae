"""The answer to the question of a study: what each configuration comes to in the one metric that it is about.

A study with scenarios compares them with its baseline, by intervals that hold together; any other is told from the best to the
worst. Where a number varies, both ends of it are told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from endive.analysis.conditions import Subject, shown
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import PERCENTILES
from endive.report.alternatives import compare_sides, in_short, subject_in_words
from endive.report.comparison import Side, runs_of
from endive.report.figures.common import place_label
from endive.report.phrases import begun, listed
from endive.report.study import Study
from endive.report.windows import percentile_in_words
from endive.runs.parameters import SCENARIO_COLUMN

Row = dict[Any, Any]
_MOST = 8
"""So many configurations are told one by one; of more, the best and the worst."""


def question_answer(study: Study) -> list[str]:
    """Return the answer to the question of a study, a sentence each; nothing if it has none."""
    if study.question is None:
        return []
    places = _places(study)
    return [sentence for at, experiments in places for sentence in _told(study, study.question, at, experiments, len(places))]


def _places(study: Study) -> list[tuple[str, list[str]]]:
    """Where on the axis the answer is told, in words, and the experiments there: both ends of what all configurations have."""
    if study.axis is None or len(study.axis.values) < 2:
        return [("", list(study.manifest.experiments))]
    by_place: dict[float, list[str]] = {}
    for name, each in study.manifest.experiments.items():
        by_place.setdefault(study.axis.place(each.parameters), []).append(name)
    most = max(map(len, by_place.values()))
    common = sorted(place for place, names in by_place.items() if len(names) == most)
    ends = dict.fromkeys((common[0], common[-1]))
    return [(place_label(study, place, named=True), by_place[place]) for place in ends]


def _told(study: Study, question: Subject, at: str, experiments: Sequence[str], times: int) -> Iterator[str]:
    sides = _scenarios(study, experiments)
    where = f"At {at}: " if at else ""
    if sides:
        first, *rest = in_short(compare_sides(sides, [question], times=times))
        yield f"{where}{first[:1].lower()}{first[1:]}" if where else first
        yield from rest
    else:
        yield where + _in_order(study, question, where, experiments)


def _scenarios(study: Study, experiments: Sequence[str]) -> list[Side]:
    """The scenarios that these experiments are, the baseline first; none unless each is another one."""
    named = {str(study.manifest.experiments[name].parameters.get(SCENARIO_COLUMN)): name for name in experiments}
    ordered = [name for name in study.scenarios if name in named]
    if len(ordered) < 2 or len(named) < len(experiments) or study.scenarios[0] not in named:
        return []
    return [_side(study, name, named[name]) for name in ordered]


def _side(study: Study, name: str, experiment: str) -> Side:
    table = study.runs[study.runs["experiment"] == experiment]
    runs = runs_of(table.astype(object).where(table.notna(), None).to_dict("records"))
    return Side(experiment, name, runs, study.manifest.experiments[experiment].code_version)


def _in_order(study: Study, question: Subject, where: str, experiments: Sequence[str]) -> str:
    """Every configuration with its value, the best first; equal ones as figures have them. ``where`` is said before it."""
    table = study.experiments
    chosen = table[
        table["experiment"].isin(list(experiments))
        & (table["workload_class"] == question.workload_class)
        & (table["operation_type"] == question.operation)
    ]
    every = list(chosen.astype(object).where(pd.notna(chosen), None).to_dict("records"))
    rows = [row for row in every if _value(row, question.metric) != "-"]
    title = subject_in_words(question)
    title = title if where else begun(title)
    if not rows:
        return f"{title} could not be measured."
    sign = 1.0 if more_is_better(question.metric) is False else -1.0
    order = {each.label: place for place, each in enumerate(study.series)}
    rows.sort(key=lambda row: order.get(row["series"], -1))
    rows.sort(key=lambda row: math.inf if row[question.metric] is None else sign * row[question.metric])
    told = [_value(row, question.metric) + (f" with {row['series']}" if len(study.series) > 1 else "") for row in rows]
    if len(told) > _MOST:
        told = [*told[: _MOST // 2], f"{len(told) - _MOST} between", *told[-_MOST // 2 :]]
    missing = len(experiments) - len(rows)
    return f"{title} is {listed(told)}{f'; it could not be measured in {missing} configurations' if missing else ''}."


def _value(row: Row, metric: str) -> str:
    """A value with its interval; of a percentile that is no number, its bound, or never; a dash if there is nothing to tell."""
    value = row[metric]
    if value is None:
        return percentile_in_words(row, metric) if metric in PERCENTILES else "-"
    low, high, width = row.get(f"{metric}_low"), row.get(f"{metric}_high"), row.get(f"{metric}_hw")
    if (low is None or high is None) and width is not None:
        low, high = value - width, value + width
    told = shown(metric, value)
    return told if low is None or high is None else f"{told} ({shown(metric, max(low, 0.0))} to {shown(metric, high)})"
