"""State the answer of ``endive tune`` in sentences."""

from __future__ import annotations

from typing import Any

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.halving import Advantage, Measured, Tuned
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL
from endive.formatting import join_names
from endive.studies.tuning import ICEBERG, TODAY, TuningQuestion, flatten_iceberg_retry


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
    """Return the settings of a candidate that differ from the file. Retry settings that all tuned classes share are listed once."""
    tuned, shared = question.space.tuned, {each.name for each in question.space.retries}
    point = flatten_iceberg_retry() if candidate == ICEBERG else question.candidates[candidate].point
    settings = []
    for name, value in point.items():
        own = [section for section in tuned if f"{section}.{name}" in point]
        if name in shared and own:
            settings += [f"{section}.{name} = {_format_setting(value)}" for section in tuned if section not in own]
        else:
            settings.append(f"{name.removeprefix('retry_backoff.')} = {_format_setting(value)}")
    return ", ".join(settings) or "as in the file"


def _format_setting(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.6g}"


def describe_tuning(question: TuningQuestion, outcome: Tuned) -> list[str]:
    """Return the answer: the recommended settings, their advantage over the references and the runner-up, and what limits it."""
    objective = name_objective(question)
    if outcome.best is None:
        texts = join_names([each.text for each in question.conditions])
        return [f"No recommendation: none of the finalists meets {texts}. Try other ranges (--vary)."]
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
    sentences += [*_describe_runner_up(question, outcome), *_describe_ends(question, outcome.best)]
    for condition, verdict in zip(question.conditions, final.verdicts, strict=True):
        met = "is met" if verdict == "holds" else "may not be met; use more seeds (--seeds) or longer runs"
        sentences.append(f"{condition.text} {met}.")
    return sentences


def _describe_runner_up(question: TuningQuestion, outcome: Tuned) -> list[str]:
    """Return the second best candidate of the final comparison, and why it is not the best; nothing if there is none."""
    others = [each for each in outcome.finals if each not in (outcome.best, TODAY, ICEBERG)]
    if not others:
        return []
    second = min(others, key=lambda each: outcome.finals[each].order)
    found, advantage = outcome.finals[second], outcome.advantages[second]
    broken = [each.text for each, verdict in zip(question.conditions, found.verdicts, strict=True) if verdict == "fails"]
    if broken:
        reason = f"it does not meet {join_names(broken)}"
    elif advantage.clear:
        reason = f"the best has {describe_advantage(question, advantage, found)}"
    else:
        reason = "no significant difference; the best led in the rounds before"
        if outcome.best is not None and len(question.candidates[second].point) > len(question.candidates[outcome.best].point):
            reason = "no significant difference, and it changes more settings"
    return [f"Runner-up {question.candidates[second].name} ({list_settings(question, second)}): {reason}."]


def _describe_ends(question: TuningQuestion, best: int) -> list[str]:
    """Return the settings of the best candidate that are the smallest or largest value tried."""
    sentences = []
    for each in question.space.others:
        value = question.candidates[best].point.get(each.name)
        numbers = [choice for choice in each.choices if isinstance(choice, int | float)]
        if value is not None and len(numbers) > 1 and value in (min(numbers), max(numbers)):
            end = "smallest" if value == min(numbers) else "largest"
            sentences.append(f"{each.name} = {_format_setting(value)} is the {end} value tried (--vary tries others).")
    return sentences


def _recommend(question: TuningQuestion, outcome: Tuned, best: int) -> list[str]:
    """Return the first sentences of the answer: the best candidate, or that there is no clear winner."""
    objective = name_objective(question)
    name = question.candidates[best].name
    if best == TODAY or (best == ICEBERG and question.same_references):
        return [f"No clear winner: no candidate improves {objective} over the current settings."]
    recommendation = f"{name}: {list_settings(question, best)}."
    if outcome.alone_keeps(TODAY):
        verdicts = zip(question.conditions, outcome.finals[TODAY].verdicts, strict=True)
        broken = join_names([each.text for each, verdict in verdicts if verdict == "fails"])
        return [f"The current settings do not meet {broken}.", f"Best {objective} among those that do: {recommendation}"]
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
