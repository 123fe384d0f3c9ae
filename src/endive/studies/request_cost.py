"""Compute metrics that depend on the configuration and summary of a run: requests, their cost, utilization of the catalog.

Requests are counted over the whole cohort, including aborted transactions and transactions in flight at the end of the run.
``docs/explanation/cost.md`` contains the definitions with an example.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from endive.analysis.run_metrics import ALL
from endive.analysis.table_growth import LIMIT_REACHED
from endive.config import ConfigError, Document
from endive.config.load import load_document
from endive.config.resolve import resolve_classes
from endive.runs.layout import RunFiles
from endive.runs.records import RecordError, SummaryRecord, read_record
from endive.storage.prices import Prices, list_prices
from endive.transaction.paths import COMMIT_PATHS, DEFAULT_PATH, PROTOCOL, CommitPath

Kind = Literal["store_reads", "store_writes", "store_deletes", "server_writes", "catalog_reads", "catalog_commits"]
KINDS: dict[Kind, str] = {
    "store_reads": "metadata file reads",
    "store_writes": "metadata file writes",
    "store_deletes": "metadata file deletes",
    "server_writes": "metadata.json writes of the catalog server",
    "catalog_reads": "catalog reads",
    "catalog_commits": "catalog commits",
}
"""Names of kinds of requests."""
SECONDS_PER_MONTH = 730.0 * 3600.0
"""Length of a month in the metric of cost per month."""
COST = ("cost_per_1000_commits", "cost_per_month")
"""Metrics of cost at list prices."""
_READS = ("metadata_reads", "manifest_list_reads", "manifest_file_reads", "data_reads")
_WRITES = (
    "metadata_writes",
    "manifest_list_writes",
    "manifest_file_writes",
    "manifest_list_appends",
    "data_writes",
    "list_requests",
)
"""Columns of requests with the price of a write, including list requests, which object stores charge like writes."""


@dataclass(frozen=True)
class Basis:
    """Properties of a configuration that determine its requests and their prices.

    Attributes:
        store: Object store of the tables.
        catalog: Object store of the catalog; None if the catalog is a service or ideal.
        service: True if the catalog is a service.
        server_writes: True if the catalog is a service that writes metadata.json.
        paths: Commit path of each class.
        kept_handles: Classes whose transactions start from a cached table handle.
    """

    store: str
    catalog: str | None
    service: bool
    server_writes: bool
    paths: Mapping[str, str]
    kept_handles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Cost:
    """Requests and cost per 1,000 commits.

    Attributes:
        requests: Number of requests by kind.
        money: Cost by kind of request, 0 for kinds without a price; None if the object store of the tables has no prices.
        unpriced: Kinds of requests that occur but have no price.
        orphaned_files: Number of orphaned files.
        currency: Currency of ``money``.
        commits_per_s: Commits per second of simulated time.
    """

    requests: Mapping[Kind, float]
    money: Mapping[Kind, float] | None
    unpriced: tuple[Kind, ...]
    orphaned_files: float
    currency: str
    commits_per_s: float

    @property
    def total_requests(self) -> float:
        """Number of requests of all kinds."""
        return sum(self.requests.values())

    @property
    def total_money(self) -> float | None:
        """Cost of all requests that have a price; None if the object store has no prices."""
        return None if self.money is None else sum(self.money.values())

    @property
    def money_per_month(self) -> float | None:
        """Cost per month of 730 h at the simulated commit rate; None if the object store has no prices."""
        return None if self.total_money is None else self.total_money * self.commits_per_s * SECONDS_PER_MONTH / 1000.0


def basis_of(parameters: Mapping[str, Any], classes: Sequence[str]) -> Basis:
    """Return the properties that determine the cost of an experiment, from its columns such as ``param_storage_provider``."""

    def of_class(name: str, key: str) -> Any:
        own = parameters.get(f"param_workload_{name.replace('-', '_')}_{key}")
        return own or parameters.get(f"param_transaction_{key}")

    store, catalog = (str(parameters.get(f"param_{section}_provider", "")) for section in ("storage", "catalog"))
    writes = bool(parameters.get("param_catalog_writes_metadata", True))
    paths = {name: str(of_class(name, "commit_path") or DEFAULT_PATH.name) for name in classes}
    kept = {name for name in classes if of_class(name, "table_handle") == "kept"}
    return _basis(store, catalog, parameters.get("param_catalog_type"), writes, paths, kept)


def basis_of_document(document: Document) -> Basis:
    """Return the properties that determine the cost of a configuration."""
    store, catalog = document.storage.provider or "", document.catalog
    classes = resolve_classes(document)
    paths = {each.name: each.settings.commit_path for each in classes}
    kept = {each.name for each in classes if each.settings.table_handle == "kept"}
    return _basis(store, catalog.provider or store, catalog.type, catalog.writes_metadata, paths, kept)


def _basis(store: str, catalog: str, kind: str | None, writes: bool, paths: Mapping[str, str], kept: Collection[str]) -> Basis:
    service = kind == "service"
    handles = frozenset(name for name in kept if service and _path(paths.get(name)).keeps_files)
    return Basis(store, catalog if (kind or "cas") in ("cas", "append") else None, service, service and writes, paths, handles)


def _path(name: str | None) -> CommitPath:
    return COMMIT_PATHS.get(name or DEFAULT_PATH.name, PROTOCOL)


def rows_by_class(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Select the rows of metrics from which cost is computed, which are those of each class for all operations."""
    return [row for row in rows if row["workload_class"] != ALL and row["operation_type"] == ALL]


def requests_of(rows: Sequence[Mapping[str, Any]], basis: Basis) -> dict[Kind, float]:
    """Count the requests of the cohort in rows of metrics that ``rows_by_class`` selected."""
    found: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
    for row in rows:
        path = _path(basis.paths.get(row["workload_class"]))
        loads = path.loads_with_requirements if basis.server_writes else path.loads
        if row["workload_class"] in basis.kept_handles:
            loads = loads._replace(per_transaction=max(0, loads.per_transaction - 1))
        entered, retries = row["transactions"], row["n_retries"]
        found["store_reads"] += sum(row.get(name, 0) for name in _READS)
        found["store_writes"] += sum(row.get(name, 0) for name in _WRITES)
        found["store_deletes"] += row["file_deletes"]
        found["server_writes"] += row["committed"] if basis.server_writes else 0
        found["catalog_reads"] += row.get("catalog_requests", 0)
        found["catalog_reads"] += loads.per_transaction * entered + loads.per_retry * retries + loads.per_commit * row["committed"]
        found["catalog_commits"] += entered + retries
    return found


def cost_of(rows: Sequence[Mapping[str, Any]], basis: Basis, prices: Prices) -> Cost | None:
    """Return requests and cost per 1,000 commits; None if there are no commits."""
    committed = sum(row["committed"] for row in rows)
    if not committed:
        return None
    per_thousand = 1000.0 / committed
    requests: dict[Kind, float] = {kind: number * per_thousand for kind, number in requests_of(rows, basis).items()}
    each = _unit_prices(basis, prices)
    money = None if each is None else {kind: requests[kind] * (each[kind] or 0.0) / 1000.0 for kind in KINDS}
    unpriced = tuple(kind for kind in KINDS if requests[kind] and (each is None or each[kind] is None))
    orphaned = sum(row["orphaned_files"] for row in rows) * per_thousand
    return Cost(requests, money, unpriced, orphaned, prices.currency, sum(row["throughput_per_s"] for row in rows))


def cost_metrics(rows: Sequence[Mapping[str, Any]], basis: Basis, prices: Prices) -> dict[str, float | None]:
    """Return the cost metrics of some rows, one row per class. A metric is None without commits or prices."""
    cost = cost_of(rows, basis, prices)
    return dict.fromkeys(COST) if cost is None else dict(zip(COST, (cost.total_money, cost.money_per_month), strict=True))


def _unit_prices(basis: Basis, prices: Prices) -> dict[Kind, float | None] | None:
    """Return the price of 1,000 requests by kind (None if the catalog has no price), or None if the object store has no prices."""
    store = prices.find(basis.store)
    catalog = None if basis.catalog is None else prices.find(basis.catalog)
    reads = commits = prices.service_request if basis.service else None
    if catalog is not None:
        reads, commits = catalog.get, catalog.put
    if store is None:
        return None
    return dict(zip(KINDS, (store.get, store.put, store.delete, store.put, reads, commits), strict=True))


Key = tuple[str, str]


@dataclass(frozen=True)
class RunFacts:
    """Properties of a run that its rows do not contain.

    Attributes:
        basis: Properties that determine the cost of requests; None if the configuration cannot be read.
        utilization: Utilization of the workers of the catalog service; None without a catalog service.
        limit_reached_ms: Time of the first commit that exceeded the size limit of metadata.json; None if no commit did.
    """

    basis: Basis | None = None
    utilization: float | None = None
    limit_reached_ms: float | None = None


def facts_of(document: Document, results: Path) -> RunFacts:
    """Return the facts of a run that follow from its configuration and its summary."""
    return _facts(basis_of_document(document), document.catalog.workers, _files_of(results).summary)


def read_facts(results: Path) -> RunFacts:
    """Return the facts of a run on disk, from its configuration and summary; empty if the configuration cannot be read."""
    config = _files_of(results).config
    try:
        basis, workers = _read_config(config, config.stat().st_mtime_ns)
    except (ConfigError, OSError):
        return RunFacts()
    return _facts(basis, workers, _files_of(results).summary)


@lru_cache(maxsize=256)
def _read_config(config: Path, _modified_ns: int) -> tuple[Basis, int]:
    """Return the cost basis and the number of catalog workers, which are the same for all runs of a configuration."""
    document = load_document(config)
    return basis_of_document(document), document.catalog.workers


def _files_of(results: Path) -> RunFiles:
    """Return the files of a run, given its results: in the directory of a labelled experiment, or next to the results."""
    beside, inside = RunFiles.beside(results), RunFiles.in_directory(results.parent)
    return inside if results in (inside.results, inside.measuring) and not beside.config.exists() else beside


def _facts(basis: Basis, workers: int, summary: Path) -> RunFacts:
    """Return the facts of a run, given its cost basis, the number of catalog workers, and its summary."""
    try:
        found = read_record(summary, SummaryRecord)
    except RecordError:
        return RunFacts(basis)
    service = found.get("service")
    utilization = None if service is None or not workers else min(1.0, float(service["busy_workers"]) / workers)
    return RunFacts(basis, utilization, found.get("counters", {}).get(LIMIT_REACHED) or None)


def add_configured(rows: Mapping[Key, Mapping[str, Any]], facts: RunFacts) -> dict[Key, dict[str, Any]]:
    """Add metrics that depend on the configuration to the metrics of a run. Metrics of the catalog are added only to totals."""
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
