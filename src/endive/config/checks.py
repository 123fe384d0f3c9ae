"""Check relations between keys, which the schema cannot express."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from endive.catalog.kinds import CATALOG_KINDS, CATALOG_SETTINGS, CatalogKind
from endive.config.class_checks import (
    check_classes,
    check_commit_paths,
    check_committers,
    check_handles,
    check_protocols,
    check_retry_after,
    check_submissions,
)
from endive.config.errors import Problem, nearest
from endive.config.resolve import (
    INFERRED_KINDS,
    catalog_kind,
    catalog_profile,
    lists_every_table,
    partitions_per_table,
    resolve_classes,
    storage_profile,
)
from endive.config.schema import CatalogSection, Document
from endive.config.values import Section
from endive.input_files import available_bytes
from endive.storage import StorageProfile, builtin_profiles
from endive.storage.profiles import ProfileError
from endive.transaction.paths import DEFAULT_PATH
from endive.workload.arrivals import INTER_ARRIVAL
from endive.workload.classes import ALL_CLASSES

Check = Callable[[Document], Iterator[Problem]]


def cross_checks(document: Document, broken: Collection[str] = ()) -> list[Problem]:
    """Return the problems of keys that contradict each other.

    Args:
        document: Document in which every key is valid by itself.
        broken: Names of invalid sections. Checks that read these sections are skipped.
    """
    problems: list[Problem] = []
    for check, sections in _CHECKS:
        if sections.isdisjoint(broken):
            problems += check(document)
    return problems


def _useless_keys(name: str, section: Section, keys: Collection[str], message: str) -> Iterator[Problem]:
    """Report the given keys of a section if they are set, each with the same message."""
    for key in sorted(section.changed_keys.intersection(keys)):
        yield Problem(f"{name}.{key}", message, getattr(section, key))


def _simulation(document: Document) -> Iterator[Problem]:
    path = document.simulation.output_path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        message = "must be inside the output directory: use a relative path without '..'"
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
"""Measured memory of the reference engine, in bytes. The compiled engine needs less."""


def _topology(document: Document) -> Iterator[Problem]:
    catalog = document.catalog
    per_table = catalog.partitions.per_table
    if not lists_every_table(document):
        yield Problem(
            "catalog.partitions.per_table",
            f"must have one value per table, as catalog.num_tables = {catalog.num_tables}",
            per_table,
        )
    if catalog.pointers > catalog.num_tables:
        yield Problem("catalog.num_groups", f"must be at most catalog.num_tables = {catalog.num_tables}", catalog.num_groups)


def _catalog_effects(document: Document) -> Iterator[Problem]:
    """Check for keys of ``[catalog]`` that have no effect."""
    catalog = document.catalog
    names = [catalog.type] if catalog.type else INFERRED_KINDS
    yield from _settings_of_other_kinds(catalog, [CATALOG_KINDS[name] for name in names])
    if "group_sizes" in catalog.changed_keys and catalog.pointers == 1:
        yield Problem("catalog.group_sizes", "has no effect unless catalog.num_groups is above 1", catalog.group_sizes)


def _settings_of_other_kinds(catalog: CatalogSection, kinds: Sequence[CatalogKind]) -> Iterator[Problem]:
    """Check for keys that no catalog of these kinds uses."""
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
    """Check for keys of ``[transaction]`` that no class in ``[workload]`` inherits, and for reserved class names."""
    if ALL_CLASSES in document.workload:
        yield Problem(f"workload.{ALL_CLASSES}", "is reserved for the totals of all classes; choose another name")
    transaction, classes = document.transaction, document.workload.values()
    if classes:
        own = all(cls.kind is not None for cls in classes)
        if own and INTER_ARRIVAL.key in transaction.changed_keys:
            yield Problem(f"transaction.{INTER_ARRIVAL.key}", "has no effect: every class of [workload] sets its own arrivals")
        if "operation_types" in transaction.changed_keys and all(
            {"operation", "operation_types"} & cls.model_fields_set for cls in classes
        ):
            yield Problem("transaction.operation_types", "has no effect: every class of [workload] sets its own operations")


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
    """Check for ``table_metadata_inlined`` if the key does not determine who writes table metadata."""
    catalog = document.catalog
    if "table_metadata_inlined" not in catalog.changed_keys:
        return
    if catalog.type == "service":
        message = 'has no effect with catalog.type = "service"; use catalog.writes_metadata = false if clients write metadata.json'
    elif all(cls.path.always_writes_metadata for cls in resolve_classes(document)):
        message = (
            "has no effect, because Iceberg's clients always write metadata.json. It applies only to commit_path = "
            f"{DEFAULT_PATH.name!r}"
        )
    else:
        return
    yield Problem("catalog.table_metadata_inlined", message, catalog.table_metadata_inlined)


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
    (check_classes, {"catalog", "transaction", "workload"}),
    (check_handles, {"catalog", "transaction", "workload"}),
    (_metadata, {"catalog", "transaction", "workload"}),
    (check_submissions, {"simulation", "catalog", "transaction", "workload"}),
    (check_retry_after, {"catalog", "transaction", "workload"}),
    (check_committers, {"simulation", "catalog", "transaction", "workload"}),
    (check_commit_paths, {"transaction", "workload", "table"}),
    (check_protocols, {"catalog", "transaction", "workload", "table"}),
    (_providers, {"storage", "catalog"}),
    (_manifest_lists, {"storage", "transaction"}),
)
"""Checks, each with the names of the sections that it reads."""
