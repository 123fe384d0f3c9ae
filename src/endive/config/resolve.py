"""Derive facts from a checked document: classes with all their settings, tables, protocols and latency profiles."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from endive.catalog.kinds import CATALOG_KINDS, CatalogKind
from endive.config.arrival_keys import ArrivalKeys
from endive.config.schema import (
    CatalogSection,
    ClassSection,
    CommitterSection,
    Document,
    Normal,
    OperationTypes,
    ReadWrite,
    StorageSection,
    Transactions,
)
from endive.config.values import default_of
from endive.protocols import reader
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
from endive.transaction.paths import COMMIT_PATHS, CommitPath, protocol_path
from endive.transaction.protocol_path import Protocol
from endive.workload import DEFAULT_CLASS

_OWN_ONLY = {*ArrivalKeys.model_fields, "committer", "operation", "tables", "partition_range"}


@dataclass(frozen=True)
class ResolvedClass:
    """Class with all its settings. ``own`` is the section of the class, or None for the single class of ``[transaction]``."""

    name: str
    own: ClassSection | None
    settings: Transactions
    arrivals: ArrivalKeys
    start_ms: float = 0.0
    end_ms: float = math.inf

    @property
    def committer(self) -> CommitterSection | None:
        """Committer of the class, or None."""
        return None if self.own is None else self.own.committer

    @property
    def path(self) -> CommitPath:
        """Commit path of the class."""
        return find_path(self.settings.commit_path)

    @property
    def protocol(self) -> Protocol | None:
        """Protocol that the class follows, or None if it follows a built-in commit path."""
        return find_protocol(self.settings.commit_path)

    @property
    def changed_keys(self) -> set[str]:
        """Keys that the class sets to a value other than the default, or that ``[transaction]`` sets if there are no classes."""
        if self.own is None:
            return self.settings.changed_keys
        inherited = self.own.model_fields_set & Transactions.model_fields.keys()
        unchanged = {key for key in inherited if getattr(self.own, key) == default_of(Transactions, key)}
        return self.own.model_fields_set - unchanged

    def key(self, name: str) -> str:
        """Return the dotted key of a setting as in the file."""
        if self.own is None or (name not in self.own.model_fields_set and name in self.settings.model_fields_set):
            return f"transaction.{name}"
        return f"workload.{self.name}.{name}"


def find_protocol(commit_path: str) -> Protocol | None:
    """Return the protocol that a value of ``commit_path`` selects, or None for a built-in commit path."""
    return reader.find_protocol(commit_path).protocol if reader.is_protocol(commit_path) else None


def find_path(commit_path: str) -> CommitPath:
    """Return the built-in commit path, or the commit path of the protocol, that a value of ``commit_path`` selects."""
    protocol = find_protocol(commit_path)
    return COMMIT_PATHS[commit_path] if protocol is None else protocol_path(protocol)


def resolve_classes(document: Document) -> tuple[ResolvedClass, ...]:
    """Return the classes of a document, in the order of their names."""
    transaction = document.transaction
    if not document.workload:
        return (ResolvedClass(DEFAULT_CLASS, None, transaction, ArrivalKeys(inter_arrival=transaction.inter_arrival)),)
    return tuple(_resolve(name, document.workload[name], transaction) for name in sorted(document.workload))


def follows_iceberg(document: Document) -> bool:
    """Return whether any class uses a commit path that tracks metadata files."""
    return any(cls.path.keeps_files for cls in resolve_classes(document))


def _resolve(name: str, own: ClassSection, transaction: Transactions) -> ResolvedClass:
    changes = {key: getattr(own, key) for key in own.model_fields_set - _OWN_ONLY}
    if own.operation is not None:
        changes["operation_types"] = OperationTypes(**{own.operation: 1.0})
    if "conflicting_manifests" in changes and "on_real_conflict" not in changes:
        changes["on_real_conflict"] = "merge"
    if {"max_snapshot_age_ms", "min_snapshots_to_keep"} & changes.keys():
        changes.setdefault("retain_snapshots", None)
    start_ms, end_ms = own.start_ms or 0.0, math.inf if own.end_ms is None else own.end_ms
    return ResolvedClass(name, own, transaction.model_copy(update=changes), _arrivals(own, transaction), start_ms, end_ms)


def _arrivals(own: ClassSection, transaction: Transactions) -> ArrivalKeys:
    return own if own.kind is not None else ArrivalKeys(inter_arrival=transaction.inter_arrival)


def partitions_per_table(document: Document) -> tuple[int, ...]:
    """Return the number of partitions of each table."""
    partitions = document.catalog.partitions
    if partitions.per_table is not None:
        return tuple(partitions.per_table)
    return (partitions.num_partitions or 1,) * document.catalog.num_tables


def spans_groups(document: Document) -> bool:
    """Return whether a transaction can span tables with separate commit pointers, as Iceberg's REST catalogs allow."""
    catalog = document.catalog
    follows_protocol = any(cls.protocol is not None for cls in resolve_classes(document))
    return catalog.type == "service" and catalog.pointers == catalog.num_tables and not follows_protocol


def lists_every_table(document: Document) -> bool:
    """Return whether ``catalog.partitions.per_table`` has a value for each table, or is not set."""
    per_table = document.catalog.partitions.per_table
    return per_table is None or len(per_table) == document.catalog.num_tables


def protocol_name(name: str) -> str:
    """Return the name of a commit path in tables of results. For a file, the name contains a digest that distinguishes files."""
    if not reader.is_protocol(name) or not name.endswith(".toml"):
        return name
    found = reader.find_protocol(name)
    return f"{found.protocol.name}-{hashlib.sha256(reader.describe(found).encode()).hexdigest()[:6]}"


def protocol_content(name: str) -> dict[str, Any] | str:
    """Return what represents ``commit_path`` in the identity of an experiment: the content of a protocol or the name of a path."""
    return reader.find_protocol(name).content if reader.is_protocol(name) else name


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
# Defaults of a custom object store: 1 ms for the catalog and table metadata, 50 ms for manifests and manifest lists.
_FAST, _SLOW = Normal(mean=1.0, stddev=0.1), Normal(mean=50.0, stddev=5.0)
_CUSTOM_FLOOR_MS = 1.0
INFERRED_KINDS = ("cas", "append")
"""Kinds of catalogs in order of preference. The default is the first kind that the provider supports."""


def storage_profile(storage: StorageSection) -> StorageProfile:
    """Return the profile of the object store: that of the provider with T_* keys overridden, or one given by T_* keys only."""
    given = {key: getattr(storage, key) for key in (*_OBJECTS, *_CONDITIONALS) if getattr(storage, key) is not None}
    if storage.provider is None:
        if not given:
            raise ProfileError("no provider and no T_* keys")
        base = _make_custom_profile(storage.min_latency_ms)
    else:
        base = _find_profile(storage.provider, storage.profile)
    floor = base.min_latency_ms if storage.min_latency_ms is None else storage.min_latency_ms
    if storage.min_latency_ms is not None:
        base = _with_floor(base, floor)
    reads, writes = dict(base.reads), dict(base.writes)
    root = given.get("T_METADATA_ROOT")
    if root is not None and "T_TABLE_METADATA" not in given:
        given["T_TABLE_METADATA"] = root  # by default, table metadata has the latency of the catalog file
    for key, kind in _OBJECTS.items():
        latencies: ReadWrite | None = given.get(key)
        if latencies is not None and latencies.read is not None:
            reads[kind] = _normal(latencies.read, floor)
        if latencies is not None and latencies.write is not None:
            writes[kind] = _normal(latencies.write, floor)
    changes: dict[str, Any] = {
        name: _normal(given[key], 0.0 if key == "T_LOG_ENTRY_READ" else floor)  # an entry adds to a read, it is not a request
        for key, name in _CONDITIONALS.items()
        if key in given
    }
    for name, failed in (("cas", "failed_cas"), ("append", "failed_append")):
        if name in changes:
            changes[failed] = None  # by default, a failure has the latency of a success
    return replace(base, reads=reads, writes=writes, **changes)


def catalog_profile(document: Document, storage: StorageProfile | None) -> StorageProfile | None:
    """Return the profile of the catalog's object store: its own, or that of ``[storage]``."""
    if document.catalog.provider is None:
        return storage
    return _find_profile(document.catalog.provider, document.storage.profile)


def catalog_kind(catalog: CatalogSection, profile: StorageProfile) -> CatalogKind:
    """Return the kind of catalog: the configured one, or the first of ``INFERRED_KINDS`` that the provider supports."""
    by_compare_and_swap, by_append = INFERRED_KINDS
    return CATALOG_KINDS[catalog.type or (by_append if profile.cas is None else by_compare_and_swap)]


def _find_profile(name: str, profile_set: str) -> StorageProfile:
    if name.endswith(".toml"):
        return load_profile(Path(name))
    profiles = builtin_profiles(profile_set)
    if name not in profiles:
        raise ProfileError(f"unknown provider {name!r}")
    return profiles[name]


def _make_custom_profile(min_latency_ms: float | None) -> StorageProfile:
    floor = _CUSTOM_FLOOR_MS if min_latency_ms is None else min_latency_ms
    fast, slow = _normal(_FAST, floor), _normal(_SLOW, floor)
    by_kind: dict[str, QuantileDistribution] = {"*": slow, provider.CATALOG: fast, provider.TABLE_METADATA: fast}
    return StorageProfile("custom", floor, reads=by_kind, writes=by_kind, cas=fast, description="described by T_* keys")


def _normal(latency: Normal, floor: float) -> NormalLatency:
    return NormalLatency(latency.mean, latency.stddev, floor)


def _with_floor(profile: StorageProfile, floor: float) -> StorageProfile:
    def lifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {kind: lifted(distribution) for kind, distribution in value.items()}
        if isinstance(value, FixedLatency):
            return FixedLatency(max(value.latency_ms, floor))
        return replace(value, min_latency_ms=floor) if hasattr(value, "min_latency_ms") else value

    changed = {each.name: lifted(getattr(profile, each.name)) for each in fields(profile)}
    return replace(profile, **{**changed, "min_latency_ms": floor})
