"""Define the append catalog: a commit appends an intention record to a log, and only commits to the same tables conflict."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms
from endive.catalog.base import DEFAULT_CATALOG_BYTES, CommitRequest, Group, StoredCatalog
from endive.catalog.snapshots import CommitResult
from endive.storage import CATALOG, StorageProvider, UnsupportedOperationError
from endive.table import TableModel


class AppendCatalog(StoredCatalog):
    """Catalog with a checkpoint and a log for each table group.

    The object store rejects an append if the log no longer ends at the expected offset. The client then appends again at the new
    end. A record in the log is applied if its tables still have the versions on which the record is based. The client reads the
    catalog to learn whether its record was applied. When the log exceeds a threshold, it is sealed, and the next commit first
    compacts it by compare-and-swap.
    """

    replays_log: ClassVar[bool] = True

    def __init__(
        self,
        storage: StorageProvider,
        num_tables: int,
        partitions_per_table: Sequence[int],
        *,
        table_groups: Sequence[int] | None = None,
        linearization: float = 1.0,
        size_bytes: int = DEFAULT_CATALOG_BYTES,
        log_entry_bytes: int = 100,
        compaction_threshold_bytes: int = 16_000_000,
        compaction_max_entries: int = 0,
        table_model: TableModel | None = None,
    ) -> None:
        if not storage.supports_append:
            raise UnsupportedOperationError(f"provider {storage.name!r} does not support append, which an append catalog needs")
        super().__init__(
            storage,
            num_tables,
            partitions_per_table,
            table_groups=table_groups,
            linearization=linearization,
            size_bytes=size_bytes,
            table_model=table_model,
        )
        self.log_entry_bytes = log_entry_bytes
        self.compaction_threshold_bytes = compaction_threshold_bytes
        self.compaction_max_entries = compaction_max_entries

    def log_offset(self, group: int = 0) -> int:
        """Return the offset at which the log of a table group ends."""
        return self._state.groups[group].log_offset

    def _commit(self, request: CommitRequest) -> Generator[float, None, CommitResult]:
        """Append until the record is in the log, then read the catalog to learn the outcome."""
        group, offset = self._state.group_of(request.writes), request.intention.expected_offset
        if offset is None:
            offset = group.log_offset
        latency, round_trips = 0.0, 0
        landed = applied = False
        while not landed:
            if group.sealed:
                latency += yield from self._compact(group)
                round_trips += 1
            append = self.storage.append_ms(CATALOG, offset, self.log_entry_bytes)
            effect = moment_of_effect_ms(append.success_ms, self.linearization)
            yield effect
            landed = group.log_offset == offset
            if landed:
                applied = self._apply(group, request)
                response_ms = append.success_ms
            else:
                self._state.counters.append_physical_failure += 1
                offset = group.log_offset
                response_ms = failed_answer_ms(effect, append.failure_ms)
            if response_ms - effect > 0.0:
                yield response_ms - effect
            latency += response_ms
            round_trips += 1
        _, discovery = yield from self._timed_read(request.timestamp_ms + latency, group)
        return CommitResult(applied, latency + discovery, round_trips + 1)

    def _apply(self, group: Group, request: CommitRequest) -> bool:
        """Add a record to the log, apply it if it does not conflict, and return whether it was applied."""
        counters = self._state.counters
        counters.append_physical_success += 1
        group.log_offset += self.log_entry_bytes
        group.entries_since_checkpoint += 1
        relied_on = {**request.intention.tables_read, **{table_id: new - 1 for table_id, new in request.writes.items()}}
        applied = all(self.tables[table_id].version == version for table_id, version in relied_on.items())
        if applied:
            counters.append_logical_success += 1
            self._state.install(group, request)
        else:
            counters.append_logical_conflict += 1
            counters.commit_conflict += 1
        if not group.sealed and self._exceeds_threshold(group):
            group.sealed = True
            counters.append_compactions_triggered += 1
        return applied

    def _exceeds_threshold(self, group: Group) -> bool:
        too_long = group.log_offset - group.checkpoint_offset > self.compaction_threshold_bytes
        too_many = 0 < self.compaction_max_entries <= group.entries_since_checkpoint
        return too_long or too_many

    def _compact(self, group: Group) -> Generator[float, None, float]:
        """Write a new checkpoint by compare-and-swap. Of several concurrent compactions, only the first succeeds."""
        checkpoint = group.checkpoint_offset
        request = self.storage.compaction_ms(CATALOG, group.seq, self.size_bytes)
        effect = moment_of_effect_ms(request.success_ms, self.linearization)
        yield effect
        if group.checkpoint_offset == checkpoint:
            group.sealed = False
            group.checkpoint_offset = group.log_offset
            group.entries_since_checkpoint = 0
            self._state.counters.append_compactions_completed += 1
            response_ms = request.success_ms
        else:
            response_ms = failed_answer_ms(effect, request.failure_ms)
        if response_ms - effect > 0.0:
            yield response_ms - effect
        return response_ms
