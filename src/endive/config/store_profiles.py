"""Latency profiles of ``[storage]`` and ``[catalog]``."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from endive.catalog.kinds import CATALOG_KINDS, CatalogKind
from endive.config.schema import CatalogSection, Document, Normal, ReadWrite, StorageSection
from endive.storage import (
    FixedLatency,
    NormalLatency,
    QuantileDistribution,
    StorageProfile,
    builtin_profiles,
    load_profile,
    provider,
)
from endive.storage.profiles import ProfileError

_OBJECTS = {
    "T_METADATA_ROOT": provider.CATALOG,
    "T_TABLE_METADATA": provider.TABLE_METADATA,
    "T_MANIFEST_LIST": provider.MANIFEST_LIST,
    "T_MANIFEST_FILE": provider.MANIFEST_FILE,
}
_CONDITIONALS = {
    "T_CAS": "cas",
    "T_APPEND": "append",
    "T_COMPACTION": "compaction",
    "T_LOG_ENTRY_READ": "log_entry_read",
}
# Defaults of a custom store: 1 ms for the catalog and table metadata, 50 ms for manifests and manifest lists.
_FAST, _SLOW = Normal(mean=1.0, stddev=0.1), Normal(mean=50.0, stddev=5.0)
_CUSTOM_FLOOR_MS = 1.0
INFERRED_KINDS = ("cas", "append")
"""Default kinds of catalogs: the first one that the provider supports."""


def storage_profile(storage: StorageSection) -> StorageProfile:
    """Return the profile of the object store: that of the provider overridden by T_* keys, or one of T_* keys only."""
    given = {key: getattr(storage, key) for key in (*_OBJECTS, *_CONDITIONALS) if getattr(storage, key) is not None}
    if storage.provider is None:
        if not given:
            raise ProfileError("no provider and no T_* keys")
        base = _custom(storage.min_latency_ms)
    else:
        base = _named(storage.provider, storage.profile)
    floor = base.min_latency_ms if storage.min_latency_ms is None else storage.min_latency_ms
    if storage.min_latency_ms is not None:
        base = _with_floor(base, floor)
    reads, writes = dict(base.reads), dict(base.writes)
    root = given.get("T_METADATA_ROOT")
    if root is not None and "T_TABLE_METADATA" not in given:
        given["T_TABLE_METADATA"] = root  # table metadata has the latency of the catalog file unless it is set
    for key, kind in _OBJECTS.items():
        latencies: ReadWrite | None = given.get(key)
        if latencies is not None and latencies.read is not None:
            reads[kind] = _normal(latencies.read, floor)
        if latencies is not None and latencies.write is not None:
            writes[kind] = _normal(latencies.write, floor)
    changes: dict[str, Any] = {
        name: _normal(given[key], 0.0 if key == "T_LOG_ENTRY_READ" else floor)  # an entry adds to a read and is not a request
        for key, name in _CONDITIONALS.items()
        if key in given
    }
    for name, failed in (("cas", "failed_cas"), ("append", "failed_append")):
        if name in changes:
            changes[failed] = None  # a failure has the latency of a success unless it is set
    return replace(base, reads=reads, writes=writes, **changes)


def catalog_profile(document: Document, storage: StorageProfile | None) -> StorageProfile | None:
    """Return the profile of the object store of the catalog: its own, or that of ``[storage]``."""
    if document.catalog.provider is None:
        return storage
    return _named(document.catalog.provider, document.storage.profile)


def catalog_kind(catalog: CatalogSection, profile: StorageProfile) -> CatalogKind:
    """Return the kind of catalog: the configured one, or the first that the provider supports."""
    by_compare_and_swap, by_append = INFERRED_KINDS
    return CATALOG_KINDS[catalog.type or (by_append if profile.cas is None else by_compare_and_swap)]


def _named(name: str, profile_set: str) -> StorageProfile:
    if name.endswith(".toml"):
        return load_profile(Path(name))
    profiles = builtin_profiles(profile_set)
    if name not in profiles:
        raise ProfileError(f"unknown provider {name!r}")
    return profiles[name]


def _custom(min_latency_ms: float | None) -> StorageProfile:
    floor = _CUSTOM_FLOOR_MS if min_latency_ms is None else min_latency_ms
    fast, slow = _normal(_FAST, floor), _normal(_SLOW, floor)
    by_kind: dict[str, QuantileDistribution] = {"*": slow, provider.CATALOG: fast, provider.TABLE_METADATA: fast}
    return StorageProfile("custom", floor, reads=by_kind, writes=by_kind, cas=fast, description="described by T_* keys")


def _normal(latency: Normal, floor: float) -> NormalLatency:
    return NormalLatency(latency.mean, latency.stddev, floor)


def _with_floor(profile: StorageProfile, floor: float) -> StorageProfile:
    """Return the profile with another floor of all latencies."""

    def lifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {kind: lifted(distribution) for kind, distribution in value.items()}
        if isinstance(value, FixedLatency):
            return FixedLatency(max(value.latency_ms, floor))
        return replace(value, min_latency_ms=floor) if hasattr(value, "min_latency_ms") else value

    changed = {each.name: lifted(getattr(profile, each.name)) for each in fields(profile)}
    return replace(profile, **{**changed, "min_latency_ms": floor})
