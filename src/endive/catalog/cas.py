"""Catalogs that commit by one compare-and-swap of a pointer."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms
from endive.catalog.base import StoredCatalog, TableChanges
from endive.catalog.types import CommitResult, IntentionRecord
from endive.randomness import Stream
from endive.storage import CATALOG, FixedLatency, ProfiledProvider, StorageProfile
from endive.table import TableModel


class CASCatalog(StoredCatalog):
    """A catalog in one object per table group, replaced as a whole: any commit of the group makes the others start anew.

    With one group it is the single-file catalog; with as many groups as tables it is a per-table catalog (REST, JDBC). Raises
    ``UnsupportedOperationError`` if the store has no compare-and-swap.
    """

    needs_cas: ClassVar[bool] = True

    def commit(
        self,
        expected_seq: int,
        writes: Mapping[int, int],
        timestamp_ms: float = 0.0,
        intention: IntentionRecord | None = None,
        *,
        partitions_written: Mapping[int, frozenset[int]] | None = None,
        changes: Mapping[int, TableChanges] | None = None,
    ) -> Generator[float, None, CommitResult]:
        """One compare-and-swap of the group's pointer."""
        group = self._state.group_of(writes)
        request = self.storage.cas_ms(CATALOG, expected_seq, self.size_bytes)
        effect = moment_of_effect_ms(request.success_ms, self.linearization)
        yield effect
        success = group.seq == expected_seq
        if success:
            self._state.install(group, writes, partitions_written, changes)
            latency = request.success_ms
        else:
            self._state.counters.commit_conflict += 1
            latency = failed_answer_ms(effect, request.failure_ms)
        rest = latency - effect
        if rest > 0.0:
            yield rest
        return CommitResult(success, latency)


class InstantCatalog(CASCatalog):
    """A compare-and-swap catalog of its own with one fixed latency, for tests and for asking what an ideal catalog would give."""

    def __init__(
        self,
        num_tables: int,
        partitions_per_table: Sequence[int],
        latency_ms: float = 1.0,
        *,
        table_groups: Sequence[int] | None = None,
        linearization: float = 1.0,
        table_model: TableModel | None = None,
    ) -> None:
        fixed = FixedLatency(latency_ms)
        profile = StorageProfile("instant catalog", latency_ms, {"*": fixed}, {"*": fixed}, cas=fixed)
        super().__init__(
            ProfiledProvider(profile, Stream(0)),
            num_tables,
            partitions_per_table,
            table_groups=table_groups,
            linearization=linearization,
            table_model=table_model,
        )
