"""Track the metadata files of tables for a custom catalog, as Iceberg's commit paths require."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Self

from endive.catalog.base import Catalog, TableChanges
from endive.catalog.snapshots import CatalogCounters, CatalogSnapshot, CommitResult, IntentionRecord
from endive.randomness import RandomSource
from endive.steps import Step
from endive.table import TableFiles, TableModel


class AccountedCatalog(Catalog):
    """Wrapper that tracks the metadata files of tables for another catalog.

    A commit takes effect in the step that increments the ``seq`` of the wrapped catalog. The wrapper then applies the changes of
    the commit to the files of its tables. Snapshots contain the files of their table versions.
    """

    def __init__(self, catalog: Catalog, table_model: TableModel) -> None:
        self.table_model = table_model
        self._catalog = catalog
        self._shared = catalog
        self._files: dict[tuple[int, int], TableFiles] = {}

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the catalog as one transaction uses it."""
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
        """Commit, and apply the changes to the files in the step in which the commit takes effect."""
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
