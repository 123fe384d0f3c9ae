"""Resolve the arguments of a comparison: configurations, stored experiments or runs, or the scenarios of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from endive.analysis.conditions import Subject, parse_question
from endive.analysis.replication_rule import Reached, Width, add_seeds, is_share
from endive.analysis.replication_rule import choose_subjects as choose_precise
from endive.analysis.run_metrics import ALL
from endive.analysis.warmup import common_window
from endive.config import ConfigError, Document, Problem
from endive.config.load import load_document, read_toml
from endive.config.study import Precision
from endive.config.sweep_file import SCENARIO, Sweep
from endive.formatting import format_count, join_names
from endive.output_files import check_writable
from endive.report.comparison import Comparison, Side, compare_sides, load_side
from endive.report.phrases import describe_drift, note_compilation
from endive.runs.identity import scenario_of
from endive.runs.layout import REPLICATIONS_FOLDER
from endive.runs.plan import plan_sweep, study_of
from endive.runs.stored import find_experiments
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications
from endive.version import code_version

_SEEDS = 10
"""Default number of seeds of configurations; stored results determine the seeds of the other configurations."""


@dataclass(frozen=True)
class Selection:
    """Configurations to compare, before they are run: sources, names, and documents (None for stored results).

    The baseline comes first.
    """

    sources: tuple[str, ...]
    names: tuple[str, ...]
    documents: tuple[Document | None, ...]
    question: str | None = None
    seeds: tuple[int, ...] | None = None


def describe_drifts(sides: Sequence[Side]) -> list[str]:
    """Return warnings about configurations without a steady state, with short runs, or with growing tables."""
    drifts: dict[str, list[str]] = {}
    for side in sides:
        text = describe_drift([run.select(ALL, ALL) for run in side.runs])
        if text is not None:
            drifts.setdefault(text, []).append(side.name)
    return [text if len(names) == len(sides) else f"{join_names(names)}: {text}" for text, names in drifts.items()]


def refuse(source: str, message: str, key: str = "") -> NoReturn:
    """Raise ConfigError about an option, a file, or a key of the file."""
    raise ConfigError(source, [Problem(key, message)]) from None


def select_sources(sources: Sequence[str], overrides: Mapping[str, Any], last_overrides: Mapping[str, Any]) -> Selection:
    """Return the configurations, experiments and runs to compare; ``last_overrides`` apply only to the last configuration."""
    given = [_split(source) for source in sources]
    changes = [overrides] * (len(given) - 1) + [{**overrides, **last_overrides}]
    return name_sources(given, [_load(source, dict(each)) for (_, source), each in zip(given, changes, strict=True)])


def name_sources(given: Sequence[tuple[str | None, str]], documents: Sequence[Document | None]) -> Selection:
    """Return the sources to compare, with the names set by the user or unique generated names."""
    names = [name or _own_name(source, document) for (name, source), document in zip(given, documents, strict=True)]
    clear = [name if names.count(name) == 1 else source for name, (_, source) in zip(names, given, strict=True)]
    return Selection(tuple(source for _, source in given), _once(clear), tuple(documents))


def select_scenarios(source: str, overrides: Mapping[str, Any], *, quick: bool) -> Selection:
    """Return the scenarios of a study, from its file or from the directory of its experiments."""
    path = Path(source)
    if not path.is_dir():
        return _of_file(path, overrides, quick)
    if overrides or quick:
        refuse("--set", f"{source} contains finished runs, not a configuration")
    return _of_directory(path)


def _split(source: str) -> tuple[str | None, str]:
    """Split ``[NAME=]SOURCE`` into name and source."""
    name, equals, rest = source.partition("=")
    return (name, rest) if equals and name and rest and not Path(source).exists() else (None, source)


def _load(source: str, overrides: dict[str, Any]) -> Document | None:
    """Return the configuration, if the source is one."""
    if source.endswith(".toml"):
        return load_document(source, overrides)
    if overrides:
        refuse("--set", f"{source} contains finished runs, not a configuration")
    return None


def _own_name(source: str, document: Document | None) -> str:

    if document is not None:
        return document.experiment.scenario or Path(source).stem
    root, _, name = source.partition("#")
    return scenario_of(Path(root) / name if name else Path(root)) or name or Path(root).name


def _once(names: Sequence[str]) -> tuple[str, ...]:
    """Return unique names: duplicates get a number."""
    numbers = {name: count(1) for name in names}
    return tuple(name if names.count(name) == 1 else f"{name} ({next(numbers[name])})" for name in names)


def _of_file(path: Path, overrides: Mapping[str, Any], quick: bool) -> Selection:

    if "sweep" not in read_toml(path):
        refuse(str(path), "compare needs at least two sources: pass a second configuration, or a study with [scenario.NAME]")
    sweep = Sweep(path, quick=quick, overrides=overrides)
    if not sweep.scenarios:
        refuse(str(path), "is missing; add a table [scenario.NAME] for each alternative", "scenario")
    points = plan_sweep(sweep).points
    axes = [key for point in points for key in point.values if key != SCENARIO]
    names = [str(point.values[SCENARIO]) for point in points]
    if len(set(names)) < len(names):
        fixed = " ".join(f"--set {key}=..." for key in dict.fromkeys(axes))
        message = (
            f"other parameters vary too; compare the scenarios at one point with {fixed}, or run `endive sweep` and `endive report`"
        )
        refuse(str(path), message, "axes")
    documents = tuple(point.document for point in points)
    return Selection((str(path),) * len(points), tuple(names), documents, sweep.question, sweep.seeds)


def _of_directory(root: Path) -> Selection:
    """Return the scenarios of a study on disk, the baseline first."""
    stored = [each for each in find_experiments(root) if each.of_this_version]
    record = study_of(root, [each.name for each in stored])
    names = {scenario_of(each.directory): each for each in stored}
    if record is None or not record.scenarios or None in names or len(names) < len(stored):
        refuse(
            str(root),
            "expected one study that varies only scenarios; pass two or more experiments as ROOT#NAME, or run `endive report`",
        )
    ordered = [(name, names[name]) for name in record.scenarios if name in names]
    sources = tuple(f"{root}#{each.name}" for _, each in ordered)
    return Selection(sources, tuple(name for name, _ in ordered), (None,) * len(ordered), record.question)


def _measure_sides(
    chosen: Selection, seeds: Sequence[int] | None, options: MetricsOptions, out: Path, note: Callable[[str], None]
) -> list[Side]:
    """Run and measure all configurations of a comparison in one measurement window.

    Configurations are run with the seeds of the first stored result, if there is one.
    """
    sources, documents = chosen.sources, chosen.documents
    if any(document is not None for document in documents):
        check_writable(out)
    stored = {place: load_side(sources[place], options) for place, each in enumerate(documents) if each is None}
    wanted: Sequence[int] = range(_SEEDS)
    if seeds is not None or chosen.seeds is not None:
        wanted = seeds or chosen.seeds or ()
    elif stored:
        wanted = next(iter(stored.values())).seeds
    replications = Replications(out / REPLICATIONS_FOLDER, options, keep_rows=True)
    windows, new_runs = [], dict.fromkeys(range(len(documents)), 0)
    for place, document in enumerate(documents):
        if document is None:
            windows.append(stored[place].window)
            continue
        note_compilation(document, note)
        before = replications.runs
        windows.append(replications.window(document, wanted))
        new_runs[place] = replications.runs - before
    try:
        window = common_window(windows)
    except ValueError as error:
        refuse("--warmup", f"the configurations have no common measurement window: {error}")
    found = []
    for place, (name, document) in enumerate(zip(chosen.names, documents, strict=True)):
        if document is None:
            side = stored[place] if window == windows[place] else load_side(sources[place], options, window)
            found.append(replace(side, name=name))
        else:
            before = replications.runs
            runs = replications.measure(document, wanted, window)
            new = new_runs[place] + replications.runs - before
            note(f"{name}: {format_count(len(runs), 'seed')}, {format_count(new, 'new run')}")
            found.append(Side(sources[place], name, runs, code_version(), partial(replications.submitted, document)))
    return found


def make_sides(
    chosen: Selection,
    seeds: Sequence[int] | None,
    precision: Precision | None,
    metrics: Sequence[str],
    question: str | None,
    options: MetricsOptions,
    out: Path,
    note: Callable[[str], None],
) -> tuple[list[Side], Reached | None]:
    """Run and measure all configurations of a comparison, with these seeds or with as many seeds as the precision requires.

    A relative precision is a fraction of the value of the baseline. The precision applies to the metric of the question and to
    ``metrics``, by default to success and p95.

    Raises:
        ConfigError: If a precision is requested and one of the configurations is a stored result, whose seeds are fixed.
    """
    if precision is None:
        return _measure_sides(chosen, seeds, options, out, note), None
    for source, document in zip(chosen.sources, chosen.documents, strict=True):
        if document is None:
            refuse(
                "--precision",
                f"{source} contains stored results, to which no seeds can be added; pass configurations, or omit --precision",
            )
    sides: list[Side] = []

    def measure(count: int) -> list[Width]:
        sides[:] = _measure_sides(chosen, range(count), options, out, note)
        asked = find_question(question, sides, "--question")
        subjects = choose_precise([asked] if asked else [Subject(name) for name in metrics], precision, "--precision")
        corrected = 1 if len(sides) == 2 and asked is None else None
        return [_measure_difference(each, precision) for each in compare_sides(sides, subjects, corrected=corrected).comparisons]

    return sides, add_seeds(measure, precision)


def find_question(text: str | None, sides: Sequence[Side], source: str) -> Subject | None:
    """Return the metric of a question; None without a question. Raises ConfigError if no configuration has the class."""
    return None if text is None else parse_question(text, {name for side in sides for name, _ in side.groups}, source)


def _measure_difference(found: Comparison, precision: Precision) -> Width:
    """Return the width of the interval of a difference.

    If a value is a bound or infinite, the width is 0 for a significant difference, and None otherwise.
    """
    name = str(Subject(found.metric, found.workload_class, found.operation))
    if found.difference is None:
        return Width(name, 0.0 if found.is_significant else None, 0.0)
    wanted = precision.width_of(found.difference.a, is_share=is_share(found.metric))
    return Width(name, found.difference.half_width or 0.0, wanted, found.difference.unfinished, found.difference.difference)
