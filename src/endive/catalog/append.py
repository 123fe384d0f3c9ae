"""The catalog log: commits are appended as intention records, and conflict only where their tables do."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar

from endive.arithmetic.costs import failed_answer_ms, moment_of_effect_ms
from endive.catalog.base import DEFAULT_CATALOG_BYTES, CommitRequest, Group, StoredCatalog
from endive.catalog.types import CommitResult
from endive.storage import CATALOG, StorageProvider, UnsupportedOperationError
from endive.table import TableModel


class AppendCatalog(StoredCatalog):
    """A checkpoint and a log per table group.

    An append is refused if the log no longer ends where the transaction thinks (a physical failure, tried again at the new end).
    Once it is in the log, it is applied if the tables it names still have the versions it relies on; a read tells which. When
    the log has grown past a threshold it is sealed, and the next commit first pays a compare-and-swap that compacts it.
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
            raise UnsupportedOperationError(f"provider {storage.name!r} cannot append, so it cannot hold a catalog log")
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
        """Where the log of a group ends."""
        return self._state.groups[group].log_offset

    def _commit(self, request: CommitRequest) -> Generator[float, None, CommitResult]:
        """Append until the record is in the log, then read the catalog to learn whether it was applied."""
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
                answer = append.success_ms
            else:
                self._state.counters.append_physical_failure += 1
                offset = group.log_offset
                answer = failed_answer_ms(effect, append.failure_ms)
            if answer - effect > 0.0:
                yield answer - effect
            latency += answer
            round_trips += 1
        _, discovery = yield from self._timed_read(request.timestamp_ms + latency, group)
        return CommitResult(applied, latency + discovery, round_trips + 1)

    def _apply(self, group: Group, request: CommitRequest) -> bool:
        """Enter a record into the log and say whether it takes effect."""
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
        if not group.sealed and self._over_threshold(group):
            group.sealed = True
            counters.append_compactions_triggered += 1
        return applied

    def _over_threshold(self, group: Group) -> bool:
        too_long = group.log_offset - group.checkpoint_offset > self.compaction_threshold_bytes
        too_many = 0 < self.compaction_max_entries <= group.entries_since_checkpoint
        return too_long or too_many

    def _compact(self, group: Group) -> Generator[float, None, float]:
        """Write a new checkpoint by compare-and-swap of the old one; whoever comes second finds another there."""
        checkpoint = group.checkpoint_offset
        request = self.storage.compaction_ms(CATALOG, group.seq, self.size_bytes)
        effect = moment_of_effect_ms(request.success_ms, self.linearization)
        yield effect
        if group.checkpoint_offset == checkpoint:
            group.sealed = False
            group.checkpoint_offset = group.log_offset
            group.entries_since_checkpoint = 0
            self._state.counters.append_compactions_completed += 1
            answer = request.success_ms
        else:
            answer = failed_answer_ms(effect, request.failure_ms)
        if answer - effect > 0.0:
            yield answer - effect
        return answer
