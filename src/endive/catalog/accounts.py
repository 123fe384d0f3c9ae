"""Keeps account of the files of tables for a catalog that does not: how a user's own catalog works on Iceberg's commit paths."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Self

from endive.catalog.base import Catalog, TableChanges
from endive.catalog.types import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord
from endive.randomness import RandomSource
from endive.steps import Step
from endive.table import TableFiles, TableModel


class AccountedCatalog(Catalog):
    """A catalog with an account of files beside it.

    A commit was installed by the step in which ``seq`` of the catalog grew; the files of its tables are those of the versions
    before, with the changes of the commit on top. Snapshots show the files of the versions that they name.
    """

    def __init__(self, catalog: Catalog, table_model: TableModel) -> None:
        self.table_model = table_model
        self._catalog = catalog
        self._watched = catalog
        self._files: dict[tuple[int, int], TableFiles] = {}

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the same catalog as one transaction sees it."""
        view = copy.copy(self)
        view._catalog = self._catalog.bind(rng, group)
        return view

    @property
    def seq(self) -> int:
        """How many commits were installed."""
        return self._watched.seq

    @property
    def counters(self) -> CatalogCounters:
        """What happened so far."""
        return self._watched.counters

    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Learn the current state."""
        snapshot = yield from self._catalog.read(timestamp_ms)
        return replace(
            snapshot, tables=tuple(replace(table, files=self._at(table.table_id, table.version)) for table in snapshot.tables)
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
        """Commit, and enter the changes where the commit is installed."""
        steps = self._catalog.commit(expected_seq, writes, timestamp_ms, intention, partitions_written=partitions_written)
        while True:
            before = self._watched.seq
            try:
                step = next(steps)
            except StopIteration as stop:
                self._enter(before, writes, changes)
                result: CommitResult = stop.value
                return result
            self._enter(before, writes, changes)
            yield step

    def _enter(self, before: int, writes: Mapping[int, int], changes: Mapping[int, TableChanges] | None) -> None:
        if self._watched.seq == before:
            return
        for table_id, version in writes.items():
            files = self._at(table_id, version - 1)
            for change in () if changes is None else changes[table_id]:
                files = files.after(change)
            self._files[table_id, version] = files

    def _at(self, table_id: int, version: int) -> TableFiles:
        files = self._files.get((table_id, version))
        return TableFiles.initial(self.table_model) if files is None else files
