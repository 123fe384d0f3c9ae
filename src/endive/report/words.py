"""Words for people: parameters, their values, operations and parts of time, as figures and reports name them, with units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from endive.catalog.kinds import CATALOG_KINDS
from endive.config.schema import CLASS_KEYS
from endive.report.phrases import quantity
from endive.runs.parameters import PREFIX, SCENARIO_COLUMN
from endive.simulation.columns import TIME_WORDS
from endive.table import OPERATION_WORDS
from endive.transaction.paths import COMMIT_PATHS, RETRY_POLICY

_PARAMETERS = {
    "storage_provider": ("store", ""),
    "storage_profile": ("set of profiles", ""),
    "storage_max_parallel": ("parallel accesses", ""),
    "catalog_provider": ("catalog's store", ""),
    "catalog_type": ("catalog", ""),
    "catalog_num_tables": ("tables", ""),
    "catalog_num_groups": ("table groups", ""),
    "catalog_latency_ms": ("catalog latency", "ms"),
    "catalog_linearization": ("moment of effect", "share of the latency"),
    "catalog_table_metadata_inlined": ("table metadata", ""),
    "catalog_workers": ("catalog workers", ""),
    "catalog_partitions_num_partitions": ("partitions", ""),
    "transaction_manifest_list_mode": ("manifest lists", ""),
    "transaction_retry": ("retries allowed", ""),
    "transaction_retry_backoff_enabled": ("backoff", ""),
    "transaction_retry_backoff_base_ms": ("first backoff", "ms"),
    "transaction_retry_backoff_max_ms": ("longest backoff", "ms"),
    "transaction_partition_selection_alpha": ("partition skew", ""),
    "transaction_table_selection_alpha": ("table skew", ""),
    "transaction_real_conflict_probability": ("probability of a real conflict", ""),
    "transaction_runtime_mean": ("mean runtime", "ms"),
    "transaction_partitions_per_txn": ("partitions per transaction", ""),
    "transaction_tables_per_txn": ("tables per transaction", ""),
    "transaction_operation_types_fast_append": ("fast appends", "share"),
    "transaction_operation_types_merge_append": ("merge appends", "share"),
    "transaction_operation_types_validated_overwrite": ("validated overwrites", "share"),
    "transaction_operation_types_read_only": ("readers", "share"),
    "transaction_partition_range": ("range of partitions", ""),
    "transaction_manifests_hit": ("manifests rewritten", ""),
    "transaction_total_timeout_ms": ("time limit", "ms"),
    "table_manifests": ("manifests", ""),
    "table_delete_manifests": ("delete manifests", ""),
    "table_snapshots": ("snapshots", ""),
    "table_merge_manifests": ("merging of manifests", ""),
    "table_min_count_to_merge": ("manifests that are merged", ""),
    "simulation_duration_ms": ("duration", "ms"),
    "failures_request_error": ("failed requests", "share"),
    "failures_lost_answer": ("lost answers", "share"),
    "failures_client_crash": ("crashes of clients", "share"),
}
"""Word and unit of a parameter, by its column without the prefix. Classes share the words of ``[transaction]``."""

_STORES = {
    "s3": "S3",
    "s3x": "S3 Express",
    "azure": "Azure Blob",
    "azurex": "Azure Premium",
    "gcp": "Google Cloud",
    "instant": "instant store",
}
_VALUES: dict[tuple[str, Any], str] = {
    **{("catalog_type", kind.name): kind.word for kind in CATALOG_KINDS.values()},
    ("catalog_type", None): "CAS",
    ("catalog_workers", 0): "no queue",
    ("transaction_manifest_list_mode", "rewrite"): "lists rewritten",
    ("transaction_manifest_list_mode", "append"): "ML+",
    ("catalog_table_metadata_inlined", True): "inlined",
    ("catalog_table_metadata_inlined", False): "not inlined",
    ("transaction_retry_backoff_enabled", True): "backoff",
    ("transaction_retry_backoff_enabled", False): "no backoff",
    **{("transaction_commit_path", name): f"{name} path" for name in COMMIT_PATHS},
    ("transaction_retry_policy", None): "retries as configured",
    ("transaction_retry_policy", RETRY_POLICY): "Iceberg's retries",
    ("transaction_isolation", "serializable"): "serializable",
    ("transaction_isolation", "snapshot"): "snapshot isolation",
    ("transaction_isolation", "none"): "not isolated",
    ("table_merge_manifests", True): "manifests merged",
    ("table_merge_manifests", False): "manifests not merged",
    **{(f"{where}_provider", name): word for where in ("storage", "catalog") for name, word in _STORES.items()},
}
"""Values that speak for themselves."""

_OF_CLASS = {
    "rate": ("rate", "transactions/s"),
    "periodic_interval_ms": ("interval", "ms"),
    "closed_clients": ("clients", ""),
    "runtime_value": ("runtime", "ms"),
}
_CLASS_KEYS = "|".join(f"{key}(?:_.+)?" if is_table else key for key, is_table in CLASS_KEYS.items())
"""Columns of a class's keys; a key that is a table has columns with the keys of that table behind it."""
_CLASS = re.compile(rf"^workload_(?P<name>.+?)_(?P<key>{_CLASS_KEYS})$")
_BETWEEN_ARRIVALS = re.compile(r"_?inter_arrival_(scale|mean|value)$")
_UNITS = (("_ms", "ms"), ("_bytes", "bytes"))

OPERATIONS = OPERATION_WORDS
TIME_PARTS = TIME_WORDS
"""Where the time of a transaction goes, in the order in which it is spent."""


def parameter(column: str) -> tuple[str, str]:
    """The word for a parameter, and its unit."""
    key = column.removeprefix(PREFIX)
    if key in _PARAMETERS:
        return _PARAMETERS[key]
    of_class = _CLASS.match(key)
    if of_class:
        own = of_class["key"]
        word, unit = _OF_CLASS.get(own) or _PARAMETERS.get(f"transaction_{own}") or _plain(own)
        return f"{of_class['name'].replace('_', ' ')} {word}", unit
    if key.startswith("parts_"):  # options of a part of one's own are called as its author did
        return _plain(key.removeprefix("parts_").replace("_options_", "_", 1))
    return _plain(key.removeprefix("transaction_"))


def _plain(key: str) -> tuple[str, str]:
    for suffix, unit in _UNITS:
        if key.endswith(suffix):
            return key.removesuffix(suffix).replace("_", " "), unit
    return key.replace("_", " "), ""


def parameter_title(column: str) -> str:
    """The title of an axis: word and unit."""
    word, unit = parameter(column)
    return f"{word} ({unit})" if unit else word


def load_title(column: str) -> str:
    """The title of a load: times between arrivals are shown as rates."""
    key = column.removeprefix(PREFIX)
    between = _BETWEEN_ARRIVALS.search(key)
    if not between:
        return parameter_title(column)
    owner = key[: between.start()].removeprefix("workload_").replace("_", " ")
    return "offered load (transactions/s)" if owner in ("transaction", "") else f"{owner} rate (transactions/s)"


def class_of_load(column: str) -> str | None:
    """The workload class whose rate a parameter sets; None if it sets that of all."""
    found = _CLASS.match(column.removeprefix(PREFIX))
    return found["name"] if found else None


def value(column: str, of: Any) -> str:
    """A value that stands for itself, or ``word = value``."""
    key = _value_key(column, of)
    if key in _VALUES:
        return _VALUES[key]
    if key[0] == "transaction_operation" and of is not None:
        return operation(of).partition(" (")[0]
    word, unit = parameter(column)
    if of is None:
        return f"{word} not set"
    if isinstance(of, bool):
        return word if of else f"no {word}"
    if isinstance(of, int | float):
        return f"{word} = {quantity(of, unit)}"
    return str(of) if "provider" in column or column == SCENARIO_COLUMN else f"{word} {of}"


def _value_key(column: str, of: Any) -> tuple[str, Any]:
    """What a value is looked up by: a key of a class as the same key of ``[transaction]``."""
    key = column.removeprefix(PREFIX)
    of_class = _CLASS.match(key)
    return (f"transaction_{of_class['key']}" if of_class else key, of)


def rank(column: str, of: Any) -> tuple[int, float, str]:
    """Where a value stands among others: those that speak for themselves in the order given here, numbers by size, text."""
    key = _value_key(column, of)
    if key in _VALUES:
        return (0, float(list(_VALUES).index(key)), "")
    return (1, float(of), "") if isinstance(of, int | float) else (2, 0.0, str(of or ""))


def label(parameters: Mapping[str, Any], every: Mapping[str, Any] | None = None) -> str:
    """A configuration by the values that tell it from others. The mix of operations, from ``every`` parameter, is told whole.

    Where there is no backoff, nothing else is said of it.
    """
    told: dict[str, None] = {}
    for column, of in parameters.items():
        group, is_backoff, key = column.partition("retry_backoff_")
        if is_backoff and key != "enabled" and parameters.get(f"{group}{is_backoff}enabled") is False:
            continue
        prefix, is_mix, _ = column.partition("operation_types_")
        told[_mix(f"{prefix}{is_mix}", every) if is_mix and every else value(column, of)] = None
    return ", ".join(told)


def _mix(prefix: str, parameters: Mapping[str, Any]) -> str:
    weights = {name: float(parameters.get(f"{prefix}{name}") or 0.0) for name in OPERATIONS}
    whole = sum(weights.values()) or 1.0
    return " + ".join(f"{100 * of / whole:.3g} % {operation(name)}" for name, of in weights.items() if of)


def operation(name: str) -> str:
    """An operation."""
    return OPERATIONS.get(name, name.replace("_", " "))
