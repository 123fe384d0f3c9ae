"""Collect the sections of a report other than figures: title, answer, configuration, provenance and reproduction."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from endive.config import ConfigError, load_document
from endive.config.study import files_named
from endive.config.warnings import ConfigWarning, each_once
from endive.config.warnings import warnings_of as config_warnings
from endive.formatting import capitalize, format_count, format_duration, format_number
from endive.input_files import UnreadableError, first_sentence, leading_comment, parse_toml, read_text
from endive.report import phrases
from endive.report.answer import answer_study, describe_windows, warn_study
from endive.report.figure import Figure
from endive.report.page import Page, Reproduction
from endive.report.study_data import Record, Study
from endive.report.verdicts import name_subject
from endive.runs.identity import column_name, varying
from endive.runs.layout import CONFIG, study_file
from endive.version import DIRTY

_MOST_VALUES = 16
_DIGEST = 12


def make_page(study: Study, figures: Sequence[Figure]) -> Page:
    """Return the report of a study."""
    records = {name: list(study.records(name)) for name in study.manifest.experiments}
    every = [record for own in records.values() for record in own]
    return Page(
        title=title_study(study),
        about=describe_scope(study),
        answer=answer_study(study),
        warnings=[*warn_study(study), *warn_configurations(study)],
        figures=figures,
        colours=study.colours,
        configuration=render_common_configuration(study, every),
        varied=list_varied(study, [own[0] for own in records.values() if own]),
        provenance=describe_provenance(study, every),
        reproduction=describe_reproduction(study, every),
        runs=[_describe_experiment(study, name, own, study.varying) for name, own in records.items()],
        dimensions=list_dimensions(study),
        titles={} if study.axis is None else {"x": study.axis.title},
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def title_study(study: Study) -> str:
    """Return the title of a report: the question in the leading comment of the file, the primary metric, or the study's name."""
    if study.record is not None:
        try:
            question = first_sentence(leading_comment(study_file(study.path, study.record.label)))
        except UnreadableError:
            question = ""
        if question:
            return question
    return study.name if study.question is None else f"{capitalize(name_subject(study.question))} by configuration"


def warn_configurations(study: Study) -> list[str]:
    """Return the distinct warnings of all configurations, except those that cannot be read."""
    if study.single_runs:
        files = [study.single_runs[0].config]
    else:
        files = [study.path / name / CONFIG for name in list(study.manifest.experiments)[:_MOST_READ]]
    found: list[ConfigWarning] = []
    for file in files:
        try:
            found += config_warnings(load_document(file))
        except ConfigError:
            continue
    return [str(each) for each in each_once(found)]


_MOST_READ = 50
"""Maximum number of configurations that are read for warnings; configurations of a sweep have similar warnings."""


def list_dimensions(study: Study) -> dict[str, dict[str, str]]:
    """Return the values of each parameter that varies, by parameter name and label of the configuration."""
    columns = dict.fromkeys(column for each in study.visible_series for column in each.parameters)
    return {
        phrases.name_parameter(column)[0]: {
            each.label: phrases.name_value(column, each.parameters.get(column)) for each in study.visible_series
        }
        for column in columns
    }


def describe_scope(study: Study) -> str:
    """Return the number of configurations, runs and transactions, and the measured window."""
    counts = study.provenance()
    return (
        f"{format_count(counts['experiments'], 'configuration')}, {format_count(counts['runs'], 'run')}, "
        f"{format_count(counts['transactions'], 'simulated transaction')}. {describe_windows(study)}"
    )


def render_common_configuration(study: Study, records: Sequence[Record]) -> str:
    """Return the parameters that are equal in all configurations as TOML, including default values."""
    tree: Mapping[str, Any] = next((record["parameters"] for record in records if "parameters" in record), {})
    changing = set(varying(study.manifest.parameters))
    named = next(iter(study.manifest.experiments.values())).parameters
    return tomli_w.dumps(_keep_common(tree, (), changing, named))


def _keep_common(node: Mapping[str, Any], path: tuple[str, ...], changing: set[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested parameters without varying and unset keys, with providers by name."""
    kept: dict[str, Any] = {}
    for key, value in node.items():
        here = (*path, key)
        column = column_name(".".join(here))
        if column in changing or value is None:
            continue
        if key == "provider" and column in named:
            kept[key] = named[column]
        elif isinstance(value, Mapping):
            below = _keep_common(value, here, changing, named)
            if below:
                kept[key] = below
        else:
            kept[key] = value
    return kept


def list_varied(study: Study, records: Iterable[Record]) -> dict[str, str]:
    """Return the values of the varied keys, by key."""
    keys: dict[str, str] = {}
    for record in records:
        keys |= {column_name(key): key for key in _list_keys(record.get("parameters", {}), ())}
    found: dict[str, str] = {}
    for column in varying(study.manifest.parameters):
        values = {each.parameters.get(column) for each in study.manifest.experiments.values()}
        texts = [
            _format_value(value)
            for value in sorted(values, key=lambda v: (isinstance(v, str), v is None, v if v is not None else 0))
        ]
        more = f", ... ({len(texts)} values)" if len(texts) > _MOST_VALUES else ""
        found[keys.get(column, column.removeprefix("param_"))] = ", ".join(texts[:_MOST_VALUES]) + more
    return found


def _format_value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_number(value, 4) if isinstance(value, int | float) else str(value)


def _list_keys(node: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _list_keys(value, (*path, str(key)))
    if path:
        yield ".".join(path)


def describe_provenance(study: Study, records: Sequence[Record]) -> dict[str, str]:
    """Return the provenance of the results: versions, commit, engine, seeds and machine."""
    counts = study.provenance()
    started = sorted(_list_values(records, "started"))
    dependencies = sorted({f"{name} {version}" for r in records for name, version in r.get("dependencies", {}).items()})
    found = {
        "Endive": ", ".join(_list_values(records, "endive_version")),
        "code": study.code_version,
        "git commit": ", ".join(_list_values(records, "git_commit")),
        "engine": ", ".join(_list_values(records, "engine")),
        "seeds": format_ranges(counts["seeds"]),
        "runs": f"{format_count(counts['runs'], 'run')} of {format_count(counts['experiments'], 'experiment')}, "
        f"{counts['transactions']:,} transactions",
        "warm-up": describe_windows(study),
        "simulated": started[0] if len(started) == 1 else f"{started[0]} to {started[-1]}" if started else "",
        "simulation time": format_duration(1000.0 * sum(record.get("wall_time_s", 0.0) for record in records)),
        "Python": ", ".join(_list_values(records, "python")),
        "platform": ", ".join(_list_values(records, "platform")),
        "libraries": ", ".join(dependencies),
    }
    return {name: value for name, value in found.items() if value}


def _list_values(records: Iterable[Record], key: str) -> list[str]:
    return sorted({str(record[key]) for record in records if record.get(key) is not None})


def format_ranges(seeds: Sequence[int]) -> str:
    """Return seeds as ranges: ``0-4, 7``."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _describe_experiment(study: Study, name: str, records: Sequence[Record], columns: Sequence[str]) -> dict[str, str]:
    """Return the row of an experiment: parameters, seeds and digests of the results."""
    experiment = study.manifest.experiments[name]
    own = {column.removeprefix("param_").replace("_", " "): _format_value(experiment.parameters.get(column)) for column in columns}
    digests = [str(record.get("results_sha256", ""))[:_DIGEST] for record in records]
    return {
        "experiment": name,
        **own,
        "seeds": format_ranges([int(record["seed"]) for record in records if "seed" in record]),
        "SHA-256 of results": " ".join(digests),
    }


def describe_reproduction(study: Study, records: Sequence[Record]) -> Reproduction:
    """Return the commands that reproduce the results of a study."""
    commits = sorted({str(record["git_commit"]) for record in records if record.get("git_commit") is not None})
    first = [_format_checkout(commits[0])] if len(commits) == 1 else []
    if study.single_runs:
        return _reproduce_runs(study, first)
    again = f"{study.path.resolve().name}-again"
    last = f"endive report {shlex.quote(again)}"
    number = format_count(study.provenance()["runs"], "run")
    if study.record is None:
        return Reproduction("\n".join([*first, *_reproduce_files(study, again, number), last]))
    source = study_file(study.path, study.record.label)
    start = _read_source(source, f"{study.record.label}.toml")
    arguments = [
        start.file or f"{study.path.resolve().name}/{source.relative_to(study.path)}",
        *study.record.arguments,
        *_list_code_options(start),
        "--out",
        again,
    ]
    return Reproduction("\n".join([*first, f"endive sweep {shlex.join(arguments)}", last]), start.file, start.text)


def _format_checkout(commit: str) -> str:
    """Return the command that checks out a commit, with a remark if the code had uncommitted changes."""
    known = commit.removesuffix(DIRTY)
    return f"git checkout {known}   # in a clone of Endive" + ("" if known == commit else "; the code had uncommitted changes")


def _reproduce_runs(study: Study, first: Sequence[str]) -> Reproduction:
    """Return the commands that reproduce the runs of one configuration and their report."""
    config, label = study.single_runs[0].config, study.single_runs[0].label
    start = _read_source(config, f"{label}.toml")
    again = f"{label}-again"
    seeds = [str(run.seed) for run in study.single_runs]
    relative = f"{config.resolve().parent.name}/{config.name}"  # a report contains no absolute paths
    call = ["endive", "run", start.file or relative, *_list_code_options(start), "--out", again, "--seed"]
    one = f"{shlex.join(call)} {seeds[0]}"
    every = f"for seed in {' '.join(seeds)}; do {shlex.join(call)} $seed; done"
    place = Path(again) / _find_output(study, start)
    report = f"endive report {shlex.quote(str(place))}"
    return Reproduction("\n".join([*first, one if len(seeds) == 1 else every, report]), start.file, start.text)


def _find_output(study: Study, start: _Source) -> Path:
    """Return the path of the reproduced runs below the output directory."""
    run = study.single_runs[0]
    if run.config.name != CONFIG:  # a run without a label, at the output path of its configuration
        about = start.tree.get("simulation")
        place = about.get("output_path") if isinstance(about, dict) else None
        return Path(place if isinstance(place, str) else run.results.name)
    experiment = run.config.resolve().parent.name
    return Path(experiment) if study.kind == "experiment" else Path(experiment) / str(run.seed)


def _reproduce_files(study: Study, again: str, number: str) -> Iterator[str]:
    """Yield the commands that reproduce runs that do not belong to a study, from their configuration files."""
    run = f"endive run $cfg --seed $seed --out {shlex.quote(again)}"
    files = f"{shlex.quote(study.path.resolve().name)}/*/{CONFIG}"
    yield f"for cfg in {files}; do for seed in {' '.join(map(str, study.provenance()['seeds']))}; do {run}; done; done   # {number}"
    yield f"endive consolidate {shlex.quote(again)}"


@dataclass(frozen=True)
class _Source:
    """File of a configuration or study. ``file`` and ``text`` are empty if the file refers to other files or cannot be read."""

    tree: Mapping[str, Any]
    file: str = ""
    text: str = ""


def _read_source(source: Path, name: str) -> _Source:
    try:
        text = read_text(source)
        tree = parse_toml(text)
    except UnreadableError:
        return _Source({})
    return _Source(tree, name, text) if not any(files_named(tree)) else _Source(tree)


def _list_code_options(start: _Source) -> list[str]:
    """Return the option that allows custom components, if the file uses any."""
    return ["--allow-code"] if any(key == "code" for key, _ in files_named(start.tree)) else []
