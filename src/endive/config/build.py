"""Build simulations from checked documents."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from endive.catalog import Catalog, Coalesce, ServiceCatalog, ServiceSettings, StoredCatalog
from endive.config.arrival_keys import build_arrivals
from endive.config.components import load_class, make_component
from endive.config.load import load_document
from endive.config.resolve import (
    ResolvedClass,
    catalog_kind,
    catalog_profile,
    find_path,
    find_protocol,
    follows_iceberg,
    partitions_per_table,
    resolve_classes,
    spans_groups,
    storage_profile,
)
from endive.config.schema import LAB_ONLY, CatalogSection, Document, RetryBackoff, Transactions
from endive.config.values import Latency, ManifestCounts, Runtime, Selection, ZipfTables
from endive.conflict_detector import PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.randomness import Stream
from endive.simulation import SimulationConfig
from endive.simulation.config import BACKOFF_FIELDS
from endive.simulation.steady_start import start_steady
from endive.storage import FixedLatency, ProfiledProvider, QuantileDistribution, StorageProfile, StorageProvider, distributions
from endive.table import ALL_MANIFESTS, OperationSettings, TableModel
from endive.transaction import OPERATIONS, Backoff, CommitPolicy, ConflictDetector, ManifestCount, ObjectSizes, Transaction
from endive.transaction.paths import DEFAULT_PATH, RETRY_POLICY
from endive.transaction.policy import Failures
from endive.workload import (
    CommitterSettings,
    UniformPartitionSelector,
    UniformTableSelector,
    Workload,
    WorkloadClass,
    WorkloadConfig,
    ZipfCount,
    ZipfPartitionSelector,
    ZipfTableSelector,
    assign_groups,
)

_DEFAULT_ALPHA = 1.5
Selector = TypeVar("Selector")
Value = TypeVar("Value")


def load_simulation_config(
    config_path: str | Path, *, seed_override: int | None = None, overrides: Mapping[str, Any] | None = None
) -> SimulationConfig:
    """Build a simulation from a TOML file.

    Args:
        config_path: Configuration file.
        seed_override: Seed to use instead of the one in the file.
        overrides: Dotted keys to set before the file is checked, such as ``{"transaction.retry": 4}``.

    Raises:
        ConfigError: If the configuration is invalid; the message names every problem.
    """
    return build_simulation_config(load_document(config_path, overrides), seed_override=seed_override)


def build_simulation_config(document: Document, *, seed_override: int | None = None) -> SimulationConfig:
    """Build a simulation from a checked document."""
    seed = document.simulation.seed if seed_override is None else seed_override
    if seed is None:
        seed = secrets.randbits(31)
    profile = storage_profile(document.storage)
    own = document.parts.provider
    provider: StorageProvider = (
        ProfiledProvider(profile, Stream(0)) if own is None else make_component("provider", own, {"rng": Stream(0)})
    )
    catalog, transaction = document.catalog, document.transaction
    partitions = partitions_per_table(document)
    groups = assign_groups(catalog.num_tables, catalog.pointers, catalog.group_sizes, seed)
    classes = tuple(_class(resolved, document) for resolved in resolve_classes(document))
    workload = WorkloadConfig(
        num_tables=catalog.num_tables,
        partitions_per_table=partitions,
        classes=classes,
        table_groups=groups,
        spans_groups=spans_groups(document),
    )
    policy = _policy(transaction, document)
    config = SimulationConfig(
        duration_ms=document.simulation.duration_ms,
        seed=seed,
        storage_provider=provider,
        catalog=_own_catalog(document, provider, partitions, groups)
        or _catalog(document, profile, partitions, groups, provider if own else None),
        workload=Workload(workload, seed),
        conflict_detector=_detector(transaction),
        max_retries=transaction.retry,
        ml_append_mode=transaction.manifest_list_mode == "append",
        policy=policy,
        **{f"backoff_{name}": getattr(policy.backoff, name) for name in BACKOFF_FIELDS},
        manifest_list_seal_threshold_bytes=transaction.manifest_list_seal_threshold,
        drain=document.simulation.drain,
        engine=document.simulation.engine,
    )
    if document.table.start != "steady" or _follows_protocol(document):
        return config
    return start_steady(config, document.table.given_counts)


def _own_catalog(
    document: Document, provider: StorageProvider, partitions: tuple[int, ...], groups: tuple[int, ...]
) -> Catalog | None:
    """Return the custom catalog, or None."""
    part = document.parts.catalog
    if part is None:
        return None
    offered: dict[str, Any] = {
        "provider": provider,
        "storage": provider,
        "num_tables": len(partitions),
        "num_partitions": max(partitions),
        "partitions_per_table": partitions,
        "table_groups": groups,
        "linearization": document.catalog.linearization,
        "rng": Stream(0),
    }
    catalog: Catalog = make_component("catalog", part, offered)
    return catalog


def _catalog(
    document: Document,
    storage: StorageProfile,
    partitions: tuple[int, ...],
    groups: tuple[int, ...],
    own: StorageProvider | None = None,
) -> StoredCatalog:
    """Build a built-in catalog. ``own`` is the custom object store, if any."""
    catalog = document.catalog
    held = catalog_profile(document, storage)
    assert held is not None
    kind = catalog_kind(catalog, held)
    protocol = next((cls.protocol for cls in resolve_classes(document) if cls.protocol is not None), None)
    if protocol is not None and protocol.commit_point == "put_if_absent":
        held = replace(held, object_writes_per_s=None)  # each commit writes a new object
    store = own if own is not None and catalog.provider is None else ProfiledProvider(held, Stream(0))
    tables = len(partitions)
    model = _table_model(document)
    if kind.catalog is ServiceCatalog:
        return ServiceCatalog(
            store,
            tables,
            partitions,
            _service(catalog),
            table_groups=groups,
            table_model=model,
            metadata_bytes=document.storage.sizes.table_metadata_bytes,
            metadata_limit_bytes=catalog.metadata_limit_bytes,
            unpublished_limit=None if protocol is None else protocol.unpublished_limit,
        )
    given: tuple[Any, ...] = (store,) if kind.stored else ()
    make: Callable[..., StoredCatalog] = kind.catalog
    return make(
        *given,
        tables,
        partitions,
        table_groups=groups,
        linearization=catalog.linearization,
        table_model=model,
        **{argument: getattr(catalog, key) for key, argument in kind.settings.items()},
    )


def _table_model(document: Document) -> TableModel | None:
    """Return the initial state of tables, or None if no commit path depends on it. For protocols, data files replace manifests."""
    if not follows_iceberg(document):
        return None
    files = {"manifests": document.table.files} if _follows_protocol(document) else {}
    return TableModel(**document.table.model_settings | files)


def _follows_protocol(document: Document) -> bool:
    return any(cls.protocol is not None for cls in resolve_classes(document))


def _service(catalog: CatalogSection) -> ServiceSettings:
    keys = [each.name for each in fields(ServiceSettings) if getattr(catalog, each.name, None) is not None]
    given: dict[str, Any] = {key: getattr(catalog, key) for key in keys}
    given |= {key: value.to_distribution() for key, value in given.items() if isinstance(value, Latency)}
    if catalog.coalesce is not None:
        given["coalesce"] = Coalesce(**catalog.coalesce.model_dump())
    return ServiceSettings(**given)


def _class(resolved: ResolvedClass, document: Document) -> WorkloadClass:
    settings, own = resolved.settings, resolved.own
    tables = settings.tables_per_txn
    hit = settings.manifests_hit
    return WorkloadClass(
        name=resolved.name,
        arrivals=build_arrivals(resolved.arrivals),
        start_ms=resolved.start_ms,
        end_ms=resolved.end_ms,
        committer=None if resolved.committer is None else CommitterSettings(**resolved.committer.model_dump()),
        runtime=settings.runtime.to_distribution(),
        operations=_operations(resolved, document),
        tables_per_txn=ZipfCount(tables.zipf) if isinstance(tables, ZipfTables) else tables,
        table_selector=_selector(settings.table_selection, UniformTableSelector, ZipfTableSelector),
        tables=None if own is None or own.tables is None else tuple(own.tables),
        partitions_per_txn=settings.partitions_per_txn,
        partition_selector=_selector(settings.partition_selection, UniformPartitionSelector, ZipfPartitionSelector),
        partition_range=None if own is None or own.partition_range is None else (own.partition_range[0], own.partition_range[1]),
        manifests_per_concurrent_commit=settings.manifests_per_concurrent_commit,
        max_retries=_own(settings.retry, document.transaction.retry),
        policy=_own(_policy(settings, document), _policy(document.transaction, document)),
        conflict_detector=_own_detector(settings, document.transaction),
        settings=OperationSettings(
            isolation=settings.isolation,
            by=settings.overwrite_by,
            deletes=settings.delete_files,
            manifests_hit=ALL_MANIFESTS if hit == "all" else hit,
            manifests_missed=settings.manifests_missed,
            max_snapshot_age_ms=-math.inf if settings.retain_snapshots else settings.max_snapshot_age_ms,
            min_snapshots_to_keep=settings.retain_snapshots or settings.min_snapshots_to_keep,
            commits_per_job=settings.commits_per_job,
            max_failed_commits=settings.max_failed_commits,
        ),
    )


def _own(value: Value, inherited: Value) -> Value | None:
    """Return the value of a class, or None if it equals the value of the run, so that changing the run also changes the class."""
    return None if value == inherited else value


def _own_detector(settings: Transactions, inherited: Transactions) -> ConflictDetector | None:
    keys = ("conflict_detector", "real_conflict_probability")
    return None if all(getattr(settings, key) == getattr(inherited, key) for key in keys) else _detector(settings)


def _operations(resolved: ResolvedClass, document: Document) -> dict[type[Transaction], float]:
    part = document.parts.transaction
    if part is not None and (part.classes is None or resolved.name in part.classes):
        return {load_class("transaction", part): 1.0}
    return {OPERATIONS[name]: weight for name, weight in resolved.settings.operation_types if weight > 0.0}


def _policy(settings: Transactions, document: Document) -> CommitPolicy:
    counts = settings.conflicting_manifests
    iceberg = settings.retry_policy == RETRY_POLICY
    protocol = find_protocol(settings.commit_path)
    return CommitPolicy(
        commit_path=settings.commit_path if protocol is None else DEFAULT_PATH.name,
        protocol=protocol,
        failures=Failures(**document.failures.model_dump(exclude=set(LAB_ONLY))) if document.failures.model_fields_set else None,
        backoff=_backoff(settings.retry_backoff, document.catalog.retry_after_ms, upwards=iceberg),
        table_handle=settings.table_handle,
        client_time=_client_time(settings.client_ms_per_access),
        timeout_from_retry=find_path(settings.commit_path).timeout_from_retry if iceberg else 0,
        total_timeout_ms=settings.total_timeout_ms,
        operation_timeout_ms=settings.operation_timeout_ms,
        on_real_conflict=settings.on_real_conflict or ("abort" if counts is None else "merge"),
        max_restarts=settings.max_restarts,
        conflicting_manifests=ManifestCount() if counts is None else _manifest_count(counts),
        max_parallel=document.storage.max_parallel,
        table_metadata_inlined=_inlines_metadata(document.catalog),
        manifest_list_entry_bytes=settings.manifest_list_entry_size,
        linearization=document.catalog.linearization,
        sizes=ObjectSizes(**document.storage.sizes.model_dump()),
    )


def _inlines_metadata(catalog: CatalogSection) -> bool:
    """Return whether the catalog stores table metadata; applies to commit paths that do not always write metadata.json."""
    return catalog.writes_metadata if catalog.type == "service" else catalog.table_metadata_inlined


def _backoff(section: RetryBackoff, retry_after_ms: float, upwards: bool) -> Backoff:
    values = section.model_dump()
    if section.kind == "retry_after":
        values["base_ms"] = retry_after_ms
    if isinstance(section.jitter, str):
        values |= {"jitter": 0.0, "kind": section.jitter if section.kind == "exponential" else section.kind}
    return Backoff(**values, upwards=upwards)


def _client_time(given: float | Runtime | None) -> QuantileDistribution | None:
    if isinstance(given, Runtime):
        return given.to_distribution()
    return FixedLatency(given) if given else None


def _manifest_count(counts: ManifestCounts) -> ManifestCount:
    shape: QuantileDistribution
    if counts.distribution == "uniform":
        shape = distributions.UniformLatency(counts.min - 0.5, counts.max + 0.5)  # gives each whole number the same probability
    elif counts.distribution == "fixed":
        shape = FixedLatency(counts.mean or 0.0)
    else:
        shape = distributions.ExponentialLatency(counts.mean or 0.0)
    return ManifestCount(shape, counts.min, counts.max)


def _detector(settings: Transactions) -> ConflictDetector:
    if settings.conflict_detector == "partition_overlap":
        return PartitionOverlapConflictDetector()
    return ProbabilisticConflictDetector(settings.real_conflict_probability, Stream(0))


def _selector(selection: Selection, uniform: Callable[[float], Selector], zipf: Callable[[float, float], Selector]) -> Selector:
    if selection.distribution == "uniform":
        return uniform(selection.write_fraction)
    return zipf(_DEFAULT_ALPHA if selection.alpha is None else selection.alpha, selection.write_fraction)
