"""Catalogs that commit by one compare-and-swap of a pointer."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms, store_resend_wait_ms
from endive.catalog.base import StoredCatalog, TableChanges
from endive.catalog.types import METADATA_TOO_LARGE, CommitResult, IntentionRecord
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
        group, now_ms, latency, sent = self._state.group_of(writes), timestamp_ms, 0.0, 0
        while True:
            request = self.storage.cas_ms(CATALOG, expected_seq, self.size_bytes)
            effect = moment_of_effect_ms(request.success_ms, self.linearization)
            yield effect
            now_ms += effect
            sent += 1
            throttled, reason = self._write_interval_ms > 0.0 and now_ms < group.writable_ms, None
            success = not throttled and group.seq == expected_seq
            if success and self._is_too_large(writes, intention, now_ms):
                success, reason = False, METADATA_TOO_LARGE
            if success:
                self._state.install(group, writes, partitions_written, changes)
                group.writable_ms = now_ms + self._write_interval_ms
                answer = request.success_ms
            else:
                self._state.counters.commit_throttled += throttled
                self._state.counters.commit_conflict += not throttled
                answer = failed_answer_ms(effect, request.failure_ms)
            rest = answer - effect
            if rest > 0.0:
                yield rest
                now_ms += rest
            latency += answer
            if not throttled:
                return CommitResult(success, latency, sent, reason)
            wait = store_resend_wait_ms(sent, self.storage.uniform())
            yield wait
            now_ms += wait
            latency += wait

    @property
    def _write_interval_ms(self) -> float:
        """How long after a write the store refuses the next one of the same object."""
        limit = self.storage.object_writes_per_s
        return 0.0 if limit is None else 1000.0 / limit

    def _is_too_large(self, writes: Mapping[int, int], intention: IntentionRecord | None, now_ms: float) -> bool:
        """Whether the new metadata of a table is more than the catalog takes; an expiry makes it smaller."""
        limit = self.metadata_limit_bytes
        if limit is None or (intention is not None and not intention.moves_ref):
            return False
        return self._state.is_over_limit(writes, limit, now_ms)


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
        metadata_limit_bytes: int | None = None,
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
            metadata_limit_bytes=metadata_limit_bytes,
        )
