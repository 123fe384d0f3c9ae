"""The answer of ``endive tune`` in words."""

from __future__ import annotations

from typing import Any

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.halving import Advantage, Measured, Tuned
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL
from endive.studies.tuning import ICEBERG, TODAY, TuningQuestion


def outcome_in_words(question: TuningQuestion, found: Measured) -> str:
    """Return the mean over seeds in the metric's own sign and unit."""
    metric, mean = question.objective.metric, found.mean
    if mean is None:
        return f"never reached in {found.never} of {len(found.costs)} seeds" if found.never else "no number in every seed"
    return format_metric(metric, -mean if more_is_better(metric) else mean)


def subject_in_words(question: TuningQuestion) -> str:
    """Return the metric, and of what."""
    group = [name for name in (question.objective.workload_class, question.objective.operation) if name != ALL]
    return f"{question.objective.metric}({', '.join(group)})" if group else question.objective.metric


def settings_in_words(question: TuningQuestion, candidate: int) -> str:
    """Return the keys of a candidate with their values, those that several classes share once."""
    by_name: dict[str, dict[str, Any]] = {}
    for key, value in question.candidates[candidate].settings.items():
        section = next((section for section in question.tuned if key.startswith(f"{section}.")), "")
        name = key.removeprefix(f"{section}.")
        parts = {f"{name}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {name: value}
        for inner, each in parts.items():
            by_name.setdefault(inner, {})[section] = each
    said = []
    for name, values in by_name.items():
        short, first = name.removeprefix("retry_backoff."), next(iter(values.values()))
        if name == "retry_backoff.enabled":
            continue
        if "" in values or (len(values) == len(question.tuned) and all(each == first for each in values.values())):
            said.append(f"{short} = {_value(first)}")
        else:
            said += [f"{section}.{name} = {_value(each)}" for section, each in values.items()]
    return ", ".join(said) or "as the file has it"


def _value(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.6g}"


def in_words(question: TuningQuestion, found: Tuned) -> list[str]:
    """Return the answer in sentences."""
    subject, condition = subject_in_words(question), question.condition
    if found.best is None:
        text = "" if condition is None else condition.text
        return [f"No setting that was left keeps {text}: nothing can be recommended. Try other ranges (--vary)."]
    told = []
    name = question.candidates[found.best].name
    if found.best == TODAY or (found.best == ICEBERG and question.same_references):
        told.append(f"No clear winner: nothing that was tried makes {subject} better than today's setting.")
    elif found.alone_keeps(TODAY) and condition is not None:
        told.append(f"Today's setting breaks {condition.text}.")
        told.append(f"Best for {subject} of those that keep it: {name}: {settings_in_words(question, found.best)}.")
    elif found.clear_over(TODAY):
        told.append(f"Best for {subject}: {name}: {settings_in_words(question, found.best)}.")
    else:
        told.append(f"No clear winner for {subject}: {name} came out first, but may be no better than today's setting.")
    labels = {TODAY: "today's setting", ICEBERG: question.candidates[ICEBERG].name}
    if question.same_references:
        told.append("Today's setting is Iceberg's defaults.")
        labels = {} if found.best in labels else {TODAY: labels[TODAY]}
    for other, label in labels.items():
        if other in found.advantages:
            told.append(f"Over {label}: {advantage_in_words(question, found.advantages[other], found.finals[other])}.")
    never, seeds = found.finals[found.best].never, len(found.finals[found.best].costs)
    if never:
        told.append(f"With it, {subject} is never reached in {never} of {seeds} seeds: too many give up.")
    equals = [
        question.candidates[other].name
        for other, advantage in found.advantages.items()
        if other not in (TODAY, ICEBERG) and not advantage.clear
    ]
    if equals and found.clear_over(TODAY):
        told.append(f"It cannot be told from {' and '.join(equals)}.")
    if condition is not None:
        allowed = found.finals[found.best].allowed
        holds = "holds" if allowed == "holds" else "may hold or not: more seeds (--seeds) or longer runs would tell"
        told.append(f"With it, {condition.text} {holds}.")
    return told


def advantage_in_words(question: TuningQuestion, advantage: Advantage, other: Measured) -> str:
    """By how much the best is better than another, with its interval."""

    def size(value: float, unit: str = "") -> str:
        return f"{100.0 * value:.3g}{unit}" if kind_of(metric) == "share" else format_metric(metric, value)

    metric, found = question.objective.metric, advantage.difference
    if found is None:
        never = other.never
        verdict = "better" if advantage.clear else "no clear difference"
        reach = f"; the other never gets there in {never} of them" if never else ""
        return f"{verdict}: better in {advantage.wins} of {advantage.seeds} seeds, worse in {advantage.losses}{reach}"
    more, points = "more" if more_is_better(metric) else "less", " percentage points"
    share = "" if found.b <= 0.0 else f", {100.0 * found.difference / found.b:.3g}% of it"
    if found.half_width is None:
        return f"{size(found.difference, points)} {more} in each of {found.n_a} seeds{share}"
    low, high = (size(found.difference + sign * found.half_width) for sign in (-1.0, 1.0))
    doubt = "" if found.is_significant else "; the interval contains 0"
    return f"{size(found.difference, points)} {more} (95% interval: {low} to {high}){share}{doubt}"
