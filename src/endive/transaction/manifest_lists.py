"""Manifest lists as logs (ML+): the end of each table's list, and whether it is sealed.

The lists are owned by the run and shared by its transactions. Entries are tentative until their transaction commits; readers ignore
entries of transactions that did not commit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ManifestListCounters:
    """Counters of the manifest lists, incremented at the linearization point."""

    manifest_append_physical_success: int = 0
    manifest_append_physical_failure: int = 0
    manifest_append_sealed_rewrite: int = 0


class ManifestLists:
    """Manifest list of each table. A list larger than ``seal_threshold_bytes`` is sealed; 0 disables sealing.

    Offsets continue to grow when a list is rewritten, so an append to the old list fails.
    """

    def __init__(self, num_tables: int, seal_threshold_bytes: int = 0) -> None:
        self._offsets = [0] * num_tables
        self._starts = [0] * num_tables
        self._sealed = [False] * num_tables
        self.seal_threshold_bytes = seal_threshold_bytes
        self.counters = ManifestListCounters()

    def end_of(self, table_id: int) -> tuple[int, bool]:
        """Return the end of a table's list, and whether the list is sealed."""
        return self._offsets[table_id], self._sealed[table_id]

    def append(self, table_id: int, expected_offset: int, entry_bytes: int) -> bool:
        """Append an entry if the list still ends at ``expected_offset`` and is not sealed."""
        if self._sealed[table_id] or self._offsets[table_id] != expected_offset:
            self.counters.manifest_append_physical_failure += 1
            return False
        self._offsets[table_id] += entry_bytes
        if 0 < self.seal_threshold_bytes < self._offsets[table_id] - self._starts[table_id]:
            self._sealed[table_id] = True
        self.counters.manifest_append_physical_success += 1
        return True

    def replace_sealed(self, table_id: int) -> None:
        """Replace a sealed list by a new one, unless another transaction has replaced it."""
        if self._sealed[table_id]:
            self._starts[table_id] = self._offsets[table_id]
            self._sealed[table_id] = False
            self.counters.manifest_append_sealed_rewrite += 1
