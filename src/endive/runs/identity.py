"""Compute the identity of an experiment: the hash of its resolved parameters and the model version.

The hash covers every parameter that changes results, with defaults resolved, and ``MODEL_VERSION``. It does not cover the seed,
the output path, the label or the engine. Parameters that equal their default are left out of the hash, so explicit defaults, and
new keys whose default does not change results, give the same hash.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from endive.catalog import ServiceSettings
from endive.config.arrival_keys import Closed, trace_hash
from endive.config.components import components_identity
from endive.config.resolve import catalog_kind, catalog_profile, protocol_content, protocol_name, resolve_classes, storage_profile
from endive.config.schema import CatalogSection, ClassSection, Document, Transactions
from endive.config.values import Distribution, Latency, Section
from endive.storage import StorageProfile
from endive.version import MODEL_VERSION
from endive.workload.arrivals import INTER_ARRIVAL, TRACE, kind_of

HASH_LENGTH = 12
_NOT_IN_HASH = ("seed", "output_path", "engine")
"""Keys of ``[simulation]`` that do not change results."""


def parameters(document: Document) -> dict[str, Any]:
    """Return the parameters of a run as plain values, defaults included.

    Store profiles are described by their latencies, traces and custom components by a hash of their content.
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
    """Describe a store profile by its latencies, independent of its name and file."""
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
    """Return the distributions in a section as built, so that different spellings of their parameters are equal."""
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
