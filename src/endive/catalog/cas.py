"""Catalogs that commit by one compare-and-swap of a pointer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms, store_resend_wait_ms
from endive.catalog.base import CommitRequest, StoredCatalog
from endive.catalog.types import METADATA_TOO_LARGE, CommitResult
from endive.randomness import Stream
from endive.storage import CATALOG, FixedLatency, ProfiledProvider, StorageProfile
from endive.table import TableModel


class CASCatalog(StoredCatalog):
    """A catalog in one object per table group, replaced as a whole: any commit of the group makes the others start anew.

    With one group it is the single-file catalog; with as many groups as tables it is a per-table catalog (REST, JDBC). Raises
    ``UnsupportedOperationError`` if the store has no compare-and-swap.
    """

    needs_cas: ClassVar[bool] = True

    def _commit(self, request: CommitRequest) -> Generator[float, None, CommitResult]:
        """One compare-and-swap of the group's pointer."""
        group, now_ms, latency, sent = self._state.group_of(request.writes), request.timestamp_ms, 0.0, 0
        while True:
            swap = self.storage.cas_ms(CATALOG, request.expected_seq, self.size_bytes)
            effect = moment_of_effect_ms(swap.success_ms, self.linearization)
            yield effect
            now_ms += effect
            sent += 1
            throttled, reason = self._write_interval_ms > 0.0 and now_ms < group.writable_ms, None
            success = not throttled and group.seq == request.expected_seq
            if success and self._is_too_large(request, now_ms):
                success, reason = False, METADATA_TOO_LARGE
            if success:
                self._state.install(group, request)
                group.writable_ms = now_ms + self._write_interval_ms
                answer = swap.success_ms
            else:
                self._state.counters.commit_throttled += throttled
                self._state.counters.commit_conflict += not throttled
                answer = failed_answer_ms(effect, swap.failure_ms)
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
