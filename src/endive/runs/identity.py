"""Compute the hash that identifies an experiment, and represent its parameters as columns of tables.

The hash covers ``MODEL_VERSION`` and every parameter that changes results, with defaults resolved. It does not cover the seed, the
output path, the label or the engine. Parameters that equal their default are not part of the hash. Therefore, neither setting a key
to its default nor adding a key whose default does not change results changes the hash.

In tables, the key ``catalog.num_tables`` is the column ``param_catalog_num_tables``. Keys that are not set have no column. The name
of the scenario is also a column.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.catalog import ServiceSettings
from endive.config.arrival_keys import Closed, trace_hash
from endive.config.components import components_identity
from endive.config.resolve import catalog_kind, catalog_profile, protocol_content, protocol_name, resolve_classes, storage_profile
from endive.config.schema import CatalogSection, ClassSection, Document, Transactions
from endive.config.sweep_file import SCENARIO
from endive.config.values import Distribution, Latency, Section
from endive.input_files import UnreadableError, read_toml
from endive.runs.layout import CONFIG
from endive.storage import StorageProfile
from endive.version import MODEL_VERSION
from endive.workload.arrivals import INTER_ARRIVAL, TRACE, kind_of

HASH_LENGTH = 12
_NOT_IN_HASH = ("seed", "output_path", "engine")
"""Keys of ``[simulation]`` that do not change results."""


def parameters(document: Document) -> dict[str, Any]:
    """Return the parameters of a run as plain values, including defaults.

    Latency profiles are represented by their latencies, and traces and custom components by a hash of their content.
    """
    tree = document.model_dump(mode="json")
    del tree["experiment"]
    for key in _NOT_IN_HASH:
        del tree["simulation"][key]
    storage = storage_profile(document.storage)
    catalog = catalog_profile(document, storage)
    assert catalog is not None
    tree["storage"]["provider"] = _describe_profile(storage)
    tree["catalog"]["provider"] = _describe_profile(catalog)
    for section in (tree["transaction"], *tree["workload"].values()):
        if section["commit_path"] is not None:
            section["commit_path"] = protocol_name(section["commit_path"])
    for cls in tree["workload"].values():
        if cls[TRACE.key] is not None:
            cls[TRACE.key] = trace_hash(Path(cls[TRACE.key]))
    del tree["parts"]
    components = components_identity(document)
    if components:
        tree["parts"] = components
    return tree


def compute_experiment_hash(document: Document) -> str:
    """Return the hash of an experiment, which depends on the parameters and the model version, but not on the seed."""
    tree = parameters(document)
    tree["storage"] = {key: tree["storage"][key] for key in ("provider", "max_parallel", "sizes")}
    _resolve_catalog(tree["catalog"], document)
    if document.table.start == "empty":
        tree["table"] |= document.table.model_settings
    _resolve_classes(tree, document)
    return hash_parameters(_without_defaults(tree, _default_parameters()))


def hash_parameters(tree: Mapping[str, Any]) -> str:
    """Return the hash of resolved parameters under the current model version."""
    payload = json.dumps({"model": MODEL_VERSION, "parameters": tree}, sort_keys=True)
    return hashlib.sha256(payload.encode()).hexdigest()[:HASH_LENGTH]


def _describe_profile(profile: StorageProfile) -> dict[str, Any]:
    """Describe a latency profile by its latencies, independent of its name and file."""
    description: dict[str, Any] = {"min_latency_ms": profile.min_latency_ms}
    for field in dataclasses.fields(profile):
        value = getattr(profile, field.name)
        if isinstance(value, dict):
            description[field.name] = {kind: repr(distribution) for kind, distribution in sorted(value.items())}
        elif dataclasses.is_dataclass(value):
            description[field.name] = repr(value)
    if profile.object_writes_per_s is not None:
        description["object_writes_per_s"] = profile.object_writes_per_s
    return description


def _resolve_catalog(tree: dict[str, Any], document: Document) -> None:
    """Replace unset catalog keys by their effective values."""
    catalog = document.catalog
    profile = catalog_profile(document, storage_profile(document.storage))
    assert profile is not None
    tree["type"], tree["num_groups"] = catalog_kind(catalog, profile).name, catalog.pointers
    if catalog.partitions.per_table is None and catalog.partitions.num_partitions is None:
        tree["partitions"]["num_partitions"] = 1
    for field in dataclasses.fields(ServiceSettings):
        given = getattr(catalog, field.name, None)
        value = given.to_distribution() if isinstance(given, Latency) else given
        if value is not None and value == _default_of(field):
            tree[field.name] = CatalogSection.model_fields[field.name].default


def _default_of(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _resolve_classes(tree: dict[str, Any], document: Document) -> None:
    """Replace ``[transaction]`` and the classes by the effective settings of each class."""
    del tree["transaction"]
    classes = {}
    for resolved in resolve_classes(document):
        own = {} if resolved.own is None else {**tree["workload"][resolved.name], **_describe_distributions(resolved.own)}
        settings = {**resolved.settings.model_dump(mode="json"), **_describe_distributions(resolved.settings)}
        if settings["on_real_conflict"] is None:
            settings["on_real_conflict"] = "abort" if settings["conflicting_manifests"] is None else "merge"
        settings["commit_path"] = protocol_content(resolved.settings.commit_path)
        if kind_of(own) is not None:
            settings[INTER_ARRIVAL.key] = own[INTER_ARRIVAL.key]
        times = {"start_ms": resolved.start_ms, "phase": own.get("phase") or "random"}
        classes[resolved.name] = {**own, **settings, **times, "operation": None}
    tree["workload"] = classes


def _describe_distributions(section: Section) -> dict[str, Any]:
    """Return the distributions of a section in canonical form, so that different spellings of a distribution are equal."""
    found: dict[str, Any] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Distribution):
            found[name] = repr(value.to_distribution())
        elif isinstance(value, Closed):
            found[name] = {"clients": value.clients, "think_time": repr(value.think_time.to_distribution())}
    return found


def _without_defaults(tree: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values in a nested table that differ from the defaults."""
    kept: dict[str, Any] = {}
    for name, value in tree.items():
        if name == "workload":
            kept[name] = {each: _without_defaults(cls, _default_class()) for each, cls in value.items()}
        elif isinstance(value, Mapping) and isinstance(defaults.get(name), Mapping):
            different = _without_defaults(value, defaults[name])
            kept |= {name: different} if different else {}
        elif name not in defaults or value != defaults[name]:
            kept[name] = value
    return kept


@cache
def _default_parameters() -> dict[str, Any]:
    minimal = Document.model_validate({"simulation": {"duration_ms": 1.0}, "storage": {"provider": "s3"}})
    tree = minimal.model_dump(mode="json")
    del tree["simulation"]["duration_ms"], tree["storage"]["provider"], tree["catalog"]["provider"]
    tree["catalog"] |= {"type": "cas", "num_groups": 1}
    tree["catalog"]["partitions"]["num_partitions"] = 1
    return tree


@cache
def _default_class() -> dict[str, Any]:
    own = ClassSection().model_dump(mode="json")
    shared = {**Transactions().model_dump(mode="json"), **_describe_distributions(Transactions())}
    return {**own, **shared, "on_real_conflict": "abort", "start_ms": 0.0, "phase": "random"}


PREFIX = "param_"
SCENARIO_COLUMN = f"{PREFIX}{SCENARIO}"
"""Column of the scenario name, in studies with scenarios."""
Value = bool | int | float | str
ARROW_TYPES: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def column_name(key: str) -> str:
    """Return the column name of a dotted key. A column name is returned unchanged."""
    return key if key.startswith(PREFIX) else PREFIX + key.replace(".", "_").replace("-", "_")


def flat_parameters(parameters: Mapping[str, Any], directory: Path, planned: Mapping[str, Any] | None = None) -> dict[str, Value]:
    """Return the parameters of an experiment by column. Providers have the names that the configuration uses.

    Args:
        parameters: Resolved parameters.
        directory: Directory of the experiment, with its configuration.
        planned: Configuration of an experiment that is not yet on disk.
    """
    config = _configuration(directory) if planned is None else planned
    tree = {SCENARIO: scenario_in(config), **parameters, **_with_provider_names(parameters, config, directory)}
    columns: dict[str, Value] = {}
    taken: set[str] = set()
    for key, value in _leaves(tree, ()):
        name = column_name(".".join(key))
        while name.lower() in taken:  # classes `a-b` and `a_b`; Spark ignores case
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
    """Return the scenario of the experiment in a directory, or None."""
    return scenario_in(_configuration(directory))


def scenario_in(config: Mapping[str, Any]) -> str | None:
    """Return the scenario in the content of a configuration file, or None."""
    about = config.get("experiment")
    name = about.get(SCENARIO) if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _configuration(directory: Path) -> dict[str, Any]:
    try:
        return read_toml(directory / CONFIG)
    except UnreadableError:
        return {}


def _with_provider_names(parameters: Mapping[str, Any], config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the sections of storage and catalog, with the provider's name instead of its latencies."""
    named: dict[str, Any] = {}
    inherited = "custom"
    for section in ("storage", "catalog"):
        section_values, chosen = parameters.get(section), config.get(section)
        section_values = section_values if isinstance(section_values, Mapping) else {}
        given = chosen.get("provider") if isinstance(chosen, dict) else None
        given = given if isinstance(given, str) else None
        if given is not None and given.endswith(".toml"):
            given = _own_name(directory / given, section_values.get("provider"))
        inherited = given or inherited  # by default, the catalog uses the object store of the tables
        named[section] = {**section_values, "provider": inherited}
    return named


def _own_name(path: Path, section_values: Any) -> str:
    """Return the name of a custom profile with a digest of its latencies, which distinguishes profiles with the same name."""
    try:
        name = str(read_toml(path).get("name", "own"))
    except UnreadableError:
        name = "own"
    digest = hashlib.sha256(json.dumps(section_values, sort_keys=True).encode()).hexdigest()
    return f"{name}-{digest[:6]}"


def column_types(experiments: Mapping[str, Mapping[str, Value]]) -> dict[str, type]:
    """Return the type of every column over all experiments, which is text if types differ."""
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
    """Return the columns that vary within a scenario. Differences between scenarios are not axes of the study."""
    groups: dict[Value | None, dict[str, Mapping[str, Value]]] = {}
    for name, parameters in experiments.items():
        groups.setdefault(parameters.get(SCENARIO_COLUMN), {})[name] = parameters
    within = {column for group in groups.values() for column in varying(group)}
    return [column for column in varying(experiments) if column in within]
