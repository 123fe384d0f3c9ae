"""Let the tables of a run start in their steady state (``endive.table.steady``), derived from the commit rates of the classes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from endive.arithmetic.draws import derive
from endive.catalog import AppendCatalog, ServiceCatalog, StoredCatalog
from endive.randomness import Purpose, Stream, run_key
from endive.simulation.config import SimulationConfig
from endive.storage import CATALOG, MANIFEST_LIST, TABLE_METADATA, ProfiledProvider
from endive.table import OperationSettings, TableModel
from endive.table.steady import CommitRate, steady_files
from endive.transaction import ReadOnlyTransaction, RewriteFilesTransaction, Transaction
from endive.workload import WorkloadClass, ZipfCount, mean_ms
from endive.workload.classes import WeightedSelector, written_count, zipf_cumulative


def start_steady(config: SimulationConfig, fixed: Collection[str] = ()) -> SimulationConfig:
    """Return the configuration with tables that start in their steady state.

    Args:
        config: Configuration with a built-in catalog that tracks metadata files. Other configurations are returned unchanged.
        fixed: Keys among ``manifests``, ``delete_manifests`` and ``snapshots`` that keep the values of the table model.
    """
    catalog = config.catalog
    if not isinstance(catalog, StoredCatalog) or catalog.table_model is None:
        return config
    model, gaps = catalog.table_model, _Gaps(config, catalog)
    root = derive(run_key(config.run_seed), Purpose.TABLE_START)
    most = _most_snapshots(model, catalog.metadata_limit_bytes)
    files = [
        steady_files(model, commits, Stream(derive(root, table)), fixed=fixed, gap_ms=gaps.gap_ms, most_snapshots=most)
        for table, commits in enumerate(_commits_by_table(config, gaps.gap_ms(model.snapshots)))
    ]
    return replace(config, catalog=catalog.starting_with(files))


def _most_snapshots(model: TableModel, limit_bytes: int | None) -> float:
    if limit_bytes is None or not model.metadata_bytes_per_snapshot:
        return math.inf
    return (limit_bytes - model.metadata_bytes) // model.metadata_bytes_per_snapshot


def _commits_by_table(config: SimulationConfig, commit_ms: float) -> list[list[CommitRate]]:
    """Return the commit rates of each table. Only classes that are active at the start of the run count."""
    tables: list[list[CommitRate]] = [[] for _ in range(config.workload.config.num_tables)]
    for cls in config.workload.config.workload_classes:
        path, settings = config.policy_of(cls).path, cls.settings or OperationSettings()
        rates: dict[tuple[type[Transaction], float], CommitRate] = {}  # tables with equal rates share one entry
        for operation, table, per_ms in _rates(config, cls, commit_ms):
            if issubclass(operation, RewriteFilesTransaction):
                per_ms *= settings.commits_per_job
            if per_ms > 0.0 and not issubclass(operation, ReadOnlyTransaction):
                if (operation, per_ms) not in rates:
                    traits = path.snapshots(operation.operation_type, settings)
                    rates[operation, per_ms] = CommitRate(traits, per_ms, cls.arrivals.period_ms is not None)
                tables[table].append(rates[operation, per_ms])
    return tables


def _rates(config: SimulationConfig, cls: WorkloadClass, commit_ms: float) -> Iterator[tuple[type[Transaction], int, float]]:
    """Yield the commits per millisecond of a class, for each operation and table."""
    weights = {operation: weight / sum(cls.operations.values()) for operation, weight in cls.operations.items() if weight > 0.0}
    shares = _table_shares(config, cls)
    if not cls.arrivals.traced:
        per_ms = _class_rate(config, cls, commit_ms)
        yield from ((op, table, per_ms * weight * share) for op, weight in weights.items() for table, share in shares.items())
        return
    for (given, at), count in Counter((each.operation, each.table) for each in cls.arrivals.traced).items():
        for operation, weight in (weights if given is None else {given: 1.0}).items():
            for table, share in (shares if at is None else {at: 1.0}).items():
                yield operation, table, count * weight * share / config.duration_ms


def _class_rate(config: SimulationConfig, cls: WorkloadClass, commit_ms: float) -> float:
    """Return the commits per millisecond of a class if all of its transactions commit; 0 for a class that starts later.

    For a schedule, the rate is the mean over the run. A class that starts within its first interval counts as active.
    """
    if cls.arrivals.is_steady:
        per_ms = cls.arrivals.submissions_per_ms(mean_ms, mean_ms(cls.runtime) + commit_ms)
    else:
        per_ms = cls.arrivals.expected_submissions(config.duration_ms) / config.duration_ms
    if cls.start_ms * per_ms > 1.0:
        return 0.0
    if cls.committer is not None:
        rounds = cls.arrivals.numbered_writers if cls.committer.round == "all_writers" else 1
        per_ms = min(per_ms / max(rounds, 1), 1.0 / max(commit_ms, cls.committer.interval_ms, 1.0))
    return per_ms


def _table_shares(config: SimulationConfig, cls: WorkloadClass) -> dict[int, float]:
    """Return the probability that a transaction of a class writes a table, for each table.

    The probability is approximate if a transaction selects several tables by weight.
    """
    tables = range(config.workload.config.num_tables) if cls.tables is None else cls.tables
    total, selector = len(tables), cls.table_selector
    alpha, fraction = (selector.alpha, selector.write_fraction) if isinstance(selector, WeightedSelector) else (0.0, 1.0)
    sums, counts = zipf_cumulative(total, alpha), _count_shares(cls, total)
    written = sum(share * written_count(count, fraction) for count, share in counts)
    return {table: min(1.0, written * (sums[i + 1] - sums[i]) / sums[-1]) for i, table in enumerate(tables)}


def _count_shares(cls: WorkloadClass, total: int) -> Sequence[tuple[int, float]]:
    """Return the possible numbers of tables of a transaction, each with its probability."""
    count = cls.tables_per_txn
    if not isinstance(count, ZipfCount):
        return ((min(count, total), 1.0),)
    sums = zipf_cumulative(total, count.alpha)
    return [(k, (sums[k] - sums[k - 1]) / sums[-1]) for k in range(1, total + 1)]


class _Half:
    """Random source that always returns 0.5, the median."""

    def random_sample(self) -> float:
        return 0.5


@dataclass(frozen=True)
class _Gaps:
    """Minimum time between two commits to one table, computed from median latencies.

    Each commit is based on the metadata of the previous commit: the client reads and writes metadata and a manifest list, and then
    replaces the commit pointer. A catalog service writes the metadata, and can commit several requests at once.
    """

    config: SimulationConfig
    catalog: StoredCatalog

    def gap_ms(self, snapshots: int) -> float:
        """Return the minimum time between commits to a table with this number of snapshots, in ms; 0 for a custom object store."""
        catalog = self.catalog
        if not isinstance(self.config.storage_provider, ProfiledProvider) or not isinstance(catalog.storage, ProfiledProvider):
            return 0.0
        assert catalog.table_model is not None
        model, store, pointer = catalog.table_model, self.config.storage_provider.bind(_Half()), catalog.storage.bind(_Half())
        size = model.metadata_bytes + model.metadata_bytes_per_snapshot * snapshots
        if isinstance(catalog, ServiceCatalog) and catalog.settings.writes_metadata:
            settings = catalog.settings
            batch = 1 if settings.coalesce is None else max(1, settings.coalesce.max_batch)
            return (settings.commit.at(0.5) + pointer.write_ms(TABLE_METADATA, size)) / batch
        swap_ms = self._swap_ms(pointer)
        lists_ms = store.read_ms(MANIFEST_LIST, model.manifest_list_bytes) + store.write_ms(
            MANIFEST_LIST, model.manifest_list_bytes
        )
        return lists_ms + store.read_ms(TABLE_METADATA, size) + store.write_ms(TABLE_METADATA, size) + swap_ms

    def _swap_ms(self, pointer: ProfiledProvider) -> float:
        catalog = self.catalog
        if isinstance(catalog, ServiceCatalog):
            return catalog.settings.commit.at(0.5)
        if isinstance(catalog, AppendCatalog):
            return pointer.append_ms(CATALOG, 0, catalog.log_entry_bytes).success_ms
        return pointer.cas_ms(CATALOG, 0, catalog.size_bytes).success_ms
