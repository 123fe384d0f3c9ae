"""State the answer of ``endive tune`` in sentences."""

from __future__ import annotations

from typing import Any

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.halving import Advantage, Measured, Tuned
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL
from endive.formatting import join_names
from endive.studies.tuning import ICEBERG, TODAY, TuningQuestion


def describe_outcome(question: TuningQuestion, outcome: Measured) -> str:
    """Return the mean of the metric over seeds, in its own sign and unit."""
    metric, mean = question.objective.metric, outcome.mean
    if mean is None:
        return f"aborted in {outcome.never} of {len(outcome.costs)} seeds" if outcome.never else "not measured in every seed"
    return format_metric(metric, -mean if more_is_better(metric) else mean)


def name_objective(question: TuningQuestion) -> str:
    """Return the metric to improve, with the class and operation that it is of: ``success_rate(ingest)``."""
    group = [name for name in (question.objective.workload_class, question.objective.operation) if name != ALL]
    return f"{question.objective.metric}({', '.join(group)})" if group else question.objective.metric


def list_settings(question: TuningQuestion, candidate: int) -> str:
    """Return the keys of a candidate with their values. A value that all tuned classes share is listed once."""
    by_name: dict[str, dict[str, Any]] = {}
    for key, value in question.candidates[candidate].settings.items():
        section = next((section for section in question.tuned if key.startswith(f"{section}.")), "")
        name = key.removeprefix(f"{section}.")
        parts = {f"{name}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {name: value}
        for inner, each in parts.items():
            by_name.setdefault(inner, {})[section] = each
    settings = []
    for name, values in by_name.items():
        short, first = name.removeprefix("retry_backoff."), next(iter(values.values()))
        if name == "retry_backoff.enabled":
            continue
        if "" in values or (len(values) == len(question.tuned) and all(each == first for each in values.values())):
            settings.append(f"{short} = {_format_setting(first)}")
        else:
            settings += [f"{section}.{name} = {_format_setting(each)}" for section, each in values.items()]
    return ", ".join(settings) or "as in the file"


def _format_setting(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.6g}"


def describe_tuning(question: TuningQuestion, outcome: Tuned) -> list[str]:
    """Return the answer: the recommended settings, their advantage over the references, and what limits it."""
    objective, condition = name_objective(question), question.condition
    if outcome.best is None:
        text = "" if condition is None else condition.text
        return [f"No recommendation: none of the finalists meets {text}. Try other ranges (--vary)."]
    sentences = _recommend(question, outcome, outcome.best)
    labels = {TODAY: "the current settings", ICEBERG: question.candidates[ICEBERG].name}
    if question.same_references:
        sentences.append("The current settings are Iceberg's defaults.")
        labels = {} if outcome.best in labels else {TODAY: labels[TODAY]}
    for other, label in labels.items():
        if other in outcome.advantages:
            advantage = describe_advantage(question, outcome.advantages[other], outcome.finals[other])
            sentences.append(f"Compared with {label}: {advantage}.")
    final = outcome.finals[outcome.best]
    if final.never:
        sentences.append(f"{objective} has no value in {final.never} of {len(final.costs)} seeds: too many transactions abort.")
    equals = [
        question.candidates[other].name
        for other, advantage in outcome.advantages.items()
        if other not in (TODAY, ICEBERG) and not advantage.clear
    ]
    if equals and outcome.clear_over(TODAY):
        sentences.append(f"No significant difference from {join_names(equals)}.")
    if condition is not None:
        verdict = "is met" if final.allowed == "holds" else "may not be met; use more seeds (--seeds) or longer runs"
        sentences.append(f"{condition.text} {verdict}.")
    return sentences


def _recommend(question: TuningQuestion, outcome: Tuned, best: int) -> list[str]:
    """Return the first sentences of the answer: the best candidate, or that there is no clear winner."""
    objective, condition = name_objective(question), question.condition
    name = question.candidates[best].name
    if best == TODAY or (best == ICEBERG and question.same_references):
        return [f"No clear winner: no candidate improves {objective} over the current settings."]
    recommendation = f"{name}: {list_settings(question, best)}."
    if outcome.alone_keeps(TODAY) and condition is not None:
        return [
            f"The current settings do not meet {condition.text}.",
            f"Best {objective} among those that do: {recommendation}",
        ]
    if outcome.clear_over(TODAY):
        return [f"Best {objective}: {recommendation}"]
    return [f"No clear winner for {objective}: {name} leads, but not significantly over the current settings (95%)."]


def describe_advantage(question: TuningQuestion, advantage: Advantage, other: Measured) -> str:
    """Return how much better the best candidate is than another, with the 95% interval."""

    def size(value: float, unit: str = "") -> str:
        return f"{100.0 * value:.3g}{unit}" if kind_of(metric) == "share" else format_metric(metric, value)

    metric, difference = question.objective.metric, advantage.difference
    if difference is None:
        verdict = "better" if advantage.clear else "no significant difference"
        aborted = f"; there it has no value in {other.never} seeds" if other.never else ""
        return f"{verdict}: better in {advantage.wins} of {advantage.seeds} seeds, worse in {advantage.losses}{aborted}"
    more, points = "more" if more_is_better(metric) else "less", " pp"
    share = "" if difference.b <= 0.0 else f", or {100.0 * difference.difference / difference.b:.3g}%"
    if difference.half_width is None:
        return f"{size(difference.difference, points)} {more} in each of {difference.n_a} seeds{share}"
    low, high = (size(difference.difference + sign * difference.half_width) for sign in (-1.0, 1.0))
    doubt = "" if difference.is_significant else "; the interval includes 0"
    return f"{size(difference.difference, points)} {more} (95% interval {low} to {high}){share}{doubt}"
