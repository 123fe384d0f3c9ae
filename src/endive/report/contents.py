"""What a report says about a study beside its figures: its configuration, and where it comes from.

Makes a ``Page`` of a ``Study`` and the records of provenance beside its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import tomli_w

from endive.config import ConfigError, load_document
from endive.config.warnings import ConfigWarning, each_once
from endive.config.warnings import warnings_of as config_warnings
from endive.formatting import format_count, format_number
from endive.report import phrases
from endive.report.answer import answer_study, describe_windows, warn_study
from endive.report.figure import Figure
from endive.report.page import Page
from endive.report.repeat import repetition_of
from endive.report.study import Record, Study
from endive.runs.layout import CONFIG
from endive.runs.parameters import column_name, varying

_MOST_VALUES = 16
_DIGEST = 12


def page_of(study: Study, figures: Sequence[Figure]) -> Page:
    """The report of a study."""
    records = {name: list(study.records(name)) for name in study.manifest.experiments}
    every = [record for of_experiment in records.values() for record in of_experiment]
    apart = study.varying
    return Page(
        title=study.name,
        about=about(study),
        answer=answer_study(study),
        warnings=[*warn_study(study), *configuration_warnings(study)],
        figures=figures,
        colours=study.colours,
        configuration=common_configuration(study, every),
        varied=varied(study, [of_experiment[0] for of_experiment in records.values() if of_experiment]),
        provenance=provenance(study, every),
        repeat=repetition_of(study, every),
        runs=[_experiment(study, name, of_experiment, apart) for name, of_experiment in records.items()],
        dimensions=dimensions(study),
        titles={} if study.axis is None else {"x": study.axis.title},
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def configuration_warnings(study: Study) -> list[str]:
    """What a careful colleague would say of the configurations, each once; those that this code cannot read are passed over."""
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
"""Configurations that are read for warnings; those of a sweep differ in little."""


def dimensions(study: Study) -> dict[str, dict[str, str]]:
    """What configurations differ in, in words: for each parameter the value of every configuration."""
    columns = dict.fromkeys(column for each in study.drawn for column in each.parameters)
    return {
        phrases.name_parameter(column)[0]: {
            each.label: phrases.name_value(column, each.parameters.get(column)) for each in study.drawn
        }
        for column in columns
    }


def about(study: Study) -> str:
    """How much was simulated."""
    told = study.provenance()
    return (
        f"{format_count(told['experiments'], 'configuration')}, {format_count(told['runs'], 'run')}, "
        f"{format_count(told['transactions'], 'simulated transaction')}. {describe_windows(study)}"
    )


def common_configuration(study: Study, records: Sequence[Record]) -> str:
    """The parameters that all configurations have in common, with defaults, as TOML."""
    tree: Mapping[str, Any] = next((record["parameters"] for record in records if "parameters" in record), {})
    changing = set(varying(study.manifest.parameters))
    named = next(iter(study.manifest.experiments.values())).parameters
    return tomli_w.dumps(_common(tree, (), changing, named))


def _common(node: Mapping[str, Any], path: tuple[str, ...], changing: set[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """A tree without what changes and what is not set; providers by their name."""
    kept: dict[str, Any] = {}
    for key, value in node.items():
        here = (*path, key)
        column = column_name(".".join(here))
        if column in changing or value is None:
            continue
        if key == "provider" and column in named:
            kept[key] = named[column]
        elif isinstance(value, Mapping):
            below = _common(value, here, changing, named)
            if below:
                kept[key] = below
        else:
            kept[key] = value
    return kept


def varied(study: Study, records: Iterable[Record]) -> dict[str, str]:
    """The keys that were varied, and their values."""
    keys: dict[str, str] = {}
    for record in records:
        keys |= {column_name(key): key for key in _keys(record.get("parameters", {}), ())}
    found: dict[str, str] = {}
    for column in varying(study.manifest.parameters):
        values = {each.parameters.get(column) for each in study.manifest.experiments.values()}
        told = [_value(value) for value in sorted(values, key=lambda v: (isinstance(v, str), v is None, v if v is not None else 0))]
        more = f", ... ({len(told)} values)" if len(told) > _MOST_VALUES else ""
        found[keys.get(column, column.removeprefix("param_"))] = ", ".join(told[:_MOST_VALUES]) + more
    return found


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_number(value, 4) if isinstance(value, int | float) else str(value)


def _keys(node: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _keys(value, (*path, str(key)))
    if path:
        yield ".".join(path)


def provenance(study: Study, records: Sequence[Record]) -> dict[str, str]:
    """Who made the numbers: versions, commit, engine, seeds and machine."""
    told = study.provenance()
    started = sorted(_all(records, "started"))
    dependencies = sorted({f"{name} {version}" for r in records for name, version in r.get("dependencies", {}).items()})
    found = {
        "Endive": ", ".join(_all(records, "endive_version")),
        "code": study.code_version,
        "git commit": ", ".join(_all(records, "git_commit")),
        "engine": ", ".join(_all(records, "engine")),
        "seeds": ranges(told["seeds"]),
        "runs": f"{told['runs']:,} of {told['experiments']:,} experiments, {told['transactions']:,} transactions",
        "warm-up": describe_windows(study),
        "simulated": started[0] if len(started) == 1 else f"{started[0]} to {started[-1]}" if started else "",
        "time taken": f"{sum(record.get('wall_time_s', 0.0) for record in records):,.1f} s of simulating",
        "Python": ", ".join(_all(records, "python")),
        "platform": ", ".join(_all(records, "platform")),
        "libraries": ", ".join(dependencies),
    }
    return {name: value for name, value in found.items() if value}


def _all(records: Iterable[Record], key: str) -> list[str]:
    return sorted({str(record[key]) for record in records if record.get(key) is not None})


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in short: ``0-4, 7``."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1] = [parts[-1][0], seed]
        else:
            parts.append([seed])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _experiment(study: Study, name: str, records: Sequence[Record], apart: Sequence[str]) -> dict[str, str]:
    """A row about an experiment: what it is, its seeds, and what tells its results from others."""
    described = study.manifest.experiments[name]
    own = {column.removeprefix("param_").replace("_", " "): _value(described.parameters.get(column)) for column in apart}
    digests = [str(record.get("results_sha256", ""))[:_DIGEST] for record in records]
    return {
        "experiment": name,
        **own,
        "seeds": ranges([int(record["seed"]) for record in records if "seed" in record]),
        "SHA-256 of results": " ".join(digests),
    }
