"""Name parameters, values and operations, and describe runs in sentences, for figures, reports and the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from endive.analysis.conditions import format_bound, format_metric
from endive.analysis.estimates import at_least
from endive.analysis.run_metrics import window_of
from endive.analysis.table_growth import DAY_MS, GROWTH, day_of_limit
from endive.analysis.warmup import Window
from endive.catalog.kinds import CATALOG_KINDS
from endive.config import Document
from endive.config.schema import CLASS_KEYS
from endive.formatting import (
    capitalize,
    format_bytes,
    format_duration,
    format_minimum_duration,
    format_money,
    format_number,
    format_percent,
    format_quantity,
    format_rate,
    is_known,
    join_names,
)
from endive.runs.execute import prepare_run
from endive.runs.identity import PREFIX, SCENARIO_COLUMN
from endive.simulation.runner import Choice
from endive.studies.request_cost import KINDS, Cost
from endive.table import OPERATION_WORDS
from endive.transaction.paths import COMMIT_PATHS, RETRY_POLICY

_PARAMETERS = {
    "storage_provider": ("object store", ""),
    "storage_profile": ("latency profiles", ""),
    "storage_max_parallel": ("parallel requests", ""),
    "catalog_provider": ("catalog object store", ""),
    "catalog_type": ("catalog", ""),
    "catalog_num_tables": ("tables", ""),
    "catalog_num_groups": ("table groups", ""),
    "catalog_latency_ms": ("catalog latency", "ms"),
    "catalog_linearization": ("linearization point", "share of the latency"),
    "catalog_table_metadata_inlined": ("table metadata", ""),
    "catalog_workers": ("catalog workers", ""),
    "catalog_partitions_num_partitions": ("partitions", ""),
    "transaction_manifest_list_mode": ("manifest lists", ""),
    "transaction_retry": ("maximum retries", ""),
    "transaction_retry_backoff_enabled": ("backoff", ""),
    "transaction_retry_backoff_base_ms": ("initial backoff", "ms"),
    "transaction_retry_backoff_max_ms": ("maximum backoff", "ms"),
    "transaction_partition_selection_alpha": ("partition skew", ""),
    "transaction_table_selection_alpha": ("table skew", ""),
    "transaction_real_conflict_probability": ("real conflict probability", ""),
    "transaction_runtime_mean": ("mean job duration", "ms"),
    "transaction_client_ms_per_access": ("client time per access", "ms"),
    "catalog_transfer_ms_per_mib": ("transfer time", "ms per MiB"),
    "transaction_partitions_per_txn": ("partitions per transaction", ""),
    "transaction_tables_per_txn": ("tables per transaction", ""),
    "transaction_operation_types_fast_append": ("fast appends", "share"),
    "transaction_operation_types_merge_append": ("merge appends", "share"),
    "transaction_operation_types_validated_overwrite": ("validated overwrites", "share"),
    "transaction_operation_types_read_only": ("readers", "share"),
    "transaction_partition_range": ("partition range", ""),
    "transaction_manifests_hit": ("manifests rewritten", ""),
    "transaction_total_timeout_ms": ("commit timeout", "ms"),
    "transaction_operation_timeout_ms": ("operation timeout", "ms"),
    "table_manifests": ("manifests", ""),
    "table_delete_manifests": ("delete manifests", ""),
    "table_snapshots": ("snapshots", ""),
    "table_merge_manifests": ("manifest merging", ""),
    "table_min_count_to_merge": ("minimum manifests to merge", ""),
    "simulation_duration_ms": ("duration", "ms"),
    "failures_request_error": ("failed requests", "share"),
    "failures_fatal_error": ("requests that fail permanently", "share"),
    "failures_lost_answer": ("lost responses", "share"),
    "failures_client_crash": ("client crashes", "share"),
}
"""Name and unit of each parameter in figures and reports, by column without the prefix.

Keys of a workload class have the names of the same keys of ``[transaction]``.
"""

_STORES = {
    "s3": "S3",
    "s3x": "S3 Express",
    "azure": "Azure Blob",
    "azurex": "Azure Premium",
    "gcp": "Google Cloud Storage",
    "instant": "instant store",
}
_VALUES: dict[tuple[str, Any], str] = {
    **{("catalog_type", kind.name): kind.word for kind in CATALOG_KINDS.values()},
    ("catalog_type", None): "CAS",
    ("catalog_workers", 0): "no queue",
    ("transaction_manifest_list_mode", "rewrite"): "lists rewritten",
    ("transaction_manifest_list_mode", "append"): "ML+",
    ("catalog_table_metadata_inlined", True): "inlined metadata",
    ("catalog_table_metadata_inlined", False): "metadata in files",
    ("transaction_retry_backoff_enabled", True): "backoff",
    ("transaction_retry_backoff_enabled", False): "no backoff",
    **{("transaction_commit_path", name): f"{name} path" for name in COMMIT_PATHS},
    ("transaction_retry_policy", None): "configured retries",
    ("transaction_retry_policy", RETRY_POLICY): "Iceberg's retries",
    ("transaction_isolation", "serializable"): "serializable",
    ("transaction_isolation", "snapshot"): "snapshot isolation",
    ("transaction_isolation", "none"): "not isolated",
    ("table_merge_manifests", True): "manifest merging",
    ("table_merge_manifests", False): "no manifest merging",
    **{(f"{where}_provider", name): word for where in ("storage", "catalog") for name, word in _STORES.items()},
}
"""Names of values that are clear without the parameter name."""

_OF_CLASS = {
    "rate": ("rate", "transactions/s"),
    "periodic_interval_ms": ("interval", "ms"),
    "closed_clients": ("clients", ""),
    "runtime_value": ("job duration", "ms"),
}
_CLASS_KEYS = "|".join(f"{key}(?:_.+)?" if is_table else key for key, is_table in CLASS_KEYS.items())
"""Pattern of the columns of a class's keys; keys of nested tables are appended."""
_CLASS = re.compile(rf"^workload_(?P<name>.+?)_(?P<key>{_CLASS_KEYS})$")
_BETWEEN_ARRIVALS = re.compile(r"_?inter_arrival_(scale|mean|value)$")
_UNITS = (("_ms", "ms"), ("_bytes", "bytes"))
_LATENCIES = re.compile(r"^(catalog|storage)_.*_(median|mean|minimum)$")
"""Pattern of the columns of latency distributions. Their unit is ms, although their names have no suffix."""
_SHARES = frozenset(name for name, unit in _PARAMETERS.values() if unit == "share")
"""Names of parameters that are proportions."""

_SHORTEST_MS = 1.0
"""Shortest warm-up that reports mention."""
_MANY = 0.01
"""Fraction of transactions in flight above which the warning about overload gives the fraction."""
_RANGE = re.compile(r"[\d.]+\N{EN DASH}[\d.]+%$")


def name_parameter(column: str) -> tuple[str, str]:
    """Return the name and the unit of a parameter: ``("initial backoff", "ms")``."""
    key = column.removeprefix(PREFIX)
    if key in _PARAMETERS:
        return _PARAMETERS[key]
    of_class = _CLASS.match(key)
    if of_class:
        own = of_class["key"]
        word, unit = _OF_CLASS.get(own) or _PARAMETERS.get(f"transaction_{own}") or _split_unit(own)
        return f"{of_class['name'].replace('_', ' ')} {word}", unit
    if key.startswith("parts_"):  # options of a plug-in keep the names that its author chose
        return _split_unit(key.removeprefix("parts_").replace("_options_", "_", 1))
    return _split_unit(key.removeprefix("transaction_"))


def _split_unit(key: str) -> tuple[str, str]:
    for suffix, unit in _UNITS:
        if key.endswith(suffix):
            return key.removesuffix(suffix).replace("_", " "), unit
    return key.replace("_", " "), "ms" if _LATENCIES.match(key) else ""


def title_parameter(column: str) -> str:
    """Return the axis title of a parameter: its name and unit."""
    word, unit = name_parameter(column)
    return f"{word} ({unit})" if unit else word


def title_load(column: str) -> str:
    """Return the axis title of a load; interarrival times are shown as rates."""
    key = column.removeprefix(PREFIX)
    between = _BETWEEN_ARRIVALS.search(key)
    if not between:
        return title_parameter(column)
    owner = key[: between.start()].removeprefix("workload_").replace("_", " ")
    return "offered load (transactions/s)" if owner in ("transaction", "") else f"{owner} rate (transactions/s)"


def find_load_class(column: str) -> str | None:
    """Return the workload class whose rate a parameter sets; None if it sets the rate of all classes."""
    found = _CLASS.match(column.removeprefix(PREFIX))
    return found["name"] if found else None


def name_value(column: str, value: Any) -> str:
    """Return the name of a value, or ``parameter = value``."""
    key = _make_value_key(column, value)
    if key in _VALUES:
        return _VALUES[key]
    if key[0] == "transaction_operation" and value is not None:
        return name_operation(value).partition(" (")[0]
    word, unit = name_parameter(column)
    if value is None:
        return f"{word} not set"
    if isinstance(value, bool):
        return word if value else f"no {word}"
    if isinstance(value, int | float):
        return f"{word} = {format_quantity(value, unit)}"
    return str(value) if "provider" in column or column == SCENARIO_COLUMN else f"{word} {value}"


def phrase_label(label: str, scenarios: Collection[str] = ()) -> str:
    """Return a label of a configuration in prose: ``16 tables``, ``20% lost responses``; names of scenarios in backquotes."""
    return ", ".join(f"`{text}`" if text in scenarios else _phrase_value(text) for text in label.split(", "))


def choose_preposition(scenarios: Collection[str]) -> str:
    """Return the preposition before a label in prose: ``in`` before scenarios, otherwise ``with``."""
    return "in" if scenarios else "with"


def _phrase_value(text: str) -> str:
    word, is_value, value = text.partition(" = ")
    if not is_value:
        return text
    if word in _SHARES:
        return f"{format_percent(float(value.replace(',', '')))} {word}"
    noun, per, rest = word.partition(" per ")
    if noun.endswith("s") and " " not in value and not noun.startswith(("maximum", "minimum")):
        return f"{value} {noun.removesuffix('s') if value == '1' else noun}{per}{rest}"
    return f"{word} {value}"


def _make_value_key(column: str, value: Any) -> tuple[str, Any]:
    """Return the key of ``_VALUES``; keys of a class are mapped to keys of ``[transaction]``."""
    key = column.removeprefix(PREFIX)
    of_class = _CLASS.match(key)
    return (f"transaction_{of_class['key']}" if of_class else key, value)


def rank_value(column: str, value: Any) -> tuple[int, float, str]:
    """Return a sort key: named values in the order of ``_VALUES``, then numbers by size, then text."""
    key = _make_value_key(column, value)
    if key in _VALUES:
        return (0, float(list(_VALUES).index(key)), "")
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value or ""))


def label_configuration(parameters: Mapping[str, Any], every: Mapping[str, Any] | None = None) -> str:
    """Return the label of a configuration: the values of the parameters that vary, such as ``S3, no backoff``.

    The weights of an operation mix form one value, computed from ``every`` parameter. Without backoff, the other backoff keys are
    omitted. With backoff, the other backoff keys replace the word ``backoff``.
    """
    names: dict[str, None] = {}
    for column, value in parameters.items():
        group, is_backoff, key = column.partition("retry_backoff_")
        enabled = parameters.get(f"{group}{is_backoff}enabled") if is_backoff else None
        if key != "enabled" and enabled is False:
            continue
        if key == "enabled" and enabled and parameters.get(f"{group}{is_backoff}base_ms") is not None:
            continue
        prefix, is_mix, _ = column.partition("operation_types_")
        names[_name_mix(f"{prefix}{is_mix}", every) if is_mix and every else name_value(column, value)] = None
    return ", ".join(names)


def _name_mix(prefix: str, parameters: Mapping[str, Any]) -> str:
    weights = {name: float(parameters.get(f"{prefix}{name}") or 0.0) for name in OPERATION_WORDS}
    whole = sum(weights.values()) or 1.0
    return " + ".join(f"{format_percent(weight / whole)} {name_operation(name)}" for name, weight in weights.items() if weight)


def name_operation(name: str) -> str:
    """Return the name of an operation type."""
    return OPERATION_WORDS.get(name, name.replace("_", " "))


def describe_window(window: Window) -> str:
    """Return a sentence about the measured part of a run: ``The first 11.5 min of 1 h are excluded as warm-up.``"""
    whole, end = format_duration(window.duration_ms), window.duration_ms - window.end_ms
    last = f"the last {format_duration(end)}" if end > 0.0 else ""
    if window.chosen_by == "schedule":
        return f"The whole run of {whole} is measured{f' except {last}' if last else ''}, because its load follows a schedule."
    if window.start_ms < _SHORTEST_MS:
        return f"The whole run of {whole} is measured{f' except {last}' if last else ''}."
    first = f"The first {format_duration(window.start_ms)}{f' and {last}' if last else ''} of {whole} are excluded"
    return f"{first} as requested." if window.chosen_by == "given" else f"{first} as warm-up."


def describe_short_run(window: Window) -> str | None:
    """Return a warning with the required duration if a run has no steady state or is too short, or None."""
    if window.is_drifting:
        grows = "table metadata" if window.chosen_by == "growth" else "the number of transactions in flight"
        return f"There is no steady state: {grows} grows until the end of the run. {_limit_results(window)}"
    if window.needed_ms is None:
        return None
    needed = f"Set simulation.duration_ms to at least {format_minimum_duration(window.needed_ms)}."
    if window.chosen_by == "runtimes":
        reached = format_duration(window.needed_ms / 2.0)
        return f"The run is too short: commits start at their steady rate only after {reached}. {needed}"
    return f"The run has not reached a steady state: the number of transactions in flight still changes. {needed}"


_BOTTLENECK = 0.9
"""Utilization above which the workers of a catalog are reported as the bottleneck."""


def describe_utilization(rows: Sequence[Mapping[str, Any]], workers: int, where: str = "") -> str | None:
    """Return a sentence about the utilization of a catalog service, with a remedy if the catalog is the bottleneck.

    Return None if the catalog is not a service with a limited number of workers.

    Args:
        rows: Metrics of all transactions, of each seed or across seeds.
        workers: Number of workers of the service.
        where: Configuration of the rows, such as `` with 20 clients``.
    """
    known = [row["catalog_utilization"] for row in rows if is_known(row.get("catalog_utilization"))]
    if not known or not workers:
        return None
    share = sum(known) / len(known)
    who = f"the catalog's {workers} workers" if workers > 1 else "the catalog's worker"
    remedy = " The catalog is the bottleneck. Raise catalog.workers, or shorten the service times of the catalog."
    limits = remedy if share >= _BOTTLENECK else ""
    return f"Utilization of {who} is {format_percent(share)}{where}.{limits}"


def warn_utilization(rows: Sequence[Mapping[str, Any]], workers: int) -> str | None:
    """Return a warning if the workers of a catalog service are the bottleneck, or None."""
    text = describe_utilization(rows, workers)
    return text if text is not None and "bottleneck" in text else None


def describe_month(cost: Cost) -> str | None:
    """Return a sentence about the cost per month at the simulated commit rate; None without prices."""
    month = cost.money_per_month
    if month is None:
        return None
    without = ""
    if cost.unpriced:
        unpriced = join_names([KINDS[kind] for kind in cost.unpriced])
        without = f", excluding {unpriced}, which have no price. Set prices with --prices FILE"
    return f"Cost: {format_money(month)} {cost.currency} per month at {format_rate(cost.commits_per_s)}{without}."


_GROWING = {
    "table_metadata_bytes": "table metadata",
    "table_manifests": "the number of manifests",
}
"""Name of each column of table state whose growth is reported."""


def describe_growth(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a sentence about the growth of table metadata and manifests per day; None if they do not grow.

    Args:
        rows: Metrics of all transactions: a row for each seed, or one row with the means across seeds. Growth is reported only if
            all rows grow.
    """
    grown = []
    for state, name in _GROWING.items():
        rates = [row.get(GROWTH[state]) or 0.0 for row in rows]
        if rates and min(_lowest_growth(row, GROWTH[state]) for row in rows) > 0.0:
            mean = sum(rates) / len(rates)
            grown.append(f"{name} grows by about {format_bytes(mean) if state == 'table_metadata_bytes' else _round(mean)} per day")
    if not grown:
        return None
    return f"{capitalize(' and '.join(grown))}. {_limit_results(window_of(rows[0]))}"


def _round(value: float) -> str:
    """Return a number with three significant digits: ``274,000``."""
    return format_number(float(f"{value:.3g}"))


def _lowest_growth(row: Mapping[str, Any], metric: str) -> float:
    """Return the lower end of the 95% interval of a growth across seeds: a sawtooth may seem to grow in a single seed."""
    width = row.get(f"{metric}_hw")
    return float((row.get(metric) or 0.0) - (0.0 if width is None or math.isnan(width) else width))


def describe_limit(row: Mapping[str, Any], limit_bytes: int | None) -> str | None:
    """Return a sentence about the day on which metadata.json reaches the size limit of the catalog; None if it never does."""
    day = math.inf if limit_bytes is None else day_of_limit(row, limit_bytes)
    if limit_bytes is None or math.isinf(day):
        return None
    beyond = " if growth continues as simulated" if day * DAY_MS > row["duration_ms"] else ""
    reached = f"the limit of {format_bytes(limit_bytes)} on day {math.ceil(day):,}{beyond}"
    return f"metadata.json reaches {reached}. Expire snapshots earlier."


def _limit_results(window: Window) -> str:
    return f"The results hold only for runs of {format_duration(window.duration_ms)}."


def describe_drift(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a warning if a run has no steady state, is too short, or has growing tables, or None."""
    window = window_of(rows[0])
    growth = describe_growth(rows)
    if growth is not None and (window.chosen_by == "growth" or describe_short_run(window) is None):
        return growth if window.settled else f"There is no steady state. {growth}"
    return describe_short_run(window)


def describe_overload(row: Mapping[str, Any]) -> str | None:
    """Return a warning if a configuration is overloaded, or None.

    ``row`` has ``saturated``, and counts or their means across seeds.
    """
    reason, started = row.get("saturated"), row.get("transactions") or 0.0
    if reason is None or not started:
        return None
    in_flight = row["in_flight"] / started
    if reason == "backlog" or in_flight > (row["aborted"] / started):
        if in_flight < _MANY:
            return "Overloaded: transactions start to commit faster than they finish. A longer run does not help."
        share = format_percent(in_flight)
        return f"Overloaded: {share} of transactions are still in flight at the end of the run. A longer run does not help."
    if reason == "success":
        return f"Overloaded: {format_percent(row['aborted'] / started)} of transactions abort at this load."
    return f"Overloaded: only {format_percent(row.get('throughput_ratio') or 0.0)} of the offered load commits."


def format_bounded(row: Mapping[Any, Any], metric: str) -> str:
    """Return a percentile or a number of retries as text: ``640 ms``, a lower bound (``> 12 s``), ``aborted``, or ``-``."""
    value, least = row.get(metric), row.get(at_least(metric))
    if value is not None and math.isfinite(value):
        return format_metric(metric, value)
    return "-" if least is None or math.isnan(least) else format_bound(metric, least)


def explain_ranges(cells: Iterable[str]) -> str | None:
    """Return the explanation of success ranges, if a table contains one."""
    if not any(_RANGE.match(cell) for cell in cells):
        return None
    return (
        "If transactions are in flight at the end of the run, success is a range: the lower end assumes that none of them commit, "
        "the upper end assumes that all of them commit. The range is not a confidence interval."
    )


_COMPILATIONS = {
    "first": "compiling the engine for this commit path and catalog; this happens once and takes about 5 s",
    "beside": "running on the reference engine while the compiled engine is built for the next run",
}


def describe_compilation(choice: Choice) -> str | None:
    """Return a note if a kernel is compiled before or during a run."""
    return _COMPILATIONS.get(choice.compiles)


def note_compilation(document: Document, note: Callable[[str], None]) -> None:
    """Note that a kernel is compiled before or during many runs of a configuration."""
    text = describe_compilation(prepare_run(document, seed=0, among_many=True).simulation.choice)
    if text is not None:
        note(text)
