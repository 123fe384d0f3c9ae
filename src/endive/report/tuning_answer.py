"""Answer ``endive tune``: search for settings, and write the record of the search."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from endive.analysis.estimates import estimate_metric
from endive.analysis.halving import Advantage, Measured, Moves, Plan, Tuned, tune
from endive.formatting import finite
from endive.output_files import check_writable, write_text
from endive.report.advice import describe_outcome, describe_tuning, list_settings, name_objective
from endive.report.frontier_answer import Note, origin_of
from endive.report.phrases import describe_compilation, describe_short_run, describe_window
from endive.report.snippets import list_snippets
from endive.runs.execute import prepare_run
from endive.runs.layout import REPLICATIONS_FOLDER, TUNING
from endive.studies.measure import MetricsOptions, check_window
from endive.studies.replicate import WINDOW_SEEDS, Replications
from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator, TuningQuestion


@dataclass(frozen=True)
class TuningAnswer:
    """A search that is done: its question, the record of it, and the file of the record."""

    question: TuningQuestion
    record: dict[str, Any]
    file: Path


def answer_tuning(question: TuningQuestion, plan: Plan, options: MetricsOptions, folder: Path, note: Note) -> TuningAnswer:
    """Search for the settings that optimize a metric, and write the record to a folder."""
    started = time.perf_counter()
    check_writable(folder)
    for candidate in question.candidates:
        check_window(candidate.document, options)
    most = count_most_runs(question, plan)
    compilation = describe_compilation(prepare_run(question.candidates[TODAY].document, seed=0, among_many=True).simulation.choice)
    if compilation is not None:
        note(compilation)
    note(f"{len(question.candidates)} settings, at most {most} runs; finished runs are reused")
    replications = Replications(folder / REPLICATIONS_FOLDER, options)
    evaluate = CostEvaluator(question, replications)

    def evaluated(candidate: int, seeds: Sequence[int]) -> Measured:
        found = evaluate(candidate, seeds)
        name = question.candidates[candidate].name
        note(f"  {name}: {describe_outcome(question, found)}, {len(seeds)} seeds; {replications.runs} of {most} runs")
        return found

    def announced(number: int, size: int) -> None:
        special = {0: "final comparison, with new seeds", -1: "settings next to the best"}
        note(f"{special.get(number, f'round {number} of {len(plan.rounds)}')}: {size} settings")

    moves = Moves(question.neighbours, question.simpler)
    found = tune(evaluated, len(question.candidates), [TODAY, ICEBERG], plan, announced, moves)
    window = [line for line in (describe_window(evaluate.window), describe_short_run(evaluate.window)) if line is not None]
    record = {
        **_record(question, found, plan, evaluate),
        "window": window,
        "most_runs": most,
        "runs": replications.runs,
        "warmup_ms": options.warmup_ms,
        "cooldown_ms": options.cooldown_ms,
        "seconds": round(time.perf_counter() - started, 3),
    }
    file = folder / TUNING
    write_text(file, json.dumps(record, indent=2) + "\n")
    return TuningAnswer(question, record, file)


def count_most_runs(question: TuningQuestion, plan: Plan) -> int:
    """Return the largest number of runs that a search takes."""
    references = len({TODAY, ICEBERG})
    return plan.most_runs(len(question.candidates), references) + references * max(0, WINDOW_SEEDS - plan.rounds[0])


def _record(question: TuningQuestion, found: Tuned, plan: Plan, evaluate: CostEvaluator) -> dict[str, Any]:
    """Return the record of the search, by which the answer can be reproduced."""
    best = found.best
    is_recommended = best is not None and (found.clear_over(TODAY) or found.alone_keeps(TODAY))
    return {
        "answer": describe_tuning(question, found),
        "for": name_objective(question),
        "subject_to": [each.text for each in question.conditions],
        "best": None if best is None else question.candidates[best].name,
        "settings": None if best is None else dict(question.candidates[best].settings),
        "paste": [asdict(each) for each in list_snippets(question, best)] if best is not None and is_recommended else [],
        "clear": found.clear_over(TODAY),
        "today_is_iceberg": question.same_references,
        "over_today": _advantage(found.advantages.get(TODAY)),
        "over_iceberg": _advantage(found.advantages.get(ICEBERG)),
        "last_comparison": [_final(question, found, candidate, plan, evaluate) for candidate in found.finals],
        "candidates": [_tried(question, found, candidate) for candidate in sorted(found.chosen_by)],
        "plan": asdict(plan),
        **origin_of(question),
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
    runs = evaluate.runs(candidate, plan.fresh)
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
