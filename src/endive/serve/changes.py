"""Change a configuration: multiply the load, or apply a change that may improve the configuration.

Changes without effect and changes that make the configuration invalid are omitted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from endive.config.arrival_keys import scale_arrivals
from endive.config.errors import ConfigError
from endive.config.load import ICEBERG_RETRY, check_document, value_at
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.schema import Document
from endive.config.values import duration_ms
from endive.report import phrases
from endive.runs.identity import compute_experiment_hash
from endive.serve.messages import Change, Tree
from endive.serve.page_configuration import put, remove, settle
from endive.table import OperationSettings
from endive.table.operations import ISOLATED, traits_of
from endive.transaction.paths import PYICEBERG
from endive.workload.arrivals import INTER_ARRIVAL, WRITERS, kind_of

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the current load on the load curve."""
_MORE_RETRIES = 5
_FEWEST_RETRIES = 10
_PARTITIONS = 16
_PIECES = 4
_FASTER = {"s3": "s3x", "azure": "azurex"}


@dataclass(frozen=True)
class Scaled:
    """Configuration with a scaled load."""

    tree: Tree
    document: Document


def scale_load(tree: Tree, factor: float) -> Scaled | None:
    """Return the configuration with all arrival rates multiplied by a factor; None if the load cannot be scaled."""
    made = tree
    for key, value in load_changes(tree, factor):
        made = put(made, key, value)
    if made is tree:
        return None
    try:
        return Scaled(made, check_document(made, "configuration"))
    except ConfigError:
        return None


def load_changes(tree: Tree, factor: float) -> Iterator[tuple[str, Any]]:
    """Yield the keys that set the load of a configuration, with their values at a multiple of it.

    Periodic jobs keep their interval. For aligned writers the number of writers is scaled, because a longer interval would not
    change the size of a burst.
    """
    for section, keys in _arrival_sections(tree).items():
        if WRITERS.key in keys and keys.get("phase") == "aligned":
            yield f"{section}.{WRITERS.key}", max(1, round(keys[WRITERS.key] * factor))
        else:
            yield from ((f"{section}.{key}", value) for key, value in scale_arrivals(keys, factor).items())


def _arrival_sections(tree: Tree) -> dict[str, Tree]:
    """Return the tables that set arrivals, by dotted key."""
    classes = tree.get("workload") or {}
    sections = {f"workload.{name}": cls for name, cls in classes.items()}
    if not classes or any(kind_of(cls) is None for cls in classes.values()):
        inherited = tree.get("transaction") or {}
        sections["transaction"] = {INTER_ARRIVAL.key: inherited.get(INTER_ARRIVAL.key)}
    return sections


@dataclass(frozen=True)
class _Proposal:
    """Change of a configuration by dotted key; None removes a key."""

    name: str
    words: str
    values: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    def apply(self, tree: Tree) -> Change | None:
        """Return the change of a configuration, or None if the result is not valid."""
        made = copy.deepcopy(tree)
        for key, value in self.values.items():
            if value is None:
                remove(made, key)
            else:
                made = put(made, key, value)
        try:
            settled, document, _ = settle(made, next(iter(self.values), None))
        except ConfigError:
            return None
        return Change(self.name, self.words, self.note, settled, document)


def list_changes(tree: Tree) -> Iterator[Change]:
    """Yield changes that may improve a configuration. Raises ConfigError if the configuration is not valid."""
    document = check_document(tree, "configuration")
    known = {compute_experiment_hash(document)}
    for proposal in _proposals(tree, document):
        change = proposal.apply(tree)
        identity = None if change is None else compute_experiment_hash(change.document)
        if change is not None and identity not in known:
            known.add(str(identity))
            yield change


def _proposals(tree: Tree, document: Document) -> Iterator[_Proposal]:
    classes = resolve_classes(document)
    if document.parts.provider is None:
        yield from _stores(document)
    if document.parts.catalog is None:
        yield from _catalogs(document)
    yield from _retries(tree, document, classes)
    yield from _arrivals(tree)
    yield from _tables(document, classes)
    if document.parts.transaction is None:
        yield from _operations(classes)
    yield from _maintenance(classes)


def _stores(document: Document) -> Iterator[_Proposal]:
    provider = document.storage.provider or ""
    faster = _FASTER.get(provider)
    if faster:
        names = [phrases.name_value("storage_provider", name) for name in (faster, provider)]
        yield _Proposal("store", f"{names[0]} instead of {names[1]}", {"storage.provider": faster})


def _catalogs(document: Document) -> Iterator[_Proposal]:
    catalog = document.catalog
    if catalog.type in (None, "cas", "append"):
        yield _Proposal(
            "catalog",
            "REST catalog instead of a catalog in the object store",
            {"catalog.type": "service"},
            "assumes a median service time of 10 ms per commit",
        )
    rebases = catalog.server_retries > 0 and catalog.server_retry_mode == "rebase"
    if catalog.type == "service" and not rebases:
        changes = {"catalog.server_retries": 3, "catalog.server_retry_mode": "rebase"}
        yield _Proposal(
            "server_retries", "server rebases appends (up to 3 retries)", changes, "Iceberg's REST server code does not rebase"
        )
    if catalog.type == "service" and catalog.coalesce is None:
        yield _Proposal("group_commit", "group commit in the catalog", {"catalog.coalesce": {"linger_ms": 0.0, "max_batch": 0}})
    if catalog.num_tables > catalog.pointers:
        yield _Proposal("pointers", "one commit pointer per table", {"catalog.num_groups": catalog.num_tables})


def _retries(tree: Tree, document: Document, classes: tuple[ResolvedClass, ...]) -> Iterator[_Proposal]:
    few = min(cls.settings.retry for cls in classes)
    many = max(_FEWEST_RETRIES, _MORE_RETRIES * few)
    owners = [
        "transaction",
        *(f"workload.{name}" for name in document.workload if value_at(tree, f"workload.{name}.retry") is not None),
    ]
    yield _Proposal("retries", f"{many} retries instead of {few}", {f"{owner}.retry": many for owner in owners})
    backoff = document.transaction.retry_backoff
    if backoff.enabled:
        yield _Proposal("jitter", "backoff with full jitter", {"transaction.retry_backoff.jitter": "full"})
        longer = 4.0 * backoff.base_ms
        yield _Proposal(
            "longer_waits",
            f"initial backoff {longer:g} ms instead of {backoff.base_ms:g} ms",
            {"transaction.retry_backoff.base_ms": longer},
        )
        yield _Proposal("no_waits", "no backoff between retries", {"transaction.retry_backoff": {"enabled": False}})
    else:
        waits = {**ICEBERG_RETRY["retry_backoff"], "jitter": "full"}
        yield _Proposal("waits", "exponential backoff (100 ms, full jitter)", {"transaction.retry_backoff": waits})
    if document.transaction.table_handle == "loaded":
        yield _Proposal(
            "handle", "writers cache table metadata", {"transaction.table_handle": "kept"}, "applies to long-lived writers only"
        )


def _arrivals(tree: Tree) -> Iterator[_Proposal]:
    half = {
        f"{section}.{key}": value
        for section, keys in _arrival_sections(tree).items()
        for key, value in scale_arrivals(keys, 0.5).items()
    }
    if half:
        yield _Proposal("batching", "half as many commits, each twice as large", half, "data becomes visible later")
    crowds = {name: cls for name, cls in (tree.get("workload") or {}).items() if cls.get(WRITERS.key, 1) > 1}
    if crowds:
        staggered = {f"workload.{name}.phase": "staggered" for name in crowds}
        yield _Proposal("staggered", "staggered commits of periodic writers", staggered, "requires a common schedule")
        together = {f"workload.{name}.committer": {"interval_ms": cls["every_ms"]} for name, cls in crowds.items()}
        yield _Proposal("committer", "one committer for all writers", together, "data becomes visible later")


def _tables(document: Document, classes: tuple[ResolvedClass, ...]) -> Iterator[_Proposal]:
    partitions = document.catalog.partitions
    if partitions.num_partitions in (None, 1) and partitions.per_table is None:
        yield _Proposal(
            "partitions",
            f"{_PARTITIONS} partitions, and each transaction writes to one of them",
            {"catalog.partitions.num_partitions": _PARTITIONS, "transaction.partitions_per_txn": 1.0},
        )
    if document.table.merge_manifests and any(cls.path.keeps_files for cls in classes):
        yield _Proposal(
            "manifests", "no merging of manifests on commit", {"table.merge_manifests": False}, "scan planning becomes slower"
        )


def _operations(classes: tuple[ResolvedClass, ...]) -> Iterator[_Proposal]:
    merging = {
        f"{_owner(cls)}.operation": "fast_append" for cls in classes if cls.own is not None and cls.own.operation == "merge_append"
    }
    if merging:
        yield _Proposal("fast_append", "fast appends instead of merge appends", merging, "readers plan with more manifests")
    serializable = [cls for cls in classes if _is_serializable(cls)]
    if serializable:
        values = {f"{_owner(cls)}.isolation": "snapshot" for cls in serializable}
        names = ", ".join(cls.name for cls in serializable)
        yield _Proposal(
            "isolation",
            f"snapshot isolation for {names}",
            values,
            "writers no longer detect concurrent changes to rows that they read",
        )


def _is_serializable(cls: ResolvedClass) -> bool:
    """Return whether a class validates with serializable isolation, as configured or by default."""
    if cls.own is None or cls.own.operation not in ISOLATED:
        return False
    if cls.settings.isolation is not None or cls.path is PYICEBERG:
        return cls.settings.isolation in (None, "serializable")
    default, serializable = OperationSettings(), OperationSettings(isolation="serializable")
    return traits_of(cls.own.operation, default) == traits_of(cls.own.operation, serializable)


def _maintenance(classes: tuple[ResolvedClass, ...]) -> Iterator[_Proposal]:
    for cls in classes:
        if cls.own is None or cls.own.periodic is None:
            continue
        interval = cls.own.periodic.interval_ms
        yield _Proposal(f"less_{cls.name}", f"{cls.name} half as often", {f"{_owner(cls)}.periodic.interval_ms": 2.0 * interval})
        pieces = _split(cls, interval)
        if pieces:
            yield _Proposal(f"pieces_{cls.name}", f"{cls.name} split into {_PIECES} jobs, each a quarter as long", pieces)


def _split(cls: ResolvedClass, interval: float) -> dict[str, Any]:
    """Return the values that make a job a quarter as long and four times as frequent."""
    assert cls.own is not None
    assert cls.own.periodic is not None
    runtime = cls.settings.runtime.model_dump(exclude_none=True)
    times = {key: duration_ms(value) / _PIECES for key, value in runtime.items() if key in ("mean", "median", "value", "max")}
    if not times:
        return {}
    phase = min(cls.own.periodic.phase_ms, interval / _PIECES)
    return {
        f"{_owner(cls)}.runtime": {**runtime, **times},
        f"{_owner(cls)}.periodic": {"interval_ms": interval / _PIECES, "phase_ms": phase},
    }


def _owner(cls: ResolvedClass) -> str:
    return f"workload.{cls.name}"
