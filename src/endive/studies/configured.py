"""Compute the metrics that depend on the configuration and summary of a run: cost at list prices, utilization of a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from endive.analysis.request_cost import Basis, basis_of_document, cost_metrics
from endive.analysis.run_metrics import ALL
from endive.analysis.table_growth import LIMIT_REACHED
from endive.config import ConfigError, Document
from endive.config.load import load_document
from endive.runs.layout import RunFiles
from endive.runs.records import RecordError, SummaryRecord, read_record
from endive.storage.prices import list_prices

Key = tuple[str, str]


@dataclass(frozen=True)
class RunFacts:
    """Properties of a run that its rows do not contain.

    Attributes:
        basis: Properties that determine the cost of requests; None if the configuration cannot be read.
        utilization: Utilization of the workers of the catalog service; None without a service.
        limit_reached_ms: Time of the first commit that exceeded the size limit of metadata.json; None if none did.
    """

    basis: Basis | None = None
    utilization: float | None = None
    limit_reached_ms: float | None = None


def facts_of(document: Document, results: Path) -> RunFacts:
    """Return these properties of a run from its configuration and the summary next to its results."""
    return _facts(basis_of_document(document), document.catalog.workers, _files_of(results).summary)


def read_facts(results: Path) -> RunFacts:
    """Return these properties of a run on disk; they are empty if the configuration cannot be read."""
    config = _files_of(results).config
    try:
        basis, workers = _read_config(config, config.stat().st_mtime_ns)
    except (ConfigError, OSError):
        return RunFacts()
    return _facts(basis, workers, _files_of(results).summary)


@lru_cache(maxsize=256)
def _read_config(config: Path, _modified_ns: int) -> tuple[Basis, int]:
    """Return the properties that are equal for all runs of a configuration."""
    document = load_document(config)
    return basis_of_document(document), document.catalog.workers


def _files_of(results: Path) -> RunFiles:
    """Return the files of a run, given the file of its rows: in the directory of a labelled experiment, or next to the results."""
    beside, inside = RunFiles.beside(results), RunFiles.in_directory(results.parent)
    return inside if results in (inside.results, inside.measuring) and not beside.config.exists() else beside


def _facts(basis: Basis, workers: int, summary: Path) -> RunFacts:
    """Return the facts of a run by its basis, the workers of its catalog service, and its summary."""
    try:
        found = read_record(summary, SummaryRecord)
    except RecordError:
        return RunFacts(basis)
    service = found.get("service")
    utilization = None if service is None or not workers else min(1.0, float(service["busy_workers"]) / workers)
    return RunFacts(basis, utilization, found.get("counters", {}).get(LIMIT_REACHED) or None)


def add_configured(rows: Mapping[Key, Mapping[str, Any]], facts: RunFacts) -> dict[Key, dict[str, Any]]:
    """Add these metrics to the rows of metrics of a run; the metrics of the catalog are added only to totals."""
    found = {key: dict(row) for key, row in rows.items()}
    if facts.basis is not None:
        for (workload_class, operation), row in found.items():
            own = [
                {"workload_class": name, **each}
                for (name, kind), each in rows.items()
                if name != ALL and kind == operation and workload_class in (name, ALL)
            ]
            row |= cost_metrics(own, facts.basis, list_prices())
    if (ALL, ALL) in found:
        found[ALL, ALL] |= {"catalog_utilization": facts.utilization, LIMIT_REACHED: facts.limit_reached_ms}
    return found
