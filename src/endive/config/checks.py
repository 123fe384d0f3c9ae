"""Checks across keys, which the schema cannot express."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from endive.catalog.kinds import CATALOG_KINDS, CATALOG_SETTINGS, CatalogKind
from endive.config.class_checks import check_arrivals, check_committers, check_times, check_trace
from endive.config.errors import Problem, nearest
from endive.config.protocol_checks import check_protocols
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
    """Return the problems of keys that contradict each other.

    Args:
        document: a document in which every key is valid by itself.
        broken: names of invalid sections; checks that read them are skipped.
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
    """Report the given keys of a section, with the same message for each."""
    for key in sorted(section.changed_keys.intersection(keys)):
        yield Problem(f"{name}.{key}", message, getattr(section, key))


def _simulation(document: Document) -> Iterator[Problem]:
    path = document.simulation.output_path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        message = "must stay below the output directory: use a relative path without '..'"
        yield Problem("simulation.output_path", message, path)
    elif not Path(path).name:
        yield Problem("simulation.output_path", "must name a file", path)


def _memory(document: Document) -> Iterator[Problem]:
    """Check that tables and partitions fit into memory."""
    partitions = sum(partitions_per_table(document))
    needed = _BYTES_PER_TABLE * document.catalog.num_tables + _BYTES_PER_PARTITION * partitions
    if needed > available_bytes() / 2:
        size = f"{needed / 2**30:,.1f} GiB"
        yield Problem("catalog.partitions", f"{partitions:,} partitions need about {size}, more than half of the free memory")


_BYTES_PER_TABLE, _BYTES_PER_PARTITION = 700, 40
"""Measured memory of the reference engine, which needs more than the compiled one."""


def _topology(document: Document) -> Iterator[Problem]:
    catalog = document.catalog
    per_table = catalog.partitions.per_table
    if not _one_number_per_table(document):
        yield Problem("catalog.partitions.per_table", f"must have {catalog.num_tables} values, one per table", per_table)
    if catalog.pointers > catalog.num_tables:
        yield Problem("catalog.num_groups", f"must be at most catalog.num_tables = {catalog.num_tables}", catalog.num_groups)


def spans_groups(document: Document) -> bool:
    """Return whether a transaction may span tables with separate commit pointers: Iceberg's REST catalogs commit atomically."""
    catalog = document.catalog
    follows_protocol = any(cls.protocol is not None for cls in resolve_classes(document))
    return catalog.type == "service" and catalog.pointers == catalog.num_tables and not follows_protocol


def _one_number_per_table(document: Document) -> bool:
    per_table = document.catalog.partitions.per_table
    return per_table is None or len(per_table) == document.catalog.num_tables


def _catalog_effects(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[catalog]`` that have no effect."""
    catalog = document.catalog
    names = [catalog.type] if catalog.type else INFERRED_KINDS
    yield from _settings_of_other_kinds(catalog, [CATALOG_KINDS[name] for name in names])
    if "group_sizes" in catalog.changed_keys and catalog.pointers == 1:
        yield Problem("catalog.group_sizes", "has no effect unless catalog.num_groups is above 1", catalog.group_sizes)


def _settings_of_other_kinds(catalog: CatalogSection, kinds: Sequence[CatalogKind]) -> Iterator[Problem]:
    """Check for keys that none of these kinds uses."""
    used = {key for kind in kinds for key in kind.settings}
    for key in sorted((CATALOG_SETTINGS - used) & catalog.changed_keys):
        owners = " or ".join(f'"{name}"' for name, kind in CATALOG_KINDS.items() if key in kind.settings)
        yield Problem(f"catalog.{key}", f"has no effect unless catalog.type = {owners}", getattr(catalog, key))
    if "provider" in catalog.model_fields_set and not any(kind.stored for kind in kinds):
        yield Problem("catalog.provider", f'has no effect with catalog.type = "{kinds[0].name}"', catalog.provider)


def _service(document: Document) -> Iterator[Problem]:
    """Check for keys of a service that contradict each other."""
    catalog = document.catalog
    given = catalog.changed_keys
    if catalog.type != "service":
        return
    if "linearization" in given:
        message = 'has no effect with catalog.type = "service": a commit takes effect when the server completes it'
        yield Problem("catalog.linearization", message)
    if catalog.queue_limit is not None and catalog.workers == 0 and catalog.coalesce is None:
        yield Problem("catalog.queue_limit", "has no effect unless catalog.workers or catalog.coalesce is set", catalog.queue_limit)
    if catalog.queue_limit is None:
        heeded = any(cls.settings.retry_backoff.kind == "retry_after" for cls in resolve_classes(document))
        keys = ("max_resends",) if heeded else ("max_resends", "retry_after_ms")
        yield from _useless_keys("catalog", catalog, keys, "has no effect unless catalog.queue_limit is set")
    if catalog.server_retries == 0:
        keys = ("server_retry_mode", "server_backoff_ms")
        yield from _useless_keys("catalog", catalog, keys, "has no effect unless catalog.server_retries is above 0")
    if "transfer_ms_per_mib" in given and not catalog.writes_metadata:
        message = "has no effect with catalog.writes_metadata = false: clients read metadata.json from the object store"
        yield Problem("catalog.transfer_ms_per_mib", message, catalog.transfer_ms_per_mib)
    if document.transaction.manifest_list_mode == "append":
        message = 'needs catalog.type = "cas" or "append": a service does not support ML+'
        yield Problem("transaction.manifest_list_mode", message, "append")
    if catalog.coalesce is not None:
        yield from _coalesce(document)


def _failures(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[failures]`` that have no effect or contradict other keys."""
    failures = document.failures
    if failures.on_unknown == "idempotency_key" and document.catalog.type != "service":
        message = 'needs catalog.type = "service"; "check" and "retry" work with every catalog'
        yield Problem("failures.on_unknown", message, failures.on_unknown)
    if "on_unknown" in failures.changed_keys and failures.lost_answer == 0.0:
        yield Problem("failures.on_unknown", "has no effect unless failures.lost_answer is above 0", failures.on_unknown)
    if failures.slow_response == 0.0:
        message = "has no effect unless failures.slow_response is above 0"
        yield from _useless_keys("failures", failures, ("slow_response_ms",), message)
    if failures.lost_answer == 0.0 or failures.on_unknown != "check":
        message = 'has no effect unless failures.lost_answer is above 0 and on_unknown = "check"'
        yield from _useless_keys("failures", failures, ("status_checks", "min_wait_ms", "max_wait_ms"), message)


def _coalesce(document: Document) -> Iterator[Problem]:
    catalog = document.catalog
    if catalog.lock == "none":
        message = 'contradicts catalog.coalesce, which serializes the commits of a table; use "table" or remove it'
        yield Problem("catalog.lock", message, "none")
    message = "has no effect with catalog.coalesce, which applies appends to the current state of the table"
    yield from _useless_keys("catalog", catalog, ("server_retries",), message)
    for cls in resolve_classes(document):
        if cls.settings.tables_per_txn != 1:
            message = "must be 1 with catalog.coalesce: a batch commits to one table"
            yield Problem(cls.key("tables_per_txn"), message, cls.settings.tables_per_txn)


def _transaction_effects(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[transaction]`` that have no effect."""
    if document.transaction.manifest_list_mode != "append":
        message = 'has no effect unless transaction.manifest_list_mode = "append"'
        keys = ("manifest_list_seal_threshold", "manifest_list_entry_size")
        yield from _useless_keys("transaction", document.transaction, keys, message)


def _workload_effects(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[transaction]`` that no class of ``[workload]`` inherits, and for reserved class names."""
    if ALL_CLASSES in document.workload:
        yield Problem(f"workload.{ALL_CLASSES}", "is reserved for totals over all classes; choose another name")
    transaction, classes = document.transaction, document.workload.values()
    if classes:
        own = all(cls.kind is not None for cls in classes)
        if own and INTER_ARRIVAL.key in transaction.changed_keys:
            yield Problem(f"transaction.{INTER_ARRIVAL.key}", "has no effect: every class of [workload] sets its own arrivals")
        if "operation_types" in transaction.changed_keys and all(
            {"operation", "operation_types"} & cls.model_fields_set for cls in classes
        ):
            yield Problem("transaction.operation_types", "has no effect: every class of [workload] sets its own operations")


_EXPIRY = ("max_snapshot_age_ms", "min_snapshots_to_keep")
_JOBS = ("commits_per_job", "max_failed_commits")
_FILES = ("overwrite_by", "delete_files", "manifests_hit", "manifests_missed", "retain_snapshots", *_EXPIRY, *_JOBS)


def _iceberg(document: Document) -> Iterator[Problem]:
    """Check for keys and operations that a commit path does not support."""
    if not follows_iceberg(document) and document.table.changed_keys:
        yield Problem(
            "table", f"has no effect with commit_path = {DEFAULT_PATH.name!r}; set commit_path, for example to {ICEBERG.name!r}"
        )
    for cls in resolve_classes(document):
        settings, given = cls.settings, cls.changed_keys
        if not cls.path.keeps_files:
            for key in _FILES:
                if key in given:
                    yield Problem(cls.key(key), f"has no effect with commit_path = {DEFAULT_PATH.name!r}", getattr(settings, key))
            continue
        where = f'commit_path = "{settings.commit_path}"'
        if document.transaction.manifest_list_mode == "append":
            yield Problem(
                cls.key("commit_path"),
                f"does not support ML+; use {DEFAULT_PATH.name!r}, or manifest_list_mode = 'rewrite'",
                settings.commit_path,
            )
        if settings.on_real_conflict == "merge" or (settings.conflicting_manifests and settings.on_real_conflict is None):
            yield Problem(
                cls.key("on_real_conflict"),
                f"is not supported with {where}: Iceberg aborts or restarts on a real conflict",
                "merge",
            )
        unknown = {name for name, weight in settings.operation_types if weight > 0.0} - cls.path.operations - {"read_only"}
        if unknown:
            allowed = ", ".join(sorted(cls.path.operations))
            message = f"{cls.path.client} does not support {', '.join(sorted(unknown))}; set operation to one of {allowed}"
            yield Problem(cls.key("commit_path"), message, cls.path.name)
        yield from _jobs(cls)
        for key in _EXPIRY:
            if {"retain_snapshots", key} <= given:
                yield Problem(cls.key(key), "has no effect with retain_snapshots; keep one of them", getattr(settings, key))
        if "manifests_per_concurrent_commit" in given:
            message = f"has no effect with {where}; [table] sets when manifests are merged"
            yield Problem(cls.key("manifests_per_concurrent_commit"), message, settings.manifests_per_concurrent_commit)


def _jobs(cls: ResolvedClass) -> Iterator[Problem]:
    """Check the keys of jobs with several commits."""
    settings = cls.settings
    if settings.commits_per_job == 1:
        if settings.max_failed_commits is not None:
            yield Problem(cls.key("max_failed_commits"), "has no effect without commits_per_job", settings.max_failed_commits)
        return
    key = cls.key("commits_per_job")
    rewrites = dict(settings.operation_types)["rewrite_files"] > 0.0
    if not rewrites and cls.arrivals.trace is None and "commits_per_job" in cls.changed_keys:
        yield Problem(key, "has no effect without the operation rewrite_files", settings.commits_per_job)
    if cls.path is not ICEBERG and rewrites:
        yield Problem(key, f"needs commit_path = {ICEBERG.name!r}", settings.commits_per_job)
    if settings.on_real_conflict == "restart":
        yield Problem(key, 'is not supported with on_real_conflict = "restart"', settings.commits_per_job)
    if cls.committer is not None:
        yield Problem(key, "is not supported with a committer", settings.commits_per_job)


def _parts(document: Document) -> Iterator[Problem]:
    """Check custom components against the engine and the workload classes."""
    parts = document.parts
    if not parts.model_fields_set:
        return
    if document.simulation.engine == "compiled":
        yield Problem(
            "simulation.engine",
            "must be 'auto' or 'reference': custom components run on the reference engine only",
            document.simulation.engine,
        )
    for kind in ("provider", "catalog"):
        part = getattr(parts, kind)
        if part is not None and part.classes is not None:
            yield Problem(f"parts.{kind}.classes", "applies to parts.transaction only", part.classes)
    if parts.transaction is not None:
        if parts.transaction.options:
            yield Problem("parts.transaction.options", "are not supported: a transaction takes no options")
        for name in parts.transaction.classes or ():
            if name not in document.workload:
                yield Problem("parts.transaction.classes", f"unknown class {name!r}; {nearest(name, document.workload)}")


def _storage_effects(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[storage]`` that have no effect."""
    storage = document.storage
    if "profile" in storage.changed_keys and (storage.provider or "").endswith(".toml"):
        yield Problem("storage.profile", "has no effect with a custom profile (*.toml)", storage.profile)


def _metadata(document: Document) -> Iterator[Problem]:
    """Check for ``table_metadata_inlined`` where it does not decide who writes table metadata."""
    catalog = document.catalog
    if "table_metadata_inlined" not in catalog.changed_keys:
        return
    if catalog.type == "service":
        message = 'has no effect with catalog.type = "service"; use catalog.writes_metadata = false if clients write metadata.json'
    elif all(cls.path.always_writes_metadata for cls in resolve_classes(document)):
        message = f"has no effect: Iceberg's clients always write metadata.json. It is a key of commit_path = {DEFAULT_PATH.name!r}"
    else:
        return
    yield Problem("catalog.table_metadata_inlined", message, catalog.table_metadata_inlined)


def _handles(document: Document) -> Iterator[Problem]:
    """Check for cached table handles that save no request."""
    catalog = document.catalog
    on_service = catalog.type == "service"
    inlined = catalog.writes_metadata if on_service else catalog.table_metadata_inlined
    for cls in resolve_classes(document):
        if not inlined or cls.path.always_writes_metadata:
            continue
        if "table_handle" in cls.changed_keys and cls.settings.table_handle == "kept":
            key = "writes_metadata" if on_service else "table_metadata_inlined"
            message = f"has no effect unless catalog.{key} = false: the catalog returns table metadata"
            yield Problem(cls.key("table_handle"), message, "kept")


def _classes(document: Document) -> Iterator[Problem]:
    for resolved in resolve_classes(document):
        yield from check_arrivals(resolved)
        yield from _useless(resolved, resolved.settings)
        if _one_number_per_table(document):
            yield from _access(resolved, document)


def _arrival_times(document: Document) -> Iterator[Problem]:
    """Check arrivals against the length of the run, and traces against the tables."""
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
        yield Problem(
            cls.key("tables"), f"must be below catalog.num_tables = {len(partitions)}; tables are numbered from 0", outside
        )
        return
    if own and own.tables is not None and len(set(own.tables)) != len(own.tables):
        yield Problem(cls.key("tables"), "contains duplicates", own.tables)
    tables = own.tables if own and own.tables is not None else range(len(partitions))
    if isinstance(settings.tables_per_txn, int) and settings.tables_per_txn > len(tables):
        yield Problem(cls.key("tables_per_txn"), f"must be at most {len(tables)}, the number of tables", settings.tables_per_txn)
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
            yield Problem(cls.key("partition_range"), "has no effect unless partitions_per_txn is set", own.partition_range)
    wanted = settings.partitions_per_txn
    if wanted is not None and wanted > fewest:
        yield Problem(cls.key("partitions_per_txn"), f"must be at most {fewest}, the number of partitions of a table", wanted)


def _within_groups(cls: ResolvedClass, document: Document) -> Iterator[Problem]:
    """Check that the largest group has enough tables: a transaction never spans groups."""
    catalog, wanted = document.catalog, cls.settings.tables_per_txn
    if not 1 < catalog.pointers <= catalog.num_tables or spans_groups(document):
        return
    largest = group_sizes(catalog.num_tables, catalog.pointers, catalog.group_sizes)[0]
    if isinstance(wanted, int) and wanted > largest:
        yield Problem(cls.key("tables_per_txn"), f"must be at most {largest}, the size of the largest table group", wanted)
    elif not isinstance(wanted, int) and largest == 1:
        yield Problem(
            cls.key("tables_per_txn"), "has no effect: every table group has one table, and a transaction does not span groups"
        )


def _useless_waits(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    """Check for keys that the kind of backoff does not use. Iceberg's defaults for them are accepted."""
    backoff = settings.retry_backoff
    if settings.retry_policy is None:
        for key in sorted(UNUSED_BY_KIND.get(backoff.kind, frozenset()) & backoff.changed_keys):
            yield Problem(cls.key(f"retry_backoff.{key}"), f'has no effect with kind = "{backoff.kind}"', getattr(backoff, key))


def _retry_after(document: Document) -> Iterator[Problem]:
    """Check that ``retry_after`` is used with a service."""
    for cls in resolve_classes(document):
        if cls.settings.retry_backoff.kind == "retry_after" and document.catalog.type != "service":
            message = 'needs catalog.type = "service", which sends Retry-After (catalog.retry_after_ms)'
            yield Problem(cls.key("retry_backoff.kind"), message, "retry_after")


def _useless(cls: ResolvedClass, settings: Transactions) -> Iterator[Problem]:
    given = cls.changed_keys
    yield from _useless_waits(cls, settings)
    if settings.partitions_per_txn is None and "partition_selection" in given:
        yield Problem(cls.key("partition_selection"), "has no effect unless partitions_per_txn is set")
    if settings.on_real_conflict != "restart" and "max_restarts" in given:
        yield Problem(cls.key("max_restarts"), 'has no effect unless on_real_conflict = "restart"', settings.max_restarts)
    if settings.on_real_conflict not in (None, "merge") and "conflicting_manifests" in given:
        yield Problem(cls.key("conflicting_manifests"), 'has no effect unless on_real_conflict = "merge"')
    if settings.conflict_detector != "probabilistic" and "real_conflict_probability" in given:
        value = settings.real_conflict_probability
        yield Problem(cls.key("real_conflict_probability"), 'has no effect unless conflict_detector = "probabilistic"', value)


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
        return  # reported by _providers
    if profile.append is None:
        message = f"needs a provider with append support; {profile.name!r} has none"
        yield Problem("transaction.manifest_list_mode", message, "append")


def _unknown_provider(key: str, name: str, error: Exception) -> Problem:
    if Path(name).suffix == ".toml":
        return Problem(key, str(error))
    if not name:
        return Problem(key, "is missing; set a provider or the T_* keys")
    return Problem(key, f"unknown provider; {nearest(name, builtin_profiles())}", name)


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
    (_metadata, {"catalog", "transaction", "workload"}),
    (_arrival_times, {"simulation", "catalog", "transaction", "workload"}),
    (_retry_after, {"catalog", "transaction", "workload"}),
    (check_committers, {"simulation", "catalog", "transaction", "workload"}),
    (_iceberg, {"transaction", "workload", "table"}),
    (check_protocols, {"catalog", "transaction", "workload", "table"}),
    (_providers, {"storage", "catalog"}),
    (_manifest_lists, {"storage", "transaction"}),
)
"""Checks, each with the sections that it reads."""
