"""Define catalogs that commit by one compare-and-swap of a commit pointer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms, store_resend_wait_ms
from endive.catalog.base import CommitRequest, StoredCatalog
from endive.catalog.snapshots import METADATA_TOO_LARGE, CommitResult
from endive.randomness import Stream
from endive.storage import CATALOG, FixedLatency, ProfiledProvider, StorageProfile
from endive.table import TableModel


class CASCatalog(StoredCatalog):
    """Catalog with one object for each table group.

    A commit replaces the object, which causes all concurrent commits of the group to fail.

    A catalog with one group is a single-file catalog. A catalog with one group for each table has a commit pointer for each table
    (REST, JDBC).

    Raises:
        UnsupportedOperationError: If the object store does not support compare-and-swap.
    """

    needs_cas: ClassVar[bool] = True

    def _commit(self, request: CommitRequest) -> Generator[float, None, CommitResult]:
        """Replace the commit pointer of the table group by compare-and-swap.

        The client sends the request again while the object store throttles it.
        """
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
                response_ms = swap.success_ms
            else:
                self._state.counters.commit_throttled += throttled
                self._state.counters.commit_conflict += not throttled
                response_ms = failed_answer_ms(effect, swap.failure_ms)
            rest = response_ms - effect
            if rest > 0.0:
                yield rest
                now_ms += rest
            latency += response_ms
            if not throttled:
                return CommitResult(success, latency, sent, reason)
            wait = store_resend_wait_ms(sent, self.storage.uniform())
            yield wait
            now_ms += wait
            latency += wait

    @property
    def _write_interval_ms(self) -> float:
        """Time after a write during which the object store rejects another write of the same object, in ms."""
        limit = self.storage.object_writes_per_s
        return 0.0 if limit is None else 1000.0 / limit


class InstantCatalog(CASCatalog):
    """Catalog with a compare-and-swap of constant latency, for tests and lower bounds.

    The object store does not affect its latency.
    """

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
