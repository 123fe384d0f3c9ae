"""Run the search of ``endive tune``, state the result in sentences, and write the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.estimates import estimate_metric
from endive.analysis.halving import Advantage, Measured, Moves, Plan, Tuned, tune
from endive.analysis.metric import more_is_better
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.formatting import finite, format_count, join_names
from endive.report.phrases import describe_short_run, describe_window
from endive.report.search_answer import Note, SearchAnswer, SearchDirectory
from endive.report.verdicts import precision_as_data
from endive.runs.layout import TUNING
from endive.studies.measure import MetricsOptions, check_window
from endive.studies.replicate import WINDOW_SEEDS
from endive.studies.settings import CLASS_SETTINGS, ICEBERG_RETRY_SETTINGS, Scope, Setting, Snippet, current_value
from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator, TuningQuestion, flatten_iceberg_retry

TuningAnswer = SearchAnswer[TuningQuestion, Tuned]
"""Settings that optimize a metric."""


def answer_tuning(question: TuningQuestion, plan: Plan, options: MetricsOptions, folder: Path, note: Note) -> TuningAnswer:
    """Search for the settings that optimize a metric, and write the record to a folder."""
    for candidate in question.candidates:
        check_window(candidate.document, options)
    most = count_most_runs(question, plan)
    search = SearchDirectory(folder, options, question.candidates[TODAY].document, note)
    note(f"{len(question.candidates)} candidates, at most {most} runs; finished runs are reused")
    evaluate = CostEvaluator(question, search.replications)

    def evaluated(candidate: int, seeds: Sequence[int]) -> Measured:
        found = evaluate(candidate, seeds)
        name = question.candidates[candidate].name
        of_seeds = "" if found.mean is None else f" ({len(seeds)} seeds)"
        note(f"  {name}: {describe_outcome(question, found)}{of_seeds}; {search.replications.runs} of {most} runs")
        return found

    def announced(number: int, size: int) -> None:
        rounds = f"round {number} of {len(plan.rounds)}: {size} candidates"
        special = {
            0: f"final comparison with new seeds: {size} candidates",
            -1: f"refining: {size} settings adjacent to the best candidate",
            -2: "simplifying: candidates with fewer changed settings",
        }
        note(special.get(number, rounds))

    moves = Moves(question.neighbours, question.simpler)
    found = tune(evaluated, len(question.candidates), [TODAY, ICEBERG], plan, announced, moves)
    window = [line for line in (describe_window(evaluate.window), describe_short_run(evaluate.window)) if line is not None]
    content = {
        **_record(question, found, plan, evaluate),
        "window": window,
        **({} if plan.precision is None or found.reached is None else precision_as_data(plan.precision, [found.reached])),
        "most_runs": most,
    }
    return TuningAnswer(question, found, search.write_record(TUNING, question, content), (folder / TUNING,))


def count_most_runs(question: TuningQuestion, plan: Plan) -> int:
    """Return the maximum number of runs of a search."""
    references = len({TODAY, ICEBERG})
    return plan.most_runs(len(question.candidates), references) + references * max(0, WINDOW_SEEDS - plan.rounds[0])


def describe_outcome(question: TuningQuestion, outcome: Measured) -> str:
    """Return the mean of the objective across seeds with its unit: ``640 ms``."""
    metric, mean = question.objective.metric, outcome.mean
    if mean is None and outcome.never:
        return f"infinite in {outcome.never} of {len(outcome.costs)} seeds, because transactions abort"
    if mean is None:
        bounds = sum(not math.isfinite(cost.middle) for cost in outcome.costs)
        return f"only a bound in {bounds} of {len(outcome.costs)} seeds"
    return format_metric(metric, -mean if more_is_better(metric) else mean)


def list_settings(question: TuningQuestion, candidate: int) -> str:
    """Return the changed settings of a candidate. Retry settings that apply to all tuned classes are listed once."""
    tuned, shared = question.space.tuned, {each.name for each in question.space.retries}
    point = flatten_iceberg_retry() if candidate == ICEBERG else question.candidates[candidate].point
    settings = []
    for name, value in point.items():
        own = [section for section in tuned if f"{section}.{name}" in point]
        if name in shared and own:
            settings += [f"{section}.{name} = {_format_setting(value)}" for section in tuned if section not in own]
        else:
            settings.append(f"{name.removeprefix('retry_backoff.')} = {_format_setting(value)}")
    return ", ".join(settings) or "unchanged"


def _format_setting(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000.0 else f"{value:.6g}"


def describe_tuning(question: TuningQuestion, outcome: Tuned) -> list[str]:
    """Return the recommended settings, their advantage over the references and the runner-up, and the limits of the search."""
    objective = str(question.objective)
    if outcome.best is None:
        return [_describe_failure(question, outcome)]
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
        sentences.append(f"{objective} is infinite in {final.never} of {len(final.costs)} seeds, because transactions abort.")
    sentences += [*_describe_runner_up(question, outcome), *_describe_ends(question, outcome.best)]
    for condition, verdict in zip(question.conditions, final.verdicts, strict=True):
        met = "is met" if verdict == "holds" else "may not be met; raise --seeds or simulation.duration_ms"
        sentences.append(f"{condition.text} {met}.")
    return sentences


def _describe_failure(question: TuningQuestion, outcome: Tuned) -> str:
    """Return a sentence about the conditions that no candidate meets on average, with a remedy."""
    texts = join_names([each.text for each in question.conditions])
    closest = min(outcome.finals, key=lambda each: outcome.finals[each].order)
    if outcome.finals[closest].condition_rank == 2:
        return f"No candidate meets {texts}. Search other ranges with --vary."
    name = f"{question.candidates[closest].name} ({list_settings(question, closest)})"
    return (
        f"No candidate meets {texts} on average. The interval of {name} includes the threshold: "
        "raise --seeds or simulation.duration_ms, or search other ranges with --vary."
    )


def _describe_runner_up(question: TuningQuestion, outcome: Tuned) -> list[str]:
    """Return a sentence about the second best candidate of the final comparison; an empty list if there is none."""
    others = [each for each in outcome.finals if each not in (outcome.best, TODAY, ICEBERG)]
    if not others:
        return []
    second = min(others, key=lambda each: outcome.finals[each].order)
    found, advantage = outcome.finals[second], outcome.advantages[second]
    verdicts = list(zip(question.conditions, found.verdicts, strict=True))
    broken, unclear = ([each.text for each, verdict in verdicts if verdict == wanted] for wanted in ("fails", "open"))
    if broken:
        reason = f"It does not meet {join_names(broken)}."
    elif unclear and outcome.best is not None and found.condition_rank > outcome.finals[outcome.best].condition_rank:
        reason = f"It may not meet {join_names(unclear)}. Raise --seeds or simulation.duration_ms."
    elif advantage.clear:
        reason = f"The best candidate is {describe_advantage(question, advantage, found)}."
    else:
        reason = "It is not significantly different from the best candidate, which ranked higher in earlier rounds."
        if outcome.best is not None and len(question.candidates[second].point) > len(question.candidates[outcome.best].point):
            reason = "It is not significantly different from the best candidate, but changes more settings."
    return [f"Runner-up: {question.candidates[second].name} ({list_settings(question, second)}). {reason}"]


def _describe_ends(question: TuningQuestion, best: int) -> list[str]:
    """Return sentences about settings of the best candidate that are at a bound of their range."""
    sentences = []
    for each in question.space.others:
        value = question.candidates[best].point.get(each.name)
        numbers = [choice for choice in each.choices if isinstance(choice, int | float)]
        if value is not None and len(numbers) > 1 and value in (min(numbers), max(numbers)):
            end = "smallest" if value == min(numbers) else "largest"
            sentences.append(
                f"{each.name} = {_format_setting(value)} is the {end} value of the search. Search other values with --vary."
            )
    return sentences


def _recommend(question: TuningQuestion, outcome: Tuned, best: int) -> list[str]:
    """Return the first sentences of the result: the best candidate, or "no clear winner"."""
    objective = str(question.objective)
    name = question.candidates[best].name
    if best == TODAY or (best == ICEBERG and question.same_references):
        able = f" that meets {join_names([each.text for each in question.conditions])}" if question.conditions else ""
        return [f"No clear winner: no candidate{able} improves {objective} significantly over the current settings."]
    recommendation = f"{name}: {list_settings(question, best)}."
    if outcome.alone_keeps(TODAY):
        verdicts = zip(question.conditions, outcome.finals[TODAY].verdicts, strict=True)
        broken = join_names([each.text for each, verdict in verdicts if verdict == "fails"])
        return [f"The current settings do not meet {broken}.", f"Best {objective} among candidates that do: {recommendation}"]
    if outcome.clear_over(TODAY):
        return [f"Best {objective}: {recommendation}"]
    return [
        f"No clear winner for {objective}: {name} ranks first, but is not significantly better than the current settings (95%)."
    ]


def describe_advantage(question: TuningQuestion, advantage: Advantage, other: Measured) -> str:
    """Return the advantage of the best candidate over another candidate, with its 95% interval."""

    def size(value: float, unit: str = "") -> str:
        return f"{100.0 * value:.3g}{unit}" if kind_of(metric) == "share" else format_metric(metric, value)

    metric, difference = question.objective.metric, advantage.difference
    if difference is None:
        counts = f"better in {advantage.wins} of {advantage.seeds} seeds, worse in {advantage.losses}"
        aborted = f"; the compared value is infinite in {format_count(other.never, 'seed')}, because transactions abort"
        return (counts if advantage.clear else f"no significant difference ({counts})") + (aborted if other.never else "")
    direction, points = "higher" if more_is_better(metric) else "lower", " pp"
    share = "" if difference.b <= 0.0 else f", or {100.0 * difference.difference / difference.b:.3g}%"
    if difference.half_width is None:
        return f"{size(difference.difference, points)} {direction} in each of {difference.n_a} seeds{share}"
    low, high = (size(difference.difference + sign * difference.half_width) for sign in (-1.0, 1.0))
    doubt = "" if difference.is_significant else "; the interval includes 0"
    return f"{size(difference.difference, points)} {direction} (95% interval {low} to {high}){share}{doubt}"


def _record(question: TuningQuestion, found: Tuned, plan: Plan, evaluate: CostEvaluator) -> dict[str, Any]:
    """Return the record of a search: the answer, the final comparison, and all candidates."""
    best = found.best
    clear = found.clear_over(TODAY)
    return {
        "answer": describe_tuning(question, found),
        "for": str(question.objective),
        "subject_to": [each.text for each in question.conditions],
        "best": None if best is None else question.candidates[best].name,
        "settings": None if best is None else dict(question.candidates[best].settings),
        "paste": [asdict(each) for each in list_snippets(question, best)] if best is not None and clear else [],
        "clear": clear,
        "today_is_iceberg": question.same_references,
        "over_today": _advantage(found.advantages.get(TODAY)),
        "over_iceberg": _advantage(found.advantages.get(ICEBERG)),
        "last_comparison": [_final(question, found, candidate, plan, evaluate) for candidate in found.finals],
        "candidates": [_tried(question, found, candidate) for candidate in sorted(found.chosen_by)],
        "plan": asdict(plan),
    }


def _advantage(found: Advantage | None) -> dict[str, Any] | None:
    if found is None:
        return None
    size, width = (None, None) if found.difference is None else (found.difference.difference, found.difference.half_width)
    low, high = (None, None) if size is None or width is None else (size - width, size + width)
    return {
        "clear": found.clear,
        "advantage": size,
        "low": low,
        "high": high,
        "wins": found.wins,
        "losses": found.losses,
        "seeds": found.seeds,
    }


def _final(question: TuningQuestion, found: Tuned, candidate: int, plan: Plan, evaluate: CostEvaluator) -> dict[str, Any]:

    objective, measured = question.objective, found.finals[candidate]
    runs = evaluate.runs(candidate, plan.fresh(len(measured.costs)))
    rows = [run.select(objective.workload_class, objective.operation) for run in runs]
    estimate = estimate_metric(rows, objective.metric)
    return {
        "name": question.candidates[candidate].name,
        "settings": list_settings(question, candidate),
        **{name: finite(getattr(estimate, name, None)) for name in ("mean", "low", "high")},
        "kind": None if estimate is None else estimate.kind,
        "conditions": list(measured.verdicts),
        "seeds": {str(run.seed): row.get(objective.metric) for run, row in zip(runs, rows, strict=True)},
        "over": _advantage(found.advantages.get(candidate)),
    }


def _tried(question: TuningQuestion, found: Tuned, candidate: int) -> dict[str, Any]:

    each, measured = question.candidates[candidate], found.chosen_by[candidate]
    return {
        "name": each.name,
        "settings": dict(each.settings),
        "experiment": each.identity,
        "rounds": found.last_round[candidate],
        "seeds": len(measured.costs),
        "outcome": describe_outcome(question, measured),
    }


def list_snippets(question: TuningQuestion, candidate: int) -> list[Snippet]:
    """Return statements and commands that apply the settings of a candidate: table properties, schedules, and a comparison."""
    chosen = question.candidates[candidate]
    if not chosen.settings or candidate == TODAY:
        return []
    found: list[Snippet] = []
    for writers, properties in _group_properties(question, candidate):
        found += _paste_properties(writers, properties)
    for resolved in resolve_classes(chosen.document):
        scope = Scope(chosen.document, resolved)
        for setting in CLASS_SETTINGS:
            if f"{scope.section}.{setting.key}" in chosen.settings:
                found += [Snippet(f"{each.where}, {resolved.name}", each.text) for each in setting.paste(scope)]
    return [*dict.fromkeys(found), Snippet("Check", _compare_command(question, chosen.settings))]


def _group_properties(question: TuningQuestion, candidate: int) -> list[tuple[list[ResolvedClass], dict[str, Any]]]:
    """Return the table properties of a candidate by the classes whose tables they apply to."""
    chosen, space = question.candidates[candidate], question.space
    scopes = [Scope(chosen.document, each) for each in resolve_classes(chosen.document)]
    groups = []
    shared = [each for each in scopes if each.section in space.tuned and each.resolved.path.is_iceberg]
    properties = _read_properties(ICEBERG_RETRY_SETTINGS, shared[0].resolved, chosen.point) if shared else {}
    if properties:
        groups.append(([each.resolved for each in shared], properties))
    for scope in scopes:
        prefix = f"{scope.section}."
        own = {name.removeprefix(prefix): value for name, value in chosen.point.items() if name.startswith(prefix)}
        properties = _read_properties(CLASS_SETTINGS, scope.resolved, own)
        if properties:
            groups.append(([scope.resolved], properties))
    return groups


def _read_properties(settings: Sequence[Setting], resolved: ResolvedClass, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of changed settings that are table properties, by property."""
    return {
        each.property: current_value(each.key, resolved) for each in settings if each.property is not None and each.key in changed
    }


def _paste_properties(writers: Sequence[ResolvedClass], properties: Mapping[str, Any]) -> list[Snippet]:
    """Return table properties for Spark SQL and for PyIceberg."""
    tables = sorted({table for each in writers if each.own is not None for table in each.own.tables or ()})
    where = f"tables {', '.join(map(str, tables))}" if tables else f"each table of {', '.join(each.name for each in writers)}"
    sql = ", ".join(f"'{name}' = '{value:.0f}'" for name, value in properties.items())
    python = ", ".join(f'"{name}": "{value:.0f}"' for name, value in properties.items())
    return [
        Snippet(f"Spark SQL, {where}", f"ALTER TABLE db.table SET TBLPROPERTIES ({sql});"),
        Snippet(f"PyIceberg, {where}", f"with table.transaction() as tx: tx.set_properties({{{python}}})"),
    ]


def _compare_command(question: TuningQuestion, settings: Mapping[str, Any]) -> str:
    """Return the command that compares the candidate with the file."""
    given = [f"--set {_quote(key, value)}" for key, value in question.overrides.items()]
    flat = dict(pair for key, value in settings.items() for pair in _flatten(key, value))
    changed = [f"--set-b {_quote(key, value)}" for key, value in flat.items()]
    return " ".join(["endive compare", question.source, question.source, *given, *changed])


def _flatten(key: str, value: Any) -> list[tuple[str, Any]]:
    """Return the keys of a nested table with their values."""
    return [(f"{key}.{name}", each) for name, each in value.items()] if isinstance(value, dict) else [(key, value)]


def _quote(key: str, value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else str(value)
    return f"{key}={text}"
