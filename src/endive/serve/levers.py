"""What could be changed about a system: levers, each a small change of the present configuration.

A lever that is no change, or that makes no valid configuration, is left out. ``note`` says what pulling it costs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from endive.config.aliases import ICEBERG_RETRY, value_at
from endive.config.durations import duration_ms
from endive.config.errors import ConfigError
from endive.config.load import check_document
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.schema import Document
from endive.report import words
from endive.runs.identity import compute_experiment_hash
from endive.serve.load import scaled
from endive.serve.trees import Tree, put, remove, settle
from endive.table.operations import ISOLATED

_MORE_RETRIES = 5
_FEWEST_RETRIES = 10
_PARTITIONS = 16
_PIECES = 4
_FASTER = {"s3": "s3x", "azure": "azurex"}


@dataclass(frozen=True)
class Lever:
    """A change. Values by dotted key; None takes a key away."""

    name: str
    words: str
    changes: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    tree: Tree | None = None
    """The configuration that it makes, where that is more than its changes."""


@dataclass(frozen=True)
class Pulled:
    """A lever and the configuration that it makes."""

    lever: Lever
    tree: Tree
    document: Document


def levers_for(tree: Tree) -> list[Pulled]:
    """Return the levers of a configuration that can be pulled. Raises ConfigError if it is not valid."""
    document = check_document(tree, "configuration")
    seen = {compute_experiment_hash(document)}
    found = []
    for lever in _levers(tree, document):
        pulled = _pull(tree, lever)
        if pulled is None:
            continue
        identity = compute_experiment_hash(pulled.document)
        if identity not in seen:
            seen.add(identity)
            found.append(pulled)
    return found


def _pull(tree: Tree, lever: Lever) -> Pulled | None:
    made = copy.deepcopy(lever.tree or tree)
    for key, value in lever.changes.items():
        if value is None:
            remove(made, key)
        else:
            made = put(made, key, value)
    try:
        settled, document, _ = settle(made, next(iter(lever.changes), None))
    except ConfigError:
        return None
    return Pulled(lever, settled, document)


def _levers(tree: Tree, document: Document) -> Iterator[Lever]:
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


def _stores(document: Document) -> Iterator[Lever]:
    provider = document.storage.provider or ""
    faster = _FASTER.get(provider)
    if faster:
        names = [words.value("storage_provider", name) for name in (faster, provider)]
        yield Lever("store", f"{names[0]} instead of {names[1]}", {"storage.provider": faster})


def _catalogs(document: Document) -> Iterator[Lever]:
    catalog = document.catalog
    if catalog.type in (None, "cas", "append"):
        yield Lever(
            "catalog",
            "a catalog service (REST) instead of a pointer in the store",
            {"catalog.type": "service"},
            "assumes 10 ms for a commit",
        )
    if catalog.type == "service" and not catalog.server_retries:
        yield Lever("server_retries", "the service applies lost appends again by itself (3 times)", {"catalog.server_retries": 3})
    if catalog.type == "service" and catalog.coalesce is None:
        yield Lever("group_commit", "group commit in the service", {"catalog.coalesce": {"linger_ms": 0.0, "max_batch": 0}})
    if catalog.num_tables > catalog.pointers:
        yield Lever("pointers", "a pointer for each table", {"catalog.num_groups": catalog.num_tables})


def _retries(tree: Tree, document: Document, classes: tuple[ResolvedClass, ...]) -> Iterator[Lever]:
    few = min(cls.settings.retry for cls in classes)
    many = max(_FEWEST_RETRIES, _MORE_RETRIES * few)
    owners = [
        "transaction",
        *(f"workload.{name}" for name in document.workload if value_at(tree, f"workload.{name}.retry") is not None),
    ]
    yield Lever("retries", f"{many} retries instead of {few}", {f"{owner}.retry": many for owner in owners})
    backoff = document.transaction.retry_backoff
    if backoff.enabled:
        yield Lever("jitter", "waits between retries at random (full jitter)", {"transaction.retry_backoff.jitter": "full"})
        longer = {"transaction.retry_backoff.base_ms": 4.0 * backoff.base_ms}
        yield Lever("longer_waits", f"the first wait {4.0 * backoff.base_ms:g} ms instead of {backoff.base_ms:g} ms", longer)
        yield Lever("no_waits", "no waits between retries", {"transaction.retry_backoff": {"enabled": False}})
    else:
        waits = {**ICEBERG_RETRY["retry_backoff"], "jitter": "full"}
        yield Lever("waits", "waits between retries (100 ms, doubling, full jitter)", {"transaction.retry_backoff": waits})
    if document.transaction.table_handle == "loaded":
        yield Lever("handle", "writers that keep the table loaded", {"transaction.table_handle": "kept"}, "long-lived writers only")


def _arrivals(tree: Tree) -> Iterator[Lever]:
    half = scaled(tree, 0.5)
    if half is not None:
        yield Lever("batching", "half as many commits, each with twice as much", tree=half.tree, note="data is seen later")
    crowds = {name: cls for name, cls in (tree.get("workload") or {}).items() if cls.get("writers", 1) > 1}
    if crowds:
        changes = {f"workload.{name}.phase": "staggered" for name in crowds}
        yield Lever("staggered", "writers that start evenly spread", changes, "needs a common schedule")
        together = {f"workload.{name}.committer": {"interval_ms": cls["every_ms"]} for name, cls in crowds.items()}
        yield Lever("committer", "one committer for all writers", together, "data is seen later")


def _tables(document: Document, classes: tuple[ResolvedClass, ...]) -> Iterator[Lever]:
    partitions = document.catalog.partitions
    if partitions.num_partitions in (None, 1) and partitions.per_table is None:
        yield Lever(
            "partitions",
            f"{_PARTITIONS} partitions, each transaction in one of them",
            {"catalog.partitions.num_partitions": _PARTITIONS, "transaction.partitions_per_txn": 1.0},
        )
    if document.table.merge_manifests and any(cls.path.keeps_files for cls in classes):
        yield Lever("manifests", "manifests are not merged by commits", {"table.merge_manifests": False}, "scans plan longer")


def _operations(classes: tuple[ResolvedClass, ...]) -> Iterator[Lever]:
    merging = {
        f"{_owner(cls)}.operation": "fast_append" for cls in classes if cls.own is not None and cls.own.operation == "merge_append"
    }
    if merging:
        yield Lever("fast_append", "fast appends instead of merge appends", merging, "more manifests to read")
    validating = [cls for cls in classes if cls.own is not None and cls.own.operation in ISOLATED]
    if validating:
        changes = {f"{_owner(cls)}.isolation": "snapshot" for cls in validating}
        names = ", ".join(cls.name for cls in validating)
        yield Lever("isolation", f"snapshot isolation for {names}", changes, "reads of others are not validated")


def _maintenance(classes: tuple[ResolvedClass, ...]) -> Iterator[Lever]:
    for cls in classes:
        if cls.own is None or cls.own.periodic is None:
            continue
        every = cls.own.periodic.interval_ms
        yield Lever(f"less_{cls.name}", f"{cls.name} half as often", {f"{_owner(cls)}.periodic.interval_ms": 2.0 * every})
        pieces = _in_pieces(cls, every)
        if pieces:
            yield Lever(f"pieces_{cls.name}", f"{cls.name} in {_PIECES} pieces, each a quarter as long", pieces)


def _in_pieces(cls: ResolvedClass, every: float) -> dict[str, Any]:
    """Changes that make a job a quarter as long and four times as frequent."""
    assert cls.own is not None
    assert cls.own.periodic is not None
    runtime = cls.settings.runtime.model_dump(exclude_none=True)
    times = {key: duration_ms(value) / _PIECES for key, value in runtime.items() if key in ("mean", "median", "value", "max")}
    if not times:
        return {}
    phase = min(cls.own.periodic.phase_ms, every / _PIECES)
    return {
        f"{_owner(cls)}.runtime": {**runtime, **times},
        f"{_owner(cls)}.periodic": {"interval_ms": every / _PIECES, "phase_ms": phase},
    }


def _owner(cls: ResolvedClass) -> str:
    return f"workload.{cls.name}"
