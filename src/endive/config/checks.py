"""What a schema cannot say: keys that have to fit together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from endive.catalog.kinds import CATALOG_KINDS, CATALOG_SETTINGS, CatalogKind
from endive.config.class_checks import check_arrivals, check_committers, check_times, check_trace
from endive.config.errors import Problem, nearest
from endive.config.resolve import ResolvedClass, follows_iceberg, resolve_classes
from endive.config.schema import CatalogSection, Document, Transactions
from endive.config.store_profiles import INFERRED_KINDS, catalog_kind, catalog_profile, storage_profile
from endive.config.values import Section
from endive.input_files import available_bytes
from endive.storage import StorageProfile, builtin_profiles
from endive.storage.profiles import ProfileError
from endive.transaction.paths import DEFAULT_PATH, ICEBERG
from endive.transaction.policy import UNUSED_BY_KIND
from endive.workload.arrivals import INTER_ARRIVAL
from endive.workload.classes import ALL_CLASSES
from endive.workload.groups import group_sizes

Check = Callable[[Document], Iterator[Problem]]


def cross_checks(document: Document, broken: Collection[str] = ()) -> list[Problem]:
    """All that is wrong with a document whose keys are each right for themselves.

    Sections named in ``broken`` are not, so the checks that read them are left out.
    """
    problems: list[Problem] = []
    for check, sections in _CHECKS:
        if sections.isdisjoint(broken):
            problems += check(document)
    return problems


def partitions_per_table(document: Document) -> tuple[int, ...]:
    """Return the number of partitions of each table."""
    partitions = document.catalog.partitions
    if partitions.per_table is not None:
        return tuple(partitions.per_table)
    return (partitions.num_partitions or 1,) * document.catalog.num_tables


def _useless_keys(name: str, section: Section, keys: Collection[str], message: str) -> Iterator[Problem]:
    """Keys of a section that are given, and have no effect."""
    for key in sorted(section.changed_keys.intersection(keys)):
        yield Problem(f"{name}.{key}", message, getattr(section, key))


def _simulation(document: Document) -> Iterator[Problem]:
    path = document.simulation.output_path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        message = "must stay below the output directory: use a relative path without '..'"
        yield Problem("simulation.output_path", message, path)
    elif not Path(path).name:
        yield Problem("simulation.output_path", "should name a file", path)


def _memory(document: Document) -> Iterator[Problem]:
    """Check that tables and partitions fit into memory."""
    partitions = sum(partitions_per_table(document))
    needed = _BYTES_PER_TABLE * document.catalog.num_tables + _BYTES_PER_PARTITION * partitions
    if needed > available_bytes() / 2:
        size = f"{needed / 2**30:,.1f} GiB of memory"
        yield Problem("catalog.partitions", f"{partitions:,} partitions in all need about {size}, more than half of what is free")


_BYTES_PER_TABLE, _BYTES_PER_PARTITION = 700, 40
"""What the reference engine, which needs more, was seen to hold."""


def _topology(document: Document) -> Iterator[Problem]:
    catalog = document.catalog
    per_table = catalog.partitions.per_table
    if not _one_number_per_table(document):
        yield Problem("catalog.partitions.per_table", f"needs one number for each of the {catalog.num_tables} tables", per_table)
    if catalog.pointers > catalog.num_tables:
        yield Problem("catalog.num_groups", f"is more than the {catalog.num_tables} tables", catalog.num_groups)


def spans_groups(document: Document) -> bool:
    """Return whether transactions may touch tables with pointers of their own: a service commits to all of them or to none."""
    catalog = document.catalog
    return catalog.type == "service" and catalog.pointers == catalog.num_tables


def _one_number_per_table(document: Document) -> bool:
    per_table = document.catalog.partitions.per_table
    return per_table is None or len(per_table) == document.catalog.num_tables


def _catalog_effects(document: Document) -> Iterator[Problem]:
    """Keys of ``[catalog]`` that would be accepted and have no effect."""
    catalog = document.catalog
    names = [catalog.type] if catalog.type else INFERRED_KINDS
    yield from _settings_of_other_kinds(catalog, [CATALOG_KINDS[name] for name in names])
    if "group_sizes" in catalog.changed_keys and catalog.pointers == 1:
        yield Problem("catalog.group_sizes", "has an effect only with catalog.num_groups above 1", catalog.group_sizes)


def _settings_of_other_kinds(catalog: CatalogSection, kinds: Sequence[CatalogKind]) -> Iterator[Problem]:
    """Keys that have no effect with any of these kinds."""
    used = {key for kind in kinds for key in kind.settings}
    for key in sorted((CATALOG_SETTINGS - used) & catalog.changed_keys):
        owners = " or ".join(f'"{name}"' for name, kind in CATALOG_KINDS.items() if key in kind.settings)
        yield Problem(f"catalog.{key}", f"has an effect only with catalog.type = {owners}", getattr(catalog, key))
    if "provider" in catalog.model_fields_set and not any(kind.stored for kind in kinds):
        yield Problem("catalog.provider", f'has no effect with catalog.type = "{kinds[0].name}"', catalog.provider)


def _service(document: Document) -> Iterator[Problem]:
    """Keys of a service that contradict each other."""
    catalog = document.catalog
    given = catalog.changed_keys
    if catalog.type != "service":
        return
    if "linearization" in given:
        message = 'has no effect with catalog.type = "service": a commit takes effect at the end of its service'
        yield Problem("catalog.linearization", message)
    if catalog.queue_limit is not None and catalog.workers == 0 and catalog.coalesce is None:
        yield Problem("catalog.queue_limit", "has no effect without a queue. Set catalog.workers.", catalog.queue_limit)
    if catalog.queue_limit is None:
        heeded = any(cls.settings.retry_backoff.kind == "retry_after" for cls in resolve_classes(document))
        keys = ("max_resends",) if heeded else ("max_resends", "retry_after_ms")
        yield from _useless_keys("catalog", catalog, keys, "has an effect only with catalog.queue_limit")
    if "transfer_ms_per_mib" in given and not catalog.table_metadata_inlined:
        message = "has no effect with table_metadata_inlined = false: the client reads metadata.json by itself"
        yield Problem("catalog.transfer_ms_per_mib", message, catalog.transfer_ms_per_mib)
    if document.transaction.manifest_list_mode == "append":
        message = 'ML+ goes with the catalogs "cas" and "append", not with a service'
        yield Problem("transaction.manifest_list_mode", message, "append")
    if catalog.coalesce is not None:
        yield from _coalesce(document)


def _failures(document: Document) -> Iterator[Problem]:
    """Keys of ``[failures]`` that contradict each other or others."""
    failures = document.failures
    if failures.on_unknown == "idempotency_key" and document.catalog.type != "service":
        message = 'needs a service that knows the key: catalog.type = "service"; "check" goes with every catalog'
        yield Problem("failures.on_unknown", message, failures.on_unknown)
    if "on_unknown" in failures.changed_keys and failures.lost_answer == 0.0:
        yield Problem("failures.on_unknown", "has an effect only with failures.lost_answer", failures.on_unknown)
    if failures.lost_answer == 0.0 or failures.on_unknown != "check":
        message = 'has an effect only with lost_answer and on_unknown = "check"'
        yield from _useless_keys("failures", failures, ("status_checks", "min_wait_ms", "max_wait_ms"), message)


def _coalesce(document: Document) -> Iterator[Problem]:
    catalog = document.catalog
    if catalog.lock == "none":
        message = 'contradicts catalog.coalesce: commits of one table wait for each other; lock = "table" does'
        yield Problem("catalog.lock", message, "none")
    if "server_retries" in catalog.changed_keys:
        message = "has no effect with catalog.coalesce, which applies appends to whatever state there is"
        yield Problem("catalog.server_retries", message, catalog.server_retries)
    for cls in resolve_classes(document):
        if cls.settings.tables_per_txn != 1:
            message = "must be 1 with catalog.coalesce: a batch is of one table"
            yield Problem(cls.key("tables_per_txn"), message, cls.settings.tables_per_txn)


def _transaction_effects(document: Document) -> Iterator[Problem]:
    """Keys of ``[transaction]`` that would be accepted and have no effect."""
    if document.transaction.manifest_list_mode != "append":
        message = 'has an effect only with manifest_list_mode = "append"'
        keys = ("manifest_list_seal_threshold", "manifest_list_entry_size")
        yield from _useless_keys("transaction", document.transaction, keys, message)


def _workload_effects(document: Document) -> Iterator[Problem]:
    """Keys of ``[transaction]`` that no class of ``[workload]`` uses."""
    if ALL_CLASSES in document.workload:
        yield Problem(f"workload.{ALL_CLASSES}", "is the name of totals over all classes. Choose another name.")
    transaction, classes = document.transaction, document.workload.values()
    if classes:
        own = all(cls.kind is not None for cls in classes)
        if own and INTER_ARRIVAL.key in transaction.changed_keys:
            yield Problem(
                f"transaction.{INTER_ARRIVAL.key}", "has no effect: every class of [workload] has arrivals of its own. Remove it."
            )
        if "operation_types" in transaction.changed_keys and all(
            {"operation", "operation_types"} & cls.model_fields_set for cls in classes
        ):
            yield Problem(
                "transaction.operation_types", "has no effect: every class of [workload] has operations of its own. Remove it."
            )


_FILES = ("overwrite_by", "delete_files", "manifests_hit", "manifests_missed", "retain_snapshots")


def _iceberg(document: Document) -> Iterator[Problem]:
    """Check keys and operations that a commit path does not have."""
    if not follows_iceberg(document) and document.table.changed_keys:
        yield Problem(
            "table", f"has no effect on the commit path {DEFAULT_PATH.name}. Set commit_path, for example to {ICEBERG.name!r}."
        )
    for cls in resolve_classes(document):
        settings, given = cls.settings, cls.changed_keys
        if not cls.path.keeps_files:
            for key in _FILES:
                if key in given:
                    yield Problem(cls.key(key), f"has no effect on the commit path {DEFAULT_PATH.name}", getattr(settings, key))
            continue
        where = f'commit_path = "{settings.commit_path}"'
        if document.transaction.manifest_list_mode == "append":
            yield Problem(cls.key("commit_path"), "does not append to manifest lists (ML+)", settings.commit_path)
        if settings.on_real_conflict == "merge" or (settings.conflicting_manifests and settings.on_real_conflict is None):
            yield Problem(cls.key("on_real_conflict"), f"Iceberg does not merge real conflicts: not with {where}", "merge")
        unknown = {name for name, weight in settings.operation_types if weight > 0.0} - cls.path.operations - {"read_only"}
        if unknown:
            yield Problem(cls.key("commit_path"), f"{cls.path.client} has no {', '.join(sorted(unknown))}", cls.path.name)
        if "manifests_per_concurrent_commit" in given:
            message = f"has no effect with {where}: [table] says when manifests are merged"
            yield Problem(cls.key("manifests_per_concurrent_commit"), message, settings.manifests_per_concurrent_commit)


def _parts(document: Document) -> Iterator[Problem]:
    """Parts of one's own where they cannot be."""
    parts = document.parts
    if not parts.model_fields_set:
        return
    if document.simulation.engine == "compiled":
        yield Problem(
            "simulation.engine",
            "custom components run on the reference engine only. Use 'auto' or 'reference'.",
            document.simulation.engine,
        )
    for kind in ("provider", "catalog"):
        part = getattr(parts, kind)
        if part is not None and part.classes is not None:
            yield Problem(f"parts.{kind}.classes", "has an effect only for a transaction", part.classes)
    if parts.transaction is not None:
        if parts.transaction.options:
            yield Problem("parts.transaction.options", "a transaction takes no options")
        for name in parts.transaction.classes or ():
            if name not in document.workload:
                yield Problem("parts.transaction.classes", f"there is no class {name!r}; {nearest(name, document.workload)}")


def _storage_effects(document: Document) -> Iterator[Problem]:
    """Keys of ``[storage]`` that would be accepted and have no effect."""
    storage = document.storage
    if "profile" in storage.changed_keys and (storage.provider or "").endswith(".toml"):
        yield Problem("storage.profile", "has no effect on a custom profile", storage.profile)


def _handles(document: Document) -> Iterator[Problem]:
    """Kept handles where nothing is saved by them."""
    for cls in resolve_classes(document):
        if "table_handle" in cls.changed_keys and cls.settings.table_handle == "kept" and document.catalog.table_metadata_inlined:
            message = "has an effect only with catalog.table_metadata_inlined = false: there is no metadata to be read apart"
            yield Problem(cls.key("table_handle"), message, "kept")


def _classes(document: Document) -> Iterator[Problem]:
    for resolved in resolve_classes(document):
        yield from check_arrivals(resolved)
        yield from _useless(resolved, resolved.settings)
        if _one_number_per_table(document):
            yield from _access(resolved, document)


def _arrival_times(document: Document) -> Iterator[Problem]:
    """Arrivals that have to fit the length of the run, and traces the tables too."""
    for resolved in resolve_classes(document):
        yield from check_times(resolved, document)
        if _one_number_per_table(document):
            yield from check_trace(resolved, document, partitions_per_table(document))


def _access(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check the tables and partitions of a class."""
    settings, own = cls.settings, cls.own
    partitions = partitions_per_table(document)
    outside = [table for table in own.tables or () if table >= len(partitions)] if own else []
    if outside:
        yield Problem(cls.key("tables"), f"there are only {len(partitions)} tables, numbered from 0", outside)
        return
    if own and own.tables is not None and len(set(own.tables)) != len(own.tables):
        yield Problem(cls.key("tables"), "names a table twice", own.tables)
    tables = own.tables if own and own.tables is not None else range(len(partitions))
    if isinstance(settings.tables_per_txn, int) and settings.tables_per_txn > len(tables):
        yield Problem(cls.key("tables_per_txn"), f"is more than the {len(tables)} tables", settings.tables_per_txn)
    else:
        yield from _within_groups(cls, document)
    fewest = min(partitions[table] for table in tables)
    if own and own.partition_range is not None:
        first, end = own.partition_range
        if not first < end <= fewest:
            yield Problem(cls.key("partition_range"), f"must be [first, end] with first < end <= {fewest}", own.partition_range)
            return
        fewest = end - first
        if settings.partitions_per_txn is None:
            yield Problem(cls.key("partition_range"), "has an effect only with partitions_per_txn", own.partition_range)
    wanted = settings.partitions_per_txn
    if wanted is not None and wanted > fewest:
        yield Problem(cls.key("partitions_per_txn"), f"is more than the {fewest} partitions of a table", wanted)


def _within_groups(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check that the largest group has enough tables: a transaction never leaves its group."""
    catalog, wanted = document.catalog, cls.settings.tables_per_txn
    if not 1 < catalog.pointers <= catalog.num_tables or spans_groups(document):
        return
    largest = group_sizes(catalog.num_tables, catalog.pointers, catalog.group_sizes)[0]
    if isinstance(wanted, int) and wanted > largest:
        yield Problem(cls.key("tables_per_txn"), f"is more than the {largest} tables of the largest group", wanted)
    elif not isinstance(wanted, int) and largest == 1:
        yield Problem(cls.key("tables_per_txn"), "has no effect: every group has one table, and transactions stay in theirs")


def _useless_waits(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    """Keys of backoff that its kind does not use; Iceberg's defaults for them are accepted."""
    backoff = settings.retry_backoff
    if settings.retry_policy is None:
        for key in sorted(UNUSED_BY_KIND.get(backoff.kind, frozenset()) & backoff.changed_keys):
            yield Problem(cls.key(f"retry_backoff.{key}"), f'has no effect with kind = "{backoff.kind}"', getattr(backoff, key))


def _retry_after(document: Document) -> Iterator[Problem]:
    """Only a service can say how long to wait."""
    for cls in resolve_classes(document):
        if cls.settings.retry_backoff.kind == "retry_after" and document.catalog.type != "service":
            message = 'needs a service that says how long to wait: catalog.type = "service", with catalog.retry_after_ms'
            yield Problem(cls.key("retry_backoff.kind"), message, "retry_after")


def _useless(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    given = cls.changed_keys
    yield from _useless_waits(cls, settings)
    if settings.partitions_per_txn is None and "partition_selection" in given:
        yield Problem(cls.key("partition_selection"), "has an effect only with partitions_per_txn")
    if settings.on_real_conflict != "restart" and "max_restarts" in given:
        yield Problem(cls.key("max_restarts"), 'has an effect only with on_real_conflict = "restart"', settings.max_restarts)
    if settings.on_real_conflict not in (None, "merge") and "conflicting_manifests" in given:
        yield Problem(cls.key("conflicting_manifests"), 'has an effect only with on_real_conflict = "merge"')
    if settings.conflict_detector != "probabilistic" and "real_conflict_probability" in given:
        value = settings.real_conflict_probability
        yield Problem(cls.key("real_conflict_probability"), "has an effect only with the probabilistic detector", value)


def _providers(document: Document) -> Iterator[Problem]:
    storage, catalog = document.storage, document.catalog
    profile: StorageProfile | None = None
    try:
        profile = storage_profile(storage)
    except (ProfileError, OSError) as error:
        yield _unknown_provider("storage.provider", storage.provider or "", error)
    held = None
    try:
        held = catalog_profile(document, profile)
    except (ProfileError, OSError) as error:
        yield _unknown_provider("catalog.provider", catalog.provider or "", error)
    if held is not None:
        kind = catalog_kind(catalog, held)
        if catalog.type is None:
            yield from _settings_of_other_kinds(catalog, [kind])
        for accesses, message in kind.needs.items():
            if all(getattr(held, access) is None for access in accesses):
                yield Problem("catalog.type", f"{kind.name} {message.format(repr(held.name))}", kind.name)


def _manifest_lists(document: Document) -> Iterator[Problem]:
    if document.transaction.manifest_list_mode != "append":
        return
    try:
        profile = storage_profile(document.storage)
    except (ProfileError, OSError):
        return  # which _providers tells
    if profile.append is None:
        message = f"append (ML+) needs a provider that can append; {profile.name!r} cannot"
        yield Problem("transaction.manifest_list_mode", message, "append")


def _unknown_provider(key: str, name: str, error: Exception) -> Problem:
    if Path(name).suffix == ".toml":
        return Problem(key, str(error))
    if not name:
        return Problem(key, "is missing: name a provider, or describe one with the T_* keys")
    return Problem(key, f"there is no such provider; {nearest(name, builtin_profiles())}", name)


_CHECKS: tuple[tuple[Check, set[str]], ...] = (
    (_simulation, {"simulation"}),
    (_memory, {"catalog"}),
    (_topology, {"catalog"}),
    (_catalog_effects, {"catalog"}),
    (_service, {"catalog", "transaction", "workload"}),
    (_failures, {"failures", "catalog", "simulation"}),
    (_transaction_effects, {"transaction"}),
    (_workload_effects, {"transaction", "workload"}),
    (_storage_effects, {"storage"}),
    (_parts, {"parts", "simulation", "workload"}),
    (_classes, {"catalog", "transaction", "workload"}),
    (_handles, {"catalog", "transaction", "workload"}),
    (_arrival_times, {"simulation", "catalog", "transaction", "workload"}),
    (_retry_after, {"catalog", "transaction", "workload"}),
    (check_committers, {"simulation", "catalog", "transaction", "workload"}),
    (_iceberg, {"transaction", "workload", "table"}),
    (_providers, {"storage", "catalog"}),
    (_manifest_lists, {"storage", "transaction"}),
)
"""Each check and the sections that it reads."""
