"""Define the interface of catalogs, the state of the built-in catalogs, and the metadata files of custom catalogs.

A read returns an immutable snapshot. A commit contains the sequence number of its base snapshot, and its result tells whether it
took effect. The built-in catalogs store the versions of tables and partitions, and one sequence number for each table group.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from endive.arithmetic.costs import moment_of_effect_ms
from endive.arithmetic.manifests import metadata_size
from endive.catalog.snapshots import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord, TableHandles, TableMetadata
from endive.randomness import RandomSource
from endive.steps import Step
from endive.storage import CATALOG, StorageProvider, UnsupportedOperationError
from endive.table import TableChange, TableFiles, TableModel

DEFAULT_CATALOG_BYTES = 4096
TableChanges = tuple[TableChange, ...]
"""Changes that a commit makes to a table, one for each snapshot of the commit."""


class Catalog(ABC):
    """Base class of catalogs. Subclass it to define a custom catalog."""

    installed_files: tuple[TableFiles, ...] = ()
    """State of the written tables right after the last commit of this transaction; empty if the commit did not take effect."""

    @abstractmethod
    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Read the current state of the catalog."""

    @abstractmethod
    def commit(
        self,
        expected_seq: int,
        writes: Mapping[int, int],
        timestamp_ms: float = 0.0,
        intention: IntentionRecord | None = None,
        *,
        partitions_written: Mapping[int, frozenset[int]] | None = None,
    ) -> Generator[Step, None, CommitResult]:
        """Install new versions of tables if the state on which the commit is based has not changed.

        A catalog that tracks metadata files (``table_model``) has a further argument ``changes``: how the commit changes the
        snapshots and manifests of each table.

        Args:
            expected_seq: Sequence number of the base snapshot.
            writes: New version of each written table, by table id.
            timestamp_ms: Simulated time of the call.
            intention: Record with the requirements of the commit.
            partitions_written: Changed partitions of each table, or None if any partition may have changed.
        """

    def observe(self, timestamp_ms: float) -> CatalogSnapshot:
        """Return the state that a request to the object store observes at ``timestamp_ms``.

        Declarative protocols call this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support declarative protocols")

    def publish(self, version: int) -> None:
        """Publish the ratified commits up to a version.

        Declarative protocols call this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support declarative protocols")

    @property
    @abstractmethod
    def seq(self) -> int:
        """Number of commits that took effect."""

    def bind(self, rng: RandomSource | None, group: int = 0) -> Catalog:
        """Return the catalog for one transaction, with its random stream and its table group.

        Args:
            rng: Random stream of the transaction, or None to use the catalog's generator.
            group: Table group of the transaction.
        """
        return self

    def restrict(self, tables: Collection[int]) -> Catalog:
        """Return the catalog for a transaction that reads only these tables."""
        return self

    def keep_handles(self, handles: TableHandles) -> CatalogSnapshot | None:
        """Update the table handles of the writer with the table state that its transaction observes.

        Returns:
            The cached state from which the transaction can start, or None if it must read the catalog.
        """
        return None

    @property
    def takes_requirements(self) -> bool:
        """True if a commit request contains requirements that only the catalog checks, as in REST catalogs.

        The client then needs no refresh before the commit.
        """
        return False

    def fresh(self) -> Self:
        """Return the catalog in its initial state, so that a configuration can run more than once."""
        return copy.deepcopy(self)

    @property
    def counters(self) -> CatalogCounters:
        """Counters of the catalog."""
        return CatalogCounters()


class CommitRequest(NamedTuple):
    """Commit request to a built-in catalog, with the arguments of ``Catalog.commit``."""

    expected_seq: int
    writes: Mapping[int, int]
    timestamp_ms: float
    intention: IntentionRecord
    partitions: Mapping[int, frozenset[int]] | None
    changes: Mapping[int, TableChanges] | None
    installed: list[TableFiles]
    """State of the written tables after the commit. The catalog sets it at the linearization point."""
    handles: TableHandles | None = None
    """Cached table handles of the writer, or None if the writer has no cache."""


@dataclass
class Group:
    """Commit pointer or log of one table group."""

    seq: int = 0
    log_offset: int = 0
    checkpoint_offset: int = 0
    entries_since_checkpoint: int = 0
    sealed: bool = False
    writable_ms: float = 0.0
    """Time after which the object store accepts the next write of the commit pointer."""
    published: int = 0
    """Latest version whose ratified commit is published."""


class CatalogState:
    """Mutable state of a built-in catalog, which all transactions share."""

    def __init__(
        self, partitions_per_table: Sequence[int], table_groups: Sequence[int], initial_files: Sequence[TableFiles] = ()
    ) -> None:
        files: Sequence[TableFiles | None] = initial_files or (None,) * len(partitions_per_table)
        versions = {n: (0,) * n for n in set(partitions_per_table)}  # shared, because the number of all partitions may be large
        self.tables = tuple(TableMetadata(i, 0, n, versions[n], files[i]) for i, n in enumerate(partitions_per_table))
        self.table_groups = tuple(table_groups)
        self.groups = [Group() for _ in range(max(self.table_groups) + 1)]
        self.counters = CatalogCounters()

    def group_of(self, writes: Mapping[int, int]) -> Group:
        """Return the table group of the written tables.

        Raises:
            ValueError: If the tables belong to several groups.
        """
        ids = {self.table_groups[table_id] for table_id in writes}
        if len(ids) != 1:
            raise ValueError(
                f"a commit must write tables of one table group, but tables {sorted(writes)} belong to groups {sorted(ids)}"
            )
        return self.groups[ids.pop()]

    def install(self, group: Group, request: CommitRequest) -> None:
        """Install the new table versions. Earlier snapshots keep the old versions."""
        tables, partitions = list(self.tables), request.partitions
        for table_id, new_version in request.writes.items():
            table = tables[table_id]
            if partitions is None:
                versions = tuple([version + 1 for version in table.partition_versions])
            else:
                changed = list(table.partition_versions)
                for partition_id in partitions.get(table_id, ()):
                    changed[partition_id] += 1
                versions = tuple(changed)
            files = table.files
            if files is not None and request.changes is not None:
                for change in request.changes[table_id]:
                    files = files.after(change)
                request.installed.append(files)
            ref = table.ref + request.intention.moves_ref
            tables[table_id] = TableMetadata(table_id, new_version, table.num_partitions, versions, files, ref)
        self.tables = tuple(tables)
        group.seq += 1
        self.counters.commit_success += 1


class StoredCatalog(Catalog):
    """Base class of the built-in catalogs.

    A read takes effect at the fraction ``linearization`` of its latency.
    """

    needs_cas: ClassVar[bool] = False
    """True if the object store must support compare-and-swap."""
    replays_log: ClassVar[bool] = False
    """True if each log entry since the checkpoint increases the latency of a read."""

    def __init__(
        self,
        storage: StorageProvider,
        num_tables: int,
        partitions_per_table: Sequence[int],
        *,
        table_groups: Sequence[int] | None = None,
        linearization: float = 1.0,
        size_bytes: int = DEFAULT_CATALOG_BYTES,
        table_model: TableModel | None = None,
        metadata_limit_bytes: int | None = None,
    ) -> None:
        if num_tables < 1 or len(partitions_per_table) != num_tables:
            raise ValueError(f"partitions_per_table must have one value per table ({num_tables}), not {len(partitions_per_table)}")
        if not 0.0 <= linearization <= 1.0:
            raise ValueError(f"linearization is {linearization}, but must be in [0, 1]")
        if self.needs_cas and not storage.supports_cas:
            raise UnsupportedOperationError(
                f"provider {storage.name!r} does not support compare-and-swap, which this catalog needs"
            )
        self.storage = storage
        self.linearization = linearization
        self.size_bytes = size_bytes
        self.table_model = table_model
        self.metadata_limit_bytes = metadata_limit_bytes
        self._group_id = 0
        groups = (0,) * num_tables if table_groups is None else tuple(table_groups)
        if len(groups) != num_tables or min(groups) < 0:
            raise ValueError(f"table_groups must have {num_tables} group numbers, one per table and at least 0, not {groups}")
        self.initial_files = () if table_model is None else (TableFiles.initial(table_model),) * num_tables
        """Initial metadata files of each table; empty if the catalog does not track files."""
        self._state = CatalogState(partitions_per_table, groups, self.initial_files)

    def fresh(self) -> Self:
        """Return the catalog in its initial state."""
        catalog = copy.copy(self)
        catalog._state = CatalogState([table.num_partitions for table in self.tables], self.table_groups, self.initial_files)
        return catalog

    def starting_with(self, initial_files: Sequence[TableFiles]) -> Self:
        """Return the catalog with the given initial metadata files of its tables."""
        catalog = copy.copy(self)
        catalog.initial_files = tuple(initial_files)
        return catalog.fresh()

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the catalog for one transaction, with its random stream and its table group."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        if rng is not None:
            view.storage = self.storage.bind(rng)
        view._group_id = group
        return view

    @property
    def seq(self) -> int:
        """Number of commits that took effect, in all table groups."""
        return sum(group.seq for group in self._state.groups)

    @property
    def tables(self) -> tuple[TableMetadata, ...]:
        """Current state of all tables, for use outside of a simulation."""
        return self._state.tables

    @property
    def table_groups(self) -> tuple[int, ...]:
        """Table group of each table."""
        return self._state.table_groups

    @property
    def counters(self) -> CatalogCounters:
        """Counters of the catalog."""
        return self._state.counters

    def commit(
        self,
        expected_seq: int,
        writes: Mapping[int, int],
        timestamp_ms: float = 0.0,
        intention: IntentionRecord | None = None,
        *,
        partitions_written: Mapping[int, frozenset[int]] | None = None,
        changes: Mapping[int, TableChanges] | None = None,
    ) -> Generator[Step, None, CommitResult]:
        """Install new versions of tables if the state on which the commit is based has not changed."""
        intention = intention or IntentionRecord(-1, expected_seq, writes)
        request = CommitRequest(expected_seq, writes, timestamp_ms, intention, partitions_written, changes, [])
        result = yield from self._commit(request)
        self.installed_files = tuple(request.installed)
        return result

    def _commit(self, request: CommitRequest) -> Generator[Step, None, CommitResult]:
        raise NotImplementedError

    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Read the current state of the table group."""
        snapshot, _ = yield from self._timed_read(timestamp_ms, self._state.groups[self._group_id])
        return snapshot

    def observe(self, timestamp_ms: float) -> CatalogSnapshot:
        """Return the current state of the table group."""
        group = self._state.groups[self._group_id]
        return CatalogSnapshot(group.seq, self._state.tables, timestamp_ms, group.log_offset)

    def publish(self, version: int) -> None:
        """Publish the commits of the table group up to a version."""
        group = self._state.groups[self._group_id]
        group.published = max(group.published, version)

    def _timed_read(self, timestamp_ms: float, group: Group) -> Generator[float, None, tuple[CatalogSnapshot, float]]:
        """Read the catalog.

        Returns:
            The snapshot and the latency in ms, including the time for the log entries since the checkpoint.
        """
        latency = self.storage.read_ms(CATALOG, self.size_bytes)
        per_entry = self.storage.log_entry_read_ms() if self.replays_log else 0.0
        effect = moment_of_effect_ms(latency, self.linearization)
        yield effect
        snapshot = CatalogSnapshot(group.seq, self._state.tables, timestamp_ms + effect, group.log_offset)
        latency += per_entry * group.entries_since_checkpoint
        if latency - effect > 0.0:
            yield latency - effect
        return snapshot, latency

    def _is_too_large(self, request: CommitRequest, now_ms: float) -> bool:
        """Return whether metadata.json would exceed its size limit with the new snapshot. Record the first time this happens."""
        limit, counters = self.metadata_limit_bytes, self.counters
        if limit is None or not request.intention.moves_ref:  # expiring snapshots reduces the size
            return False
        for table_id in request.writes:
            files = self.tables[table_id].files
            if files is not None and metadata_size(files.model, files.snapshots + 1) > limit:
                if counters.metadata_limit_reached_ms == 0.0:
                    counters.metadata_limit_reached_ms = now_ms
                return True
        return False


class AccountedCatalog(Catalog):
    """Wrapper around another catalog that tracks the metadata files of its tables.

    A commit takes effect in the step that increments the ``seq`` of the wrapped catalog. The wrapper then applies the changes of
    the commit to the files of its tables. Snapshots contain the files of their table versions.
    """

    def __init__(self, catalog: Catalog, table_model: TableModel) -> None:
        self.table_model = table_model
        self._catalog = catalog
        self._shared = catalog
        self._files: dict[tuple[int, int], TableFiles] = {}

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the catalog for one transaction."""
        view = copy.copy(self)
        view._catalog = self._catalog.bind(rng, group)
        return view

    @property
    def seq(self) -> int:
        """Number of installed commits."""
        return self._shared.seq

    @property
    def counters(self) -> CatalogCounters:
        """Counters of the catalog."""
        return self._shared.counters

    @property
    def takes_requirements(self) -> bool:
        """True if a commit request contains requirements that only the catalog checks."""
        return self._shared.takes_requirements

    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Read the current state of the catalog, with the metadata files of its tables."""
        snapshot = yield from self._catalog.read(timestamp_ms)
        return replace(
            snapshot, tables=tuple(replace(table, files=self._files_at(table.table_id, table.version)) for table in snapshot.tables)
        )

    def commit(
        self,
        expected_seq: int,
        writes: Mapping[int, int],
        timestamp_ms: float = 0.0,
        intention: IntentionRecord | None = None,
        *,
        partitions_written: Mapping[int, frozenset[int]] | None = None,
        changes: Mapping[int, TableChanges] | None = None,
    ) -> Generator[Step, None, CommitResult]:
        """Commit, and apply the changes to the metadata files in the step in which the commit takes effect."""
        steps = self._catalog.commit(expected_seq, writes, timestamp_ms, intention, partitions_written=partitions_written)
        installed: list[TableFiles] = []
        while True:
            before = self._shared.seq
            try:
                step = next(steps)
            except StopIteration as stop:
                self._record(before, writes, changes, installed)
                result: CommitResult = stop.value
                self.installed_files = tuple(installed)
                return result
            self._record(before, writes, changes, installed)
            yield step

    def _record(
        self, before: int, writes: Mapping[int, int], changes: Mapping[int, TableChanges] | None, installed: list[TableFiles]
    ) -> None:
        if self._shared.seq == before:
            return
        for table_id, version in writes.items():
            files = self._files_at(table_id, version - 1)
            for change in () if changes is None else changes[table_id]:
                files = files.after(change)
            self._files[table_id, version] = files
            installed.append(files)

    def _files_at(self, table_id: int, version: int) -> TableFiles:
        files = self._files.get((table_id, version))
        return TableFiles.initial(self.table_model) if files is None else files
