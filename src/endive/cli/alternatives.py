"""The n-way form of ``endive compare``: sides with the names that their user gave, each against the baseline."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from endive.cli.compare import EXIT_CONDITION, document_of, make_sides
from endive.cli.options import overrides_of
from endive.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endive.analysis.thresholds import Condition
    from endive.config import Document
    from endive.report.alternatives import Alternatives, Ranking, Standing
    from endive.report.comparison import Judgement, Side
    from endive.studies.windows import MetricsOptions


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    sources: tuple[str, ...]
    question: str | None
    metrics: tuple[str, ...]
    conditions: tuple[Condition, ...]
    seeds: int | None
    set: tuple[str, ...]
    set_b: tuple[str, ...]
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
    from endive.analysis.thresholds import parse_question
    from endive.config import ConfigError, Problem
    from endive.report.alternatives import compare_sides, subjects_of
    from endive.report.comparison import judge, pair

    if asked.set_b:
        raise ConfigError("--set-b", [Problem("", "is for two: several have files of their own, or are scenarios of a study")])
    overrides = overrides_of(asked.set)
    named = _of_study(asked, overrides) if len(asked.sources) == 1 else _of_sources(asked, overrides)
    seeds = asked.seeds if asked.seeds is not None else named.seeds
    sides = make_sides(output, named.sources, named.names, named.documents, seeds, options, out)
    sides = [replace(side, name=name) for side, name in zip(sides, named.names, strict=True)]
    question, text = None, asked.question or named.question
    if text is not None:
        classes = {name for side in sides for name, _ in side.groups}
        question = parse_question(text, classes, "--question" if asked.question else "sweep.question")
    found = compare_sides(sides, subjects_of(sides, question, asked.metrics))
    baseline, *others = sides
    judgements = {side.name: [judge(each, baseline, side, pair(baseline, side)) for each in asked.conditions] for side in others}
    _tell(output, found, sides, judgements, text)


def _of_sources(asked: Asked, overrides: Mapping[str, Any]) -> _Named:
    """Configurations, experiments and runs, by the names that they are given with, or have."""
    given = [_split(source) for source in asked.sources]
    documents = tuple(document_of(source, dict(overrides)) for _, source in given)
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
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    places: dict[str, int] = {}
    told = []
    for name in names:
        places[name] = places.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({places[name]})")
    return tuple(told)


def _of_study(asked: Asked, overrides: Mapping[str, Any]) -> _Named:
    """The scenarios of a study: of its file, or of the directory of its experiments."""
    from endive.config import ConfigError, Problem

    (source,) = asked.sources
    path = Path(source)
    if not path.is_dir():
        return _of_file(path, asked, overrides)
    if overrides or asked.quick:
        raise ConfigError("--set", [Problem("", f"{source} is no configuration: its runs are what they are")])
    return _of_directory(path)


def _of_file(path: Path, asked: Asked, overrides: Mapping[str, Any]) -> _Named:
    from endive.config import ConfigError, Problem
    from endive.config.load import read_toml
    from endive.config.scenarios import SCENARIO
    from endive.config.sweep import Sweep
    from endive.runs.plan import plan_sweep

    if "sweep" not in read_toml(path):
        raise ConfigError(str(path), [Problem("", "is one configuration; name a second one, or a study with [scenario.NAME]")])
    sweep = Sweep(path, quick=asked.quick, overrides=overrides)
    if not sweep.scenarios:
        raise ConfigError(str(path), [Problem("scenario", "is missing: [scenario.NAME] describes an alternative")])
    points = plan_sweep(sweep).points
    axes = [key for point in points for key in point.values if key != SCENARIO]
    names = [str(point.values[SCENARIO]) for point in points]
    if len(set(names)) < len(names):
        fixed = " ".join(f"--set {key}=..." for key in dict.fromkeys(axes))
        message = f"are varied too: {fixed} compares scenarios at one point, `endive sweep` and `endive report` at all of them"
        raise ConfigError(str(path), [Problem("axes", message)])
    documents = tuple(point.document for point in points)
    return _Named((str(path),) * len(points), tuple(names), documents, sweep.question, sweep.seeds)


def _of_directory(root: Path) -> _Named:
    """The experiments of a study, the baseline first."""
    from endive.config import ConfigError, Problem
    from endive.runs.layout import label_of
    from endive.runs.parameters import scenario_of
    from endive.runs.stored import find_experiments
    from endive.runs.study_records import read_studies

    stored = [each for each in find_experiments(root) if each.of_this_version]
    labels = {label_of(each.directory) for each in stored}
    record = next((each for each in read_studies(root) if {each.label} == labels), None)
    names = {scenario_of(each.directory): each for each in stored}
    if record is None or not record.scenarios or None in names or len(names) < len(stored):
        message = "holds no study of scenarios alone; name two experiments or more, as ROOT#NAME, or make a report"
        raise ConfigError(str(root), [Problem("", message)])
    ordered = [(name, names[name]) for name in record.scenarios if name in names]
    sources = tuple(f"{root}#{each.name}" for _, each in ordered)
    return _Named(sources, tuple(name for name, _ in ordered), (None,) * len(ordered), record.question)


def _tell(
    output: Output, found: Alternatives, sides: Sequence[Side], judgements: Mapping[str, Sequence[Judgement]], question: str | None
) -> None:
    from endive.report.alternatives import in_short
    from endive.report.windows import ranges_in_words, window_in_words, window_warning

    answer, window = in_short(found), window_in_words(sides[0].window)
    conditions = [
        {"alternative": name, "condition": each.condition.text, "holds": each.holds, "clear": each.clear, "verdict": each.words}
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
            "comparisons": found.comparisons,
            "rankings": [_ranking_data(each) for each in found.rankings],
            "conditions": conditions,
        }
    )
    for warning in (*found.warnings, window_warning(sides[0].window)):
        if warning is not None:
            output.note(warning)
    for sentence in (*answer, window):
        output.text(sentence)
    for ranking in found.rankings:
        output.table(f"\n{ranking.title[:1].upper()}{ranking.title[1:]}", ("", "", "verdict"), [_row(e) for e in ranking.standings])
    together = (
        "the interval holds" if found.comparisons == 1 else f"the intervals of all {found.comparisons} comparisons hold together"
    )
    output.text(f"\nAgainst {found.baseline}; with 95 % confidence {together}.")
    ranges = ranges_in_words(each.value for ranking in found.rankings for each in ranking.standings)
    if ranges is not None:
        output.text(ranges)
    for each in conditions:
        output.text(f"{each['alternative']}: {each['verdict']}")
    if any(each["holds"] for each in conditions):
        raise typer.Exit(EXIT_CONDITION)


def _row(each: Standing) -> tuple[str, ...]:
    return (each.name, each.value, each.verdict)


def _ranking_data(ranking: Ranking) -> dict[str, Any]:
    subject, best = ranking.subject, ranking.best
    return {
        "metric": subject.metric,
        "workload_class": subject.workload_class,
        "operation_type": subject.operation,
        "order": [_standing_data(each) for each in ranking.standings],
        "missing": list(ranking.missing),
        "best": None if best is None else {"name": best.name, "clear": best.clear, "rivals": list(best.rivals)},
    }


def _standing_data(each: Standing) -> dict[str, Any]:
    compared = each.comparison
    told: dict[str, Any] = {"name": each.name, "shown": each.value, "verdict": each.verdict}
    if compared is None:
        return told
    difference = None if compared.difference is None else asdict(compared.difference)
    value = compared.b.mean if isfinite(compared.b.mean) else None
    return {
        **told,
        "value": value,
        "kind": compared.b.kind,
        "told": compared.told,
        "better": compared.better,
        "difference": difference,
    }
