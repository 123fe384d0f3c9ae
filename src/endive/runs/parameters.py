"""Represent parameters of experiments as flat, typed columns.

Converts the nested parameters in the provenance of a run, with provider names from its configuration, to values by column name:
``param_catalog_num_tables`` for ``catalog.num_tables``. Keys that are not set have no column. The scenario name is also a column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.config.sweep_file import SCENARIO
from endive.input_files import UnreadableError, read_toml
from endive.runs.layout import CONFIG

PREFIX = "param_"
SCENARIO_COLUMN = f"{PREFIX}{SCENARIO}"
"""Column of the scenario name, in studies with scenarios."""
Value = bool | int | float | str
ARROW_TYPES: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def column_name(key: str) -> str:
    """Return the column of a dotted key; a column name is returned unchanged."""
    return key if key.startswith(PREFIX) else PREFIX + key.replace(".", "_").replace("-", "_")


def flat_parameters(parameters: Mapping[str, Any], directory: Path, planned: Mapping[str, Any] | None = None) -> dict[str, Value]:
    """Return the parameters of an experiment by column; providers have the names used in the configuration.

    Args:
        parameters: Resolved parameters.
        directory: Directory of the experiment, with its configuration.
        planned: Configuration of an experiment that is not on disk yet.
    """
    config = _configuration(directory) if planned is None else planned
    tree = {SCENARIO: scenario_in(config), **parameters, **_with_provider_names(parameters, config, directory)}
    columns: dict[str, Value] = {}
    taken: set[str] = set()
    for key, value in _leaves(tree, ()):
        name = column_name(".".join(key))
        while name.lower() in taken:  # classes `a-b` and `a_b`; Spark does not tell `A` from `a`
            name += "_"
        taken.add(name.lower())
        columns[name] = value
    return columns


def _leaves(node: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Value]]:
    if isinstance(node, Mapping):
        for name, child in node.items():
            yield from _leaves(child, (*key, str(name)))
    elif isinstance(node, bool | int | float | str):
        yield key, node
    elif node is not None:
        yield key, json.dumps(node)


def scenario_of(directory: Path) -> str | None:
    """Return the scenario of the experiment in a directory, if it has one."""
    return scenario_in(_configuration(directory))


def scenario_in(config: Mapping[str, Any]) -> str | None:
    """Return the scenario named in the content of a configuration file, if any."""
    about = config.get("experiment")
    name = about.get(SCENARIO) if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _configuration(directory: Path) -> dict[str, Any]:
    try:
        return read_toml(directory / CONFIG)
    except UnreadableError:
        return {}


def _with_provider_names(parameters: Mapping[str, Any], config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the sections of storage and catalog with the name of the provider in place of its latencies."""
    named: dict[str, Any] = {}
    inherited = "custom"
    for section in ("storage", "catalog"):
        section_values, chosen = parameters.get(section), config.get(section)
        section_values = section_values if isinstance(section_values, Mapping) else {}
        given = chosen.get("provider") if isinstance(chosen, dict) else None
        given = given if isinstance(given, str) else None
        if given is not None and given.endswith(".toml"):
            given = _own_name(directory / given, section_values.get("provider"))
        inherited = given or inherited  # a catalog without its own object store uses that of the tables
        named[section] = {**section_values, "provider": inherited}
    return named


def _own_name(path: Path, section_values: Any) -> str:
    """Return the name of a custom profile with a digest of its latencies, so that profiles with the same name differ."""
    try:
        name = str(read_toml(path).get("name", "own"))
    except UnreadableError:
        name = "own"
    digest = hashlib.sha256(json.dumps(section_values, sort_keys=True).encode()).hexdigest()
    return f"{name}-{digest[:6]}"


def column_types(experiments: Mapping[str, Mapping[str, Value]]) -> dict[str, type]:
    """Return the type of every column over all experiments; text if types differ."""
    types: dict[str, type] = {}
    for parameters in experiments.values():
        for name, value in parameters.items():
            known = types.setdefault(name, type(value))
            if known is not type(value):
                types[name] = float if {known, type(value)} == {int, float} else str
    return types


def parameter_array(name: str, kind: type, experiments: list[Mapping[str, Value]]) -> pa.Array:
    """Return the values of one column for a list of experiments."""
    values = [parameters.get(name) for parameters in experiments]
    return pa.array([None if value is None else kind(value) for value in values], ARROW_TYPES[kind])


def varying(experiments: Mapping[str, Mapping[str, Value]]) -> list[str]:
    """Return the columns whose values differ between experiments."""
    names = list(dict.fromkeys(name for parameters in experiments.values() for name in parameters))
    return [name for name in names if len({parameters.get(name) for parameters in experiments.values()}) > 1]


def varying_within_scenarios(experiments: Mapping[str, Mapping[str, Value]]) -> list[str]:
    """Return the columns that vary between experiments of one scenario, because differences between scenarios are not axes."""
    groups: dict[Value | None, dict[str, Mapping[str, Value]]] = {}
    for name, parameters in experiments.items():
        groups.setdefault(parameters.get(SCENARIO_COLUMN), {})[name] = parameters
    within = {column for group in groups.values() for column in varying(group)}
    return [column for column in varying(experiments) if column in within]
