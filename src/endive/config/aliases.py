"""Other spellings of keys: accepted, and translated to the one that the schema knows."""

from __future__ import annotations

from typing import Any

from endive.config.errors import Problem

Tree = dict[str, Any]

ALIASES: dict[str, str] = {
    "catalog.mode": "catalog.type",
    "catalog.group_size_distribution": "catalog.group_sizes",
    "partition.num_partitions": "catalog.partitions.num_partitions",
    "partition.partitions_per_txn_mean": "transaction.partitions_per_txn",
    "partition.selection.distribution": "transaction.partition_selection.distribution",
    "partition.selection.zipf_alpha": "transaction.partition_selection.alpha",
    "storage.MIN_LATENCY": "storage.min_latency_ms",
    "storage.min_latency": "storage.min_latency_ms",
    "storage.MAX_PARALLEL": "storage.max_parallel",
    "transaction.max_parallel": "storage.max_parallel",
    "transaction.max_retries": "transaction.retry",
    "transaction.ntable.zipf": "transaction.tables_per_txn.zipf",
    "transaction.seltbl.zipf": "transaction.table_selection.alpha",
}
"""Old spelling to canonical one."""


def canonical(document: Tree) -> tuple[Tree, list[Problem]]:
    """The document in canonical spelling, and what is wrong with how it mixes spellings."""
    problems: list[Problem] = []
    document = _copy(document)
    partition = document.get("partition")
    if isinstance(partition, dict):
        enabled = partition.pop("enabled", True)
        if not isinstance(enabled, bool):
            problems.append(Problem("partition.enabled", "must be true or false", enabled))
        elif not enabled:
            document.pop("partition")
        elif _get(document, "transaction.partitions_per_txn") is None:
            partition.setdefault("partitions_per_txn_mean", 1)
    for old, new in ALIASES.items():
        value = _get(document, old)
        if value is None:
            continue
        _remove(document, old)
        if _get(document, new) is not None:
            problems.append(Problem(old, f"is another spelling of {new}, which is given too", value))
        elif not _put(document, new, value):
            problems.append(Problem(old, f"is another spelling of {new}, which is given in another form", value))
        elif old == "transaction.seltbl.zipf":
            _put(document, "transaction.table_selection.distribution", "zipf")
    if document.get("partition") == {}:
        document.pop("partition")
    return document, problems


def put(document: Tree, key: str, value: Any) -> Tree:
    """The document with a dotted key set: what ``--set`` and sweeps do."""
    document = _copy(document)
    if not _put(document, key, value):
        raise KeyError(key)
    return document


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _get(document: Tree, key: str) -> Any:
    node: Any = document
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def _put(document: Tree, key: str, value: Any) -> bool:
    *path, last = key.split(".")
    node: Any = document
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            return False
    node[last] = value
    return True


def _remove(document: Tree, key: str) -> None:
    """Take a key away, and the tables that it leaves empty."""
    *path, last = key.split(".")
    nodes: list[Any] = [document]
    for part in path:
        nodes.append(nodes[-1][part])
    del nodes[-1][last]
    for parent, part, node in reversed(list(zip(nodes, path, nodes[1:], strict=False))):
        if not node:
            del parent[part]
