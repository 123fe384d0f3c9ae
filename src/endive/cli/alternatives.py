"""The n-way form of ``endive compare``: sides with the names that their user gave, each against the baseline."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from endive.cli.app import EXIT_CONDITION, refuse
from endive.cli.compare import document_of, make_sides
from endive.cli.output import Output, finite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endive.analysis.conditions import Condition
    from endive.config import Document
    from endive.report.comparison import Alternatives, Judgement, Ranking, Side, Standing
    from endive.studies.measure import MetricsOptions


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    sources: Sequence[str]
    question: str | None
    metrics: Sequence[str]
    conditions: Sequence[Condition]
    seeds: tuple[int, ...] | None
    overrides: dict[str, Any]
    quick: bool


@dataclass(frozen=True)
class _Named:
    """What is compared, before it is run: sources, the names they go by, and configurations where they are such."""

    sources: tuple[str, ...]
    names: tuple[str, ...]
    documents: tuple[Document | None, ...]
    question: str | None = None
    seeds: tuple[int, ...] | None = None


def compare_alternatives(output: Output, asked: Asked, options: MetricsOptions, out: Path) -> None:
    """Compare three or more, or the scenarios of a study, with the first. Exits with 3 if a condition holds for any of them."""
    from endive.analysis.conditions import parse_question
    from endive.report.comparison import choose_subjects, compare_sides, judge

    named = _of_study(asked) if len(asked.sources) == 1 else _of_sources(asked)
    seeds = asked.seeds if asked.seeds is not None else named.seeds
    sides = make_sides(output, named.sources, named.names, named.documents, seeds, options, out)
    sides = [replace(side, name=name) for side, name in zip(sides, named.names, strict=True)]
    question, text = None, asked.question or named.question
    if text is not None:
        classes = {name for side in sides for name, _ in side.groups}
        question = parse_question(text, classes, "--question" if asked.question else "sweep.question")
    found = compare_sides(sides, choose_subjects(sides, question, asked.metrics))
    baseline, *others = sides
    judgements = {
        side.name: [judge(each, baseline, side, found.pairings[side.name]) for each in asked.conditions] for side in others
    }
    _tell(output, found, sides, judgements, text)


def _of_sources(asked: Asked) -> _Named:
    """Configurations, experiments and runs, by the names that they are given with, or have."""
    given = [_split(source) for source in asked.sources]
    documents = tuple(document_of(source, asked.overrides) for _, source in given)
    names = [name or _own_name(source, document) for (name, source), document in zip(given, documents, strict=True)]
    clear = [name if names.count(name) == 1 else source for name, (_, source) in zip(names, given, strict=True)]
    return _Named(tuple(source for _, source in given), _once(clear), documents)


def _split(source: str) -> tuple[str | None, str]:
    """A name and what it is for, of ``NAME=SOURCE``."""
    name, equals, rest = source.partition("=")
    return (name, rest) if equals and name and rest and not Path(source).exists() else (None, source)


def _own_name(source: str, document: Document | None) -> str:
    from endive.runs.parameters import scenario_of

    if document is not None:
        return document.experiment.scenario or Path(source).stem
    root, _, name = source.partition("#")
    return scenario_of(Path(root) / name if name else Path(root)) or name or Path(root).name


def _once(names: Sequence[str]) -> tuple[str, ...]:
    """Names that are told apart, by a number where they are given twice."""
    numbers = {name: count(1) for name in names}
    return tuple(name if names.count(name) == 1 else f"{name} ({next(numbers[name])})" for name in names)


def _of_study(asked: Asked) -> _Named:
    """The scenarios of a study: of its file, or of the directory of its experiments."""
    (source,) = asked.sources
    path = Path(source)
    if not path.is_dir():
        return _of_file(path, asked)
    if asked.overrides or asked.quick:
        refuse("--set", f"{source} is no configuration: its runs are what they are")
    return _of_directory(path)


def _of_file(path: Path, asked: Asked) -> _Named:
    from endive.config.load import read_toml
    from endive.config.sweep import SCENARIO, Sweep
    from endive.runs.plan import plan_sweep

    if "sweep" not in read_toml(path):
        refuse(str(path), "is one configuration; name a second one, or a study with [scenario.NAME]")
    sweep = Sweep(path, quick=asked.quick, overrides=asked.overrides)
    if not sweep.scenarios:
        refuse(str(path), "is missing: [scenario.NAME] describes an alternative", "scenario")
    points = plan_sweep(sweep).points
    axes = [key for point in points for key in point.values if key != SCENARIO]
    names = [str(point.values[SCENARIO]) for point in points]
    if len(set(names)) < len(names):
        fixed = " ".join(f"--set {key}=..." for key in dict.fromkeys(axes))
        message = f"are varied too: {fixed} compares scenarios at one point, `endive sweep` and `endive report` at all of them"
        refuse(str(path), message, "axes")
    documents = tuple(point.document for point in points)
    return _Named((str(path),) * len(points), tuple(names), documents, sweep.question, sweep.seeds)


def _of_directory(root: Path) -> _Named:
    """The experiments of a study, the baseline first."""
    from endive.runs.layout import label_of
    from endive.runs.parameters import scenario_of
    from endive.runs.stored import find_experiments
    from endive.runs.study_records import read_studies

    stored = [each for each in find_experiments(root) if each.of_this_version]
    labels = {label_of(each.directory) for each in stored}
    record = next((each for each in read_studies(root) if {each.label} == labels), None)
    names = {scenario_of(each.directory): each for each in stored}
    if record is None or not record.scenarios or None in names or len(names) < len(stored):
        refuse(str(root), "holds no study of scenarios alone; name two experiments or more, as ROOT#NAME, or make a report")
    ordered = [(name, names[name]) for name in record.scenarios if name in names]
    sources = tuple(f"{root}#{each.name}" for _, each in ordered)
    return _Named(sources, tuple(name for name, _ in ordered), (None,) * len(ordered), record.question)


def _tell(
    output: Output, found: Alternatives, sides: Sequence[Side], judgements: Mapping[str, Sequence[Judgement]], question: str | None
) -> None:
    from endive.report.phrases import describe_short_run, describe_window, explain_ranges
    from endive.report.verdicts import (
        describe_judgement,
        describe_standing,
        explain_aborts,
        format_value,
        name_subject,
        summarize_comparison,
    )

    answer, window = [*summarize_comparison(found), *explain_aborts(sides)], describe_window(sides[0].window)
    conditions = [
        {
            "alternative": name,
            "condition": each.condition.text,
            "holds": each.holds,
            "clear": each.clear,
            "verdict": describe_judgement(each, name),
        }
        for name, judged in judgements.items()
        for each in judged
    ]
    output.result(
        {
            "baseline": found.baseline,
            "alternatives": [
                {"name": side.name, "source": side.source, "seeds": list(side.seeds), "code_version": side.code_version}
                for side in sides
            ],
            "question": question,
            "answer": answer,
            "window": window,
            "warnings": list(found.warnings),
            "comparisons": found.corrected,
            "rankings": [_ranking_data(each) for each in found.rankings],
            "conditions": conditions,
        }
    )
    output.note(*found.warnings, describe_short_run(sides[0].window))
    output.text(*answer, window)
    for ranking in found.rankings:
        title, metric = name_subject(ranking.subject), ranking.subject.metric
        rows = [(each.name, format_value(metric, each.estimate), describe_standing(each)) for each in ranking.standings]
        output.table(f"\n{title[:1].upper()}{title[1:]}", ("", "", "verdict"), rows)
    several = f"the intervals of all {found.corrected} comparisons hold together"
    together = "the interval holds" if found.corrected == 1 else several
    output.text(f"\nAgainst {found.baseline}; with 95% confidence {together}.")
    output.text(
        explain_ranges(
            format_value(ranking.subject.metric, each.estimate) for ranking in found.rankings for each in ranking.standings
        )
    )
    output.text(*(f"{each['alternative']}: {each['verdict']}" for each in conditions))
    if any(each["holds"] for each in conditions):
        raise typer.Exit(EXIT_CONDITION)


def _ranking_data(ranking: Ranking) -> dict[str, Any]:
    subject, best = ranking.subject, ranking.best
    return {
        "metric": subject.metric,
        "workload_class": subject.workload_class,
        "operation_type": subject.operation,
        "order": [_standing_data(subject.metric, each) for each in ranking.standings],
        "missing": list(ranking.missing),
        "best": None if best is None else {"name": best.name, "clear": best.clear, "rivals": list(best.rivals)},
    }


def _standing_data(metric: str, each: Standing) -> dict[str, Any]:
    from endive.report.verdicts import describe_standing, format_value

    compared = each.comparison
    told: dict[str, Any] = {"name": each.name, "shown": format_value(metric, each.estimate), "verdict": describe_standing(each)}
    if compared is None:
        return told
    return {
        **told,
        "value": finite(compared.b.mean),
        "kind": compared.b.kind,
        "told": compared.is_significant,
        "better": compared.better,
        "difference": None if compared.difference is None else asdict(compared.difference),
    }
