"""Start the tables of a run in their steady state: the numbers of manifests and snapshots under merging, rewrites and expiration.

The commit rates of the classes determine the steady state. Manifests accumulate between merges, so their number is a sawtooth
function of time. A table starts at a random time of this cycle. If snapshots are expired, a table starts with the snapshots that
expiration retains. A number that would grow without bound starts with the value in ``TableModel``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from endive.arithmetic.costs import written_count
from endive.arithmetic.draws import derive
from endive.arithmetic.manifests import ALL_MANIFESTS, NO_SNAPSHOT, merged_size
from endive.catalog import AppendCatalog, ServiceCatalog, StoredCatalog
from endive.randomness import Purpose, RandomSource, Stream, run_key
from endive.simulation.config import SimulationConfig
from endive.storage import CATALOG, MANIFEST_LIST, TABLE_METADATA, ProfiledProvider
from endive.table import OperationSettings, TableModel
from endive.table.files import TableFiles
from endive.table.operations import Traits
from endive.transaction import ReadOnlyTransaction, RewriteFilesTransaction, Transaction
from endive.workload import WorkloadClass, ZipfCount, mean_ms
from endive.workload.classes import WeightedSelector, zipf_cumulative


@dataclass(frozen=True)
class CommitRate:
    """Rate of commits of one operation to a table.

    ``is_regular`` is True if the intervals between commits are constant. Otherwise the commits are a Poisson process.
    """

    traits: tuple[Traits, ...]
    """Traits of each snapshot of a commit."""
    per_ms: float
    is_regular: bool = False

    @cached_property
    def snapshots(self) -> int:
        """Number of snapshots that a commit creates."""
        return sum(each.kind != NO_SNAPSHOT for each in self.traits)

    @cached_property
    def replaces_all(self) -> bool:
        """True if a commit replaces all manifests of the table."""
        return any(each.hits == ALL_MANIFESTS for each in self.traits)

    def added(self, deletes: bool) -> int:
        """Return the number of data manifests or delete manifests that a commit adds."""
        return self._added_manifests[deletes]

    def merges(self, deletes: bool) -> bool:
        """Return whether a commit merges data manifests or delete manifests."""
        return self._merges[deletes]

    @cached_property
    def _added_manifests(self) -> tuple[int, int]:
        return sum(each.data for each in self.traits), sum(each.deletes for each in self.traits)

    @cached_property
    def _merges(self) -> tuple[bool, bool]:
        return any(each.merges for each in self.traits), any(each.merges and each.deletes for each in self.traits)


def steady_files(
    model: TableModel,
    commits: Sequence[CommitRate],
    rng: RandomSource,
    *,
    fixed: Collection[str] = (),
    gap_ms: Callable[[int], float] = lambda snapshots: 0.0,
    most_snapshots: float = math.inf,
) -> TableFiles:
    """Return a table in its steady state.

    Args:
        model: Initial numbers of manifests and snapshots.
        commits: Commit rates of the table.
        rng: Source of three uniform random numbers: for data manifests, for delete manifests, and for the time since the last
            expiration.
        fixed: Names among ``manifests``, ``delete_manifests`` and ``snapshots`` that keep their initial numbers.
        gap_ms: Function that returns the minimum time in ms between two commits to a table, given its number of snapshots.
        most_snapshots: Number of snapshots at which the catalog rejects further snapshots.
    """
    u_data, u_deletes, u_expiry = rng.random_sample(), rng.random_sample(), rng.random_sample()
    files = TableFiles.initial(model)
    if "manifests" not in fixed:
        data = _manifests(model, commits, u_data, deletes=False)
        files = files if data is None else replace(files, data=data[0], data_bytes=data[1])
    if "delete_manifests" not in fixed:
        deletes = _manifests(model, commits, u_deletes, deletes=True)
        files = files if deletes is None else replace(files, deletes=deletes[0], delete_bytes=deletes[1])
    retained = _find_retained(commits, u_expiry, gap_ms, most_snapshots)
    if retained is None:
        return files
    snapshots = files.snapshots if "snapshots" in fixed else retained[0]
    return replace(files, snapshots=snapshots, initial_interval_ms=retained[1])


def _manifests(model: TableModel, commits: Sequence[CommitRate], u: float, *, deletes: bool) -> tuple[int, int] | None:
    """Return the number of data or delete manifests and their size in bytes.

    Return None if the number is constant or grows without bound.
    """
    rewrites = [each for each in commits if each.replaces_all]
    added_per_ms = sum(each.per_ms * each.added(deletes) for each in commits if not each.replaces_all)
    merging_per_ms = sum(each.per_ms for each in commits if each.merges(deletes))
    tooth = _count_between_merges(model, added_per_ms / merging_per_ms) if added_per_ms > 0.0 and merging_per_ms > 0.0 else math.inf
    if rewrites:
        added = int(added_per_ms * _age_ms(rewrites, u))
        base, merged = max(each.added(deletes) for each in rewrites), added >= tooth
        count = base + (int(math.fmod(added, tooth)) if merged else added)
    elif tooth < math.inf:
        count, merged = 1 + int(u * tooth), True
    else:
        return None
    oldest = merged_size(model, model.manifest_bytes, 1 + int(tooth)) if merged else model.manifest_bytes
    return count, oldest + (count - 1) * model.manifest_bytes if count else 0


def _count_between_merges(model: TableModel, added_per_merge: float) -> float:
    """Return the number of manifests that commits add between two merges. The number is infinite if there are no merges.

    A commit merges manifests if there are ``min_count_to_merge``, including the new manifest, or if a bin is full.
    """
    per_bin = model.target_bytes // model.manifest_bytes
    if not model.merge_manifests or per_bin < 2:
        return math.inf
    needed = min(model.min_count_to_merge - 1, per_bin)
    return added_per_merge * math.ceil(round(needed / added_per_merge, 9))


def _find_retained(
    commits: Sequence[CommitRate], u: float, gap_ms: Callable[[int], float], most_snapshots: float
) -> tuple[int, float] | None:
    """Return the number of snapshots that expiration retains and the interval between them in ms; None without expiration."""
    expiries = [each for each in commits if not each.snapshots]
    offered = sum(each.per_ms * each.snapshots for each in commits)
    if not expiries or offered <= 0.0:
        return None
    age_ms = _age_ms(expiries, u)

    def snapshots(per_ms: float) -> int:
        kept = min(max(each.traits[0].min_snapshots, per_ms * each.traits[0].max_age_ms) for each in expiries)
        return int(max(1.0, min(kept + per_ms * age_ms, most_snapshots)))

    per_ms = _find_sustained_rate(offered, lambda rate: rate * gap_ms(snapshots(rate)) <= 1.0)
    return snapshots(per_ms), 1.0 / per_ms


def _find_sustained_rate(offered: float, is_possible: Callable[[float], bool]) -> float:
    """Return the commit rate that a table sustains: the offered rate, or the maximum rate if that is lower."""
    if is_possible(offered):
        return offered
    low, high = 0.0, offered
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_possible(middle) else (low, middle)
    return high


def _age_ms(events: Sequence[CommitRate], u: float) -> float:
    """Return the time from the last event to a random time, in ms.

    The time is uniform for regular intervals, and exponential otherwise.
    """
    per_ms = sum(each.per_ms for each in events)
    return (u if all(each.is_regular for each in events) else -math.log1p(-u)) / per_ms


def start_steady(config: SimulationConfig, fixed: Collection[str] = ()) -> SimulationConfig:
    """Return the configuration, with tables that start in their steady state.

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
    """Return the commit rates of each table, from the classes that are active at the start of the run."""
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

    For a schedule, the rate is the mean over the run. A class that starts within its first interval counts as active at the start.
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
    """Return the possible numbers of tables per transaction, each with its probability."""
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
        """Return the minimum time between commits to a table with ``snapshots`` snapshots, in ms; 0 for a custom object store."""
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
