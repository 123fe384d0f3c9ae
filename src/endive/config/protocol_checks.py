"""Declarative protocols in configurations: their files, the defaults that they set, and keys that contradict them.

``commit_path`` names a built-in protocol or a file. The protocol sets the defaults of retries, of ``catalog.type`` and of
``catalog.num_groups``, which have to agree with its commit point and scope.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from endive.config.aliases import Tree, classes_of, fill_defaults
from endive.config.errors import ConfigError, Problem
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.schema import Document
from endive.protocols import reader
from endive.transaction.protocol import SERVICE_POINTS, Protocol

_POINTER_TYPES = ("cas", "instant")
_ICEBERG_KEYS = ("overwrite_by", "delete_files", "manifests_missed", "isolation")
_TABLE_KEYS = {"files"}
_SERVICE_KEYS = ("writes_metadata", "transfer_ms_per_mib", "metadata_limit_bytes", "server_retries", "coalesce")


def resolve_protocols(tree: Tree, directory: Path) -> list[Problem]:
    """Make the paths of protocol files absolute and fill in the defaults that protocols set; return the problems of the files."""
    problems: list[Problem] = []
    transaction = tree.get("transaction")
    shared = transaction if isinstance(transaction, dict) else {}
    for key, section in (("transaction", shared), *((f"workload.{name}", cls) for name, cls in classes_of(tree).items())):
        name = section.get("commit_path") if isinstance(section, dict) else None
        if not isinstance(name, str) or not reader.is_protocol(name):
            continue
        if name.endswith(".toml"):
            name = section["commit_path"] = str(directory / name)
        try:
            found = reader.find_protocol(name)
        except ConfigError as error:
            problems += [Problem(f"{key}.commit_path", f"{error.source}: {each}") for each in error.problems]
            continue
        own = section is not shared
        fill_defaults(section, {key: value for key, value in found.settings.items() if not (own and key in shared)})
        _fill_catalog(tree, found.protocol)
    return problems


def _fill_catalog(tree: Tree, protocol: Protocol) -> None:
    catalog = tree.setdefault("catalog", {})
    if not isinstance(catalog, dict):
        return  # reported by the schema
    if protocol.commit_point in SERVICE_POINTS:
        catalog.setdefault("type", "service")
    if catalog.get("type") == "service":
        catalog.setdefault("writes_metadata", False)
    tables = catalog.get("num_tables", 1)
    catalog.setdefault("num_groups", 1 if protocol.scope == "lake" else tables)


def check_protocols(document: Document) -> Iterator[Problem]:
    """Check that classes follow protocols that fit together, and keys that contradict a protocol."""
    classes = resolve_classes(document)
    following = [(cls, cls.protocol) for cls in classes if cls.protocol is not None]
    if not following:
        if "files" in document.table.changed_keys:
            yield Problem("table.files", "has no effect unless commit_path is a declarative protocol", document.table.files)
        return
    first, protocol = following[0]
    for cls in classes:
        if cls.protocol is None:
            message = f"cannot be combined with {protocol.name}, which class {first.name!r} follows: a table has one format"
            yield Problem(cls.key("commit_path"), message, cls.settings.commit_path)
        elif (cls.protocol.commit_point, cls.protocol.scope) != (protocol.commit_point, protocol.scope):
            message = f"has another commit point than {protocol.name}, which class {first.name!r} follows"
            yield Problem(cls.key("commit_path"), message, cls.settings.commit_path)
    for key in sorted(document.table.changed_keys - _TABLE_KEYS):
        yield Problem(f"table.{key}", f"has no effect with {protocol.name}; use table.files", getattr(document.table, key))
    yield from _check_catalog(document, protocol)
    for cls, own in following:
        yield from _check_class(cls, own)


def _check_catalog(document: Document, protocol: Protocol) -> Iterator[Problem]:
    catalog, where = document.catalog, f"{protocol.name} commits by {protocol.commit_point}"
    kind = catalog.type or _POINTER_TYPES[0]
    if protocol.commit_point in SERVICE_POINTS and kind != "service":
        yield Problem("catalog.type", f'must be "service": {where}', kind)
    if protocol.commit_point == "put_if_absent" and kind not in _POINTER_TYPES:
        yield Problem("catalog.type", f'must be "cas": {where} in the object store', kind)
    if protocol.commit_point == "swap" and kind not in (*_POINTER_TYPES, "service"):
        yield Problem("catalog.type", f'must be "cas" or "service": {where}', kind)
    wanted = 1 if protocol.scope == "lake" else catalog.num_tables
    if catalog.pointers != wanted:
        order = "one counter orders all tables" if protocol.scope == "lake" else "each table has its own log or pointer"
        yield Problem("catalog.num_groups", f"must be {wanted}: with {protocol.name}, {order}", catalog.num_groups)
    for key in _SERVICE_KEYS:
        if key in catalog.changed_keys and getattr(catalog, key):
            yield Problem(f"catalog.{key}", f"has no effect with {protocol.name}: it belongs to Iceberg's REST catalogs")
    if document.transaction.manifest_list_mode == "append":
        yield Problem("transaction.manifest_list_mode", f"has no effect with {protocol.name}", "append")


def _check_class(cls: ResolvedClass, protocol: Protocol) -> Iterator[Problem]:
    settings = cls.settings
    if protocol.scope == "table" and settings.tables_per_txn != 1:
        message = f"must be 1 with {protocol.name}, which commits to one table at a time"
        yield Problem(cls.key("tables_per_txn"), message, settings.tables_per_txn)
    if settings.table_handle == "kept":
        message = f"has no effect with {protocol.name}: the steps of load describe the reads of a client with a cached table"
        yield Problem(cls.key("table_handle"), message, "kept")
    if settings.retry > 0 and not protocol.rebases:
        yield Problem(cls.key("retry"), f"must be 0 with {protocol.name}: it does not rebase (conflicts.rebases)", settings.retry)
    elif settings.retry > 0 and not protocol.discovers_again:
        message = f"must be 0 with {protocol.name}: no step shows the current version after a lost attempt"
        yield Problem(cls.key("retry"), message, settings.retry)
    for key in _ICEBERG_KEYS:
        if key in cls.changed_keys:
            yield Problem(cls.key(key), f"has no effect with {protocol.name}", getattr(settings, key))


def protocol_name(name: str) -> str:
    """Return the name of a commit path in tables of results; that of a file has a digest, which distinguishes files."""
    if not reader.is_protocol(name) or not name.endswith(".toml"):
        return name
    found = reader.find_protocol(name)
    return f"{found.protocol.name}-{hashlib.sha256(reader.describe(found).encode()).hexdigest()[:6]}"


def protocol_content(name: str) -> dict[str, Any] | str:
    """Return the value of ``commit_path`` in the identity of an experiment: the content of a protocol, or the name of a path."""
    return reader.find_protocol(name).content if reader.is_protocol(name) else name
