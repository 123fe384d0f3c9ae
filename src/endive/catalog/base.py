"""The interface of catalogs, and the state that the built-in ones keep.

Reads return immutable snapshots; commits name the sequence number that they are based on and return whether they were installed.
The catalog owns the versions of tables and partitions and one sequence number for each table group; nobody else changes them.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from endive.arithmetic.costs import moment_of_effect_ms
from endive.arithmetic.manifests import metadata_size
from endive.catalog.types import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord, TableMetadata
from endive.randomness import RandomSource
from endive.steps import Step
from endive.storage import CATALOG, StorageProvider, UnsupportedOperationError
from endive.table import TableChange, TableFiles, TableModel

DEFAULT_CATALOG_BYTES = 4096
TableChanges = tuple[TableChange, ...]
"""What a commit does to a table: one change for each snapshot that it makes."""


class Catalog(ABC):
    """What a transaction may ask of a catalog. Subclass it for a catalog of your own."""

    @abstractmethod
    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Learn the current state."""

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
        """Install new versions of tables (table id to new version), if nothing that they rely on has changed.

        ``partitions_written`` says which partitions of each table change; None means all of them. A catalog that keeps account
        of files (``table_model``) also takes ``changes``: what becomes of the snapshots and manifests of each table.
        """

    @property
    @abstractmethod
    def seq(self) -> int:
        """How many commits were installed."""

    def bind(self, rng: RandomSource | None, group: int = 0) -> Catalog:
        """Return the same catalog as one transaction sees it: drawing from its stream (if it has one), reading its table group."""
        return self

    def narrowed(self, tables: Collection[int]) -> Catalog:
        """Return the same view for a transaction that reads these tables only, where its costs depend on them."""
        return self

    @property
    def takes_requirements(self) -> bool:
        """Whether a commit says what it relies on and is checked by the catalog alone (REST), so that no client looks before."""
        return False

    def fresh(self) -> Self:
        """Return the same catalog before its first commit, so that a configuration can be run more than once."""
        return copy.deepcopy(self)

    @property
    def counters(self) -> CatalogCounters:
        """What happened so far."""
        return CatalogCounters()


class CommitRequest(NamedTuple):
    """What a commit asks of a built-in catalog; ``partitions`` and ``changes`` as ``Catalog.commit`` takes them."""

    expected_seq: int
    writes: Mapping[int, int]
    timestamp_ms: float
    intention: IntentionRecord
    partitions: Mapping[int, frozenset[int]] | None
    changes: Mapping[int, TableChanges] | None


@dataclass
class Group:
    """The shared object of one table group: a pointer for compare-and-swap, or a log."""

    seq: int = 0
    log_offset: int = 0
    checkpoint_offset: int = 0
    entries_since_checkpoint: int = 0
    sealed: bool = False
    writable_ms: float = 0.0
    """From when on the store takes the next write of the pointer."""


class CatalogState:
    """The mutable heart of a built-in catalog, shared by the views that ``bind`` makes."""

    def __init__(
        self, partitions_per_table: Sequence[int], table_groups: Sequence[int], table_model: TableModel | None = None
    ) -> None:
        files = None if table_model is None else TableFiles.initial(table_model)
        self.tables = tuple(TableMetadata(i, 0, n, (0,) * n, files) for i, n in enumerate(partitions_per_table))
        self.table_groups = tuple(table_groups)
        self.groups = [Group() for _ in range(max(self.table_groups) + 1)]
        self.counters = CatalogCounters()

    def group_of(self, writes: Mapping[int, int]) -> Group:
        """Return the one group that all the written tables belong to."""
        ids = {self.table_groups[table_id] for table_id in writes}
        if len(ids) != 1:
            raise ValueError(f"a commit belongs to one table group, but tables {sorted(writes)} are of groups {sorted(ids)}")
        return self.groups[ids.pop()]

    def install(self, group: Group, request: CommitRequest) -> None:
        """Put new versions in place of the old ones; snapshots that were handed out keep the old ones."""
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
            ref = table.ref + request.intention.moves_ref
            tables[table_id] = TableMetadata(table_id, new_version, table.num_partitions, versions, files, ref)
        self.tables = tuple(tables)
        group.seq += 1
        self.counters.commit_success += 1


class StoredCatalog(Catalog):
    """What the built-in catalogs have in common: state, and a read that takes effect at ``linearization`` of its latency."""

    needs_cas: ClassVar[bool] = False
    """Whether the store has to have compare-and-swap."""
    replays_log: ClassVar[bool] = False
    """Whether each log entry since the checkpoint adds to a read."""

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
            raise ValueError(f"{num_tables} tables need {num_tables} partition counts, not {len(partitions_per_table)}")
        if not 0.0 <= linearization <= 1.0:
            raise ValueError(f"linearization is {linearization}, but must lie in [0, 1]")
        if self.needs_cas and not storage.supports_cas:
            raise UnsupportedOperationError(f"provider {storage.name!r} has no compare-and-swap, so it cannot hold this catalog")
        self.storage = storage
        self.linearization = linearization
        self.size_bytes = size_bytes
        self.table_model = table_model
        self.metadata_limit_bytes = metadata_limit_bytes
        self._group_id = 0
        groups = (0,) * num_tables if table_groups is None else tuple(table_groups)
        if len(groups) != num_tables or min(groups) < 0:
            raise ValueError(f"{num_tables} tables need as many groups, numbered from 0, not {groups}")
        self._state = CatalogState(partitions_per_table, groups, table_model)

    def fresh(self) -> Self:
        """Return the same catalog before its first commit."""
        catalog = copy.copy(self)
        catalog._state = CatalogState([table.num_partitions for table in self.tables], self.table_groups, self.table_model)
        return catalog

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the same catalog as one transaction sees it: drawing from its stream (if it has one), reading its table group."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        if rng is not None:
            view.storage = self.storage.bind(rng)
        view._group_id = group
        return view

    @property
    def seq(self) -> int:
        """How many commits were installed, in all groups."""
        return sum(group.seq for group in self._state.groups)

    def group_seq(self, group: int) -> int:
        """Return how many commits were installed in one group."""
        return self._state.groups[group].seq

    @property
    def tables(self) -> tuple[TableMetadata, ...]:
        """The tables as they are now, for whoever watches the run from outside."""
        return self._state.tables

    @property
    def table_groups(self) -> tuple[int, ...]:
        """The group of each table."""
        return self._state.table_groups

    @property
    def counters(self) -> CatalogCounters:
        """What happened so far."""
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
        """Install new versions of tables, if nothing that they rely on has changed."""
        intention = intention or IntentionRecord(-1, expected_seq, writes)
        return self._commit(CommitRequest(expected_seq, writes, timestamp_ms, intention, partitions_written, changes))

    def _commit(self, request: CommitRequest) -> Generator[Step, None, CommitResult]:
        raise NotImplementedError

    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Learn the current state of the group."""
        snapshot, _ = yield from self._timed_read(timestamp_ms, self._state.groups[self._group_id])
        return snapshot

    def _timed_read(self, timestamp_ms: float, group: Group) -> Generator[float, None, tuple[CatalogSnapshot, float]]:
        """Read the catalog, and add the time of a log that is replayed entry by entry."""
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
        """Return whether one more snapshot makes metadata.json exceed the limit, and record when it first did."""
        limit, counters = self.metadata_limit_bytes, self.counters
        if limit is None or not request.intention.moves_ref:  # an expiry makes it smaller
            return False
        for table_id in request.writes:
            files = self.tables[table_id].files
            if files is not None and metadata_size(files.model, files.snapshots + 1) > limit:
                if counters.metadata_limit_reached_ms == 0.0:
                    counters.metadata_limit_reached_ms = now_ms
                return True
        return False
